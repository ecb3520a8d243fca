"""The clients of a round on the workers of a Ray cluster: one for each GPU or CPU core, on any number of machines.

    engine = RayEngine(task, clients, device=torch.device("cpu"))

On CPUs a worker trains one client after another, with the bits of `sequential` on one thread; on GPUs it trains them on
lanes, a block of the cohort at a time, where the model allows. Sums are taken in the order of the cohort, so the result
has the same bits for any number of workers, whoever trained which client and whoever died over it.

Data that lies in a folder of every machine (`data/populations.py`) is mapped there; other data is put into Ray's store
once, which shares it between the workers of a machine. The model is sent once a round to each machine.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from stayput.core.algorithm import ClientProgram
from stayput.core.engine import ClientUpdate, CohortResult, RoundWork
from stayput.core.tensors import MEMORY, Groups, Tensors, to_device
from stayput.core.weighted_sum import WeightedSum
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines.choice import chosen_engine
from stayput.engines.cluster.connection import connect, imported_ray
from stayput.engines.cluster.dispatch import Dispatch
from stayput.engines.cluster.parcels import CostModel, Order, Parcel, Trained, parcels_of
from stayput.engines.cluster.pool import Worker, live_workers, pool_for, unpacked_wrongly
from stayput.engines.cluster.trainer import Compute, packed, unpacked
from stayput.engines.precision import precision_in_use
from stayput.engines.sequential import SequentialEngine
from stayput.engines.worker_process import Failed, raise_again, view_of
from stayput.errors import InvalidSetting
from stayput.tasks.task import Task

_numbers = itertools.count()


class RayEngine:
    """Trains the clients of a round on the workers of a Ray cluster."""

    def __init__(
        self,
        task: Task,
        clients: FederatedData,
        *,
        test: Examples | None = None,
        device: torch.device,
        lanes: bool | None = None,
    ) -> None:
        if not imported_ray().is_initialized():
            connect()
        if lanes is None:
            lanes = device.type == "cuda" and chosen_engine("auto", task, str(device)) == "lanes"
        self._clients, self._device, self._lanes = clients, device, lanes
        self._plain = SequentialEngine(task, clients, test=test, device=device)
        self._key = f"{os.getpid()}-{next(_numbers)}"
        self._what_to_open = self._shared(task, clients)
        self._programs: list[tuple[ClientProgram, Any]] = []
        self._cost = CostModel()
        self._pool = pool_for(device.type)
        self._open_everywhere()
        self.close = weakref.finalize(self, _forget, self._key)
        """Have workers let go of the data; also done when the engine is collected. They stay for the next engine."""
        self.initial_model = self._plain.initial_model
        self.module_with = self._plain.module_with

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return len(self._pool.workers)

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Each client's update, as they come."""
        for _, trained in self._trained([work], summed=False):
            for position, layout in enumerate(trained.layouts):
                client = trained.clients[position]
                update = {**unpacked((layout, trained.content)), **_kept(trained, client)}
                yield ClientUpdate(
                    client,
                    trained.num_examples[position],
                    to_device(update, self._device),
                    trained.num_steps[position],
                    trained.train_losses[position],
                )

    def run(self, works: Sequence[RoundWork]) -> list[CohortResult]:
        """Several cohorts as one queue of parcels: the experiments of a sweep spread over the cluster together."""
        cohorts = [_Cohort(work) for work in works]
        for parcel, trained in self._trained(works, summed=True):
            cohorts[parcel.member].take(trained)
        return [cohort.result(self._device) for cohort in cohorts]

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples, in this process; empty if there are none."""
        return self._plain.evaluate(model)

    def _trained(self, works: Sequence[RoundWork], *, summed: bool) -> Iterator[tuple[Parcel, Trained]]:
        ray = imported_ray()
        parcels = parcels_of(
            works, self._clients, self._cost, num_workers=self.num_workers, always_blocks=self._lanes and summed
        )
        sent = [ray.put(packed(work.sent)) for work in works]
        programs = [self._program(work.program) for work in works]

        def submit(worker: Worker, parcel: Parcel) -> Any:  # noqa: ANN401 - Ray's reference
            work = works[parcel.member]
            memory = {}
            if work.program.memory is not None:
                kept = {client: work.memory.get(client) for client in parcel.clients}
                memory = {client: packed({MEMORY: mine}) for client, mine in kept.items() if mine is not None}
            order = Order(
                work.round_number, work.seed, parcel.clients, work.plan, summed and parcel.whole_block, memory
            )
            return worker.ask("train", self._key, programs[parcel.member], sent[parcel.member], order)

        dispatch = Dispatch(self._pool, self._key, parcels, self._cost, submit=submit, open_on=self._open_on)
        for parcel, trained in dispatch.answers():
            self._cost.learn(parcel, trained.seconds)
            yield parcel, trained

    def _program(self, program: ClientProgram) -> Any:  # noqa: ANN401 - Ray's reference
        """A program's reference; it is sent once."""
        for known, reference in self._programs:
            if known is program:
                return reference
        reference = _put("the algorithm's client program", program)
        self._programs = [*self._programs[-63:], (program, reference)]
        return reference

    def _shared(self, task: Task, clients: FederatedData) -> tuple[Any, ...]:
        """What a worker is given to open."""
        ray = imported_ray()
        examples, assignment = clients.examples, clients.assignment
        columns = (examples.stored, None)
        if examples.stored is None:
            columns = (ray.put(examples.inputs), ray.put(examples.targets))
        order = None if assignment.order is None else ray.put(assignment.order)
        compute = Compute(self._device.type, precision_in_use(), self._lanes)
        return self._key, _put("the task", task), compute, *columns, order, ray.put(assignment.offsets)

    def _open_on(self, worker: Worker) -> Any:  # noqa: ANN401 - Ray's reference
        return worker.ask("open", *self._what_to_open)

    def _open_everywhere(self) -> None:
        """Before the first round: what cannot be opened on some machine is said now."""
        opening = [(worker, self._open_on(worker)) for worker in self._pool.workers]
        for worker, reference in opening:
            self._opened(worker, reference)

    def _opened(self, worker: Worker, reference: Any) -> None:  # noqa: ANN401 - Ray's reference
        ray = imported_ray()
        try:
            answer: Failed | None = ray.get(reference)
        except ray.exceptions.RayActorError:  # it has died since the engine before this one
            self._pool.drop(worker)
            fresh = self._pool.start_and_greet()
            self._opened(fresh, self._open_on(fresh))
            return
        except ray.exceptions.RayTaskError as error:
            raise unpacked_wrongly(error) from error
        del worker.tasks[reference]
        if answer is not None:
            raise_again(answer, where=f"on {worker.node}, a machine of the Ray cluster: ")
        worker.holds.add(self._key)


