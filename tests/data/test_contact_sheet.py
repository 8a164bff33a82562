"""Pictures of images, against torchvision's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from torchvision.utils import make_grid

from ablate.data.contact_sheet import MIN_SIDE, save_grid, sheet


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("count", "columns"), [(2, 16), (16, 16), (17, 16), (6, 1)])
def test_a_sheet_is_torchvisions_grid(channels: int, count: int, columns: int) -> None:
    pixels = torch.randint(0, 256, (count, channels, 5, 7), dtype=torch.uint8)
    theirs = make_grid(pixels, nrow=columns, padding=2, pad_value=255)
    assert torch.equal(sheet(pixels, columns), theirs.permute(1, 2, 0))


def test_small_images_are_enlarged(tmp_path: Path) -> None:
    pixels = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 2, 2).repeat(3, 1, 1, 1)
    save_grid(tmp_path / "grid.png", pixels, columns=3)
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.size == (3 * (MIN_SIDE + 2) + 2, MIN_SIDE + 4)
        assert picture.getpixel((0, 0)) == (255, 255, 255)
        assert picture.getpixel((MIN_SIDE + 1, MIN_SIDE + 1)) == (3, 3, 3)
