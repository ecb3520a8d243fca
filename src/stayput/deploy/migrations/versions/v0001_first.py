"""The first form: fleet, clients, tokens, rounds, attempts, tasks.

Written out rather than taken from `tables.py`: a migration must stay what it was when the tables move on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "fleet",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False, server_default="0"),
        sa.Column("plan", sa.JSON),
        sa.Column("schema", sa.JSON),
        sa.Column("state_sha256", sa.String(64)),
        sa.Column("sent_sha256", sa.String(64)),
        sa.Column("last_closed", sa.Integer, nullable=False, server_default="0"),
        sa.Column("finished", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("failure", sa.Text),
    )
    op.create_table(
        "clients",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("key_id", sa.String(32), unique=True),
        sa.Column("public_key", sa.LargeBinary),
        sa.Column("num_examples", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("enrolled_at", sa.Float),
        sa.Column("revoked_at", sa.Float),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.String(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("client", sa.Integer, sa.ForeignKey("clients.number")),
        sa.Column("expires_at", sa.Float),
        sa.Column("used_at", sa.Float),
    )
    op.create_table(
        "rounds",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("goal", sa.Integer, nullable=False, server_default="0"),
        sa.Column("minimum", sa.Integer, nullable=False, server_default="0"),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("selected_at", sa.Float),
        sa.Column("closing_at", sa.Float),
        sa.Column("closed_at", sa.Float),
        sa.Column("state_sha256", sa.String(64)),
        sa.Column("sent_sha256", sa.String(64)),
        sa.Column("report", sa.JSON),
    )
    op.create_table(
        "attempts",
        sa.Column("round", sa.Integer, sa.ForeignKey("rounds.number"), primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("ended_at", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "tasks",
        sa.Column("task", sa.String(64), primary_key=True),
        sa.Column("round", sa.Integer, sa.ForeignKey("rounds.number"), nullable=False, index=True),
        sa.Column("client", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("given_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
        sa.Column("sha256", sa.String(64)),
        sa.Column("num_examples", sa.Integer),
        sa.Column("num_steps", sa.Integer),
        sa.Column("train_loss", sa.Float),
        sa.Column("scale", sa.Float),
        sa.Column("signature", sa.LargeBinary),
    )
    reported = sa.text("state = 'reported'")
    op.create_index(
        "one_report_each",
        "tasks",
        ["round", "client"],
        unique=True,
        sqlite_where=reported,
        postgresql_where=reported,
    )


def downgrade() -> None:
    """There is nothing before it."""
    for name in ("tasks", "attempts", "rounds", "tokens", "clients", "fleet"):
        op.drop_table(name)
