"""Training a cell: its grid of learning rates side by side, round by round, until nothing more is to be learned.

It can be stopped at any point and goes on from there: `paper/unfinished.py` has the models, the result file the curves
so far. When the best rate turns out to be at the edge of its grid, the grid is widened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from stayput.core.history import History, RoundReport
from stayput.core.tensors import fingerprint, to_device
from stayput.engines import TrainingEngine
from stayput.errors import CorruptData
from stayput.experiments.preparing import Parts
from stayput.experiments.run_in_progress import Progress, RunInProgress, train_together
from stayput.paper.cells import Cell, file_stem
from stayput.paper.dropping import ALLOWED, DIVERGED, TARGET, UNFINISHED, Standing, Verdict, verdicts
from stayput.paper.rates import beyond_edge, grid_around, rate_of
from stayput.paper.results import CellResult, MeasuredCurve, Results, is_settled, outcome
from stayput.paper.unfinished import Member, Unfinished, read_unfinished, write_unfinished
from stayput.paper.workshop import Workshop, facts_of

UNFINISHED_FOLDER = "unfinished"
SECONDS_BETWEEN_SAVES = 60.0
MOST_WIDENINGS = 4


class BudgetSpentError(Exception):
    """The time is up; what was computed is kept."""


@dataclass(frozen=True)
class Standings:
    """How a cell stands, for whoever watches."""

    cell: Cell
    round_number: int
    live: int
    rates: int
    best_value: float | None
    best_rate: float | None
    seconds: float


def _silent(_: object) -> None:
    pass


@dataclass
class Measurer:
    """Measures cells into a folder of results."""

    results: Results
    workshop: Workshop
    grid: int = 11
    deadline: float | None = None
    """On the monotonic clock."""
    on_standings: Callable[[Standings], None] = _silent
    on_note: Callable[[str], None] = _silent
    seconds_between_saves: float = SECONDS_BETWEEN_SAVES
    clock: Callable[[], float] = field(default=time.monotonic)

    def missing(self, cell: Cell, seed: int) -> list[int]:
        """The rates that are still to be trained, as far as one can tell now."""
        curves = self.results.curves(cell, seed)
        wanted = list(cell.rates or grid_around(cell.centre, self.grid))
        if cell.target is None and cell.rates is None and (best := outcome(cell, curves).exponent) is not None:
            # A figure's curves go on where a table's ended: with the best rate and its neighbours.
            wanted = [best - 1, best, best + 1]
            return [k for k in wanted if k not in curves or not is_settled(curves[k], cell)]
        wanted += [exponent for exponent in curves if exponent not in wanted]
        if cell.rates is None and curves and all(k in curves and is_settled(curves[k], cell) for k in wanted):
            best = outcome(cell, curves).exponent
            wanted += [] if best is None else beyond_edge(curves, best)
        return sorted(k for k in wanted if k not in curves or not is_settled(curves[k], cell))

    def measure(self, cell: Cell, seed: int) -> None:
        """Train what is missing of a cell, and widen its grid until the best rate is inside."""
        for _ in range(MOST_WIDENINGS + 1):
            todo = self._interrupted(cell, seed) or self.missing(cell, seed)
            if not todo:
                return
            self.refuse_if_late()
            self._block(cell, seed, todo)

    def _interrupted(self, cell: Cell, seed: int) -> list[int]:
        """The rates of a block whose models are on disk."""
        for result in self.results.of(cell):
            asked = {"rounds": cell.rounds, "target": cell.target, "seed": seed}
            exponents = sorted(curve.exponent for curve in result.curves)
            open_ends = any(curve.ended == UNFINISHED for curve in result.curves)
            path = self.state_path(file_stem(cell, seed=seed, exponents=exponents))
            if dict(result.asked) == asked and open_ends and path.is_file():
                return exponents
        return []

    def _block(self, cell: Cell, seed: int, exponents: Sequence[int]) -> None:
        parts, engine = self.workshop.ready(cell)
        self._refuse_other_clients(cell, parts)
        block = _Block(self, cell, seed, exponents, parts, engine)
        try:
            block.train()
        finally:
            block.write()

    def _refuse_other_clients(self, cell: Cell, parts: Parts) -> None:
        """What is measured on other clients than the files there would never be put beside them."""
        mine = facts_of(parts.clients)["partition_fingerprint"]
        if any(result.data["partition_fingerprint"] != mine for result in self.results.of(cell)):
            raise CorruptData(
                f"{self.results.folder}: its files of this cell were measured on other clients than this machine has: "
                f"must be the same data and partition (compare `stayput data list`, or use another --results)"
            )

    def state_path(self, stem: str) -> Path:
        """Where a block's models are while it has not ended."""
        return self.results.folder / UNFINISHED_FOLDER / f"{stem}.safetensors"

    def refuse_if_late(self) -> None:
        """Raise `BudgetSpentError` once the deadline has come."""
        if self.deadline is not None and self.clock() >= self.deadline:
            raise BudgetSpentError


