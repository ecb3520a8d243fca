"""The connection to a fleet's database: SQLite that survives a loss of power, or PostgreSQL; at the present form.

alembic takes a second to import, so it is asked only where the database is not at the present form. Must not import
torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from stayput.errors import InvalidSetting, StoreFailed

HEAD = "0002"
"""The revision that `tables.py` is; a test holds it to the newest migration."""
MIGRATING = 7_203_411
"""The advisory lock of PostgreSQL that one process holds while it migrates."""


def sqlite_url(path: Path) -> str:
    """The URL of an SQLite file."""
    return f"sqlite:///{path}"


def connect(url: str) -> Engine:
    """An engine for a database at the present form."""
    shown = _without_password(url)
    try:
        engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _durable_sqlite)
            event.listen(engine, "begin", _begin_immediately)
        with engine.begin() as connection:
            _migrate(connection)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InvalidSetting(
            f"database {shown}: must be sqlite:///FILE or postgresql+psycopg://..., with its driver installed ({error})"
        ) from error
    except SQLAlchemyError as error:
        raise StoreFailed(f"database {shown}: {reason_of(error)}") from error
    return engine


def _without_password(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):  # not repeated, as it may hold a password
        raise InvalidSetting(
            "database: must be an SQLAlchemy URL, such as postgresql+psycopg://USER@HOST/NAME (this one cannot be read)"
        ) from None


def reason_of(error: SQLAlchemyError) -> str:
    """What the database said, without statement and parameters, which may hold secrets."""
    original = getattr(error, "orig", None)
    return " ".join(str(original or error).split())


def _durable_sqlite(connection: Any, record: object) -> None:  # noqa: ANN401, ARG001 - as SQLAlchemy calls it
    connection.isolation_level = None  # SQLAlchemy's own BEGIN below, not that of the driver
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediately(connection: Connection) -> None:
    """Take the write lock at once: a transaction that read first could otherwise fail when it writes."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _migrate(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATING})
    if sa.inspect(connection).has_table("alembic_version"):
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        if found == HEAD:
            return
        if found is not None and found > HEAD:
            raise StoreFailed(f"the database has form {found}: this stayput knows up to {HEAD} (upgrade stayput)")
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
