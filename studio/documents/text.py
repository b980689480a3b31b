"""What a search looks at: one folded text for each document, in which case and accents make no difference."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

_MARK: Final = '\x1f'
_PLAIN: Final = {0: ' ', ord(_MARK): ' '}


def fold(text: str) -> str:
    """A text as it is compared: without case, without accents, without anything a database cannot hold."""
    plain = _storable(text).casefold()
    if plain.isascii():
        return plain
    letters = unicodedata.normalize('NFKD', plain)
    return ''.join(letter for letter in letters if not unicodedata.combining(letter)).casefold()


def search_text(title: str, topics: Iterable[str], draft: Mapping[str, Any]) -> str:
    """Title, prompt, file names, commands, checker and topics; each topic once more, marked, to be filtered by."""
    topics = list(topics)
    parts = [title, draft.get('prompt'), *_texts(draft.get('setup_files'), keys=True)]
    parts += [*_texts(draft.get('setup_commands')), *_texts(draft.get('checker')), *topics]
    words = fold('\n'.join(part for part in parts if isinstance(part, str)))
    return words + ''.join(map(marked_topic, topics))


def marked_topic(topic: str) -> str:
    """A topic as it stands in the search text: whole, with its accents."""
    return f'{_MARK}{_storable(topic).casefold()}{_MARK}'


def _texts(value: object, *, keys: bool = False) -> list[str]:
    """Every text inside a JSON value, or only its keys."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [str(key) for key in value] if keys else [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []


def _storable(text: str) -> str:
    return text.translate(_PLAIN).encode('utf-8', 'replace').decode('utf-8')
