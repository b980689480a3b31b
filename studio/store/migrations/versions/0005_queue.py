"""The order of the runs that wait."""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column('run', sa.Column('place', sa.Integer(), nullable=False, server_default='0'))


def downgrade() -> None:
    """Undo."""
    op.drop_column('run', 'place')
