"""Adapters and their versions."""

import sqlalchemy as sa
from alembic import op

from studio.store import tables

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table('adapter',
    sa.Column('id', sa.String(length=26), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('key', sa.String(), nullable=False),
    sa.Column('next_number', sa.Integer(), nullable=False),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('key')
    )
    op.create_table('adapter_version',
    sa.Column('id', sa.String(length=26), nullable=False),
    sa.Column('adapter_id', sa.String(length=26), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.String(length=26), nullable=True),
    sa.Column('run_ended_at', tables.UtcDateTime(), nullable=True),
    sa.Column('run_name', sa.String(), nullable=False),
    sa.Column('model', sa.String(), nullable=False),
    sa.Column('step', sa.Integer(), nullable=False),
    sa.Column('rank', sa.Integer(), nullable=True),
    sa.Column('size', sa.Integer(), nullable=False),
    sa.Column('sha256', sa.String(), nullable=False),
    sa.Column('notes', sa.String(), nullable=False),
    sa.Column('lineage', sa.JSON(), nullable=False),
    sa.Column('files', sa.JSON(), nullable=False),
    sa.Column('before', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('after', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('proof_state', sa.String(), nullable=False),
    sa.Column('proof', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('proof_asked_at', tables.UtcDateTime(), nullable=True),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.Column('deleted_at', tables.UtcDateTime(), nullable=True),
    sa.ForeignKeyConstraint(['adapter_id'], ['adapter.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('adapter_id', 'number'),
    sa.UniqueConstraint('run_id', 'sha256')
    )
    with op.batch_alter_table('adapter_version', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_adapter_version_adapter_id'), ['adapter_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_adapter_version_created_at'), ['created_at'], unique=False)
        batch_op.create_index(batch_op.f('ix_adapter_version_proof_state'), ['proof_state'], unique=False)
        batch_op.create_index(batch_op.f('ix_adapter_version_run_id'), ['run_id'], unique=False)


def downgrade() -> None:
    """Undo."""
    op.drop_table('adapter_version')
    op.drop_table('adapter')
