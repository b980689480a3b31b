"""Properties that hold for any input: path rules, sanitised copies, the output cap, and tools that always answer."""

import os
import posixpath
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.paths import MAX_PATH_CHARS, MAX_PATH_DEPTH, workspace_path
from trainer.sandbox import Limits, SandboxSpec, open_sandbox
from trainer.sandbox.inside.commands import Output
from trainer.sandbox.snapshot import copy_workspace
from trainer.tools import MAX_ANSWER_CHARS, TOOL_NAMES, call_tool

PLAIN = settings(deadline=None, max_examples=300)
TREES = settings(deadline=None, max_examples=60)
SANDBOXED = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

MARK = b'\n[\xe2\x80\xa6 cut, %d bytes \xe2\x80\xa6]\n'

path_like = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(['..', '.', '', 'a', 'b c', '~', '-rf', 'ü', '\n', 'C:', '...', '\\']), max_size=8).map(
        '/'.join
    ),
    st.text(alphabet='a./\\~\0: ', max_size=600),
)


@PLAIN
@given(path_like, st.booleans())
def test_a_path_that_is_accepted_stays_inside_and_has_one_spelling(text, folder):
    try:
        path = workspace_path(text, folder=folder)
    except ValueError as error:
        assert str(error)
        return
    assert workspace_path(path, folder=folder) == path
    assert len(path) <= MAX_PATH_CHARS
    assert '\0' not in path
    assert path.endswith('/') == (folder and text.endswith('/'))
    plain = path.rstrip('/')
    assert posixpath.normpath(posixpath.join('/work', text)) == posixpath.join('/work', plain)
    parts = plain.split('/')
    assert 1 <= len(parts) <= MAX_PATH_DEPTH
    assert not {'', '.', '..'} & set(parts)


@PLAIN
@given(st.lists(st.sampled_from(['a', '.', '', '..', 'b']), min_size=1, max_size=10), st.data())
def test_a_path_with_a_way_up_is_never_accepted(parts, data):
    place = data.draw(st.integers(0, len(parts)))
    with pytest.raises(ValueError, match=r'inside the workspace|names a folder'):
        workspace_path('/'.join([*parts[:place], '..', *parts[place:]]))


names = st.one_of(
    st.sampled_from([b'a', b'b', b'c', b'-rf', b'new\nline', b'bad\xff', b' ', b'...', b'\xf0\x9f\x94\x84', b'*']),
    st.binary(min_size=1, max_size=12).filter(
        lambda name: b'/' not in name and b'\0' not in name and name not in (b'.', b'..')
    ),
)
modes = st.sampled_from([0o644, 0o755, 0o000, 0o4755, 0o2755, 0o6777, 0o400, 0o1777])
targets = st.one_of(
    st.lists(st.sampled_from([b'..', b'.', b'a', b'b', b'c']), min_size=1, max_size=6).map(b'/'.join),
    st.sampled_from(
        [b'/', b'/etc/passwd', b'OUTSIDE/secret', b'OUTSIDE/fifo', b'OUTSIDE', b'ROOT/a', b'ROOT/../x', b'/dev/zero']
    ),
    names,
)
entries = st.lists(
    st.tuples(
        st.sampled_from(['file', 'folder', 'folder', 'link', 'link', 'fifo', 'hard link']),
        st.lists(names, max_size=3),
        names,
        modes,
        st.binary(max_size=40),
        targets,
    ),
    max_size=14,
)


def make(kind, path, content, target, kept):
    """Make one entry; regular files are noted in ``kept``."""
    if kind == 'file':
        Path(os.fsdecode(path)).write_bytes(content)
        kept[path] = content
    elif kind == 'folder':
        os.mkdir(path)
    elif kind == 'fifo':
        os.mkfifo(path)
    elif kind == 'link':
        os.symlink(target, path)
    elif kept:
        first = next(iter(kept))
        os.link(first, path)
        kept[path] = kept[first]


def grow(root, outside, wanted):
    """Make the entries in ``root`` as far as they fit together; return the content of its regular files by path."""
    made = []
    kept = {}
    for kind, above, name, mode, content, target in wanted:
        folder = os.path.join(root, *above)
        path = os.path.join(folder, name)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:
            continue
        # Links on the way would make entries outside of the folder that is copied.
        if not os.path.realpath(path).startswith(os.path.realpath(root) + b'/') or os.path.lexists(path):
            continue
        make(kind, path, content, target.replace(b'OUTSIDE', outside).replace(b'ROOT', root), kept)
        made.append((path, mode))
    for path, mode in reversed(made):
        if os.path.lexists(path) and not os.path.islink(path):
            os.chmod(path, mode)
    real = {os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)): kept[path] for path in kept}
    return {os.path.relpath(path, os.path.realpath(root)): content for path, content in real.items()}


