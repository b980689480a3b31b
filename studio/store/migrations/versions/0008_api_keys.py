"""Keys of the API."""

import sqlalchemy as sa
from alembic import op

from studio.store.tables import UtcDateTime

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table('api_key',
    sa.Column('id', sa.String(length=26), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('prefix', sa.String(), nullable=False),
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('scopes', sa.JSON(), nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.Column('last_used_at', UtcDateTime(), nullable=True),
    sa.Column('revoked_at', UtcDateTime(), nullable=True),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('prefix')
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table('api_key')
