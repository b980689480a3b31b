"""The parts of the editor without a browser: diffs, merging, JSON by line, uploads, hints, and pages that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nicegui.testing import User
from nicegui.testing.user_interaction import UserInteraction
from nicegui.testing.user_simulation import user_simulation
from stand_in import task

from studio.services import Studio
from studio.ui.components.code_editor import language_of
from studio.ui.components.diff_view import Change, diff_lines, spec_changes
from studio.ui.components.elements import Text
from studio.ui.components.json_lines import NotJson, read_json
from studio.ui.components.markdown_view import markdown_view
from studio.ui.components.uploads import MAX_FILE_BYTES, Refused, as_text
from studio.ui.pages.editor_blocks import fits_the_form, has_task
from studio.ui.pages.editor_checker import KINDS, asked_to_change, protected_files, why_not_run
from studio.ui.pages.editor_draft import Draft
from studio.ui.pages.editor_merge import changed_parts, merge
from studio.ui.pages.editor_problems import words
from studio.ui.pages.editor_unsent import put_back
from trainer.errors import StoreError, TaskError
from trainer.task import parse_task


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    """Services over a data folder of their own."""
    return open_studio(watch=False)


def press(user: User, text: str) -> None:
    """Click the button that shows a text; a simulated click does not rise from the text to its button."""
    buttons = {text.parent_slot.parent for text in user.find(text, kind=Text).elements if text.parent_slot}
    UserInteraction(user, buttons, None).click()


# ---------------------------------------------------------------------------------------------------------- diffs

_LINES = st.lists(st.sampled_from(['a', 'b', '', 'c ', 'd\r']), max_size=12).map('\n'.join)


@given(before=_LINES, after=_LINES)
def test_a_diff_has_every_line_of_both_sides(before: str, after: str) -> None:
    lines = diff_lines(before, after)
    old, new = before.split('\n') if before else [], after.split('\n') if after else []
    assert all(old[line.old - 1] == line.text for line in lines if line.old)
    assert all(new[line.new - 1] == line.text for line in lines if line.new)
    unchanged = {line.old for line in lines if line.kind == 'deleted'}
    kept = [text for number, text in enumerate(old, 1) if number not in unchanged]
    added = {line.new for line in lines if line.kind == 'added'}
    assert kept == [text for number, text in enumerate(new, 1) if number not in added]


def test_equal_stretches_are_left_out_of_a_diff() -> None:
    before = '\n'.join(str(number) for number in range(100))
    lines = diff_lines(before, before.replace('\n50\n', '\nfifty\n'))
    assert [line.text for line in lines if line.kind == 'gap'] == ['47 equal lines', '46 equal lines']
    assert [line.text for line in lines if line.kind in ('added', 'deleted')] == ['50', 'fifty']


def test_what_differs_in_a_spec_is_named_by_field_and_file() -> None:
    before = {'prompt': 'p', 'setup_files': {'a.py': '1', 'b': ''}, 'checker': {'type': 'script', 'config': {'x': 1}}}
    after = {'prompt': 'p', 'setup_files': {'a.py': '2'}, 'checker': {'type': 'script', 'config': {'x': 1, 'y': ['z']}}}
    assert spec_changes(before, after) == [
        Change('a.py', '1', '2'),
        Change('b', '', None),
        Change('checker.config.y', None, 'z'),
    ]
    assert spec_changes(before, before) == []


# ---------------------------------------------------------------------------------------------------------- merge


def test_changes_that_do_not_meet_are_both_kept() -> None:
    base = {'title': 't', 'task_spec': {'prompt': 'p', 'setup_files': {'a': '1', 'b': '1'}, 'checker': {'type': 'x'}}}
    mine = {
        'title': 't',
        'task_spec': {'prompt': 'mine', 'setup_files': {'a': '2', 'b': '1'}, 'checker': {'type': 'x'}},
    }
    theirs = {'title': 'new', 'task_spec': {'prompt': 'p', 'setup_files': {'a': '1'}, 'checker': {'type': 'y'}}}
    assert merge(base, mine, theirs) == (
        {'title': 'new', 'task_spec': {'prompt': 'mine', 'setup_files': {'a': '2'}, 'checker': {'type': 'y'}}},
        (),
    )
    assert changed_parts(base, theirs) == ('title', 'task_spec.setup_files.b', 'task_spec.checker')
    theirs['task_spec']['prompt'] = 'theirs'  # type: ignore[index]
    assert merge(base, mine, theirs)[1] == ('task_spec.prompt',)


async def test_both_sides_of_a_conflict_can_be_kept(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    studio.documents.update(view.id, title='Theirs', revision=view.revision)
    draft.raw['prompt'] = 'mine'
    draft.edited()
    assert not await draft.save()
    assert (draft.changed_here, draft.changed_there, draft.clashes) == (('task_spec.prompt',), ('title',), ())
    await draft.keep_both()
    stored = studio.documents.get(view.id)
    assert (draft.state, stored.title, stored.draft['prompt']) == ('saved', 'Theirs', 'mine')


async def test_two_tabs_that_typed_the_same_are_of_one_mind(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    here, there = (Draft(studio.documents, view, lambda: None) for _ in range(2))
    for draft in (here, there):
        draft.raw['prompt'] = 'the same'
        draft.edited()
        assert await draft.save()
    assert (there.state, there.view.revision) == ('saved', here.view.revision)
    there.raw['prompt'] = 'more'
    there.edited()
    assert await there.save()


async def test_their_side_can_be_taken_and_mine_brought_back(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    studio.documents.save_draft(view.id, {**view.draft, 'prompt': 'theirs'}, revision=view.revision)
    draft.raw['prompt'] = 'mine'
    draft.edited()
    assert not await draft.save()
    undo = draft.take_theirs()
    assert (draft.raw['prompt'], draft.state) == ('theirs', 'saved')
    undo()
    assert await draft.save()
    assert studio.documents.get(view.id).draft['prompt'] == 'mine'


async def test_who_never_rests_is_saved_all_the_same(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    now = [1000.0]
    monkeypatch.setattr('studio.ui.pages.editor_draft.time.monotonic', lambda: now[0])
    for number in range(12):
        draft.raw['prompt'] = f'typed {number}'
        draft.edited()
        now[0] += 0.5
        await draft.tick()
    assert studio.documents.get(view.id).draft['prompt'] == 'typed 7'


# ----------------------------------------------------------------------------------------------------------- JSON


def test_every_value_has_a_line() -> None:
    text = '{\n "a": [1,\n  {"b": "x\\n}"}],\n "c": {"d": null}\n}'
    read = read_json(text)
    assert read.value == {'a': [1, {'b': 'x\n}'}], 'c': {'d': None}}
    assert read.lines == {'': 1, 'a': 2, 'a.0': 2, 'a.1': 3, 'a.1.b': 3, 'c': 4, 'c.d': 4}
    assert (read.line_of('a.1.missing'), read.line_of('nowhere.at.all')) == (3, 1)


@pytest.mark.parametrize(
    ('text', 'line', 'words'),
    [
        ('{"a": 1,\n "a": 2}', 2, "'a' is there twice"),
        ('{"a":\n NaN}', 2, 'NaN is no number'),
        ('[1]', 1, 'An object is needed'),
        ('{"a":\n 1,}', 2, 'double quotes'),
        ('[' * 100_000, 1, 'nested too deeply'),
        ('{"a":' * 200 + '1' + '}' * 200, 1, 'nested too deeply'),
    ],
)
def test_what_is_no_json_is_named_by_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(NotJson) as refused:
        read_json(text)
    assert refused.value.line == line
    assert words in refused.value.message


# --------------------------------------------------------------------------------------------- files and the hint


@pytest.mark.parametrize(
    ('data', 'words'),
    [(b'\x89PNG\r\n\x1a\n\0', 'binary'), (b'\xff\xfeh', 'not UTF-8'), (b'x' * (MAX_FILE_BYTES + 1), 'larger than')],
)
def test_what_is_no_setup_file_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words):
        as_text(data)
    assert as_text('a\r\né '.encode()) == 'a\r\né '


def test_files_are_coloured_by_their_names() -> None:
    names = ['a.py', 'x/Dockerfile', 'run.SH', 'a.b.yaml', 'notes', '.bashrc']
    assert [language_of(name) for name in names] == ['Python', 'Dockerfile', 'Shell', 'YAML', None, 'Shell']


def test_a_file_the_task_asks_to_change_and_the_checker_restores_is_found() -> None:
    files = {'solution.py': '', 'data.txt': '', 'test_it.py': ''}
    run = {'type': 'exit_code', 'config': {'command': 'python3 solution.py < data.txt | grep -q 5'}}
    checker = KINDS['exit_code'].model_validate(run)
    assert protected_files(checker, files) == ['data.txt', 'solution.py']
    assert asked_to_change(checker, 'Fix solution.py.', files) == ['solution.py']
    assert asked_to_change(checker, 'Fix my_solution.py and resolution.pyc', files) == []
    decided = KINDS['exit_code'].model_validate({**run, 'config': {**run['config'], 'protect': ['solution.py']}})
    assert asked_to_change(decided, 'Fix solution.py.', files) == []
    tests = KINDS['pytest'].model_validate({'type': 'pytest', 'config': {'test_paths': ['test_it.py']}})
    assert asked_to_change(tests, 'Make test_it.py pass.', files) == []


def test_what_keeps_a_valid_checker_from_running_is_said() -> None:
    def why(kind: str, **config: object) -> str:
        return why_not_run(KINDS[kind].model_validate({'type': kind, 'config': config}), {'test_a.py': ''})

    assert why('pytest', test_paths=['test_a.py']) == why('script', script='print(1)') == ''
    assert why('pytest', test_paths=['test_b.py']).startswith("Test path 'test_b.py' is not among the setup files.")
    assert why('script', script='import sys\nprint(0.5').startswith('Line 2 of the script is not Python:')
    assert why('script', script='(' * 5_000)


def test_a_draft_without_a_block_fits_the_form() -> None:
    assert fits_the_form({'prompt': 'p'}) and has_task({'prompt': 'p'})
    assert fits_the_form({'checker': {'type': 'script', 'config': {}}}) and not has_task({'checker': {}})
    assert not fits_the_form({'checker': None})


# ---------------------------------------------------------------------------------- after the studio was stopped


async def test_text_that_a_browser_still_held_is_put_back(studio: Studio) -> None:
    raw = {**task().task_spec.to_json(), 'prompt': 'one\r\ntwo', 'setup_files': {'a.py': 'x'}, 'setup_commands': ['ls']}
    view = studio.documents.create(raw=raw, title='One')
    draft = Draft(studio.documents, view, lambda: None)
    fields = {
        'prompt\nPrompt': 'one\ntwo!',
        'setup_files\na.py': 'x',
        'setup_files\ngone.py': 'y',
        'setup_commands\nCommand 2': 'pwd',
        'max_steps\nMax steps': '3',
        'checker.config.nothing\nX': 'x',
        'title\nTitle': 'Two',
        'json\ntask_spec as JSON': '{"half',
    }
    assert put_back(draft, fields) == ('Prompt', 'Command 2', 'Title')
    assert await draft.save()
    stored = studio.documents.get(view.id)
    assert stored.draft == {**raw, 'prompt': 'one\r\ntwo!', 'setup_commands': ['ls', 'pwd']}
    assert stored.title == 'Two'


# ---------------------------------------------------------------------------------------------------------- pages


async def test_a_version_that_a_run_used_stays_readable(user: User, studio: Studio) -> None:
    view = studio.documents.create(task(1), title='Used by a run', status='published')
    made = studio.runs.create('a run', 'starter', {}, [view.id])
    await user.open(f'/runs/{made.id}/tasks')
    await user.should_see('Used by a run')
    await user.should_see('Version 1')
    changed = studio.documents.save_draft(view.id, {**view.draft, 'prompt': 'changed since'}, revision=view.revision)
    await user.open(f'/runs/{made.id}/tasks?task={view.id}')
    await user.should_see(f'it is at v{changed.version} now')
    await user.should_see('changed since')
    studio.documents.delete(view.id)
    await user.open(f'/runs/{made.id}/tasks?task={view.id}')
    await user.should_see('The task was deleted since')
    await user.should_see('Make it a task again')
    await user.should_see('Source, byte for byte')


async def test_the_editor_names_what_is_restored_although_it_is_asked_for(user: User, studio: Studio) -> None:
    raw: dict[str, Any] = {
        'prompt': 'Fix solution.py.',
        'setup_files': {'solution.py': 'print(4)\n'},
        'checker': {'type': 'exit_code', 'config': {'command': 'python3 solution.py | grep -q 5'}},
    }
    view = studio.documents.create(raw=raw, title='Restored')
    await user.open(f'/tasks/{view.id}')
    await user.should_see('Restored before grading.')
    press(user, 'Let the model change it')
    await user.should_not_see('Restored before grading.')
    await user.should_see('Nothing is put back before grading')
    await user.should_see('Saved v2', retries=60)
    assert studio.documents.get(view.id).draft['checker']['config']['protect'] == []


async def test_each_block_is_offered_once(user: User, studio: Studio) -> None:
    view = studio.documents.create(raw={'prompt': 'Only a prompt'}, title='Half')
    await user.open(f'/tasks/{view.id}')
    await user.should_see('checker')
    await user.should_not_see('Checker type')
    press(user, 'Add a block')
    await user.should_see('Once per task: it is there already')
    await user.should_see('The program that decides the reward')


async def test_a_task_that_was_deleted_elsewhere_can_be_brought_back(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    studio.documents.delete(view.id)
    draft.raw['prompt'] = 'typed on'
    draft.edited()
    assert not await draft.save()
    assert draft.state == 'gone'
    await draft.bring_back()
    assert draft.state == 'saved'
    assert studio.documents.get(view.id).draft['prompt'] == 'typed on'


async def test_a_save_that_the_store_refused_is_tried_again(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    save_draft = studio.documents.save_draft

    def full(*args: Any, **kwargs: Any) -> Any:
        raise StoreError('The disk is full: nothing was saved', hint='Free some space.')

    monkeypatch.setattr(studio.documents, 'save_draft', full)
    monkeypatch.setattr('studio.ui.pages.editor_draft.RETRY_AFTER_S', 0.0)
    draft.raw['prompt'] = 'kept'
    draft.edited()
    assert not await draft.save()
    assert (draft.state, draft.message) == ('failed', 'The disk is full: nothing was saved. Free some space.')
    monkeypatch.setattr(studio.documents, 'save_draft', save_draft)
    await draft.tick()
    assert draft.state == 'saved'
    assert studio.documents.get(view.id).draft['prompt'] == 'kept'


# -------------------------------------------------------------------------------------------------------- preview

HOSTILE_MARKDOWN = (
    '# Head\n\n1. one\n   - two\n\n> quote\n\n| a | b |\n|---|---|\n| c | `d` |\n\n'
    '```python\nx < 1\n```\n\n    block\n\n---\n<script>bad()</script> <img src=x onerror=bad()> '
    '[go](javascript:bad()) ![p](http://a.invalid/p.png) ~~old~~ **b**\\\nz'
)


async def test_a_preview_makes_no_html_of_the_text() -> None:
    async with user_simulation(lambda: markdown_view(HOSTILE_MARKDOWN)) as user:
        await user.open('/')
        await user.should_see('x < 1')
        await user.should_see('[picture: p]')
        drawn = user.client.elements.values() if user.client else ()
        tags = {element.tag for element in drawn}
        assert {'p', 'ol', 'ul', 'li', 'blockquote', 'table', 'td', 'pre', 'hr', 's', 'strong', 'code'} <= tags
        assert not tags & {'a', 'img', 'script', 'h1'}
        text = ' '.join(element.text for element in drawn if isinstance(element, Text))
        assert '<script>bad()</script>' in text and '<img src=x onerror=bad()>' in text


def test_a_checker_that_is_missing_is_a_block_to_add() -> None:
    with pytest.raises(TaskError) as caught:
        parse_task({'prompt': 'x'})
    assert [words(problem) for problem in caught.value.fields] == ['Add the RL Checker block']
    with pytest.raises(TaskError) as caught:
        parse_task({'prompt': 'x', 'checker': {'type': 'exit_code', 'config': {}}})
    assert [words(problem) for problem in caught.value.fields] == ['This field is required']
