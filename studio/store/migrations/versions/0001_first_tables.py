"""Documents, versions, runs and what runs wrote."""

import sqlalchemy as sa
from alembic import op

from studio.store import tables

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table('document',
    sa.Column('id', sa.String(length=26), nullable=False),
    sa.Column('workspaceid', sa.String(), nullable=False),
    sa.Column('userid', sa.String(), nullable=False),
    sa.Column('title', sa.String(), nullable=False),
    sa.Column('topics', sa.JSON(), nullable=False),
    sa.Column('status', sa.String(), nullable=False),
    sa.Column('notes', sa.String(), nullable=False),
    sa.Column('draft', sa.JSON(), nullable=False),
    sa.Column('solutions', sa.JSON(), nullable=False),
    sa.Column('checker', sa.String(), nullable=False),
    sa.Column('problem_count', sa.Integer(), nullable=False),
    sa.Column('search', sa.String(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=True),
    sa.Column('hash', sa.String(), nullable=False),
    sa.Column('revision', sa.Integer(), nullable=False),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.Column('updated_at', tables.UtcDateTime(), nullable=False),
    sa.Column('deleted_at', tables.UtcDateTime(), nullable=True),
    sa.PrimaryKeyConstraint('id')
    )
    with op.batch_alter_table('document', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_document_checker'), ['checker'], unique=False)
        batch_op.create_index(batch_op.f('ix_document_hash'), ['hash'], unique=False)
        batch_op.create_index(batch_op.f('ix_document_status'), ['status'], unique=False)
        batch_op.create_index(batch_op.f('ix_document_updated_at'), ['updated_at'], unique=False)
        batch_op.create_index(batch_op.f('ix_document_workspaceid'), ['workspaceid'], unique=False)

    op.create_table('run',
    sa.Column('id', sa.String(length=26), nullable=False),
    sa.Column('workspaceid', sa.String(), nullable=False),
    sa.Column('request', sa.String(), nullable=True),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('model', sa.String(), nullable=False),
    sa.Column('settings', sa.JSON(), nullable=False),
    sa.Column('training_type', sa.String(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('reason', sa.String(), nullable=False),
    sa.Column('step', sa.Integer(), nullable=False),
    sa.Column('total', sa.Integer(), nullable=False),
    sa.Column('eta_s', sa.Float(), nullable=True),
    sa.Column('latest', sa.JSON(), nullable=False),
    sa.Column('latest_step', sa.Integer(), nullable=False),
    sa.Column('notes', sa.JSON(), nullable=False),
    sa.Column('task_count', sa.Integer(), nullable=False),
    sa.Column('has_adapter', sa.Boolean(), nullable=False),
    sa.Column('pid', sa.Integer(), nullable=True),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.Column('queued_at', tables.UtcDateTime(), nullable=True),
    sa.Column('started_at', tables.UtcDateTime(), nullable=True),
    sa.Column('stop_requested_at', tables.UtcDateTime(), nullable=True),
    sa.Column('ended_at', tables.UtcDateTime(), nullable=True),
    sa.Column('last_event_at', tables.UtcDateTime(), nullable=True),
    sa.Column('offset', sa.Integer(), nullable=False),
    sa.Column('last_seq', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('request')
    )
    with op.batch_alter_table('run', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_run_created_at'), ['created_at'], unique=False)
        batch_op.create_index(batch_op.f('ix_run_state'), ['state'], unique=False)

    op.create_table('event',
    sa.Column('run_id', sa.String(length=26), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('type', sa.String(), nullable=False),
    sa.Column('data', sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'seq')
    )
    op.create_table('metric',
    sa.Column('run_id', sa.String(length=26), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('step', sa.Integer(), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('value', sa.Float(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'name', 'step', 'seq'),
    sqlite_with_rowid=False
    )
    op.create_table('rollout',
    sa.Column('run_id', sa.String(length=26), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('step', sa.Integer(), nullable=False),
    sa.Column('stage', sa.String(), nullable=False),
    sa.Column('task', sa.String(), nullable=False),
    sa.Column('group', sa.Integer(), nullable=False),
    sa.Column('index', sa.Integer(), nullable=False),
    sa.Column('outcome', sa.String(), nullable=False),
    sa.Column('reward', sa.Float(), nullable=True),
    sa.Column('offset', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'seq')
    )
    with op.batch_alter_table('rollout', schema=None) as batch_op:
        batch_op.create_index('ix_rollout_step', ['run_id', 'stage', 'step'], unique=False)
        batch_op.create_index('ix_rollout_task', ['run_id', 'task'], unique=False)

    op.create_table('run_task',
    sa.Column('run_id', sa.String(length=26), nullable=False),
    sa.Column('role', sa.String(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('task_id', sa.String(), nullable=False),
    sa.Column('title', sa.String(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=True),
    sa.Column('hash', sa.String(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'role', 'position')
    )
    with op.batch_alter_table('run_task', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_run_task_task_id'), ['task_id'], unique=False)

    op.create_table('slot',
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('run_id', sa.String(length=26), nullable=False),
    sa.Column('taken_at', tables.UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('name'),
    sa.UniqueConstraint('run_id')
    )
    op.create_table('version',
    sa.Column('document_id', sa.String(length=26), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('hash', sa.String(), nullable=False),
    sa.Column('task_spec', sa.JSON(), nullable=False),
    sa.Column('created_at', tables.UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['document.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('document_id', 'number')
    )
    with op.batch_alter_table('version', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_version_hash'), ['hash'], unique=False)



def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table('version', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_version_hash'))

    op.drop_table('version')
    op.drop_table('slot')
    with op.batch_alter_table('run_task', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_run_task_task_id'))

    op.drop_table('run_task')
    with op.batch_alter_table('rollout', schema=None) as batch_op:
        batch_op.drop_index('ix_rollout_task')
        batch_op.drop_index('ix_rollout_step')

    op.drop_table('rollout')
    op.drop_table('metric')
    op.drop_table('event')
    with op.batch_alter_table('run', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_run_state'))
        batch_op.drop_index(batch_op.f('ix_run_created_at'))

    op.drop_table('run')
    with op.batch_alter_table('document', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_document_workspaceid'))
        batch_op.drop_index(batch_op.f('ix_document_updated_at'))
        batch_op.drop_index(batch_op.f('ix_document_status'))
        batch_op.drop_index(batch_op.f('ix_document_hash'))
        batch_op.drop_index(batch_op.f('ix_document_checker'))

    op.drop_table('document')
