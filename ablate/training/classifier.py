"""Training the small classifier of a dataset, whose features FID and KID are measured in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.data.datasets import Dataset, Images, mirrored
from ablate.data.registry import ClassifierRecipe
from ablate.metrics.extractors.extractor import normalised
from ablate.nets.classifier import Classifier


class TrainedClassifier(NamedTuple):
    """A classifier after training."""

    net: Classifier
    accuracy: float  # on the held-out images


def train_classifier(
    dataset: Dataset,
    recipe: ClassifierRecipe,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda epoch, loss: None,
) -> TrainedClassifier:
    """Train by SGD with one cycle of the learning rate, label smoothing and shifts by a pixel."""
    generator = torch.Generator().manual_seed(seed)
    classes = int(dataset.train.labels.max()) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Classifier(dataset.shape[0], classes, recipe.widths, recipe.patch)
    net = net.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    steps = recipe.epochs * (len(dataset.train.labels) // recipe.batch)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=0.1, total_steps=steps)
    for epoch in range(recipe.epochs):
        loss = _epoch(net, optimiser, cycle, dataset.train, recipe, generator)
        progress(epoch + 1, loss)
    net.eval()
    _standardise(net, dataset.train)
    return TrainedClassifier(net, accuracy(net, dataset.heldout))


def _epoch(
    net: Classifier,
    optimiser: torch.optim.Optimizer,
    cycle: torch.optim.lr_scheduler.LRScheduler,
    images: Images,
    recipe: ClassifierRecipe,
    generator: torch.Generator,
) -> float:
    """Train for one epoch; returns the mean loss."""
    net.train()
    batch, total, count = recipe.batch, 0.0, len(images.labels) // recipe.batch
    order = torch.randperm(len(images.labels), generator=generator)
    for indices in order[: count * batch].split(batch):
        inputs = shifted(normalised(images.pixels[indices]), generator)
        if recipe.flips:
            inputs = mirrored(inputs, torch.rand(batch, generator=generator) < 0.5)
        loss = functional.cross_entropy(net(inputs), images.labels[indices], label_smoothing=0.1)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimiser.step()
        cycle.step()
        total += float(loss.detach())
    return total / count


@torch.no_grad()
def _standardise(net: Classifier, images: Images) -> None:
    """Bring the features to mean 0 and spread 1 over the training images."""
    pooled = torch.cat([net.pooled(normalised(part)) for part in images.pixels.split(256)])
    net.centre.copy_(pooled.mean(0))
    net.spread.copy_(pooled.std(0).clamp_min(1e-4))  # a channel may be dead


def shifted(images: Tensor, generator: torch.Generator) -> Tensor:
    """The whole batch moved by -1, 0 or 1 pixels each way; the edge is repeated."""
    height, width = images.shape[2:]
    top, left = torch.randint(3, (2,), generator=generator).tolist()
    padded = functional.pad(images, (1, 1, 1, 1), mode="replicate")
    return padded[:, :, top : top + height, left : left + width]


@torch.no_grad()
def accuracy(net: Classifier, images: Images) -> float:
    """The share of images that are classified correctly."""
    from torchmetrics.functional.classification import multiclass_accuracy

    logits = torch.cat([net(normalised(part)) for part in images.pixels.split(256)])
    classes = logits.shape[1]
    return float(multiclass_accuracy(logits, images.labels, classes, average="micro"))
