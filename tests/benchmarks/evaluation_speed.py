"""Images per second of a network's evaluation, and what its convolutions alone would allow.

    python -m tests.benchmarks.evaluation_speed [BUNDLE …] [--compiled]     (cifar10 fashion digits)

The ways take turns within one run; the fastest round of each is printed, with its speed relative
to the reference way:

- reference: residual blocks that allocate every intermediate result, as in training;
- ours: as sampling evaluates it, in place, with the same bits;
- convolutions: nothing but the network's convolutions on the inputs that they get. What is faster
  than this needs other convolutions, not less around them;
- compiled (if asked for): torch.compile with frozen weights, a minute of compiling.

One thread is timed by its own CPU time, two threads by the clock: do the latter on an idle machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.core.device import resolve
from ablate.models import bundle as bundles
from ablate.models.bundle import Bundle
from ablate.nets.blocks import ResidualBlock

BATCH, ROUNDS = 64, 15
Way = Callable[[], object]


def allocating(block: ResidualBlock, h: Tensor, embedding: Tensor) -> Tensor:
    """A residual block as training computes it."""
    inner = block.conv_in(functional.silu(block.norm_in(h)))
    scale, offset = block.film(embedding)[:, :, None, None].chunk(2, 1)
    inner = functional.silu(block.norm_mid(inner) * (1 + scale) + offset)
    out: Tensor = block.skip(h) + block.conv_out(block.dropout(inner))
    return out


def reference(bundle: Bundle) -> nn.Module:
    """The bundle's model with blocks that allocate; it shares the weights."""
    card = bundle.card
    model = bundles.build_model(card.shape, card.recipe, bundle.moments, card.steps)
    model.net.load_state_dict(bundle.model.net.state_dict(), assign=True)
    for block in model.modules():
        if isinstance(block, ResidualBlock):
            block.forward = allocating.__get__(block)  # type: ignore[method-assign]
    return model.eval()


def convolutions(model: nn.Module, call: Way) -> Way:
    """The convolutions that `call` makes, one after the other on the same inputs."""
    made: list[tuple[nn.Module, Tensor]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        made.append((layer, inputs[0].clone()))  # its format is kept

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    call()
    for hook in hooks:
        hook.remove()
    return lambda: [layer(inputs) for layer, inputs in made]


def compiled(model: nn.Module, y: Tensor, s: Tensor) -> Way:
    from torch._inductor import config

    config.freezing = True
    fast = torch.compile(model)
    return lambda: fast(y, s)


def ways_of(bundle: Bundle, compiling: bool) -> dict[str, Way]:
    plain, ours = reference(bundle), bundle.model
    y = 0.5 * torch.randn(BATCH, *bundle.card.shape, generator=torch.Generator().manual_seed(0))
    s = torch.full((BATCH,), 0.5)
    assert torch.equal(plain(y, s), ours(y, s))
    ways: dict[str, Way] = {"reference": lambda: plain(y, s), "ours": lambda: ours(y, s)}
    ways["convolutions"] = convolutions(ours, ways["ours"])
    if compiling:
        ways["compiled"] = compiled(ours, y, s)
    return ways


def fastest(ways: dict[str, Way], clock: Callable[[], float]) -> dict[str, float]:
    """Images per second of each way in its fastest round; one more round warms up."""
    seconds = dict.fromkeys(ways, float("inf"))
    for turn in range(ROUNDS + 1):
        for name, call in ways.items():
            began = clock()
            call()
            if turn:
                seconds[name] = min(seconds[name], clock() - began)
    return {name: BATCH / taken for name, taken in seconds.items()}


def main(names: Sequence[str], compiling: bool) -> None:
    resolve("cpu")
    columns = ["reference", "ours", "convolutions", *(["compiled"] if compiling else [])]
    print(f"| bundle | threads | {' | '.join(columns)} |")
    print(f"|---|---|{'---|' * len(columns)}")
    for threads, clock in ((1, time.thread_time), (2, time.perf_counter)):
        torch.set_num_threads(threads)
        for name in names:
            with torch.no_grad():
                ways = ways_of(bundles.read(bundles.shipped()[name]), compiling)
                rates = fastest(ways, clock)
            cells = [f"{rate:.0f} ({rate / rates['reference']:.2f})" for rate in rates.values()]
            print(f"| {name} | {threads} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    made = argparse.ArgumentParser()
    made.add_argument("bundles", nargs="*", default=["cifar10", "fashion", "digits"])
    made.add_argument("--compiled", action="store_true")
    given = made.parse_args()
    main(given.bundles, given.compiled)
