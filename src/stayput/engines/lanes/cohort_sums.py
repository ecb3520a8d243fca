"""Σ n_k · update_k for every experiment, as clients finish.

Clients that finish together are added by one matrix product in float64, [experiment, client] x [client, weight]. An
experiment whose updates are not finite spoils only its own sum: the others' shares of its clients are not 0, which
would make NaN of infinity, but left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from stayput.core.engine import CohortResult
from stayput.core.tensors import MEMORY, flatten, unflatten
from stayput.engines.lanes.execution import Finished
from stayput.engines.lanes.jobs import Job
from stayput.engines.lanes.programs import StackedGroups


class CohortSums:
    """The running sums of one round, for members that run one program."""

    def __init__(self, num_members: int) -> None:
        self._num_members = num_members
        self._jobs: list[Job] = []
        self._losses: list[Tensor] = []
        self._finite: list[Tensor] = []
        self._totals: dict[str, Tensor] = {}
        self._memories: list[dict[int, dict[str, Tensor]]] = [{} for _ in range(num_members)]

    def add(self, done: Finished) -> None:
        """Add finished clients."""
        clients = torch.arange(len(done.jobs), device=done.members_J.device)
        shares = torch.zeros(self._num_members, len(done.jobs), dtype=torch.float64, device=clients.device)
        shares[done.members_J, clients] = done.examples_J.to(torch.float64)  # n_k
        update = {name: tensor.reshape(len(tensor), -1) for name, tensor in flatten(done.update).items()}
        finite = torch.stack([_all_finite(tensor) for tensor in update.values()]).all(dim=0)
        self._remember(done)
        for name, tensor in flatten(_leaving(done.update)).items():
            # A client that diverged counts nothing here and is reported: its experiment ends.
            safe = update[name].to(torch.float64).masked_fill_(~finite[:, None], 0)
            total = (shares @ safe).reshape(self._num_members, *tensor.shape[1:])
            self._totals[name] = total if name not in self._totals else self._totals[name].add_(total)
        self._jobs.extend(done.jobs)
        self._losses.append(done.losses_J)
        self._finite.append(finite)

    def _remember(self, done: Finished) -> None:
        """What stays at the clients."""
        if MEMORY in done.update:
            for index, job in enumerate(done.jobs):
                kept = {name: stacked[index].clone() for name, stacked in done.update[MEMORY].items()}
                self._memories[job.member][job.client] = kept

    def results(self) -> list[CohortResult | None]:
        """The mean of each experiment, and its reports in the order of its cohort; none for one without clients."""
        losses, finite = torch.cat(self._losses).tolist(), torch.cat(self._finite).tolist()
        reports: list[list[tuple[int, int, int, float, bool]]] = [[] for _ in range(self._num_members)]
        for job, loss, whole in zip(self._jobs, losses, finite, strict=True):
            reports[job.member].append((job.position, job.num_examples, job.num_steps, loss, whole))
        m_t = torch.tensor([max(1, sum(report[1] for report in member)) for member in reports], dtype=torch.float64)
        means = {
            name: total / m_t.to(total.device).reshape(-1, *[1] * (total.dim() - 1))
            for name, total in self._totals.items()
        }
        finite_M = torch.stack([_all_finite(mean.reshape(len(mean), -1)) for mean in means.values()]).all(dim=0)
        finite_means = finite_M.tolist()
        results: list[CohortResult | None] = []
        for member, unordered in enumerate(reports):
            if not unordered:
                results.append(None)
                continue
            _, num_examples, num_steps, train_losses, finites = zip(*sorted(unordered), strict=True)
            mean = unflatten({name: stacked[member] for name, stacked in means.items()})
            memory = self._memories[member]
            results.append(
                CohortResult(mean, num_examples, num_steps, train_losses, finites, memory, finite_means[member])
            )
        return results


def _leaving(update: StackedGroups) -> dict[str, Mapping[str, Tensor]]:
    return {group: tensors for group, tensors in update.items() if group != MEMORY}


def _all_finite(tensor: Tensor) -> Tensor:
    """Whether all numbers of each row are finite: their extremes are, which are found in one pass."""
    lowest, highest = tensor.aminmax(dim=1)
    return lowest.isfinite() & highest.isfinite()
