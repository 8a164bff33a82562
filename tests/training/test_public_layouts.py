"""Checkpoints of public code bases become the same network here, tensor by tensor."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.models import bundle as bundles
from ablate.models.bundle import Bundle, Steps
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.nets.registry import make_net
from ablate.training.import_weights import import_bundle
from ablate.training.loop import StepReport, train
from ablate.training.options import check_fits
from ablate.training.public_layouts import LayoutError, in_our_names, layout_of, options_of
from ablate.training.weight_files import read_weights
from tests.support.beds import normal
from tests.support.public_ncsn import PublicNCSN
from tests.support.public_sde import PublicSDE

WIDTH, ROWS = 16, 40
STEPS = Steps(sigma=0.8, N=ROWS)
LEVELS = torch.tensor([0.1, 0.3, 0.5, 0.75])  # of s, within those of STEPS
K = (ROWS * (LEVELS / 0.8) ** 2).round()  # the steps next to them


class Case(NamedTuple):
    """A public network, our configuration of it, and the condition that theirs takes."""

    make: Callable[[], nn.Module]
    net: Net
    condition: Tensor
    steps: Steps | None = None  # ours takes a step; else log s


CASES = {
    "NCSN": Case(
        lambda: PublicNCSN(1, WIDTH, ROWS, LEVELS),
        Net(kind="ncsn-deeper", width=WIDTH),
        K.long(),
        STEPS,
    ),
    "NCSNv2": Case(
        lambda: PublicNCSN(1, WIDTH, 0, LEVELS),
        Net(kind="ncsn-deeper", width=WIDTH),
        torch.arange(4),
    ),
    "DDPM++": Case(
        lambda: PublicSDE(1, WIDTH, 2, plus=False),
        Net(kind="ddpm++", width=WIDTH, blocks=2),
        K,
        STEPS,
    ),
    "NCSN++": Case(
        lambda: PublicSDE(1, WIDTH, 2, plus=True),
        Net(kind="ddpm++", width=WIDTH, blocks=2),
        LEVELS,
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


def public(name: str, seed: int = 0) -> nn.Module:
    """Random weights that float16 holds, as a bundle does; what is not trained in float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = CASES[name].make().eval()
    for parameter in net.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.half().float()
    return net


def checkpoint(raw: nn.Module, averaged: nn.Module) -> Any:
    """As the public code saves it, from a model in DataParallel."""
    model = {f"module.{key}": value for key, value in raw.state_dict().items()}
    optimiser = torch.optim.Adam(p for p in raw.parameters() if p.requires_grad).state_dict()
    trained = {key: p.data for key, p in averaged.named_parameters() if p.requires_grad}
    if isinstance(raw, PublicSDE):
        average = {"decay": 0.999, "num_updates": 7, "shadow_params": list(trained.values())}
        return {"optimizer": optimiser, "model": model, "ema": average, "step": 7}
    return [model, optimiser, 3, 7, trained]


def pair_of_weights(name: str) -> tuple[nn.Module, nn.Module]:
    """(trained, averaged): they share what is not trained."""
    raw = public(name)
    averaged = public(name, seed=1)
    fixed = {key: p.data for key, p in raw.named_parameters() if not p.requires_grad}
    averaged.load_state_dict(fixed, strict=False)
    return raw, averaged


def translated(name: str, theirs: nn.Module) -> nn.Module:
    """Our network with their weights, in float64."""
    tensors, config = theirs.double().state_dict(), CASES[name].net
    options = options_of(tensors, config)
    net = make_net(config.model_copy(update={"options": options}), 1, 1).double().eval()
    net.load_state_dict(in_our_names(tensors, net))
    return net


@every_case
def test_our_network_computes_theirs(name: str) -> None:
    """Element for element. In float64, so that roundings hide nothing: some 100 layers, each of
    1e-16 times the root of its 1,000 terms, magnified by norms of small spread: below 1e-11."""
    case, theirs = CASES[name], public(name).double()
    ours = translated(name, theirs)
    image, levels = normal((4, 1, 8, 8), 3), LEVELS.double()
    whole = not case.condition.is_floating_point()
    with torch.no_grad():
        expected = theirs(image, case.condition if whole else case.condition.double())
        out = ours(image, levels.log() if case.steps is None else K.double())
    assert float(expected.std()) > 1e-3
    assert float((out - expected).abs().max()) < 1e-11 * float(expected.abs().max())


def recipe_of(name: str, **options: Any) -> Recipe:
    net = CASES[name].net.model_copy(update={"options": options})
    return Recipe(dataset="digits", steps=1, objective="paper", rank=64, class_rank=16, net=net)


