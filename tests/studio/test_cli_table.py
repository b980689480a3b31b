"""The command line as a table: what each command prints with ``--json``, its exit code, and how it says an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from stand_in import SPEC

from studio.cli.app import app, main
from trainer.sandbox import bubblewrap

CHECK = {'type': 'exit_code', 'config': {'command': 'grep -qx hello a.txt'}}
STEPS = [{'tool': 'write_file', 'args': {'path': 'a.txt', 'content': 'hello\n'}}]
FILES: dict[str, Any] = {
    'good.json': {
        'title': 'Hello',
        'task_spec': {'prompt': 'Write hello into a.txt', 'checker': CHECK},
        'solutions': [{'kind': 'reference', 'steps': STEPS}],
    },
    'broken.json': {'prompt': 'x', 'checker': {'type': 'script', 'config': {'script': 'raise ValueError(1)'}}},
    'bad.json': {'prompt': ''},
    'hollow.json': {
        'task_spec': {'prompt': 'x', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}},
        'solutions': [{'kind': 'reference', 'steps': STEPS}],
    },
    'form.json': {'prompt': 'Write {n} into a.txt', 'checker': CHECK},
    'spec.json': SPEC,
    'steps.json': STEPS,
}
VERDICT = {'outcome', 'reward', 'reason', 'items', 'output', 'duration_ms', 'tampered'}
IMPORTED = {'file', 'line', 'where', 'format', 'status', 'result', 'id', 'title', 'reason', 'errors', 'warnings'}
VARIANT = {'row', 'line', 'title', 'values', 'ok', 'errors', 'reason', 'task'}
LEAST = (0, 1)
"""Depends on the machine."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Rlvr = Callable[[str], Done]


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Task files, a solved workspace and a data folder, for all rows of the table."""
    made = tmp_path_factory.mktemp('table')
    for name, content in FILES.items():
        (made / name).write_text(json.dumps(content), encoding='utf-8')
    (made / 'latin.csv').write_bytes(b'n\xe9\n')
    (made / 'solved').mkdir()
    (made / 'solved' / 'a.txt').write_text('hello\n', encoding='utf-8')
    return made


@pytest.fixture
def rlvr(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Rlvr:
    monkeypatch.chdir(folder)
    monkeypatch.setenv('RLVR_HOME', str(folder / 'home'))

    def run(line: str) -> Done:
        monkeypatch.setattr(sys, 'argv', ['rlvr', *line.split()])
        with pytest.raises(SystemExit) as left:
            main()
        return Done(int(left.value.code or 0), *capfd.readouterr())

    return run


@pytest.mark.parametrize(
    ('line', 'codes', 'keys'),
    [
        ('validate good.json spec.json', 0, [{'file', 'line', 'ok', 'errors'}]),
        ('validate good.json bad.json none.json', 2, [{'file', 'line', 'ok', 'errors'}]),
        ('check good.json --workspace solved', 0, VERDICT),
        ('check broken.json --workspace solved', 3, VERDICT),
        ('attempt good.json --solution reference', 0, {'verdict', 'steps'}),
        ('attempt good.json --solution steps.json', 0, {'verdict', 'steps'}),
        ('attempt broken.json', 3, {'verdict', 'steps'}),
        ('certify good.json --repeats 1', 0, {'state', 'hash', 'probes', 'weak', 'isolation', 'duration_ms'}),
        ('certify hollow.json --repeats 1', 1, {'state', 'hash', 'probes', 'weak', 'isolation', 'duration_ms'}),
        ('sandbox probe', LEAST, [{'name', 'ok', 'detail'}]),
        ('doctor', LEAST, [{'name', 'ok', 'detail', 'fix'}]),
        ('tasks import good.json --dry-run', 0, [IMPORTED - {'result'}]),
        ('tasks import good.json bad.json --publish', 2, [IMPORTED]),
        ('tasks list', 0, [{'id', 'title', 'topics', 'status', 'checker', 'version', 'hash', 'updated_at'}]),
        ('tasks export --out all.jsonl', 0, {'out', 'format', 'tasks'}),
        ('tasks export --format harbor --out all.zip', 0, {'out', 'format', 'tasks'}),
        ('tasks import all.zip', 0, [IMPORTED]),
        ('tasks variants form.json --set n=1..2 --out many.jsonl', 0, [VARIANT]),
        ('models list', 0, [{'id', 'title', 'kind', 'supportsRl', 'parameters', 'source', 'about'}]),
        ('models check starter', 0, {'model', 'ok', 'family', 'note', 'problem', 'hint', 'seconds'}),
        ('evaluate good.json --model starter -k 1', 0, {'mean', 'low', 'high', 'tasks'}),
    ],
)
def test_a_command_prints_one_json_value(rlvr: Rlvr, line: str, codes: int | tuple[int, ...], keys: Any) -> None:
    done = rlvr(f'{line} --json')
    assert done.code in (codes if isinstance(codes, tuple) else (codes,)), done.err
    value = json.loads(done.out)
    if isinstance(keys, list):
        assert value and [set(row) for row in value] == keys * len(value)
    else:
        assert set(value) == keys


@pytest.mark.parametrize(
    ('line', 'said'),
    [
        ('check good.json --workspace nowhere', "'nowhere' does not exist"),
        ('check none.json --workspace solved', "'none.json' does not exist"),
        ('check bad.json --workspace solved', 'is no valid task'),
        ('attempt good.json --solution wrong', 'no wrong solution'),
        ('attempt good.json --solution none.json', 'cannot be read'),
        ('certify bad.json', 'is no valid task'),
        ('tasks import good.json --format xml', 'no format to import'),
        ('tasks import good.json --conflicts x', 'nothing to do with a conflict'),
        ('tasks export --format xml --out x', 'no format to export'),
        ('tasks export --out nowhere/x.jsonl', 'cannot be written'),
        ('tasks variants form.json --set n=1..2 --out nowhere/x.jsonl', 'cannot be written'),
        ('tasks export --out good.json', 'replace it with --force'),
        ('tasks variants form.json --set n=1..2 --out good.json', 'good.json is there already'),
        ('tasks variants good.json --table latin.csv', 'is no UTF-8 text, at byte 1'),
        ('tasks list --home /proc/none', 'The data folder /proc/none cannot be made'),
        ('train good.json --model nope --out run', "'nope' is no known model"),
        ('train good.json --model starter', '--out'),
        ('train bad.json --model starter --out run', 'line 1: prompt: Write what'),
        ('evaluate bad.json --model starter', 'line 1: prompt: Write what'),
        ('models check', 'MODEL'),
        ('sandbox probe --isolation glass', 'glass'),
        ('no-such-command', 'no-such-command'),
    ],
)
def test_an_error_is_one_json_object_on_stderr(rlvr: Rlvr, line: str, said: str, folder: Path) -> None:
    done = rlvr(f'{line} --json')
    assert (done.code, done.out) == (2, '')
    error = json.loads(done.err.splitlines()[-1])
    assert set(error) == {'error', 'hint', 'fields'} and 'Traceback' not in done.err
    assert said in json.dumps(error, ensure_ascii=False), error
    in_words = rlvr(line)
    assert (in_words.code, in_words.out) == (2, '') and in_words.err.strip()
    assert not (folder / 'run').exists()


@pytest.mark.parametrize(
    'line',
    [
        'check good.json --workspace solved',
        'attempt good.json',
        'certify good.json',
        'train good.json --model starter --out run',
        'evaluate good.json --model starter',
    ],
)
def test_without_isolation_it_is_refused_with_4(rlvr: Rlvr, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap.shutil, 'which', lambda *_, **__: None)
    done = rlvr(f'{line} --json')
    assert (done.code, done.out) == (4, '')
    assert '--unsafe-sandbox' in json.loads(done.err.splitlines()[-1])['hint']


def test_what_goes_to_stdout_leaves_no_room_for_a_receipt(rlvr: Rlvr) -> None:
    for line in ('tasks export', 'runs export none'):
        done = rlvr(f'{line} --json')
        assert (done.code, done.out) == (2, '') and 'name a file with --out' in done.err


def test_a_file_is_replaced_where_one_says_so(rlvr: Rlvr, folder: Path) -> None:
    rlvr('tasks import good.json')
    for line in ('tasks export', 'tasks variants form.json --set n=1..2'):
        kept = folder / 'kept.jsonl'
        kept.write_text('mine', encoding='utf-8')
        assert rlvr(f'{line} --out kept.jsonl').code == 2 and kept.read_text(encoding='utf-8') == 'mine'
        assert rlvr(f'{line} --out kept.jsonl --force').code == 0 and 'task_spec' in kept.read_text(encoding='utf-8')


def leaves(command: Any, path: str = 'rlvr') -> Iterator[tuple[str, Any]]:
    """Every command that does something, by what one types."""
    if not hasattr(command, 'commands'):
        yield path, command
    for name, inner in getattr(command, 'commands', {}).items():
        yield from leaves(inner, f'{path} {name}')


LEAVES = dict(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize('name', LEAVES)
def test_every_command_has_examples_and_a_json_answer(name: str) -> None:
    command = LEAVES[name]
    assert command.help and f'$ {name} ' in f'{command.epilog or ""} ', 'examples stand under its help'
    options = {option for parameter in command.params for option in parameter.opts}
    assert '--json' in options or name == 'rlvr studio'
    assert all(parameter.help for parameter in command.params), 'every option says what it is for'
