"""What happens to tensors at a coordinator: the first model, the sum of a round, the server's step, the evaluation.

The lines 7 and 8 of the paper's Algorithm 1, on updates that lie as files. They are taken in the order of the clients,
one at a time, so the memory is that of a few models however many clients there were, and added in float64 by the same
`WeightedSum` as in the simulator: the model is the same to the last bit. Runs in the process of `round_closer.py`.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stayput.algorithms import ALGORITHMS
from stayput.core.algorithm import Algorithm, ClientFacts
from stayput.core.engine import CohortResult, RoundWork
from stayput.core.named_settings import from_plain
from stayput.core.round import end_round
from stayput.core.tensors import BUFFERS, FULL_GRADIENT, MEMORY, WEIGHTS, Groups, fingerprint
from stayput.core.weighted_sum import WeightedSum
from stayput.data import DATA_SETS
from stayput.data.federated_data import Examples
from stayput.deploy.blobs import Blobs
from stayput.deploy.own_examples import examples_in
from stayput.deploy.task_lookup import task_called
from stayput.deploy.tensor_files import TensorSpec
from stayput.deploy.wire_tensors import from_bytes, specs_of, to_bytes
from stayput.engines.model_program import ModelProgram
from stayput.engines.placed_examples import PlacedExamples
from stayput.errors import InvalidSetting, StoreFailed
from stayput.runs.spec import RunSpec
from stayput.tasks.catalogue import NAMED_TASKS

CPU = torch.device("cpu")


class RoundSums:
    """The tensors' side of one fleet."""

    def __init__(self, plan: Mapping[str, Any], blobs: Blobs) -> None:
        self._spec = RunSpec.from_json(plan["spec"], source="the fleet's plan")
        self._blobs = blobs
        task_name = plan.get("task") or self._spec.task
        self._task = task_called(task_name)
        self._algorithm: Algorithm = from_plain("algorithm", ALGORITHMS, self._spec.algorithm).algorithm()
        if self._algorithm.pools_clients:
            raise InvalidSetting(
                f"algorithm={self._algorithm.name!r}: pools all clients' data, which a deployment never sees "
                "(choose a federated one, see `stayput algorithms`)"
            )
        if self._spec.threads is not None:
            torch.set_num_threads(self._spec.threads)
        self._program = ModelProgram(self._task, CPU)
        self._test = self._test_examples(task_name, plan) if plan.get("evaluate", True) else None

    def begin(self) -> tuple[tuple[TensorSpec, ...], dict[str, Any]]:
        """The schema of an update, and the first model with its evaluation: round 0."""
        state = self._algorithm.init(self._program.initial_model(self._spec.seed))
        sent = self._algorithm.broadcast(state)
        return specs_of(self._update_like(sent)), self._stored(state, sent, {"round_number": 0}, 0, time.perf_counter())

    def close(
        self, round_number: int, state_sha256: str, updates: Sequence[Mapping[str, Any]], num_examples: int
    ) -> dict[str, Any]:
        """From the updates of a round, in the order of the clients, to the next model; or whose update is damaged."""
        started = time.perf_counter()
        state: Groups = self._read(f"models/{state_sha256}")
        clients = [int(update["client"]) for update in updates]
        total, damaged = WeightedSum(clients), []
        for update in updates:
            try:
                found = self._read(f"updates/{update['task']}/{update['sha256']}")
            except (StoreFailed, FileNotFoundError):
                damaged.append(int(update["client"]))
                continue
            tensors = _scaled(found, float(update["scale"]))
            total.add(int(update["client"]), tensors, weight=int(update["num_examples"]))  # n_k
        if damaged:
            return {"damaged": damaged}
        plan = self._algorithm.plan(round_number)
        cohort = np.array(clients, dtype=np.int64)
        work = RoundWork(
            round_number, self._spec.seed, cohort, plan, self._algorithm.broadcast(state), self._algorithm.client
        )
        examples = [int(update["num_examples"]) for update in updates]
        result = CohortResult(
            total.mean(),
            examples,
            [int(update["num_steps"]) for update in updates],
            [float(update["train_loss"]) for update in updates],
            [True] * len(updates),  # every update was looked at when it came
        )
        state, report = end_round(
            state, work, result, algorithm=self._algorithm, num_examples=max(num_examples, sum(examples))
        )
        facts = {
            "round_number": round_number,
            "cohort_size": report.cohort_size,
            "num_examples": report.num_examples,
            "num_steps": report.num_steps,
            "learning_rate": report.learning_rate,
            "train_loss": report.train_loss,
        }
        return self._stored(state, self._algorithm.broadcast(state), facts, round_number, started)

    def _read(self, key: str) -> dict[str, dict[str, Tensor]]:
        """A blob's tensors; a blob that is not what its name says is damaged, and must not go into a model."""
        content = self._blobs.fetch(key).read_bytes()
        if hashlib.sha256(content).hexdigest() != key.rpartition("/")[2]:
            raise StoreFailed(f"{key}: its content is not what was written (put it back from a backup)")
        return from_bytes(content)

    def _stored(
        self, state: Groups, sent: Groups, facts: dict[str, Any], number: int, started: float
    ) -> dict[str, Any]:
        names = self._blobs.put_model(to_bytes(state)), self._blobs.put_model(to_bytes(sent))
        seconds, evaluation = time.perf_counter() - started, self._evaluation(state, number)
        report = {**facts, "seconds": seconds, "evaluation": evaluation, "model_sha256": fingerprint(state)}
        return {
            "state_sha256": names[0],
            "sent_sha256": names[1],
            "report": report,
            "finished": number >= self._spec.rounds or self._reached(evaluation),
        }

    def _evaluation(self, state: Groups, number: int) -> dict[str, float]:
        spec = self._spec
        if self._test is None or (number % spec.evaluate_every and number != spec.rounds):
            return {}
        model = {group: state[group] for group in (WEIGHTS, BUFFERS) if group in state}
        return {
            name: value for name, value in self._program.evaluate(model, self._test).items() if math.isfinite(value)
        }

    def _reached(self, evaluation: Mapping[str, float]) -> bool:
        spec = self._spec
        if spec.target is None or not spec.stop_at_target or spec.metric not in evaluation:
            return False
        value = evaluation[spec.metric]
        return value >= spec.target if spec.higher_is_better() else value <= spec.target

    def _update_like(self, sent: Groups) -> dict[str, Any]:
        """An update of the right names, dtypes and shapes: what the client program makes of gradients of zero."""
        facts = ClientFacts(self._algorithm.plan(1).learning_rate, 1, 1)
        given: dict[str, Any] = dict(sent)
        if self._algorithm.client.full_gradient:
            given[FULL_GRADIENT] = _zeros(sent[WEIGHTS])
        if self._algorithm.client.memory is not None:
            given[MEMORY] = _zeros(self._algorithm.client.memory(sent))
        client = self._algorithm.client
        local = client.step(client.start(given, facts), _zeros, facts)
        if BUFFERS in sent:
            local = {**local, BUFFERS: dict(sent[BUFFERS])}
        update = client.finish(given, local, facts)
        return {group: tensors for group, tensors in update.items() if group != MEMORY}

    def _test_examples(self, task_name: str, plan: Mapping[str, Any]) -> PlacedExamples | None:
        if plan.get("test_data"):
            return PlacedExamples(examples_in(Path(plan["test_data"])), self._task, CPU, self._program.dtype)
        if task_name not in NAMED_TASKS:
            return None
        data_set = DATA_SETS[NAMED_TASKS[task_name].data_set]
        test: Examples = data_set.load(plan.get("data_dir")).test
        return PlacedExamples(test, self._task, CPU, self._program.dtype)


def _zeros(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


def _scaled(update: dict[str, dict[str, Tensor]], scale: float) -> dict[str, dict[str, Tensor]]:
    """A clipped update, in float64; one that was not clipped stays as it is."""
    if scale == 1.0:
        return update
    return {
        group: {name: t.to(torch.float64) * scale if t.is_floating_point() else t for name, t in tensors.items()}
        for group, tensors in update.items()
    }
