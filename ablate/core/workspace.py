"""Where things are: `studies/`, `mlruns/` and `reports/` under one root."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ablate.core.errors import UserError

PACKAGE = Path(__file__).parent.parent


def shipped_studies() -> Path:
    """Inside the package when installed, beside it in a checkout."""
    inside = PACKAGE / "studies"
    return inside if inside.is_dir() else PACKAGE.parent / "studies"


class Workspace(NamedTuple):
    root: Path
    storage: str = ""  # URL of the search's database; empty: a file under the root
    tracking: str = ""  # URI of MLflow's; empty: a file under the root

    @property
    def is_local(self) -> bool:
        """Whether the record is a file under the root."""
        return not self.tracking

    @property
    def mlruns(self) -> Path:
        return self.root / "mlruns"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def tracking_uri(self) -> str:
        return self.tracking or f"sqlite:///{self.record}"

    @property
    def record(self) -> Path:
        """MLflow's database, where it is a file."""
        return self.mlruns / "mlflow.db"

    def has_record(self) -> bool:
        return not self.is_local or self.record.exists()

    @property
    def search_url(self) -> str:
        return self.storage or f"sqlite:///{self.search}"

    @property
    def search(self) -> Path:
        """Optuna's database, where it is a file."""
        return self.mlruns / "optuna.db"

    @property
    def bundles(self) -> Path:
        """Bundles and classifiers trained under this root."""
        return self.mlruns / "bundles"

    @property
    def artifacts(self) -> Path:
        return self.mlruns / "artifacts"

    def toml_files(self, folder: str = "") -> dict[str, Path]:
        """Study files by name (or the files of a folder of `studies/`); one's own come first."""
        found: dict[str, Path] = {}
        for base in (shipped_studies(), self.root / "studies"):
            found |= {path.stem: path for path in sorted((base / folder).glob("*.toml"))}
        return found

    def file(self, name: str) -> Path:
        """A file, given from here or from the root."""
        for path in (Path(name), self.root / name):
            if path.is_file():
                return path
        raise UserError(f"{name}: no such file")

    def find_toml(self, name: str, folder: str) -> Path:
        """A file by its name, or by its path when it ends in .toml."""
        if name.endswith(".toml"):
            return self.file(name)
        known = self.toml_files(folder)
        if name not in known:
            raise UserError(f"training file {name!r} is unknown; known: {', '.join(known)}")
        return known[name]
