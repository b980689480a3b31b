"""RLVR_PACKAGES: the Python of playground, certificates and command line, where no run says what it is."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from studio.settings import Settings
from studio.workspaces.playground import Playground

SPEC = {
    'prompt': 'x',
    'setup_files': {'test_a.py': 'import rlvrsetting\n\n\ndef test_a():\n    assert rlvrsetting.one == 1\n'},
    'checker': {'type': 'pytest', 'config': {'test_paths': ['test_a.py']}},
}


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One package in a folder, which pip is pointed to by its own settings."""
    info = 'rlvrsetting-1.0.dist-info'
    with zipfile.ZipFile(tmp_path / 'rlvrsetting-1.0-py3-none-any.whl', 'w') as wheel:
        wheel.writestr('rlvrsetting.py', 'one = 1\n')
        wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\nName: rlvrsetting\nVersion: 1.0\n')
        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        wheel.writestr(f'{info}/RECORD', f'rlvrsetting.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n')
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(tmp_path))
    monkeypatch.setenv('RLVR_HOME', str(tmp_path / 'home'))


def test_the_playground_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('RLVR_PACKAGES', 'rlvrsetting>=1,<2')
    settings = Settings()
    playground = Playground(settings.home, 'bubblewrap', settings.packages)
    session = playground.open(SPEC)
    try:
        assert playground.check(session).outcome == 'passed'
        command = {'command': 'python3 -c "import rlvrsetting; print(rlvrsetting.one)"'}
        assert playground.run_tool(session, 'run_command', command).text.strip() == '1'
    finally:
        playground.close_all()
    assert 'rlvrsetting==1.0' in settings.python().packages


@pytest.mark.parametrize(
    ('text', 'packages'),
    [
        ('', ()),
        ('a==1  b>=2,<3\nc[x]', ('a==1', 'b<3,>=2', 'c[x]')),
        ('["a == 1", "b"]', ('a==1', 'b')),
    ],
)
def test_they_are_separated_by_blanks(monkeypatch: pytest.MonkeyPatch, text: str, packages: tuple[str, ...]) -> None:
    monkeypatch.setenv('RLVR_PACKAGES', text)
    assert Settings().packages == packages


@pytest.mark.parametrize('text', ['--pre', './local', '[1]', '["a"'])
def test_what_is_no_package_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv('RLVR_PACKAGES', text)
    with pytest.raises(ValueError, match='packages'):
        Settings()
