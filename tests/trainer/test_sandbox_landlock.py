"""The weaker isolation by Landlock, as an ordinary user: what it holds, what it says it does not, and its refusals."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trainer
from studio.cli.app import app
from studio.settings import Settings
from trainer.errors import SandboxUnavailable
from trainer.sandbox import bubblewrap, landlock, open_sandbox
from trainer.sandbox.inside.confine import OLDEST_ABI, landlock_abi
from trainer.sandbox.probe import probe

NOBODY = 65_534
MARK = f'92{os.getpid()}'
"""Seconds that nobody else sleeps: how processes of these tests are recognised."""

NEEDED = ('pydantic', 'pydantic-core', 'annotated-types', 'typing-extensions', 'typing-inspection')
FOR_CHECKS = ('pytest', 'pluggy', 'iniconfig', 'packaging', 'pygments')

HERE = landlock_abi() >= OLDEST_ABI
"""Whether this kernel can do it; where it cannot, the tests of what it does expect the error that says so."""


@pytest.fixture(scope='module')
def as_user(tmp_path_factory):
    """Run a piece of code with ``open_sandbox`` and more at hand as an ordinary user; return what it printed."""
    folder = Path('/tmp', f'rlvr-landlock-{os.getpid()}')
    library = folder / 'lib'
    shutil.copytree(
        Path(trainer.__file__).parent,
        library / 'trainer',
        ignore=lambda above, names: [
            name for name in names if Path(name).suffix not in ('.py', '.txt', '.json', '.md') and '.' in name
        ],
    )
    for name in NEEDED + FOR_CHECKS:
        for file in importlib.metadata.files(name):
            if not str(file).startswith('..'):
                (library / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), library / file)
    (folder / 'own').mkdir(mode=0o777)
    (folder / 'own').chmod(0o777)
    root = os.geteuid() == 0
    python = '/usr/bin/python3' if root else sys.executable

    def run(code):
        process = start(code)
        said, wrong = process.communicate(timeout=60)
        assert process.returncode == 0, wrong
        return said

    def start(code):
        return subprocess.Popen(
            [python, '-c', PRELUDE + code],
            env={'PATH': '/usr/bin:/bin', 'PYTHONPATH': str(library), 'TMPDIR': str(folder / 'own')},
            user=NOBODY if root else None,
            group=NOBODY if root else None,
            extra_groups=[] if root else None,
            cwd=folder / 'own',
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    run.start = start
    run.folder = folder / 'own'
    yield run
    shutil.rmtree(folder)


PRELUDE = (
    'import json, os, sys, tempfile, time\nfrom pathlib import Path\nfrom trainer.sandbox import Limits, SandboxSpec\n'
    'from trainer.sandbox import open_sandbox as make\n'
    'def open_sandbox(**given): return make(SandboxSpec(**given), isolation="landlock")\n'
)

needs_landlock = pytest.mark.skipif(not HERE, reason='this kernel has no Landlock: its refusal is tested instead')


def marked():
    found = []
    for place in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            if MARK.encode() in place.read_bytes().split(b'\0'):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def nobody_marked():
    deadline = time.monotonic() + 5
    while marked() and time.monotonic() < deadline:
        time.sleep(0.02)
    return marked() == []


def test_an_ordinary_user_gets_it_or_is_told_why_not(as_user):
    said = as_user(
        'try:\n  with open_sandbox() as made: print(made.name)\n'
        'except Exception as error: print(type(error).__name__, error, error.hint)'
    )
    assert said.startswith('landlock' if HERE else 'SandboxUnavailable Landlock of version 6 is needed, this kernel')


@needs_landlock
def test_the_probe_says_what_holds_and_what_does_not(as_user):
    report = json.loads(as_user('from trainer.sandbox.probe import probe\nprint(probe("landlock").model_dump_json())'))
    assert {row['name'] for row in report['rows'] if not row['ok']} == {'no host processes', 'a limit on disk space'}
    assert len(report['rows']) == 15
    assert (report['name'], report['proven']) == ('landlock', False)
    assert report['fix'].startswith('Weaker sandbox, without: no host processes, a limit on disk space.')


@needs_landlock
def test_it_works_as_a_sandbox(as_user):
    said = as_user(
        """
