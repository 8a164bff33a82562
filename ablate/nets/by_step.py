"""Conversion between the paper's step k = 1..N-1 and the log of the noise level, log s.

Everything in this package is conditioned on s; a network trained elsewhere may be indexed by k.
With the paper's constant sigma, s = sigma √(k/N) and k = N (s/sigma)².
"""

from __future__ import annotations

from torch import Tensor, nn

from ablate.diffusion.processes import Process, level


def log_level(process: Process, N: int, k: Tensor) -> Tensor:
    """log s of step k, the network's condition when training draws k."""
    return level(process, k / N).log()


def step(process: Process, N: int, log_s: Tensor) -> Tensor:
    """The step k at which the noise level is s, a real number."""
    return N * process.time(log_s.exp())


class ByStep(nn.Module):
    """A network of `(image, log_s)` around a network `net(image, k)`.

    process, N: what k meant in its training. continuous: pass k as a real number, for a network
    that embeds k by sines; otherwise the nearest whole step, for one with a table. Levels that lie
    beyond the steps by more than half a step are refused: the network never saw them, and using
    its last row instead would give wrong scores without an error.
    """

    def __init__(self, net: nn.Module, process: Process, N: int, continuous: bool = False) -> None:
        super().__init__()
        self.net, self.process, self.N, self.continuous = net, process, N, continuous

    def forward(self, image: Tensor, log_s: Tensor, labels: Tensor | None = None) -> Tensor:
        k = step(self.process, self.N, log_s)
        nearest = k.round()
        if bool(((nearest < 1) | (nearest > self.N - 1)).any()):
            low, high = float(k.min()), float(k.max())
            raise ValueError(
                f"noise levels must lie at steps 1 to {self.N - 1}, not {low:.4g} to {high:.4g}"
            )
        k = k if self.continuous else nearest.long()
        out: Tensor = self.net(image, k) if labels is None else self.net(image, k, labels)
        return out


def check_condition(net: nn.Module, by_step: bool) -> None:
    """Raise an error if a published network is not given what it is conditioned on."""
    condition = getattr(net, "condition", None)
    if condition == "k" and not by_step:
        raise ValueError("the network is conditioned on a step k; --sigma and --N say what k meant")
    if condition == "log s" and by_step:
        raise ValueError("the network is conditioned on the noise level: no --sigma and --N")
