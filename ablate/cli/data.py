"""`ablate data`: where the datasets are and how to get them."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.app import app
from ablate.cli.options import JsonOption

data_app = typer.Typer(
    help="Datasets: where they are and how to get them.",
    epilog="Example: ablate data",
    invoke_without_command=True,
)
app.add_typer(data_app, name="data")


@data_app.callback()
def data(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the datasets and their state. ABLATE_DATA is their folder, in torchvision's layout."""
    if context.invoked_subcommand is None:
        from ablate.cli.console import print_json, print_table, say
        from ablate.data.datasets import data_folder, state
        from ablate.data.registry import DATASETS

        states = {name: state(name) for name in DATASETS}
        if as_json:
            print_json({"folder": str(data_folder()), "datasets": states})
            return
        print_table(["dataset", "state"], list(states.items()))
        say(f"looked under {data_folder()} (set ABLATE_DATA to change it)")


@data_app.command("get", epilog="Example: ablate data get fashion")
def data_get(name: Annotated[str, typer.Argument(help="A dataset's name.")]) -> None:
    """Download a dataset through torchvision."""
    from ablate.data.datasets import download, state

    download(name)
    print(f"{name}: {state(name)}")
