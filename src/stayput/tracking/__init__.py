"""Runs in the trackers that people use already: each tracker is one file, and is imported when it is asked for.

What arrives: the run's settings, its measures round by round, its outcome and its final model. The examples never do.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterable

from stayput.errors import InvalidSetting, UnknownName
from stayput.tracking.tracker import RunFacts, Tracker

TRACKERS = {"tensorboard": "TensorBoardTracker", "mlflow": "MlflowTracker", "wandb": "WandbTracker"}
"""Trackers by name: the package that each needs, and its class in the module of that name."""

UNASKED = {
    "mlflow": {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    },
    "wandb": {"WANDB_ERROR_REPORTING": "false"},
}
"""Environment variables that a package is imported with unless the user has set them: none reports its own use to its
makers, prints on stdout, or tries a server that is not there for many minutes."""


def refuse_trackers(names: Iterable[str]) -> None:
    """Refuse names that no tracker has, and trackers that are not installed, before anything is fetched or trained."""
    for name in names:
        if name not in TRACKERS:
            raise UnknownName("track", name, TRACKERS)
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:  # a folder of that name, such as wandb's own, is no package
            raise InvalidSetting(
                f"track={name!r}: needs the package {name}, which is not installed (pip install 'stayput[track]')"
            )


def open_tracker(name: str, run: RunFacts) -> Tracker:
    """The run in a tracker: begun, or found again."""
    for variable, value in UNASKED.get(name, {}).items():
        os.environ.setdefault(variable, value)
    made: Tracker = getattr(importlib.import_module(f"stayput.tracking.{name}"), TRACKERS[name])(run)
    return made
