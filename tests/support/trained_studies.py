"""Small studies that train their networks, by a recipe as small as it goes."""

from __future__ import annotations

from pathlib import Path

from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from ablate.core.workspace import Workspace
from ablate.models.recipe import Recipe
from tests.support.studies import make_root

TEXT = """
question = "What does training do?"
bundle = "tiny.safetensors"
recipe = "small"
training_seeds = [5, 7]
method = "grid"
seeds = [0, 1, 2, 3]
confirm = false
[fixed]
sampler = "pf-euler"
init = "class-gaussian"
sigma = 0.8
levels = 4
[search]
train.optimiser = ["muon", "adamw"]
[budgets.quick]
samples = 40
"""

RECIPE = """
dataset = "digits"
steps = {steps}
batch = 32
warmup = 3
rate = 3e-3
rank = 64
class_rank = 16
checkpoint_every = 5
[net]
widths = [8]
blocks = 1
"""


def trained_root(folder: Path, bundle: Path, *pairs: tuple[str, str], steps: int = 10) -> Path:
    """A root with the recipe `small` and the study `tiny`, after replacing texts in its file."""
    root, text = make_root(folder, bundle), TEXT
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (root / "studies" / "tiny.toml").write_text(text)
    (root / "studies" / "train").mkdir()
    (root / "studies" / "train" / "small.toml").write_text(RECIPE.format(steps=steps))
    return root


def trainings(root: Path) -> list[Run]:
    """The runs of trainings by the recipe `small`."""
    client = MlflowClient(Workspace(root).tracking_uri)
    experiment = client.get_experiment_by_name("train-small")
    return [] if experiment is None else list(client.search_runs([experiment.experiment_id]))


def files(root: Path, ending: str = ".safetensors") -> list[str]:
    """Names of stored networks, or of other files beside them."""
    return sorted(path.name for path in (root / "mlruns" / "trained").glob(f"[!.]*{ending}"))


def small_recipe() -> Recipe:
    import tomllib

    return Recipe.model_validate(tomllib.loads(RECIPE.format(steps=10)))
