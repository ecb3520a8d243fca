"""What a client computes: the algorithm's own client program, run by the simulator's `sequential` engine on its data.

The same record of functions, the same streams of random numbers (seed, round, k) and the same arithmetic as in a
simulation, so the update is the same to the last bit. What a client keeps from round to round (SCAFFOLD's control
variate) is read here and kept by `client_memory.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from stayput.algorithms import ALGORITHMS
from stayput.core.engine import RoundWork
from stayput.core.named_settings import from_plain
from stayput.core.seeds import Indices
from stayput.core.tensors import MEMORY, Tensors
from stayput.data.federated_data import Assignment, Examples, FederatedData
from stayput.deploy.client_memory import ClientMemory
from stayput.deploy.messages import TaskOffer
from stayput.deploy.wire_tensors import from_bytes, from_file, to_bytes
from stayput.engines.sequential import SequentialEngine
from stayput.tasks.task import Task


@dataclass(frozen=True)
class OwnData(FederatedData):
    """One client's examples, whatever its number: the engine asks for the rows of client k, and gets all."""

    @classmethod
    def of(cls, examples: Examples) -> OwnData:
        """All of these, in their order."""
        count = len(examples)
        return cls(examples, Assignment(np.arange(count, dtype=np.int64), np.array([0, count], dtype=np.int64)))

    def rows(self, client: int) -> Indices:  # noqa: ARG002 - there is one client here
        """All of them."""
        return super().rows(0)


@dataclass(frozen=True, slots=True)
class TrainedUpdate:
    """What a client sends back."""

    content: bytes
    num_examples: int
    num_steps: int
    train_loss: float
    memory: bytes | None = None
    """What the client keeps for itself, if the algorithm has it keep anything."""


class LocalTraining:
    """A client's engine for one task and one set of examples."""

    def __init__(self, task: Task, examples: Examples, memory: ClientMemory) -> None:
        self._task, self._memory = task, memory
        self._engine = SequentialEngine(task, OwnData.of(examples), device=torch.device("cpu"))

    def train(self, offer: TaskOffer, model: bytes) -> TrainedUpdate:
        """ClientUpdate(k, w_t) of the paper's Algorithm 1."""
        if offer.threads is not None and torch.get_num_threads() != offer.threads:
            torch.set_num_threads(offer.threads)
        algorithm = from_plain("algorithm", ALGORITHMS, offer.algorithm).algorithm()
        memory: dict[int, Tensors] = {}
        if algorithm.client.memory is not None and self._memory.current.is_file():
            memory[offer.client] = from_file(self._memory.current)[MEMORY]
        work = RoundWork(
            offer.round_number,
            offer.seed,
            np.array([offer.client], dtype=np.int64),
            algorithm.plan(offer.round_number),
            from_bytes(model),
            algorithm.client,
            memory,
        )
        (update,) = self._engine.train(work)
        leaving = {group: tensors for group, tensors in update.update.items() if group != MEMORY}
        kept = {MEMORY: update.update[MEMORY]} if MEMORY in update.update else None
        return TrainedUpdate(
            to_bytes(leaving),
            update.num_examples,
            update.num_steps,
            update.train_loss,
            None if kept is None else to_bytes(kept),
        )
