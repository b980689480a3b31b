"""Harbor task folders, read and written: instruction.md, task.toml, environment/, tests/, solution/.

What was written here comes back whole: beside Harbor's own files each folder has an ``rlvr.json`` with the task as it
is in the studio, and the digests of Harbor's files. A part that was changed since is read from Harbor's files instead.
"""

from studio.exchange.harbor.folders import NAME, read
from studio.exchange.harbor.write import write

__all__ = ['NAME', 'read', 'write']
