"""One worker of the `ray` engine, as it lives in a process of its own: it opens data, and trains parcels of clients.

What goes wrong here is returned in words, not raised: the process that trains raises it again as the same error, where
Ray would wrap it into one of its own. Models come and updates go as one stretch of bytes with the places of the tensors
in it, which Ray moves without pickling; `worker_process.py` of the `workers` engine says why their layout matters.

Must not import Ray: a `Trainer` is an ordinary class, which `pool.py` makes an actor of.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stayput.algorithms.local_sgd import LOCAL_SGD
from stayput.core.algorithm import ClientProgram
from stayput.core.engine import ClientUpdate, CohortResult, RoundWork
from stayput.core.seeds import Indices
from stayput.core.tensors import MEMORY, Groups, Tensors, all_finite
from stayput.core.weighted_sum import WeightedSum
from stayput.data.federated_data import Array, Assignment, Examples, FederatedData, Stored
from stayput.data.populations import open_examples
from stayput.engines.cluster.parcels import Order, Packed, Trained
from stayput.engines.lanes.engine import LanesEngine
from stayput.engines.precision import use_precision
from stayput.engines.sequential import SequentialEngine
from stayput.engines.worker_process import Failed, failed, layout_of, view_of, write
from stayput.runs.environment import versions
from stayput.tasks.task import Task


@dataclass(frozen=True)
class Compute:
    """What a worker computes with."""

    device: str
    precision: str
    lanes: bool
    """Whether clients train on lanes, or one after another."""


class Trainer:
    """Trains clients for one task and population after another."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            torch.set_num_threads(1)  # a worker is one core
        self._engines: dict[str, SequentialEngine | LanesEngine] = {}

    def facts(self) -> dict[str, str]:
        """Who and where this is, and with which versions."""
        return {**versions(), "node": platform.node(), "pid": str(os.getpid())}

    def open(
        self,
        key: str,
        task: Task,
        compute: Compute,
        inputs: Array | Stored,
        targets: Array | None,
        order: Indices | None,
        offsets: Indices,
    ) -> Failed | None:
        """Open a task and its clients' data: mapped from this machine's disk, or shared by Ray."""
        try:
            examples = open_examples(inputs) if isinstance(inputs, Stored) else Examples(inputs, targets)  # type: ignore[arg-type] # there are targets where there are inputs
            clients = FederatedData(examples, Assignment(order, offsets))
            use_precision(compute.precision)
            kind = LanesEngine if compute.lanes else SequentialEngine
            self._engines[key] = kind(task, clients, device=torch.device(compute.device))
        except Exception as error:  # noqa: BLE001 - whatever it is, the process that trains raises it again
            return failed(error)
        return None

    def forget(self, key: str) -> None:
        """Let go of a task and its data."""
        self._engines.pop(key, None)

    def train(self, key: str, program: ClientProgram, sent: Packed, order: Order) -> Trained | Failed:
        """Train a parcel's clients."""
        try:
            return self._trained(self._engines[key], program, sent, order)
        except Exception as error:  # noqa: BLE001 - the same
            return failed(error)

    def _trained(
        self, engine: SequentialEngine | LanesEngine, program: ClientProgram, sent: Packed, order: Order
    ) -> Trained:
        started = time.perf_counter()
        work = RoundWork(
            order.round_number,
            order.seed,
            np.array(order.clients, dtype=np.int64),
            order.plan,
            unpacked(sent),
            # Functions arrive as what they are here, but their record is a copy, and lanes know theirs by identity.
            LOCAL_SGD if program == LOCAL_SGD else program,
            {client: unpacked(kept)[MEMORY] for client, kept in order.memory.items()},
        )
        if isinstance(engine, LanesEngine):
            (result,) = engine.run([work])
            return _summed_on_lanes(order, result, started)
        return _answer(order, list(engine.train(work)), started)


def _answer(order: Order, updates: Sequence[ClientUpdate], started: float) -> Trained:
    memory = {update.client: packed({MEMORY: update.update[MEMORY]}) for update in updates if MEMORY in update.update}
    leaving = [_leaving(update.update) for update in updates]
    if order.summed:
        block = WeightedSum(order.clients)
        for update, groups in zip(updates, leaving, strict=True):
            block.add(update.client, groups, weight=update.num_examples)
        to_send: list[Groups] = [block.total()[0]]
    else:
        to_send = leaving
    layouts, last_byte = [], 0
    for groups in to_send:
        layout, last_byte = layout_of(groups, last_byte)
        layouts.append(layout)
    memory_of_all = torch.empty(last_byte, dtype=torch.uint8)
    for groups, layout in zip(to_send, layouts, strict=True):
        write(groups, memory_of_all, layout)
    return Trained(
        clients=order.clients,
        num_examples=tuple(update.num_examples for update in updates),
        num_steps=tuple(update.num_steps for update in updates),
        train_losses=tuple(update.train_loss for update in updates),
        finite=tuple(all_finite(update.update) for update in updates),
        layouts=tuple(layouts),
        content=memory_of_all.numpy(),
        memory=memory,
        summed=order.summed,
        seconds=time.perf_counter() - started,
    )


def _summed_on_lanes(order: Order, result: CohortResult, started: float) -> Trained:
    weight = sum(result.num_examples)
    total = {g: {name: mean * weight for name, mean in tensors.items()} for g, tensors in result.mean.items()}
    layout, content = packed(total)
    return Trained(
        clients=order.clients,
        num_examples=tuple(result.num_examples),
        num_steps=tuple(result.num_steps),
        train_losses=tuple(result.train_losses),
        finite=tuple(result.finite),
        layouts=(layout,),
        content=content,
        memory={client: packed({MEMORY: kept}) for client, kept in result.memory.items()},
        summed=True,
        seconds=time.perf_counter() - started,
    )


def packed(groups: Mapping[str, Tensors]) -> Packed:
    """Tensors as one stretch of bytes."""
    layout, num_bytes = layout_of(groups)
    memory = torch.empty(num_bytes, dtype=torch.uint8)
    write(groups, memory, layout)
    return layout, memory.numpy()


def unpacked(content: Packed) -> dict[str, dict[str, Tensor]]:
    """The tensors, in memory of their own."""
    layout, flat = content
    return view_of(torch.from_numpy(flat.copy()), layout)


def _leaving(update: Groups) -> Groups:
    return {group: tensors for group, tensors in update.items() if group != MEMORY}
