"""The house in one direction: who may import whom, and what stays out of `ablate --help`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ablate

ROOT = Path(ablate.__file__).parent

RULES = {
    "core": "",
    "results": "core",
    "diffusion": "core",
    "samplers": "core diffusion",
    "data": "core",
    "nets": "core diffusion",
    "models": "core diffusion nets",
    "generate": "core diffusion samplers data nets models",
    "metrics": "core data nets models",
    "study": "core results generate metrics",
    "search": "core results study",
    "tracking": "core results",
    "training": "core results diffusion samplers data nets models generate metrics tracking",
    "experiment": "core results diffusion samplers data nets models generate metrics study search"
    " tracking training",
    "report": "core results",
    "cli": "core results diffusion data models generate metrics training study search tracking"
    " experiment report",
    "door": "core results data samplers generate models metrics study tracking experiment report"
    " cli",
    "__init__": "core door",
    "__main__": "cli",
}
"""Folder (or module of its own) -> the others that it may import from. Read top to bottom, every
rule names only folders above it: the data flows one way."""

HOMES = {
    "optuna": {
        *("search.__init__", "search.fanova", "search.importance", "search.law", "search.ledger"),
        *("search.proposals", "search.storage"),
    },
    "sqlalchemy": {"search.database", "experiment.leases"},
    "ray": {"experiment.executors.ray_cluster"},
    "mlflow": {
        *("tracking.client", "tracking.inputs", "tracking.served_runs", "tracking.transaction"),
        *("tracking.writer", "tracking.ui_page", "tracking.ui_server"),
    },
    "typer": {
        *("cli.app", "cli.options", "cli.study", "cli.results", "cli.training", "cli.data"),
        *("cli.bundles", "cli.evaluate", "cli.features", "cli.report"),
    },
    "matplotlib": {
        "report.dots",
        "report.drawing",
        "report.law_plot",
        "report.look",
        "report.plots",
        "report.profile_plot",
        "report.scales",
    },
    "seaborn": {"report.look", "report.plots", "report.profile_plot"},
    "rich": {"cli.console", "cli.progress"},
}
"""Libraries that one module alone knows, so that it alone changes with them."""


def modules() -> list[str]:
    """Every module below `ablate`, as report.plots; a folder is its __init__."""
    paths = sorted(path.relative_to(ROOT).with_suffix("") for path in ROOT.rglob("*.py"))
    return [".".join(path.parts) for path in paths]


every_module = pytest.mark.parametrize("module", modules())


def resolved(name: str) -> str:
    """ablate.report -> report.__init__; ablate.report.plots -> report.plots; ablate -> __init__."""
    parts = name.split(".")[1:]
    return ".".join([*parts, "__init__"] if ROOT.joinpath(*parts).is_dir() else parts)


def names_in(tree: ast.AST, module: str) -> Iterator[str]:
    """Everything imported anywhere: at the top, in a function, or for type checking alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively, unlike the rest"
            assert node.module is not None
            yield node.module
            for alias in node.names:  # from ablate import data: the module ablate.data
                whole = f"{node.module}.{alias.name}"
                if whole.startswith("ablate.") and resolved(whole) in modules():
                    yield whole


@cache
def imports(module: str) -> frozenset[str]:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return frozenset(names_in(ast.parse(path.read_text(encoding="utf-8")), module))


def own(module: str) -> set[str]:
    return {resolved(name) for name in imports(module) if name.split(".")[0] == "ablate"}


def foreign(module: str) -> set[str]:
    return {top for name in imports(module) if (top := name.split(".")[0]) != "ablate"}


def folder(module: str) -> str:
    return module.split(".")[0]


def test_every_folder_has_a_rule() -> None:
    assert set(RULES) == {folder(module) for module in modules()}


def test_rules_name_only_folders_above() -> None:
    order = list(RULES)
    for name, allowed in RULES.items():
        assert all(order.index(other) < order.index(name) for other in allowed.split()), name


@every_module
def test_a_folder_imports_what_its_rule_allows(module: str) -> None:
    assert own(module) <= set(modules()), "a module that is not there"
    allowed = {*RULES[folder(module)].split(), folder(module)}
    beyond = {other for other in own(module) if folder(other) not in allowed}
    assert not beyond, f"{module} imports {beyond}; its folder's rule does not allow that"


@every_module
def test_no_circles(module: str) -> None:
    """Modules of a folder may import each other; not in a circle, at any length."""
    assert module not in reached(own(module))


def reached(start: set[str]) -> set[str]:
    seen, todo = set(), set(start)
    while todo:
        seen |= todo
        todo = {further for module in todo for further in own(module)} - seen
    return seen


