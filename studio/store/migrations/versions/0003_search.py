"""Full-text search over documents, and what lists need to filter by certificates and to page quickly."""

import json
import unicodedata

import sqlalchemy as sa
from alembic import op

from trainer.task import content_hash

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None

# Without a primary key of integers, a table's row numbers may change (VACUUM): the index needs some that stay.
# The index keeps its own copy of the text: two copies that triggers hold together are simpler than one seen twice.
INDEX = (
    "CREATE VIRTUAL TABLE document_search USING fts5(text, tokenize='trigram case_sensitive 1')",
    'INSERT INTO document_number(document_id) SELECT id FROM document ORDER BY id',
    'INSERT INTO document_search(rowid, text) '
    'SELECT number, search FROM document_number JOIN document ON document.id = document_id',
    'CREATE TRIGGER document_search_insert AFTER INSERT ON document BEGIN '
    'INSERT INTO document_number(document_id) VALUES (new.id); '
    'INSERT INTO document_search(rowid, text) '
    'SELECT number, new.search FROM document_number WHERE document_id = new.id; END',
    'CREATE TRIGGER document_search_update AFTER UPDATE OF search ON document WHEN new.search IS NOT old.search BEGIN '
    'UPDATE document_search SET text = new.search '
    'WHERE rowid = (SELECT number FROM document_number WHERE document_id = new.id); END',
    'CREATE TRIGGER document_search_delete BEFORE DELETE ON document BEGIN '
    'DELETE FROM document_search WHERE rowid = (SELECT number FROM document_number WHERE document_id = old.id); END',
)


def upgrade() -> None:
    """Apply."""
    op.add_column('document', sa.Column('evidence', sa.String(), server_default='', nullable=False))
    op.create_table('document_number',
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('document_id', sa.String(length=26), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['document.id'], ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('number'),
    sa.UniqueConstraint('document_id')
    )
    connection = op.get_bind()
    rows = connection.execute(sa.text('SELECT id, search, solutions FROM document')).all()
    for id, search, solutions in rows:
        connection.execute(
            sa.text('UPDATE document SET search = :search, evidence = :evidence WHERE id = :id'),
            {'id': id, 'search': _refolded(search), 'evidence': content_hash(json.loads(solutions))},
        )
    for statement in INDEX:
        op.execute(statement)
    for name in ('updated_at', 'status', 'checker'):
        op.drop_index(f'ix_document_{name}', 'document')
    # What is deleted comes last in a row, behind texts of any length: without this, a count would read them all.
    op.create_index('ix_document_list', 'document', ['deleted_at', 'updated_at', 'id', 'status', 'checker'])


def downgrade() -> None:
    """Undo."""
    op.drop_index('ix_document_list', 'document')
    for name in ('updated_at', 'status', 'checker'):
        op.create_index(f'ix_document_{name}', 'document', [name])
    for trigger in ('insert', 'update', 'delete'):
        op.execute(f'DROP TRIGGER document_search_{trigger}')
    op.execute('DROP TABLE document_search')
    op.drop_table('document_number')
    op.drop_column('document', 'evidence')


def _refolded(search: str) -> str:
    """A casefolded text with marked topics as one without accents, with its topics among the words too."""
    words, *topics = search.split('\x1f')
    topics = [topic for topic in topics if topic]
    plain = unicodedata.normalize('NFKD', '\n'.join([words, *topics]))
    folded = ''.join(letter for letter in plain if not unicodedata.combining(letter)).casefold()
    return folded + ''.join(f'\x1f{topic}\x1f' for topic in topics)
