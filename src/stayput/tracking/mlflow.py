"""A run in MLflow: on the server that MLFLOW_TRACKING_URI names, else where MLflow keeps runs by itself.

The run is found again by a tag with its id, so nothing has to be remembered here.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, Run, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from stayput.core.history import RoundReport
from stayput.tracking.tracker import EVERY_ROUND, PROJECT, RunFacts, Status, measures

RUN_TAG = "stayput.run_id"
MODEL_FOLDER = "model"
METRICS_AT_ONCE = 1000
"""MLflow's limit for a request, in metrics."""
PARAMETERS_AT_ONCE = 100
"""The same, in parameters."""
LONGEST_PARAMETER = 6000

STATUSES = {"finished": RunStatus.FINISHED, "failed": RunStatus.FAILED, "interrupted": RunStatus.KILLED}


class MlflowTracker:
    """One run on a server, or in a local store."""

    note = None

    def __init__(self, run: RunFacts) -> None:
        for name in ("alembic", "mlflow"):  # a new local store announces each of its migrations
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = MlflowClient()
        found = self._find_or_begin(run)
        self._id = str(found.info.run_id)
        self._add_parameters(run, found)

    def last_round(self) -> int | None:
        """What the server has."""
        return max((m.step for m in self._client.get_metric_history(self._id, EVERY_ROUND)), default=None)

    def add_rounds(self, reports: Sequence[RoundReport]) -> None:
        """A round never stands in two requests, and a request is taken whole or not at all."""
        batch: list[Metric] = []
        for report in reports:
            metrics = self._metrics(measures(report), report.round_number)
            if len(batch) + len(metrics) > METRICS_AT_ONCE:
                self._client.log_batch(self._id, metrics=batch)
                batch = []
            batch += metrics
        if batch:
            self._client.log_batch(self._id, metrics=batch)

    def finish(self, outcome: Mapping[str, Any], model: Path) -> None:
        """The outcome as metrics and tags, the model as an artifact."""
        step = int(outcome["rounds"])
        numbers = {name: float(value) for name, value in outcome.items() if isinstance(value, int | float)}
        there = self._client.get_run(self._id).data.metrics
        fresh = {f"outcome/{name}": value for name, value in numbers.items() if there.get(f"outcome/{name}") != value}
        tags = [RunTag(f"stayput.{name}", str(value)) for name, value in outcome.items() if name not in numbers]
        self._client.log_batch(self._id, metrics=self._metrics(fresh, step), tags=tags)
        self._client.log_artifacts(self._id, str(model), MODEL_FOLDER)

    def close(self, status: Status) -> None:
        """How it ended."""
        self._client.set_terminated(self._id, RunStatus.to_string(STATUSES[status]))

    def _find_or_begin(self, run: RunFacts) -> Run:
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT)
        found = self._client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{run.run_id}'", max_results=1)
        if found:
            self._client.update_run(found[0].info.run_id, status=RunStatus.to_string(RunStatus.RUNNING))
            return found[0]
        return self._client.create_run(experiment, run_name=run.name, tags={RUN_TAG: run.run_id})

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:  # another process has begun it between the two questions
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _add_parameters(self, run: RunFacts, found: Run) -> None:
        """MLflow's parameters cannot change; those of a run that goes on with others are tags beside the first."""
        there = found.data.params
        asked = {name: str(value)[:LONGEST_PARAMETER] for name, value in run.parameters.items()}
        fresh = [Param(name, value) for name, value in asked.items() if name not in there]
        for first in range(0, len(fresh), PARAMETERS_AT_ONCE):
            self._client.log_batch(self._id, params=fresh[first : first + PARAMETERS_AT_ONCE])
        for name, value in asked.items():
            if there.get(name, value) != value:
                self._client.set_tag(self._id, f"stayput.now.{name}", value)

    @staticmethod
    def _metrics(numbers: Mapping[str, float], step: int) -> list[Metric]:
        now = int(1000 * time.time())
        return [Metric(name, value, now, step) for name, value in numbers.items()]
