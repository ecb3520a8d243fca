"""stayput: federated averaging as real software. Data stays where it is; a shared model is trained.

The names below are loaded when they are first used, so that importing stayput (for `stayput --help`, say) does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stayput._version import __version__

if TYPE_CHECKING:
    from stayput import data, errors
    from stayput.algorithms import (
        CentralSgd,
        FedAdagrad,
        FedAdam,
        FedAvg,
        FedAvgM,
        FedNova,
        FedProx,
        FedSgd,
        FedYogi,
        MimeLite,
        OneShotAveraging,
        Scaffold,
    )
    from stayput.data import partitions
    from stayput.deploy.client import Client
    from stayput.experiments.run import Run
    from stayput.experiments.sweep import Sweep, sweep
    from stayput.experiments.training import train
    from stayput.exports.loading import load_model
    from stayput.tasks import losses, metrics
    from stayput.tasks.metrics import Metric
    from stayput.tasks.task import Task

_HOMES = {
    "CentralSgd": "stayput.algorithms",
    "Client": "stayput.deploy.client",
    "FedAdagrad": "stayput.algorithms",
    "FedAdam": "stayput.algorithms",
    "FedAvg": "stayput.algorithms",
    "FedAvgM": "stayput.algorithms",
    "FedNova": "stayput.algorithms",
    "FedProx": "stayput.algorithms",
    "FedSgd": "stayput.algorithms",
    "FedYogi": "stayput.algorithms",
    "Metric": "stayput.tasks.metrics",
    "MimeLite": "stayput.algorithms",
    "OneShotAveraging": "stayput.algorithms",
    "Run": "stayput.experiments.run",
    "Scaffold": "stayput.algorithms",
    "Sweep": "stayput.experiments.sweep",
    "Task": "stayput.tasks.task",
    "data": "stayput.data",
    "errors": "stayput.errors",
    "load_model": "stayput.exports.loading",
    "losses": "stayput.tasks.losses",
    "metrics": "stayput.tasks.metrics",
    "partitions": "stayput.data.partitions",
    "sweep": "stayput.experiments.sweep",
    "train": "stayput.experiments.training",
}
"""Where each public name lives."""

_MODULES = {"data", "errors", "losses", "metrics", "partitions"}
"""Names that are modules, rather than something in one."""

__all__ = [
    "CentralSgd",
    "Client",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedNova",
    "FedProx",
    "FedSgd",
    "FedYogi",
    "Metric",
    "MimeLite",
    "OneShotAveraging",
    "Run",
    "Scaffold",
    "Sweep",
    "Task",
    "__version__",
    "data",
    "errors",
    "load_model",
    "losses",
    "metrics",
    "partitions",
    "sweep",
    "train",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _HOMES:
        raise AttributeError(f"module 'stayput' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
