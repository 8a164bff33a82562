"""Planted copies are detected, mirrored ones too; new images are not taken for copies.

Where a part of the training set is searched, nothing is said but which samples are suspect.
"""

from __future__ import annotations

import pytest
import scipy.stats
import torch
from torch import Tensor

from ablate.metrics.copies import Copies, Space, Verdict, find_copies, make_control
from ablate.metrics.neighbours import nearest
from tests.support.beds import normal

SIZE = (3, 6, 6)


def images(count: int, seed: int) -> Tensor:
    """Images with most of their variance in few directions, [count, *SIZE]."""
    low = normal((count, 12), seed) @ normal((12, 108), 99)
    return (low + 0.5 * normal((count, 108), seed + 1)).float().view(count, *SIZE)


TRAIN, HELDOUT, FRESH = images(800, 0), images(300, 2), images(200, 4)


def flat(x: Tensor) -> Tensor:
    return x.flatten(1)


def look(samples: Tensor, mirrored: bool = False) -> Copies:
    mirror = flat(samples.flip(3)) if mirrored else None
    control = make_control(flat(TRAIN), flat(HELDOUT))
    return find_copies(flat(samples), flat(TRAIN), control, mirror=mirror)


def verdict(found: Copies) -> Verdict:
    assert found.verdict is not None
    return found.verdict


def test_fresh_images_are_not_suspect() -> None:
    """As near to the training set as held-out ones, to within three standard errors; as authentic,
    too, which the control shows without knowing what to expect."""
    found = look(FRESH)
    said = verdict(found)
    assert found.suspects == []
    assert abs(said.closer.value - 0.5) < 3 * said.closer.estimate.error
    assert abs(said.c_t) < 3
    assert said.authentic.value == pytest.approx(found_by_hand(FRESH), abs=1e-12)
    assert said.authentic_heldout.value == pytest.approx(found_by_hand(HELDOUT), abs=1e-12)
    errors = [each.estimate.error for each in (said.authentic, said.authentic_heldout)]
    gap = said.authentic.value - said.authentic_heldout.value
    assert abs(gap) < 3 * (errors[0] ** 2 + errors[1] ** 2) ** 0.5


def found_by_hand(samples: Tensor) -> float:
    """AuthPct: d(sample, nearest) above d(that one, its own nearest other)."""
    table = torch.cdist(flat(samples).double(), flat(TRAIN).double())
    among = torch.cdist(flat(TRAIN).double(), flat(TRAIN).double()).fill_diagonal_(torch.inf)
    distance, index = table.min(1)
    return float((distance > among.min(1).values[index]).double().mean())


@pytest.mark.parametrize("mirrored", [False, True])
def test_planted_copies_are_found(mirrored: bool) -> None:
    """A little noise does not hide them, nor does a mirror where the dataset is mirrored."""
    samples = FRESH.clone()
    planted = TRAIN[[5, 77, 300]] + 0.01 * images(3, 8)
    samples[[10, 50, 150]] = planted.flip(3) if mirrored else planted
    found = look(samples, mirrored)
    assert sorted(found.suspects) == [10, 50, 150]
    assert found.samples.indices[[10, 50, 150], 0].tolist() == [5, 77, 300]
    if mirrored:
        assert look(samples).suspects == []


def test_fresh_images_are_not_suspect_where_mirror_images_are_looked_at_too() -> None:
    """Half of all images are mirrored. The nearer of a sample and its mirror image is nearer than
    either, so plain samples are compared with plain held-out images, or both with mirror images."""

    def either_way(images: Tensor) -> Tensor:
        return flat(torch.cat([images[::2], images[1::2].flip(3)]))

    train, heldout = either_way(TRAIN), either_way(HELDOUT)
    samples = torch.cat([FRESH[::2], FRESH[1::2].flip(3)])
    control = make_control(train, heldout)
    found = find_copies(flat(samples), train, control, mirror=flat(samples.flip(3)))
    assert found.suspects == []
    assert abs(verdict(found).c_t) < 3
    assert abs(verdict(found).closer.value - 0.5) < 3 * verdict(found).closer.estimate.error
    assert float(found.samples.distances[:, 0].mean()) < float(found.distances.mean())
    mirror = flat(heldout.view(-1, *SIZE).flip(3))
    control = make_control(train, heldout, mirror)
    found = find_copies(flat(samples), train, control, mirror=flat(samples.flip(3)))
    assert found.suspects == []
    assert abs(verdict(found).c_t) < 3
    assert torch.equal(found.samples.distances[:, 0], found.distances)
    table = torch.cdist(torch.cat([heldout, mirror]).double(), train.double()).amin(1)
    nearer = torch.minimum(*table.chunk(2))
    torch.testing.assert_close(control.distances.double(), nearer, rtol=1e-4, atol=0)


