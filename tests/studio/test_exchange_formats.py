"""JSONL, the /doc/create body and OpenAI graders: what is read, what is refused and where it says so."""

import json
from pathlib import Path
from typing import Any

import pytest
from stand_in import SPEC, task

from studio.exchange import openai_grader
from studio.exchange.formats import READERS, WRITERS, read_all, writer
from studio.exchange.pool import Found, Incoming
from trainer.attempt import attempt
from trainer.errors import ConfigError
from trainer.task import Solution

HOSTILE = {**SPEC, 'prompt': 'Keep {{name}} and {% x %} and 100% and $HOME\r\n\té 漢 🔄 \u2028 </script>'}


def read(*files: str | bytes | object, format: str = 'auto') -> list[Found]:
    data = [
        file if isinstance(file, bytes) else file.encode() if isinstance(file, str) else json.dumps(file).encode()
        for file in files
    ]
    return list(read_all([Incoming(f'{n}.jsonl', one) for n, one in enumerate(data)], format).found)


def said(found: Found) -> dict[str, str]:
    return {error.loc: error.msg for error in found.errors}


def test_every_format_has_a_name_and_one_line() -> None:
    assert [reader.name for reader in READERS] == ['harbor', 'doc-create', 'openai', 'jsonl']
    assert [one.name for one in WRITERS] == ['jsonl', 'harbor', 'task_spec', 'doc-create']
    with pytest.raises(ConfigError, match='no format to export'):
        writer('openai')
    with pytest.raises(ConfigError, match='no format to import'):
        read('{}', format='xml')


def test_our_own_formats_come_back_whole() -> None:
    solutions = [{'kind': 'wrong', 'name': 'ü', 'files': {'a/b': '\r\n'}, 'steps': []}]
    full = task(task_spec=HOSTILE, solutions=solutions, notes='n\n', topics=['a', 'ß'], id='01JABC')
    tasks = [full, task(2)]
    assert [found.task for found in read(writer('jsonl').write(tasks))] == tasks
    assert [found.task for found in read(writer('harbor').write(tasks))] == tasks
    bare = read(writer('task_spec').write(tasks))
    assert [one.task.task_spec for one in bare if one.task] == [one.task_spec for one in tasks]
    assert json.loads(writer('task_spec').write([full])) == full.task_spec.to_json()
    body = read(writer('doc-create').write(tasks))
    assert [(one.task.title, one.task.topics, one.task.task_spec, one.status) for one in body if one.task] == [
        (one.title, one.topics, one.task_spec, 'published') for one in tasks
    ]


def test_bad_lines_are_named_and_good_ones_kept() -> None:
    lines = [
        json.dumps(SPEC),
        '',
        'nope',
        '[1]',
        '{"prompt": "p", "prompt": "q"}',
        '{"prompt": NaN}',
        '7',
        json.dumps({**SPEC, 'max_steps': 100}),
        json.dumps({**SPEC, 'setup_files': {'../x': ''}}),
        json.dumps({**SPEC, 'promt': 'x'}),
        '[' * 100_000,
    ]
    rows = read('\n'.join(lines))
    assert [row.line for row in rows] == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert [row.task is not None for row in rows] == [n in (1, 8) for n in (1, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
    assert "the key 'prompt' is there twice" in said(rows[3])['']
    assert rows[6].warnings == ('max_steps lowered from 100 to 64',)
    assert 'remove ../' in said(rows[7])['setup_files']
    assert "did you mean 'prompt'" in said(rows[8])['promt']


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'\xff\xfe{\x00', 'not utf-8 at byte 0'),
        (b'{"prompt": "\xff"}', 'not utf-8 at byte 12'),
        (b'"' + b'x' * (9 * 1024**2), 'longer than 8 mb'),
        (b'{"prompt": "\\ud800", "checker": {"type": "exit_code", "config": {"command": "true"}}}', 'half a character'),
    ],
    ids=['utf16', 'bytes', 'long', 'half a character'],
)
def test_text_that_cannot_be_read_is_one_row(data: bytes, message: str) -> None:
    (row,) = read(data)
    assert message in next(iter(said(row).values())).lower()


def test_a_byte_order_mark_and_a_list_are_read() -> None:
    assert read(b'\xef\xbb\xbf' + json.dumps(SPEC).encode())[0].task is not None
    assert [row.where for row in read([SPEC, SPEC])] == ['item 1', 'item 2']


def document(**fields: Any) -> dict[str, Any]:
    return {
        'autoParse': True,
        'rawTrainingData': {'task_spec': SPEC},
        'type': 'rlTask',
        'userid': 'u',
        'title': 'T',
        'topics': ['a'],
        'status': 'published',
        'scope': 'training',
        **fields,
    }


def test_a_doc_create_body_says_the_path_of_what_is_wrong() -> None:
    bad = document(rawTrainingData={'task_spec': {**SPEC, 'prompt': ''}}, status='live', type='chat', extra=1)
    good, refused, nothing = read({'workspaceid': 'w', 'data': [document(), bad, 3]})
    assert good.task is not None and (good.task.title, good.task.topics, good.status) == ('T', ('a',), 'published')
    assert set(said(refused)) == {
        'data.1.rawTrainingData.task_spec.prompt',
        'data.1.status',
        'data.1.type',
        'data.1.extra',
    }
    assert refused.where == 'line 1, data.1' and said(nothing) == {'data.2': 'An object is needed here'}
    assert said(read({'workspaceid': 'w', 'data': []})[0]) == {'data': 'A list of documents is needed here'}
    assert said(read(document(rawTrainingData=None))[0])['rawTrainingData.task_spec']


