"""What commands leave in a sandbox, saved and carried over to another one."""

from collections.abc import Iterator

import pytest

from trainer.errors import SandboxError
from trainer.sandbox import Sandbox, SandboxSpec, open_sandbox
from trainer.sandbox.client import MAX_STATE_BYTES, MAX_STATE_ENTRIES
from trainer.sandbox.inside import frames
from trainer.sandbox.protocol import Limits, State
from trainer.sandbox.snapshot import write_workspace

pytestmark = pytest.mark.timeout(60)

LOOK = (
    'for place in /work /tmp /dev/shm; do cd $place; '
    "find . -printf '%y %m %s %n %T@ %b %p -> %l\\n'; ls -U; find . -type f -exec sha256sum {} +; done"
)
"""Everything about files that a command can see, but for the numbers of inodes and the times of their changes."""

LIVED_IN = (
    'mkdir -p deep/er empty; printf x > deep/er/f; printf "\\000\\377" > "odd \n name"; chmod 755 deep/er/f',
    'ln -s f deep/er/link; ln -s /usr/bin/env away; ln -s /work/deep absolute; ln -s nowhere dangling',
    'truncate -s 5M holes; printf end >> holes; chmod 640 deep/er/f; touch -d 2001-02-03T04:05:06.789 deep/er/f deep',
    'mkdir /tmp/t; echo 1 > /tmp/t/one; echo 2 > /dev/shm/two; touch -h -d 1999-01-01 dangling; chmod 700 empty',
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox() as made:
        yield made


def test_another_sandbox_goes_on_as_if_nothing_had_happened(sandbox: Sandbox) -> None:
    for command in LIVED_IN:
        assert sandbox.run(command).exit_code == 0
    before = sandbox.run(LOOK).text
    state = sandbox.save()
    assert state is not None
    # Saving changes nothing, and neither knows of the other.
    assert sandbox.run(LOOK).text == before
    with open_sandbox(SandboxSpec(state=state)) as other:
        assert other.run(LOOK).text == before
        assert other.run('cat deep/er/link /tmp/t/one /dev/shm/two').text == 'x1\n2\n'
        other.run('rm -rf /work/* /tmp/t')
        again = other.save()
    assert sandbox.run(LOOK).text == before
    assert again is not None
    assert again != state


def test_holes_cost_nothing(sandbox: Sandbox) -> None:
    sandbox.run('truncate -s 200M holes; printf end >> holes')
    state = sandbox.save()
    assert state is not None
    assert sum(len(part) for record in state.records for part in record) < 10_000
    with open_sandbox(SandboxSpec(state=state)) as other:
        assert other.run('stat -c %s holes; tail -c 3 holes').text == '209715203\nend'


@pytest.mark.parametrize(
    'command',
    [
        'mkfifo pipe',
        'touch one; ln one two',
        'mkdir barred; chmod 000 barred',
        'touch unreadable; chmod 044 unreadable',
        'cp /usr/bin/true own; chmod u+s own',
        'chmod 700 /work',
        'chmod 000 /tmp',
        'chmod 000 /dev/shm',
        'for n in 1 2; do head -c 70000000 /dev/zero > /dev/shm/$n 2>/dev/null; done; true',
        'touch /tmp/one; ln /tmp/one /tmp/two',
        'mkfifo /dev/shm/pipe',
        "touch one; python3 -c \"import os; os.setxattr('one', b'user.a', b'1')\"",
        "python3 -c \"import os; os.setxattr('/work', b'user.a', b'1')\"",
        'renice -n 19 -p 1',
        'taskset -p -c 0 1',
        'echo x > read-only; chmod 444 read-only',
        f'head -c {MAX_STATE_BYTES + 1} /dev/zero > large',
        f'seq {MAX_STATE_ENTRIES + 1} | xargs touch',
    ],
)
def test_what_a_copy_would_lose_is_not_saved(sandbox: Sandbox, command: str) -> None:
    assert sandbox.run(command).exit_code == 0
    before = sandbox.run(LOOK).text
    assert sandbox.save() is None
    assert sandbox.run(LOOK).text == before, 'and it lives on as it was'


def test_a_port_that_was_used_is_not_carried_over(sandbox: Sandbox) -> None:
    talk = (
        "import socket as s\nl = s.create_server(('127.0.0.1', 5000))\n"
        "a = s.create_connection(('127.0.0.1', 5000))\nb, _ = l.accept()\nb.close(); a.recv(1); a.close()"
    )
    sandbox.write_file('talk.py', talk.encode())
    assert sandbox.save() is not None
    assert sandbox.run('python3 talk.py').exit_code == 0
    assert sandbox.save() is None


def test_names_and_targets_count_too(sandbox: Sandbox) -> None:
    """What is too much is not carried over; it is no reason to drop the sandbox."""
    make = (
        "import os\nfor place in ('/tmp', '/dev/shm'):\n os.chdir(place)\n"
        " for n in range(1900):\n  os.symlink('x' * 4000, f'{n:0250d}')"
    )
    sandbox.write_file('make.py', make.encode())
    assert sandbox.run('python3 make.py').exit_code == 0
    assert sandbox.save() is None
    assert sandbox.run('true').exit_code == 0


def test_without_places_of_its_own_nothing_is_saved_or_restored(sandbox: Sandbox) -> None:
    state = sandbox.save()
    assert state is not None
    with open_sandbox(isolation='unsafe') as open_to_all:
        assert open_to_all.save() is None
    with pytest.raises(SandboxError, match='those of the host'):
        open_sandbox(SandboxSpec(state=state), isolation='unsafe')


@pytest.mark.parametrize(
    'record',
    [
        [b'0', b'f', b'../out', b'420', b'0'],
        [b'7', b'd', b'x', b'493'],
        [b'x', b'd', b'x', b'493'],
        [b'0'],
    ],
)
def test_a_state_that_no_sandbox_saved_is_refused(record: list[bytes]) -> None:
    with pytest.raises(SandboxError, match=r'does not fit|is gone'):
        open_sandbox(SandboxSpec(state=State((record,)))).close()


def test_a_state_that_does_not_fit_is_refused(sandbox: Sandbox) -> None:
    sandbox.run('head -c 3000000 /dev/urandom > large')
    state = sandbox.save()
    with pytest.raises(SandboxError, match='does not fit'):
        open_sandbox(SandboxSpec(state=state, limits=Limits(disk_bytes=1_000_000)))


def test_a_server_that_does_not_stop_sending_is_dropped(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    record = [b'0', b'x', b'0', bytes(1024 * 1024)]
    monkeypatch.setattr(type(sandbox), '_receive', lambda self, deadline: (frames.RECORD, record))
    with pytest.raises(SandboxError, match='more than it was asked for'):
        sandbox.save()


def test_the_workspace_of_a_state_is_sanitised_on_the_host(sandbox: Sandbox, tmp_path) -> None:  # type: ignore[no-untyped-def]
    sandbox.run('mkdir d; echo x > d/f; ln -s f d/in; ln -s /etc/passwd out; echo 1 > /tmp/elsewhere')
    state = sandbox.save()
    assert state is not None
    target = tmp_path / 'work'
    target.mkdir()
    left_out = write_workspace(state, target)
    assert left_out == ('out: a link that leaves the workspace',)
    assert sorted(str(place.relative_to(target)) for place in target.rglob('*')) == ['d', 'd/f', 'd/in']
    with pytest.raises(SandboxError):
        write_workspace(State(([b'0', b'f', b'/etc/x', b'420', b'0'],)), target)
