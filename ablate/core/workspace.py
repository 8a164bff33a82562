"""Where files are: `studies/`, `mlruns/` and `reports/` under one root."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ablate.core.errors import UserError
from ablate.core.unknown_names import unknown

MEANT = frozenset("%?#{}")
"""Characters of a path that mean something else in the URL of a database."""

PACKAGE = Path(__file__).parent.parent


def shipped_studies() -> Path:
    """The folder of shipped study files: in the package if installed, beside it in a checkout."""
    inside = PACKAGE / "studies"
    return inside if inside.is_dir() else PACKAGE.parent / "studies"


def sqlite_url(file: Path) -> str:
    """The URL of a database file, as SQLAlchemy reads it.

    A path with characters that mean something in a URL, or in a pattern that Optuna fills, is
    quoted whole, slashes too: MLflow takes what stands there for a path and makes its folders.
    """
    path = str(file)
    return f"sqlite:///{quote(path, safe='') if MEANT & {*path} else path}"


class Workspace(NamedTuple):
    """A root folder, and where the two databases are if not under it."""

    root: Path
    storage: str = ""  # URL of Optuna's database; empty for a file under the root
    tracking: str = ""  # URI of MLflow's server or database; empty for a file under the root

    @property
    def is_local(self) -> bool:
        """Whether MLflow's database is a file under the root."""
        return not self.tracking

    @property
    def mlruns(self) -> Path:
        return self.root / "mlruns"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def tracking_uri(self) -> str:
        return self.tracking or sqlite_url(self.record)

    @property
    def record(self) -> Path:
        """MLflow's database, if it is a file."""
        return self.mlruns / "mlflow.db"

    def has_record(self) -> bool:
        """Whether there can be results: on a server, or in a file that exists."""
        return not self.is_local or self.record.exists()

    @property
    def search_url(self) -> str:
        return self.storage or sqlite_url(self.search)

    @property
    def search(self) -> Path:
        """Optuna's database, if it is a file."""
        return self.mlruns / "optuna.db"

    @property
    def bundles(self) -> Path:
        """Bundles and classifiers trained under this root."""
        return self.mlruns / "bundles"

    @property
    def artifacts(self) -> Path:
        return self.mlruns / "artifacts"

    def toml_files(self, folder: str = "") -> dict[str, Path]:
        """Study files by name, or the files of a folder of `studies/`.

        A file under the root replaces a shipped one of the same name.
        """
        shipped, own = self.toml_folders(folder)
        return shipped | own

    def toml_folders(self, folder: str = "") -> tuple[dict[str, Path], dict[str, Path]]:
        """The shipped files and those under the root, each by name."""

        def within(base: Path) -> dict[str, Path]:
            files = sorted((base / folder).glob("*.toml"))
            return {path.name.removesuffix(".toml"): path for path in files}

        return within(shipped_studies()), within(self.root / "studies")

    def file(self, name: str) -> Path:
        """A file by its path, relative to the current folder or to the root."""
        for path in (Path(name), self.root / name):
            if path.is_file():
                return path
        raise UserError(f"{name}: no such file")

    def find_toml(self, name: str, folder: str) -> Path:
        """A training file by its name, or by its path if that ends in .toml."""
        if name.endswith(".toml"):
            return self.file(name)
        files = self.toml_files(folder)
        if name not in files:
            raise UserError(unknown("training file", name, files))
        return files[name]
