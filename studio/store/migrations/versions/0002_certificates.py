"""Certificates, by the hash of the version they were made for."""

import sqlalchemy as sa
from alembic import op

from studio.store import tables

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table('certificate',
    sa.Column('hash', sa.String(), nullable=False),
    sa.Column('evidence', sa.String(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('data', sa.JSON(), nullable=False),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('hash')
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table('certificate')
