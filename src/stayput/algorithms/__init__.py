"""Federated algorithms, one file each, and the table of their names.

To add one: write a frozen dataclass of settings with `name` and `algorithm()`, as `fed_avg.py` does, and add it
to the table. The contract tests then hold it to the promises that every algorithm makes.
"""

from __future__ import annotations

from stayput.algorithms.central_sgd import CentralSgd
from stayput.algorithms.fed_adagrad import FedAdagrad
from stayput.algorithms.fed_adam import FedAdam
from stayput.algorithms.fed_avg import FedAvg
from stayput.algorithms.fed_avg_m import FedAvgM
from stayput.algorithms.fed_nova import FedNova
from stayput.algorithms.fed_prox import FedProx
from stayput.algorithms.fed_sgd import FedSgd
from stayput.algorithms.fed_yogi import FedYogi
from stayput.algorithms.mime_lite import MimeLite
from stayput.algorithms.one_shot import OneShotAveraging
from stayput.algorithms.scaffold import Scaffold

ALGORITHMS = {
    cls.name: cls
    for cls in (
        FedAvg,
        FedSgd,
        CentralSgd,
        OneShotAveraging,
        FedAvgM,
        FedAdagrad,
        FedAdam,
        FedYogi,
        FedProx,
        FedNova,
        MimeLite,
        Scaffold,
    )
}
"""Every built-in algorithm by the name that the command line and specs use."""

__all__ = [
    "ALGORITHMS",
    "CentralSgd",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedNova",
    "FedProx",
    "FedSgd",
    "FedYogi",
    "MimeLite",
    "OneShotAveraging",
    "Scaffold",
]
