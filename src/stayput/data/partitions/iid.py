"""The paper's IID partition: the examples are shuffled and dealt out evenly (section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stayput.core.rules import require_count
from stayput.core.seeds import Purpose, permutation
from stayput.data.federated_data import Assignment, Examples
from stayput.data.partitions.cuts import Stream, even_offsets, require_an_example_each


@dataclass(frozen=True)
class Iid:
    """Every client gets a random sample of all examples; sizes differ by at most one."""

    name: ClassVar[str] = "iid"
    summary: ClassVar[str] = "shuffled and dealt out evenly"

    num_clients: int = 100
    """K."""

    def __post_init__(self) -> None:
        """Refuse what is not a number of clients."""
        require_count("num_clients", self.num_clients, "K, the clients that hold data")

    def assign(self, examples: Examples, *, seed: int) -> Assignment:
        """Shuffle all rows, then cut the sequence into K even runs."""
        require_an_example_each(self.num_clients, examples)
        order = permutation(seed, Purpose.PARTITION, len(examples), epoch=Stream.ORDER)
        return Assignment(order, even_offsets(len(examples), self.num_clients))
