"""`ablate.load_bundle`: a trained model by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from ablate.core.workspace import Workspace
from ablate.models import bundle as bundles


@dataclass(frozen=True)
class BundleHandle:
    """A bundle on this machine: its card at once, its weights when they are first asked for."""

    name: str
    path: Path
    workspace: Workspace

    @cached_property
    def card(self) -> bundles.Card:
        """What the bundle says of itself: dataset, noise range, recipe, provenance, licence."""
        return bundles.read_card(self.path)

    @cached_property
    def bundle(self) -> bundles.Bundle:
        """Weights, moments and features."""
        return bundles.read(self.path)

    def _facts(self) -> dict[str, str]:
        card = self.card
        return {
            "dataset": card.dataset,
            "images": "×".join(map(str, card.shape)),
            "noise levels": f"{card.s_min:g} to {card.s_max:g}",
            "parameters": f"{card.provenance.get('parameters', 0):,}",
            "licence": card.licence,
        }

    def __repr__(self) -> str:
        return f"bundle {self.name}: {', '.join(f'{k} {v}' for k, v in self._facts().items())}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self._facts().items()
        )
        return f"<b>bundle {escape(self.name)}</b><table>{rows}</table>"


def load_bundle(name: str, root: str | Path = ".") -> BundleHandle:
    """Find a bundle by name, trained under `root` or shipped, or by the path of its file.

    >>> import ablate
    >>> ablate.load_bundle("digits").card.shape
    (1, 8, 8)
    """
    workspace = Workspace(Path(root).resolve())
    path = bundles.find(name, workspace)
    handle = BundleHandle(path.stem, path, workspace)
    _ = handle.card  # a file that is no bundle is an error here
    return handle
