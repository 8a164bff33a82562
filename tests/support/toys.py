"""One toy of every kind that users may register, and a study that uses them all.

This file is also the module of a throw-away package: it must not import from the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ablate.core.knobs import Knob
from ablate.core.registry import Registry
from ablate.data.datasets import Dataset, Images
from ablate.data.registry import DATASETS, ClassifierRecipe, DatasetSource
from ablate.diffusion.grids import Level
from ablate.diffusion.inits import INITS, Init, Source
from ablate.diffusion.moments import Moments
from ablate.metrics.estimate import Measured, mean_of
from ablate.metrics.reference import Reference
from ablate.metrics.registry import METRICS, Metric
from ablate.models.objectives import OBJECTIVES, Levels, TrainingObjective
from ablate.nets.config import Net
from ablate.nets.precondition import Model
from ablate.nets.registry import NETWORKS, Network
from ablate.report.blocks import Paragraph
from ablate.report.sections import SECTIONS, Section
from ablate.results import StudyResults
from ablate.samplers.kernel import Denoiser, Info, State
from ablate.samplers.registry import SAMPLERS, Sampler
from ablate.search.proposals import Proposal
from ablate.study.definition import Study
from ablate.study.methods import METHODS, SearchMethod


def load_stripes(folder: Path) -> Dataset:
    """Two classes of 6×6 images: stripes that lie or stand, with some noise."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 2
    bars = (torch.arange(6) % 2 * 200.0).expand(6, 6)
    pixels = torch.where(labels[:, None, None] == 0, bars, bars.T)
    pixels = pixels + 40 * torch.rand(pixels.shape, generator=generator)
    images = Images(pixels.to(torch.uint8)[:, None], labels)
    return Dataset(
        "toy-stripes",
        Images(images.pixels[:90], images.labels[:90]),
        Images(images.pixels[90:], images.labels[90:]),
        licence="none",
    )


STRIPES = DatasetSource(
    "toy-stripes",
    load_stripes,
    classes=2,
    classifier=ClassifierRecipe((4, 8), patch=1, epochs=1, batch=16),
)


class Mixed(nn.Module):
    """One convolution whose output is scaled by a number; it ignores the noise level."""

    def __init__(self, inputs: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.inner, self.scale = nn.Conv2d(inputs, outputs, 3, padding=1), scale

    def forward(self, image: Tensor, log_s: Tensor, labels: Tensor | None = None) -> Tensor:
        out: Tensor = self.scale * self.inner(image)
        return out


def build_mixed(config: Net, inputs: int, outputs: int) -> nn.Module:
    return Mixed(inputs, outputs, float(config.options["scale"]))


NETWORK = Network("toy-net", "one convolution", build_mixed)


class Residual(Model):
    """D(y; s) = y - F(y; log s), trained by its plain squared error."""

    def forward(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        out: Tensor = y - self.net(y, s.log())
        return out

    def losses(self, y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None = None) -> Tensor:
        denoised = self(y_0 + s[:, None, None, None] * z, s)
        losses: Tensor = ((denoised - y_0) ** 2).flatten(1).mean(1)
        return losses


def residual(net: nn.Module, moments: Moments) -> Model:
    return Residual(net)


def middle_level(recipe: Levels, generator: Generator) -> Tensor:
    return torch.full((recipe.batch,), 0.5)


OBJECTIVE = TrainingObjective(
    "toy-objective",
    "plain error at s = 0.5",
    inputs=1,
    parametrise=residual,
    noise_range=lambda recipe: (recipe.s_min, recipe.s_max),
    noise_levels=middle_level,
)


def flat(source: Source, s: float, u: Tensor, z: Tensor) -> Tensor:
    """The same grey in every pixel, and noise."""
    return 0.3 + s * z


INIT = Init("toy-flat", "grey, pushed forward", flat)


def first_memory(state: State, *, lag: float) -> list[float]:
    return [lag]


def remembering(
    denoiser: Denoiser, state: State, level: Level, z: Tensor, *, lag: float
) -> tuple[State, Info]:
    """Euler's method with a slope that is mixed with the last one, kept in the memory."""
    slope = (state.y - denoiser(state.y, level.s)) / level.s
    last = state.memory[-1]
    mixed = slope if isinstance(last, float) else (1 - lag) * slope + lag * last
    y = state.y + (level.s_next - level.s) * mixed
    return state._replace(y=y, memory=[*state.memory, slope]), Info()


SAMPLER = Sampler(
    "toy-sampler",
    "Euler's method with a memory",
    remembering,
    stochastic=False,
    own=(Knob("lag", "share of the last slope", low=0.0, high=0.5, default=0.1),),
    init=first_memory,
)


def brightest(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The mean of each sample's largest feature."""
    return {"toy-metric": mean_of(samples.amax(1))}


METRIC = Metric("toy-metric", "Brightness", "maximize", brightest, prunes=True)


def backwards(study: Study, n: int, history: Sequence[Any]) -> Proposal:
    """A grid from its end."""
    return Proposal([*study.grid()][-1 - n], {})


METHOD = SearchMethod("toy-method", "a grid from its end", backwards, learns=False, finite=True)


def count_trials(results: StudyResults, context: Any) -> list[Paragraph]:
    return [Paragraph(f"There are {len(results.trials)} trials.")]


SECTION = Section("toy-section", "How many trials", count_trials)

TOYS: dict[str, tuple[Registry[Any], Any]] = {
    "STRIPES": (DATASETS, STRIPES),
    "NETWORK": (NETWORKS, NETWORK),
    "OBJECTIVE": (OBJECTIVES, OBJECTIVE),
    "INIT": (INITS, INIT),
    "SAMPLER": (SAMPLERS, SAMPLER),
    "METRIC": (METRICS, METRIC),
    "METHOD": (METHODS, METHOD),
    "SECTION": (SECTIONS, SECTION),
}

RECIPE = """
dataset = "toy-stripes"
steps = 4
batch = 8
rank = 8
class_rank = 4
objective = "toy-objective"
[net]
kind = "toy-net"
options = { scale = 0.5 }
"""

STUDY = """
question = "Do toys run?"
bundle = "toys"
method = "toy-method"
seeds = [0, 1]
objectives = [{ metric = "toy-metric" }]
[fixed]
sampler = "toy-sampler"
init = "toy-flat"
sigma = 0.8
levels = 5
[search]
lag = [0.0, 0.25]
[budgets.quick]
samples = 12
"""


def write_files(root: Path) -> None:
    """The training file and the study file of the toys."""
    (root / "studies" / "train").mkdir(parents=True)
    (root / "studies" / "train" / "toys.toml").write_text(RECIPE)
    (root / "studies" / "toys.toml").write_text(STUDY)
