"""From any older form of a fleet's database to the present one, by alembic."""
