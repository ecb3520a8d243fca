"""Worker processes as their parent sees them: started when needed, given clients, replaced when they die, ended.

What a worker does is in `worker_process.py`; what it is good for in `workers.py`.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

import torch

from stayput.core.algorithm import ClientProgram
from stayput.core.engine import ClientUpdate, KeptByClients, RoundWork
from stayput.core.tensors import MEMORY, Groups, Tensors
from stayput.engines.worker_process import (
    Done,
    Failed,
    Inheritance,
    Job,
    Layout,
    Trainer,
    live,
    packed,
    raise_again,
    view_of,
    write,
)
from stayput.errors import TrainingError

DEATHS_ALLOWED = 3
"""Workers that may die over one client; then it is the client's fault rather than bad luck."""


@dataclass(slots=True, eq=False)
class Worker:
    """A worker process, as its parent sees it."""

    process: ForkProcess
    link: Connection
    slots: tuple[int, int]
    """Where its updates go, in turn: while those of one job are read, it trains the next clients."""
    at_work_on: tuple[int, Job] | None = None

    def begin(self, member: int, job: Job, kept: Mapping[int, Tensors]) -> None:
        """Give it clients, with what they keep."""
        self.slots = self.slots[::-1]
        job = job._replace(slot=self.slots[0])
        self.at_work_on = (member, job)
        with suppress(OSError):  # it is dead; whoever waits for its answer finds out
            self.link.send(job._replace(memory={client: packed({MEMORY: tensors}) for client, tensors in kept.items()}))

    def answer(self) -> list[tuple[Done, torch.Tensor | None]] | Failed:
        """What it says of its clients, each with the update's bytes if they are not in its slot."""
        answer: list[Done] | Failed = self.link.recv()
        if isinstance(answer, Failed):
            return answer
        return [(done, None if done.slot is not None else self._bytes()) for done in answer]

    def _bytes(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(self.link.recv_bytes()), dtype=torch.uint8)

    def end(self) -> str:
        """End it, whatever it is doing, and say how it ended."""
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        self.process.close()
        self.link.close()
        return f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"


def _end_all(owner: int, workers: list[Worker]) -> None:
    if os.getpid() == owner:  # in a fork of it they are somebody else's children
        while workers:
            workers.pop().end()


