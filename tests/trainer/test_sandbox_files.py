"""The file tools of a sandbox: paths that leave the workspace, odd files, links that change while they are read."""

import os
import threading
import time

import pytest

from trainer.sandbox import Limits, PathRefused, SandboxSpec, open_sandbox


@pytest.fixture(params=['bubblewrap', 'unsafe'])
def sandbox(request):
    with open_sandbox(isolation=request.param) as made:
        yield made


def test_write_read_list(sandbox):
    assert sandbox.list_dir() == []
    sandbox.write_file('a/b/c.txt', b'one')
    sandbox.write_file('a/b/c.txt', b'two')
    sandbox.write_file('./a//./d.txt', b'')
    assert sandbox.read_file('a/b/c.txt') == b'two'
    assert sandbox.read_file('a/b/../b/c.txt') == b'two'
    assert sandbox.read_file(sandbox.where('/work/a/b/c.txt')) == b'two'
    assert sandbox.list_dir('a') == ['b/', 'd.txt']
    assert sandbox.list_dir('.') == ['a/']
    assert sandbox.run('cat a/b/c.txt; stat -c %a a/b/c.txt').text == 'two644\n'


def test_a_mode_is_kept_and_a_large_file_passes(sandbox):
    sandbox.run('echo x > run.sh; chmod 755 run.sh')
    data = os.urandom(5_000_000)
    sandbox.write_file('run.sh', data)
    assert sandbox.run('stat -c %a run.sh').text == '755\n'
    assert sandbox.read_file('run.sh', limit=6_000_000) == data
    assert sandbox.read_file('run.sh', limit=10) == data[:10]
    assert sandbox.read_file('run.sh') == data[: 1024 * 1024]


@pytest.mark.parametrize(
    'path',
    [
        '../outside.txt',
        'a/../../b',
        '/tmp/abs.txt',
        '/etc/x',
        'a/../../../etc/x',
        'to_tmp/x',
        'to_root/tmp/x',
        'to_file',
        'loop',
        'loop/x',
        'nowhere',
        '',
        '.',
        '..',
        'dir/',
        'dir',
        'dir/..',
        'file/x',
        'fifo',
        'x' * 300,
        'x/' * 3000 + 'x',
        'nul\0byte',
        '/proc/self/environ',
        'proc/self/environ',
    ],
)
def test_refused_paths_change_nothing(sandbox, path, tmp_path):
    sandbox.run(
        'mkdir dir; echo x > file; mkfifo fifo; ln -s /tmp to_tmp; ln -s / to_root; ln -s /etc/passwd to_file;'
        'ln -s loop loop; ln -s missing nowhere; ln -s /proc proc'
    )
    before = sandbox.run('find . /tmp -maxdepth 1 | grep -v rlvr | sort').text
    with pytest.raises(PathRefused):
        sandbox.write_file(path, b'data')
    assert sandbox.run('find . /tmp -maxdepth 1 | grep -v rlvr | sort').text == before
    if path not in {'.', 'dir', 'dir/', 'dir/..'}:
        with pytest.raises(PathRefused):
            sandbox.list_dir(path)
    with pytest.raises(PathRefused):
        sandbox.read_file(path)


def test_links_that_stay_inside_are_followed(sandbox):
    sandbox.write_file('real/file', b'one')
    sandbox.run(
        'ln -s real folder; ln -s real/file relative; ln -s "$PWD/real/file" absolute; ln -s ../real/file real/up'
    )
    for path in ('folder/file', 'relative', 'absolute', 'real/up', 'folder/../real/file'):
        assert sandbox.read_file(path) == b'one', path
    sandbox.write_file('relative', b'two')
    sandbox.write_file('folder/new', b'three')
    assert sandbox.run('test -L relative && cat real/file real/new').text == 'twothree'
    assert sandbox.list_dir('folder') == ['file', 'new', 'up']


def test_files_that_would_block_or_never_end(sandbox):
    sandbox.run('mkfifo fifo; truncate -s 200M sparse; ln -s /dev/zero zero; ln -s /dev/tty tty')
    started = time.monotonic()
    for path in ('fifo', 'zero', 'tty', '/dev/zero'):
        with pytest.raises(PathRefused):
            sandbox.read_file(path)
    assert sandbox.read_file('sparse', limit=100) == bytes(100)
    assert time.monotonic() - started < 20


def test_names_and_modes_that_are_odd(sandbox):
    sandbox.run("touch -- -rf 'new\nline' \"$(printf 'bad\\377')\" ' '; mkdir closed; echo x > no; chmod 000 closed no")
    names = sandbox.list_dir()
    assert sorted(names) == sorted(['-rf', 'new\nline', 'bad\udcff', ' ', 'closed/', 'no'])
    for name in ('-rf', 'new\nline', 'bad\udcff', ' '):
        sandbox.write_file(name, b'x')
        assert sandbox.read_file(name) == b'x'
    if sandbox.run('id -u').text != '0\n':
        for path in ('no', 'closed/x'):
            with pytest.raises(PathRefused, match='permission denied'):
                sandbox.read_file(path)
    sandbox.run('chmod 755 closed')


def test_a_folder_with_very_many_names(sandbox):
    sandbox.run('mkdir many; cd many; seq 6000 | xargs touch')
    names = sandbox.list_dir('many')
    assert len(names) == 5001
    assert names[-1] == '… and 1000 more'


def test_a_write_that_does_not_fit_leaves_the_old_file():
    limits = Limits(disk_bytes=4 << 20, file_bytes=2 << 20)
    with open_sandbox(SandboxSpec(limits=limits)) as sandbox:
        sandbox.write_file('a', b'old')
        with pytest.raises(PathRefused, match='larger'):
            sandbox.write_file('a', bytes(3 << 20))
        sandbox.run('head -c 2M /dev/urandom > x; head -c 1900K /dev/urandom > y')
        with pytest.raises(PathRefused, match='no space left'):
            sandbox.write_file('a', bytes(1 << 20))
        assert sandbox.read_file('a') == b'old'
        assert sandbox.list_dir() == ['a', 'x', 'y']


def test_a_workspace_without_rights(sandbox):
    sandbox.run('chmod 000 .')
    if sandbox.run('id -u').text != '0\n':
        with pytest.raises(PathRefused, match='permission denied'):
            sandbox.write_file('a', b'')
        with pytest.raises(PathRefused, match='permission denied'):
            sandbox.list_dir()
    assert sandbox.run('chmod 755 "$PWD"; echo ok').text == 'ok\n'


def test_a_link_that_flips_between_inside_and_outside(sandbox, tmp_path):
    """Another call swaps the link while files are read: never is anything from outside returned."""
    secret = tmp_path / 'secret'
    secret.write_text('HOST SECRET')
    sandbox.write_file('ok', b'fine')
    if sandbox.name == 'unsafe':
        # Without isolation a process can go on flipping between calls only as long as a command runs: use our own.
        place = sandbox.where('/work')
        stop = threading.Event()

        def flip():
            while not stop.is_set():
                for target in ('ok', str(secret)):
                    os.symlink(target, f'{place}/t')
                    os.rename(f'{place}/t', f'{place}/f')

        thread = threading.Thread(target=flip)
        thread.start()
    seen = set()
    for number in range(2000):
        if sandbox.name != 'unsafe' and number % 100 == 0:
            sandbox.run(f'ln -sfn {secret if number % 200 else "ok"} f')
        try:
            seen.add(sandbox.read_file('f'))
        except PathRefused:
            seen.add(None)
    if sandbox.name == 'unsafe':
        stop.set()
        thread.join()
    assert seen == {b'fine', None}