class _Cohort:
    """What comes back from one experiment's clients."""

    def __init__(self, work: RoundWork) -> None:
        self._sum = WeightedSum(work.cohort)
        self._reports: list[tuple[int, int, int, float, bool]] = []
        self._memory: dict[int, Tensors] = {}

    def take(self, trained: Trained) -> None:
        """Take a parcel's answer."""
        # Without a copy: whatever waits for an earlier client keeps its place in Ray's memory until it is added.
        content = torch.from_numpy(trained.content if trained.content.flags.writeable else _readable(trained.content))
        groups = [view_of(content, layout) for layout in trained.layouts]
        if trained.summed:
            self._sum.add_block(trained.clients, groups[0], weight=float(sum(trained.num_examples)))
        else:
            for client, update, weight in zip(trained.clients, groups, trained.num_examples, strict=True):
                self._sum.add(client, update, weight=weight)
        self._reports += zip(
            trained.clients,
            trained.num_examples,
            trained.num_steps,
            trained.train_losses,
            trained.finite,
            strict=True,
        )
        for client in trained.memory:
            self._memory[client] = _kept(trained, client)[MEMORY]

    def result(self, device: torch.device) -> CohortResult:
        """The mean, and what each client reported, in the order of the cohort."""
        self._reports.sort()
        _, num_examples, num_steps, losses, finite = zip(*self._reports, strict=True)
        return CohortResult(to_device(self._sum.mean(), device), num_examples, num_steps, losses, finite, self._memory)


def _readable(content: Any) -> Any:  # noqa: ANN401 - an array, and a copy of it
    return content.copy()  # torch warns of memory that it may not write to


def _kept(trained: Trained, client: int) -> dict[str, Tensors]:
    kept = trained.memory.get(client)
    return {} if kept is None else {MEMORY: unpacked(kept)[MEMORY]}


def _put(what: str, thing: object) -> Any:  # noqa: ANN401 - Ray's reference
    try:
        return imported_ray().put(thing)
    except TypeError as error:
        raise InvalidSetting(
            f"engine='ray': {what} cannot be sent to other processes ({str(error).partition(chr(10))[0]}): must be "
            f"made of functions and plain values (open files and locks stay where they are)"
        ) from error


def _forget(key: str) -> None:
    if imported_ray().is_initialized():
        for worker in live_workers():
            if key in worker.holds:
                worker.holds.discard(key)
                worker.actor.forget.remote(key)