first, second = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
(first / 'in.txt').write_text('given')
sandbox = open_sandbox(workspace=first, env={'MINE': 'yes'})
assert sandbox.name == 'landlock'
assert sandbox.run('cat in.txt; echo $MINE; pwd').text == 'givenyes\\n' + sandbox.where('/work') + '\\n'
assert sandbox.run('exit 7').exit_code == 7
assert sandbox.run('kill -9 $$').exit_code == -9
assert sandbox.run(['no-such-tool']).exit_code == 127
Path(first, 'text').write_text('no program')
sandbox.write_file('text', b'no program')
assert sandbox.run('chmod +x text').exit_code == 0
assert sandbox.run(['./text']).exit_code == 126
assert sandbox.run('cat; ls /proc/self/fd | wc -l').text == '4\\n'
assert sandbox.run(['sh', '-c', 'cat <&3; echo back >&3; ls /proc/self/fd'], channel=b'x').channel == b'back\\n'
assert sandbox.run('echo a > $TMPDIR/a && mktemp >/dev/null && cat $TMPDIR/a').text == 'a\\n'
assert sandbox.run('mkdir d && mv in.txt d/ && ln d/in.txt hard && cat hard && mkfifo p').text == 'given'
assert sandbox.run(['python3', '-c', 'import threading, subprocess; threading.Thread(target=print).start();'
    'print(subprocess.run(["echo", "sub"], capture_output=True).stdout)']).text.endswith("b'sub\\\\n'\\n")
assert sandbox.list_dir() == ['d/', 'hard', 'p', 'text']
assert sandbox.read_file('d/in.txt') == b'given'
sandbox.snapshot(second)
assert sorted(os.listdir(second)) == ['d', 'hard', 'text']
base = os.path.join(tempfile.gettempdir(), f'rlvr-sandbox-{os.getuid()}')
assert not [name for name in os.listdir(base) if f'-{os.getpid()}-' in name]
print('done')
"""
    )
    assert said == 'done\n'


ATTEMPTS = [
    ('cat $SECRET', 'Permission denied'),
    ('ln -s $SECRET l; cat l', 'Permission denied'),
    ('ln $SECRET l; cat l', 'Invalid cross-device link'),
    ('ls $OWN', 'Permission denied'),
    ('echo x > $OWN/new', 'Permission denied'),
    ('rm $SECRET', 'Permission denied'),
    ('mv $SECRET .', 'Permission denied'),
    ('truncate -s 0 $SECRET', 'Permission denied'),
    ('cat $OTHER/work/theirs', 'Permission denied'),
    ('echo x > /tmp/x', 'Permission denied'),
    ('echo x > /dev/shm/x', 'Permission denied'),
    ('cat /etc/passwd', 'Permission denied'),
    ('kill -9 $PPID', 'Operation not permitted'),
    ('kill -STOP $HOST', 'Operation not permitted'),
    ('cat /proc/$HOST/environ', 'Permission denied'),
    ('cat /proc/$PPID/environ', 'Permission denied'),
    ('ls -l /proc/$HOST/cwd/', 'Permission denied'),
    ('echo 0 > /proc/self/oom_score_adj', 'Permission denied'),
    ('bash -c "ulimit -u 100000"', 'Operation not permitted'),
    ('unshare -Ur true', 'Operation not permitted'),
    ('python3 -c "import socket; socket.socket(socket.AF_UNIX)"', 'Address family not supported'),
    (
        'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"',
        'Address family not supported',
    ),
    ('python3 -c "import socket; a, b = socket.socketpair(); print(str(b)[:14])"', '<socket.socket'),
]


@needs_landlock
def test_what_code_cannot_do(as_user):
    said = as_user(
        f"""