class WorkerPool:
    """Worker processes with memory that they share, started as they are needed."""

    def __init__(
        self,
        engine: Trainer,
        programs: Sequence[ClientProgram],
        *,
        sent_bytes: int,
        slot_bytes: int,
        clients_at_once: int,
        num_workers: int,
    ) -> None:
        self.programs: list[ClientProgram] = []
        for program in programs:
            if program not in self.programs:
                self.programs.append(program)
        self._sent_bytes, self._num_workers = sent_bytes, num_workers
        # Without a name: nothing is left behind, however the processes end.
        job_bytes = clients_at_once * slot_bytes
        size = sent_bytes + 2 * num_workers * job_bytes
        memory = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
        self._shared = Inheritance(engine, self.programs, memory, slot_bytes)
        self._slots = [  # of workers yet to be started
            (sent_bytes + 2 * number * job_bytes, sent_bytes + (2 * number + 1) * job_bytes)
            for number in range(num_workers)
        ]
        self._workers: list[Worker] = []
        self.close: Callable[[], object] = weakref.finalize(self, _end_all, os.getpid(), self._workers)
        """End all workers; also done when the pool is collected and when the process ends."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody is at work."""
        return all(worker.at_work_on is None for worker in self._workers)

    def can_take(self, programs: Sequence[ClientProgram], sent_bytes: int, slot_bytes: int) -> bool:
        """Whether works with these programs and sizes can be done by these workers."""
        return (
            all(program in self.programs for program in programs)
            and sent_bytes <= self._sent_bytes
            and slot_bytes <= self._shared.slot_bytes
        )

    def send(self, sent: Groups, layout: Layout) -> None:
        """Put what is sent to clients where workers find it."""
        write(sent, self._shared.memory, layout)

    def job(self, work: RoundWork, clients: Sequence[int], sent: Layout) -> Job:
        """Some clients of a work."""
        program = self.programs.index(work.program)
        return Job(work.round_number, work.seed, tuple(clients), work.plan, program, sent, slot=0)

    def train(
        self, queue: Sequence[tuple[int, Job]], memories: Sequence[KeptByClients]
    ) -> Iterator[tuple[int, ClientUpdate]]:
        """Train clients, and yield their updates as they come, each with the number that came with its job.

        That number is also the position of what the job's clients keep, in `memories`.
        """
        waiting = deque(queue)
        deaths: Counter[tuple[int, tuple[int, ...]]] = Counter()
        self._remove_the_dead()
        self._hand_out(waiting, memories)
        while busy := [worker for worker in self._workers if worker.at_work_on is not None]:
            ready = wait([worker.link for worker in busy])
            for worker in busy:
                if worker.link not in ready or worker.at_work_on is None:
                    continue
                member, job = worker.at_work_on
                try:
                    answer = worker.answer()
                except (EOFError, OSError):
                    deaths[member, job.clients] += 1
                    self._bury(worker, job, deaths[member, job.clients])
                    waiting.appendleft((member, job))
                    continue
                worker.at_work_on = None
                if isinstance(answer, Failed):
                    raise_again(answer)
                self._hand_out(waiting, memories)  # first, so that it need not wait for what is done with this one
                for done, rest in answer:
                    yield member, self._update(done, rest)
            self._hand_out(waiting, memories)

    def _hand_out(self, waiting: deque[tuple[int, Job]], memories: Sequence[KeptByClients]) -> None:
        while waiting:
            free = next((worker for worker in self._workers if worker.at_work_on is None), None)
            if free is None:
                if not self._slots:
                    return
                free = self._start()
            member, job = waiting.popleft()
            kept = {client: memories[member].get(client) for client in job.clients}
            free.begin(member, job, {client: tensors for client, tensors in kept.items() if tensors is not None})

    def _update(self, done: Done, memory: torch.Tensor | None) -> ClientUpdate:
        places = view_of(self._shared.memory[done.slot :] if memory is None else memory, done.update)
        # A copy, which the caller may keep: the slot is the next client's but one.
        update = {group: {name: tensor.clone() for name, tensor in views.items()} for group, views in places.items()}
        return ClientUpdate(done.client, done.num_examples, update, done.num_steps, done.train_loss)

    def _start(self) -> Worker:
        here, there = multiprocessing.Pipe()
        with _forking() as signal_mask, there:
            process = multiprocessing.get_context("fork").Process(
                target=live, args=(self._shared, there, os.getpid(), signal_mask), name="stayput worker", daemon=True
            )
            process.start()
            worker = Worker(process, here, self._slots.pop())
            self._workers.append(worker)
        return worker

    def _remove_the_dead(self) -> None:
        for worker in [worker for worker in self._workers if not worker.process.is_alive()]:
            self._remove(worker)

    def _bury(self, worker: Worker, job: Job, deaths: int) -> None:
        end = self._remove(worker)
        if deaths == DEATHS_ALLOWED:
            raise TrainingError(
                f"round {job.round_number}, {job.names}: {deaths} worker processes died while they trained "
                f"{'it' if len(job.clients) == 1 else 'them'}, the last one {end}: a client must leave its process "
                f"alive (is there too little memory for so many workers? engine='sequential' needs one process only)"
            )

    def _remove(self, worker: Worker) -> str:
        self._workers.remove(worker)
        self._slots.append(worker.slots)
        return worker.end()


@contextmanager
def _forking() -> Iterator[set[int]]:
    """Make a fork quiet, and give what it has to set its signal mask to.

    Until a worker has its own answer to a signal, it would run its parent's. And Python warns of any fork of a process
    with threads, since most children cannot know what these threads held; a worker touches nothing of theirs.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
            yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
