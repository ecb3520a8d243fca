"""The tables of a fleet, on SQLite or PostgreSQL. `migrations/` leads a database from any older form to this one."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()

fleet = Table(
    "fleet",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("plan", JSON),
    Column("schema", JSON),
    Column("state_sha256", String(64)),
    Column("sent_sha256", String(64)),
    Column("last_closed", Integer, nullable=False, server_default="0"),
    Column("finished", Boolean, nullable=False, server_default=text("false")),
    Column("failure", Text),
)
"""One row: what is learned, and how far it is. `version` grows with every change."""

clients = Table(
    "clients",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String(64), nullable=False, unique=True),
    Column("key_id", String(32), unique=True),
    Column("public_key", LargeBinary),
    Column("num_examples", Integer, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False),
    Column("enrolled_at", Float),
    Column("revoked_at", Float),
)
"""A client from the moment its token is made; it may act from `enrolled_at` until `revoked_at`."""

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", String(16), primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("client", ForeignKey("clients.number")),
    Column("expires_at", Float),
    Column("used_at", Float),
)
"""Tokens that let a client in, once; those without a client read the status."""

rounds = Table(
    "rounds",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("phase", String(16), nullable=False),
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("goal", Integer, nullable=False, server_default="0"),
    Column("minimum", Integer, nullable=False, server_default="0"),
    Column("opened_at", Float, nullable=False),
    Column("selected_at", Float),
    Column("closing_at", Float),
    Column("closed_at", Float),
    Column("state_sha256", String(64)),
    Column("sent_sha256", String(64)),
    Column("report", JSON),
)

attempts = Table(
    "attempts",
    metadata,
    Column("round", ForeignKey("rounds.number"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("ended_at", Float, nullable=False),
    Column("reason", Text, nullable=False),
)
"""Attempts at a round that ended by their deadline with too few reports."""

tasks = Table(
    "tasks",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("round", ForeignKey("rounds.number"), nullable=False, index=True),
    Column("client", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("given_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("sha256", String(64)),
    Column("num_examples", Integer),
    Column("num_steps", Integer),
    Column("train_loss", Float),
    Column("scale", Float),
    Column("signature", LargeBinary),
    Column("size", BigInteger),
)

Index(
    "one_report_each",
    tasks.c.round,
    tasks.c.client,
    unique=True,
    sqlite_where=tasks.c.state == "reported",
    postgresql_where=tasks.c.state == "reported",
)
"""The database itself refuses a second report of a client in a round."""