def test_the_statistics_show_a_generator_that_copies() -> None:
    copies = TRAIN[:200] + 0.05 * images(200, 8)
    found = look(copies)
    assert verdict(found).c_t < -3
    assert verdict(found).closer.value > 0.99
    assert verdict(found).authentic.value < 0.05
    assert len(found.suspects) == 200
    far = verdict(look(FRESH * 3))
    assert far.c_t > 3
    assert far.closer.value < 0.05


def test_the_z_score_is_scipys() -> None:
    found = look(FRESH)
    mine = found.samples.distances[:, 0].double().numpy()
    theirs = found.heldout.double().numpy()
    u, p = scipy.stats.mannwhitneyu(mine, theirs, use_continuity=False, method="asymptotic")
    said = verdict(found)
    assert said.closer.value == pytest.approx(1 - u / (len(mine) * len(theirs)), abs=1e-9)
    assert 2 * scipy.stats.norm.sf(abs(said.c_t)) == pytest.approx(p, rel=1e-6)


def test_neighbours_come_in_order_and_are_true() -> None:
    found = look(FRESH)
    expected = nearest(flat(FRESH), flat(TRAIN), 10)
    assert torch.equal(found.samples.indices, expected.indices)
    assert found.samples.distances.shape == (200, 10)
    assert bool((found.samples.distances.diff(dim=1) >= 0).all())


def test_errors_are_those_of_a_share_and_of_two_samples() -> None:
    """A share p of n has the error √(p (1 - p)/(n - 1)), P(a < b) that of DeLong's formula."""
    found = look(FRESH)
    measured = found.measured()
    share = verdict(found).authentic.value
    expected = (share * (1 - share) / (len(FRESH) - 1)) ** 0.5
    assert measured["authentic"].estimate.error == pytest.approx(expected, rel=1e-9)
    a, b = found.samples.distances[:, 0], found.heldout
    less = (a[:, None] < b[None, :]).double()
    expected = float((less.mean(1).var() / len(a) + less.mean(0).var() / len(b)).sqrt())
    assert measured["closer"].estimate.error == pytest.approx(expected, rel=1e-9)
    errors = found.errors("pixel")  # over samples, the held-out images taken as given
    assert errors["nn_pixel_closer"] == pytest.approx(float((less.mean(1).var() / len(a)).sqrt()))
    assert set(errors) == {f"nn_pixel_{name}" for name in ("distance", "closer", "authentic")}
    named = found.values("pixel")
    assert named["nn_pixel_authentic"] == share
    assert named["nn_pixel_suspects"] == 0


VERDICT = {"closer", "authentic", "authentic_heldout", "c_t"}


@pytest.mark.parametrize(("size", "share"), [(800, 1.0), (400, 0.5), (400, None)])
def test_a_part_of_the_training_set_gives_no_verdict(size: int, share: float | None) -> None:
    """Half of the copies have their image in the half that is searched: these are suspects, and the
    rest would pass for authentic if there were a number."""
    train = flat(TRAIN)[:size]
    control = make_control(train, flat(HELDOUT))
    found = find_copies(flat(TRAIN[300:500]), train, control, searched=share)
    expected = 200 if size == 800 else 100
    assert sorted(found.suspects) == list(range(expected))
    names = {name.removeprefix("nn_pixel_") for name in found.values("pixel")}
    plain = {"distance", "heldout", "suspects"} | ({"searched"} if share else set())
    assert names == plain | (VERDICT if share == 1 else set())
    assert (found.verdict is None) == (share != 1)
    assert set(found.measured()) == names - {"suspects", "searched", "c_t"}


@pytest.mark.parametrize(
    ("total", "share", "words"), [(1600, 0.5, "0.5"), (800, 1.0, "1"), (None, None, "not known")]
)
def test_a_space_states_the_share_that_is_searched(
    total: int | None, share: float | None, words: str
) -> None:
    control = make_control(flat(TRAIN), flat(HELDOUT))
    space = Space("pixel", flat(TRAIN), control, False, total)
    assert space.searched == share
    how = space.protocol()
    assert how["searched training images"] == 800
    assert how["of training images"] == (total or "not known")
    assert how["share searched"] == words
