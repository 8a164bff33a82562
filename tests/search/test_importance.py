"""The importance of knobs: which explain the objective, and when that cannot be said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ablate.results import Value
from ablate.search import Entry, importance, propose
from ablate.study.definition import Study
from ablate.study.file import objective
from ablate.study.resolve import parse
from tests.search.test_search import WIDE, opened, proposed, study


def of_adls() -> Study:
    """Every trial has every knob."""
    text = WIDE.replace('sampler = ["adls", "pf-heun"]\n', "").replace(
        "[fixed]", '[fixed]\nsampler = "adls"'
    )
    return parse(text.format(method="random"), "s", "quick")


def test_importance_finds_the_knob_that_matters(tmp_path: Path) -> None:
    """Only r changes the objective, and all trials have it."""
    spec = of_adls()
    ledger = opened(tmp_path / "db", spec)
    for _ in range(60):
        entry = proposed(ledger)
        ledger.complete(entry.number, [float(entry.params["r"]) ** 2], {})
    found = importance(spec, ledger.entries())["kid"]
    assert {"PED-ANOVA", "fANOVA"} < set(found)
    for shares in (found["PED-ANOVA"], found["fANOVA"]):
        assert max(shares, key=lambda knob: shares[knob]) == "r"
        assert shares["r"] > 0.8
        assert abs(sum(shares.values()) - 1) < 1e-6


def test_pairs_of_knobs_have_shares_of_the_same_variance(tmp_path: Path) -> None:
    """A product of two centred knobs is of the pair, a sum is of each alone; of every tree, what is
    of one knob and of both is all of it."""

    def of_both(name: str, value: Callable[[float, float], float]) -> float:
        spec = of_adls()
        ledger = opened(tmp_path / name, spec)
        for _ in range(60):
            entry = proposed(ledger)
            found = value(float(entry.params["r"]) - 0.75, float(entry.params["L"]) - 2)
            ledger.complete(entry.number, [found], {})
        methods = importance(spec, ledger.entries())["kid"]
        main, pairs = methods["fANOVA variance"], methods["fANOVA pairs"]
        assert set(pairs) == set(methods["fANOVA pairs error"]) == {"L and r"}
        assert abs(sum(main.values()) + pairs["L and r"] - 1) < 1e-6
        return pairs["L and r"]

    # a forest of 60 trials also sees a pair in a sum, and single knobs in a product: a few tenths
    assert of_both("product", lambda r, L: r * L) > 2 * of_both("sum", lambda r, L: 4 * r + L)


def test_importance_is_of_r_where_delta_was_searched() -> None:
    spec = parse(
        """
