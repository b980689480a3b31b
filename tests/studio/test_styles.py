"""The style sheets: colours that are told apart in both themes, also under the pointer, and classes with one home.

WCAG wants 4.5 to 1 for text and 3 to 1 for what else has to be seen.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STYLES = Path(__file__).parents[2] / 'assets' / 'css'
SURFACES = ('app', 'rail', 'surface', 'subtle', 'inset', 'hover', 'selected', 'raised', 'term')
TEXTS = [(text, f'bg-{surface}') for text in ('text', 'text-2', 'text-3') for surface in SURFACES]
TEXTS += [('text-on-accent', 'accent'), ('text-on-accent', 'accent-hover')]
TEXTS += [('accent-text', surface) for surface in ('bg-surface', 'bg-selected', 'bg-hover', 'accent-soft')]
TEXTS += [(kind, surface) for kind in ('ok', 'warn', 'bad', 'info') for surface in (f'{kind}-soft', 'bg-surface')]
TEXTS += [(f'c{number}', 'bg-surface') for number in range(1, 7)]
LINES = [(line, f'bg-{surface}') for line in ('line-control', 'focus') for surface in ('app', 'surface', 'raised')]


def themes() -> dict[str, dict[str, str]]:
    """The colours of a theme by name: light, and what dark changes of it."""
    light, dark = re.findall(
        r'^(?::root|\[data-theme="dark"\], body.body--dark) \{(.*?)^\}',
        (STYLES / 'tokens.css').read_text(encoding='utf-8'),
        re.M | re.S,
    )
    names = [dict(re.findall(r'--([\w-]+): (#[0-9A-Fa-f]{6});', text)) for text in (light, dark)]
    return {'light': names[0], 'dark': names[0] | names[1]}


def test_the_reference_of_the_api_has_the_colours_of_the_studio() -> None:
    """It has a sheet of its own: the classes of the studio's sheets would meet those of Swagger UI."""
    text = (STYLES / 'api-docs.css').read_text(encoding='utf-8')
    blocks = re.findall(r'^(?::root|\[data-theme="dark"\]) \{(.*?)^\}', text, re.M | re.S)
    names = [dict(re.findall(r'--([\w-]+): (#[0-9A-Fa-f]{6});', block)) for block in blocks]
    assert len(names) == 2 and len(names[0]) > 20
    for theme, colours in zip(themes().values(), names, strict=True):
        assert colours == {name: theme[name] for name in colours}
    assert not re.findall(r'#[0-9A-Fa-f]{3,6}\b', text.replace(blocks[0], '').replace(blocks[1], ''))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_every_colour_is_told_from_what_is_behind_it(theme: str) -> None:
    colours = themes()[theme]
    found = [
        f'{front} on {back}: {contrast(colours[front], colours[back]):.2f}, {least} wanted'
        for pairs, least in ((TEXTS, 4.5), (LINES, 3.0))
        for front, back in pairs
        if contrast(colours[front], colours[back]) < least
    ]
    assert not found, '\n'.join(found)


def test_no_two_pages_give_one_class_another_meaning() -> None:
    """A rule for a bare class is for every page: a second one elsewhere would change the first page too."""
    homes: dict[str, set[str]] = {}
    for path in STYLES.glob('studio*.css'):
        text = re.sub(r'/\*.*?\*/', '', path.read_text(encoding='utf-8'), flags=re.DOTALL)
        text = re.sub(r'@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}', '', text)
        for selectors, rules in re.findall(r'([^{}]+)\{([^{}]*)\}', text):
            if rules.strip() != 'unicode-bidi: plaintext;':  # said of all texts that others wrote
                for one in re.findall(r'(?:^|,)\s*(\.[\w-]+)\s*(?=,|$)', selectors):
                    homes.setdefault(one, set()).add(path.name)
    assert len(homes) > 100
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