def imported(
    name: str, content: Any, folder: Path, key: str | None = None, **options: Any
) -> Bundle:
    torch.save(content, folder / "theirs.pth")
    extractor, out = load_extractor(shipped_path("digits")), folder / "out.safetensors"
    steps, recipe = CASES[name].steps, recipe_of(name, **options)
    import_bundle(folder / "theirs.pth", "theirs", recipe, extractor, out, steps, key)
    return bundles.read(out)


def scores(bundle: Bundle, y: Tensor) -> Tensor:
    """F of the imported bundle, from its denoiser D = y + s² (1 + x F)."""
    s = levels_of(bundle)[:, None, None, None]
    with torch.no_grad():
        denoised: Tensor = bundle.model(y, s.flatten())
    return ((denoised - y) / s**2 - 1) / y.exp()


def levels_of(bundle: Bundle) -> Tensor:
    """LEVELS, or those of the steps next to them."""
    return LEVELS if bundle.card.steps is None else 0.8 * (K / ROWS).sqrt()


def close(ours: Tensor, theirs: Tensor) -> bool:
    """float32: 100 layers of 6e-8 times the root of 1,000 terms, adding up as squares, are 2e-5.

    A time of 40 or a frequency of 300 has its roundings in the angle of a sine, 2e-5 at most; and
    D - y divided by s² = 0.01 loses two digits of D's last bit, 6e-8 · 100. Five times their sum.
    """
    return float((ours - theirs).abs().max()) < 2.5e-4 * max(1.0, float(theirs.abs().max()))


@every_case
def test_a_checkpoint_becomes_a_bundle_of_the_average(name: str, tmp_path: Path) -> None:
    """The average is the default; --key model takes the trained weights instead."""
    raw, averaged = pair_of_weights(name)
    content = checkpoint(raw, averaged)
    y = normal((4, 1, 8, 8), 5).float()
    for key, part, theirs in ((None, "ema", averaged), ("model", "model", raw)):
        bundle = imported(name, content, tmp_path, key)
        with torch.no_grad():
            expected = theirs(y.exp(), CASES[name].condition)
        assert close(scores(bundle, y), expected)
        assert bundle.card.provenance["weights"] == part
    with torch.no_grad():
        other = averaged(y.exp(), CASES[name].condition)
    assert not close(expected, other)  # which weights they are matters


def test_images_that_the_public_code_rescales(tmp_path: Path) -> None:
    raw, averaged = pair_of_weights("DDPM++")
    content = checkpoint(raw, averaged)
    bundle = imported("DDPM++", content, tmp_path, rescale=True)
    y = normal((4, 1, 8, 8), 5).float()
    with torch.no_grad():
        assert close(scores(bundle, y), averaged(2 * y.exp() - 1, K))


@every_case
def test_every_tensor_of_ours_is_made_once(name: str) -> None:
    theirs = public(name)
    ours = translated(name, theirs)
    made = in_our_names(theirs.state_dict(), ours)
    assert set(made) == set(ours.state_dict())
    assert sum(v.numel() for v in made.values()) == sum(p.numel() for p in theirs.parameters())


@every_case
def test_what_is_missing_and_extra_is_listed(name: str) -> None:
    theirs = public(name).state_dict()
    ours = translated(name, public(name))
    weights = [key for key in theirs if key.endswith(".bias")]
    for key in weights[:5]:
        theirs[f"{key}_orig"] = theirs.pop(key)
    with pytest.raises(LayoutError) as caught:
        in_our_names(theirs, ours)
    missing, extra = str(caught.value).split("; ")
    assert missing.startswith("5 missing: ")
    assert extra == f"5 extra: {', '.join(f'{key}_orig' for key in weights[:3])}, …"


def test_a_wrong_width_is_listed_by_shapes() -> None:
    theirs = public("NCSN").state_dict()
    net = make_net(Net(kind="ncsn-deeper", width=8, options={"table": ROWS}), 1, 1)
    with pytest.raises(LayoutError, match=r"of another shape: .* \(16, 1, 3, 3\) for \(8, 1, 3, 3"):
        in_our_names(theirs, net)


def refusal(content: Any, folder: Path, recipe: Recipe, steps: Steps | None) -> str:
    torch.save(content, folder / "theirs.pth")
    extractor, out = load_extractor(shipped_path("digits")), folder / "out.safetensors"
    with pytest.raises(UserError) as caught:
        import_bundle(folder / "theirs.pth", "theirs", recipe, extractor, out, steps)
    assert not out.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_the_network_named_is_refused(tmp_path: Path) -> None:
    def said(name: str, recipe: Recipe, steps: Steps | None = STEPS) -> str:
        return refusal(public(name).state_dict(), tmp_path, recipe, steps)

    assert "net.kind must be 'ncsn-deeper'" in said("NCSN", recipe_of("DDPM++"))
    assert "--sigma and --N say what k meant" in said("NCSN", recipe_of("NCSN"), None)
    assert f"have {ROWS} rows" in said("NCSN", recipe_of("NCSN"), Steps(sigma=0.8, N=1000))
    assert "no --sigma and --N" in said("NCSN++", recipe_of("NCSN++"))
    assert "ddpm++ has no 'rescaled'" in said("DDPM++", recipe_of("DDPM++", rescaled=True))
    three = recipe_of("DDPM++")
    three = three.model_copy(update={"net": three.net.model_copy(update={"blocks": 3})})
    assert "missing: all_modules." in said("DDPM++", three)


