"""Populations on the disk: clients by their number, as offsets into columns that are mapped into memory.

    clients/
      manifest.json        as of every folder of columns (`store.py`), with the range of the targets
      inputs.npy           x, client after client
      targets.npy          y
      offsets.npy          where each client begins, and last where the last one ends: K + 1 numbers
      client_ids.npy       the clients' names, if they have any
      test_inputs.npy      x and y of examples that no client holds, if there are any
      test_targets.npy

A client is no object: it is two neighbouring numbers in the offsets. Opening a population reads the offsets and the
heads of the other files, and a round reads what its cohort holds; so neither depends on how many examples there are.
What makes such a folder of a table is in `building.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stayput.data.federated_data import Array, Assignment, Examples, FederatedData, Stored
from stayput.data.store import (
    MANIFEST,
    Append,
    StagedColumns,
    file_sha256,
    open_columns,
    stored_facts,
    working_folder,
)
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting, StayputError

CLIENTS, TEST = "clients", "test"
"""The examples of a population: those that clients hold, and those to test on."""
KIND = "population"

_COLUMNS = ("inputs", "targets", "offsets")
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class Population:
    """Clients and test examples, as they are stored."""

    clients: FederatedData
    test: Examples | None
    """None if there are none."""


def open_population(folder: Path | str) -> Population:
    """Open a population; columns are mapped into memory, not read."""
    folder = Path(folder)
    columns, facts = open_columns(folder), stored_facts(folder)
    if not set(columns) >= set(_COLUMNS):
        raise CorruptData(f"{folder}: holds {sorted(columns)}: must hold {sorted(_COLUMNS)} to be a population")
    sha256 = file_sha256(folder / MANIFEST)

    def examples(prefix: str, part: str) -> Examples:
        known = facts.get(f"{part}_target_range")
        return Examples(
            columns[f"{prefix}inputs"],
            columns[f"{prefix}targets"],
            target_range=None if known is None else (int(known[0]), int(known[1])),
            stored=Stored(folder.absolute(), part, sha256),
        )

    try:
        # The offsets are read once: an array in memory is faster to look into than a map.
        assignment = Assignment(None, np.array(columns["offsets"]), columns.get("client_ids"))  # type: ignore[arg-type] # an array is a sequence of names
        clients = FederatedData(examples("", CLIENTS), assignment)
        test = examples("test_", TEST) if {"test_inputs", "test_targets"} <= set(columns) else None
    except StayputError as error:
        raise CorruptData(f"{folder}: is no sound population: {error}") from error
    return Population(clients, test)


def open_examples(stored: Stored) -> Examples:
    """Map examples that another process has mapped, after a check that they are the same here."""
    if not (stored.folder / MANIFEST).is_file():
        raise DataUnavailable(
            f"{stored.folder}: is not here: must be on every machine that trains (copy the folder to the same place, "
            f"or keep it on a disk that all of them share)"
        )
    if (found := file_sha256(stored.folder / MANIFEST)) != stored.sha256:
        raise CorruptData(
            f"{stored.folder / MANIFEST}: has sha256 {found}: must have {stored.sha256} (another population lies there)"
        )
    population = open_population(stored.folder)
    examples = population.clients.examples if stored.part == CLIENTS else population.test
    if examples is None:
        raise CorruptData(f"{stored.folder}: has no examples to test on")
    return examples


def save_population(clients: FederatedData, folder: Path | str, *, test: Examples | None = None) -> Population:
    """Store clients and test examples, a block at a time, and open them from there."""
    examples, assignment = clients.examples, clients.assignment
    row_bytes = max(1, (examples.inputs.nbytes + examples.targets.nbytes) // len(examples))
    rows_at_once = max(1, _BLOCK_BYTES // row_bytes)
    ids = assignment.client_ids
    with making(Path(folder), origin="stored from memory") as making_it:
        making_it.clients(assignment.offsets, None if ids is None else np.asarray(ids))
        with making_it.examples(CLIENTS, examples.inputs, examples.targets, len(examples)) as append:
            for first in range(0, clients.num_examples, rows_at_once):
                rows = assignment.between(first, min(first + rows_at_once, clients.num_examples))
                append(examples.inputs[rows], examples.targets[rows])
        if test is not None:
            with making_it.examples(TEST, test.inputs, test.targets, len(test)) as append:
                append(test.inputs, test.targets)
    return open_population(folder)


AppendPairs = Callable[[Array, Array], None]
"""Takes the next inputs and targets."""


class PopulationInTheMaking:
    """The columns of a population on their way to the disk."""

    def __init__(self, working: Path) -> None:
        self.working = working
        """A folder for whatever is needed on the way; it goes when the population is there."""
        self._staged = StagedColumns(working)
        self._facts: dict[str, Any] = {"kind": KIND}

    def clients(self, offsets: Array, ids: Array | None) -> None:
        """Who there is."""
        self._staged.save("offsets", np.asarray(offsets, dtype=np.int64))
        if ids is not None:
            self._staged.save("client_ids", ids)

    @contextmanager
    def examples(self, part: str, inputs: Array, targets: Array, num_rows: int) -> Iterator[AppendPairs]:
        """Write a part's examples, which are like these."""
        prefix = "" if part == CLIENTS else f"{TEST}_"
        extremes: list[int] = []
        with ExitStack() as stack:

            def column(name: str, like: Array) -> Append:
                return stack.enter_context(self._staged.stream(name, like.dtype, (num_rows, *like.shape[1:])))

            append_inputs, append_targets = column(f"{prefix}inputs", inputs), column(f"{prefix}targets", targets)

            def append(some_inputs: Array, some_targets: Array) -> None:
                append_inputs(some_inputs)
                append_targets(some_targets)
                if some_targets.dtype.kind in "iu" and some_targets.size:
                    extremes.extend((int(some_targets.min()), int(some_targets.max())))

            yield append
        if extremes:
            self._facts[f"{part}_target_range"] = [min(extremes), max(extremes)]

    def publish(self, folder: Path, origin: str) -> None:
        """Give it its name."""
        self._staged.publish(folder, origin=origin, facts=self._facts)


@contextmanager
def making(folder: Path, *, origin: str) -> Iterator[PopulationInTheMaking]:
    """Make a population: it is there whole when the block ends, and not at all if the block does not end."""
    if folder.exists():
        raise InvalidSetting(f"folder={str(folder)!r}: is there already (choose another, or remove it)")
    try:
        with working_folder(folder.absolute().parent, folder.name) as working:
            unfinished = PopulationInTheMaking(working)
            yield unfinished
            unfinished.publish(folder, origin)
    except OSError as error:
        raise DataUnavailable(
            f"{folder}: cannot be written ({error}): must be in a folder that can be written, with room on its disk "
            f"for the data twice"
        ) from error
