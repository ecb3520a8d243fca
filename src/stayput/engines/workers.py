"""Every core of a machine: the clients of a round on a pool of processes, each running the plain engine.

    engine = WorkersEngine(task, clients, device=torch.device("cpu"))

Most models of federated learning are too small for one operation to be worth splitting over threads, and their clients
are independent; so clients, rather than operations, are spread over the cores. Each worker has one torch thread and
runs `SequentialEngine` on one client at a time. Updates are summed here, in the order of the cohort, so the result has
the same bits as `sequential` with one thread, whoever trained which client.

Clients that take longest are handed out first, and a worker that is done gets the next one. A worker that dies is
replaced, and its client is trained again. The pool starts with the first round; it inherits the process as it is then
(`worker_process.py` says why it is a fork), and starts anew when a round brings an algorithm that it has not inherited
or more than its memory holds. It ends when the engine is closed or collected, when the process ends, and when a round
does not come to its end.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import Self

import torch
from torch import nn

from stayput.core.engine import ClientUpdate, CohortResult, RoundWork, summed
from stayput.core.rules import require_count
from stayput.core.tensors import Groups
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines.sequential import SequentialEngine
from stayput.engines.worker_pool import WorkerPool
from stayput.engines.worker_process import Job, Trainer, layout_of
from stayput.errors import InvalidSetting
from stayput.tasks.task import Task

WAITING_BYTES = 2**30
"""Memory, roughly, for updates that wait for an earlier client of their cohort to be summed first."""


class WorkersEngine:
    """Trains the clients of a round on a pool of processes, one core each."""

    def __init__(
        self,
        task: Task,
        clients: FederatedData,
        *,
        test: Examples | None = None,
        device: torch.device,
        num_workers: int | None = None,
    ) -> None:
        impossible = why_no_workers(device)
        if impossible is not None:
            raise impossible
        if num_workers is not None:
            require_count("num_workers", num_workers, "or none, for one per core")
        self.num_workers = usable_cores() if num_workers is None else num_workers
        self._clients = clients
        self._plain = SequentialEngine(task, clients, test=test, device=device)
        self._trainer = self._made_for_workers(task, clients, device)
        self._pool: WorkerPool | None = None
        self.initial_model: Callable[[int], Groups] = self._plain.initial_model
        self.module_with: Callable[[Groups], nn.Module] = self._plain.module_with

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Each client's update, as they come."""
        with closing(self._trained([work])) as arriving:
            for _, update in arriving:
                yield update

    def run(self, works: Sequence[RoundWork]) -> list[CohortResult]:
        """Several cohorts as one queue of clients: while the last clients of one train, the next one has begun."""
        waiting: list[list[ClientUpdate]] = [[] for _ in works]

        with closing(self._trained(works)) as arriving:

            def updates_of(member: int) -> Iterator[ClientUpdate]:
                for _ in works[member].cohort:
                    while not waiting[member]:
                        whose, update = next(arriving)
                        waiting[whose].append(update)
                    yield waiting[member].pop()

            return [summed(work, updates_of(member)) for member, work in enumerate(works)]

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples, in this process; empty if there are none."""
        return self._plain.evaluate(model)

    def close(self) -> None:
        """End the workers; the next round starts others."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __enter__(self) -> Self:
        """Itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    clients_at_once = 1
    """How many clients a worker is given at a time, at most."""

    def _made_for_workers(self, task: Task, clients: FederatedData, device: torch.device) -> Trainer:  # noqa: ARG002 - others need them
        """What workers train with."""
        return self._plain

    def _shares(self, clients: Sequence[int], work: RoundWork) -> list[Sequence[int]]:  # noqa: ARG002 - others need it
        """Clients, the longest first, as workers are given them."""
        return [[client] for client in clients]

    def _trained(self, works: Sequence[RoundWork]) -> Generator[tuple[int, ClientUpdate], None, None]:
        """The updates of all clients of all works, each with the number of its work."""
        pool = self._take_pool(works)
        try:
            yield from pool.train(self._queue(works, pool), [work.memory for work in works])
        finally:
            # A round that was given up leaves workers at work on what nobody wants; and while this round was under
            # way another one may have begun, with a pool of its own.
            if pool.is_idle and self._pool is None:
                self._pool = pool
            else:
                pool.close()

    def _take_pool(self, works: Sequence[RoundWork]) -> WorkerPool:
        """The pool, or a new one; it is this round's alone until it is put back."""
        pool, self._pool = self._pool, None
        programs = [work.program for work in works]
        sent_bytes = sum(layout_of(work.sent)[1] for work in works)
        # Room for an algorithm that returns twice what it is sent; memory that is never touched costs nothing.
        slot_bytes = 2 * max(layout_of(work.sent)[1] for work in works) + 2**12
        if pool is not None:
            if pool.can_take(programs, sent_bytes, slot_bytes):
                return pool
            pool.close()
            programs = [*pool.programs, *programs]
        return WorkerPool(
            self._trainer,
            programs,
            sent_bytes=sent_bytes,
            slot_bytes=slot_bytes,
            clients_at_once=self.clients_at_once,
            num_workers=self.num_workers,
        )

    def _queue(self, works: Sequence[RoundWork], pool: WorkerPool) -> list[tuple[int, Job]]:
        """What is to be done, work after work, the longest first."""
        queue = []
        first_byte = 0
        for member, work in enumerate(works):
            layout, end = layout_of(work.sent, first_byte)
            pool.send(work.sent, layout)
            # Among all clients where memory allows it, else among as many as may wait for one another.
            stretch = max(4 * self.num_workers, WAITING_BYTES // max(1, end - first_byte))
            for begin in range(0, len(work.cohort), stretch):
                longest_first = sorted(work.cohort[begin : begin + stretch].tolist(), key=partial(self._length, work))
                shares = self._shares(longest_first, work)
                queue += [(member, pool.job(work, share, layout)) for share in shares]
            first_byte = end
        return queue

    def _length(self, work: RoundWork, client: int) -> int:
        """What decides who is trained first: the lowest, which is the client with the most to do."""
        num_examples = len(self._clients.rows(client))
        return -work.plan.num_steps(num_examples) * work.plan.batch_length(num_examples)


def usable_cores() -> int:
    """The cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def why_no_workers(device: torch.device) -> InvalidSetting | None:
    """What stands in the way of worker processes here, if anything does."""
    if device.type != "cpu":
        return InvalidSetting(
            f"device={str(device)!r}: must be cpu for engine='workers' (use engine='lanes', or 'sequential')"
        )
    if "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return InvalidSetting(
            f"engine='workers': must be able to fork, which processes on {sys.platform} cannot do, or not safely (use "
            f"engine='sequential')"
        )
    if multiprocessing.current_process().daemon:
        return InvalidSetting(
            "engine='workers': must start processes, which a daemonic process may not (use engine='sequential' here)"
        )
    return None