def within(*folders: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("module", [m for m in modules() if folder(m) in folders])


@within("diffusion", "samplers")
def test_maths_knows_torch_and_numpy_only(module: str) -> None:
    assert foreign(module) - sys.stdlib_module_names <= {"torch", "numpy"}


@within("results")
def test_results_stand_on_the_standard_library(module: str) -> None:
    assert foreign(module) <= sys.stdlib_module_names


@within("core")
def test_core_knows_torch_and_pydantic_at_most(module: str) -> None:
    assert foreign(module) - sys.stdlib_module_names <= {"torch", "pydantic"}


@pytest.mark.parametrize("library", HOMES)
def test_libraries_with_one_home(library: str) -> None:
    users = {module for module in modules() if library in foreign(module)}
    assert users == HOMES[library]


def test_reports_are_made_without_what_made_the_numbers() -> None:
    """From MLflow's record alone; not even through another module of ours."""
    report = {module for module in modules() if module.startswith("report.")}
    assert len(report) > 3
    behind = report | reached({name for module in report for name in own(module)})
    for module in behind:
        found = foreign(module) & {"torch", "torchvision", "optuna", "mlflow", "typer"}
        assert not found, f"{module} imports {found}"


@every_module
def test_modules_are_named_for_what_they_do(module: str) -> None:
    assert not set(module.split(".")) & {"utils", "util", "helpers", "helper", "misc", "common"}


def unseeded(call: ast.Call) -> bool:
    """Does it draw from, or make, a generator that nobody seeded?"""
    name = ast.unparse(call.func)
    makers = {"default_rng", "Generator", "SFC64"}
    if name in {f"{module}.random.{maker}" for module in ("np", "numpy") for maker in makers}:
        return not call.args and not call.keywords
    draws = {"rand", "randn", "randint", "randperm", "normal", "multinomial", "bernoulli"}
    if name in {f"torch.{draw}" for draw in draws}:
        return "generator" not in {keyword.arg for keyword in call.keywords}
    return name.startswith(("np.random.", "numpy.random.")) and "(" not in name


@every_module
def test_no_global_random_numbers(module: str) -> None:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    assert "random" not in imports(module)
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert [ast.unparse(call) for call in calls if unseeded(call)] == []


HELP = """
import json, sys
from ablate.cli import main

sys.argv = ["ablate", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def test_help_is_quick_to_import() -> None:
    """Nothing heavy is loaded for it: this is what makes it answer at once."""
    done = subprocess.run(
        [sys.executable, "-c", HELP], capture_output=True, text=True, check=True, timeout=60
    )
    *shown, loaded = done.stdout.splitlines()
    assert any("study" in line for line in shown)
    heavy = {"torch", "torchvision", "mlflow", "optuna", "pandas", "matplotlib", "seaborn"}
    heavy |= {"numpy", "scipy", "sklearn", "torchmetrics", "pydantic"}
    assert not heavy & set(json.loads(loaded))


# --- the checks themselves ----------------------------------------------------------------------


def test_every_way_to_import_is_seen() -> None:
    text = """
import mlflow.tracking
from ablate import __version__
from ablate.data import datasets
from ablate.report import plots
from ablate.samplers.registry import SAMPLERS
def later():
    from ablate.nets.compact import Compact
if TYPE_CHECKING:
    import optuna as o
"""
    found = set(names_in(ast.parse(text), "made up"))
    assert found == {
        "mlflow.tracking",
        "ablate",
        "ablate.data",
        "ablate.data.datasets",
        "ablate.report",
        "ablate.report.plots",
        "ablate.samplers.registry",
        "ablate.nets.compact",
        "optuna",
    }
    assert {resolved(name) for name in found if name.startswith("ablate")} == {
        "__init__",
        "data.__init__",
        "data.datasets",
        "report.__init__",
        "report.plots",
        "samplers.registry",
        "nets.compact",
    }


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.randn(3)", True),
        ("torch.randn(3, generator=g)", False),
        ("np.random.default_rng()", True),
        ("np.random.default_rng([seed, n]).random(3)", False),
        ("np.random.rand(3)", True),
        ("torch.zeros(3)", False),
    ],
)
def test_unseeded_calls_are_seen(call: str, expected: bool) -> None:
    calls = [node for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Call)]
    assert any(map(unseeded, calls)) == expected


def test_known_edges_are_found() -> None:
    assert {"models.bundle", "training.optimiser", "models.recipe"} <= own("training.step")
    assert "torch" in foreign("training.loop")
    assert {"core.files", "diffusion.moments", "models.recipe"} <= reached({"training.loop"})
