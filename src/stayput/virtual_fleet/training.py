"""A run under the virtual clock: the loop over rounds is that of every run, the cohorts are those that reported.

A run that goes on works the clock out again from its beginning, which takes no training: who reported when follows from
the seed and the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from stayput.core.algorithm import Algorithm
from stayput.core.engine import CohortResult, RoundWork
from stayput.core.round import begin_round
from stayput.engines import TrainingEngine
from stayput.errors import InvalidSetting
from stayput.experiments.preparing import OnNote, Parts, finished, opened, prepared
from stayput.experiments.run import Run
from stayput.experiments.run_in_progress import OnRound, RunInProgress, train_together
from stayput.runs.spec import RunSpec
from stayput.virtual_fleet.availability import availability_of
from stayput.virtual_fleet.buffered import BufferedSteps, combined
from stayput.virtual_fleet.rounds import CoordinatedRounds
from stayput.virtual_fleet.settings import VirtualFleet


def train_under_clock(
    spec: RunSpec,
    parts: Parts,
    *,
    folder: Path | str | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_note: OnNote = lambda note: None,  # noqa: ARG005 - says nothing unless asked to
) -> Run:
    """`train_spec`, for a spec with a virtual fleet."""
    fleet = VirtualFleet.from_plain(spec.fleet)
    _refuse_impossible(fleet, parts.algorithm)
    parts, engine = prepared(spec, parts)
    availability = availability_of(fleet, parts.clients, seed=spec.seed)
    kind = CoordinatedRounds if fleet.buffer_size is None else BufferedSteps
    clock = kind(fleet, availability, parts.clients, seed=spec.seed, fraction=parts.algorithm.client_fraction)
    path = None if folder is None else Path(folder)
    with ExitStack() as stack:
        run = opened(spec, parts, engine, folder=path, resume=resume, on_round=on_round, on_note=on_note, stack=stack)
        clocked = _Clocked(run, engine, clock, parts)
        clocked.catch_up()
        train_together(clocked, [run], work_of=clocked.next_work, simulated=clocked.simulated)
        return finished(run, engine, path)


class _Clocked:
    """An engine that trains those who reported, and the clock that says who that is."""

    def __init__(
        self, run: RunInProgress, engine: TrainingEngine, clock: CoordinatedRounds | BufferedSteps, parts: Parts
    ) -> None:
        self._run, self._engine, self._clock, self._parts = run, engine, clock, parts
        self._works: list[RoundWork] = []
        self.initial_model, self.evaluate, self.train = engine.initial_model, engine.evaluate, engine.train

    def next_work(self, run: RunInProgress) -> RoundWork:
        """A round's work, for those whose reports will count in it."""
        return self._counted(run.next_work())

    def run(self, works: Sequence[RoundWork]) -> list[CohortResult]:
        """Train them; in FedBuff from several models, to one result."""
        results = self._engine.run(self._works)
        if len(self._works) == 1 and isinstance(self._clock, CoordinatedRounds):
            return list(results)
        return [combined(self._works, results, works[0].round_number)]

    def simulated(self) -> Mapping[str, float]:
        """What the clock and the lines have seen."""
        return self._clock.totals.plain()

    def catch_up(self) -> None:
        """Bring the clock to where the run is: the same events again, without training."""
        state, algorithm, spec = self._run.progress.state, self._parts.algorithm, self._run.spec
        last = self._run.progress.history.last_round
        if last and isinstance(self._clock, BufferedSteps):
            raise InvalidSetting(
                f"buffer_size={spec.fleet.get('buffer_size')}: clients are on their way with models that a checkpoint "
                f"does not hold, so such a run cannot go on from round {last} (begin it anew, in another folder)"
            )
        for number in range(1, last + 1):
            # What is sent has the same size in every round, and the plan follows from the round's number.
            num_clients = self._parts.clients.num_clients
            work = begin_round(state, number, algorithm=algorithm, num_clients=num_clients, seed=spec.seed)
            self._counted(work)

    def _counted(self, work: RoundWork) -> RoundWork:
        if isinstance(self._clock, BufferedSteps):
            self._works = self._clock.next_works(work)
            cohort = np.concatenate([each.cohort for each in self._works])
            return replace(work, cohort=cohort, following=None)
        cohort = self._clock.next_cohort(work)
        self._works = [replace(work, cohort=cohort, following=None)]
        return self._works[0]


def _refuse_impossible(fleet: VirtualFleet, algorithm: Algorithm) -> None:
    if algorithm.pools_clients:
        raise InvalidSetting(f"availability={fleet.availability!r}: {algorithm.name} has no clients that come and go")
    if fleet.buffer_size is not None and (algorithm.over_population or algorithm.client.memory is not None):
        raise InvalidSetting(
            f"buffer_size={fleet.buffer_size}: clients of {algorithm.name} keep something from round to round, and "
            f"FedBuff has no rounds (leave buffer_size out, or use fed_avg)"
        )
