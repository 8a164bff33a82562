"""From a network's output to the denoiser D(y; s) = E[y_0 | y_s] in log space, and its loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ablate.diffusion.losses import mdsm_each, preconditioned_each
from ablate.diffusion.moments import Gaussian
from ablate.nets.class_gaussians import ClassGaussians


def _evaluated(
    net: nn.Module,
    image: Tensor,
    log_s: Tensor,
    labels: Tensor | None,
    maps: Tensor | None = None,
) -> Tensor:
    """The network's output, in the layout that convolutions are fastest in.

    Labels and maps are passed only if there are any, so that a network need not accept them.
    """
    condition: tuple[Tensor | None, ...] = () if labels is None else (labels,)
    if maps is not None:
        condition = (labels, maps)
    out: Tensor = net(image.contiguous(memory_format=torch.channels_last), log_s, *condition)
    return out


class Model(nn.Module):
    """A denoiser D(y, s, labels) around a network `net`: y is [B, C, H, W], s and labels are [B].

    A parametrisation defines `forward`, and `losses` to train it by.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def losses(self, y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """The loss of each image, [B], noised by z to levels s."""
        raise NotImplementedError


class AsInPaper(Model):
    """D(y; s) = y + s² (1 + x ∘ F(x; log s)): the network's output times x is the hyvarinen.

    Nothing is scaled, so F must grow as 1/s² towards low noise. It reproduces the paper.
    """

    def hyvarinen(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        """x ∘ F(x; log s); y: [B, C, H, W], s and labels: [B]."""
        x = y.exp()
        return x * _evaluated(self.net, x, s.log(), labels)

    def losses(self, y_0: Tensor, s: Tensor, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """The M-DSM loss of each image as the paper prints it, [B], noised by z to levels s."""
        level = s[:, None, None, None]
        y_t = y_0 + level * z
        return mdsm_each(self.hyvarinen(y_t, s, labels), y_t, y_0, level)

    def forward(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        return y + s[:, None, None, None] ** 2 * (1 + self.hyvarinen(y, s, labels))


class Preconditioned(Model):
    """D(y; s) = D_lin(y; s) + c_out(s) F(y, D_lin; log s): Wiener preconditioning.

    D_lin is the best linear denoiser under the data's mean and covariance, c_out² its exact error
    variance, so F learns only what is not Gaussian, at unit size on every noise level. With a
    Gaussian of rank 0 this is EDM's scalar c_skip. With the Gaussians of the classes, D_lin of a
    labelled image is that of its class, and c_out² that class's error variance.
    """

    mean: Tensor
    basis: Tensor
    variances: Tensor
    tail: Tensor

    def __init__(
        self, net: nn.Module, gaussian: Gaussian, classes: Sequence[Gaussian] = ()
    ) -> None:
        super().__init__(net)
        for name, part in gaussian.to(torch.float32)._asdict().items():
            self.register_buffer(name, part)
        self.classes = ClassGaussians(gaussian, classes) if classes else None

    @property
    def gaussian(self) -> Gaussian:
        """The Gaussian of the log data."""
        return Gaussian(self.mean, self.basis, self.variances, self.tail)

    def linear(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        """D_lin(y; s); y: [B, C, H, W], s and labels: [B]."""
        if self.classes is None or labels is None:
            return self.gaussian.wiener(y.flatten(1), s[:, None]).view_as(y)
        return self.classes.wiener(y.flatten(1), s[:, None], labels).view_as(y)

    def error_variance(self, s: Tensor, labels: Tensor | None = None) -> Tensor:
        """c_out², [B, 1]: the loss is divided by it."""
        if self.classes is None or labels is None:
            return self.gaussian.wiener_error(s[:, None])
        return self.classes.error(s[:, None], labels)

    def losses(
        self,
        y_0: Tensor,
        s: Tensor,
        z: Tensor,
        labels: Tensor | None = None,
        maps: Tensor | None = None,
    ) -> Tensor:
        """The error of each image, [B], noised by z to levels s; weighted to unit size.

        maps: how the images were augmented, which the network is told.
        """
        denoised = self(y_0 + s[:, None, None, None] * z, s, labels, maps)
        return preconditioned_each(denoised, y_0, self.error_variance(s, labels))

    def forward(
        self, y: Tensor, s: Tensor, labels: Tensor | None = None, maps: Tensor | None = None
    ) -> Tensor:
        """y: [B, C, H, W], s and labels: [B], maps: [B, MAP_NUMBERS]."""
        linear = self.linear(y, s, labels)
        mean = self.mean.view(y.shape[1:])
        variance = self.gaussian.pixel_variance()
        noisy_spread = (variance + s**2).sqrt()[:, None, None, None]
        inputs = torch.cat([(y - mean) / noisy_spread, (linear - mean) / variance.sqrt()], 1)
        correction = _evaluated(self.net, inputs, s.log(), labels, maps)
        out: Tensor = linear + self.error_variance(s, labels).sqrt()[..., None, None] * correction
        return out
