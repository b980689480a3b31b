"""Faults on purpose: whatever breaks, the verdict is the one of the spec and nothing is left on the machine."""

import json
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from trainer.attempt import attempt, prepare
from trainer.checkers.grading import grade
from trainer.errors import SandboxError, SetupFailed
from trainer.sandbox import Limits, PathRefused, SandboxSpec, open_sandbox
from trainer.sandbox.leftovers import base_folder
from trainer.sandbox.python_env import base_environment
from trainer.task import Step, parse_task_spec

MARK = b'93%d' % os.getpid()
"""Seconds that nobody else sleeps: how processes of these tests are recognised."""

GROWTH_BYTES = 50 * 1024**2
MB = 1024**2

TEMPORARY = []
"""Temporary folders made during a test: other programs make some with the same prefix."""


@pytest.fixture(scope='module', autouse=True)
def warm(checker_home):
    """What is made once for all sandboxes (environment, staged folders, thread stacks) is no growth of one of them."""
    grade(spec('true').checker, {}, checker_home, home=checker_home)
    list(ThreadPoolExecutor(64).map(lambda _: time.sleep(0.01), range(64)))


@pytest.fixture(autouse=True)
def nothing_left(warm, monkeypatch):
    """Afterwards no process, no mount, no folder and no descriptor is left, and the caller is as small as before."""
    make = tempfile.mkdtemp

    def noted(*args, **kwargs):
        TEMPORARY.append(make(*args, **kwargs))
        return TEMPORARY[-1]

    monkeypatch.setattr(tempfile, 'mkdtemp', noted)
    before, resident = state(), psutil.Process().memory_info().rss
    yield
    deadline = time.monotonic() + 5
    while state() != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert state() == before
    assert psutil.Process().memory_info().rss - resident < GROWTH_BYTES


def state():
    """Processes, mounts, folders and descriptors that sandboxes and checks make."""
    own = psutil.Process()
    return {
        'processes': sorted(child.pid for child in own.children(recursive=True)),
        'marked': marked(),
        'mounts': Path('/proc/self/mountinfo').read_text(encoding='utf-8'),
        'folders': sorted(
            place.name
            for parent in (base_folder(), Path(tempfile.gettempdir()))
            for place in parent.iterdir()
            if f'-{own.pid}-' in place.name
        ),
        'temporary': [place for place in TEMPORARY if os.path.lexists(place)],
        'descriptors': own.num_fds(),
    }


def marked():
    found = []
    for place in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            if MARK in place.read_bytes().split(b'\0'):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def spec(command='test -e done', **changes):
    """A task whose checker runs ``command``."""
    checker = {'type': 'exit_code', 'config': {'command': command, 'timeout_s': 10}}
    return parse_task_spec({'prompt': 'Make done.', 'setup_files': {}, 'checker': checker, **changes})[0]


def pytest_task():
    test = 'from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n'
    checker = {'type': 'pytest', 'config': {'test_paths': ['test_add.py'], 'timeout_s': 10}}
    return spec(setup_files={'test_add.py': test}, checker=checker)


def commands(*lines):
    return [Step(tool='run_command', args={'command': line}) for line in lines]


def outcome(verdict):
    return verdict.outcome, verdict.reward


def test_disk_full_in_the_workspace_is_no_fault_of_the_checker(checker_home):
    """A model that fills its disk is answered by its tools and judged by what it left."""
    full = commands(
        'head -c 200000000 /dev/zero > a; head -c 200000000 /dev/zero > b; cat a a > c; echo $?', 'touch done'
    )
    result = attempt(spec(), full, home=checker_home)
    assert 'No space left on device' in result.steps[0].result
    assert outcome(result.verdict) == ('passed', 1.0)


def test_disk_full_in_the_middle_of_a_write():
    with open_sandbox(SandboxSpec(limits=Limits(disk_bytes=2 * MB))) as sandbox:
        assert sandbox.run('echo kept > f; head -c 4000000 /dev/zero > big').exit_code == 1
        with pytest.raises(PathRefused, match='no space left in the workspace'):
            sandbox.write_file('f', b'x' * MB)
        assert sandbox.read_file('f') == b'kept\n'
        sandbox.run('rm big')
        sandbox.write_file('f', b'new')
        assert sandbox.read_file('f') == b'new'


