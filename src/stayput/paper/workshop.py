"""What cells are computed with: data, clients and an engine, kept from one cell to the next where they are the same."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import stayput
from stayput.algorithms import ALGORITHMS
from stayput.core.algorithm import Algorithm
from stayput.core.named_settings import from_plain
from stayput.core.seeds import Purpose, permutation
from stayput.data import DATA_SETS
from stayput.data.data_set import Split
from stayput.data.federated_data import Examples, FederatedData
from stayput.data.fetching import Progress
from stayput.data.partitions import PARTITIONS
from stayput.engines import TrainingEngine
from stayput.engines.choice import AUTO, chosen_engine
from stayput.experiments.preparing import Parts, prepared, usable_device
from stayput.paper.cells import QUICK_EXAMPLES, QUICK_TEST_EXAMPLES, QUICK_TEST_SEQUENCES, TRAIN, Cell
from stayput.paper.rates import rate_of
from stayput.runs.environment import machine, versions
from stayput.runs.spec import RunSpec
from stayput.tasks.catalogue import named_task
from stayput.tasks.task import Task

MEASURED_TRAINING_EXAMPLES = 20_000
"""Of those that clients train on, on which the training loss of a figure is measured."""

_SPREAD = 7
"""The seed of samples that are taken here; they are the same on every machine."""


@dataclass
class Workshop:
    """Makes a cell ready to be trained."""

    device: str = "cpu"
    precision: str = "float32"
    data_dir: Path | None = None
    on_download: Progress | None = None
    _kept: tuple[str, Parts, TrainingEngine] | None = None
    _split: tuple[str, Split] | None = None

    def __post_init__(self) -> None:
        """Refuse a device that is not here before anything is fetched or judged."""
        usable_device(self.device)

    def spec(self, cell: Cell, exponent: int, seed: int, num_clients: int) -> RunSpec:
        """The spec of one rate's run."""
        algorithm = dict(cell.algorithm)
        if "clients_per_round" in algorithm:
            algorithm["client_fraction"] = min(1.0, algorithm.pop("clients_per_round") / num_clients)
        return RunSpec(
            task=cell.task,
            partition=cell.partition,
            algorithm={**algorithm, "learning_rate": rate_of(exponent)},
            rounds=cell.rounds,
            seed=seed,
            evaluate_every=cell.evaluate_every,
            engine=chosen_engine(AUTO, self.task(cell), self.device),
            device=self.device,
            precision=self.precision,
        )

    def task(self, cell: Cell) -> Task:
        """A cell's task."""
        return named_task(cell.task).task

    def algorithm(self, spec: RunSpec) -> Algorithm:
        """A spec's algorithm."""
        return from_plain("algorithm", ALGORITHMS, spec.algorithm).algorithm()  # type: ignore[no-any-return] # one of ours

    def ready(self, cell: Cell) -> tuple[Parts, TrainingEngine]:
        """The cell's clients and an engine that has them."""
        pools = cell.algorithm["name"] == "central_sgd"
        key = f"{cell.task} {dict(cell.partition)} {cell.quick} {cell.measured_on} {pools}"
        if self._kept is None or self._kept[0] != key:
            self._kept = None  # first, so that its memory is free
            parts = self.parts(cell)
            parts, engine = prepared(self.spec(cell, 0, 0, parts.clients.num_clients), parts)
            self._kept = key, parts, engine
        return self._kept[1], self._kept[2]

    def parts(self, cell: Cell) -> Parts:
        """A cell's clients with their data, and what it is measured on."""
        named = named_task(cell.task)
        if self._split is None or self._split[0] != named.data_set:
            self._split = None
            self._split = named.data_set, DATA_SETS[named.data_set].load(self.data_dir, progress=self.on_download)
        split = self._split[1]
        train, test = split.train, split.test
        if cell.quick:
            measured = QUICK_TEST_SEQUENCES if cell.learns_sequences else QUICK_TEST_EXAMPLES
            train, test = sampled(train, QUICK_EXAMPLES), sampled(test, measured)
        clients = train.partition(from_plain("partition", PARTITIONS, cell.partition), seed=0)
        if cell.measured_on == TRAIN:
            test = sampled(train, QUICK_TEST_SEQUENCES if cell.quick else MEASURED_TRAINING_EXAMPLES)
        algorithm = self.algorithm(self.spec(cell, 0, 0, clients.num_clients))
        return Parts(named.task, clients, algorithm, test)

    def provenance(self, spec: RunSpec) -> dict[str, Any]:
        """Where a result comes from."""
        return {
            "machine": machine(self.device),
            "versions": versions(),
            "commit": commit(),
            "source_sha256": source_sha256(),
            "engine": spec.engine,
            "device": spec.device,
            "precision": spec.precision,
            "threads": torch.get_num_threads(),
        }


def facts_of(clients: FederatedData) -> Mapping[str, Any]:
    """Clients, examples, and who holds what."""
    return {
        "num_clients": clients.num_clients,
        "num_examples": clients.num_examples,
        "partition_fingerprint": clients.partition_fingerprint,
    }


def sampled(examples: Examples, count: int) -> Examples:
    """A sample of examples, the same every time; all of them if there are no more."""
    if len(examples) <= count:
        return examples
    rows = np.sort(permutation(_SPREAD, Purpose.PARTITION, len(examples))[:count])
    keys = {name: np.asarray(column)[rows] for name, column in examples.keys.items()}
    return replace(
        examples, inputs=np.asarray(examples.inputs)[rows], targets=np.asarray(examples.targets)[rows], keys=keys
    )


@lru_cache(maxsize=1)
def source_sha256() -> str:
    """A fingerprint of stayput's own source, which says what computed a result where there is no git."""
    root = Path(stayput.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}|".encode() + path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the checkout that stayput runs from, if it runs from one."""
    try:
        found = subprocess.run(  # noqa: S603 - a fixed command
            ["git", "-C", str(Path(stayput.__file__).parent), "rev-parse", "HEAD"],  # noqa: S607 - the user's git
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
