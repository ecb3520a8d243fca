"""FedAdagrad (Reddi et al. 2021): the server divides by the root of all squared moves so far.

    v <- v + Δ²

`adaptive_server.py` has the rest. The paper runs it with β1 = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from stayput.algorithms.adaptive_server import AdaptiveServer


@dataclass(frozen=True)
class FedAdagrad(AdaptiveServer):
    """Federated averaging with Adagrad at the server."""

    name: ClassVar[str] = "fed_adagrad"

    beta1: float = 0.0
    """β1, how much of the mean direction is kept from round to round."""

    def second_moment(self, old: Tensor, squared: Tensor) -> Tensor:
        """v + Δ²."""
        return old + squared
