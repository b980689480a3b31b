"""Where Alembic starts: it uses the connection the studio already holds."""

from alembic import context
from sqlmodel import SQLModel

from studio.store import tables  # noqa: F401  (fills the metadata that new migrations are compared with)

connection = context.config.attributes['connection']
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    user_module_prefix='tables.',
    include_name=lambda name, type_, _: type_ != 'table' or not str(name).startswith('document_search'),
)
with context.begin_transaction():
    context.run_migrations()
