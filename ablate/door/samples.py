"""`ablate.sample`: images drawn from a bundle."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ablate.core.device import resolve
from ablate.core.errors import UserError
from ablate.core.validation import one_line
from ablate.core.workspace import Workspace
from ablate.data.contact_sheet import picture
from ablate.door.bundles import BundleHandle, load_bundle
from ablate.generate.applicability import listens
from ablate.generate.presets import FEW_STEP_LEVELS, few_step_settings
from ablate.generate.settings import Settings
from ablate.samplers.registry import SAMPLERS

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
    from torch import Tensor

COLUMNS, SHOWN = 16, 64
"""Images in a row of a picture, and in a picture."""


@dataclass(frozen=True, repr=False, eq=False)
class Images:
    """Sampled images, with what drew them. A notebook shows them as a grid."""

    pixels: Tensor  # uint8, [N, C, H, W]
    bundle: BundleHandle
    knobs: Mapping[str, Any]  # the configuration
    seed: int
    nfe: int  # network evaluations a sample
    labels: Tensor | None = None  # the class that the network was told for each, [N]

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, which: slice) -> Images:
        if not isinstance(which, slice):
            raise TypeError("take a slice, such as images[:16]; single images are in .pixels")
        labels = None if self.labels is None else self.labels[which]
        return Images(self.pixels[which], self.bundle, self.knobs, self.seed, self.nfe, labels)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.pixels.shape[1:]))
        return (
            f"{len(self)} images of {shape}: {self.bundle.name}, {self.knobs['sampler']},"
            f" {self.knobs['init']}, {self.nfe} evaluations, seed {self.seed}"
        )

    def numpy(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """As an array, uint8, [N, H, W, C]."""
        return self.pixels.permute(0, 2, 3, 1).numpy()

    def grid(self, columns: int = COLUMNS) -> Image:
        """All images in one picture."""
        return picture(self.pixels, columns)

    def _repr_html_(self) -> str:
        out = io.BytesIO()
        self[:SHOWN].grid().save(out, format="png")
        encoded = base64.b64encode(out.getvalue()).decode()
        return f'<p>{self!r}</p><img src="data:image/png;base64,{encoded}">'


def sample(
    bundle: BundleHandle | str,
    *,
    samples: int = 64,
    seed: int = 0,
    sampler: str = "pf-heun",
    device: str = "auto",
    root: str | Path = ".",
    **knobs: Any,
) -> Images:
    """Draw images from a bundle; sample i of a seed is the same at any number of samples.

    Knobs are those of a study file: init, sigma, chi, r, L, n, levels, grid and so on. What is not
    given is class-gaussian starts at sigma = 0.8, and for the probability-flow samplers 18 levels
    on Karras' grid.

    >>> import ablate
    >>> images = ablate.sample("digits", sampler="adls", chi=0.9995, r=0.65, levels=10, samples=4)
    >>> images.pixels.shape
    torch.Size([4, 1, 8, 8])
    """
    from ablate.generate.draw import draw
    from ablate.generate.guidance import check_guidance, load_guides
    from ablate.generate.source import check_noise_range, check_starts, make_source

    handle = load_bundle(bundle, root) if isinstance(bundle, str) else bundle
    settings = settings_for(handle, {"sampler": sampler, **knobs})
    check_noise_range(settings, handle.card)
    source = make_source(handle.bundle, [settings.init])
    check_starts([settings], source)
    guides = load_guides([settings], Workspace(Path(root)))
    check_guidance(settings, handle.bundle, guides)
    guiding = {name: guide.score_model for name, guide in guides.items()}
    score = handle.bundle.score_model._replace(guides=guiding)
    drawn = draw(score, source, settings, seed, samples, resolve(device))
    if drawn.reason:
        raise UserError(f"{handle.name}: the samples diverged ({drawn.reason})")
    return Images(drawn.pixels, handle, settings.knobs(), seed, drawn.nfe, drawn.labels)


def settings_for(handle: BundleHandle, knobs: Mapping[str, Any]) -> Settings:
    """The given knobs, and defaults for the rest that apply to the sampler."""
    sampler = knobs["sampler"]
    if sampler not in SAMPLERS:
        raise UserError(SAMPLERS.unknown(sampler))
    preset = few_step_settings(FEW_STEP_LEVELS, (handle.card.s_min, handle.card.s_max))
    defaults = preset.model_dump(exclude_none=True, exclude_defaults=True)
    if SAMPLERS[sampler].stochastic:
        defaults = {name: defaults[name] for name in ("init", "sigma", "s_min")}
    if "cost" in knobs:
        defaults.pop("levels", None)  # the cost decides it
    chosen = {**defaults, **knobs}
    applying = {k: v for k, v in chosen.items() if k in knobs or listens(k, chosen)}
    try:
        return Settings.model_validate(applying)
    except ValidationError as error:
        raise UserError(one_line(error)) from None
