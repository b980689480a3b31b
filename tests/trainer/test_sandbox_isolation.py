"""What code inside a bubblewrap sandbox cannot do: each test adversarially checks one property."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trainer.errors import SandboxUnavailable
from trainer.sandbox import Limits, SandboxSpec, bubblewrap, open_sandbox
from trainer.sandbox.inside import frames
from trainer.sandbox.probe import probe
from trainer.sandbox.seccomp import seccomp_program


@pytest.fixture
def sandbox():
    with open_sandbox() as made:
        yield made


@pytest.fixture
def open_folder():
    """A folder that everybody can read: as root, bubblewrap is started as somebody else."""
    with tempfile.TemporaryDirectory(prefix='rlvr-test-') as name:
        Path(name).chmod(0o755)
        yield Path(name)


def python(sandbox, code, **options):
    return sandbox.run(['python3', '-c', code], **options)


@pytest.mark.parametrize('first', [None, ()], ids=['setpriv', 'without setpriv'])
def test_it_never_runs_as_root(monkeypatch, first):
    if first is not None:
        monkeypatch.setattr(bubblewrap, '_becoming_nobody', lambda: first)
    with open_sandbox() as sandbox:
        text = Path(f'/proc/{sandbox._launched.process.pid}/status').read_text(encoding='utf-8')
    status = dict(line.split(':', 1) for line in text.splitlines())
    assert '0' not in status['Uid'].split() + status['Gid'].split()
    if os.geteuid() == 0:
        assert status['Groups'].split() == []


def test_the_probe_proves_it():
    report = probe()
    assert [row.name for row in report.rows if not row.ok] == []
    assert report.proven
    assert report.name == 'bubblewrap'
    assert report.fix == ''
    assert len(report.rows) == 15
    assert report.duration_ms < 60_000


def test_the_probe_tells_the_truth_about_none():
    report = probe('unsafe')
    assert not report.proven
    failed = {row.name for row in report.rows if not row.ok}
    assert {'no network', 'no host files', 'no new namespaces', 'no privileges'} <= failed
    assert report.fix


def test_without_bubblewrap_there_is_a_fix_and_no_fallback(monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, 'which', lambda name, path: None)
    with pytest.raises(SandboxUnavailable, match='not installed') as caught:
        open_sandbox()
    assert 'apt-get install bubblewrap' in caught.value.hint
    report = probe()
    assert not report.proven
    assert 'apt-get install bubblewrap' in report.fix


@pytest.mark.parametrize(
    ('said', 'fix'),
    [
        ('bwrap: setting up uid map: Permission denied', '/etc/apparmor.d/bwrap'),
        ('bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted', '/etc/apparmor.d/bwrap'),
        ('bwrap: No permissions to create new namespace, likely because …', 'unprivileged_userns_clone'),
        ('bwrap: Creating new namespace failed: Operation not permitted', '--security-opt'),
        ('bwrap: Failed to make / slave: Permission denied', '--security-opt seccomp=unconfined'),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", 'systempaths=unconfined'),
    ],
)
def test_a_bubblewrap_that_may_not_work_has_a_fix(monkeypatch, open_folder, said, fix):
    fake = open_folder / 'bwrap'
    fake.write_text(f'#!/bin/sh\ncat >&2 <<"X"\n{said}\nX\nexit 1\n', encoding='utf-8')
    fake.chmod(0o755)
    monkeypatch.setattr(bubblewrap.shutil, 'which', lambda name, path: str(fake))
    with pytest.raises(SandboxUnavailable) as caught:
        open_sandbox()
    assert said.removeprefix('bwrap: ') in caught.value.message
    assert fix in caught.value.hint


def test_secrets_of_the_studio_are_nowhere(tmp_path):
    """The studio runs with secrets in its environment; the sandbox looks for them in every place it can think of."""
    database = tmp_path / 'studio.db'
    database.write_text('DATABASE', encoding='utf-8')
    code = (
        'import sys\nfrom trainer.sandbox import open_sandbox\n'
        'with open_sandbox() as s:\n'
        "  print(s.run(\"env; cat /proc/$PPID/environ /proc/*/environ | tr '\\\\0' '\\\\n'; cat /proc/*/cmdline;"
        f' ls ~; cat ~/.cache/huggingface/token; cat {database}; ls -a /root /home; cat /etc/passwd").text)'
    )
    secrets = {
        'HF_TOKEN': 'SECRET_A',
        'WANDB_API_KEY': 'SECRET_B',
        'MY_ODD_NAME': 'SECRET_C',
        'SSH_AUTH_SOCK': '/tmp/xyz',
    }
    done = subprocess.run(
        [sys.executable, '-c', code], env=dict(os.environ) | secrets, capture_output=True, text=True, check=True
    )
    assert 'HOME=/work\n' in done.stdout
    for secret in ('SECRET', '/tmp/xyz', 'DATABASE', os.getcwd(), 'bwrap'):
        assert secret not in done.stdout
    assert 'agent:x:1000' in done.stdout


def test_the_command_server_cannot_be_touched(sandbox):
    text = sandbox.run(
        'cat /proc/1/environ; cat /proc/1/mem; ls /proc/1/fd; echo x > /proc/1/fd/3; echo 0 > /proc/1/oom_score_adj;'
        'echo x > /proc/1/mem; cat /proc/1/maps; prlimit --pid 1 --nofile=1 && echo limited'
    ).text
    assert text.count('ermission denied') >= 7, text
    assert 'limited' not in text
    for name in ('KILL', 'STOP', 'INT', 'TERM', 'HUP', 'CHLD', 'PIPE', 'QUIT', 'USR1', 'SEGV', 'XCPU', 'ALRM'):
        sandbox.run(f'kill -{name} 1')
    sandbox.run('kill -9 -1')
    assert sandbox.run('echo alive').text == 'alive\n'


def test_the_system_is_read_only_and_every_writable_place_has_a_size():
    limits = Limits(disk_bytes=8 << 20, file_bytes=200 << 20)
    with open_sandbox(SandboxSpec(limits=limits)) as sandbox:
        done = sandbox.run(
            'for d in / /usr /usr/bin /etc /dev /run /var /proc /sys /home /opt /run/rlvr /run/rlvr/inside; do'
            ' touch $d/x 2>/dev/null && echo "wrote to $d"; done;'
            'for d in /work /tmp /var/tmp /dev/shm; do'
            ' rm -f $d/*; head -c 150M /dev/zero > $d/x; stat -c "$d %s" $d/x; done'
        )
    sizes = dict(line.rsplit(' ', 1) for line in done.text.splitlines() if line.startswith('/'))
    assert 'wrote to' not in done.text
    assert {place: int(size) <= 64 << 20 for place, size in sizes.items()} == dict.fromkeys(sizes, True)
    assert int(sizes['/work']) == 8 << 20
    assert len(sizes) == 4
    assert done.text.count('No space left') == 4


def test_a_terabyte_and_very_many_files():
    with open_sandbox() as sandbox:
        done = sandbox.run('truncate -s 1T huge; echo "$?"')
        assert done.text.splitlines()[-1] != '0'
        done = sandbox.run(['python3', '-c', 'for n in range(10**6): open(f"f{n}", "x").close()'], timeout_s=20)
        assert done.too_many_files
        assert int(sandbox.run('ls -f | wc -l', timeout_s=20).text) < 200_000
        # A command that cleans up is not ended for what is left of the mess.
        assert sandbox.run('find . -name "f*" -delete; ls -a', timeout_s=20).text.split() == ['.', '..', 'huge']


def test_calls_into_the_kernel_are_refused(sandbox):
    text = sandbox.run(
        'unshare -Ur true; unshare -n true; mount -t tmpfs x /tmp; chroot / true; date -s 2000-01-01; hostname x; dmesg'
        '; echo 1 > /proc/sys/kernel/hostname; nsenter -t 1 -m true'
    ).text
    assert len(text.splitlines()) >= 9, text
    code = (
        'import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n'
        'def call(*a):\n  r = libc.syscall(*a)\n  return errno.errorcode.get(ctypes.get_errno(), r) if r < 0 else r\n'
        'print(call(425, 1, ctypes.create_string_buffer(120)), call(101, 0, 0, 0, 0), call(321, 0, 0, 0),\n'
        '  call(323, 0), call(435, 0, 0), call(56, 0x10000000 | 17, 0), call(250, 0, 0), call(308, 0, 0),\n'
        '  call(165, 0, 0, 0, 0, 0))'
    )
    if os.uname().machine == 'x86_64':
        assert python(sandbox, code).text.split() == ['EPERM'] * 4 + ['ENOSYS'] + ['EPERM'] * 4
    code = (
        'import fcntl, socket\n'
        'for family in (16, 17, 40, 38, 1, 2, 10):\n'
        '  try: socket.socket(family, socket.SOCK_DGRAM); print(family, "ok")\n'
        '  except OSError as e: print(family, e.errno)\n'
    )
    assert python(sandbox, code).text.split('\n')[:7] == ['16 97', '17 97', '40 97', '38 97', '1 ok', '2 ok', '10 ok']


def test_foreign_system_calls_are_refused():
    for machine in ('x86_64', 'aarch64'):
        program = seccomp_program(machine)
        assert len(program) % 8 == 0
        assert 100 < len(program) // 8 < 4096
    with pytest.raises(SandboxUnavailable, match='riscv64'):
        seccomp_program('riscv64')


def test_no_network_but_a_loopback(sandbox):
    code = (
        'import socket\n'
        'for family, kind, to in ((2, 1, ("1.1.1.1", 80)), (2, 2, ("8.8.8.8", 53)), (10, 1, ("2606:4700::1111", 80)),\n'
        '                         (10, 2, ("2001:4860:4860::8888", 53))):\n'
        '  try: socket.socket(family, kind).connect(to); print("reached", to)\n'
        '  except OSError as e: print(e.errno)\n'
        'try: socket.socket(2, 3, 1); print("raw")\nexcept OSError as e: print(e.errno)\n'
        's = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname()); print("loopback")'
    )
    assert python(sandbox, code).text.split() == ['101', '101', '101', '101', '1', 'loopback']


def test_sockets_of_the_host_are_out_of_reach(sandbox, tmp_path):
    abstract = f'\0rlvr-test-{os.getpid()}'
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(tmp_path / 'docker.sock'))
        other.bind(abstract)
        one.listen()
        other.listen()
        places = (str(tmp_path / 'docker.sock'), abstract, '/var/run/docker.sock', '/tmp/.X11-unix/X0')
        code = (
            f'import socket\nfor place in {places!r}:\n'
            '  try: socket.socket(socket.AF_UNIX).connect(place); print("reached")\n'
            '  except OSError as e: print(e.errno)\n'
        )
        assert python(sandbox, code).text.split() == ['2', '111', '2', '2']


def test_two_sandboxes_do_not_see_each_other(sandbox):
    with open_sandbox() as other:
        sandbox.run('echo mine > /work/a; echo mine > /tmp/a; echo mine > /dev/shm/a')
        text = other.run('ls /work /tmp /dev/shm; ls -d /proc/[0-9]* | wc -l; kill -9 -1').text
        assert 'a' not in text.replace('/dev/shm', '').replace('/tmp', '').replace('/work', '').split()
        assert sandbox.run('cat /work/a').text == 'mine\n'


def test_setuid_programs_give_nothing(sandbox):
    done = sandbox.run(
        'cp /usr/bin/id . && chmod 6755 id && ./id -u; sudo -n id; su -c id; grep -h NoNewPrivs /proc/self/status'
    )
    assert done.text.startswith('1000\n')
    assert 'uid=0' not in done.text
    assert 'NoNewPrivs:\t1' in done.text
    assert 'nosuid' in sandbox.run('grep " /work " /proc/self/mounts').text


def test_it_runs_as_an_ordinary_user_even_for_root(sandbox):
    sandbox.run('echo x > f')
    inside = sandbox.run('id -u; id -G; cat /proc/self/uid_map').text.split()
    assert inside[:2] == ['1000', '1000']
    # The limit on processes does not bind root: that it binds here is the proof.
    code = (
        'import os, signal\nn = 0\ntry:\n  while n < 400:\n    if not os.fork(): signal.pause()\n    n += 1\n'
        'except OSError:\n  print("stopped")'
    )
    assert python(sandbox, code).text == 'stopped\n'


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can show files that only root may read')
def test_mounts_that_only_root_may_read_are_shown(tmp_path):
    from trainer.sandbox import Mount

    private = tmp_path / 'private'
    private.mkdir(mode=0o700)
    (private / 'inner').mkdir(mode=0o700)
    (private / 'inner' / 'file').write_text('trusted', encoding='utf-8')
    (private / 'inner' / 'file').chmod(0o600)
    os.utime(private / 'inner' / 'file', (1000, 1000))
    (private / 'link').symlink_to('inner/file')
    before = {path: path.lstat().st_mode for path in private.rglob('*')}
    spec = SandboxSpec(mounts=(Mount(private, '/checker'), Mount(private / 'inner' / 'file', '/one')))
    with open_sandbox(spec) as sandbox:
        assert sandbox.run('cat /checker/inner/file /checker/link /one').text == 'trusted' * 3
        assert sandbox.run('stat -c %Y /checker/inner/file /one').text == '1000\n1000\n'
        assert sandbox.run('touch /checker/x || touch /checker/inner/file || echo x > /one').exit_code != 0
    assert {path: path.lstat().st_mode for path in private.rglob('*')} == before


def test_mounts_are_read_only(tmp_path):
    from trainer.sandbox import Mount

    (tmp_path / 'a').write_text('x', encoding='utf-8')
    with open_sandbox(SandboxSpec(mounts=(Mount(tmp_path, '/checker/tests'),))) as sandbox:
        assert sandbox.run('cat /checker/tests/a').text == 'x'
        assert sandbox.run('echo y > /checker/tests/a').exit_code != 0
        assert sandbox.run('rm -rf /checker').exit_code != 0
        assert sandbox.where('/checker/tests/a') == '/checker/tests/a'
    assert (tmp_path / 'a').read_text(encoding='utf-8') == 'x'


def test_frames_survive_what_they_carry():
    fields = [b'', b'\0', b'x' * 70_000]
    assert frames.unpack(frames.pack(fields)) == fields
    for bad in (b'\0\0', b'\0\0\0\5abc', b'\xff\xff\xff\xff'):
        with pytest.raises(frames.BrokenFrame):
            frames.unpack(bad)
    with pytest.raises(frames.BrokenFrame):
        frames.frame(b'R', [bytes(frames.MAX_FRAME)])


def test_debian_has_what_these_tests_use():
    assert all(shutil.which(name) for name in ('bwrap', 'setsid', 'unshare', 'prlimit', 'pgrep'))
