"""The playground: every session has a workspace of its own, can be cancelled, and ends with its tab."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from studio.documents.service import NotFound
from studio.workspaces.playground import Playground
from trainer.attempt import Cancelled
from trainer.errors import SandboxError, SetupFailed, TaskError

MARKED_SLEEP = 'sleep 31.4159'

SPEC: dict[str, Any] = {
    'prompt': 'Write hello into a.txt',
    'setup_files': {'notes/b.txt': '1', 'old.txt': 'x'},
    'setup_commands': ['echo made > made.txt'],
    'checker': {'type': 'exit_code', 'config': {'command': 'grep -q hello a.txt'}},
}


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('home')


@pytest.fixture
def playground(home: Path) -> Iterator[Playground]:
    made = Playground(home, 'bubblewrap')
    yield made
    made.close_all()


def _run(playground: Playground, id: str, command: str) -> Any:
    return playground.run_tool(id, 'run_command', {'command': command})


def _marks(playground: Playground, id: str) -> dict[str, str]:
    return {entry.path: entry.mark for entry in playground.tree(id)}


def _programs(argument: str) -> list[str]:
    """Command lines on this machine with an argument in them, those inside sandboxes too."""
    found = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b'\0')
            found += [' '.join(word.decode() for word in words)] if argument.encode() in words else []
    return found


def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_work_is_shown_checked_recorded_and_reset(playground: Playground) -> None:
    id = playground.open(SPEC)
    assert _marks(playground, id) == dict.fromkeys(['notes', 'notes/b.txt', 'old.txt', 'made.txt'], '')
    assert playground.check(id).outcome == 'failed'
    _run(playground, id, 'echo hello > a.txt; rm old.txt; echo 2 > notes/b.txt; mkdir new')
    assert playground.check(id).reward == 1.0
    marks = {'notes': '', 'notes/b.txt': 'M', 'old.txt': 'D', 'made.txt': '', 'a.txt': 'A', 'new': 'A'}
    assert _marks(playground, id) == marks, 'a check leaves the workspace as it was'
    assert playground.read(id, 'a.txt') == 'hello\n'
    assert [step.tool for step in playground.steps(id)] == ['run_command']
    playground.reset(id)
    assert set(_marks(playground, id).values()) == {''}
    assert playground.steps(id) == ()
    playground.reset(id, {**SPEC, 'setup_files': {}, 'setup_commands': []})
    assert _marks(playground, id) == {}


def test_two_sessions_share_nothing(playground: Playground) -> None:
    one, two = playground.open(SPEC), playground.open(SPEC)
    _run(playground, one, 'echo hello > a.txt')
    assert playground.check(one).outcome == 'passed'
    assert playground.check(two).outcome == 'failed'


def test_an_answer_is_what_a_model_is_shown(playground: Playground) -> None:
    id = playground.open(SPEC)
    assert not playground.run_tool(id, 'read_file', {'path': 'none.txt'}).ok
    assert not playground.run_tool(id, 'no_such_tool', {}).ok
    assert playground.steps(id) == (), 'calls that did nothing are no solution'


@pytest.mark.parametrize('what', ['tool', 'check', 'setup'])
def test_what_takes_long_can_be_cancelled(playground: Playground, what: str) -> None:
    slow = {'type': 'exit_code', 'config': {'command': MARKED_SLEEP}}
    setup = [MARKED_SLEEP] if what == 'setup' else []
    spec = {**SPEC, 'checker': slow, 'setup_commands': setup}
    id = 'chosen' if what == 'setup' else playground.open(spec)
    calls: dict[str, Callable[[], object]] = {
        'tool': lambda: _run(playground, id, MARKED_SLEEP),
        'check': lambda: playground.check(id),
        'setup': lambda: playground.open(spec, id='chosen'),
    }
    threading.Thread(target=lambda: (_until(lambda: _programs('31.4159')), playground.cancel(id))).start()
    with pytest.raises(Cancelled):
        calls[what]()
    _until(lambda: not _programs('31.4159'))
    assert not _programs('31.4159'), 'what it ran has ended with it'
    if what == 'check':
        assert _marks(playground, id)['old.txt'] == '', 'the workspace goes on'
        assert _run(playground, id, 'true').ok
    elif what == 'tool':
        with pytest.raises(Cancelled):
            playground.tree(id)
        playground.reset(id)
        assert _run(playground, id, 'true').ok


def test_bad_specs_and_setups_say_why(playground: Playground) -> None:
    with pytest.raises(TaskError) as refused:
        playground.open({**SPEC, 'prompt': '', 'setup_files': {'../a': ''}})
    assert [field.loc for field in refused.value.fields] == ['setup_files']
    with pytest.raises(SetupFailed, match='exit code 3'):
        playground.open({**SPEC, 'setup_commands': ['exit 3']})
    assert playground._sessions == {}


def test_one_can_look_around_before_prompt_and_checker_are_written(playground: Playground) -> None:
    unwritten = {**SPEC, 'prompt': '', 'checker': {'type': 'exit_code', 'config': {'command': ''}}}
    id = playground.open(unwritten, document='doc')
    assert 'old.txt' in _run(playground, id, 'ls').text
    for raw in (None, unwritten):
        with pytest.raises(TaskError) as refused:
            playground.check(id, raw)
        assert [field.loc for field in refused.value.fields] == ['prompt', 'checker.config.command']
    assert playground.dry_runs('doc') == ()
    assert playground.check(id, SPEC).outcome == 'failed'


def test_a_session_ends_with_its_tab(playground: Playground) -> None:
    here = True
    id = playground.open(SPEC, alive=lambda: here)
    playground.sweep()
    assert _run(playground, id, 'true').ok
    here = False
    playground.sweep()
    with pytest.raises(NotFound):
        playground.tree(id)


def test_there_is_a_limit_on_open_sessions(playground: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.workspaces.playground.MAX_SESSIONS', 1)
    id = playground.open(SPEC)
    with pytest.raises(SandboxError, match='open already'):
        playground.open(SPEC)
    playground.close(id)
    playground.close(id)
    playground.open(SPEC)


def test_what_changed_is_readable(playground: Playground) -> None:
    files = {'a.py': 'x = 1\ny = 2\n', 'gone.txt': 'bye\n', 'win.txt': 'a\r\nb\r\n', 'same.txt': 's'}
    id = playground.open({**SPEC, 'setup_files': files})
    assert playground.changes(id) == ()
    command = (
        "sed -i 's/y = 2/y = 3/' a.py; rm gone.txt; printf 'a\\nb\\n' > win.txt; printf '\\0\\1' > bin; "
        'head -c 300000 /dev/zero | tr "\\0" x > big.txt; ln -s a.py link; mkfifo pipe; printf "%s" "-- no" > odd.txt; '
        'mkdir -p .git lib/__pycache__; touch .git/HEAD lib/__pycache__/a.pyc'
    )
    assert _run(playground, id, command).exit_code == 0
    marks = _marks(playground, id)
    assert [marks.pop(path) for path in ('.git', 'lib', 'lib/__pycache__')] == ['A', 'A', 'A']
    changed = {change.path: change for change in playground.changes(id)}
    assert changed.keys() == {path for path, mark in marks.items() if mark}
    assert {path: change.mark for path, change in changed.items()} == {
        'a.py': 'M', 'gone.txt': 'D', 'win.txt': 'M', 'bin': 'A', 'big.txt': 'A', 'link': 'A', 'pipe': 'A',
        'odd.txt': 'A',
    }  # fmt: skip
    assert changed['a.py'].diff == '@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3'
    assert (changed['a.py'].added, changed['a.py'].removed) == (1, 1)
    assert changed['gone.txt'].diff.endswith('-bye')
    assert changed['odd.txt'].diff.endswith('+-- no  (no newline at the end)')
    notes = {path: change.note for path, change in changed.items() if change.note}
    assert notes == {
        'win.txt': 'only the line endings differ',
        'bin': 'binary: 2 bytes',
        'big.txt': 'too large to show: 300,000 bytes',
        'link': 'link to a.py',
        'pipe': 'a device, socket or pipe',
    }


def test_earlier_dry_runs_say_what_changed_between_them(playground: Playground) -> None:
    def look(tab: str, raw: dict[str, Any]) -> str:
        return playground.open(raw, document='doc', tab=tab)

    one = look('tab', SPEC)
    _run(playground, one, 'echo no > a.txt')
    playground.check(one)
    playground.close(one)
    other = look('other tab', SPEC)
    playground.check(other)
    again = look('tab', SPEC)
    _run(playground, again, 'echo hello > a.txt')
    stricter = {**SPEC, 'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx hello a.txt'}}}
    playground.check(again, stricter)
    third, second, first = playground.dry_runs('doc')
    assert [run.number for run in (first, second, third)] == [1, 2, 3]
    assert (first.is_first, second.is_first, third.is_first) == (True, True, False)
    assert [(change.path, change.mark) for change in first.changes] == [('a.txt', 'A')]
    assert second.changes == ()
    assert [(change.path, change.diff.split('\n')[1:]) for change in third.changes] == [('a.txt', ['-no', '+hello'])]
    assert '-    grep -q hello a.txt\n+    grep -qx hello a.txt' in third.task_diff
    assert (first.verdict.reward, third.verdict.reward) == (0.0, 1.0)
    assert playground.dry_runs('another') == ()
