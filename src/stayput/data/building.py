"""From a table with a client column to a population on the disk, in bounded memory, however large the table is.

    build_population("purchases.parquet", "clients", client="user", inputs="features", targets="label")

The table is read twice. First the client column alone: who is there, how many examples each has, and whether rows come
client after client in the order of their ids. If they do, the second reading writes them straight through. If not, it
deals them out to buckets, each a file of the rows of neighbouring clients that fits into memory; then bucket after
bucket is read, put into order and written. Either way clients are in the order of their ids, and a client's rows in
that of the table, so the result is the same for any batch size and any amount of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stayput.core.rules import require_count
from stayput.core.seeds import Indices
from stayput.data.federated_data import Array
from stayput.data.fetching import Progress, silent
from stayput.data.partitions.cuts import offsets_of
from stayput.data.populations import CLIENTS, TEST, AppendPairs, Population, making, open_population
from stayput.data.table_batches import TableInBatches
from stayput.data.tables import column_of, names_of, pyarrow_or_refuse
from stayput.errors import CorruptData, InvalidSetting

MEMORY_BYTES = 2**30
LONGEST_ID = 256

Codes = npt.NDArray[np.int32]
"""The number of each row's client."""


def build_population(
    table: Any,  # noqa: ANN401 - a path, or a table of one of three libraries that need not be installed
    folder: Path | str,
    *,
    client: str,
    inputs: str | Sequence[str],
    targets: str | Sequence[str],
    test: Any = None,  # noqa: ANN401 - the same
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> Population:
    """A population from a table: rows with the same value in the column `client` belong to one client.

    `table` is a parquet file, a folder of parquet files, or what `from_table` takes; `test` is a table of examples that
    no client holds. An interrupted build leaves nothing that would be opened.
    """
    require_count("memory_bytes", memory_bytes, "how much memory may be used, such as 2**30", least=2**26)
    columns = [*names_of(inputs), *names_of(targets)]
    reading = _Reading(TableInBatches(table, [client, *columns]), client, inputs, targets, memory_bytes // 64)
    testing: _Reading | None = None
    if test is not None:
        testing = _Reading(TableInBatches(test, columns), None, inputs, targets, memory_bytes // 64)
    origin = f"built from {table}" if isinstance(table, str | Path) else "built from a table in memory"
    with making(Path(folder), origin=origin) as making_it:
        holders = _holders(reading, progress)
        offsets = offsets_of(holders.sizes)
        making_it.clients(offsets, _id_column(holders.ids))
        with making_it.examples(CLIENTS, *reading.like(), int(offsets[-1])) as append:
            if holders.in_order:
                _straight_through(reading, append, progress)
            else:
                _by_buckets(reading, holders, offsets, append, making_it.working, memory_bytes, progress)
        if testing is not None:
            with making_it.examples(TEST, *testing.like(), testing.table.num_rows) as append:
                _straight_through(testing, append, progress)
    return open_population(folder)


@dataclass(frozen=True)
class _Reading:
    """A table, and what of it is read."""

    table: TableInBatches
    client: str | None
    inputs: str | Sequence[str]
    targets: str | Sequence[str]
    batch_bytes: int

    def pairs(self) -> Iterator[tuple[Any, Array, Array]]:
        """The client column, inputs and targets of some rows at a time."""
        columns = [*names_of(self.inputs), *names_of(self.targets)]
        if self.client is not None:
            columns.append(self.client)
        for batch in self.table.batches(columns, self.batch_bytes):
            ids = None if self.client is None else _ids(batch.column(self.client), self.client)
            yield ids, column_of(batch, self.inputs), column_of(batch, self.targets)

    def like(self) -> tuple[Array, Array]:
        """What inputs and targets look like."""
        _, inputs, targets = next(self.pairs())
        return inputs[:0], targets[:0]


@dataclass(frozen=True)
class _Holders:
    """The clients of a table."""

    ids: Any
    """Sorted, as a pyarrow Array."""
    sizes: Indices
    in_order: bool
    """Whether rows are client after client, in the order of the ids."""


def _holders(reading: _Reading, progress: Progress) -> _Holders:
    """Count each client's rows; what is kept is one table of different ids and counts."""
    pa = pyarrow_or_refuse()
    import pyarrow.compute as pc

    assert reading.client is not None  # noqa: S101 - tables of test examples do not come here
    counted: list[Any] = []
    pending, done, in_order, last = 0, 0, True, None
    for batch in reading.table.batches([reading.client], reading.batch_bytes):
        ids = _ids(batch.column(reading.client), reading.client)
        if last is not None and ids.type != last.type:
            raise InvalidSetting(
                f"column {reading.client!r}: {ids.type} follows {last.type}: must name clients by whole numbers "
                f"throughout, or by text throughout"
            )
        in_order = in_order and _rises(pc, ids, last)
        last = ids[-1]
        counts = pc.value_counts(ids)
        counted.append(pa.table({"id": counts.field("values"), "rows": counts.field("counts")}))
        pending += len(counts)
        if pending > 2 * len(counted[0]) + (1 << 20):
            counted = [_summed(pa, counted)]
            pending = len(counted[0])
        done += len(ids)
        progress("counting clients", done * reading.table.num_bytes // reading.table.num_rows, reading.table.num_bytes)
    total = _summed(pa, counted).sort_by("id")
    sizes = total.column("rows").to_numpy().astype(np.int64, copy=False)
    return _Holders(total.column("id").combine_chunks(), sizes, in_order)


def _summed(pa: Any, counted: Sequence[Any]) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pa.concat_tables(counted).group_by("id").aggregate([("rows", "sum")]).rename_columns(["id", "rows"])


def _rises(pc: Any, ids: Any, last: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    if last is not None and pc.less(ids[0], last).as_py():
        return False
    return len(ids) < 2 or bool(pc.all(pc.less_equal(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py())


def _ids(column: Any, name: str) -> Any:  # noqa: ANN401 - a pyarrow ChunkedArray, and an Array
    """The client column as whole numbers or text, of which no cell is empty."""
    pa = pyarrow_or_refuse()
    if column.null_count:
        raise InvalidSetting(f"column {name!r} has {column.null_count} empty cells: each row must name its client")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        target = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        target = pa.large_string()  # more than 2 GB of names must fit
    else:
        raise InvalidSetting(f"column {name!r} of type {kind}: must hold clients as whole numbers or text")
    try:
        return column.cast(target).combine_chunks()
    except pa.ArrowInvalid as error:
        raise InvalidSetting(f"column {name!r}: must hold numbers below 2^63 to name clients ({error})") from error


def _id_column(ids: Any) -> Array:  # noqa: ANN401 - a pyarrow Array
    """Ids as a column that can be mapped: of numbers, or of text as long as the longest."""
    pa = pyarrow_or_refuse()
    import pyarrow.compute as pc

    if pa.types.is_integer(ids.type):
        numbers: Array = ids.to_numpy(zero_copy_only=False)
        return numbers
    longest = max(1, pc.max(pc.utf8_length(ids)).as_py())
    if longest > LONGEST_ID:
        raise InvalidSetting(f"a client's id has {longest} characters: must have at most {LONGEST_ID}")
    column = np.empty(len(ids), dtype=f"<U{longest}")
    for first in range(0, len(ids), 1 << 16):
        column[first : first + (1 << 16)] = ids.slice(first, 1 << 16).to_pylist()
    return column


def _straight_through(reading: _Reading, append: AppendPairs, progress: Progress) -> None:
    done = 0
    for _, inputs, targets in reading.pairs():
        append(inputs, targets)
        done += inputs.nbytes + targets.nbytes
        progress("writing columns", done, None)


def _by_buckets(
    reading: _Reading,
    holders: _Holders,
    offsets: Indices,
    append: AppendPairs,
    working: Path,
    memory_bytes: int,
    progress: Progress,
) -> None:
    import pyarrow.compute as pc

    like_inputs, like_targets = reading.like()
    row_bytes = sum(like.itemsize * int(np.prod(like.shape[1:])) for like in (like_inputs, like_targets)) + 4
    firsts = bucket_firsts(offsets, max(1, memory_bytes // 8 // row_bytes))
    total, done = int(offsets[-1]) * row_bytes, 0
    buckets = [_Bucket(working / f"bucket-{number}", like_inputs, like_targets) for number in range(len(firsts))]
    for ids, inputs, targets in reading.pairs():
        codes = pc.index_in(ids, value_set=holders.ids).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        which = np.searchsorted(firsts, codes, side="right") - 1
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(firsts) + 1))
        for number in np.unique(which).tolist():
            mine = order[ends[number] : ends[number + 1]]
            buckets[number].append(codes[mine], inputs[mine], targets[mine])
        done += len(codes) * row_bytes
        progress("dealing rows out to buckets", done, total)
    done = 0
    for bucket in buckets:
        for inputs, targets in bucket.in_order(max(1, memory_bytes // 8 // row_bytes)):
            append(inputs, targets)
            done += len(inputs) * row_bytes
            progress("writing columns", done, total)


def bucket_firsts(offsets: Indices, most_rows: int) -> Indices:
    """The first client of each bucket: as many clients as have `most_rows` together, or one that has more alone."""
    firsts = [0]
    while True:
        following = int(np.searchsorted(offsets, offsets[firsts[-1]] + most_rows, side="right")) - 1
        following = max(following, firsts[-1] + 1)
        if following >= len(offsets) - 1:
            return np.array(firsts, dtype=np.int64)
        firsts.append(following)


class _Bucket:
    """The rows of neighbouring clients, on the disk in the order in which they came."""

    def __init__(self, path: Path, like_inputs: Array, like_targets: Array) -> None:
        self._columns = [
            (path.with_suffix(".clients"), np.empty(0, dtype=np.int32)),
            (path.with_suffix(".inputs"), like_inputs),
            (path.with_suffix(".targets"), like_targets),
        ]
        self._num_rows = 0

    def append(self, codes: Codes, inputs: Array, targets: Array) -> None:
        """Take some rows."""
        self._num_rows += len(codes)
        for (path, like), rows in zip(self._columns, (codes, inputs, targets), strict=True):
            if rows.dtype != like.dtype or rows.shape[1:] != like.shape[1:]:
                raise CorruptData(
                    f"table: rows of {rows.dtype} {rows.shape[1:]} follow rows of {like.dtype} {like.shape[1:]}: must "
                    f"be the same throughout"
                )
            with path.open("ab") as file:  # opened anew: there may be more buckets than a process may have files
                file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)

    def in_order(self, most_rows: int) -> Iterator[tuple[Array, Array]]:
        """All rows, client after client; then the bucket is gone."""
        codes, inputs, targets = (
            np.memmap(path, dtype=like.dtype, mode="r", shape=(self._num_rows, *like.shape[1:]))
            for path, like in self._columns
        )
        order = np.argsort(codes, kind="stable")
        for first in range(0, self._num_rows, most_rows):  # more than once only if one client has all these rows
            mine = order[first : first + most_rows]
            yield inputs[mine], targets[mine]
        for path, _ in self._columns:
            path.unlink()