def test_averages_that_do_not_go_with_the_model_are_refused(tmp_path: Path) -> None:
    raw, averaged = pair_of_weights("DDPM++")
    content = checkpoint(raw, averaged)
    shadows = content["ema"]["shadow_params"]
    short = copy.copy(content) | {"ema": {"shadow_params": shadows[1:]}}
    text = refusal(short, tmp_path, recipe_of("DDPM++"), STEPS)
    assert f"{len(shadows) - 1} shadow_params for {len(shadows)} tensors" in text
    turned = copy.copy(content) | {"ema": {"shadow_params": shadows[::-1]}}
    assert "in another order" in refusal(turned, tmp_path, recipe_of("DDPM++"), STEPS)


def test_parts_of_a_file(tmp_path: Path) -> None:
    tensors = {"module.a": torch.ones(2), "module.b": torch.zeros(1)}
    average = {"a": torch.full((2,), 3.0)}

    def read(content: Any, key: str | None = None) -> tuple[dict[str, list[float]], str]:
        torch.save(content, tmp_path / "w.pt")
        named, part = read_weights(tmp_path / "w.pt", key)
        return {name: value.tolist() for name, value in named.items()}, part

    raw, mixed = {"a": [1.0, 1.0], "b": [0.0]}, {"a": [3.0, 3.0], "b": [0.0]}
    assert read(tensors) == (raw, "")
    assert read([tensors, {"state": {}}, 1, 2]) == (raw, "model")
    assert read([tensors, {"state": {}}, 1, 2, average]) == (mixed, "ema")
    assert read([tensors, {"state": {}}, 1, 2, average], "model") == (raw, "model")
    assert read({"state_dict": tensors, "ema_helper": average}) == (mixed, "ema_helper")
    assert read({"model": tensors, "step": 7}) == (raw, "model")
    for content, key in (({"g": tensors, "d": tensors}, None), ({"g": tensors}, "ema")):
        with pytest.raises(UserError, match="try --key with one of: g"):
            read(content, key)
    wrong: list[Any] = [[], [1, 2], 7, {"step": 7}]
    for content in wrong:
        with pytest.raises(UserError, match="not a state dict"):
            read(content)


class Touch:
    """Unpickled, it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@every_case
def test_a_trap_in_a_public_checkpoint_is_never_unpickled(name: str, tmp_path: Path) -> None:
    raw = public(name)
    content, trap = checkpoint(raw, raw), Touch(tmp_path / "ran")
    content = {**content, "config": trap} if isinstance(content, dict) else [*content, trap]
    text = refusal(content, tmp_path, recipe_of(name), CASES[name].steps)
    assert "never unpickled" in text
    assert not (tmp_path / "ran").exists()


def test_training_a_published_variant(digits: Dataset, tmp_path: Path) -> None:
    """NCSN++ is conditioned on log s, so it can be trained here; its frequencies stay. What is
    conditioned on k is for import alone."""
    options = {"embedding": "fourier", "fir": True, "divide": True, "pyramid": True}
    recipe = recipe_of("NCSN++", **options).model_copy(update={"steps": 2, "batch": 8})
    before = {}

    def watch(report: StepReport) -> None:
        before[report.step] = report.averaged().model.net.state_dict()

    after = train(recipe, digits, tmp_path / "a.pt", watch=watch).model.net.state_dict()
    assert after["conditioning.frequencies"].std() > 10
    assert torch.equal(after["conditioning.frequencies"], before[1]["conditioning.frequencies"])
    assert not torch.equal(after["pyramid.0.weight"], before[1]["pyramid.0.weight"])
    for name, option in (("NCSN", {"table": ROWS}), ("DDPM++", {"embedding": "time"})):
        with pytest.raises(UserError, match="is conditioned on a step k"):
            check_fits(recipe_of(name, **option), digits)


def test_our_own_names_are_no_layout() -> None:
    net = make_net(Net(widths=(8,), blocks=1), 2, 1)
    assert layout_of(net.state_dict()) is None
    assert in_our_names(net.state_dict(), net).keys() == net.state_dict().keys()
