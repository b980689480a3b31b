"""Workspaces that leave a sandbox and enter the next one: what is kept, what is left out, and liars."""

import os
import stat
import time

import pytest

from trainer.errors import SandboxError
from trainer.sandbox import Limits, SandboxSpec, open_sandbox
from trainer.sandbox.inside.tree import BadRecord, TooLarge, TreeWriter, read_tree
from trainer.sandbox.snapshot import copy_workspace


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / 'snapshot'
    folder.mkdir()
    return folder


def found(folder):
    """Every path below a folder with what it is: mode of a folder, content of a file, target of a link."""
    seen = {}
    for above, folders, files in os.walk(os.fsencode(folder)):
        for name in folders + files:
            path = os.path.join(above, name)
            shown = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            if os.path.islink(path):
                seen[shown] = '-> ' + os.fsdecode(os.readlink(path))
            elif os.path.isdir(path):
                seen[shown] = oct(stat.S_IMODE(os.stat(path).st_mode))
            else:
                with open(path, 'rb') as file:
                    seen[shown] = file.read()
    return seen


@pytest.mark.parametrize('isolation', ['bubblewrap', 'unsafe'])
def test_what_is_kept_and_what_is_not(target, isolation):
    sandbox = open_sandbox(isolation=isolation)
    sandbox.run(
        'mkdir -p a/b empty; echo one > a/b/f; printf x > run; chmod 6755 run; ln run hard; mkfifo fifo;'
        ' python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'sock\')"; mkdir closed; echo in > closed/f;'
        ' echo no > no; chmod 000 no closed; touch -- -rf "new\nline" "$(printf "bad\\377")"'
    )
    sandbox.run(
        'ln -s a/b/f good; ln -s "$PWD/a" absolute; ln -s missing dangling; ln -s ../run a/up; ln -s . here;'
        ' ln -s /etc/passwd passwd; ln -s ../../etc out; ln -s here/.. sly; ln -s here/here/../.. slier; ln -s / root;'
        ' ln -s a/b/../../../etc deep; ln -s loop loop; ln -s /proc/self/root/etc proc; ln -s /nowhere nowhere'
    )
    sandbox.snapshot(target)
    assert found(target) == {
        'a': '0o755',
        'a/b': '0o755',
        'a/b/f': b'one\n',
        'a/up': '-> ../run',
        'absolute': '-> a',
        'bad\udcff': b'',
        'closed': '0o700',
        'closed/f': b'in\n',
        'dangling': '-> missing',
        'empty': '0o755',
        'good': '-> a/b/f',
        'hard': b'x',
        'here': '-> .',
        'new\nline': b'',
        'no': b'no\n',
        'run': b'x',
        '-rf': b'',
    }
    assert stat.S_IMODE((target / 'run').stat().st_mode) == 0o755
    left_out = {line.split(':')[0] for line in sandbox.left_out}
    assert left_out == {
        *('fifo', 'sock', 'passwd', 'out', 'sly', 'slier', 'root', 'deep', 'loop', 'proc', 'nowhere'),
    }
    with pytest.raises(SandboxError, match='closed'):
        sandbox.run('true')


def test_nobody_writes_while_it_is_taken(target):
    sandbox = open_sandbox()
    sandbox.run('mkfifo result.txt; (setsid sh -c "while :; do echo 42 > result.txt; done" &); sleep 0.1')
    sandbox.snapshot(target)
    assert found(target) == {}


def test_a_workspace_without_rights_and_one_that_is_too_deep(target):
    sandbox = open_sandbox()
    code = 'import os\nopen("top", "w").write("x")\nfor _ in range(5000):\n  os.mkdir("d"); os.chdir("d")'
    sandbox.run(['python3', '-c', code])
    sandbox.run('chmod 000 .')
    sandbox.snapshot(target)
    seen = found(target)
    assert seen['top'] == b'x'
    assert len(seen) == 64
    assert [line.rsplit(':')[1] for line in sandbox.left_out] == [' too many levels']


def test_holes_cost_nothing_and_caps_hold(target):
    limits = Limits(disk_bytes=8 << 20, file_bytes=256 << 20, inodes=50)
    sandbox = open_sandbox(SandboxSpec(limits=limits))
    sandbox.run('truncate -s 200M sparse; echo end >> sparse; for n in $(seq 40); do truncate -s 200M s$n; done')
    started = time.monotonic()
    sandbox.snapshot(target)
    assert time.monotonic() - started < 20
    assert (target / 'sparse').stat().st_size == (200 << 20) + 4
    assert sum(place.stat().st_blocks for place in target.iterdir()) * 512 < 8 << 20


def test_what_goes_over_a_cap_is_left_out(target, tmp_path):
    source = tmp_path / 'source'
    source.mkdir()
    for name, size in (('a', 600), ('b', 600), ('c', 5000), ('d', 10)):
        (source / name).write_bytes(b'x' * size)
    left_out = copy_workspace(source, target, limits=Limits(disk_bytes=1000, file_bytes=2000, inodes=3))
    assert set(found(target)) == {'a'}
    assert left_out == (
        'b: too large together with the files before it',
        'c: too large',
        'd: too many files',
    )


