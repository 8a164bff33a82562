"""The metrics as `torchmetrics.Metric` classes, for use in any training loop.

    kid = KID(reference, extractor)
    kid.update(pixels)          # uint8, [B, C, H, W]; call it as often as needed
    kid.compute()               # {"kid": …}, bit for bit the value of `ablate.evaluate`

They only collect features; `compute` calls the functions of this folder. Images pass the extractor
in batches of one size however they arrive, because the last bits of a convolution depend on the
batch size. With several processes torchmetrics gathers what each has collected.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ablate.metrics.copies import Control, find_copies, make_control
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.metrics.reference import Reference, measure


class _FeatureMetric(Metric):
    """Collects the features of samples; subclasses define `compute`."""

    is_differentiable = False
    full_state_update = False
    features: list[Tensor]
    pending: list[Tensor]

    def __init__(self, extractor: Extractor | None = None, **kwargs: Any) -> None:
        """extractor: makes features of uint8 pixels; None if `update` is given features."""
        super().__init__(**kwargs)
        self._extractor = extractor
        self.add_state("features", default=[], dist_reduce_fx="cat")  # [n, f] each
        self.add_state(
            "pending", default=[], dist_reduce_fx="cat"
        )  # pixels that do not fill a batch yet

    def update(self, samples: Tensor) -> None:
        """Add samples: uint8 pixels, [B, C, H, W], or features, [B, f], without an extractor."""
        if self._extractor is None:
            self.features.append(samples)
            return
        pixels = torch.cat([*self.pending, samples])
        whole = len(pixels) - len(pixels) % self._extractor.batch
        if whole:
            self.features.append(extract(self._extractor, pixels[:whole]))
        self.pending = [pixels[whole:]] if whole < len(pixels) else []

    def collected(self) -> Tensor:
        """The features of all samples, [N, f]."""
        features = _as_list(self.features)
        for pixels in _as_list(self.pending):
            assert self._extractor is not None
            features.append(extract(self._extractor, pixels))
        return torch.cat(features)


def _as_list(state: list[Tensor] | Tensor) -> list[Tensor]:
    """The parts of a state: a list while it grows, one tensor, maybe empty, once gathered."""
    parts = [state] if isinstance(state, Tensor) else state
    return [part for part in parts if part.numel()]


class _ReferenceMetric(_FeatureMetric):
    """Registered metrics of the samples against a reference."""

    names: tuple[str, ...] = ()

    def __init__(
        self, reference: Reference, extractor: Extractor | None = None, **kwargs: Any
    ) -> None:
        super().__init__(extractor, **kwargs)
        self._reference = reference

    def compute(self) -> dict[str, Tensor]:
        """Metric -> value, float64."""
        measured = measure(self.collected().cpu(), self._reference, self.names)
        return {
            name: torch.tensor(each.value, dtype=torch.float64) for name, each in measured.items()
        }


class FID(_ReferenceMetric):
    """Fréchet distance between Gaussians fitted to features."""

    higher_is_better = False
    names = ("fid",)


class KID(_ReferenceMetric):
    """Kernel distance, unbiased, over all samples at once."""

    higher_is_better = False
    names = ("kid",)


class PrecisionRecall(_ReferenceMetric):
    """Precision, recall, density and coverage."""

    higher_is_better = True
    names = ("precision",)


class NearestTrainingImages(_FeatureMetric):
    """How near samples are to training images, compared with held-out images.

    train, heldout: features of training and held-out images, [M, f] and [H, f]; of all training
        images, because a copy of any other is not found.
    """

    def __init__(
        self, train: Tensor, heldout: Tensor, extractor: Extractor | None = None, **kwargs: Any
    ) -> None:
        super().__init__(extractor, **kwargs)
        self._train = train
        self._control: Control = make_control(train, heldout)

    def compute(self) -> dict[str, Tensor]:
        """nn_feature_distance, nn_feature_closer, nn_feature_c_t and so on, float64."""
        copies = find_copies(self.collected().cpu(), self._train, self._control)
        return {
            name: torch.tensor(value, dtype=torch.float64)
            for name, value in copies.values("feature").items()
        }