def test_setup_that_fills_the_disk_is_an_error(checker_home):
    task = spec(setup_commands=['for n in 1 2 3; do head -c 250000000 /dev/zero > f$n; done; true'])
    result = attempt(task, home=checker_home)
    assert outcome(result.verdict) == ('error', None)
    assert 'filled the workspace' in result.verdict.reason


def test_a_host_without_space_for_the_copy_is_an_error(checker_home, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('trainer.checkers.grading.copy_workspace', refuse)
    verdict = grade(spec().checker, {}, tmp_path, home=checker_home)
    assert outcome(verdict) == ('error', None)
    assert 'No space left' in verdict.reason


@pytest.mark.parametrize(
    ('kind', 'config'),
    [
        ('exit_code', {'command': 'exec sleep MARK'}),
        ('script', {'script': 'import time; time.sleep(MARK)'}),
    ],
)
def test_a_sandbox_that_is_killed_under_the_checker_is_an_error(checker_home, tmp_path, kind, config):
    config = {key: value.replace('MARK', MARK.decode()) for key, value in config.items()} | {'timeout_s': 20}
    task = spec(checker={'type': kind, 'config': config})
    before = {child.pid for child in psutil.Process().children()}

    def kill():
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            running = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
            # The launcher, the command server, the program.
            if len(running) >= 3:
                time.sleep(0.3)
                for child in running:
                    if child.is_running():
                        os.kill(child.pid, signal.SIGKILL)
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    verdict = grade(task.checker, {}, tmp_path, home=checker_home)
    killer.join()
    assert outcome(verdict) == ('error', None)
    assert 'command server is gone' in verdict.reason


@pytest.mark.parametrize(
    ('task', 'reason'),
    [
        (lambda: spec('no-such-tool --now'), 'command not found: no-such-tool'),
        (lambda: spec(setup_commands=['no-such-tool']), 'setup command 1 failed (exit code 127)'),
        (lambda: spec(setup_commands=['true', 'echo why >&2; exit 4']), 'setup command 2 failed (exit code 4)'),
        (lambda: spec(setup_commands=['kill -9 $$']), 'setup command 1 failed (exit code -9)'),
    ],
)
def test_missing_programs_and_failing_setup_are_errors(checker_home, task, reason):
    result = attempt(task(), commands('touch done'), home=checker_home)
    assert outcome(result.verdict) == ('error', None)
    assert reason in result.verdict.reason


def test_slow_setup_is_an_error_and_ends_its_children(checker_home, monkeypatch):
    monkeypatch.setattr('trainer.attempt.SETUP_TIMEOUT_S', 0.5)
    sleep = f'sleep {MARK.decode()}'
    task = spec(setup_commands=[f'setsid {sleep} & {sleep}'])
    started = time.monotonic()
    with pytest.raises(SetupFailed, match=r'timed out after 0\.5 s'):
        prepare(task, home=checker_home)
    assert time.monotonic() - started < 20
    assert marked() == []


def test_a_loop_in_the_answer_is_a_failure_of_the_model(checker_home):
    """The one of these faults that is the answer's own: reward 0 and no error."""
    task = pytest_task()
    loop = {'type': 'pytest', 'config': {'test_paths': ['test_add.py'], 'timeout_s': 2}}
    task = task.model_copy(update={'checker': spec(checker=loop).checker})
    steps = commands("printf 'def add(a, b):\\n    while True: pass\\n' > solution.py")
    assert outcome(attempt(task, steps, home=checker_home).verdict) == ('failed', 0.0)


@pytest.mark.slow
def test_64_at_once_each_with_its_own_verdict(checker_home):
    python = base_environment(checker_home)
    task = spec('test "$(cat done)" = "$(cat want)"')

    def live(number):
        lines = (f'echo {number} > want', f'echo {number if number % 2 else "no"} > done', '(setsid sleep 99 &)')
        return attempt(task, commands(*lines), home=checker_home, environment=python).verdict.reward

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(live, range(64))) == [float(number % 2) for number in range(64)]


