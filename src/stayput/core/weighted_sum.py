"""Σ n_k/m_t · update_k over a cohort, streaming, in client order.

Updates may arrive in any order; they are added in the order of the cohort, so that the order of arrival cannot
change a bit of the model. One that comes early waits. The sum is held in float64, where n_k · update of a float32
model is nearly exact, and divided once at the end by m_t = Σ n_k, the cohort's total (the paper's erratum: never
by n, the total over all clients).

The sum is one of sums: over each block of `BLOCK` neighbours in the cohort, then over the blocks, both in order. So
whoever trained all clients of a block may add them up where it is and send one sum instead of many updates, and the
result has the same bits. Cohorts of up to one block are added up one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from stayput.core.tensors import Groups
from stayput.errors import InvalidSetting

BLOCK = 32
"""Clients of a block. A constant: cut elsewhere, the last bits of a sum would be others."""


def blocks_of(num_clients: int) -> list[range]:
    """The positions in the cohort that each block has."""
    return [range(first, min(first + BLOCK, num_clients)) for first in range(0, num_clients, BLOCK)]


class WeightedSum:
    """The running sum over one cohort."""

    def __init__(self, cohort: Iterable[int]) -> None:
        self._cohort = [int(client) for client in cohort]
        self._expected = {client: position for position, client in enumerate(self._cohort)}
        self._next = 0
        self._early: dict[int, tuple[int, Groups, float]] = {}
        """By position, with the number of clients it is of: 0 for one client's own update."""
        self._block: dict[str, dict[str, Tensor]] = {}
        self._total: dict[str, dict[str, Tensor]] = {}
        self._total_weight = 0.0

    def add(self, client: int, update: Groups, weight: float) -> None:
        """Take a client's update with its weight n_k; each client of the cohort exactly once."""
        self._take(self._awaited(client), 0, update, weight)

    def add_block(self, clients: Iterable[int], total: Groups, weight: float) -> None:
        """Take Σ n_k · update_k over a whole block, as `block_total` of it gives it, with Σ n_k."""
        positions = [self._awaited(client) for client in clients]
        if range(positions[0], positions[-1] + 1) not in blocks_of(len(self._cohort)):
            raise InvalidSetting(f"clients {clients}: must be one whole block of the cohort")
        self._take(positions[0], len(positions), total, weight)

    def mean(self) -> Groups:
        """The weighted mean, in float64, once every client of the cohort has come."""
        total, weight = self.total()
        return {group: {name: tensor / weight for name, tensor in tensors.items()} for group, tensors in total.items()}

    def total(self) -> tuple[Groups, float]:
        """Σ n_k · update_k in float64, and Σ n_k."""
        if self._next < len(self._cohort):
            missing = ", ".join(str(client) for client in self._cohort[self._next :])
            raise InvalidSetting(f"the mean of a cohort needs all of it: client {missing} has not come")
        return self._total, self._total_weight

    def _awaited(self, client: int) -> int:
        if client not in self._expected:
            raise InvalidSetting(f"client={client}: must be a client of the cohort, and come once")
        return self._expected.pop(client)

    def _take(self, position: int, num_clients: int, groups: Groups, weight: float) -> None:
        self._early[position] = (num_clients, groups, weight)
        while self._next in self._early:
            count, groups, weight = self._early.pop(self._next)
            self._total_weight += weight
            if count:
                _add(self._total, groups, 1.0)
                self._next += count
                continue
            _add(self._block, groups, weight)
            self._next += 1
            if self._next % BLOCK == 0 or self._next == len(self._cohort):
                _add(self._total, self._block, 1.0)
                self._block = {}


def _add(total: dict[str, dict[str, Tensor]], groups: Groups, factor: float) -> None:
    for group, tensors in groups.items():
        totals = total.setdefault(group, {})
        for name, tensor in tensors.items():
            if name in totals:
                totals[name].add_(tensor.to(torch.float64), alpha=factor)
            else:
                totals[name] = tensor.to(torch.float64) * factor
