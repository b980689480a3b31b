"""What models solve: counts by task version, the settings they were attempted with, and the jobs that made them."""

import sqlalchemy as sa
from alembic import op

from studio.store import tables

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table('calibration_subject',
    sa.Column('key', sa.String(length=16), nullable=False),
    sa.Column('model', sa.String(), nullable=False),
    sa.Column('adapter', sa.String(), nullable=False),
    sa.Column('adapter_id', sa.String(), nullable=True),
    sa.Column('adapter_hash', sa.String(), nullable=False),
    sa.Column('temperature', sa.Float(), nullable=False),
    sa.Column('tokens', sa.Integer(), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('seconds', sa.Float(), nullable=False),
    sa.Column('used_at', tables.UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('key')
    )
    op.create_table('calibration',
    sa.Column('subject', sa.String(length=16), nullable=False),
    sa.Column('hash', sa.String(), nullable=False),
    sa.Column('passes', sa.Integer(), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('errors', sa.Integer(), nullable=False),
    sa.Column('rewards', sa.JSON(), nullable=False),
    sa.Column('error', sa.String(), nullable=False),
    sa.Column('updated_at', tables.UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['subject'], ['calibration_subject.key'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('subject', 'hash'),
    sqlite_with_rowid=False
    )
    op.create_table('calibration_job',
    sa.Column('id', sa.String(length=26), nullable=False),
    sa.Column('subject', sa.String(length=16), nullable=False),
    sa.Column('k', sa.Integer(), nullable=False),
    sa.Column('seed', sa.Integer(), nullable=False),
    sa.Column('beside_runs', sa.Boolean(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('reason', sa.String(), nullable=False),
    sa.Column('tasks', sa.JSON(), nullable=False),
    sa.Column('counted', sa.JSON(), nullable=False),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.Column('ended_at', tables.UtcDateTime(), nullable=True),
    sa.ForeignKeyConstraint(['subject'], ['calibration_subject.key'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id')
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table('calibration_job')
    op.drop_table('calibration')
    op.drop_table('calibration_subject')