@pytest.mark.slow
def test_a_fork_bomb_ends_with_its_command(checker_home):
    started = time.monotonic()
    with open_sandbox(SandboxSpec(limits=Limits(processes=64))) as sandbox:
        done = sandbox.run('bomb() { bomb | bomb & }; bomb; sleep 60', timeout_s=2)
        assert done.timed_out or done.exit_code
        assert sandbox.run('echo alive').text == 'alive\n'
    assert time.monotonic() - started < 20


@pytest.mark.slow
def test_2_gb_of_output_is_counted_and_not_kept(checker_home):
    before = psutil.Process().memory_info().rss
    with open_sandbox() as sandbox:
        done = sandbox.run('echo first; head -c 2000000000 /dev/zero; echo last', timeout_s=60)
    assert done.exit_code == 0
    assert done.output.startswith(b'first\n')
    assert done.output.endswith(b'last\n')
    assert done.cut_bytes == 2_000_000_000 + 11 - Limits().output_bytes
    assert psutil.Process().memory_info().rss - before < GROWTH_BYTES


@pytest.mark.slow
def test_a_checker_whose_output_has_no_end_still_gives_a_verdict(checker_home, tmp_path):
    task = spec('head -c 500000000 /dev/zero; yes | head -c 500000000; exit 0')
    verdict = grade(task.checker, {}, tmp_path, home=checker_home)
    assert outcome(verdict) == ('passed', 1.0)
    assert len(verdict.output) < 70_000


def test_grandchildren_in_sessions_of_their_own_are_gone(checker_home):
    sleep = f'setsid nohup sleep {MARK.decode()}'
    steps = commands(f'({sleep} >/dev/null 2>&1 &)', f'setsid sh -c "setsid {sleep} & {sleep} &"', 'touch done')
    result = attempt(spec(f'({sleep} &); test -e done'), steps, home=checker_home)
    assert outcome(result.verdict) == ('passed', 1.0)
    assert marked() == []


def test_a_workspace_full_of_links_is_copied_and_judged(checker_home, tmp_path):
    secret = tmp_path / 'secret'
    secret.write_text('SECRET', encoding='utf-8')
    code = (
        'import os\n'
        'for n in range(5000):\n'
        f'    os.symlink([{str(secret)!r}, "/", "..", f"l{{n + 1}}", "done", "/dev/zero", "l0"][n % 7], f"l{{n}}")\n'
    )
    steps = [
        Step(tool='write_file', args={'path': 'make.py', 'content': code}),
        *commands('python3 make.py; mkdir d; for n in $(seq 200); do ln -s .. d/$n; done; touch done'),
        Step(tool='read_file', args={'path': 'l0'}),
        Step(tool='list_dir', args={'path': 'l1'}),
    ]
    started = time.monotonic()
    result = attempt(spec('test -e done && ! grep -rqs SECRET .'), steps, home=checker_home)
    assert time.monotonic() - started < 20
    assert outcome(result.verdict) == ('passed', 1.0)
    assert all(step.result.startswith('error: ') for step in result.steps[2:])


def test_a_candidate_that_ends_the_checker_from_inside_has_no_reward(checker_home):
    kill = 'import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(os.getpid(), signal.SIGKILL)\n'
    steps = [Step(tool='write_file', args={'path': 'solution.py', 'content': kill})]
    verdict = attempt(pytest_task(), steps, home=checker_home).verdict
    assert outcome(verdict) == ('failed', 0.0)


def test_a_workspace_that_cannot_be_made_is_an_error(checker_home, monkeypatch):
    def none(*args, **kwargs):
        raise SandboxError('no descriptors left')

    monkeypatch.setattr('trainer.attempt.open_sandbox', none)
    verdict = attempt(spec(), home=checker_home).verdict
    assert outcome(verdict) == ('error', None)
    assert json.loads(verdict.model_dump_json())['reward'] is None
    assert 'no descriptors left' in verdict.reason


def test_a_socket_left_behind_is_no_way_back(checker_home):
    """A candidate listens on a socket file; the check must not find anybody behind it."""
    code = 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind("s"); s.listen(); time.sleep(MARK)'
    steps = commands(
        f"(setsid python3 -c '{code.replace('MARK', MARK.decode())}' &); sleep 0.3; test -S s && touch done"
    )
    result = attempt(spec('test -e done && ! test -e s'), steps, home=checker_home)
    assert outcome(result.verdict) == ('passed', 1.0)