class _Block:
    """Some rates of a cell, while they are trained."""

    def __init__(
        self, measurer: Measurer, cell: Cell, seed: int, exponents: Sequence[int], parts: Parts, engine: TrainingEngine
    ) -> None:
        self._measurer, self._cell, self._seed = measurer, cell, seed
        self._clients, self._engine = parts.clients, engine
        self._stem = file_stem(cell, seed=seed, exponents=exponents)
        self._state_path = measurer.state_path(self._stem)
        self._kept = self._found(exponents)
        known = outcome(cell, measurer.results.curves(cell, seed))
        self._reached_before = known.rounds if known.state == "measured" else None
        self._members = self._kept.members
        self._runs = {k: self._run(k) for k in exponents if self._members[k].verdict is None}
        self._began = self._saved = measurer.clock()

    def _found(self, exponents: Sequence[int]) -> Unfinished:
        """What an interruption left, or the beginning."""
        found = read_unfinished(self._state_path)
        if found is not None and set(found.members) == set(exponents):
            return found
        if self._state_path.is_file():
            self._measurer.on_note(f"{self._state_path}: is damaged; its rates begin anew")
        standing = Standing(higher_is_better=self._cell.higher_is_better)
        return Unfinished({k: Member(replace(standing, rounds=[], values=[]), 0, None) for k in exponents})

    def _run(self, exponent: int) -> RunInProgress:
        member, workshop = self._members[exponent], self._measurer.workshop
        spec = workshop.spec(self._cell, exponent, self._seed, self._clients.num_clients)
        progress = None
        if member.state is not None and member.standing.rounds:  # round 0 was evaluated, so it has begun
            state = to_device(member.state, torch.device(spec.device))
            progress = Progress(state, History((RoundReport(member.round_number),)))

        def heard(report: RoundReport, _: History) -> None:
            self._kept.example_passes += example_passes(spec.algorithm, report)

        algorithm = workshop.algorithm(spec)
        return RunInProgress(spec, algorithm, self._engine, self._clients, progress=progress, on_round=heard)

    def train(self) -> None:
        """Go on until every rate has ended."""
        self._judge()
        alive = [run for run in self._runs.values() if not run.ended]
        train_together(self._engine, alive, diverging_ends_all=False, after_round=self._after_round)
        self._judge()

    def _after_round(self) -> None:
        self._judge()
        self._measurer.on_standings(self._standings())
        if self._measurer.clock() - self._saved >= self._measurer.seconds_between_saves:
            self._save()
        self._measurer.refuse_if_late()

    def _take_in(self) -> None:
        """Bring the curves up to the runs' histories, which are what an interruption never leaves half done."""
        for exponent, run in self._runs.items():
            standing = self._members[exponent].standing
            new = []
            for report in reversed(run.progress.history.reports):
                if standing.rounds and report.round_number <= standing.last:
                    break
                if self._cell.metric in report.evaluation:
                    new.append((report.round_number, float(report.evaluation[self._cell.metric])))
            for number, value in reversed(new):
                standing.add(number, value)

    def _judge(self) -> None:
        self._take_in()
        members = self._members
        for exponent, run in self._runs.items():
            if members[exponent].verdict is None and run.diverged is not None:
                members[exponent].verdict = Verdict(DIVERGED, str(run.diverged))
        live = {k: members[k].standing for k in self._runs if members[k].verdict is None and members[k].standing.rounds}
        for exponent, verdict in verdicts(live, target=self._cell.target, reached_before=self._reached_before).items():
            members[exponent].verdict = verdict
            self._runs[exponent].dropped = verdict.ended
            if verdict.ended == TARGET:
                rounds = live[exponent].curve.rounds_to(self._cell.target or 0.0)
                known = [each for each in (rounds, self._reached_before) if each is not None]
                self._reached_before = min(known)
            else:
                self._measurer.on_note(f"η={rate_of(exponent):g} is dropped, {verdict.ended}: {verdict.why}")
        for exponent, run in self._runs.items():
            if members[exponent].verdict is None and run.ended:
                members[exponent].verdict = Verdict(ALLOWED)

    def _standings(self) -> Standings:
        best = {k: value for k, member in self._members.items() if (value := member.standing.best) is not None}
        pick = max if self._cell.higher_is_better else min
        leader = pick(best, key=best.__getitem__) if best else None
        return Standings(
            self._cell,
            max(run.progress.history.last_round for run in self._runs.values()),
            sum(member.verdict is None for member in self._members.values()),
            len(self._members),
            None if leader is None else best[leader],
            None if leader is None else rate_of(leader),
            self._kept.seconds + self._measurer.clock() - self._began,
        )

    def _save(self) -> None:
        self._take_in()
        for exponent, run in self._runs.items():
            member = self._members[exponent]
            member.model_sha256 = fingerprint(run.progress.state)
            member.state = run.progress.state if member.verdict is None else None
            member.round_number = run.progress.history.last_round
        now = self._measurer.clock()
        self._kept.seconds += now - self._began
        self._began = self._saved = now
        write_unfinished(self._state_path, self._kept)

    def write(self) -> None:
        """Keep what there is: the curves so far, and the models if the cell has not ended."""
        self._save()
        if not any(member.standing.rounds for member in self._members.values()):
            return
        workshop = self._measurer.workshop
        spec = workshop.spec(self._cell, 0, self._seed, self._clients.num_clients)
        curves = [_measured(exponent, member) for exponent, member in sorted(self._members.items())]
        facts = {"seconds": round(self._kept.seconds, 1), "example_passes": self._kept.example_passes}
        asked = {"rounds": self._cell.rounds, "target": self._cell.target, "seed": self._seed}
        provenance = {**workshop.provenance(spec), **facts}
        result = CellResult(self._cell.identity, asked, curves, provenance, facts_of(self._clients))
        # A name of its own while it is unfinished: copying files never puts less in the place of more.
        unfinished = f"{self._stem}-{UNFINISHED}"
        if any(member.verdict is None for member in self._members.values()):
            self._measurer.results.add(unfinished, result)
            return
        self._measurer.results.add(self._stem, result)
        self._measurer.results.remove(unfinished)
        self._state_path.unlink(missing_ok=True)


def _measured(exponent: int, member: Member) -> MeasuredCurve:
    verdict = member.verdict or Verdict(UNFINISHED)
    return MeasuredCurve(exponent, member.standing.curve, verdict.ended, verdict.why, member.model_sha256)


def example_passes(algorithm: Mapping[str, Any], report: RoundReport) -> int:
    """Examples that a round's gradients were taken on."""
    if algorithm["name"] == "central_sgd":
        return report.num_steps * int(algorithm["batch_size"])
    return report.num_examples * int(algorithm["local_epochs"])
