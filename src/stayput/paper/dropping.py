"""Which learning rates of a cell end before its last round, and why: pure decisions over curves.

A rate ends
- when it reaches the target;
- when another has reached it and it is behind: it can no longer be the best, whatever it does (for certain, since the
  paper counts the rounds of the best rate);
- when it is hopeless: after `HOPELESS_AFTER` rounds, the leader was where it is now in a quarter of the rounds. That is
  a judgement, so the file says by which curve and when;
- when it diverges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from stayput.core.history import Curve

TARGET, ALLOWED, BEHIND, HOPELESS, DIVERGED, UNFINISHED = (
    "target", "rounds", "behind", "hopeless", "diverged", "unfinished"
)  # fmt: skip
"""How a curve ends: at the target, after the allowed rounds, or before."""

SLACK = 1.1
"""Others go on until this multiple of the best rate's rounds, so that one sees whether neighbours differ."""
HOPELESS_AFTER = 20
HOPELESS_FACTOR = 4
HOPELESS_EVERY = 5
"""Evaluations between two looks at who is hopeless."""


@dataclass
class Standing:
    """One rate's curve so far. What is asked of it after every round does not depend on how long it is."""

    rounds: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    higher_is_better: bool = True
    best: float | None = None
    """The best value so far, if there is one that is a number."""

    def __post_init__(self) -> None:
        """Find the best of the values that it begins with."""
        for value in self.values:
            self._improve(value)

    def add(self, round_number: int, value: float) -> None:
        """One more evaluation."""
        self.rounds.append(round_number)
        self.values.append(value)
        self._improve(value)

    @property
    def curve(self) -> Curve:
        """As a curve."""
        return Curve(np.array(self.rounds, dtype=np.int64), np.array(self.values), self.higher_is_better)

    @property
    def last(self) -> int:
        """The last round that was evaluated."""
        return self.rounds[-1] if self.rounds else 0

    def rounds_to(self, target: float) -> float | None:
        """Where it reaches the target."""
        if self.best is None or (self.best < target if self.higher_is_better else self.best > target):
            return None
        return self.curve.rounds_to(target)

    def _improve(self, value: float) -> None:
        better = math.isfinite(value) and (
            self.best is None or (value > self.best if self.higher_is_better else value < self.best)
        )
        if better:
            self.best = value


@dataclass(frozen=True)
class Verdict:
    """Why a curve ended."""

    ended: str
    why: str = ""


def verdicts(
    live: Mapping[int, Standing], *, target: float | None, reached_before: float | None = None
) -> dict[int, Verdict]:
    """Which of the live rates (by exponent) end now. `reached_before`: the best rounds known from elsewhere."""
    ending: dict[int, Verdict] = {}
    reached = {} if target is None else {k: standing.rounds_to(target) for k, standing in live.items()}
    known = [rounds for rounds in (*reached.values(), reached_before) if rounds is not None]
    for exponent, rounds in reached.items():
        if rounds is not None:
            ending[exponent] = Verdict(TARGET)
    if target is not None and known:
        best = min(known)
        for exponent, standing in live.items():
            if exponent not in ending and standing.last >= SLACK * best:
                ending[exponent] = Verdict(BEHIND, f"another rate reached the target after {best:.1f} rounds")
    if any(len(standing.rounds) % HOPELESS_EVERY == 0 for standing in live.values()):
        ending = {**_hopeless({k: s for k, s in live.items() if k not in ending}), **ending}
    return ending


def _hopeless(live: Mapping[int, Standing]) -> dict[int, Verdict]:
    scored = {exponent: best for exponent, standing in live.items() if (best := standing.best) is not None}
    if len(scored) < 2:
        return {}
    leader = _leader(scored, higher_is_better=next(iter(live.values())).higher_is_better)
    curve = live[leader].curve
    found = {}
    for exponent, best in scored.items():
        last = live[exponent].last
        if exponent == leader or last < HOPELESS_AFTER:
            continue
        then = curve.rounds_to(best)
        if then is not None and then * HOPELESS_FACTOR <= last:
            found[exponent] = Verdict(
                HOPELESS, f"at {best:.5g} after {last} rounds, where k={leader} was after {then:.0f}"
            )
    return found


def _leader(scored: Mapping[int, float], *, higher_is_better: bool) -> int:
    best = (max if higher_is_better else min)(scored.values())
    return min(exponent for exponent, value in scored.items() if value == best)


def best_exponent(curves: Mapping[int, Curve], target: float | None, *, among: Iterable[int] | None = None) -> int:
    """The rate that reached the target first; where none did, the one with the best value."""

    def rank(exponent: int) -> tuple[float, float]:
        curve = curves[exponent]
        rounds = None if target is None else curve.rounds_to(target)
        finite = curve.values[np.isfinite(curve.values)]
        best = (finite.max() if curve.higher_is_better else -finite.min()) if finite.size else -np.inf
        return (np.inf if rounds is None else rounds, -float(best))

    return min(among if among is not None else curves, key=rank)