def check_copy(copy, kept):
    """Everything below ``copy`` is plain and stays there, and every regular file is there."""
    inside = os.path.realpath(copy)
    seen = {}
    for above, folders, files in os.walk(copy):
        for name in folders + files:
            path = os.path.join(above, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                assert not os.readlink(path).startswith(b'/')
                assert (os.path.realpath(path) + b'/').startswith(inside + b'/')
                continue
            assert not stat.S_IMODE(status.st_mode) & 0o7000
            if not stat.S_ISDIR(status.st_mode):
                assert stat.S_ISREG(status.st_mode)
                assert status.st_nlink == 1
                with open(path, 'rb') as file:
                    seen[os.path.relpath(path, copy)] = file.read()
    assert seen == kept


@pytest.fixture(scope='module')
def outside():
    """A host folder with a secret and a fifo that would block whoever opened it."""
    folder = tempfile.mkdtemp(prefix='rlvr-outside-')
    Path(folder, 'secret').write_bytes(b'SECRET')
    os.mkfifo(os.path.join(folder, 'fifo'))
    yield os.fsencode(folder)
    assert sorted(os.listdir(folder)) == ['fifo', 'secret']
    assert Path(folder, 'secret').read_bytes() == b'SECRET'
    shutil.rmtree(folder)


@TREES
@given(wanted=entries)
def test_a_copy_holds_the_files_and_nothing_that_leads_out(outside, wanted):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root, copy = os.path.join(os.fsencode(folder), b'source'), os.path.join(os.fsencode(folder), b'copy')
        os.mkdir(root)
        os.mkdir(copy)
        kept = grow(root, outside, wanted)
        copy_workspace(Path(os.fsdecode(root)), Path(os.fsdecode(copy)))
        check_copy(copy, kept)


@SANDBOXED
@given(wanted=entries)
def test_a_way_through_a_sandbox_holds_the_files_and_nothing_that_leads_out(outside, wanted):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root, first, copy = (os.path.join(os.fsencode(folder), name) for name in (b'source', b'first', b'copy'))
        for place in (root, first, copy):
            os.mkdir(place)
        kept = grow(root, outside, wanted)
        copy_workspace(Path(os.fsdecode(root)), Path(os.fsdecode(first)))
        with open_sandbox(SandboxSpec(workspace=Path(os.fsdecode(first)))) as sandbox:
            sandbox.snapshot(Path(os.fsdecode(copy)))
        check_copy(copy, kept)


def check_cut(text, cut, data, keep):
    """``text`` is ``data`` whole, or its true head and tail around a mark with the right number."""
    half = max(1, keep // 2)
    if len(data) <= 2 * half:
        assert (text, cut) == (data, 0)
        return
    assert cut == len(data) - 2 * half
    assert text == data[:half] + MARK % cut + data[-half:]
    assert len(text) <= max(2, keep) + len(MARK % cut)


@PLAIN
@given(st.binary(max_size=3000), st.integers(1, 400), st.integers(1, 700))
def test_the_cap_keeps_a_true_head_and_a_true_tail(data, keep, chunk):
    reader, writer = os.pipe()
    try:
        output = Output(reader, keep)
        for start in range(0, len(data), chunk):
            os.write(writer, data[start : start + chunk])
            assert output.read()
        os.close(writer)
        writer = -1
        output.drain()
        check_cut(output.text(), output.cut, data, keep)
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def test_the_cap_holds_memory_however_long_the_output_is():
    reader, writer = os.pipe()
    total = 8 << 20
    thread = threading.Thread(target=lambda: [os.write(writer, b'x' * 65536) for _ in range(total // 65536)])
    thread.start()
    output = Output(reader, 1000)
    while thread.is_alive() or output.cut < total - 300_000:
        output.read()
        assert len(output._head) + len(output._tail) <= 1500 + 2 * 65536
    os.close(writer)
    output.drain()
    os.close(reader)
    check_cut(output.text(), output.cut, b'x' * total, 1000)


@pytest.fixture(scope='module')
def sandbox():
    """A live sandbox with a small output cap, shared by the examples of a property."""
    with open_sandbox(SandboxSpec(limits=Limits(output_bytes=1000, command_s=2.0))) as made:
        yield made


@SANDBOXED
@given(head=st.binary(max_size=1500), count=st.integers(0, 200_000), tail=st.binary(max_size=1500))
def test_a_command_keeps_a_true_head_and_a_true_tail(sandbox, head, count, tail):
    data = head + b'm' * count + tail
    sandbox.write_file('out.bin', data)
    done = sandbox.run(['cat', 'out.bin'])
    assert done.exit_code == 0
    check_cut(done.output, done.cut_bytes, data, 1000)


arguments = st.one_of(
    st.dictionaries(
        st.sampled_from(['command', 'path', 'content', 'extra']),
        st.one_of(st.text(max_size=30), path_like, st.none(), st.integers(), st.lists(st.text(), max_size=2)),
        max_size=3,
    ),
    st.dictionaries(st.one_of(st.text(max_size=5), st.integers()), st.text(max_size=5), max_size=2),
    st.none(),
    st.text(max_size=5),
)


@settings(SANDBOXED, max_examples=150)
@given(name=st.one_of(st.sampled_from(TOOL_NAMES), st.text(max_size=8), st.none(), st.lists(st.text())), args=arguments)
def test_a_tool_answers_whatever_it_is_asked(sandbox, name, args):
    answer = call_tool(sandbox, name, args, timeout_s=1.0)
    assert len(answer.text) <= MAX_ANSWER_CHARS
    assert answer.text.encode()
    assert answer.ok or answer.text.startswith('error: ')


@settings(SANDBOXED, max_examples=100)
@given(tool=st.sampled_from(['read_file', 'write_file', 'list_dir']), path=path_like, content=st.text(max_size=30))
def test_a_file_tool_with_the_right_arguments_answers(sandbox, tool, path, content):
    args = {'path': path, 'content': content} if tool == 'write_file' else {'path': path}
    answer = call_tool(sandbox, tool, args)
    assert answer.ok or answer.text.startswith('error: ')
    if answer.ok and tool == 'write_file':
        again = call_tool(sandbox, 'read_file', {'path': path})
        assert again.ok


@settings(SANDBOXED, max_examples=60)
@given(command=st.text(max_size=30))
def test_any_text_as_a_command_answers(sandbox, command):
    answer = call_tool(sandbox, 'run_command', {'command': command}, timeout_s=1.0)
    assert answer.ok
    assert answer.text
