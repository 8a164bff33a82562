"""The registry of datasets. To add one, write a file with its loader and add a record here.

Importing this module imports no torch: records refer to loaders by name, and a loader
is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ablate.core.registry import Registry


class ClassifierRecipe(NamedTuple):
    """How to train the small classifier whose features FID and KID of a dataset use."""

    widths: tuple[int, ...]
    patch: int
    epochs: int
    batch: int
    flips: bool = False  # whether each image is mirrored with probability ½ in training


class LogNormalFit(NamedTuple):
    """Mean and spread of log x at sigma = 0.8 by channel, from the paper's Table 2."""

    mu: tuple[float, ...]
    sigma: tuple[float, ...]


@dataclass(frozen=True)
class DatasetSource:
    """A dataset: how its images are loaded, and all that the rest of the package needs of it.

    load: `(data folder) -> Dataset`, a function or a reference "module:name".
    classifier: how to train the classifier whose features metrics use.
    classes: labels run from 0 to classes - 1.
    flips: whether a mirrored image could be one of the dataset.
    torchvision: the class of torchvision.datasets that downloads it, or None.
    paper_fit: the paper's log-normal fit, for the initialisation `lognormal-paper`.
    training_images: a dataset's hash -> how many training images it has, for bundles whose card
        does not say. By hash, because a dataset of one name may come in several sizes.
    """

    name: str
    load: str | Callable[..., Any]
    classes: int
    classifier: ClassifierRecipe
    flips: bool = False
    torchvision: str | None = None
    paper_fit: LogNormalFit | None = None
    training_images: Mapping[str, int] = field(default_factory=dict)


DATASETS: Registry[DatasetSource] = Registry(
    "dataset",
    "ablate.datasets",
    DatasetSource,
    [
        DatasetSource(
            "digits",
            "ablate.data.digits:load",
            classes=10,
            classifier=ClassifierRecipe((32, 64), patch=1, epochs=60, batch=64),
            training_images={"ca7d4078928a67c0": 1_438},
        ),
        DatasetSource(
            "mnist",
            "ablate.data.mnist:load_mnist",
            classes=10,
            classifier=ClassifierRecipe((48, 96), patch=2, epochs=6, batch=128),
            torchvision="MNIST",
            paper_fit=LogNormalFit((0.1565,), (0.8353,)),
            training_images={"1e35582d42a90940": 60_000},
        ),
        DatasetSource(
            "fashion",
            "ablate.data.mnist:load_fashion",
            classes=10,
            classifier=ClassifierRecipe((48, 96), patch=2, epochs=8, batch=128),
            torchvision="FashionMNIST",
            paper_fit=LogNormalFit((0.2771,), (0.8428,)),
            training_images={"ece172613115fb18": 60_000},
        ),
        DatasetSource(
            "kmnist",
            "ablate.data.mnist:load_kmnist",
            classes=10,
            classifier=ClassifierRecipe((48, 96), patch=2, epochs=30, batch=128),
            torchvision="KMNIST",
            paper_fit=LogNormalFit((0.2140,), (0.8290,)),
            training_images={"0158938984c431fd": 8_000},
        ),
        DatasetSource(
            "cifar10",
            "ablate.data.cifar10:load",
            classes=10,
            classifier=ClassifierRecipe((48, 96, 192), patch=2, epochs=12, batch=128, flips=True),
            flips=True,
            torchvision="CIFAR10",
            paper_fit=LogNormalFit((0.4075, 0.3785, 0.3693), (0.8016, 0.8004, 0.8005)),
            training_images={"9048fcbac9c08a64": 50_000},
        ),
    ],
)
