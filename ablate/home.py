"""Where things are: `studies/`, `mlruns/` and `reports/` under one root."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ablate.errors import UserError

PACKAGE = Path(__file__).parent


def shipped_studies() -> Path:
    """Inside the package when installed, beside it in a checkout."""
    inside = PACKAGE / "studies"
    return inside if inside.is_dir() else PACKAGE.parent / "studies"


class Home(NamedTuple):
    root: Path

    @property
    def mlruns(self) -> Path:
        return self.root / "mlruns"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.mlruns / 'mlflow.db'}"

    def has_record(self) -> bool:
        return (self.mlruns / "mlflow.db").exists()

    @property
    def search_url(self) -> str:
        return f"sqlite:///{self.mlruns / 'optuna.db'}"

    @property
    def bundles(self) -> Path:
        """Bundles and classifiers trained under this root."""
        return self.mlruns / "bundles"

    @property
    def artifacts(self) -> Path:
        return self.mlruns / "artifacts"

    def toml_files(self, folder: str = "") -> dict[str, Path]:
        """Study files by name (or, with folder `train`, training files); one's own come first."""
        found: dict[str, Path] = {}
        for base in (shipped_studies(), self.root / "studies"):
            found |= {path.stem: path for path in sorted((base / folder).glob("*.toml"))}
        return found

    def find_toml(self, name: str, folder: str = "") -> Path:
        """A file by its name, or by its path when it ends in .toml."""
        if name.endswith(".toml"):
            for path in (Path(name), self.root / name):
                if path.is_file():
                    return path
            raise UserError(f"{name}: no such file")
        known = self.toml_files(folder)
        if name not in known:
            kind = "training file" if folder else "study"
            raise UserError(f"{kind} {name!r} is unknown; known: {', '.join(known) or 'none'}")
        return known[name]
