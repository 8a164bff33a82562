"""CIFAR-10, from its official binary version or from torchvision's pickled one."""

from __future__ import annotations

from pathlib import Path

import torch

from ablate.data.datasets import Dataset, Images


def load(folder: Path) -> Dataset:
    """CIFAR-10 from the binary version if the folder has it, else from torchvision's pickles."""
    licence = "research use (Krizhevsky 2009, Learning Multiple Layers of Features)"
    binary = folder / "cifar-10-batches-bin"
    if binary.is_dir():
        train = [_cifar_batch(binary / f"data_batch_{i}.bin") for i in range(1, 6)]
        merged = Images(*(torch.cat(part) for part in zip(*train, strict=True)))
        return Dataset("cifar10", merged, _cifar_batch(binary / "test_batch.bin"), licence)
    from torchvision.datasets import CIFAR10

    def images(train: bool) -> Images:
        split = CIFAR10(str(folder), train=train)
        pixels = torch.from_numpy(split.data).permute(0, 3, 1, 2).contiguous()
        return Images(pixels, torch.tensor(split.targets))

    return Dataset("cifar10", images(True), images(False), licence)


def _cifar_batch(path: Path) -> Images:
    """One file of records: a label byte, then 3,072 bytes as red, green and blue planes."""
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty")
    records = torch.from_file(str(path), size=size, dtype=torch.uint8).view(-1, 3073)
    return Images(records[:, 1:].reshape(-1, 3, 32, 32).clone(), records[:, 0].long())
