"""FedAdam (Reddi et al. 2021): the server divides by the root of a moving average of squared moves.

    v <- β2 v + (1 - β2) Δ²

`adaptive_server.py` has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from stayput.algorithms.adaptive_server import AdaptiveServer
from stayput.core.rules import require_below_one


@dataclass(frozen=True)
class FedAdam(AdaptiveServer):
    """Federated averaging with Adam at the server."""

    name: ClassVar[str] = "fed_adam"

    beta2: float = 0.99
    """β2, how much of the squared moves is kept from round to round."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_below_one("beta2", self.beta2, "the paper's is 0.99")

    def second_moment(self, old: Tensor, squared: Tensor) -> Tensor:
        """β2 v + (1 - β2) Δ²."""
        return self.beta2 * old + (1 - self.beta2) * squared
