"""Series in stretches beside their points, so that long runs open fast."""

import sqlalchemy as sa
from alembic import op
from sqlmodel import Session

from studio.runs import metric_blocks

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table('metric_block',
    sa.Column('run_id', sa.String(length=26), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('width', sa.Integer(), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('low_step', sa.Integer(), nullable=False),
    sa.Column('low', sa.Float(), nullable=False),
    sa.Column('high_step', sa.Integer(), nullable=False),
    sa.Column('high', sa.Float(), nullable=False),
    sa.Column('total', sa.Float(), nullable=False),
    sa.Column('n', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'name', 'width', 'number'),
    sqlite_with_rowid=False
    )
    op.create_index('ix_event_type', 'event', ['run_id', 'type', 'seq'])
    connection = op.get_bind()
    runs = connection.execute(
        sa.text('SELECT run_id, name, min(step), max(step) FROM metric GROUP BY run_id, name')
    ).all()
    with Session(connection) as session:
        for run_id, name, first, last in runs:
            metric_blocks.refresh(session, run_id, [name], first, last)
        session.flush()


def downgrade() -> None:
    """Undo."""
    op.drop_index('ix_event_type', 'event')
    op.drop_table('metric_block')
