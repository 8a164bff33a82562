"""Networks from elsewhere: the same denoiser comes out, and what does not fit is refused."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.diffusion.processes import GBM
from ablate.metrics.extractors.extractor import Extractor, load_extractor, shipped_path
from ablate.models import bundle as bundles
from ablate.models.bundle import Bundle, Steps
from ablate.models.recipe import Recipe
from ablate.nets.by_step import step
from ablate.nets.config import Net
from ablate.nets.registry import make_net
from ablate.training.import_weights import import_bundle
from ablate.training.weight_files import read_weights
from tests.support.beds import normal


@pytest.fixture(scope="module")
def original(tiny_bundle: Path) -> Bundle:
    return bundles.read(tiny_bundle)


def extractor() -> Extractor:
    return load_extractor(shipped_path("digits"))


def weights_of(original: Bundle) -> dict[str, Tensor]:
    return {name: value.contiguous() for name, value in original.model.net.state_dict().items()}


def answers(bundle: Bundle, s: float) -> Tensor:
    with torch.no_grad():
        denoised: Tensor = bundle.model(normal((4, 1, 8, 8), 0).float(), torch.full((4,), s))
    return denoised


def imported(weights: Path, original: Bundle, out: Path, key: str | None = None) -> Bundle:
    import_bundle(weights, "theirs", original.card.recipe, extractor(), out, key=key)
    return bundles.read(out)


def test_a_safetensors_file_becomes_the_same_denoiser(original: Bundle, tmp_path: Path) -> None:
    save_file(weights_of(original), tmp_path / "w.safetensors")
    ours = imported(tmp_path / "w.safetensors", original, tmp_path / "out.safetensors")
    assert torch.equal(answers(ours, 0.4), answers(original, 0.4))
    assert ours.card.name == "theirs"
    assert ours.card.extractor == original.card.extractor
    assert torch.equal(ours.features["train"], original.features["train"])


def test_a_state_dict_under_a_key_with_ddp_names(original: Bundle, tmp_path: Path) -> None:
    named = {f"module.{name}": value for name, value in weights_of(original).items()}
    zeros = {name: torch.zeros_like(value) for name, value in named.items()}
    torch.save({"g": named, "d": zeros, "step": 7}, tmp_path / "w.pt")
    ours = imported(tmp_path / "w.pt", original, tmp_path / "out.safetensors", "g")
    assert torch.equal(answers(ours, 0.4), answers(original, 0.4))
    with pytest.raises(UserError, match="try --key with one of: g, d"):
        read_weights(tmp_path / "w.pt")


def test_a_network_that_is_conditioned_on_k(tmp_path: Path) -> None:
    """The paper's: s_θ(x, k), its output times x the hyvarinen, k = N (s/sigma)²."""
    recipe = Recipe(
        dataset="digits",
        steps=1,
        objective="paper",
        rank=64,
        class_rank=16,
        net=Net(kind="ncsn-deeper", width=16),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = make_net(recipe.net, 1, 1)
    net.load_state_dict({k: v.half().float() for k, v in net.state_dict().items()})  # as is kept
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    out, s = tmp_path / "out.safetensors", 0.8 * math.sqrt(300 / 1000)
    steps = Steps(sigma=0.8, N=1000)
    errors = import_bundle(tmp_path / "w.safetensors", "theirs", recipe, extractor(), out, steps)
    assert max(errors) < 0.8
    ours = bundles.read(out)
    assert ours.card.s_max == 0.8 * math.sqrt(0.999)
    y = normal((4, 1, 8, 8), 0).float()
    k = step(GBM(0.8), 1000, torch.full((4,), s).log())
    assert torch.allclose(k, torch.tensor(300.0), rtol=1e-5)  # float32: some 1e-7 four times over
    with torch.no_grad():
        by_hand = y + s**2 * (1 + y.exp() * net(y.exp(), k))
    assert torch.allclose(answers(ours, s), by_hand, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_is_refused(original: Bundle, tmp_path: Path) -> None:
    save_file({"stem.weight": torch.zeros(3)}, tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="do not fit the network named"):
        imported(tmp_path / "w.safetensors", original, tmp_path / "out.safetensors")
    with pytest.raises(UserError, match="no such file"):
        read_weights(tmp_path / "none.pt")
    (tmp_path / "bad.safetensors").write_bytes(b"not this")
    with pytest.raises(UserError, match="cannot be read as a safetensors file"):
        read_weights(tmp_path / "bad.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


class Touch:
    """Unpickled, it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(pickle.dumps(Touch(tmp_path / "ran"), protocol=2))
    with pytest.raises(UserError, match="never unpickled"):
        read_weights(tmp_path / "w.pt")
    assert not (tmp_path / "ran").exists()
