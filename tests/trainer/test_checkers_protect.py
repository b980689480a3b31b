"""Which of the author's files a verdict rests on, and how they are put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.checkers.protect import named_files, restore
from trainer.checkers.steady import deciding_files

AUTHOR = {
    'check.sh': 'exit 0\n',
    'src/app.py': '',
    'Makefile': '',
    'sub/Makefile': '',
    'data.csv': '',
    'tests/run.py': '',
    'a.py': '',
}


@pytest.mark.parametrize(
    'text, named',
    [
        ('sh check.sh', {'check.sh'}),
        ('./check.sh && python3 /work/src/app.py', {'check.sh', 'src/app.py'}),
        ('cd src && python3 app.py', {'src/app.py'}),
        ('make -C sub all', {'sub/Makefile'}),
        ('make check', {'Makefile'}),
        ('cmake .; echo remake', set()),
        ('python3 -m tests.run', {'tests/run.py'}),
        ('python3 -m unittest tests.run a', {'tests/run.py', 'a.py'}),
        ('cat mydata.csv data.csv.bak ../data.csv', set()),
        ("diff data.csv 'check.sh'", {'data.csv', 'check.sh'}),
        ("subprocess.run(['make', 'x']); open('data.csv')", {'Makefile', 'data.csv'}),
        ("os.path.join('src', 'app.py')", {'src/app.py'}),
        ('grep a.py b', {'a.py'}),
        ('python3 data.py', set()),
    ],
)
def test_named_files(text: str, named: set[str]) -> None:
    assert named_files(text, AUTHOR) == named


def test_restore_replaces_links_folders_and_rivals(tmp_path: Path) -> None:
    outside = tmp_path / 'outside'
    outside.mkdir()
    work = tmp_path / 'work'
    (work / 'check.py').mkdir(parents=True)
    (work / 'check.py/deep').mkdir()
    (work / 'check').mkdir()
    (work / 'check/__init__.py').write_text('', encoding='utf-8')
    (work / 'tests').symlink_to(outside)
    (work / 'GNUmakefile').write_text('x', encoding='utf-8')
    author = {'check.py': 'print(1)\n', 'tests/t.py': 'x = 1\n', 'Makefile': 'all:\n', 'run.sh': '#!/bin/sh\n'}
    changed = restore(work, author, author)
    assert changed == ('Makefile', 'GNUmakefile', 'check.py', 'check', 'run.sh', 'tests/t.py')
    assert list(outside.iterdir()) == []
    assert {path.relative_to(work).as_posix() for path in work.rglob('*') if path.is_file()} == set(author)
    assert (work / 'run.sh').stat().st_mode & 0o111
    assert restore(work, author, author) == ()


@pytest.mark.parametrize(
    'text, explicit, deciding',
    [
        ('sh check.sh data.csv', False, {'check.sh'}),
        ('diff out.txt data.csv', False, {'data.csv', 'check.sh'}),
        ('diff out.txt expected.txt', False, {'expected.txt', 'check.sh'}),
        ('python3 app.py data.csv', True, {'check.sh', 'data.csv', 'expected.txt'}),
        ('touch data.csv; sort x > expected.txt', True, {'check.sh'}),
    ],
)
def test_files_that_decide(text: str, explicit: bool, deciding: set[str]) -> None:
    protected = {'check.sh', 'data.csv', *({'expected.txt'} if explicit or 'expected' in text else ())}
    assert set(deciding_files(text, protected, explicit=explicit)) == deciding
