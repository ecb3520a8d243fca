"""Σ n_k · move_k for every experiment, as clients finish.

Clients that finish together are added by one matrix product in float64, [experiment, client] x [client, weight]. An
experiment whose moves are not finite spoils only its own sum: the others' shares of its clients are not 0, which
would make NaN of infinity, but left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stayput.core.engine import CohortResult
from stayput.core.tensors import WEIGHTS
from stayput.engines.lanes.jobs import Job


class CohortSums:
    """The running sums of one round."""

    def __init__(self, num_members: int) -> None:
        self._num_members = num_members
        self._jobs: list[Job] = []
        self._losses: list[Tensor] = []
        self._finite: list[Tensor] = []
        self._totals: dict[str, Tensor] = {}

    def add(self, jobs: Sequence[Job], moves: dict[str, Tensor], losses: Tensor) -> None:
        """Add finished clients: how far each moved ([job, ...] by name), and their mean losses [job]."""
        device = losses.device
        shares = torch.zeros(self._num_members, len(jobs), dtype=torch.float64)
        for column, job in enumerate(jobs):
            shares[job.member, column] = job.num_examples
        shares = shares.to(device)
        finite = torch.stack([move.flatten(start_dim=1).isfinite().all(dim=1) for move in moves.values()]).all(dim=0)
        for name, move in moves.items():
            # A client that diverged counts nothing here and is reported: its experiment ends.
            safe = torch.where(finite[:, None], move.flatten(start_dim=1), 0).to(torch.float64)
            total = (shares @ safe).reshape(self._num_members, *move.shape[1:])
            self._totals[name] = total if name not in self._totals else self._totals[name].add_(total)
        self._jobs.extend(jobs)
        self._losses.append(losses)
        self._finite.append(finite)

    def results(self) -> list[CohortResult]:
        """The mean of each experiment, and its reports in the order of its cohort."""
        losses, finite = torch.cat(self._losses).tolist(), torch.cat(self._finite).tolist()
        reports: list[list[tuple[int, int, int, float, bool]]] = [[] for _ in range(self._num_members)]
        for job, loss, whole in zip(self._jobs, losses, finite, strict=True):
            reports[job.member].append((job.position, job.num_examples, job.num_steps, loss, whole))
        m_t = torch.tensor([sum(report[1] for report in member) for member in reports], dtype=torch.float64)
        means = {
            name: total / m_t.to(total.device).reshape(-1, *[1] * (total.dim() - 1))
            for name, total in self._totals.items()
        }
        results = []
        for member, unordered in enumerate(reports):
            _, num_examples, num_steps, train_losses, finites = zip(*sorted(unordered), strict=True)
            mean = {WEIGHTS: {name: stacked[member] for name, stacked in means.items()}}
            results.append(CohortResult(mean, num_examples, num_steps, train_losses, finites))
        return results
