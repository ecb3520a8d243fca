"""Updates have their size beside their signature, which is over it: a claim can be checked when its blob is gone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; of updates from before, it is not known."""
    op.add_column("tasks", sa.Column("size", sa.BigInteger))
