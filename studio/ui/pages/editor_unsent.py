"""Text that a browser still held when the studio stopped or the page was left: put back into the draft by field."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from studio.ui.components.json_lines import NotJson, read_json
from studio.ui.components.line_endings import as_shown, keep_line_endings
from studio.ui.pages.editor_draft import Draft


def put_back(draft: Draft, fields: Mapping[str, str]) -> tuple[str, ...]:
    """Put what was typed into the draft; returns the names of the fields that differed.

    A key is the part of the document (``setup_files``), a line feed, and the label of the box (``src/a.py``).
    """
    raw = copy.deepcopy(draft.raw)
    changed = []
    for key, text in fields.items():
        part, _, label = key.partition('\n')
        if part in ('title', 'notes'):
            if getattr(draft, part) != text:
                setattr(draft, part, text)
                changed.append(label or part)
        elif part == 'json':
            changed += _put_json(raw, text)
        elif _put(raw, part, label, text):
            changed.append(label)
    if changed:
        draft.put(raw)
    return tuple(changed)


def _put_json(raw: dict[str, Any], text: str) -> list[str]:
    try:
        value = read_json(text).value
    except NotJson:  # Half a document: the last whole one is stored.
        return []
    if value == raw:
        return []
    raw.clear()
    raw.update(value)
    return ['task_spec']


def _put(raw: dict[str, Any], part: str, label: str, text: str) -> bool:
    """Put one text into a spec, its own line endings kept; whether anything changed."""
    holder, key = _place(raw, part, label)
    if isinstance(holder, list):
        holder.append('') if key == len(holder) and text else None
        if not isinstance(key, int) or key >= len(holder):
            return False
    elif not isinstance(holder, dict) or key not in holder:
        return False
    before = holder[key]
    if not isinstance(before, str) or as_shown(before) == text:
        return False
    holder[key] = keep_line_endings(before, text)
    return True


def _place(raw: dict[str, Any], part: str, label: str) -> tuple[Any, Any]:
    """The mapping or list that holds a text, and its key there."""
    row = re.search(r' ([0-9]{1,4})$', label)
    if part == 'setup_files':
        return raw.get('setup_files'), label
    if part == 'setup_commands':
        return raw.get('setup_commands'), int(row[1]) - 1 if row else None
    holder: Any = raw
    *above, last = part.split('.')
    for name in above:
        holder = holder.get(name) if isinstance(holder, dict) else None
    value = holder.get(last) if isinstance(holder, dict) else None
    return (value, int(row[1]) - 1) if isinstance(value, list) and row else (holder, last)
