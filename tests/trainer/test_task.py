"""The task document: every mistake is named by the path of its field, and what is right stays as it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from trainer.errors import TaskError
from trainer.manifest import parse_tasks, read_manifest, task_json, write_manifest
from trainer.paths import workspace_path
from trainer.task import MAX_STEPS, TaskFile, TaskSpec, canonical_json, parse_task, parse_task_spec
from trainer.verdict import Verdict

CHECKER: dict[str, Any] = {'type': 'exit_code', 'config': {'command': 'grep -q Bonjour greeting.txt'}}
SPEC: dict[str, Any] = {'prompt': 'Create greeting.txt.', 'checker': CHECKER}


def errors(data: object) -> dict[str, str]:
    """Field path → message of everything wrong with a task."""
    with pytest.raises(TaskError) as caught:
        parse_task(data)
    return {field.loc: field.msg for field in caught.value.fields}


@pytest.mark.parametrize(
    'change, loc, msg',
    [
        ({'prompt': None}, 'prompt', 'This field is required'),
        ({'prompt': '  \n'}, 'prompt', 'Write what the model should do'),
        ({'checker': None}, 'checker', 'This field is required'),
        ({'checker': {'config': {}}}, 'checker.type', 'This field is required'),
        (
            {'checker': {'type': 'pytests', 'config': {}}},
            'checker.type',
            "'pytests' is not known: did you mean 'pytest'? Choose one of exit_code, file_exists, pytest, script",
        ),
        ({'checker': {'type': 'exit_code'}}, 'checker.config', 'This field is required'),
        ({'checker': {'type': 'exit_code', 'config': {}}}, 'checker.config.command', 'This field is required'),
        (
            {'checker': {'type': 'exit_code', 'config': {'command': 'x', 'expected_code': 256}}},
            'checker.config.expected_code',
            'Input should be less than or equal to 255',
        ),
        (
            {'checker': {'type': 'exit_code', 'config': {'comand': 'x', 'command': 'x'}}},
            'checker.config.comand',
            "Unknown key 'comand': did you mean 'command'?",
        ),
        (
            {'checker': {'type': 'file_exists', 'config': {'paths': ['a', '../../etc/hostname']}}},
            'checker.config.paths.1',
            "Stay inside the workspace: remove ../ from '../../etc/hostname'",
        ),
        (
            {'checker': {'type': 'file_exists', 'config': {'paths': []}}},
            'checker.config.paths',
            'At least 1 needed',
        ),
        (
            {'checker': {'type': 'pytest', 'config': {'test_paths': ['/abs/test_a.py']}}},
            'checker.config.test_paths.0',
            "Stay inside the workspace: make '/abs/test_a.py' relative",
        ),
        (
            {'checker': {'type': 'script', 'config': {'script': ' '}}},
            'checker.config.script',
            'Write the script that checks the workspace',
        ),
        ({'max_steps': 0}, 'max_steps', 'Input should be greater than or equal to 1'),
        ({'max_steps': 'many'}, 'max_steps', 'Input should be a valid integer, unable to parse string as an integer'),
        ({'env': 'docker'}, 'env', "Input should be 'tfcode'"),
        ({'setup_files': {'../x': ''}}, 'setup_files', "Stay inside the workspace: remove ../ from '../x'"),
        ({'setup_files': {'a/b': '', 'a': ''}}, 'setup_files', "'a' cannot be a file and a folder"),
        ({'setup_files': {'a': '', './a': ''}}, 'setup_files', "'a' is there twice"),
        ({'setup_files': {'a': 5}}, 'setup_files.a', 'Input should be a valid string'),
        ({'setup_commands': ['true', ' ']}, 'setup_commands.1', 'A command cannot be empty'),
        ({'setup_file': {}}, 'setup_file', "Unknown key 'setup_file': did you mean 'setup_files'?"),
        ({'maxSteps': 3}, 'maxSteps', "Unknown key 'maxSteps': did you mean 'max_steps'?"),
    ],
)
def test_each_mistake_is_named_by_its_field(change: dict[str, Any], loc: str, msg: str) -> None:
    spec = {key: value for key, value in {**SPEC, **change}.items() if value is not None}
    assert errors(spec) == {loc: msg}
    assert errors({'task_spec': spec}) == {f'task_spec.{loc}': msg}


def test_all_mistakes_are_listed_at_once() -> None:
    found = errors({'max_steps': 0, 'setup_files': {'/x': ''}, 'checker': {'type': 'script', 'config': {}}, 'x': 1})
    assert set(found) == {'prompt', 'max_steps', 'setup_files', 'checker.config.script', 'x'}


@pytest.mark.parametrize('data', [None, 3, 'text', [], [SPEC]])
def test_what_is_no_object_is_refused(data: object) -> None:
    assert errors(data)


def test_steps_above_the_limit_are_clamped_with_a_note() -> None:
    spec, notes = parse_task_spec({**SPEC, 'max_steps': 100})
    assert spec.max_steps == MAX_STEPS
    assert [(note.loc, note.msg) for note in notes] == [('task_spec.max_steps', 'lowered from 100 to 64')]
    _, notes = parse_task({'task_spec': {**SPEC, 'max_steps': 100}})
    assert [note.loc for note in notes] == ['task_spec.max_steps']
    _, notes = parse_task({**SPEC, 'max_steps': 100})
    assert [note.loc for note in notes] == ['max_steps']


@pytest.mark.parametrize(
    'path',
    ['../outside.txt', 'a/../../b', '/tmp/abs.txt', 'C:\\x.txt', 'C:x', '', ' ', 'dir/', '.', './', 'a\0b', '~/x'],
)
def test_paths_that_leave_the_workspace_are_refused(path: str) -> None:
    with pytest.raises(ValueError):
        workspace_path(path)


@pytest.mark.parametrize(
    'path, normal',
    [
        ('ok/./x.txt', 'ok/x.txt'),
        ('a//b', 'a/b'),
        ('./a', 'a'),
        ('..a/b', '..a/b'),
        ('-rf', '-rf'),
        ('задача 🚀.txt', 'задача 🚀.txt'),
    ],
)
def test_paths_inside_have_one_spelling(path: str, normal: str) -> None:
    assert workspace_path(path) == normal
    assert parse_task_spec({**SPEC, 'setup_files': {path: ''}})[0].setup_files == {normal: ''}


def test_prompt_stays_byte_for_byte(tmp_path: Path) -> None:
    prompt = (
        '  Reply with {"answer": 1}. Keep {{name}} and {% if x %} and 100% and $HOME\r\n'
        '\tas they are. задача 🚀\u2028\n'
    )
    task, _ = parse_task({'task_spec': {**SPEC, 'prompt': prompt}})
    file = tmp_path / 'tasks.jsonl'
    write_manifest(file, [task, task])
    assert [read.task_spec.prompt for read in read_manifest(file)] == [prompt, prompt]
    assert len(file.read_text(encoding='utf-8').rstrip('\n').split('\n')) == 2


def test_hash_is_that_of_the_meaning_not_of_the_spelling() -> None:
    spec, _ = parse_task_spec(SPEC)
    assert spec.hash == hashlib.sha256(canonical_json(spec.to_json())).hexdigest()
    spelled = {
        'checker': {**CHECKER, 'config': {**CHECKER['config'], 'expected_code': 0, 'timeout_s': 60}},
        **{'env': 'tfcode'},
    }
    same, _ = parse_task_spec({**SPEC, **spelled, 'max_steps': 16, 'setup_files': {}, 'setup_commands': []})
    assert same.hash == spec.hash
    reordered, _ = parse_task_spec({**SPEC, 'setup_files': {'a': '1', 'b': '2'}})
    other, _ = parse_task_spec({**SPEC, 'setup_files': {'b': '2', 'a': '1'}})
    assert reordered.hash == other.hash != spec.hash
    assert parse_task_spec(spec.to_json())[0] == spec


def test_a_frozen_copy_that_was_changed_is_refused() -> None:
    spec, _ = parse_task_spec(SPEC)
    frozen = {'id': 't', 'hash': spec.hash, 'task_spec': spec.to_json()}
    assert parse_task(frozen)[0].hash == spec.hash
    frozen['task_spec']['prompt'] = 'Do something else.'
    assert 'the copy was changed' in ' '.join(errors(frozen).values())


def test_solutions_are_checked() -> None:
    steps = [{'tool': 'write_file', 'args': {'path': 'a'}}, {'tool': 'rm', 'args': {}}]
    found = errors({'task_spec': SPEC, 'solutions': [{'kind': 'right', 'steps': steps}]})
    assert set(found) == {'solutions.0.kind', 'solutions.0.steps.0', 'solutions.0.steps.1.tool'}
    assert found['solutions.0.steps.0'] == 'Write_file takes path, content, not path'


def test_protect_must_name_setup_files() -> None:
    config = {'command': 'sh check.sh', 'protect': ['gone.sh']}
    found = errors({**SPEC, 'setup_files': {'check.sh': ''}, 'checker': {'type': 'exit_code', 'config': config}})
    assert found == {'checker.config.protect.0': "'gone.sh' is not one of the setup files"}


def test_spec_of_the_reference_document_is_valid() -> None:
    spec, _ = parse_task_spec(
        {
            'prompt': 'Create a Python file named add.py that prints the sum of 2 and 3',
            'env': 'tfcode',
            'max_steps': 8,
            'setup_files': {'README.md': 'optional pre-seeded files'},
            'setup_commands': ['true'],
            'checker': {'type': 'exit_code', 'config': {'command': 'python3 add.py | grep -q 5', 'expected_code': 0}},
        }
    )
    assert list(spec.to_json()) == ['prompt', 'env', 'max_steps', 'setup_files', 'setup_commands', 'checker']


def test_jsonl_with_bad_lines(tmp_path: Path) -> None:
    good = json.dumps(SPEC)
    file = tmp_path / 'mixed.jsonl'
    file.write_text(
        '\ufeff'
        + '\n'.join([good, '', '{"prompt": 1}', 'not json', good + '\r', '[' * 100_000, '[]', '{"task_spec": {}}']),
        encoding='utf-8',
    )
    found = dict(parse_tasks(file))
    assert [line for line, task in found.items() if isinstance(task, TaskFile)] == [1, 5]
    assert [line for line, task in found.items() if isinstance(task, TaskError)] == [3, 4, 6, 7, 8]
    with pytest.raises(TaskError) as caught:
        read_manifest(file)
    assert [field.loc for field in caught.value.fields][:2] == ['line 3: prompt', 'line 3: checker']


def test_one_json_file_and_other_encodings(tmp_path: Path) -> None:
    file = tmp_path / 'task.json'
    file.write_text(json.dumps({'title': 'T', 'task_spec': SPEC}, indent=2), encoding='utf-8')
    assert [task.title for task in read_manifest(file)] == ['T']
    file.write_bytes('{"prompt": "é"}'.encode('latin-1'))
    with pytest.raises(TaskError, match='line 1: Not UTF-8'):
        read_manifest(file)
    file.write_text('', encoding='utf-8')
    with pytest.raises(TaskError, match='no task'):
        read_manifest(file)


def test_manifest_round_trip(tmp_path: Path) -> None:
    task, _ = parse_task(
        {'title': 'T', 'topics': ['shell'], 'task_spec': SPEC, 'solutions': [{'kind': 'wrong'}], 'notes': 'n'}
    )
    file = tmp_path / 'm.jsonl'
    write_manifest(file, [task])
    (read,) = read_manifest(file)
    assert read.id == 'task-1' and read.hash == task.task_spec.hash
    assert read.model_copy(update={'id': '', 'hash': ''}) == task
    assert 'notes' in task_json(task)


def test_verdicts_hold_together() -> None:
    assert Verdict.scored(1.0).outcome == 'passed'
    assert Verdict.scored(0.4).outcome == 'partial'
    assert Verdict.scored(0.0).outcome == 'failed'
    assert Verdict.not_scored('why').reward is None
    for wrong in (float('nan'), float('inf'), -0.1, 1.1):
        with pytest.raises(ValueError):
            Verdict.scored(wrong)
    with pytest.raises(ValueError):
        Verdict(outcome='error', reward=0.0)


def test_schema_of_the_form() -> None:
    schema = TaskSpec.model_json_schema()
    assert schema['properties']['checker']['discriminator']['propertyName'] == 'type'
