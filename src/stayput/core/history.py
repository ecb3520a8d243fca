"""What a run reports round by round, and the paper's measure of it: rounds to a target.

The paper's measure (section 3, "Increasing parallelism"): make the curve of test accuracy monotone by taking the
best value over all prior rounds, then find where it crosses the target, interpolating linearly between the points
at which it was evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round. Round 0 is the initial model: nobody trained, only its evaluation means something."""

    round_number: int
    cohort_size: int = 0
    num_examples: int = 0
    """m_t, the examples of the cohort."""
    num_steps: int = 0
    """Local steps, over all clients of the cohort."""
    learning_rate: float = 0.0
    train_loss: float | None = None
    """The cohort's mean loss on the minibatches it trained on, weighted with n_k."""
    seconds: float = 0.0
    """Training and averaging, without the evaluation."""
    evaluation: Mapping[str, float] = field(default_factory=dict)
    """Loss and metrics on the test examples; empty in rounds without an evaluation."""
    evaluation_seconds: float = 0.0
    simulated: Mapping[str, float] = field(default_factory=dict)
    """Under a virtual clock: seconds since the run began, bytes that were sent down and up since, tasks that were given
    and those that came to nothing."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric over the rounds at which it was evaluated."""

    rounds: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    higher_is_better: bool = True

    def best_so_far(self) -> npt.NDArray[np.float64]:
        """The curve made monotone. An evaluation that was not a number improves on nothing."""
        better = np.fmax if self.higher_is_better else np.fmin
        return better.accumulate(self.values)

    def rounds_to(self, target: float) -> float | None:
        """Where the monotone curve reaches the target, or None where it does not."""
        best = self.best_so_far()
        reached = np.flatnonzero(best >= target if self.higher_is_better else best <= target)
        if not reached.size:
            return None
        after = int(reached[0])
        if after == 0 or np.isnan(best[after - 1]):
            return float(self.rounds[after])
        before = after - 1
        share = (target - best[before]) / (best[after] - best[before])
        return float(self.rounds[before] + share * (self.rounds[after] - self.rounds[before]))


@dataclass(frozen=True, slots=True)
class History:
    """The reports of a run so far, in the order of its rounds."""

    reports: Sequence[RoundReport] = ()

    def with_report(self, report: RoundReport) -> History:
        """The history with one more round."""
        return History((*self.reports, report))

    def curve(self, metric: str, *, higher_is_better: bool = True) -> Curve:
        """A metric's curve over the rounds that evaluated it."""
        points = [(r.round_number, r.evaluation[metric]) for r in self.reports if metric in r.evaluation]
        return Curve(
            rounds=np.array([number for number, _ in points], dtype=np.int64),
            values=np.array([value for _, value in points], dtype=np.float64),
            higher_is_better=higher_is_better,
        )

    @property
    def last_round(self) -> int:
        """The number of the last round reported; 0 before any."""
        return self.reports[-1].round_number if self.reports else 0
