"""Markdown as elements: a preview that never makes HTML of somebody's text and loads nothing.

Links and pictures are shown as text with their address; raw HTML is shown as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from nicegui import ui

from studio.ui.components.elements import Text

SHOWN_CHARS: Final = 60_000

_PARSER: Final = MarkdownIt('commonmark', {'html': False}).enable(['table', 'strikethrough'])
_BREAKS: Final = {'softbreak': ' ', 'hardbreak': '\n'}


def markdown_view(text: str) -> None:
    """Draw a text, or say that there is none."""
    if not text.strip():
        Text('Nothing to preview yet.', 'p', 't3')
        return
    _draw(_PARSER.parse(text[:SHOWN_CHARS]))
    if len(text) > SHOWN_CHARS:
        Text(f'… {len(text) - SHOWN_CHARS:,} more characters', 'p', 't3')


def _draw(tokens: list[Token]) -> None:
    """Open and close elements as the parser's stream of tokens says."""
    opened: list[ui.element] = []
    for token in tokens:
        if token.nesting == 1:
            element = _element(token)
            element.__enter__()
            opened.append(element)
        elif token.nesting == -1:
            opened.pop().__exit__()
        else:
            _LEAVES.get(token.type, _plain)(token)


def _element(token: Token) -> ui.element:
    # A preview must not add to the headings of the page.
    heading = token.tag in ('h1', 'h2', 'h3', 'h4', 'h5', 'h6')
    element = ui.element('p' if heading else 'span' if token.tag == 'a' else token.tag)
    if heading:
        element.classes(f'md-{token.tag}')
    if token.tag == 'a':
        element.classes('md-link').props['title'] = str(token.attrs.get('href', ''))
    if token.hidden:
        element.classes('tight')
    return element


def _inline(token: Token) -> None:
    _draw(token.children or [])


def _image(token: Token) -> None:
    Text(f'[picture: {token.content or token.attrs.get("src", "")}]', classes='t3')


def _code(token: Token) -> None:
    Text(token.content, 'code')


def _block(token: Token) -> None:
    Text(token.content, 'pre', 'code')


def _plain(token: Token) -> None:
    Text(_BREAKS.get(token.type, token.content))


def _rule(token: Token) -> None:
    ui.element('hr')


_LEAVES: Final[dict[str, Callable[[Token], None]]] = {
    'inline': _inline,
    'image': _image,
    'code_inline': _code,
    'code_block': _block,
    'fence': _block,
    'hr': _rule,
}
