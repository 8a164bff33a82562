"""The effect of each switch of a recipe: digits, the same number of steps for each.

    python -m tests.benchmarks.objectives [STEPS]

Prints held-out denoising error by noise level, and FID and KID of 1,024 few-step samples in the
digits classifier's features, started from training images pushed forward: what is left is the
network's. A step costs the same in all of them but for the optimiser's part.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ablate.core.workspace import Workspace
from ablate.data.datasets import load
from ablate.experiment.showcase import showcase
from ablate.generate.presets import few_step_settings
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.models.bundle import read_card
from ablate.training.pack import make_bundle, read_recipe

VARIANTS: dict[str, dict[str, object]] = {
    "as shipped": {},
    "without focus": {"focus": 0.0},
    "and scalar (EDM), not Wiener": {"focus": 0.0, "rank": 0, "class_rank": 0},
    "and AdamW, not Muon": {"focus": 0.0, "rank": 0, "class_rank": 0, "optimiser": "adamw"},
    "the paper's loss, Muon": {"objective": "paper"},
    "the paper's loss, AdamW": {"objective": "paper", "optimiser": "adamw", "rate": 1e-3},
}
LEVELS = (0.05, 0.2, 0.4)  # the paper's reach from 0.025 to 0.8


def main(steps: int = 800) -> None:
    base = read_recipe(Workspace(Path()).find_toml("digits", "train"))
    dataset, extractor = load("digits"), load_extractor(shipped_path("digits"))
    print(f"digits, {steps} steps of {base.batch} images; errors ×1e-3")
    print(f"{'':30s}" + "".join(f"  s={s:<5g}" for s in LEVELS) + "    fid      kid")
    for name, changes in VARIANTS.items():
        recipe = base.model_copy(update={"steps": steps, **changes})
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            bundle = folder / "variant.safetensors"
            files = (folder / "variant.pt", bundle)
            trained = make_bundle("variant", recipe, dataset, extractor, *files)
            card = read_card(bundle)
            few = few_step_settings(10, (card.s_min, card.s_max))
            settings = few.model_copy(update={"init": "forward-data"})
            picture = folder / "samples.png"
            metrics = showcase(
                Workspace(folder), str(bundle), settings, 1024, 0, picture, "cpu"
            ).metrics
        errors = "".join(f"  {1e3 * trained.heldout_error[s]:7.3f}" for s in LEVELS)
        print(f"{name:30s}{errors}  {metrics['fid']:6.2f}  {metrics['kid']:7.4f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
