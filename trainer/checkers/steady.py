"""Protected files that must not change while a check runs: programs of the author, and what results are compared with.

A file that a check only hands to the candidate's program (a database to migrate) may change; a file that decides may
not. Which is which: all of an explicit ``protect`` list, else programs, operands of diff, cmp and comm, and names that
say so (expected, golden, reference, answer). A file that the check's own commands write (touch, ``sed -i``, ``>``) may
change in any case.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from trainer.sandbox.protocol import Sandbox

_PROGRAM = re.compile(r'\.(?:sh|bash|py|pl|awk|mk)$|(?:^|/)(?:GNUmakefile|[Mm]akefile)$')
_DECIDES = re.compile(r'expect|golden|reference|answer|truth|oracle|baseline', re.IGNORECASE)
_WRITERS = re.compile(r'(?:^|[;&|(\n])\s*(?:touch|sed\s+-\S*i|tee|cp|mv|rm|ln|chmod|truncate)\s([^;&|\n]*)')
_REDIRECTED = re.compile(r'>>?\s*([^\s;&|<>]+)')
_COMPARISON = re.compile(r'\b(?:diff|cmp|comm)\b[^|;&\n]*')


def deciding_files(text: str, protected: Iterable[str], *, explicit: bool) -> tuple[str, ...]:
    """Those of the protected files that have to stay as they are during the check."""
    compared = ' '.join(_COMPARISON.findall(text))
    written = [*_REDIRECTED.findall(text), *(word for part in _WRITERS.findall(text) for word in part.split())]
    return tuple(
        path
        for path in sorted(protected)
        if explicit or _PROGRAM.search(path) or _DECIDES.search(path) or PurePosixPath(path).name in compared
        if not any(fnmatch.fnmatch(path, pattern.strip('\'"')) for pattern in written)
    )


def fingerprint(sandbox: Sandbox, paths: tuple[str, ...]) -> bytes:
    """Inode, change time and size of files in a sandbox: no program can change a file and keep all three."""
    if not paths:
        return b''
    return sandbox.run(['stat', '--format=%n %F %i %z %s', '--', *paths], timeout_s=10).output
