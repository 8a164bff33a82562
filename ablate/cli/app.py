"""The application: its options, and its exit codes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from ablate.core.errors import UserError, first_line, hide_secrets
from ablate.core.version import VERSION
from ablate.core.workspace import Workspace

app = typer.Typer(
    name="ablate",
    help="Ablation studies for diffusion models with multiplicative noise.",
    epilog="Example: ablate study cifar10-adls && ablate report cifar10-adls",
    add_completion=False,
    pretty_exceptions_enable=False,
)

DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    root: Annotated[
        Path,
        typer.Option(envvar="ABLATE_ROOT", help="Where studies/, mlruns/ and reports/ are."),
    ] = Path(),
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    context.obj = Workspace(root.resolve())
    if version:
        print(f"ablate {VERSION}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def safetensors(out: Path) -> Path:
    """The file of --out, checked."""
    if out.suffix != ".safetensors":
        raise UserError(f"--out {out}: must end in .safetensors")
    return out


INTERRUPTED = 130
"""What Typer returns after Ctrl-C: 128 + SIGINT."""


def _terminate(*_: object) -> NoReturn:
    """Handle SIGTERM like Ctrl-C, so that open runs are closed."""
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            print("interrupted; the same command continues", file=sys.stderr)
    except UserError as error:
        code = _complain(hide_secrets(str(error)), error.code)
    except TyperException as error:
        code = _complain(f"{error.format_message()} (see ablate --help)")
    except Exception as error:
        if not type(error).__module__.startswith("mlflow"):
            raise
        code = _complain(f"MLflow: {hide_secrets(first_line(error))}")
    sys.exit(code or 0)


def _complain(text: str, code: int = UserError.code) -> int:
    print("error: " + " ".join(text.split()), file=sys.stderr)
    return code
