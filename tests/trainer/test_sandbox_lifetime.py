"""From birth to death: threads, many at once, crashes on either side, and that nothing is left afterwards."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer.errors import SandboxError
from trainer.sandbox import SandboxSpec, leftovers, open_sandbox
from trainer.sandbox.client import Launched, ServedSandbox
from trainer.sandbox.inside import frames
from trainer.sandbox.leftovers import (
    base_folder,
    owner_tag,
    passing_folder,
    private_folder,
    remove_tree,
    sweep_leftovers,
)
from trainer.sandbox.pool import SandboxPool

MARK = b'94%d' % os.getpid()
"""Seconds that nobody else sleeps: how processes of these tests are recognised."""

ALL = ['bubblewrap', 'unsafe']


@pytest.fixture(autouse=True)
def nothing_left(request):
    """Whatever a test does: no process, no folder and no mount of it remains."""
    before = state()
    yield
    deadline = time.monotonic() + 5
    while state() != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert state() == before


def state():
    """Children of this process, its descriptors, its sandbox folders and the mounts of the machine."""
    own = os.getpid()
    folders = sorted(place.name for place in base_folder().iterdir() if f'-{own}-' in place.name)
    mounts = [line for line in Path('/proc/self/mounts').read_text(encoding='utf-8').splitlines() if 'rlvr' in line]
    return children(own), len(os.listdir('/proc/self/fd')), folders, mounts, len(marked(MARK))


def children(pid):
    tasks = Path(f'/proc/{pid}/task').glob('*/children')
    return sorted(int(word) for place in tasks for word in place.read_text(encoding='ascii').split())


def marked(mark):
    found = []
    for place in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            if mark in place.read_bytes().split(b'\0'):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize('isolation', ALL)
def test_what_a_sandbox_leaves(isolation):
    with open_sandbox(isolation=isolation) as sandbox:
        sandbox.run('mkdir -m 000 closed; (setsid sleep 99 &); mkfifo p; ln -s / r')
        sandbox.write_file('marker.txt', b'x')
    sandbox.close()
    for call in (lambda: sandbox.run('true'), lambda: sandbox.read_file('a'), lambda: sandbox.snapshot(Path('/tmp'))):
        with pytest.raises(SandboxError, match='closed'):
            call()


@pytest.mark.parametrize(('isolation', 'levels', 'seconds'), [('bubblewrap', 10_000, 5), ('unsafe', 2_200, 60)])
def test_a_tree_deeper_than_any_path(isolation, levels, seconds):
    code = f'import os\nfor _ in range({levels}):\n  os.mkdir("d"); os.chdir("d")'
    sandbox = open_sandbox(isolation=isolation)
    assert sandbox.run(['python3', '-c', code]).exit_code == 0
    started = time.monotonic()
    sandbox.close()
    assert time.monotonic() - started < seconds


def test_the_thread_that_made_it_may_end():
    made = []
    thread = threading.Thread(target=lambda: made.append(open_sandbox()))
    thread.start()
    thread.join()
    with made[0] as sandbox:
        assert sandbox.run('echo alive').text == 'alive\n'


def test_64_at_once_in_threads():
    def live(number):
        with open_sandbox() as sandbox:
            sandbox.write_file('a', str(number).encode())
            return all(sandbox.run('cat a; ls | wc -l').text == f'{number}1\n' for _ in range(3))

    with ThreadPoolExecutor(64) as pool:
        assert all(pool.map(live, range(64)))


async def test_64_alive_under_asyncio():
    sandboxes = await asyncio.gather(*(asyncio.to_thread(open_sandbox) for _ in range(64)))
    done = await asyncio.gather(*(asyncio.to_thread(sandbox.run, 'echo $$') for sandbox in sandboxes))
    await asyncio.gather(*(asyncio.to_thread(sandbox.close) for sandbox in sandboxes))
    assert all(result.exit_code == 0 for result in done)


@pytest.mark.parametrize('isolation', ALL)
@pytest.mark.parametrize('end', ['exception', 'stopped', 'killed', 'exit', 'left open'])
def test_the_studio_ends_in_any_way(isolation, end):
    code = (
        'import os, sys, threading, time\nfrom trainer.sandbox import open_sandbox\n'
        f's = open_sandbox(isolation={isolation!r})\n'
        'run = lambda: s.run("echo; setsid sleep MARK & sleep MARK", timeout_s=60)\n'
        'threading.Thread(target=run, daemon=True).start()\n'
        'time.sleep(0.4); print("ready", flush=True)\n'
    ) + {
        'exception': 'raise ValueError',
        'stopped': 'time.sleep(60)',
        'killed': 'time.sleep(60)',
        'exit': 'os._exit(0)',
        'left open': 'sys.exit(0)',
    }[end]
    code = code.replace('MARK', MARK.decode())
    studio = subprocess.Popen(
        [sys.executable, '-W', 'ignore', '-c', code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert studio.stdout.readline() == b'ready\n'
    if end in {'stopped', 'killed'}:
        assert len(marked(MARK)) == 2
        studio.send_signal(signal.SIGTERM if end == 'stopped' else signal.SIGKILL)
    studio.wait()
    studio.stdout.close()
    deadline = time.monotonic() + 5
    while marked(MARK) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(MARK) == []
    removed = sweep_leftovers()
    assert all(f'-{studio.pid}-' in place.name for place in removed if place.name.startswith('unsafe'))
    assert not [place for place in base_folder().iterdir() if f'-{studio.pid}-' in place.name]


def test_a_forked_child_does_not_keep_it_alive():
    code = (
        'import os, time\nfrom trainer.sandbox import open_sandbox\n'
        's = open_sandbox()\n'
        'if not os.fork():\n  time.sleep(3); os._exit(0)\n'
        'import threading\nthreading.Thread(target=lambda: s.run("sleep MARK", timeout_s=60), daemon=True).start()\n'
        'time.sleep(0.3); print("ready", flush=True); os._exit(0)\n'
    )
    code = code.replace('MARK', MARK.decode())
    studio = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)
    assert studio.stdout.readline() == b'ready\n'
    studio.stdout.close()
    studio.wait()
    deadline = time.monotonic() + 2
    while marked(MARK) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(MARK) == []


def test_sweeping_touches_the_dead_only():
    mine = private_folder('unsafe')
    dead = base_folder() / f'unsafe-{owner_tag().replace(str(os.getpid()), "4194305", 1)}'
    (dead / 'closed').mkdir(parents=True)
    (dead / 'closed' / 'x').touch()
    (dead / 'closed').chmod(0)
    recycled = base_folder() / f'unsafe-{os.getpid()}-1-0123456789ab'
    recycled.mkdir()
    other = base_folder() / 'something else'
    other.mkdir()
    removed = sweep_leftovers()
    assert {dead, recycled} <= set(removed)
    assert mine.exists()
    assert other.exists()
    assert not dead.exists()
    remove_tree(mine)
    remove_tree(other)
    remove_tree(other)


def test_passing_folders_of_the_dead_are_swept_and_nothing_else(monkeypatch, tmp_path):
    """A process that is killed while it checks leaves a copy of a workspace."""
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    monkeypatch.delenv('XDG_RUNTIME_DIR', raising=False)
    code = (
        'import os, signal\nfrom trainer.sandbox.leftovers import passing_folder\n'
        'with passing_folder("final") as folder:\n'
        '  (folder / "closed").mkdir(mode=0)\n  os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    subprocess.run([sys.executable, '-c', code], env={**os.environ, 'TMPDIR': str(tmp_path)}, check=False)
    (left,) = tmp_path.glob('rlvr-final-*')
    somewhere = tmp_path / 'somewhere'
    somewhere.mkdir()
    kept = [tmp_path / f'rlvr-link-{left.name.removeprefix("rlvr-final-")}', tmp_path / 'rlvr-final-mine']
    kept[0].symlink_to(somewhere)
    kept[1].mkdir()
    with passing_folder('final') as own:
        assert sweep_leftovers() == (left,)
        assert own.stat().st_mode & 0o777 == 0o700
        (own / 'closed').mkdir(mode=0)
    assert not own.exists()
    assert all(map(os.path.lexists, kept)) and somewhere.is_dir()


def test_a_base_folder_of_somebody_else_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_RUNTIME_DIR', str(tmp_path))
    (tmp_path / 'rlvr-sandbox').symlink_to('/tmp')
    with pytest.raises(PermissionError, match='belongs to somebody else'):
        base_folder()
    with pytest.raises(SandboxError, match='belongs to somebody else'):
        open_sandbox(isolation='unsafe')
    assert leftovers.base_folder is base_folder


def answer(kind, *fields):
    return frames.frame(kind, list(fields))


@pytest.mark.parametrize(
    'reply',
    [
        b'\x7f\xff\xff\xff' + b'x' * 100,
        b'\0\0\0\0',
        b'\0\0\0\5+\0\0\0\7',
        b'GET / HTTP/1.1\r\n\r\n',
        answer(b'?', b'x'),
        answer(frames.OK),
        answer(frames.OK, b'0', b'', b'0', b'', b'', b'extra'),
        answer(frames.OK, b'zero', b'', b'0', b'', b''),
        answer(frames.REFUSED),
        b'\0\0',
    ],
)
def test_a_server_that_lies_is_dropped(reply):
    """The server was taken over: it answers the second request with garbage."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(['sleep', MARK.decode()], start_new_session=True)
    theirs.sendall(answer(frames.OK) + reply)
    theirs.shutdown(socket.SHUT_WR)
    sandbox = ServedSandbox('test', SandboxSpec(), Launched(process, ours, '/work'), own_user=True)
    with pytest.raises(SandboxError, match='the test sandbox broke'):
        sandbox.run('true')
    theirs.close()
    assert process.returncode == -9
    with pytest.raises(SandboxError, match='closed'):
        sandbox.run('true')


