"""Workers of a Ray cluster as this process sees them: started once, kept warm between engines, replaced when they die.

A worker takes seconds to start, since it imports torch; so workers outlive the engine they were started for, and the
next engine on the same kind of device finds them warm.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stayput.engines.cluster.connection import imported_ray, workers_for
from stayput.engines.cluster.trainer import Trainer
from stayput.errors import InvalidSetting, TrainingError
from stayput.runs.environment import versions

MUST_AGREE = ("stayput", "torch", "python")
START_SECONDS = 120.0


@dataclass(eq=False)
class Worker:
    """A worker process somewhere in the cluster."""

    actor: Any
    holds: set[str] = field(default_factory=set)
    """The engines whose data it has opened."""
    tasks: dict[Any, float] = field(default_factory=dict)
    """What it was asked and has not answered, by Ray's reference, with the time when it was asked."""
    pid: int = 0
    node: str = ""

    def ask(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - as Ray's handles are
        """Have it do something; its answer is waited for by the reference that this gives."""
        reference = getattr(self.actor, method).remote(*arguments)
        self.tasks[reference] = time.monotonic()
        return reference


class Pool:
    """The workers on one kind of device."""

    def __init__(self, device_type: str) -> None:
        self._device_type = device_type
        self.workers: list[Worker] = []

    def fill(self) -> None:
        """Start as many workers as there should be, and hear from all of them."""
        wanted = workers_for(self._device_type)
        for worker in self.workers[wanted:]:
            self.drop(worker)
        for _ in range(wanted - len(self.workers)):
            self.start()
        for worker in list(self.workers):
            self.greet(worker)

    def start(self) -> Worker:
        """A new worker, wherever the cluster has room."""
        kind = imported_ray().remote(Trainer)
        needs = {"num_gpus": 1, "num_cpus": 0} if self._device_type == "cuda" else {"num_cpus": 1}
        worker = Worker(kind.options(max_restarts=0, scheduling_strategy="SPREAD", **needs).remote())
        self.workers.append(worker)
        return worker

    def start_and_greet(self) -> Worker:
        """A new worker that has been heard from."""
        worker = self.start()
        self.greet(worker)
        return worker

    def drop(self, worker: Worker) -> None:
        """End a worker, or forget one that is dead."""
        self.workers.remove(worker)
        imported_ray().kill(worker.actor)

    def greet(self, worker: Worker) -> None:
        """Hear from a new worker who and where it is, and refuse other versions than this process has."""
        if worker.pid:
            return
        ray = imported_ray()
        try:
            facts = ray.get(worker.actor.facts.remote(), timeout=START_SECONDS)
        except ray.exceptions.RayActorError as error:
            self.workers.remove(worker)
            raise TrainingError(
                f"engine='ray': a worker died as it started ({str(error).partition(chr(10))[0]}): the cluster must "
                f"have memory for {len(self.workers) + 1} (ask for fewer with --ray-workers)"
            ) from error
        except ray.exceptions.GetTimeoutError as error:
            raise InvalidSetting(
                f"engine='ray': a worker has not started within {START_SECONDS:.0f} seconds: the cluster must have "
                f"room for {len(self.workers)} (see `ray status`, or ask for fewer with --ray-workers)"
            ) from error
        worker.pid, worker.node = int(facts["pid"]), facts["node"]
        mine = versions()
        for name in MUST_AGREE:
            if facts[name] != mine[name]:
                raise InvalidSetting(
                    f"engine='ray': {worker.node} has {name} {facts[name]}: must have {mine[name]}, as this machine "
                    f"(install the same version on every machine of the cluster)"
                )


def unpacked_wrongly(error: Exception) -> TrainingError:
    """What a worker could not even begin with: what it was sent names a module that it does not have."""
    last = str(error).strip().rpartition("\n")[2]
    return TrainingError(
        f"engine='ray': a worker could not unpack what it was sent ({last}): the modules that a task or an algorithm "
        f"is made of must be on every machine of the cluster"
    )


_pools: dict[tuple[str, str], Pool] = {}


def pool_for(device_type: str) -> Pool:
    """The pool of this process's connection, with as many workers as there should be."""
    session = imported_ray().get_runtime_context().get_job_id()
    pool = _pools.setdefault((session, device_type), Pool(device_type))
    pool.fill()
    return pool


def forget_pools() -> None:
    """End all workers."""
    for pool in list(_pools.values()):
        for worker in list(pool.workers):
            pool.drop(worker)
    _pools.clear()


def live_workers() -> Iterator[Worker]:
    """Every worker of this process."""
    for pool in _pools.values():
        yield from pool.workers
