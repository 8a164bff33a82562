"""The linear denoiser of labelled images against the Gaussians of their classes, one by one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ablate.diffusion.moments import Moments, fit_moments
from ablate.nets.class_gaussians import ClassGaussians
from ablate.nets.precondition import Preconditioned

CLASSES, SIDE = 3, 4
D = SIDE * SIDE


def moments(rank: int, class_rank: int) -> Moments:
    """Of three classes of images with different means and correlations."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % CLASSES
    mixing = torch.randn(CLASSES, D, D, generator=generator) / D
    z = torch.randn(600, D, generator=generator)
    y = 0.3 + 0.05 * labels[:, None] + torch.einsum("nij,nj->ni", mixing[labels], z) / 4
    return fit_moments(y.exp().clamp(1, 2).view(-1, 1, SIDE, SIDE), labels, rank, class_rank)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """(y, s, labels): every label twice and out of order, without one class, and no class."""
    labels = torch.tensor([2, 3, 0, 2, 0, 3])
    generator = torch.Generator().manual_seed(1)
    y = 0.4 + torch.randn(6, D, generator=generator)
    return y, torch.tensor([0.01, 0.02, 0.1, 0.4, 1.0, 3.0])[:, None], labels


@pytest.mark.parametrize(("rank", "class_rank"), [(D, D), (D, 5), (8, 8), (8, 3)])
def test_each_image_is_denoised_by_its_own_gaussian(rank: int, class_rank: int) -> None:
    """Row by row as `Gaussian.wiener` does; label K is that of all images.

    float32 keeps 6e-8 of numbers below 8; sums of 16 of them, three times over, stay below 1e-5.
    """
    parts = moments(rank, class_rank)
    every = [each.to(torch.float32) for each in (*parts.classes, parts.everything)]
    y, s, labels = batch()
    gaussians = ClassGaussians(parts.everything, parts.classes)
    denoised, error = gaussians.wiener(y, s, labels), gaussians.error(s, labels)
    for row, label in enumerate(labels.tolist()):
        one = slice(row, row + 1)
        expected = every[label].wiener(y[one], s[one])
        torch.testing.assert_close(denoised[one], expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(error[one], every[label].wiener_error(s[one]), rtol=4e-6, atol=0)


class Nothing(nn.Module):
    """A network whose output is 0."""

    def forward(self, inputs: Tensor, log_s: Tensor, labels: Tensor | None = None) -> Tensor:
        return torch.zeros_like(inputs[:, :1])


def test_the_model_uses_the_class_where_there_is_one() -> None:
    """And its loss has unit size on draws of the classes' Gaussians, with labels and without.

    The loss of an image is a mean over 16 pixels of squares; 4 standard errors over 3,000 images.
    """
    parts = moments(D, D)
    model = Preconditioned(Nothing(), parts.everything, parts.classes)
    y, s, labels = batch()
    images = y.view(-1, 1, SIDE, SIDE)
    told, untold = model(images, s[:, 0], labels), model(images, s[:, 0])
    assert torch.equal(model(images, s[:, 0], torch.full((6,), CLASSES)), untold)
    assert bool((told != untold).flatten(1).any(1)[labels < CLASSES].all())

    generator = torch.Generator().manual_seed(2)
    labels = torch.arange(3000) % CLASSES
    z = torch.randn(2, 3000, D, generator=generator)
    y_0 = torch.empty(3000, D)
    for label, gaussian in enumerate(parts.classes):
        y_0[labels == label] = gaussian.to(torch.float32).at(0.0, z[0][labels == label])
    levels = torch.full((3000,), 0.1)
    image = y_0.view(-1, 1, SIDE, SIDE)
    losses = model.losses(image, levels, z[1].view_as(image), labels)
    assert abs(float(losses.mean()) - 1) < 4 * float(losses.std()) / 3000**0.5
    assert float(model.losses(image, levels, z[1].view_as(image)).mean()) > 0  # by the shared one
    assert float(model.error_variance(levels[:3], labels[:3]).max()) < float(
        model.error_variance(levels[:1])
    )  # a class varies less than everything does
