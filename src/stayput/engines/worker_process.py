"""One worker process of the engines that have some: what it is told, what it answers, how it lives and dies.

A worker is a fork of the process that trains. It inherits the data, the model and the algorithm's functions as they
lie in memory, so nothing of them is copied or pickled, and lambdas and local classes work. Models come and updates go
through memory that both processes see; what travels over the pipe is a few numbers, and where the tensors lie.

Is it safe to fork a process that has run torch's OpenMP threads? They do not exist in the child, which would wait for
them for ever in the first operation that it splits over threads. So the first thing a worker does is to ask for one
thread, and with one thread no operation is split: the way torch's own DataLoader workers live. The one thing that
torch cannot do after a fork is autograd where it has already started threads for a GPU; a worker tries that at once,
and says so.

A worker keeps the standard streams and closes every other file that it inherits. Otherwise it would hold the lock of
a run's folder, and the far end of other processes' pipes, for as long as it lives.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import NamedTuple, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor

from stayput.core.algorithm import ClientProgram
from stayput.core.engine import ClientUpdate, RoundWork
from stayput.core.local_work import LocalPlan
from stayput.core.tensors import MEMORY, Groups
from stayput.errors import InvalidSetting, StayputError, TrainingError

ALIGNMENT = 64
"""Bytes, as in torch's own allocations: kernels may take another path, and round otherwise, where memory is not."""


class Place(NamedTuple):
    """Where a tensor lies in shared memory, and how."""

    first_byte: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]


Layout = Mapping[str, Mapping[str, Place]]
"""The places of all tensors of some groups."""


class Job(NamedTuple):
    """Clients to be trained together: all of a `RoundWork` that is not in shared memory or inherited."""

    round_number: int
    seed: int
    clients: tuple[int, ...]
    plan: LocalPlan
    program: int
    """Its position among the programs that the worker has inherited."""
    sent: Layout
    slot: int
    """The first byte of the memory that the updates go to, one behind another."""
    memory: Mapping[int, tuple[Layout, bytes]] = MappingProxyType({})
    """What clients keep from round to round, where the program has such a thing and they have it already."""

    @property
    def names(self) -> str:
        """Its clients in words."""
        return f"client{'s' if len(self.clients) > 1 else ''} {', '.join(map(str, self.clients))}"


class Done(NamedTuple):
    """A client has been trained."""

    client: int
    num_examples: int
    num_steps: int
    train_loss: float
    update: Layout
    slot: int | None
    """The first byte of its memory; None if the update did not fit, and its bytes follow in a message of their own."""


class Failed(NamedTuple):
    """A client could not be trained: the exception, in words."""

    module: str
    name: str
    arguments: tuple[str | int | float | None, ...]
    sentence: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What workers share with their parent from birth."""

    engine: Trainer
    programs: Sequence[ClientProgram]
    memory: Tensor
    """Bytes that all of them see."""
    slot_bytes: int
    """Of one client's update."""


class Trainer(Protocol):
    """What a worker trains with."""

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """The updates of a work's clients, in any order."""
        ...


def layout_of(groups: Groups, first_byte: int = 0) -> tuple[Layout, int]:
    """The places of the tensors one behind another, and the byte behind the last."""
    layout: dict[str, dict[str, Place]] = {}
    for group, tensors in groups.items():
        layout[group] = {}
        for name, tensor in tensors.items():
            # The stride of a dense copy: layers laid out channels last stay so, and keep their kernels.
            stride = torch.empty_like(tensor, device="meta").stride()
            layout[group][name] = Place(first_byte, tensor.dtype, tuple(tensor.shape), stride)
            first_byte += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    return layout, first_byte


def view_of(memory: Tensor, layout: Layout) -> dict[str, dict[str, Tensor]]:
    """The tensors at these places, without a copy."""
    return {
        group: {name: _tensor_at(memory, place) for name, place in places.items()} for group, places in layout.items()
    }


def write(groups: Groups, memory: Tensor, layout: Layout) -> None:
    """Copy tensors to their places."""
    for group, tensors in view_of(memory, layout).items():
        for name, tensor in tensors.items():
            tensor.copy_(groups[group][name].detach())


def packed(groups: Groups) -> tuple[Layout, bytes]:
    """Tensors as bytes, and where in them each lies."""
    layout, num_bytes = layout_of(groups)
    memory = torch.empty(num_bytes, dtype=torch.uint8)
    write(groups, memory, layout)
    return layout, memory.numpy().tobytes()


def unpacked(layout: Layout, content: bytes) -> dict[str, Tensor]:
    """The tensors of the group "memory", in memory of their own, which is aligned as torch aligns it."""
    views = view_of(torch.frombuffer(bytearray(content), dtype=torch.uint8), layout)
    return {name: tensor.clone() for name, tensor in views[MEMORY].items()}


