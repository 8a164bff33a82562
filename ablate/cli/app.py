"""The application: its options, and its exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from ablate.core.errors import UserError, first_line, hide_secrets
from ablate.core.lacking import lacking
from ablate.core.plain_text import plain
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


READER_LEFT = 1
"""What Typer exits with where nobody reads the output any more."""


def _terminate(*_: object) -> NoReturn:
    """Handle SIGTERM like Ctrl-C, so that open runs are closed."""
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    _quieten()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            print("interrupted; the same command continues", file=sys.stderr)
    except UserError as error:
        code = _complain(str(error), error.code)
    except TyperException as error:
        code = _complain(f"{error.format_message()} (see ablate --help)")
    except BrokenPipeError:  # `ablate list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = READER_LEFT
    except Exception as error:
        if (line := lacking(error)) is not None:
            code = _complain(line)
        elif type(error).__module__.startswith("mlflow"):
            code = _complain(f"MLflow: {first_line(error)}")
        else:  # a mistake of ours: all that helps to find it, but no password
            print(plain(hide_secrets(traceback.format_exc())), file=sys.stderr, end="")
            code = 1
    sys.exit(code or 0)


def _complain(text: str, code: int = UserError.code) -> int:
    print("error: " + plain(" ".join(hide_secrets(text).split())), file=sys.stderr)
    return code


def _quieten() -> None:
    """Leave out other packages' warnings, unless Python is asked for them, and spell out what the
    output's encoding lacks."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
