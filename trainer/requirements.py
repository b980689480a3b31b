"""The rules of ``pipPackages``: names with extras and version specifiers, nothing that pip would fetch elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

MAX_LINE: Final = 300
"""Characters of one line."""
_COMMENT: Final = re.compile(r'(^|\s)#.*$')
_OPTION: Final = re.compile(r'(^|\s)-')
_ADDRESS: Final = re.compile(r'://|@|^(git|hg|svn|bzr)\+', re.IGNORECASE)
_PATH: Final = re.compile(r'^[.~]|[/\\]|^[a-z]:', re.IGNORECASE)
_ARCHIVE: Final = re.compile(r'\.(whl|egg|zip|tar|tgz|tar\.(gz|bz2|xz)|tbz|txz|tlz)$', re.IGNORECASE)


def parse_requirements(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements in normal form; comments and blank lines are dropped.

    Raises ``ValueError`` that names every refused line by its number and says why (PEP 508 without direct references).
    """
    kept: list[str] = []
    refused: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = _COMMENT.sub('', line.removeprefix('\ufeff')).strip() if '\n' not in line.strip() else line
        if not text:
            continue
        try:
            kept.append(_requirement(text))
        except ValueError as error:
            refused.append(f'line {number} ({line.strip()[:80]!r}): {error}')
    if refused:
        raise ValueError('; '.join(refused))
    return tuple(kept)


def _requirement(text: str) -> str:
    if len(text) > MAX_LINE:
        raise ValueError(f'longer than {MAX_LINE} characters')
    if not text.replace('\t', ' ').isprintable():
        raise ValueError('one package a line, without control characters')
    # A marker may hold any text in quotes: the rules below are about what pip would fetch.
    fetched = text.partition(';')[0].strip()
    if _OPTION.search(fetched):
        raise ValueError('pip options are not allowed, give the name and version alone')
    if _ADDRESS.search(fetched):
        raise ValueError('addresses are not allowed, only packages by name')
    if _PATH.search(fetched) or _ARCHIVE.search(fetched):
        raise ValueError('paths are not allowed, only packages by name')
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(_malformed(text, str(error).splitlines()[0])) from None
    return str(requirement)


def _malformed(text: str, reason: str) -> str:
    if not text.isascii():
        return f'not a package requirement: names hold letters A to Z, digits and - _ . only ({reason})'
    if re.search(r'[^=<>!~]=[^=]', text):
        fixed = re.sub(r'([^=<>!~])=([^=])', r'\1==\2', text, count=1)
        return f'not a package requirement, pin with two equals signs: {fixed}'
    return f'not a package requirement ({reason})'
