"""Σ n_k/m_t · update_k over a cohort, streaming, in client order.

Updates may arrive in any order; they are added in the order of the cohort, so that the order of arrival cannot
change a bit of the model. One that comes early waits. The sum is held in float64, where n_k · update of a float32
model is nearly exact, and divided once at the end by m_t = Σ n_k, the cohort's total (the paper's erratum: never
by n, the total over all clients).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from stayput.core.tensors import Groups
from stayput.errors import InvalidSetting


class WeightedSum:
    """The running sum over one cohort."""

    def __init__(self, cohort: Iterable[int]) -> None:
        self._waiting_for = [int(client) for client in cohort][::-1]  # the next client is the last element
        self._expected = set(self._waiting_for)
        self._early: dict[int, tuple[Groups, float]] = {}
        self._total: dict[str, dict[str, Tensor]] = {}
        self._total_weight = 0.0

    def add(self, client: int, update: Groups, weight: float) -> None:
        """Take a client's update with its weight n_k; each client of the cohort exactly once."""
        if client not in self._expected:
            raise InvalidSetting(f"client={client}: must be a client of the cohort, and come once")
        self._expected.remove(client)
        self._early[client] = (update, weight)
        while self._waiting_for and self._waiting_for[-1] in self._early:
            self._accumulate(*self._early.pop(self._waiting_for.pop()))

    def mean(self) -> Groups:
        """The weighted mean, in float64, once every client of the cohort has come."""
        if self._waiting_for:
            missing = ", ".join(str(client) for client in reversed(self._waiting_for))
            raise InvalidSetting(f"the mean of a cohort needs all of it: client {missing} has not come")
        return {
            group: {name: total / self._total_weight for name, total in totals.items()}
            for group, totals in self._total.items()
        }

    def _accumulate(self, update: Groups, weight: float) -> None:
        self._total_weight += weight
        for group, tensors in update.items():
            totals = self._total.setdefault(group, {})
            for name, tensor in tensors.items():
                if name in totals:
                    totals[name].add_(tensor.to(torch.float64), alpha=weight)
                else:
                    totals[name] = tensor.to(torch.float64) * weight
