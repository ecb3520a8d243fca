"""FedYogi (Reddi et al. 2021): FedAdam, but the squared moves come in by steps that do not depend on v.

    v <- v - (1 - β2) Δ² sign(v - Δ²)

`adaptive_server.py` has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from stayput.algorithms.adaptive_server import AdaptiveServer
from stayput.core.rules import require_below_one


@dataclass(frozen=True)
class FedYogi(AdaptiveServer):
    """Federated averaging with Yogi at the server."""

    name: ClassVar[str] = "fed_yogi"

    beta2: float = 0.99
    """β2, how much of the squared moves is kept from round to round."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_below_one("beta2", self.beta2, "the paper's is 0.99")

    def second_moment(self, old: Tensor, squared: Tensor) -> Tensor:
        """v - (1 - β2) Δ² sign(v - Δ²)."""
        return old - (1 - self.beta2) * squared * (old - squared).sign()
