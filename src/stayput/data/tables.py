"""Tables with a client column: parquet files, pyarrow Tables, pandas DataFrames, Hugging Face Datasets.

All of them become pyarrow columns and those become NumPy columns: without a copy where the table holds plain
numbers in one piece, by one copy of the column otherwise. pyarrow belongs to the optional extra `[data]` and
is imported when a table is read, never before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stayput.data.federated_data import Array, Examples, FederatedData
from stayput.data.partitions.cuts import grouped
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting, UnknownName


def from_table(
    table: Any,  # noqa: ANN401 - a path, or a table of one of three libraries that need not be installed
    *,
    client: str,
    inputs: str | Sequence[str],
    targets: str | Sequence[str],
) -> FederatedData:
    """A population from a table: rows with the same value in the column `client` belong to one client.

    `table` is the path of a parquet file, a pyarrow Table, a pandas DataFrame or a Hugging Face Dataset.
    `inputs` and `targets` each name one column, whose cells are numbers or lists of one shape, or several
    columns of numbers, which are put side by side. Clients are in the order of their sorted ids.
    """
    columns = [client, *names_of(inputs), *names_of(targets)]
    arrow = arrow_table(table, columns)
    examples = Examples(column_of(arrow, inputs), column_of(arrow, targets))
    if not len(examples):
        raise InvalidSetting("table has 0 rows: must hold at least one example")
    codes, ids = _clients(arrow, client)
    return FederatedData(examples, grouped(codes, ids))


def names_of(columns: str | Sequence[str]) -> list[str]:
    """One name or several, as a list."""
    return [columns] if isinstance(columns, str) else list(columns)


def pyarrow_or_refuse() -> Any:  # noqa: ANN401 - a module, or our error
    """The module pyarrow, or the sentence that says how to have it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise DataUnavailable("table: needs pyarrow to be read (pip install 'stayput[data]')") from error
    return pa


def arrow_table(table: Any, columns: list[str]) -> Any:  # noqa: ANN401 - see from_table
    """The columns that are asked for, as a pyarrow Table."""
    pa = pyarrow_or_refuse()
    columns = list(dict.fromkeys(columns))
    if isinstance(table, str | Path):
        return _read_parquet(Path(table), columns)
    library = type(table).__module__.partition(".")[0]
    if library == "pandas" and hasattr(table, "columns"):
        require_columns(columns, [str(name) for name in table.columns])
        return pa.Table.from_pandas(table[columns], preserve_index=False)
    if library == "datasets" and hasattr(table, "with_format") and hasattr(table, "select_columns"):
        if not hasattr(table, "__len__"):
            raise InvalidSetting("table: a streamed Dataset has no rows to count (load it without streaming=True)")
        if isinstance(table, dict):
            raise InvalidSetting(f"table: must be one split of the data set (pass one of {sorted(table)})")
        require_columns(columns, table.column_names)
        return table.select_columns(columns).with_format("arrow")[:]  # applies its shuffles and selections
    if isinstance(table, pa.Table):
        require_columns(columns, table.column_names)
        return table.select(columns)
    raise InvalidSetting(
        f"table={type(table).__name__}: must be the path of a parquet file, a pyarrow Table, a pandas "
        f"DataFrame or a Hugging Face Dataset"
    )


def _read_parquet(path: Path, columns: list[str]) -> Any:  # noqa: ANN401 - a pyarrow Table
    pa = pyarrow_or_refuse()
    import pyarrow.parquet as pq

    if not path.exists():
        raise DataUnavailable(f"table={str(path)!r}: must be an existing parquet file")
    try:
        if path.is_file():
            require_columns(columns, pq.read_schema(path).names)
        return pq.read_table(path, columns=columns, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptData(f"table={str(path)!r}: cannot be read as parquet ({error})") from error


def require_columns(wanted: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that no column has."""
    for column in wanted:
        if column not in known:
            raise UnknownName("column", column, known)


def _clients(table: Any, client: str) -> tuple[Array, list[str]]:  # noqa: ANN401 - a pyarrow Table
    """The number of each row's client, and the clients' ids, sorted: the order of rows decides nothing."""
    column = table.column(client)
    if column.null_count:
        raise InvalidSetting(f"column {client!r} has {column.null_count} empty cells: each row must name its client")
    encoded = column.unify_dictionaries() if _is_dictionary(column.type) else column.dictionary_encode()
    chunks = [chunk for chunk in encoded.chunks if len(chunk)]
    values = chunks[0].dictionary.to_pylist()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]).astype(np.int64)
    used, codes = np.unique(codes, return_inverse=True)  # a dictionary may hold values that no row has
    by_id = sorted(range(len(used)), key=lambda position: values[used[position]])
    rank = np.empty(len(used), dtype=np.int64)
    rank[by_id] = np.arange(len(used))
    return rank[codes], [str(values[used[position]]) for position in by_id]


def column_of(table: Any, columns: str | Sequence[str]) -> Array:  # noqa: ANN401 - a pyarrow Table
    """One column, or several side by side."""
    if isinstance(columns, str):
        return _numbers(columns, table.column(columns))
    side_by_side = [_numbers(name, table.column(name)) for name in columns]
    if not side_by_side:
        raise InvalidSetting("columns=[]: must name at least one column")
    for name, column in zip(columns, side_by_side, strict=True):
        if column.ndim != 1:
            raise InvalidSetting(
                f"column {name!r} has cells of shape {column.shape[1:]}: must hold plain numbers to be put "
                f"beside others (name it alone)"
            )
    return np.stack(side_by_side, axis=1)


def _numbers(name: str, column: Any) -> Array:  # noqa: ANN401 - a pyarrow ChunkedArray
    # Chunk by chunk: joined into one, lists of more than 2^31 numbers would pass what their offsets can
    # count.
    chunks = [_chunk_numbers(name, chunk) for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty(0)
    if len({chunk.shape[1:] for chunk in chunks}) > 1:
        raise _ragged(name)
    if len(chunks) > 1:
        return np.concatenate(chunks)
    return chunks[0]


def _chunk_numbers(name: str, chunk: Any) -> Array:  # noqa: ANN401 - a pyarrow Array
    """The numbers in a pyarrow array; nested lists of equal lengths become further dimensions."""
    pa = pyarrow_or_refuse()
    if isinstance(chunk, pa.FixedShapeTensorArray):
        tensors: Array = chunk.to_numpy_ndarray()
        return tensors
    if isinstance(chunk, pa.ExtensionArray):
        return _chunk_numbers(name, chunk.storage)
    if chunk.null_count:
        raise InvalidSetting(f"column {name!r} has {chunk.null_count} empty cells: must hold a value in each row")
    kind = chunk.type
    if _is_dictionary(kind):
        return _chunk_numbers(name, chunk.dictionary_decode())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.unique(chunk.value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) != 1:
            raise _ragged(name)
        inner = _chunk_numbers(name, chunk.flatten())
        return inner.reshape(len(chunk), int(lengths[0]), *inner.shape[1:])
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InvalidSetting(
            f"column {name!r} of type {kind}: must hold numbers or lists of numbers "
            f"(turn text or categories into whole numbers first)"
        )
    numbers: Array = chunk.to_numpy(zero_copy_only=False)
    return numbers


def _is_dictionary(kind: Any) -> bool:  # noqa: ANN401 - a pyarrow DataType
    return bool(pyarrow_or_refuse().types.is_dictionary(kind))


def _ragged(name: str) -> InvalidSetting:
    return InvalidSetting(f"column {name!r} has lists of different lengths: must be of one (pad or cut them first)")
