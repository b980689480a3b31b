"""What the Tab key offers: installed by the command itself, tried in a real shell."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stand_in import new_run, task

from studio.cli.commands import completion
from studio.services import Studio

Type = Callable[[str, str], None]
BIN = Path(sys.executable).parent


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Type]:
    """A shell in which ``rlvr --install-completion`` was run: types a line, and waits until it reads as expected."""
    work = tmp_path / 'work'
    work.mkdir()
    (work / 'tasks of mine.jsonl').touch()
    environment = {
        'PATH': f'{BIN}:/usr/bin:/bin', 'HOME': str(tmp_path), 'RLVR_HOME': str(tmp_path / 'data'), 'TERM': 'dumb',
        'INPUTRC': '/dev/null', 'HISTFILE': '',
    }  # fmt: skip
    subprocess.run(['bash', '-c', 'rlvr --install-completion; true'], env=environment, check=True, capture_output=True)
    with (tmp_path / '.bashrc').open('a', encoding='utf-8') as settings:
        settings.write('\nPS1="ready> "\n')
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execve('/bin/bash', ['bash', '--noprofile', '--rcfile', f'{tmp_path}/.bashrc', '-i'], environment)
    wait_for(terminal, 'ready> ')

    def type_line(keys: str, expected: str) -> None:
        os.write(terminal, keys.encode())
        wait_for(terminal, expected)
        os.write(terminal, b'\x15')  # the line is taken back

    yield type_line
    os.close(terminal)
    os.waitpid(pid, 0)


def wait_for(terminal: int, expected: str) -> None:
    shown, deadline = '', time.monotonic() + 60
    while expected not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.5)[0]:
            shown += os.read(terminal, 4096).decode('utf-8', 'replace')


@pytest.mark.skipif(not (BIN / 'rlvr').exists(), reason='rlvr is not installed as a program here')
def test_bash_completes_commands_files_and_models(bash: Type) -> None:
    bash('rlvr vali\t', 'rlvr validate ')
    bash('rlvr validate tas\t', 'rlvr validate tasks\\ of\\ mine.jsonl ')
    bash('rlvr models check sta\t', 'rlvr models check starter ')
    bash('rlvr train --model sta\t', '--model starter ')
    bash('rlvr tasks import --format har\t', '--format harbor ')


def test_runs_and_tasks_are_offered_by_id_with_their_names(
    open_studio: Callable[..., Studio], monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = open_studio(watch=False)
    run = new_run(studio, 'a long night', tasks=1)
    (one,) = studio.documents.list().rows
    other = studio.documents.create(task(7), title='Zwei')
    home = studio.settings.home
    assert completion.runs('', home) == [(run.id, 'a long night (queued)')]
    assert completion.tasks('', home) == [(other.id, 'Zwei'), (one.id, one.title)]
    assert completion.tasks(other.id[:-1], home) == [(other.id, 'Zwei')]
    assert completion.adapters('', home) == []
    monkeypatch.setenv('RLVR_HOME', str(home))
    assert completion.runs(run.id) == [(run.id, 'a long night (queued)')]


def test_looking_makes_nothing_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / 'none'
    assert completion.runs('', nowhere) == [] == completion.tasks('', nowhere)
    assert not nowhere.exists()
    (tmp_path / 'studio.db').write_bytes(b'no database' * 100)
    assert completion.runs('', tmp_path) == []
    monkeypatch.setenv('RLVR_PORT', 'none')
    assert completion.models('') == []
    assert capfd.readouterr() == ('', '')
