"""The command line: thin. Heavy imports happen inside the commands, so that --help is quick."""

import ablate.cli.bundles
import ablate.cli.data
import ablate.cli.evaluate
import ablate.cli.features
import ablate.cli.report
import ablate.cli.results
import ablate.cli.study
import ablate.cli.training  # noqa: F401  # each adds its commands to the application
from ablate.cli.app import main

__all__ = ["main"]
