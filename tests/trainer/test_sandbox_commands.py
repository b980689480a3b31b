"""Commands in a sandbox: exit codes, output without end, commands that never end, limits, the private channel."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trainer.errors import SandboxError
from trainer.sandbox import Limits, SandboxSpec, open_sandbox

MARK = b'93%d' % os.getpid()
"""Seconds that nobody else sleeps: how processes of these tests are recognised."""


@pytest.fixture
def sandbox():
    with open_sandbox() as made:
        yield made


def running(mark):
    """Processes of the whole machine that were started with ``mark`` as an argument."""
    found = []
    for place in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            if mark in place.read_bytes().split(b'\0'):
                found.append(place)
        except OSError:
            continue
    return found


def test_exit_code_output_and_signals(sandbox):
    done = sandbox.run('echo out; echo err >&2; exit 3')
    assert (done.exit_code, done.output, done.timed_out, done.cut_bytes) == (3, b'out\nerr\n', False, 0)
    assert sandbox.run(['sh', '-c', 'kill -9 $$']).exit_code == -9
    assert sandbox.run(['true']).exit_code == 0
    assert sandbox.run('no-such-tool').exit_code == 127
    assert sandbox.run(['no-such-tool']).exit_code == 127
    assert sandbox.run(['/work']).exit_code == 126
    assert sandbox.run('a\0b').exit_code == 126
    assert sandbox.run(['echo', 'x' * 200_000]).exit_code == 126
    assert sandbox.run('echo still here').text == 'still here\n'


def test_state_stays_in_files_only(sandbox):
    sandbox.run('cd /tmp; export X=1; echo kept > /work/a')
    assert sandbox.run('pwd; echo "[$X]"; cat a').text == '/work\n[]\nkept\n'


def test_environment_is_an_allow_list(monkeypatch):
    monkeypatch.setenv('HF_TOKEN', 'SECRET_A')
    spec = SandboxSpec(env={'FROM_SPEC': '1', 'BOTH': 'spec'}, path_prefix=('/opt/tools',))
    with open_sandbox(spec) as sandbox:
        text = sandbox.run('env', env={'FROM_CALL': '2', 'BOTH': 'call'}).text
    found = dict(line.split('=', 1) for line in text.splitlines())
    assert found.pop('PATH') == '/opt/tools:/usr/local/bin:/usr/bin:/bin'
    assert found == {
        'HOME': '/work',
        'LANG': 'C.UTF-8',
        'TERM': 'dumb',
        'PWD': '/work',
        'PYTHONDONTWRITEBYTECODE': '1',
        'FROM_SPEC': '1',
        'FROM_CALL': '2',
        'BOTH': 'call',
    }


@pytest.mark.parametrize('command', ['cat', 'read x; echo "[$x]"', 'python3', 'python3 -c "print(input())"'])
def test_stdin_is_at_its_end(sandbox, command):
    started = time.monotonic()
    done = sandbox.run(command, timeout_s=60)
    assert not done.timed_out
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    'command',
    [
        'echo so far; sleep MARK & sleep MARK',
        """bash -c 'echo so far; trap "" TERM INT HUP; sleep MARK & while :; do :; done'""",
        'echo so far; setsid sleep MARK & wait',
        'echo so far; (setsid nohup sleep MARK &) ; sleep MARK',
        'echo so far; exec sleep MARK',
    ],
)
def test_a_time_limit_ends_everything(sandbox, command):
    started = time.monotonic()
    done = []
    thread = threading.Thread(
        target=lambda: done.append(sandbox.run(command.replace('MARK', MARK.decode()), timeout_s=1))
    )
    thread.start()
    while not running(MARK) and thread.is_alive():
        time.sleep(0.01)
    assert running(MARK), 'the command never started what it is about'
    thread.join()
    assert time.monotonic() - started < 20
    assert done[0].timed_out
    assert done[0].exit_code is None
    assert done[0].text == 'so far\n'
    assert not running(MARK)


def test_nothing_outlives_a_command(sandbox):
    sleep = f'sleep {MARK.decode()}'
    done = sandbox.run(
        f'(setsid nohup {sleep} &); ({sleep} &); until [ "$(pgrep -xc sleep)" = 2 ]; do :; done; echo hi', timeout_s=30
    )
    assert done.text == 'hi\n'
    assert not running(MARK)
    # The shell that counts, and the server that started it.
    assert sandbox.run('set -- /proc/[0-9]*; echo $#').text == '2\n'


def test_more_orphans_than_processes_allowed(sandbox):
    # In batches: a busy machine may run the loop and its orphans before the server, which collects them.
    loop = 'for i in $(seq 600); do (true &) ; [ $((i % 60)) -gt 0 ] || sleep 0.1; done; echo ok'
    done = sandbox.run(loop, timeout_s=20)
    assert done.text == 'ok\n'


@pytest.mark.parametrize(
    ('command', 'at_least'),
    [
        ('head -c 300000000 /dev/zero', 290_000_000),
        ('head -c 50000000 /dev/zero | tr "\\0" x', 49_000_000),
        ('for i in 1 2 3 4; do seq 50000 >&2; done', 1_000_000),
        ('yes', 1_000_000),
    ],
)
def test_output_without_end(sandbox, command, at_least):
    before = resident()
    done = sandbox.run(f'echo head; {command}; echo tail', timeout_s=1.5 if command == 'yes' else 30)
    assert resident() - before < 50_000_000
    assert len(done.output) < 66_000
    assert done.cut_bytes > at_least
    assert done.output.startswith(b'head\n')
    assert f'cut, {done.cut_bytes} bytes'.encode() in done.output
    assert done.timed_out or done.output.endswith(b'tail\n')


def test_four_floods_at_once():
    before = resident()
    results = []

    def flood():
        with open_sandbox() as sandbox:
            results.append(sandbox.run('yes', timeout_s=1))

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done.timed_out for done in results] == [True] * 4
    assert resident() - before < 50_000_000


def resident():
    """Bytes of memory this process holds."""
    return int(Path('/proc/self/statm').read_text(encoding='ascii').split()[1]) * os.sysconf('SC_PAGE_SIZE')


def test_exactly_as_much_output_as_is_kept():
    with open_sandbox(SandboxSpec(limits=Limits(output_bytes=1000))) as sandbox:
        assert sandbox.run('printf %01000d 7').output == b'0' * 999 + b'7'
        done = sandbox.run('printf %01001d 7')
    assert done.cut_bytes == 1
    assert done.output.startswith(b'0' * 500 + b'\n[')
    assert done.output.endswith(b']\n' + b'0' * 499 + b'7')


def test_bytes_that_are_no_text(sandbox):
    assert sandbox.run(r"printf '\377\376\0\033[31m'").text == '\ufffd\ufffd\0\x1b[31m'


def test_a_fork_bomb_is_contained():
    with open_sandbox(SandboxSpec(limits=Limits(processes=64))) as sandbox:
        done = sandbox.run('bash -c ":(){ :|:& };:; wait"', timeout_s=1)
        assert done.exit_code is not None or done.timed_out
        assert sandbox.run('echo alive').text == 'alive\n'
        code = (
            'import os, signal\nn = 0\ntry:\n  while n < 200:\n    if not os.fork(): signal.pause()\n    n += 1\n'
            'except OSError:\n  print(n)'
        )
        assert int(sandbox.run(['python3', '-c', code]).text) < 64


@pytest.mark.parametrize(
    'program',
    [
        'bytearray(10**10)',
        'import mmap; m = mmap.mmap(-1, 600 << 20); [m.write(b"x" * (1 << 20)) for _ in range(600)]; time.sleep(90)',
        '[os.fork() for _ in range(4)]; b = bytearray(40 << 20); b[::4096] = b"x" * len(b[::4096]); time.sleep(90)',
    ],
)
def test_memory_is_limited(program):
    with open_sandbox(SandboxSpec(limits=Limits(memory_bytes=256 << 20))) as sandbox:
        started = time.monotonic()
        done = sandbox.run(['python3', '-c', f'import os, time; {program}'], timeout_s=60)
        assert done.out_of_memory or b'MemoryError' in done.output
        assert time.monotonic() - started < 30
        assert sandbox.run('echo alive').text == 'alive\n'


def test_memory_that_is_shared_counts_once():
    program = (
        'import os, time\nb = bytearray(80 << 20)\nb[::4096] = b"x" * len(b[::4096])\n'
        'for _ in range(6):\n  if not os.fork(): time.sleep(0.6); os._exit(0)\ntime.sleep(0.5); print("fine")'
    )
    with open_sandbox(SandboxSpec(limits=Limits(memory_bytes=256 << 20))) as sandbox:
        assert sandbox.run(['python3', '-c', program]).text == 'fine\n'


def test_memory_that_no_process_holds_is_refused(sandbox):
    code = (
        'import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n'
        'for number in (319, 29, 68, 64) if os.uname().machine == "x86_64" else (279, 194, 186, 190):\n'
        '  print(libc.syscall(number, b"x", 4096, 0o1600), os.strerror(ctypes.get_errno()))\n'
    )
    assert sandbox.run(['python3', '-c', code]).text == '-1 Function not implemented\n' * 4


def test_threads_and_large_reservations_work(sandbox):
    code = (
        'import threading, mmap\n'
        'm = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0)\n'
        'b = threading.Barrier(60)\nt = [threading.Thread(target=b.wait) for _ in range(60)]\n'
        '[x.start() for x in t]; [x.join() for x in t]; print("ok")'
    )
    assert sandbox.run(['python3', '-c', code]).text == 'ok\n'


def test_a_channel_is_private_and_two_way(sandbox):
    echo = (
        'import os\nline = int(os.environ["RLVR_CHANNEL"])\ndata = b""\n'
        'while chunk := os.read(line, 65536):\n  data += chunk\n'
        'print(len(data))\n'
        'view = memoryview(data[::-1])\nwhile view:\n  view = view[os.write(line, view):]\n'
    )
    data = bytes(range(256)) * 4096
    done = sandbox.run(['python3', '-c', echo], channel=data)
    assert done.text == f'{len(data)}\n'
    assert done.channel == data[::-1]
    assert sandbox.run('env | grep RLVR').exit_code == 1
    assert sandbox.run('echo "[$RLVR_CHANNEL]"; cat <&3; echo out >&3', channel=b'in').text == '[3]\nin'


def test_a_channel_that_is_flooded_ignored_or_closed(sandbox):
    assert len(sandbox.run('yes >&3', channel=b'', timeout_s=1).channel) == 4 * 1024 * 1024
    assert sandbox.run('true', channel=b'x' * 3_000_000).exit_code == 0
    assert sandbox.run('exec 3>&-; sleep 0.1; echo ok', channel=b'x' * 3_000_000).text == 'ok\n'
    done = sandbox.run('(echo a; sleep 9) >&3 & sleep 0.1; echo b >&3', channel=b'')
    assert done.channel == b'a\nb\n'


def test_a_channel_cannot_be_opened_by_others(sandbox):
    done = sandbox.run('(sleep 0.2; exec 3>&-; echo x > /proc/$$/fd/3) & wait; echo $?', channel=b'')
    assert done.channel == b''


def test_calls_are_serialised(sandbox):
    results = []
    threads = [
        threading.Thread(
            target=lambda n=n: results.append(sandbox.run(f'echo {n} > f; sleep 0.01; cat f').text == f'{n}\n')
        )
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 12


def test_close_in_the_middle_of_a_command():
    sandbox = open_sandbox()
    errors = []

    def run():
        try:
            sandbox.run(f'sleep {MARK.decode()}')
        except SandboxError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while not running(MARK):
        time.sleep(0.01)
    started = time.monotonic()
    sandbox.close()
    thread.join()
    assert time.monotonic() - started < 20
    assert errors == ['the sandbox is closed']
    assert not running(MARK)
    sandbox.close()
    with pytest.raises(SandboxError, match='closed'):
        sandbox.run('true')


def test_a_studio_without_a_terminal():
    code = (
        'from trainer.sandbox import open_sandbox\n'
        'with open_sandbox() as s: print(s.run("cat; read x; echo done", timeout_s=5).text, end="")'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=True
    )
    assert (done.stdout, done.stderr) == (b'done\n', b'')
