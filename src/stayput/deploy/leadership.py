"""Which of several coordinators over one database runs the machine: the one that holds its lock.

The others stand by: they answer that they are not ready, and one of them takes over when the lock is free, which the
system or the database sees to when the holder dies, however it dies. A holder that has lost the lock without knowing,
because its connection was cut, can still not do harm: its changes name the version they are based on. Must not import
torch.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

LEADING = 7_203_412
"""The advisory lock of PostgreSQL."""


class Leadership:
    """The lock of one process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._file: Any = None

    def acquire(self) -> bool:
        """Take the lock if it is free, or hold on to it."""
        if self._engine.dialect.name == "sqlite":
            return self._file is not None or self._lock_file(Path(f"{self._engine.url.database}.lock"))
        return self._lock_database()

    def release(self) -> None:
        """Let another one have it."""
        if self._connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.close()
            self._connection = None
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock_file(self, path: Path) -> bool:
        import fcntl

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._file = descriptor
        return True

    def _lock_database(self) -> bool:
        try:
            if self._connection is not None:
                self._connection.execute(sa.text("SELECT 1"))  # the lock goes with the connection
                return True
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if connection.execute(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": LEADING}).scalar():
                self._connection = connection
                return True
            connection.close()
        except SQLAlchemyError:
            self.release()
        return False
