"""The training files that ship: whole, trainable, and the paper's four as the paper has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset, Images
from ablate.models.recipe import Recipe
from ablate.training.options import check_fits
from ablate.training.pack import read_recipe

FILES = Workspace(Path()).toml_files("train")
SHAPES = {"digits": (1, 8, 8), "cifar10": (3, 32, 32)}

PAPER = {  # iterations and network: its section on training
    "paper-mnist": (300_000, "ncsn-deeper"),
    "paper-fashion": (200_000, "ncsn-deeper"),
    "paper-kmnist": (200_000, "ncsn-deeper"),
    "paper-cifar10": (1_300_000, "ddpm++"),
}


def blank(recipe: Recipe) -> Dataset:
    """Ten images, one of each class, of the dataset's shape."""
    pixels = torch.zeros(10, *SHAPES.get(recipe.dataset, (1, 28, 28)), dtype=torch.uint8)
    images = Images(pixels, torch.arange(10))
    return Dataset(recipe.dataset, images, images, licence="")


@pytest.mark.parametrize("name", FILES)
def test_a_training_file_fits_its_dataset_and_says_its_command(name: str) -> None:
    recipe = read_recipe(FILES[name])
    check_fits(recipe, blank(recipe))
    assert f"ablate train {name}" in FILES[name].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_trainings(name: str) -> None:
    recipe = read_recipe(FILES[name])
    assert (recipe.steps, recipe.net.kind) == PAPER[name]
    assert (recipe.objective, recipe.optimiser) == ("paper", "adamw")
    assert recipe.checkpoint_every == 5000
    assert recipe.net.width == 128


def test_the_papers_averages_can_be_chosen_after_training() -> None:
    """50k, 100k and 150k of 1.3 M iterations, which it compares on CIFAR-10."""
    assert read_recipe(FILES["paper-cifar10"]).snapshots
    text = FILES["paper-cifar10"].read_text(encoding="utf-8")
    for iterations in (50_000, 100_000, 150_000):
        assert f"{iterations / 1_300_000:.3f}" in text


def test_new_fields_leave_the_identity_of_older_recipes_alone() -> None:
    """At their defaults they are left out, so that older checkpoints still match."""
    identity = Recipe(dataset="digits", steps=3).identity()
    assert '"decay"' not in identity
    assert '"precision"' not in identity
    assert '"steps":3' in identity
    plateau = Recipe(dataset="digits", steps=3, decay=1).identity()
    assert '"steps"' not in plateau


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 3000 + "]" * 3000, "nested"),
        ("batch = " + "1" * 6000, "not TOML: Exceeds the limit"),
        ("#" * 2_000_000, "characters; at most 1,000,000"),
    ],
)
def test_a_hostile_recipe_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_recipe(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300
