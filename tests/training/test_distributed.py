"""Two processes of torchrun train as one: same batch, same losses, nearly the same weights."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
import torch

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset, to_unit_interval_plus_one
from ablate.diffusion.moments import fit_moments
from ablate.models.bundle import build_model
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.training import distributed
from ablate.training.loop import train
from tests.support.commands import fork_server
from tests.support.torchrun import by_torchrun
from tests.training.worker import train_in_group

STEPS = 8


def forked_rank(rank: int, port: int, recipe: str, folder: Path, stop: int) -> None:
    """A process with the environment that torchrun gives to one."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    os.environ.update(meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"})
    train_in_group(Recipe.model_validate_json(recipe), folder, stop)


def by_forks(recipe: Recipe, folder: Path, stop: int) -> None:
    """Train in two forks of a process that has imported torch, which takes torchrun seconds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = port, recipe.model_dump_json(), folder, stop
    start = fork_server().Process
    ranks = [start(target=forked_rank, args=(rank, *arguments)) for rank in (0, 1)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(180)
    assert [process.exitcode for process in ranks] == [0, 0]


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """Without dropout: the masks of half a batch are not half of the masks of a batch."""
    sizes = {"steps": STEPS, "batch": 32, "warmup": 3, "rate": 3e-3, "rank": 64, "class_rank": 4}
    return Recipe(dataset="digits", net=Net(widths=(8,), blocks=1), **sizes)


WITHOUT_EFFECT = {
    *("stem.bias", "attention.out.bias"),
    *("bottom.0.conv_in.bias", "bottom.0.conv_out.bias"),
}


def untrained(recipe: Recipe, digits: Dataset) -> dict[str, torch.Tensor]:
    moments = fit_moments(
        to_unit_interval_plus_one(digits.train.pixels), digits.train.labels, 64, 4
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return build_model(digits.shape, recipe, moments).net.state_dict()


def test_two_processes_are_one(recipe: Recipe, digits: Dataset, tmp_path: Path) -> None:
    """Gradients are sums of the same 32 images' in another order: float32, some 1e-6 of their
    size (20 roundings). An update has the rate's size whatever the gradient's, and Muon magnifies
    small singular values by up to 3.44^5 = 500; so the weights differ by less than 500e-6 of the
    way they went. Biases in front of a norm of one channel a group have no gradient but rounding,
    which AdamW scales up: they go anywhere within the sum of the rates, to no effect.

    Stopped after step 5 and resumed: there is only the first process's checkpoint, from which the
    second gets its state.
    """
    losses: list[float] = []
    start = untrained(recipe, digits)
    alone = train(
        recipe, digits, tmp_path / "alone.pt", progress=lambda _, loss: losses.append(loss)
    ).model.net.state_dict()
    by_forks(recipe, tmp_path, stop=5)
    by_torchrun(recipe, tmp_path)
    reports = [
        [json.loads(line) for line in (tmp_path / f"{rank}.txt").read_text().splitlines()]
        for rank in (0, 1)
    ]
    assert reports[0] == reports[1]
    order = [1, 2, 3, 4, 5, 4, 5, 6, 7, 8]  # from the checkpoint after step 3
    assert [row[:3] for row in reports[0]] == [[2, 32, step] for step in order]
    shared_losses = [loss for *_, loss in reports[0]]
    assert shared_losses[0] == pytest.approx(losses[0], rel=1e-6)  # before any update
    assert shared_losses == pytest.approx([losses[step - 1] for step in order], rel=1e-4)
    first, second = (
        torch.load(tmp_path / f"weights-{rank}.pt", weights_only=True) for rank in (0, 1)
    )
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), name  # they cannot drift apart
        apart = (first[name] - value).abs()
        if name in WITHOUT_EFFECT:
            assert float(apart.max()) < 2 * recipe.rate * STEPS, name
        else:
            way = float((value - start[name]).norm())
            assert float(apart.norm()) < 500e-6 * way, name
    assert (tmp_path / "of-0.pt").exists()
    assert not (tmp_path / "of-1.pt").exists()  # the first alone writes
    for rank in (0, 1):  # neither exit leaves a thread of gloo, which could abort the process
        assert (tmp_path / f"threads-{rank}.txt").read_text() == "\n\n"


REPETITIONS = 100


@pytest.mark.slow
def test_leaving_the_process_group_never_aborts(recipe: Recipe, tmp_path: Path) -> None:
    """A stopped and a resumed training by torchrun, 100 times in a row: 30 minutes on idle cores.

    A rank used to abort when it left ("terminate called without an active exception"), once in
    some 50 launches: a thread of gloo outlived the process group. At that rate 200 launches
    without an abort have probability 0.98^200 = 2 %. `test_two_processes_are_one` checks at every
    commit that no such thread is left.
    """
    for repetition in range(REPETITIONS):
        folder = tmp_path / str(repetition)
        folder.mkdir()
        by_torchrun(recipe, folder, stop=5)
        by_torchrun(recipe, folder)
        print(f"{repetition + 1} of {REPETITIONS}", flush=True)


def test_without_torchrun_there_is_one_process() -> None:
    values = torch.arange(3.0)
    with distributed.process_group("cpu") as device:
        assert device == "cpu"
        assert (distributed.world_size(), distributed.rank()) == (1, 0)
        assert distributed.batch_share(7) == slice(0, 7)
        assert distributed.gathered(values) is values
        assert distributed.from_first({"a": 1}) == {"a": 1}


def test_shares_are_disjoint_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    seen: list[int] = []
    for rank in range(4):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        seen += range(12)[distributed.batch_share(12)]
    assert seen == list(range(12))
    distributed.check_batch(12)
    with pytest.raises(UserError, match="batch = 10 cannot be shared equally by 4"):
        distributed.check_batch(10)
