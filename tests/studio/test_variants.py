"""Variants: opt-in placeholders, rows of values, all looked at first, each certified before it is published."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from studio.cli.app import app
from studio.documents.service import DocumentQuery
from studio.services import Studio
from studio.settings import Settings
from studio.variants.placeholders import Template, fill_text, filled, spots, unknown
from studio.variants.service import JobView, Preview, Recipe, preview, title_pattern
from studio.variants.values import combined, expanded, read_table
from trainer.errors import TaskError
from trainer.task import TaskFile, parse_task

BRACES = 'Reply with {"answer": 1}. Keep {{name}} and {% if x %} and 100% and $HOME as they are.'


def template(**spec: Any) -> Template:
    task = {'prompt': 'Write {n} to {file}.txt', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}
    return Template(title='Write {n}', task_spec={**task, **spec})


def messages(found: Preview) -> dict[int, list[str]]:
    return {one.number: [f'{problem.loc}: {problem.msg}' for problem in one.problems] for one in found.variants}


# --------------------------------------------------------------------------------------------- placeholders


def test_a_prompt_full_of_braces_stays_byte_for_byte() -> None:
    assert fill_text(BRACES, {}) == BRACES
    assert fill_text(BRACES, {'answer': 'no', 'x': 'no', 'HOME': 'no', 'n': '1'}) == BRACES
    full = template(prompt=BRACES, setup_files={'a.py': 'f"{total:>3} {{x}}"'})
    assert spots(full.model_copy(update={'title': ''})) == ()
    assert filled(full, {'n': '3'}).task_spec == full.task_spec


@pytest.mark.parametrize(
    ('text', 'wanted'),
    [
        ('{n}', '5'),
        ('{{n}}', '{n}'),
        ('{{{n}}}', '{5}'),
        ('{{{{n}}}}', '{{n}}'),
        ('{"a": {n}}', '{"a": 5}'),
        ('${n} $n {n:03d} { n } {m} {n', '${n} $n {n:03d} { n } {m} {n'),
        ('{n}{n}\u00e9{n}', '55\u00e95'),
    ],
)
def test_braces_count_in_pairs(text: str, wanted: str) -> None:
    assert fill_text(text, {'n': '5'}) == wanted


@given(st.text(alphabet=st.sampled_from('{}n$x 1é\n')), st.text(max_size=5))
def test_what_is_not_a_listed_name_stays(text: str, value: str) -> None:
    assert fill_text(text, {}) == text
    assert fill_text(text, {'other': value}) == text
    made = fill_text(text, {'n': value})
    if '{n}' not in text:
        assert made == text
    assert fill_text(text, {'n': '{n}'}).count('n') == text.count('n')


def test_values_are_not_looked_at_again() -> None:
    assert fill_text('{a}{b}', {'a': '{b}', 'b': '\\1 {a}'}) == '{b}\\1 {a}'


def test_an_unknown_name_is_refused_with_its_position() -> None:
    text = 'first\n  x = f"{total}" # {{doubled}} ${shell} {n}'
    errors = unknown(template(setup_files={'a.py': text}, prompt='{n}'), ['n'])
    assert [(error.loc, error.msg) for error in errors] == [
        ('setup_files.a.py', '{total} in line 2, column 9 is not a column')
    ]
    assert unknown(template(setup_files={'a.py': text}, prompt='{n}'), ['n'], kept=['total']) == ()


def test_placeholders_work_everywhere() -> None:
    task = Template(
        title='T {n}',
        task_spec={
            'prompt': 'P {n}',
            'max_steps': 4,
            'setup_files': {'in/{n}.txt': 'F {n}'},
            'setup_commands': ['echo {n}'],
            'checker': {'type': 'script', 'config': {'script': 'print({n})', 'protect': ['in/{n}.txt']}},
        },
        solutions=(
            {
                'kind': 'reference',
                'name': 'N {n}',
                'files': {'{n}.py': '{n}'},
                'steps': [{'tool': 'write_file', 'args': {'path': '{n}', 'content': 'C {n}'}}],
            },
        ),
    )
    one = filled(task, {'n': '7', 'tool': 'x', 'script': 'x'})
    assert one.model_dump() == {
        'title': 'T 7',
        'task_spec': {
            'prompt': 'P 7',
            'max_steps': 4,
            'setup_files': {'in/7.txt': 'F 7'},
            'setup_commands': ['echo 7'],
            'checker': {'type': 'script', 'config': {'script': 'print(7)', 'protect': ['in/7.txt']}},
        },
        'solutions': (
            {
                'kind': 'reference',
                'name': 'N 7',
                'files': {'7.py': '7'},
                'steps': [{'tool': 'write_file', 'args': {'path': '7', 'content': 'C 7'}}],
            },
        ),
    }
    assert len(spots(task)) == 12


# ----------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ('text', 'values'),
    [
        ('1..4', ['1', '2', '3', '4']),
        ('08..11', ['08', '09', '10', '11']),
        ('3..1', ['3', '2', '1']),
        ('-1..1', ['-1', '0', '1']),
        ('0..100 step 50', ['0', '50', '100']),
        ('c..a', ['c', 'b', 'a']),
        ('red, "a, b", 1..2', ['red', 'a, b', '1', '2']),
    ],
)
def test_ranges_and_lists(text: str, values: list[str]) -> None:
    assert expanded(text) == values


@pytest.mark.parametrize('text', ['', ' ', '1..1001', '1..9 step 0', '1..99999999999999999999', '"open'])
def test_bad_ranges_say_why(text: str) -> None:
    with pytest.raises(TaskError) as refused:
        combined({'n': text})
    assert [field.loc for field in refused.value.fields] == ['ranges.n']


def test_ranges_are_combined_or_go_in_step() -> None:
    ranges = {'n': '1..2', 'c': 'x, y'}
    assert [row.values for row in combined(ranges).rows] == [
        {'n': '1', 'c': 'x'},
        {'n': '1', 'c': 'y'},
        {'n': '2', 'c': 'x'},
        {'n': '2', 'c': 'y'},
    ]
    assert [row.values for row in combined(ranges, 'zip').rows] == [{'n': '1', 'c': 'x'}, {'n': '2', 'c': 'y'}]
    with pytest.raises(TaskError, match='n has 2, c has 3'):
        combined({**ranges, 'c': 'a..c'}, 'zip')
    with pytest.raises(TaskError, match='At most 1,000 variants at a time, not 1,600'):
        combined({'a': '1..40', 'b': '1..40'})
    with pytest.raises(TaskError, match='cannot be a name'):
        combined({'2x': '1'})


@pytest.mark.parametrize(
    'text',
    [
        'n,word\n1,a b\n\n2,"c, ""d""\ne"\n',
        '\ufeffn\tword\r\n1\ta b\r\n2\t"c, ""d""\ne"\r\n',
        '{"n": 1, "word": "a b"}\n\n{"n": 2, "word": "c, \\"d\\"\\ne"}',
        'n;word\n1;a b\n2;"c, ""d""\ne"',
    ],
)
def test_a_table_is_read_from_what_is_pasted(text: str) -> None:
    table = read_table(text)
    assert table.columns == ('n', 'word')
    assert [row.values for row in table.rows] == [{'n': '1', 'word': 'a b'}, {'n': '2', 'word': 'c, "d"\ne'}]


def test_bad_lines_are_named_and_the_others_kept() -> None:
    rows = read_table('n,m\n1\n1,2\n3,4,5\n').rows
    assert [(row.line, row.problem) for row in rows] == [
        (2, '1 value for 2 columns'),
        (3, ''),
        (4, '3 values for 2 columns'),
    ]
    rows = read_table('{"n": 1}\n[1]\n{"n": [1]}\n{"n": NaN}\nnope\n{"m": true}').rows
    assert [bool(row.problem) for row in rows] == [True, True, True, True, True, True], 'no row has n and m'
    assert [row.line for row in rows] == [1, 2, 3, 4, 5, 6]
    assert read_table('  \n').rows == ()
    for text, said in (('1,2\n3,4', "'1' cannot be a name"), ('a,a\n1,2', 'Two columns'), ('a,\n1,2', 'no name')):
        with pytest.raises(TaskError, match=said):
            read_table(text)
    with pytest.raises(TaskError, match='not 1,001'):
        read_table('n\n' + '1\n' * 1001)


# -------------------------------------------------------------------------------------------------- preview


def test_every_row_is_looked_at_before_anything_is_made() -> None:
    files = {'{file}.txt': 'x', 'b.txt': 'y'}
    table = read_table('n,file\n1,a\n1,a\n2,b\n3,../out\n4\n' + f'{"5" * 201},e\n')
    found = preview(template(setup_files=files), Recipe(table=table))
    assert found.problems == ()
    said = messages(found)
    assert said[1] == []
    assert said[2] == ['task_spec: the same task as row 1']
    assert said[3] == ["setup_files: two files are named 'b.txt'"]
    assert said[4][0].startswith('setup_files')
    assert said[5] == ['line 6: 1 value for 2 columns']
    assert said[6] == ['title: At most 200 characters, not 207']
    assert [one.number for one in found.good] == [1]
    assert 'no reference solution' in found.remarks[-1]


def test_a_recipe_that_cannot_work_says_so() -> None:
    table = read_table('n,other\n1,2\n')
    assert [one.loc for one in preview(template(), Recipe(table=table)).problems] == ['prompt']
    found = preview(template(prompt='none'), Recipe(table=table))
    assert 'Only the title' in found.problems[0].msg
    assert found.remarks[0] == 'other is a column, but nowhere in the task'
    found = preview(Template(title='T', task_spec=template(prompt='none').task_spec), Recipe(table=table))
    assert [one.msg for one in found.problems] == ['The task has no {n} to be replaced']
    found = preview(template(prompt='none', setup_commands=['echo ${n}']), Recipe(title='T', table=table))
    assert [one.msg for one in found.problems] == ['The task has no {n} to be replaced']
    assert found.good == ()
    assert any('${n} in setup_commands.0, line 1, column 7 is left as it is' in remark for remark in found.remarks)
    assert preview(template(), Recipe()).variants == ()


def test_titles_tell_variants_apart() -> None:
    assert title_pattern('Write {n}', ['n']) == 'Write {n}'
    assert title_pattern('Write', ['n', 'm']) == 'Write ({n}, {m})'


# --------------------------------------------------------------------------------------------------- making

TASK: dict[str, Any] = {
    'title': 'Write a number',
    'topics': ['files'],
    'task_spec': {
        'prompt': 'Write {n} to out.txt. {{n}} stays.',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx {n} out.txt'}},
    },
    'solutions': [
        {
            'kind': 'reference',
            'steps': [{'tool': 'run_command', 'args': {'command': 'echo {n} | sed s/7/8/ > out.txt'}}],
        }
    ],
}
"""Its reference is wrong for 7."""


@pytest.fixture(scope='module')
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    made = Studio(Settings(home=tmp_path_factory.mktemp('home'), open_browser=False))
    yield made
    made.stop()


def until(holds: Callable[[], JobView | None]) -> JobView:
    deadline = time.monotonic() + 120
    while True:
        job = holds()
        if job is not None:
            return job
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(studio: Studio, id: str) -> JobView:
    def look() -> JobView | None:
        job = studio.variants.job(id)
        return None if job is None or job.is_active else job

    return until(look)


def test_each_is_certified_before_it_is_published(studio: Studio) -> None:
    base = studio.documents.create(parse_task(TASK)[0])
    recipe = Recipe(table=combined({'n': '6..7'}))
    assert [one.ok for one in studio.variants.preview(base.id, recipe).variants] == [True, True]
    assert studio.variants.make(base.id, recipe).is_active
    with pytest.raises(TaskError, match='being made already'):
        studio.variants.make(base.id, recipe)
    job = ended(studio, base.id)
    assert (job.state, job.count(), job.count('certified'), job.count('failed')) == ('done', 2, 1, 1)
    six, seven = (studio.documents.get(one.id) for one in job.made)
    assert (six.title, six.status, six.certificate) == ('Write a number (6)', 'published', 'certified')
    assert (seven.status, seven.certificate) == ('draft', 'failed')
    assert job.made[1].reason.startswith('reference passes: ')
    assert six.task_spec is not None
    assert six.task_spec.prompt == 'Write 6 to out.txt. {n} stays.'
    assert six.topics == ('files', 'variants of Write a number')
    with pytest.raises(TaskError, match='certify it first'):
        studio.documents.publish(seven.id, revision=seven.revision)
    assert [refusal.id for refusal in studio.bulk.publish([six.id, seven.id]).refused] == [seven.id]
    known = messages(studio.variants.preview(base.id, recipe))
    assert known[1] == ['task_spec: the same task is here already: Write a number (6)']
    with pytest.raises(TaskError, match='no variant to make'):
        studio.variants.make(base.id, recipe)

    assert studio.variants.undo(base.id) == 2
    left = studio.documents.list(DocumentQuery(topics=('variants of Write a number',)))
    assert left.total == 0
    assert studio.variants.redo(base.id) == 2
    assert studio.documents.get(six.id).status == 'published'


def test_making_can_be_cancelled(studio: Studio) -> None:
    slow = TaskFile.model_validate(TASK).model_dump(mode='json')
    slow['task_spec']['checker']['config']['command'] = 'sleep 90; grep -qx {n} out.txt'
    base = studio.documents.create(parse_task(slow)[0])
    studio.variants.make(base.id, Recipe(title='Slow {n}', table=combined({'n': '1..3'})))

    def begun() -> JobView | None:
        job = studio.variants.job(base.id)
        return job if job is not None and job.made[0].outcome == 'certifying' else None

    until(begun)
    began = time.monotonic()
    studio.variants.cancel(base.id)
    job = ended(studio, base.id)
    assert time.monotonic() - began < 60, 'what runs is ended, not waited for'
    assert job.state == 'cancelled'
    assert [one.outcome for one in job.made] == ['untried'] * 3
    assert [bool(one.id) for one in job.made] == [True, False, False]
    assert studio.documents.get(job.made[0].id).status == 'draft'


def test_a_task_with_nothing_to_replace_makes_nothing(studio: Studio, tmp_path: Path) -> None:
    base = studio.documents.create(parse_task({'title': 'T', 'task_spec': {**TASK['task_spec'], 'prompt': BRACES,
        'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}})[0])  # fmt: skip
    before = studio.documents.list().total
    with pytest.raises(TaskError, match=r'no \{n\} to be replaced'):
        studio.variants.make(base.id, Recipe(title='T', table=combined({'n': '1..3'})))
    assert studio.documents.list().total == before
    assert studio.documents.get(base.id).draft['prompt'] == BRACES


# --------------------------------------------------------------------------------------------- command line


def test_the_command_line_writes_them_as_jsonl(tmp_path: Path) -> None:
    file, out = tmp_path / 'task.json', tmp_path / 'out.jsonl'
    file.write_text(json.dumps(TASK), encoding='utf-8')
    run = CliRunner().invoke
    done = run(app, ['tasks', 'variants', str(file), '--set', 'n=1..3', '--out', str(out)])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in out.read_text(encoding='utf-8').splitlines()]
    assert [row['title'] for row in rows] == [f'Write a number ({n})' for n in (1, 2, 3)]
    assert rows[0]['task_spec']['prompt'] == 'Write 1 to out.txt. {n} stays.'
    table = tmp_path / 'rows.csv'
    table.write_text('n\n1\n1\n', encoding='utf-8')
    done = run(app, ['tasks', 'variants', str(file), '--table', str(table), '--json'])
    assert done.exit_code == 2
    assert [row['ok'] for row in json.loads(done.stdout)] == [True, False]
    done = run(app, ['tasks', 'variants', str(file), '--set', 'm=1'])
    assert isinstance(done.exception, TaskError)
    first = done.exception.fields[0]
    assert (first.loc, first.msg) == ('prompt', '{n} in line 1, column 7 is not a column')


def test_the_command_line_keeps_those_that_are_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('RLVR_HOME', str(tmp_path / 'home'))
    file = tmp_path / 'task.json'
    file.write_text(json.dumps(TASK), encoding='utf-8')
    done = CliRunner().invoke(app, ['tasks', 'variants', str(file), '--set', 'n=6..7', '--certify', '--json'])
    assert done.exit_code == 1, done.output
    six, seven = json.loads(done.stdout)
    assert (six['ok'], seven['ok']) == (True, False)
    assert seven['reason'].startswith('reference passes: ')
