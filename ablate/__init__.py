"""Ablation studies for diffusion models with multiplicative noise.

    >>> import ablate
    >>> bundle = ablate.load_bundle("digits")
    >>> images = ablate.sample(bundle, samples=64, seed=0)
    >>> images
    64 images of 1×8×8: digits, pf-heun, class-gaussian, 33 evaluations, seed 0

What `__all__` names is promised to stay. Everything else can be imported too, but may change.
Importing this package is cheap: torch and the rest are imported by the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ablate.core.version import VERSION

if TYPE_CHECKING:
    from ablate.door.bundles import load_bundle
    from ablate.door.measurements import evaluate
    from ablate.door.samples import sample
    from ablate.door.studies import load_results, run_study

__version__ = VERSION
__all__ = ["evaluate", "load_bundle", "load_results", "run_study", "sample"]

_PLACES = {
    "load_bundle": "ablate.door.bundles",
    "sample": "ablate.door.samples",
    "evaluate": "ablate.door.measurements",
    "run_study": "ablate.door.studies",
    "load_results": "ablate.door.studies",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ablate' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
