"""Which extractor a study has: its own, or the default of its name, budget and machine."""

from __future__ import annotations

import pytest

from ablate.core.errors import UserError
from ablate.study.extractors import default_extractor, with_extractor
from ablate.study.resolve import parse
from tests.support.studies import TEXT


@pytest.mark.parametrize(
    ("name", "budget", "device", "installed", "expected"),
    [
        ("cifar10-adls", "quick", "cpu", True, "small"),
        ("cifar10-adls", "full", "cpu", True, "small"),
        ("cifar10-adls", "quick", "cuda", True, "small"),
        ("cifar10-adls", "full", "cuda", True, "inception"),
        ("cifar10-adls", "full", "cuda:1", True, "inception"),
        ("cifar10-adls", "full", "cuda", False, "small"),
        ("cifar10-paper", "quick", "cpu", True, "inception"),
        ("cifar10-paper", "smoke", "cuda", True, "inception"),
        ("cifar10-paper", "full", "cpu", False, "small"),
    ],
)
def test_the_default(name: str, budget: str, device: str, installed: bool, expected: str) -> None:
    assert default_extractor(name, budget, device, lambda: installed) == expected


def test_whether_it_is_installed_is_asked_only_if_it_matters() -> None:
    """The question imports torch, which `ablate show` should not wait for."""

    def never() -> bool:
        raise AssertionError("asked")

    assert default_extractor("digits-adls", "full", "cpu", never) == "small"


def test_what_the_file_says_goes_first() -> None:
    plain = TEXT.format(method="grid", trials=4)
    for name in ("small", "inception"):
        study = parse(f'extractor = "{name}"\n{plain}', "x-paper", "quick")
        assert with_extractor(study, "cuda").extractor == name
    assert with_extractor(parse(plain, "x", "quick"), "cpu").extractor == "small"


def test_the_hash_of_the_extractor_makes_the_identity_and_its_name_does_not() -> None:
    study = parse(TEXT.format(method="grid", trials=4), "x", "quick")
    chosen = with_extractor(study, "cpu")
    assert study.identity("bundle", "hash") == chosen.identity("bundle", "hash")
    assert study.identity("bundle", "hash") != study.identity("bundle", "other")


@pytest.mark.parametrize(
    ("line", "words"),
    [('extractor = "clip"', "extractor"), ('also = ["clip"]', "also"), ("also = 3", "also")],
)
def test_others_are_refused(line: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        parse(f"{line}\n{TEXT.format(method='grid', trials=4)}", "x", "quick")
    assert "\n" not in str(refused.value)
