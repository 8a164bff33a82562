"""The record of studies and trainings in MLflow: the one package that knows it.

A study is a run, its trials are runs nested in it, their cells runs nested in those. A training is
one run, in an experiment of its own. A run's status is set last, so what is FINISHED is whole.
"""

import os

# MLflow announces every table it makes and draws a bar for every file it reads: set before import
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from ablate.tracking.client import REPEATS, TROUBLES, reach
from ablate.tracking.reader import Reader
from ablate.tracking.writer import NOTHING_PAST, StudyRun, Tracker

__all__ = ["NOTHING_PAST", "REPEATS", "TROUBLES", "Reader", "StudyRun", "Tracker", "reach"]