question = "?"
bundle = "digits"
method = "random"
[fixed]
sampler = "adls"
sigma = 0.8
init = "gaussian"
levels = 50
grid = "uniform"
[search]
delta = { low = 0.005, high = 0.02 }
L = { low = 1, high = 4 }
[budgets.quick]
samples = 8
trials = 40
""",
        "s",
        "quick",
    )
    rows = [propose(spec, n, []).params for n in range(40)]
    steps = [float(spec.settings(row).relative_step) for row in rows]
    entries = [
        Entry(n, row, "complete", (step,))
        for n, (row, step) in enumerate(zip(rows, steps, strict=True))
    ]
    found = importance(spec, entries)["kid"]["fANOVA"]
    assert "delta" not in found
    assert max(found, key=lambda knob: found[knob]) == "r"


def test_too_few_trials_have_no_importance() -> None:
    assert importance(study("random"), []) == {}
    spec = of_adls()
    rows = [propose(spec, n, []).params for n in range(9)]
    entries = [Entry(n, row, "complete", (float(n),)) for n, row in enumerate(rows)]
    assert len(rows[0]) == 2
    assert importance(spec, entries[:4]) == {}
    found = importance(spec, entries[:5])["kid"]
    assert "PED-ANOVA" not in found
    assert {method.split()[0] for method in found} == {"fANOVA"}  # two a knob, and one more


def test_importance_counts_pruned_trials(tmp_path: Path) -> None:
    """Two complete trials and many that were pruned, as in a search with rungs."""
    spec = of_adls()
    ledger = opened(tmp_path / "db", spec)
    for n in range(40):
        entry = proposed(ledger)
        if n < 2:
            ledger.complete(entry.number, [float(entry.params["r"])], {})
        elif n < 39:
            ledger.prune(entry.number, {}, float(entry.params["r"]), samples=128)
        else:
            ledger.prune(entry.number, {}, None, samples=0)  # diverged at once
    entries = ledger.entries()
    assert [len(entry.values) for entry in entries] == [1] * 39 + [0]
    found = importance(spec, entries)["kid"]
    for method in ("fANOVA", "PED-ANOVA", "fANOVA variance"):
        assert max(found[method], key=lambda knob: found[method][knob]) == "r"


def test_importance_does_not_mix_fid_at_different_numbers_of_samples(tmp_path: Path) -> None:
    """FID falls with the number of samples: a pruned trial's stands for its few samples."""
    fid = of_adls().model_copy(update={"objectives": (objective("fid"),)})
    rows = [propose(fid, n, []).params for n in range(20)]
    few = [Entry(n, row, "pruned", (100.0,)) for n, row in enumerate(rows)]
    assert importance(fid, few) == {}
    done = [entry._replace(state="complete", values=(float(entry.params["r"]),)) for entry in few]
    assert importance(fid, [*done, *few]) == importance(fid, done)
    assert importance(of_adls(), few[:1] + done[1:]) != importance(of_adls(), done[1:])


def entries_of(
    text: str, objective: Callable[[dict[str, Value]], float]
) -> tuple[Study, list[Entry]]:
    spec = parse(text, "s", "quick")
    rows = [propose(spec, n, []).params for n in range(spec.trials)]
    return spec, [Entry(n, row, "complete", (objective(row),)) for n, row in enumerate(rows)]


ROWS = """
question = "Which?"
bundle = "digits"
method = "grid"
rows = [
  { sampler = "adls", init = "gaussian", L = 1, r = 0.6 },
  { sampler = "adls", init = "class-average", L = 1, r = 0.6 },
  { sampler = "asams", init = "gaussian", L = 3, r = 0.75 },
  { sampler = "asams", init = "class-average", L = 3, r = 0.43 },
]
[fixed]
sigma = 0.8
[search]
chi = [0.995, 0.9995, 1.0]
n = [2]
[budgets.quick]
samples = 8
"""


def test_rows_have_importance_for_knobs_that_determine_the_others() -> None:
    """L follows from the sampler, r from sampler and start: neither has an effect of its own."""
    spec, entries = entries_of(ROWS, lambda row: float(row["sampler"] == "asams"))
    found = importance(spec, entries)["kid"]
    for method in ("fANOVA", "PED-ANOVA", "fANOVA variance"):
        assert set(found[method]) == {"sampler", "init", "chi"}
        assert max(found[method], key=lambda knob: found[method][knob]) == "sampler"


CONDITIONAL = """
question = "Which?"
bundle = "digits"
method = "random"
[fixed]
sampler = "adls"
init = "gaussian"
[search]
schedule = ["constant", "ve"]
sigma = { low = 0.1, high = 3.0 }
sigma_min = { low = 0.01, high = 0.3 }
sigma_max = { low = 0.8, high = 5.0 }
[budgets.quick]
samples = 8
trials = 40
"""


def test_fanova_is_left_out_where_some_trials_lack_a_knob() -> None:
    """It would drop the knobs that some trials lack, and the schedule would explain everything."""
    spec, entries = entries_of(CONDITIONAL, lambda row: float(row.get("sigma", 0.5)))
    found = importance(spec, entries)["kid"]
    assert set(found) == {"PED-ANOVA"}
    assert set(found["PED-ANOVA"]) == {"schedule", "sigma", "sigma_min", "sigma_max"}
