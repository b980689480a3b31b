"""The rules of ``pipPackages``: names with extras and version specifiers, nothing that pip would fetch elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement


def parse_requirements(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements in normal form; comments and blank lines are dropped.

    Raises ``ValueError`` that names every refused line by its number and says why (PEP 508 without direct references).
    """
    kept: list[str] = []
    refused: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = _without_comment(line)
        if not text:
            continue
        try:
            kept.append(_requirement(text))
        except ValueError as error:
            refused.append(f'line {number} ({line.strip()[:80]!r}): {error}')
    if refused:
        raise ValueError('; '.join(refused))
    return tuple(kept)


def _without_comment(line: str) -> str:
    text = line.removeprefix('\ufeff').strip()
    return text.split(' #')[0].strip() if not text.startswith('#') else ''


def _requirement(text: str) -> str:
    if text.startswith('-') or ' --' in text:
        raise ValueError('pip options are not allowed, give the name and version alone')
    if text.startswith(('.', '/', '~')) or '\\' in text:
        raise ValueError('paths are not allowed, only packages by name')
    if '://' in text or text.lower().startswith(('git+', 'hg+', 'svn+', 'bzr+')) or '@' in text:
        raise ValueError('addresses are not allowed, only packages by name')
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        hint = f', pin with two equals signs: {text.replace("=", "==", 1)}' if text.count('=') == 1 else ''
        raise ValueError(f'not a package requirement ({reason}){hint}') from None
    return str(requirement)