own = Path(tempfile.mkdtemp())
(own / 'secret').write_text('SECRET')
said = []
with open_sandbox() as other, open_sandbox() as sandbox:
    other.write_file('theirs', b'SECRET')
    env = {{'SECRET': str(own / 'secret'), 'OWN': str(own), 'HOST': str(os.getpid())}}
    env['OTHER'] = os.path.dirname(other.where('/work'))
    for command in {[command for command, _ in ATTEMPTS]!r}:
        said.append(sandbox.run(f'rm -f l; {{command}}', env=env).text)
    assert sandbox.run('echo alive').text == 'alive\\n'
assert (own / 'secret').read_text() == 'SECRET'
assert os.listdir(own) == ['secret']
print(json.dumps(said))
"""
    )
    for (command, answer), text in zip(ATTEMPTS, json.loads(said), strict=True):
        assert answer in text, command
        assert 'SECRET' not in text, command


@needs_landlock
def test_file_tools_do_not_follow_links_out(as_user):
    said = as_user(
        """
from trainer.tools import call_tool
with open_sandbox() as sandbox:
    sandbox.run('ln -s /etc/hostname l; ln -s / root; ln -s ../tmp up')
    for path in ('l', 'root/etc/hostname', 'up/x', '../tmp/x', '/etc/hostname'):
        assert not call_tool(sandbox, 'read_file', {'path': path}).ok
        assert not call_tool(sandbox, 'write_file', {'path': path, 'content': 'x'}).ok, path
print('done')
"""
    )
    assert said == 'done\n'


@needs_landlock
def test_nothing_outlives_a_command_or_a_sandbox(as_user):
    said = as_user(
        f"""
started = time.monotonic()
with open_sandbox(limits=Limits(processes=40, memory_bytes=400 << 20)) as sandbox:
    sandbox.run('(setsid nohup sleep {MARK} &); setsid sh -c "setsid sleep {MARK} & setsid sleep {MARK} &"')
    done = sandbox.run('trap "" TERM; setsid sleep {MARK} & sleep {MARK}', timeout_s=0.3)
    assert done.timed_out
    done = sandbox.run('bomb() {{ bomb | bomb & }}; bomb; sleep {MARK}', timeout_s=1)
    assert sandbox.run('echo alive').text == 'alive\\n'
    assert sandbox.run(['python3', '-c', 'x = bytearray(10**10)']).exit_code
    code = ('import os, mmap, time\\nfor _ in range(4):\\n  if not os.fork():\\n'
            '    m = mmap.mmap(-1, 150 << 20); m.write(bytes(150 << 20)); time.sleep(60)\\ntime.sleep(60)')
    assert sandbox.run(['python3', '-c', code], timeout_s=20).out_of_memory
    done = sandbox.run('yes', timeout_s=0.5)
    assert done.timed_out and len(done.output) < 70000
print('done', time.monotonic() - started)
"""
    )
    assert said.startswith('done')
    assert marked() == []


@needs_landlock
@pytest.mark.parametrize('end', ['kill', 'broken'])
def test_nothing_outlives_the_studio_or_a_server_that_hangs(as_user, end):
    code = (
        'import threading, trainer.sandbox.client as client\nclient.GRACE_S = 0.1\n'
        's = open_sandbox()\n'
        f'run = lambda: s.run("(setsid sleep {MARK} &); setsid sleep {MARK} & sleep {MARK}", timeout_s=1)\n'
    )
    if end == 'broken':
        code += (
            'import signal\nthreading.Timer(0.5, lambda: os.kill(s._launched.process.pid, signal.SIGSTOP)).start()\n'
            'try: run()\nexcept Exception as error: print(error)\n'
        )
        assert 'does not answer' in as_user(code)
    else:
        code += 'threading.Thread(target=run, daemon=True).start()\ntime.sleep(0.5)\nprint("ready", flush=True)\n'
        studio = as_user.start(code.replace('timeout_s=1', 'timeout_s=60') + 'time.sleep(60)')
        assert studio.stdout.readline() == 'ready\n'
        assert len(marked()) == 3
        studio.kill()
        studio.communicate()
    assert nobody_marked()


@needs_landlock
def test_many_at_once(as_user):
    said = as_user(
        """
