"""The playground: every session has a workspace of its own, can be cancelled, and ends with its tab."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from studio.documents import NotFound
from studio.playground import Playground
from trainer.attempt import Cancelled
from trainer.errors import SandboxError, SetupFailed, TaskError

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
    slow = {'type': 'exit_code', 'config': {'command': 'sleep 30'}}
    setup = ['sleep 30'] if what == 'setup' else []
    spec = {**SPEC, 'checker': slow, 'setup_commands': setup}
    id = 'chosen' if what == 'setup' else playground.open(spec)
    calls: dict[str, Callable[[], object]] = {
        'tool': lambda: _run(playground, id, 'sleep 30'),
        'check': lambda: playground.check(id),
        'setup': lambda: playground.open(spec, id='chosen'),
    }
    threading.Timer(0.7, lambda: playground.cancel(id)).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        calls[what]()
    assert time.monotonic() - began < 5
    if what == 'check':
        assert 'made.txt' not in _marks(playground, id)
    elif what == 'tool':
        with pytest.raises(Cancelled):
            playground.tree(id)
        playground.reset(id)
        assert _run(playground, id, 'true').ok


def test_bad_specs_and_setups_say_why(playground: Playground) -> None:
    with pytest.raises(TaskError) as refused:
        playground.open({**SPEC, 'prompt': ''})
    assert [field.loc for field in refused.value.fields] == ['prompt']
    with pytest.raises(SetupFailed, match='exit code 3'):
        playground.open({**SPEC, 'setup_commands': ['exit 3']})
    assert playground._sessions == {}


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
    monkeypatch.setattr('studio.playground.MAX_SESSIONS', 1)
    id = playground.open(SPEC)
    with pytest.raises(SandboxError, match='open already'):
        playground.open(SPEC)
    playground.close(id)
    playground.close(id)
    playground.open(SPEC)
