"""What a coordinator knows of a client from its own words and silence. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Client:
    """What the coordinator knows of a client beside its task; none of it survives, all of it comes again with polls."""

    number: int
    num_examples: int = 0
    live: bool = False
    """Heard from within its lease."""
    may_train: bool | None = None
    """What it said last; None if it has said nothing since the coordinator began."""
    holding: bool = False
    """Whether a poll of it is being held."""
    back_at: float = 0.0
    """When it was told to come back."""
