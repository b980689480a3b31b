"""Paths of a container in texts: Harbor's folders become the ones a sandbox has, and what lies elsewhere is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

WORK: Final = '/work'
"""Where the workspace is in every sandbox."""
STAGE: Final = '/tmp/harbor'
"""Where the tests and logs of a Harbor task are while its checker runs."""
INSIDE_TESTS: Final[Mapping[str, str]] = {'/tests': f'{STAGE}/tests', '/logs': f'{STAGE}/logs'}
SOLUTION: Final = '.solution'
"""Folder in the workspace that holds a task's solution files while it is replayed."""

_OUTSIDE: Final = re.compile(
    r'(?<![\w./:~-])/(?:etc|var|usr|opt|root|home|srv|data|mnt|logs|tests|solution)/[\w.+-][\w./+-]*'
)


def moved(text: str, folders: Mapping[str, str]) -> tuple[str, int]:
    """Rename folders where they stand whole in a text; return it and how often that was needed."""
    count = 0
    for old, new in folders.items():
        if old != new:
            text, times = re.subn(rf'(?<![\w./~-]){re.escape(old)}(?![\w-]|\.\w)', new.replace('\\', r'\\'), text)
            count += times
    return text, count


def outside(text: str) -> list[str]:
    """Absolute paths in a text that are in no sandbox, each once."""
    found = (match.rstrip('.') for match in _OUTSIDE.findall(text))
    return list(dict.fromkeys(found))
