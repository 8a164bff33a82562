"""Random numbers by sample: those of sample i of seed r depend on (r, i) alone, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from ablate.samplers import noise as noise_module
from ablate.samplers.noise import StepNoise, start_numbers, stream
from tests.support.beds import P_FOUR

STEPS = 35


def steps(
    seed: int, indices: list[int], shape: tuple[int, ...] = (3, 5), count: int = STEPS
) -> Tensor:
    """z of the first `count` steps, [count, B, *shape]."""
    noise = StepNoise(seed, indices, shape)
    return torch.stack([noise(j) for j in range(count)])


@pytest.mark.parametrize("size", [1, 7, 64])
def test_starts_do_not_depend_on_the_batch(size: int) -> None:
    indices = list(range(64))
    u, z = start_numbers(5, indices, 27)
    parts = [start_numbers(5, indices[i : i + size], 27) for i in range(0, 64, size)]
    assert torch.equal(torch.cat([part[0] for part in parts]), u)
    assert torch.equal(torch.cat([part[1] for part in parts]), z)


def test_starts_do_not_depend_on_the_order() -> None:
    order = [9, 2, 40, 3, 2]
    u, z = start_numbers(5, list(range(64)), 27)
    u_mixed, z_mixed = start_numbers(5, order, 27)
    assert torch.equal(u_mixed, u[order])
    assert torch.equal(z_mixed, z[order])


@pytest.mark.parametrize("size", [1, 7, 32])
def test_step_noise_does_not_depend_on_the_batch(size: int) -> None:
    indices = list(range(32))
    whole = steps(5, indices)
    parts = [steps(5, indices[i : i + size]) for i in range(0, 32, size)]
    assert torch.equal(torch.cat(parts, dim=1), whole)


def test_step_noise_does_not_depend_on_the_order() -> None:
    order = [9, 2, 30, 3]
    assert torch.equal(steps(5, order), steps(5, list(range(32)))[:, order])


@pytest.mark.parametrize("threads", [2, 3, 40])
def test_step_noise_does_not_depend_on_the_threads(threads: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = steps(5, list(range(32)))
        torch.set_num_threads(threads)
        assert torch.equal(steps(5, list(range(32))), alone)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("said", [2, 7, STEPS, 3 * STEPS])
def test_step_noise_does_not_depend_on_how_far_ahead_it_is_drawn(
    said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_module, "AHEAD", 4 * 32 * 15)  # four steps
    ahead = StepNoise(5, list(range(32)), (3, 5), steps=said)
    assert torch.equal(torch.stack([ahead(j) for j in range(STEPS)]), steps(5, list(range(32))))


@pytest.mark.parametrize("count", [1, 15, 16, 17])
def test_step_noise_has_prefixes(count: int) -> None:
    """Step j of sample i is the same however many steps a configuration takes."""
    assert torch.equal(steps(5, [0, 4], count=count), steps(5, [0, 4])[:count])


def test_step_noise_is_one_stream() -> None:
    """Drawn step by step or all at once: numbers do not depend on how many are drawn together."""
    at_once = stream(5, 4, "steps").standard_normal((STEPS, 3, 5), dtype=np.float32)
    assert torch.equal(steps(5, [4], (3, 5))[:, 0], torch.from_numpy(at_once))


def test_noise_handed_out_is_not_overwritten() -> None:
    noise = StepNoise(5, [0], (3,))
    first = noise(0)
    kept = first.clone()
    for j in range(1, 17):
        noise(j)
    assert torch.equal(first, kept)


def test_no_two_streams_are_alike() -> None:
    """By seed, sample, step and purpose; 11/1 and 1/11 are not to collide either."""
    draws = [
        torch.from_numpy(stream(seed, index, purpose).standard_normal(4))
        for seed in (0, 1, 11, 111)
        for index in (0, 1, 11, 111)
        for purpose in ("start", "steps")
    ]
    assert len(torch.stack(draws).unique(dim=0)) == 32
    z = steps(5, [0, 1]).flatten(0, 1)
    assert len(z.unique(dim=0)) == 2 * STEPS


def test_streams_keep_their_whole_key() -> None:
    """Starts 6950 and 18663 of seed 2 agree in the lowest 32 bits of a 63-bit hash of their names,
    which is all that torch's generator keeps of a seed."""
    one, other = (start_numbers(2, [index], 4) for index in (6950, 18663))
    assert not torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])


def test_noise_is_normal_and_u_uniform() -> None:
    u, z = start_numbers(7, range(2_000), 20)
    assert kstest(u.numpy(), "uniform").pvalue > P_FOUR
    assert kstest(z.flatten().numpy(), "norm").pvalue > P_FOUR
    assert kstest(steps(7, list(range(200)), (3, 3)).flatten().numpy(), "norm").pvalue > P_FOUR


def test_noise_is_uncorrelated_between_samples_and_steps() -> None:
    """n products of independent standard normals have the mean 0 ± 1/√n."""
    z = steps(8, list(range(40)), (25,))  # [STEPS, 40, 25]
    for a, b in ((z[1:], z[:-1]), (z[:, 1:], z[:, :-1]), (z[..., 1:], z[..., :-1])):
        assert abs(float((a * b).mean())) < 4 / a.numel() ** 0.5


def test_noise_leaves_the_global_rng_alone() -> None:
    before = torch.get_rng_state()
    start_numbers(1, [0, 1], 4)
    steps(1, [0, 1])
    assert torch.equal(torch.get_rng_state(), before)
