"""The record of studies, trainings and evaluations in MLflow: the one package that knows MLflow.

A study is a run, its trials are runs nested in it, and their cells are runs nested in the trials. A
training or an evaluation is one run, in an experiment of its own. A run's status is written last,
so a run that is FINISHED is complete.
"""

import os

# MLflow logs every table that it creates, and the traceback of every error of its database before
# ours says it in one line; it draws a progress bar for every file that it reads.
# Set before MLflow is imported.
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