def _tensor_at(memory: Tensor, place: Place) -> Tensor:
    first = place.first_byte
    num_bytes = math.prod(place.shape) * place.dtype.itemsize
    return memory[first : first + num_bytes].view(place.dtype).as_strided(place.shape, place.stride)


def raise_again(failure: Failed, *, where: str = "") -> NoReturn:
    """Raise in this process what a worker could not handle: the same class with the same sentence, and `where`."""
    error = _rebuilt(failure)
    if where and isinstance(error, StayputError):
        error.args = (f"{where}{failure.sentence}",)
    if error is None:  # a class made inside a function, or one that needs more than a sentence
        error = TrainingError(f"a client's training raised {failure.name}: {failure.sentence}")
    if not isinstance(error, StayputError):  # a bug, which keeps its traceback
        error.add_note(f"In a worker process:\n{failure.traceback}")
    raise error


def live(inheritance: Inheritance, link: Connection, parent: int, signal_mask: set[int]) -> None:
    """The life of a worker, from the fork to its end; it never returns."""
    exit_code = 1
    try:
        _settle(link, parent, signal_mask)
        _serve(inheritance, link)
    except (EOFError, OSError):
        exit_code = 0  # the parent is gone or has closed the pool
    finally:
        os._exit(exit_code)  # nothing of the parent's is flushed, removed or printed a second time


def _settle(link: Connection, parent: int, signal_mask: set[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    torch.set_num_threads(1)
    _let_go_of_files(keep=link.fileno())
    threading.Thread(target=_end_with_parent, args=(link.fileno(), parent), daemon=True).start()


def _let_go_of_files(keep: int) -> None:
    # Replaced, not closed: an inherited object that goes away closes its number, whoever else has it by then.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - numbers, not paths
        if number > 2 and number not in {keep, nothing}:
            os.dup2(nothing, number)


def _end_with_parent(link: int, parent: int) -> None:
    """End this process, in the middle of a client if need be, when nobody is left who waits for it."""
    hang_up = select.poll()
    hang_up.register(link, 0)  # wakes for nothing but the other end's closing
    while not hang_up.poll(1000) and os.getppid() == parent:
        pass  # somebody else may hold the other end too, so it is not enough to listen
    os._exit(0)


def _serve(inheritance: Inheritance, link: Connection) -> None:
    """Train one client after another, until the parent closes the pipe."""
    cannot = _why_no_gradients()
    while True:
        job: Job = link.recv()
        try:
            if cannot is not None:
                raise cannot  # noqa: TRY301 - it belongs to the job, which the parent waits for
            updates = _trained(inheritance, job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent raises it again
            link.send(failed(error))
            continue
        _answer(inheritance, link, job, updates)


def _why_no_gradients() -> InvalidSetting | None:
    try:
        torch.ones(1, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        return InvalidSetting(
            f"engine='workers': torch cannot compute gradients in a fork of this process, which has used a GPU: "
            f"{' '.join(str(error).split())} (train in a process of its own, or use engine='sequential')"
        )
    return None


def _trained(inheritance: Inheritance, job: Job) -> list[ClientUpdate]:
    work = RoundWork(
        job.round_number,
        job.seed,
        np.array(job.clients, dtype=np.int64),
        job.plan,
        view_of(inheritance.memory, job.sent),
        inheritance.programs[job.program],
        {client: unpacked(*kept) for client, kept in job.memory.items()},
    )
    return list(inheritance.engine.train(work))


def _answer(inheritance: Inheritance, link: Connection, job: Job, updates: Sequence[ClientUpdate]) -> None:
    answers, too_large = [], []
    for number, update in enumerate(updates):
        layout, last_byte = layout_of(update.update)
        slot = job.slot + number * inheritance.slot_bytes if last_byte <= inheritance.slot_bytes else None
        memory = torch.empty(last_byte, dtype=torch.uint8) if slot is None else inheritance.memory[slot:]
        write(update.update, memory, layout)
        if slot is None:  # an algorithm that returns much more than it was sent
            too_large.append(memory)
        done = Done(update.client, update.num_examples, update.num_steps, update.train_loss, layout, slot)
        answers.append(done)
    link.send(answers)
    for memory in too_large:
        link.send_bytes(memory.numpy().data)


def failed(error: Exception) -> Failed:
    """An exception in words."""
    plain = all(isinstance(argument, str | int | float | None) for argument in error.args)
    return Failed(
        type(error).__module__,
        type(error).__qualname__,
        error.args if plain else (str(error),),
        str(error),
        "".join(traceback.format_exception(error)),
    )


def _rebuilt(failure: Failed) -> Exception | None:
    known = getattr(sys.modules.get(failure.module), failure.name, None)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        return None
    with contextlib.suppress(Exception):  # a class of a user's may do anything when it is made
        error = known.__new__(known, *failure.arguments)  # not __init__, which may take other arguments
        if str(error) == failure.sentence:
            return error
    return None