def string_check(operation: str = 'eq', **fields: Any) -> dict[str, Any]:
    return {
        'type': 'string_check',
        'name': 'n',
        'operation': operation,
        'input': '{{ sample.output_text }}',
        'reference': '{{ item.answer }}',
        **fields,
    }


def python(source: str) -> dict[str, Any]:
    return {'type': 'python', 'name': 'p', 'source': source}


ROW = {'messages': [{'role': 'user', 'content': 'Capital of France? {{x}}'}], 'answer': 'Paris'}
LENGTHS = python('def grade(sample, item):\n    return len(sample["output_text"]) / 10\n')


def reward(grader: dict[str, Any], answer: str | None, home: Path, row: dict[str, Any] = ROW) -> float | None:
    (found,) = read(grader, row)
    assert found.task is not None, found.errors
    steps = [{'tool': 'write_file', 'args': {'path': 'answer.txt', 'content': answer}}] if answer is not None else []
    solution = Solution.model_validate({'kind': 'reference', 'steps': steps})
    return attempt(found.task.task_spec, solution, home=home).verdict.reward


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('exchange')


@pytest.mark.parametrize(
    ('operation', 'right', 'wrong'),
    [
        ('eq', 'Paris\n', 'paris'),
        ('ne', 'Rome', 'Paris'),
        ('like', 'It is Paris.', 'PARIS'),
        ('ilike', 'PARIS!', 'Rome {{ item.answer }}'),
    ],
)
def test_string_checks_grade_as_they_did(operation: str, right: str, wrong: str, home: Path) -> None:
    assert reward(string_check(operation), right, home) == 1.0
    assert reward(string_check(operation), wrong, home) == 0.0
    assert reward(string_check(operation), None, home) == 0.0, 'no answer is no reward'


def test_python_and_multi_graders_grade_as_they_did(home: Path) -> None:
    assert reward(LENGTHS, 'four', home) == 0.4
    multi = {'type': 'multi', 'graders': {'a': string_check(), 'b': LENGTHS}, 'calculate_output': 'max(a, 0) / 2 + b^2'}
    assert reward(multi, 'Paris', home) == 0.75
    assert reward(LENGTHS, 'much too long an answer', home) is None, 'out of range is an error, not a reward'


def test_a_row_becomes_a_prompt_with_a_reference(home: Path) -> None:
    job = {'model': 'o4-mini', 'method': {'type': 'reinforcement', 'reinforcement': {'grader': string_check()}}}
    (found,) = read(job, {**ROW, 'messages': [{'role': 'developer', 'content': 'Be brief.'}, *ROW['messages']]})
    assert found.task is not None and found.title == 'Capital of France? {{x}}'
    assert found.task.task_spec.prompt.startswith('Be brief.\n\nCapital of France? {{x}}\n\nWrite your answer')
    assert any('answer.txt' in warning for warning in found.warnings)
    (solution,) = found.task.solutions
    assert attempt(found.task.task_spec, solution, home=home).verdict.reward == 1.0


@pytest.mark.parametrize(
    ('grader', 'loc', 'message'),
    [
        ({'type': 'score_model', 'name': 'j', 'input': []}, 'type', 'asks a model'),
        ({'type': 'label_model', 'name': 'j', 'input': []}, 'type', 'asks a model'),
        ({'type': 'text_similarity', 'name': 's'}, 'type', 'python grader'),
        (string_check('equals'), 'operation', 'eq, ne, like, ilike'),
        (string_check(input='{{ secrets.key }}'), 'input', 'no place in item or sample'),
        (string_check(input='{{ sample.output_tools }}'), 'input', 'not known to a checker'),
        (python('def grade(sample):\n    return 1'), 'source', 'sample and item'),
        (python('def score(a, b): return 1'), 'source', 'must define grade'),
        (python('def grade(:'), 'source', 'Not Python'),
        (
            {'type': 'multi', 'graders': {'a': LENGTHS}, 'calculate_output': '__import__("os")'},
            'calculate_output',
            'functions',
        ),
        ({'type': 'multi', 'graders': {'a': LENGTHS}, 'calculate_output': 'a + c'}, 'calculate_output', 'none of the'),
        (
            {'type': 'multi', 'graders': {'a': {'type': 'score_model'}}, 'calculate_output': 'a'},
            'graders.a.type',
            'asks',
        ),
    ],
)
def test_graders_that_cannot_be_carried_over_say_why(grader: dict[str, Any], loc: str, message: str) -> None:
    refused, row = read(grader, ROW)
    assert message in said(refused)[loc] and 'grader was refused' in said(row)['']


def test_rows_and_graders_need_each_other() -> None:
    assert 'need a grader' in said(read(ROW)[0])['']
    assert 'a grader alone' in said(read(string_check())[0])[''].lower()
    assert ['several graders' in said(row)[''].lower() for row in read(string_check(), LENGTHS, ROW)] == [True] * 3
    assert 'does not have' in said(read(string_check(), {'messages': ROW['messages']})[0])['answer']
    image = [{'role': 'user', 'content': [{'type': 'image_url', 'image_url': 'x'}]}]
    assert 'Only text' in said(read(string_check(), {**ROW, 'messages': image})[0])['messages.0.content']
    assert 'pipPackages' in ' '.join(read(python('import rapidfuzz\ndef grade(s, i): return 1'), ROW)[0].warnings)


def test_only_arithmetic_is_let_into_a_formula() -> None:
    for formula in ('a.b', 'a if a else b', '[a]', 'a()', 'lambda: a', 'a; b', '"x" * 9', 'a == b', 'min(a, key=b)'):
        assert openai_grader._formula_problem(formula, {'a', 'b'}), formula
    assert not openai_grader._formula_problem('-0.5*min(a, b) + sqrt(a)^2 / 3', {'a', 'b'})
