"""A thousand study files, each with something changed: planned, or refused in one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ablate.cli import main
from ablate.experiment import cost as plan
from ablate.experiment.cost import Speed
from tests.support.studies import make_root

BASE = {
    "question": "Does it run?",
    "bundle": "tiny.safetensors",
    "method": "grid",
    "seeds": [0, 1],
    "reference": "train",
    "objectives": [{"metric": "kid"}],
    "first": [{"init": "gaussian", "r": 0.5}],
    "constraints": {"flip_rate": 0.01},
    "marks": [{"knobs": {"init": "gaussian"}, "metrics": {"kid": 0.1}}],
    "fixed": {"sampler": "adls", "sigma": 0.8, "levels": 6},
    "search": {"init": ["class-average", "gaussian"], "r": {"low": 0.5, "high": 1.0, "step": 0.25}},
    "budgets": {"quick": {"samples": 64, "rungs": [16], "trials": 4}},
}
PLACES = [
    (key, *inner)
    for key, value in BASE.items()
    for inner in ([()] + [(k,) for k in value] if isinstance(value, dict) else [()])
] + [("search", "r", "low"), ("search", "r", "step"), ("budgets", "quick", "samples")]

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.floats(allow_nan=True, allow_infinity=True, width=16),
    st.sampled_from(["", "tpe", "qmc", "gp", "cmaes", "random", "asams", "pf-heun", "kid", "nfe"]),
    st.text(max_size=6),
    st.lists(st.sampled_from([0, 1, 0.5, "gaussian", "lognormal", True, -1]), max_size=3),
    st.dictionaries(
        st.sampled_from(["low", "high", "step", "log", "when", "choices", "x", "sampler", "chi"]),
        st.sampled_from([0.1, 1, 2, "adls", True, [1, 2], {"sampler": "adls"}]),
        max_size=3,
    ),
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(PLACES),
        st.sampled_from(["set", "drop", "add"]),
        VALUES,
        st.text(max_size=5),
    ),
    min_size=1,
    max_size=3,
)


def mutated(changes: list[tuple[tuple[str, ...], str, Any, str]]) -> dict[str, Any]:
    text = _toml(BASE)
    tables = tomllib.loads(text)
    for place, what, value, name in changes:
        table: Any = tables
        for key in place[:-1]:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            continue
        if what == "drop":
            table.pop(place[-1], None)
        else:
            table[place[-1] if what == "set" else name] = value
    return tables


def _toml(value: dict[str, Any]) -> str:
    return "\n".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items())


def _key(key: str) -> str:
    return _inline(key)


def _inline(value: Any) -> str:
    """TOML of any value; a None, which it has not, is left as a word that is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = "".join(
            c if c not in '"\\' and c.isprintable() and ord(c) < 0xD800 else f"\\u{ord(c):04x}"
            for c in value
            if ord(c) < 0xD800
        )
        return f'"{escaped}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return "none" if value is None else str(value)


@pytest.fixture(scope="module")
def root(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("mutated") / "root", tiny_bundle)


seen: set[int] = set()


@settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=CHANGES)
def test_a_mutated_file_is_planned_or_refused_in_one_line(
    changes: list[Any], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "studies" / "tiny.toml").write_text(_toml(mutated(changes)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan, "probe", lambda setup: Speed(0.01, 0.001, 0.1))
        patched.setattr("sys.argv", ["ablate", "--root", str(root), "study", "tiny", "--plan"])
        with pytest.raises(SystemExit) as ended:
            main()
    said = capsys.readouterr()
    assert ended.value.code in (0, 2), said.err
    seen.add(ended.value.code)
    if ended.value.code == 2:
        assert said.err.startswith("error: ")
        assert len(said.err.strip().splitlines()) == 1
    else:
        assert "network evaluations" in said.out


def test_both_were_seen() -> None:
    """The test above would be worthless if every file were refused."""
    assert seen == {0, 2}
