"""Alembic's scripts: one file a change of the tables, applied in order at start."""