@pytest.mark.parametrize('isolation', ['bubblewrap', 'unsafe'])
def test_a_snapshot_starts_the_next_sandbox(target, isolation):
    with open_sandbox(isolation=isolation) as first:
        first.run(
            'mkdir d; head -c 700000 /dev/urandom > d/f; ln -s d/f l; chmod 700 d/f; touch "odd\nname";'
            ' sha256sum d/f > s'
        )
        first.snapshot(target)
    with open_sandbox(SandboxSpec(workspace=target), isolation=isolation) as second:
        done = second.run('sha256sum -c s; stat -c %a d/f; cat l | wc -c; ls -A | wc -l; echo new > d/f')
        assert done.text == 'd/f: OK\n700\n700000\n5\n'
    assert (target / 'd' / 'f').stat().st_size == 700000


def test_a_folder_that_does_not_fit_is_refused(tmp_path):
    (tmp_path / 'big').write_bytes(bytes(range(256)) * 8192)
    for limits in (Limits(disk_bytes=1 << 20), Limits(file_bytes=1 << 20)):
        with pytest.raises(SandboxError, match=r'does not fit.*big: too large'):
            open_sandbox(SandboxSpec(limits=limits, workspace=tmp_path))
    with pytest.raises(SandboxError, match='cannot be copied into the sandbox'):
        open_sandbox(SandboxSpec(workspace=tmp_path / 'missing'))


def test_a_target_that_cannot_be_written(tmp_path):
    with open_sandbox() as sandbox:
        sandbox.write_file('a', b'x')
        with pytest.raises(SandboxError, match='cannot be written to'):
            sandbox.snapshot(tmp_path / 'missing')


LIES = [
    [b'f', b'../x', b'420', b'1'],
    [b'f', b'/etc/x', b'420', b'1'],
    [b'f', b'a//b', b'420', b'1'],
    [b'f', b'.', b'420', b'1'],
    [b'f', b'', b'420', b'1'],
    [b'f', b'a\0b', b'420', b'1'],
    [b'd', b'/'.join([b'd'] * 65), b'493'],
    [b'd', b'x' * 5000, b'493'],
    [b'f', b'known', b'420', b'1'],
    [b'f', b'x', b'mode', b'1'],
    [b'f', b'x'],
    [b'x', b'-1', b'data'],
    [b'x', b'8', b'data'],
    [b'x', b'9' * 30, b'data'],
    [b'l', b'x', b'a\0b'],
    [b'?', b'x'],
    [b'd'],
    [],
]


@pytest.mark.parametrize('record', LIES)
def test_records_of_a_liar_write_nothing(target, record):
    writer = TreeWriter(str(target), max_bytes=100, max_file=100, max_entries=10, strict=False)
    writer.add([b'f', b'known', b'420', b'10'])
    with pytest.raises(BadRecord):
        writer.add(record)
    writer.close()
    assert found(target) == {'known': bytes(10)}


def test_a_liar_cannot_go_on_for_ever(target):
    writer = TreeWriter(str(target), max_bytes=100, max_file=100, max_entries=10, strict=False)
    with pytest.raises(BadRecord, match='far more paths'):
        for number in range(10_000):
            writer.add([b's', b'%d' % number, b'no reason'])
    writer.close()


def test_very_many_files_are_cut_off_and_not_an_error(target):
    with open_sandbox(SandboxSpec(limits=Limits(inodes=300))) as sandbox:
        sandbox.run('seq 5000 | xargs touch')
        sandbox.snapshot(target)
    assert len(found(target)) == 300
    assert len(sandbox.left_out) == 1
    assert 'too many files' in sandbox.left_out[0]


def test_a_file_below_a_link_or_below_nothing_is_left_out(target, tmp_path):
    writer = TreeWriter(str(target), max_bytes=100, max_file=100, max_entries=10, strict=False)
    writer.add([b'l', b'link', os.fsencode(tmp_path)])
    writer.add([b'f', b'link/x', b'420', b'1'])
    writer.add([b'f', b'nothing/x', b'420', b'1'])
    writer.add([b'x', b'0', b'1'])
    writer.finish()
    writer.close()
    writer.close()
    assert found(target) == {}


def test_strict_writers_say_what_is_too_large(target):
    writer = TreeWriter(str(target), max_bytes=10, max_file=100, max_entries=1, strict=True)
    with pytest.raises(TooLarge, match='f: too large'):
        writer.add([b'f', b'f', b'420', b'101'])
    with pytest.raises(TooLarge, match='g: too many files'):
        writer.add([b'f', b'g', b'420', b'1'])
    writer.close()


def test_modes_of_a_tree_that_is_read_are_what_they_were(tmp_path):
    (tmp_path / 'f').touch(mode=0o640)
    before = (tmp_path / 'f').stat().st_mode
    assert [record[0] for record in read_tree(str(tmp_path), 10)] == [b'f']
    assert (tmp_path / 'f').stat().st_mode == before
