"""A cell: one setting of the paper, to be trained over a grid of learning rates, and what is read off its curves.

A cell of a table and a curve of a figure are the same thing: a task, a partition, an algorithm without its learning
rate, and how many rounds are allowed. Two exhibits that ask for the same setting share what was measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from stayput.core.rules import BatchSize

MeasuredOn = Literal["test", "train"]
TEST: MeasuredOn = "test"
TRAIN: MeasuredOn = "train"

QUICK_EXAMPLES, QUICK_TEST_EXAMPLES, QUICK_TEST_SEQUENCES = 2_000, 500, 60
QUICK_ROUNDS = 6


@dataclass(frozen=True)
class Cell:
    """One setting."""

    task: str
    partition: Mapping[str, Any]
    algorithm: Mapping[str, Any]
    """Settings without the learning rate. `clients_per_round` may stand for `client_fraction`."""
    rounds: int
    """The rounds that are allowed; a multiple of `evaluate_every`."""
    target: float | None = None
    """The accuracy to reach, after which nothing more is to be learned of the cell; None to run all rounds."""
    centre: int = -4
    """k of the middle of its grid of η = 10^(k/6): where the best is expected."""
    rates: tuple[int, ...] | None = None
    """The exponents, where the paper fixes them; no grid then."""
    evaluate_every: int = 1
    measured_on: MeasuredOn = TEST
    """Accuracy on the test examples, or loss on the training examples."""
    expected_rounds: int | None = None
    """What the paper prints, for estimates of time."""
    quick: bool = field(default=False)
    """Whether it is the short version, on few examples."""

    @property
    def metric(self) -> str:
        """What its curves show."""
        return "accuracy" if self.measured_on == TEST else "loss"

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.measured_on == TEST

    @property
    def learns_sequences(self) -> bool:
        """Whether its model is an LSTM."""
        return self.task.endswith("-lstm")

    @property
    def identity(self) -> dict[str, Any]:
        """What its curves depend on, beside learning rate and seed: cells with one identity share them."""
        return {
            "task": self.task,
            "partition": dict(self.partition),
            "algorithm": dict(self.algorithm),
            "evaluate_every": self.evaluate_every,
            "measured_on": self.measured_on,
            "examples": QUICK_EXAMPLES if self.quick else "all",
        }

    @property
    def key(self) -> str:
        """The identity as one text."""
        return canonical(self.identity)

    @property
    def label(self) -> str:
        """What people call it."""
        settings = dict(self.algorithm)
        parts = [self.task, str(self.partition["name"]), str(settings.pop("name"))]
        parts += [f"{_SHORT.get(name, name)}={value}" for name, value in settings.items()]
        if self.measured_on == TRAIN:
            parts.append("training loss")
        return " ".join([*parts, *(["(quick)"] if self.quick else [])])

    def quickened(self) -> Cell:
        """The short version: few examples, few rounds, never mixed with full ones."""
        algorithm = dict(self.algorithm)
        if "local_epochs" in algorithm:
            algorithm["local_epochs"] = min(int(algorithm["local_epochs"]), 2)
        if "updates_per_round" in algorithm:
            algorithm["updates_per_round"] = 5
        if self.learns_sequences:  # a line of the LSTM costs as much as a hundred images of the 2NN
            algorithm.pop("client_fraction", None)
            algorithm["clients_per_round"] = 4
        every = QUICK_ROUNDS // 2 if self.learns_sequences else min(self.evaluate_every, QUICK_ROUNDS // 2)
        target = None if self.target is None else min(self.target, 0.3)
        return replace(self, algorithm=algorithm, rounds=QUICK_ROUNDS, evaluate_every=every, target=target, quick=True)


_SHORT = {
    "client_fraction": "C",
    "clients_per_round": "clients",
    "local_epochs": "E",
    "batch_size": "B",
    "learning_rate_decay": "decay",
    "updates_per_round": "updates",
}


def evaluations(printed: int | None) -> int:
    """Rounds between two evaluations of a cell of which the paper prints so many rounds.

    An evaluation costs about as much as a round with E=1. What lies between two is interpolated, as the paper says it
    does, so that a hundredth of the rounds is lost at most.
    """
    if printed is None or printed >= 400:
        return 5
    return 2 if printed >= 150 else 1


IID_100: Mapping[str, Any] = {"name": "iid", "num_clients": 100}
SHARDS_100: Mapping[str, Any] = {"name": "shards", "num_clients": 100, "shards_per_client": 2}


def fed_avg(client_fraction: float, epochs: int, batch_size: BatchSize, decay: float = 1.0) -> dict[str, Any]:
    """FedAvg's settings; with E=1 and B="all" it is FedSGD."""
    return {
        "name": "fed_avg",
        "client_fraction": client_fraction,
        "local_epochs": epochs,
        "batch_size": batch_size,
        "learning_rate_decay": decay,
    }


def canonical(plain: Mapping[str, Any]) -> str:
    """Plain data as one text, the same whatever order its keys came in."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def file_stem(cell: Cell, *, seed: int, exponents: Sequence[int]) -> str:
    """The name of the file for these rates: readable, and keyed by everything that was asked."""
    asked = {
        **cell.identity,
        "rounds": cell.rounds,
        "target": cell.target,
        "seed": seed,
        "exponents": sorted(exponents),
    }
    settings = cell.algorithm
    cohort = settings.get("client_fraction", settings.get("clients_per_round", ""))
    parts = [cell.task, cell.partition["name"], settings["name"], f"C{cohort}", f"E{settings.get('local_epochs', 1)}"]
    parts += [f"B{settings.get('batch_size', 'all')}", *(["train"] if cell.measured_on == TRAIN else []), f"s{seed}"]
    digest = hashlib.sha256(canonical(asked).encode()).hexdigest()[:10]
    return "-".join([*map(str, parts), digest]).replace("_", "")