from concurrent.futures import ThreadPoolExecutor
def live(number):
    with open_sandbox() as sandbox:
        sandbox.write_file('a', str(number).encode())
        return all(sandbox.run('cat a; ls | wc -l').text == f'{number}1\\n' for _ in range(2))
with ThreadPoolExecutor(16) as pool:
    print(all(pool.map(live, range(24))))
"""
    )
    assert said == 'True\n'


@needs_landlock
def test_checks_give_the_same_verdicts(as_user):
    said = as_user(
        """
from trainer.attempt import attempt
from trainer.task import Step, parse_task_spec
home = Path(tempfile.mkdtemp())
test = 'from solution import add\\n\\ndef test_add():\\n    assert add(1, 2) == 3\\n'
for checker, files in (
    ({'type': 'pytest', 'config': {'test_paths': ['test_add.py']}}, {'test_add.py': test}),
    ({'type': 'exit_code', 'config': {'command': 'python3 -c "import solution; assert solution.add(1, 2) == 3"'}}, {}),
):
    task = parse_task_spec({'prompt': 'Add.', 'setup_files': files, 'checker': checker})[0]
    for body in ('a + b', 'a - b'):
        steps = [Step(tool='write_file', args={'path': 'solution.py', 'content': f'def add(a, b): return {body}\\n'})]
        print(attempt(task, steps, home=home, isolation='landlock').verdict.reward)
"""
    )
    assert said.split() == ['1.0', '0.0', '1.0', '0.0']


def test_root_is_refused(monkeypatch):
    monkeypatch.setattr(os, 'geteuid', lambda: 0)
    with pytest.raises(SandboxUnavailable, match='does not hold root') as refused:
        open_sandbox(isolation='landlock')
    assert 'ordinary user' in refused.value.hint
    report = probe('landlock')
    assert (report.proven, [row.ok for row in report.rows]) == (False, [False])


@pytest.mark.parametrize(('abi', 'said'), [(0, 'has none'), (5, 'has version 5')])
def test_a_kernel_that_is_too_old(monkeypatch, abi, said):
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    monkeypatch.setattr(landlock, 'landlock_abi', lambda: abi)
    with pytest.raises(SandboxUnavailable, match=said) as refused:
        open_sandbox(isolation='landlock')
    assert 'bubblewrap' in refused.value.hint


@pytest.mark.parametrize(('user', 'abi', 'named'), [(1000, 7, True), (1000, 5, False), (0, 7, False)])
def test_it_is_named_where_bubblewrap_is_missing_and_never_taken(monkeypatch, user, abi, named):
    monkeypatch.setattr(bubblewrap, 'landlock_abi', lambda: abi)
    monkeypatch.setattr(bubblewrap.shutil, 'which', lambda *args, **given: None)
    monkeypatch.setattr(os, 'geteuid', lambda: user)
    with pytest.raises(SandboxUnavailable, match='bubblewrap is not installed') as refused:
        bubblewrap._find_bwrap()
    assert ('landlock' in refused.value.hint) == named


def test_the_command_line_probes_the_kind_that_is_named():
    wrong = CliRunner().invoke(app, ['sandbox', 'probe', '--isolation', 'docker'])
    assert wrong.exit_code == 2
    assert 'landlock' in wrong.output
    weaker = CliRunner().invoke(app, ['sandbox', 'probe', '--isolation', 'landlock'])
    assert weaker.exit_code == 1
    assert 'landlock' in weaker.output


def test_it_is_in_force_when_the_settings_name_it(monkeypatch, tmp_path):
    assert Settings(home=tmp_path).sandbox == 'bubblewrap'
    monkeypatch.setenv('RLVR_ISOLATION', 'landlock')
    assert Settings(home=tmp_path).sandbox == 'landlock'
    assert Settings(home=tmp_path, unsafe_sandbox=True).sandbox == 'unsafe'
    assert 'landlock' in CliRunner().invoke(app, ['sandbox', 'probe']).output
    monkeypatch.setenv('RLVR_ISOLATION', 'docker')
    with pytest.raises(ValueError, match='landlock'):
        Settings(home=tmp_path)
