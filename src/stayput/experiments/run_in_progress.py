"""One run while it is trained: its state, its history, and its folder if it has one.

It says what the next round asks of an engine and takes the result, so that one run and a whole sweep go through the
same loop, `train_together`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from stayput.core.algorithm import Algorithm
from stayput.core.engine import CohortResult, Engine, RoundWork
from stayput.core.history import History, RoundReport
from stayput.core.round import begin_round, end_round
from stayput.core.tensors import Groups
from stayput.data.federated_data import FederatedData
from stayput.errors import TrainingDiverged
from stayput.runs.client_memory import ClientMemory
from stayput.runs.durable_files import told_if_unwritable
from stayput.runs.run_folder import RunFolder
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec
from stayput.tracking.tracked_run import TrackedRun

OnRound = Callable[[RoundReport, History], None]
"""Called after every round, for progress."""


@dataclass(frozen=True)
class Progress:
    """How far a run is: one value, so that an interruption never sees half of a step from one to the next."""

    state: Groups
    history: History = field(default_factory=History)


class RunInProgress:
    """A run from its first round, or from a checkpoint, to its last."""

    def __init__(
        self,
        spec: RunSpec,
        algorithm: Algorithm,
        engine: Engine,
        clients: FederatedData,
        *,
        progress: Progress | None = None,
        writer: RunWriter | None = None,
        on_round: OnRound | None = None,
        tracked: TrackedRun | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec, self.writer, self.tracked = spec, writer, tracked
        self.environment = environment or {}
        self._algorithm, self._engine, self._clients, self._on_round = algorithm, engine, clients, on_round
        self._checkpointed: int | None = None
        self.diverged: TrainingDiverged | None = None
        self.dropped: str | None = None
        """Why it ends before its time, where whoever trains it says so; set between two rounds."""
        self.progress = progress or Progress(algorithm.init(engine.initial_model(spec.seed)))
        self._memory = self._open_memory(anew=progress is None)

    def begin(self) -> None:
        """Evaluate the initial model, which is round 0; a run that goes on has done so."""
        if not self.progress.history.reports:
            self._finish(RoundReport(round_number=0), self.progress.state, evaluate=True)
            self.checkpoint()

    def next_work(self) -> RoundWork:
        """What the next round asks of an engine."""
        return begin_round(
            self.progress.state,
            self.progress.history.last_round + 1,
            algorithm=self._algorithm,
            num_clients=self._clients.num_clients,
            seed=self.spec.seed,
            memory=self._memory,
        )

    def take(
        self, work: RoundWork, result: CohortResult, seconds: float, simulated: Mapping[str, float] | None = None
    ) -> None:
        """Finish a round with what its cohort learned."""
        state, report = end_round(
            self.progress.state, work, result, algorithm=self._algorithm, num_examples=self._clients.num_examples
        )
        number = work.round_number
        if self._memory is not None:
            with self._said_if_unwritable():
                for client, kept in result.memory.items():
                    self._memory.put(client, kept, round_number=number)
        evaluate = number % self.spec.evaluate_every == 0 or number == self.spec.rounds
        self._finish(replace(report, seconds=seconds, simulated=simulated or {}), state, evaluate=evaluate)
        if number % self.spec.checkpoint_every == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Keep the rounds that are finished, if the run has a folder."""
        number = self.progress.history.last_round
        if self.writer is not None and self.progress.history.reports and self._checkpointed != number:
            if self._memory is not None:
                with self._said_if_unwritable():
                    self._memory.flush()
            self.writer.add_checkpoint(number, self.progress.state)
            if self._memory is not None:
                with self._said_if_unwritable():
                    self._memory.protect(number)
            self._checkpointed = number

    def _said_if_unwritable(self) -> AbstractContextManager[None]:
        return nullcontext() if self.writer is None else told_if_unwritable(self.writer.path)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to train."""
        history = self.progress.history
        if history.last_round >= self.spec.rounds or self.diverged is not None or self.dropped is not None:
            return True
        if not self.spec.stop_at_target or self.spec.target is None:
            return False
        curve = history.curve(self.spec.metric, higher_is_better=self.spec.higher_is_better())
        return curve.rounds_to(self.spec.target) is not None

    def _open_memory(self, *, anew: bool) -> ClientMemory | None:
        """What clients keep from round to round, if the algorithm has them keep anything."""
        program = self._algorithm.client
        if program.memory is None:
            return None
        like, num_clients = program.memory(self._algorithm.broadcast(self.progress.state)), self._clients.num_clients
        if self.writer is None:
            return ClientMemory.without_folder(like, num_clients)
        if anew:
            keep = self.spec.keep_checkpoints
            return ClientMemory.create(self.writer.path, like, num_clients, keep_checkpoints=keep)
        last = self.progress.history.last_round
        there = sorted(number for number in RunFolder(self.writer.path).checkpoint_paths() if number <= last)
        return ClientMemory.reopen(self.writer.path, like, num_clients, checkpoints=there)

    def _finish(self, report: RoundReport, state: Groups, *, evaluate: bool) -> None:
        if evaluate:
            started = time.perf_counter()
            evaluation = self._engine.evaluate(state)
            report = replace(report, evaluation=evaluation, evaluation_seconds=time.perf_counter() - started)
        if self.writer is not None:
            self.writer.add_report(report, state)
        self.progress = Progress(state, self.progress.history.with_report(report))
        if self.tracked is not None:
            self.tracked.add_round(report)
        if self._on_round is not None:  # last: the round is finished when somebody hears of it
            self._on_round(report, self.progress.history)


def train_together(
    engine: Engine,
    runs: Sequence[RunInProgress],
    *,
    diverging_ends_all: bool = True,
    after_round: Callable[[], None] | None = None,
    work_of: Callable[[RunInProgress], RoundWork] = lambda run: run.next_work(),
    simulated: Callable[[], Mapping[str, float]] = dict,
) -> None:
    """Train runs round by round, all of them on one engine, until each has ended.

    Without `diverging_ends_all`, a run that diverges ends alone and remembers why. `after_round` is called when all
    have finished a round; it may drop runs, and what it raises ends the training. `work_of` and `simulated` are for
    rounds under a virtual clock: what is trained, and what the clock says afterwards.
    """
    try:
        for run in runs:
            run.begin()
        while live := [run for run in runs if not run.ended]:
            started = time.perf_counter()
            works = [work_of(run) for run in live]
            results = engine.run(works)
            seconds = (time.perf_counter() - started) / len(live)
            for run, work, result in zip(live, works, results, strict=True):
                try:
                    run.take(work, result, seconds, simulated())
                except TrainingDiverged as error:
                    if diverging_ends_all:
                        raise
                    run.diverged = error
            if after_round is not None:
                after_round()
    finally:  # at the end, and at an interruption: keep the rounds that are finished
        for run in runs:
            run.checkpoint()
