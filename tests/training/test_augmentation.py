"""Affine maps of training images: exact where they can be, told to the network, off at sampling."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ablate.data.datasets import Dataset
from ablate.models.recipe import Recipe
from ablate.nets.compact import Compact
from ablate.nets.config import Net
from ablate.training.augmentation import SHIFT, STRETCH, apply_maps, draw_maps
from ablate.training.loop import train
from tests.support.beds import generator, normal


def test_a_map_of_zeros_changes_nothing_and_one_shift_moves_pixels() -> None:
    """A shift by one pixel of 8 is 2/8 of half an image; the edge is continued. float32 places the
    points within 1e-6 of a pixel."""
    y = normal((3, 1, 8, 8), 1).float()
    maps = torch.zeros(3, 6)
    maps[1, 4] = (2 / 8) / SHIFT  # the point to look at is one column further
    mapped = apply_maps(y, maps)
    assert torch.equal(mapped[0], y[0])
    assert torch.equal(mapped[2], y[2])
    moved = torch.cat([y[1, :, :, 1:], y[1, :, :, -1:]], 2)
    torch.testing.assert_close(mapped[1], moved, rtol=0, atol=1e-5)


def test_a_quarter_turn_is_exact() -> None:
    """The linear part -x, y -> the image turned: a matrix far from the identity, but pixels fall on
    pixels."""
    y = normal((1, 1, 8, 8), 2).float()
    matrix = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    maps = torch.zeros(1, 6)
    maps[0, :4] = ((matrix - torch.eye(2)) / STRETCH).flatten()
    torch.testing.assert_close(apply_maps(y, maps), y.rot90(1, (2, 3)), rtol=0, atol=1e-4)


def test_a_share_of_images_is_changed() -> None:
    """Of 4,000 a share of 0.3 within four standard errors; numbers of unit spread."""
    maps = draw_maps(4000, 0.3, generator(1))
    changed = (maps != 0).any(1)
    assert abs(float(changed.float().mean()) - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5
    spread = maps[changed].double()
    assert abs(float((spread**2).mean()) - 1) < 4 * (2 / spread.numel()) ** 0.5


def test_the_network_is_told() -> None:
    """The map's numbers change the output once its layer is not zero; None is a map of zeros."""
    net = Compact(2, 1, (8,), 1, augmented=True)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    image, log_s = normal((4, 2, 8, 8), 3).float(), torch.zeros(4)
    maps = draw_maps(4, 1.0, generator(2))
    with torch.no_grad():
        plain = net(image, log_s)
        assert torch.equal(net(image, log_s, None, torch.zeros(4, 6)), plain)
        assert bool((net(image, log_s, None, maps) != plain).flatten(1).any(1).all())
        with pytest.raises(ValueError, match=r"without net\.augmented"):
            Compact(2, 1, (8,), 1)(image, log_s, None, maps)


@pytest.mark.parametrize("classes", [0, 10])
def test_an_augmented_training_learns(classes: int, digits: Dataset, tmp_path: Path) -> None:
    """Its held-out error at s = 0.4, without maps, is below s² after a few steps; a resumed run
    needs nothing but the step, since maps come from (seed, step)."""
    sizes = {"steps": 60, "batch": 64, "rank": 64, "class_rank": 64, "rate": 5e-3, "warmup": 10}
    net = Net(widths=(16,), blocks=1, classes=classes, augmented=True)
    recipe = Recipe(dataset="digits", net=net, augment=0.5, **sizes)
    assert train(recipe, digits, tmp_path / "a.pt").heldout_error[0.4] < 0.4**2
    weights = torch.load(tmp_path / "a.pt", weights_only=True)["net"]["level.maps.weight"]
    assert float(weights.abs().max()) > 0


@pytest.mark.parametrize(
    "knobs",
    [
        {"augment": 0.5},
        {"augment": 0.5, "net": {"augmented": True, "kind": "ddpm++"}},
        {"augment": 0.5, "net": {"augmented": True}, "objective": "paper"},
    ],
)
def test_augmentation_needs_a_network_that_is_told(knobs: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="augment"):
        Recipe.model_validate({"dataset": "digits", "steps": 1, **knobs})
