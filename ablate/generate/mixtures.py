"""Mixtures of Gaussians fitted to the training images, for the initialisation `mixture`.

A fit is taken from the bundle if that has one of as many components, then from the cache, and is
else made where the images are.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.data import datasets
from ablate.data.tensor_cache import Tensors, cache_folder, cached_tensors
from ablate.diffusion.mixture import Mixture
from ablate.diffusion.moments import Gaussian, Moments
from ablate.models.bundle import Bundle, Card

FORMAT = 1
"""Version of the fit, part of its key in the cache."""

DIRECTIONS = 32
"""Leading directions in which components differ. In all others the standard deviation of log x is
below the noise that a sampler starts from, sigma = 0.8, on every shipped dataset."""

IMAGES_A_COMPONENT = 2 * DIRECTIONS
"""Fewest images for each component: with fewer a covariance describes images one by one."""

ITERATIONS = 300
"""Most steps of expectation maximisation; a fit that would still improve is used as it is."""


@dataclass(frozen=True)
class Mixtures:
    """The mixtures of a bundle's dataset, by number of components."""

    bundle: Bundle
    _known: dict[int, Mixture] = field(default_factory=dict, repr=False)

    def __call__(self, components: int) -> Mixture:
        """The mixture of so many components; an error if it cannot be had on this machine."""
        if components not in self._known:
            self._known[components] = self._found(components)
        return self._known[components]

    def _found(self, components: int) -> Mixture:
        stored = self.bundle.mixture
        if stored is not None and len(stored.weights) == components:
            return stored
        card, everything = self.bundle.card, self.bundle.moments.everything
        path = cache_folder() / "mixtures" / f"{_key(card, everything, components)}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)

        def compute() -> Tensors:
            return fit_mixture(training_images(card), everything, components)._asdict()

        return Mixture(**cached_tensors(path, compute))


def _key(card: Card, everything: Gaussian, components: int) -> str:
    """The file of a fit in the cache: all that it depends on."""
    digest = hashlib.sha256(f"{FORMAT}/{card.dataset_hash}/{components}".encode())
    for part in (everything.mean, everything.basis[:DIRECTIONS]):
        digest.update(part.float().contiguous().numpy().tobytes())
    return f"{card.dataset}-{components}-{digest.hexdigest()[:16]}"


def training_images(card: Card) -> datasets.Images:
    """The images that a bundle was trained on; an error if this machine has none or others."""
    dataset = datasets.load(card.dataset)
    if (here := dataset.hash()) != card.dataset_hash:
        raise UserError(
            f"dataset {card.dataset}: not the images of bundle {card.name}"
            f" (hash {here}, the bundle's is {card.dataset_hash})"
        )
    return dataset.train


def in_log_space(pixels: Tensor) -> Tensor:
    """Images, uint8, [N, C, H, W] -> y_0 = log x, [N, d]."""
    return datasets.to_unit_interval_plus_one(pixels).flatten(1).log()


def check_enough(images: int, components: int) -> None:
    """Refuse a mixture with too few images for each component."""
    most = images // IMAGES_A_COMPONENT
    if components > most:
        raise UserError(
            f"components = {components}: {images} training images are enough for {most}"
            f" at {IMAGES_A_COMPONENT} each"
        )


def fit_mixture(images: datasets.Images, everything: Gaussian, components: int) -> Mixture:
    """Fit by expectation maximisation along the leading directions of `everything`.

    Labels are not used but for each component's share of the classes. The same images give the
    same bits: the start is seeded and there is one thread.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    check_enough(len(images.labels), components)
    along = coordinates(images.pixels, everything).numpy()  # [N, p]
    em = GaussianMixture(components, random_state=0, max_iter=ITERATIONS)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        shares = torch.from_numpy(em.fit(along).predict_proba(along))  # [N, k]
    variances, vectors = torch.linalg.eigh(torch.from_numpy(em.covariances_))  # ascending
    classes = torch.nn.functional.one_hot(images.labels).double()  # [N, K]
    parts = (
        torch.from_numpy(em.weights_),
        torch.from_numpy(em.means_),
        vectors.flip(2).mT,
        variances.flip(1),
        shares.T @ classes / shares.sum(0)[:, None],
    )
    return Mixture(*(part.float().contiguous() for part in parts))


def coordinates(pixels: Tensor, everything: Gaussian) -> Tensor:
    """Coordinates of images from the mean along the leading directions, float64, [N, p]."""
    basis, mean = everything.basis[:DIRECTIONS].double(), everything.mean.double()
    parts = [(in_log_space(part).double() - mean) @ basis.T for part in pixels.split(5000)]
    return torch.cat(parts)


def mixture_of(dataset: datasets.Dataset, moments: Moments) -> Mixture | None:
    """The mixture that a bundle contains: as many components as classes; None with few images, or
    with moments that know no directions."""
    components = len(moments.classes)
    few = len(dataset.train.labels) < components * IMAGES_A_COMPONENT
    if few or not len(moments.everything.basis):
        return None
    return fit_mixture(dataset.train, moments.everything, components)