def test_a_server_that_is_silent_is_dropped(monkeypatch):
    monkeypatch.setattr('trainer.sandbox.client.GRACE_S', 0.1)
    with open_sandbox() as sandbox:
        (launcher,) = children(os.getpid())
        (server,) = children(launcher)
        os.kill(server, signal.SIGSTOP)
        with pytest.raises(SandboxError, match='does not answer'):
            sandbox.run('true', timeout_s=0.1)


def test_a_server_that_dies_is_no_answer_of_the_command():
    with open_sandbox(isolation='unsafe') as sandbox, pytest.raises(SandboxError, match='command server is gone'):
        sandbox.run('kill -9 $PPID; sleep 1')


def test_a_pool_lends_fresh_ones_and_bounds_them():
    alive = []
    most = []

    with SandboxPool(3, ready=2) as pool:

        def use(number):
            with pool.acquire() as sandbox:
                alive.append(number)
                most.append(len(alive))
                empty = sandbox.run('ls; echo > marker.txt').text == ''
                alive.remove(number)
                return empty

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(use, range(16)))
    assert max(most) <= 3
    with pytest.raises(SandboxError, match='pool of sandboxes is closed'), pool.acquire():
        pass


def test_a_pool_hands_on_why_none_can_be_made(tmp_path):
    spec = SandboxSpec(workspace=tmp_path / 'missing')
    with SandboxPool(2, spec) as pool:
        for _ in range(3):
            with pytest.raises(SandboxError, match='missing'), pool.acquire():
                pass
