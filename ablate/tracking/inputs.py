"""What a run used, as MLflow's inputs: the dataset that it is measured against, and the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput
from mlflow.tracking import MlflowClient

DIGEST = 36
"""Most characters of a dataset's digest that MLflow takes."""


class Inputs(NamedTuple):
    """What the trials of a study share."""

    dataset: str  # dataset/split
    digest: str  # of the dataset
    images: int
    bundle: str
    bundle_hash: str
    about: Mapping[str, str]  # parameters of the network


class InputLog:
    """Writes the inputs of runs in one experiment."""

    def __init__(self, client: MlflowClient, experiment: str, inputs: Inputs) -> None:
        self._client, self._inputs = client, inputs
        self._model = self._find_model(experiment)

    def write(self, run_id: str) -> None:
        """Add the inputs to a run; what it has already stays as it is."""
        inputs = self._inputs
        dataset = Dataset(
            name=inputs.dataset,
            digest=inputs.digest[:DIGEST],
            source_type="code",
            source=json.dumps({"tags": {"mlflow.source.name": f"ablate data {inputs.dataset}"}}),
            profile=json.dumps({"num_rows": inputs.images}),
        )
        tags = [InputTag("mlflow.data.context", "reference")]
        models = [LoggedModelInput(self._model)]
        self._client.log_inputs(run_id, [DatasetInput(dataset, tags)], models)

    def _find_model(self, experiment: str) -> str:
        """The id of the experiment's entry for the bundle, made if there is none."""
        name = _allowed(self._inputs.bundle)
        known = self._client.search_logged_models([experiment], f"name = '{name}'")
        for model in known:
            if model.params.get("hash") == self._inputs.bundle_hash:
                return str(model.model_id)
        made = self._client.create_logged_model(
            experiment,
            name,
            params={**self._inputs.about, "hash": self._inputs.bundle_hash},
            model_type="ablate bundle",
        )
        self._client.finalize_logged_model(made.model_id, "READY")
        return str(made.model_id)


def _allowed(name: str) -> str:
    """A name without the characters that MLflow refuses in names of models."""
    return "".join("-" if each in "/:.%\"'" else each for each in name)
