"""A table a few rows at a time: a parquet file, a folder of them, or a table that is in memory already.

Parquet is read through a buffer, row group after row group, so what is in memory at once is one batch and the pages it
comes from, however large the file is. pyarrow belongs to the optional extra `[data]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stayput.data.tables import arrow_table, pyarrow_or_refuse, require_columns
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting

_BUFFER_BYTES = 1 << 20
_MOST_ROWS, _FEW_ROWS = 1 << 18, 1 << 8


class TableInBatches:
    """A table that can be read more than once, in batches of rows."""

    def __init__(self, table: Any, columns: Sequence[str]) -> None:  # noqa: ANN401 - see tables.from_table
        self._columns = list(dict.fromkeys(columns))
        self._files: list[Path] = []
        self._here = None
        if isinstance(table, str | Path):
            self._files = _parquet_files(Path(table))
            described = [self._opened(file).metadata for file in self._files]
            self.num_rows = sum(file.num_rows for file in described)
            self.num_bytes = sum(
                group.column(number).total_uncompressed_size
                for file in described
                for group in map(file.row_group, range(file.num_row_groups))
                for number in range(file.num_columns)
                if group.column(number).path_in_schema.partition(".")[0] in self._columns
            )
        else:
            self._here = arrow_table(table, self._columns)
            self.num_rows, self.num_bytes = self._here.num_rows, self._here.nbytes
        if not self.num_rows:
            raise InvalidSetting("table has 0 rows: must hold at least one example")

    def batches(self, columns: Sequence[str], batch_bytes: int) -> Iterator[Any]:
        """The rows in their order, as pyarrow Tables of about this many bytes."""
        # By the first rows as they are in memory: in the file they are encoded and may be a hundredth of that.
        few = next(self._of_rows(columns, _FEW_ROWS))
        row_bytes = max(1, few.nbytes // few.num_rows)
        yield from self._of_rows(columns, max(1, min(_MOST_ROWS, batch_bytes // row_bytes)))

    def _of_rows(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        columns = list(dict.fromkeys(columns))
        if self._here is not None:
            for first in range(0, self.num_rows, rows):
                yield self._here.select(columns).slice(first, rows)
            return
        pa = pyarrow_or_refuse()
        for path in self._files:
            try:
                with self._opened(path) as file:
                    for batch in file.iter_batches(rows, columns=columns, use_threads=False):
                        yield pa.Table.from_batches([batch])
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(path, error) from error

    def _opened(self, path: Path) -> Any:  # noqa: ANN401 - a pyarrow ParquetFile
        pa = pyarrow_or_refuse()
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(path, error) from error
        require_columns(self._columns, file.schema_arrow.names)
        return file


def _parquet_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.parquet")) if path.is_dir() else []
    if not files:
        raise DataUnavailable(f"table={str(path)!r}: must be an existing parquet file, or a folder of such files")
    return files


def _unreadable(path: Path, error: Exception) -> CorruptData:
    return CorruptData(f"table={str(path)!r}: cannot be read as parquet ({error})")
