"""``pipPackages``: every line is taken or refused on its own number with a reason, never skipped in silence."""

import pytest

from trainer.config import MAX_PACKAGES, parse_settings
from trainer.errors import ConfigError
from trainer.requirements import parse_requirements

TAKEN = {
    'requests>=2.31  # why': 'requests>=2.31',
    '\ufeffnumpy': 'numpy',
    'pandas[excel,parquet] >= 2.0, < 3': 'pandas[excel,parquet]<3,>=2.0',
    "numpy==1.26.*; python_version<'3.9'": 'numpy==1.26.*; python_version < "3.9"',
    'torch==2.6.0+cu124': 'torch==2.6.0+cu124',
    'a~=1.4.2': 'a~=1.4.2',
    'zope.interface!=5.0': 'zope.interface!=5.0',
    'tab\t# after a tab': 'tab',
}
REFUSED = {
    'pkg @ https://example.invalid/p-1.0.tar.gz': 'addresses',
    'pkg @ file:///tmp/p.whl': 'addresses',
    'git+https://example.invalid/a/b.git': 'addresses',
    'git+ssh://git@example.invalid/a.git': 'addresses',
    'https://example.invalid/p.whl': 'addresses',
    '-r other.txt': 'options',
    '--index-url https://example.invalid/simple': 'options',
    '-e .': 'options',
    'requests --pre': 'options',
    'requests==2.31.0 --hash=sha256:00': 'options',
    'requests\t--no-deps': 'options',
    './local': 'paths',
    '../up': 'paths',
    '/abs/pkg': 'paths',
    '~/pkg': 'paths',
    '.': 'paths',
    'folder/pkg': 'paths',
    'C:\\pkg': 'paths',
    'demo-1.0-py3-none-any.whl': 'paths',
    'demo-1.0.tar.gz': 'paths',
    'demo.zip': 'paths',
    'café>=1': 'letters A to Z',
    'requests = 2.0': 'requests == 2.0',
    'requests=2.0': 'requests==2.0',
    'requests>=': 'not a package requirement',
    'two names': 'not a package requirement',
    '$HOME': 'not a package requirement',
    'a\nb': 'one package a line',
    'a\n--index-url x': 'one package a line',
    'a\x00b': 'control characters',
    'a' * 301: 'longer than 300',
}


@pytest.mark.parametrize('line', TAKEN)
def test_a_line_that_is_taken(line: str) -> None:
    """Case A2."""
    assert parse_requirements([line]) == (TAKEN[line],)


@pytest.mark.parametrize('line', REFUSED)
def test_a_line_that_is_refused(line: str) -> None:
    """Case A2: the lines around it keep their numbers, comments and blank lines count."""
    with pytest.raises(ValueError, match=r'^line 3 ') as caught:
        parse_requirements(['# packages', '', line, 'numpy'])
    assert REFUSED[line] in str(caught.value)
    assert 'line 4' not in str(caught.value)


def test_every_refused_line_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({'rl': {'pipPackages': ['-r a', 'numpy', './b']}})
    (field,) = caught.value.fields
    assert field.loc == 'rl.pipPackages'
    assert 'Line 1 ' in field.msg and 'line 3 ' in field.msg and 'line 2' not in field.msg


def test_no_more_packages_than_allowed_and_comments_are_none() -> None:
    lines = [f'package-{number}' for number in range(MAX_PACKAGES)]
    assert len(parse_settings({'rl': {'pipPackages': ['# note', *lines, '']}})[0].rl.pip_packages) == MAX_PACKAGES
    with pytest.raises(ConfigError, match='At most 50 packages, not 51'):
        parse_settings({'rl': {'pipPackages': [*lines, 'one-more']}})


@pytest.mark.parametrize(
    ('value', 'loc'), [('numpy', 'rl.pipPackages'), ([1], 'rl.pipPackages.0'), ({}, 'rl.pipPackages')]
)
def test_a_value_that_is_no_list_of_text_is_refused(value: object, loc: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({'rl': {'pipPackages': value}})
    assert [field.loc for field in caught.value.fields] == [loc]
