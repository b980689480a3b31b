"""The time a run worked before it was resumed."""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column('run', sa.Column('worked_s', sa.Float(), nullable=False, server_default='0'))


def downgrade() -> None:
    """Undo."""
    op.drop_column('run', 'worked_s')
