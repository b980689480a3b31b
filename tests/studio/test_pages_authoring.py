"""The authoring pages without a browser, and the parts they rest on: guards, line endings, forms, the draft."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nicegui import ui
from nicegui.testing import User
from stand_in import task

from studio import app as studio_app
from studio.services import Studio
from studio.ui.components.config_form import _number
from studio.ui.components.line_endings import as_shown, keep_line_endings
from studio.ui.pages.editor_blocks import KINDS, fits_the_form
from studio.ui.pages.editor_draft import Draft
from trainer.certify import Certificate, ProbeResult, evidence_hash
from trainer.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
SOURCES = [*(ROOT / 'studio' / 'ui').rglob('*.py'), ROOT / 'studio' / 'app.py']


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    """Services over a data folder of their own."""
    return open_studio(watch=False)


async def table_rows(user: User) -> list[dict[str, Any]]:
    """The rows of the table, once they are read."""
    table = next(iter(user.find(kind=ui.table).elements))
    for _ in range(200):
        if table.rows:
            break
        await asyncio.sleep(0.05)
    return list(table.rows)


# ---------------------------------------------------------------------------------------------------------- pages


async def test_without_a_task_there_are_three_ways_to_begin(user: User, studio: Studio) -> None:
    await user.open('/')
    await user.should_see('Write your first task')
    for way in ('Choose a template', 'Choose a file', 'Open a sandbox', 'Load the tutorial tasks'):
        await user.should_see(way)


async def test_the_library_counts_what_is_there(user: User, studio: Studio) -> None:
    for number in range(3):
        studio.documents.create(task(number), title=f'Task {number}', status='published' if number else 'draft')
    await user.open('/')
    await user.should_see('Published')
    rows = await table_rows(user)
    assert [row['title'] for row in rows] == ['Task 2', 'Task 1', 'Task 0']
    assert [row['draft'] for row in rows] == [False, False, True]
    assert rows[0]['checker'] == 'pytest' and rows[0]['version'] == 'v1'


async def test_filters_of_the_address_are_used(user: User, studio: Studio) -> None:
    for number in range(3):
        studio.documents.create(task(number), title=f'Task {number}', topics=('odd',) if number % 2 else ())
    await user.open('/?topic=odd')
    await user.should_see('Topic is')
    assert [row['title'] for row in await table_rows(user)] == ['Task 1']


async def test_certificates_are_shown_filtered_and_asked_for(user: User, studio: Studio) -> None:
    ids = [studio.documents.create(task(number), title=f'Task {number}', status='published').id for number in range(3)]
    for id, state in zip(ids, ('certified', 'failed'), strict=False):
        hollow = ProbeResult(name='untouched workspace fails', ok=state == 'certified', detail='1.00', kind='untouched')
        studio.certificates.keep(
            Certificate(
                state='certified' if state == 'certified' else 'failed',
                hash=studio.documents.get(id).hash,
                evidence=evidence_hash(()),
                probes=(hollow,),
                isolation='bubblewrap',
                created_at=datetime.now(UTC),
                duration_ms=1,
            )
        )
    await user.open('/')
    await user.should_see('Published')
    assert [row['seal']['word'] for row in await table_rows(user)] == ['Uncertified', 'Failed', 'Certified']
    await user.open('/?certificate=failed')
    await user.should_see('Certificate is')
    assert [row['title'] for row in await table_rows(user)] == ['Task 1']
    await user.open('/train')
    await user.should_see('1 certified')
    await user.should_see('1 task has no certificate, 1 failed its certificate.')
    await user.should_see('Leave out')
    await user.open(f'/tasks/{ids[1]}')
    await user.should_see('Failed for v1')
    await user.should_see('Run again')


async def test_the_editor_shows_problems_at_their_fields(user: User, studio: Studio) -> None:
    view = studio.documents.create(raw={
        'prompt': 'p', 'env': 'tfcode', 'max_steps': 99, 'setup_files': {}, 'setup_commands': [],
        'checker': {'type': 'file_exists', 'config': {'paths': ['../outside.txt'], 'timeout_s': 'soon'}},
    }, title='Broken')  # fmt: skip
    await user.open(f'/tasks/{view.id}')
    await user.should_see('2 problems to solve before this can be published')
    await user.should_see('Stay inside the workspace: remove ../')
    await user.should_see('checker.config.timeout_s')
    await user.should_see('Draft saved · 2 problems')


async def test_a_clamp_is_said(user: User, studio: Studio) -> None:
    raw = {**task().task_spec.to_json(), 'max_steps': 99}
    view = studio.documents.create(raw=raw, title='Long')
    await user.open(f'/tasks/{view.id}')
    await user.should_see('lowered from 99 to 64')


async def test_a_draft_out_of_shape_is_shown_as_json(user: User, studio: Studio) -> None:
    view = studio.documents.create(raw={'prompt': 1, 'checker': 'none'}, title='Odd')
    await user.open(f'/tasks/{view.id}')
    await user.should_see('The form cannot show this draft')


async def test_a_missing_task_is_said(user: User) -> None:
    await user.open('/tasks/none')
    await user.should_see('There is no task at this address')


@pytest.mark.parametrize(
    ('path', 'seen'), [('/models', 'Qwen3-0.6B'), ('/settings', 'Probe again'), ('/templates', 'Templates')]
)
async def test_the_other_pages_draw(user: User, path: str, seen: str) -> None:
    await user.open(path)
    await user.should_see(seen)


# ---------------------------------------------------------------------------------------------------------- draft


async def test_a_draft_is_saved_after_the_keys_have_rested_and_never_over_another(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    states: list[str] = []
    draft = Draft(studio.documents, view, lambda: states.append(''))
    draft.raw['prompt'] = 'changed'
    draft.edited()
    await draft.tick()
    assert draft.state == 'dirty'
    assert await draft.save()
    assert (draft.state, draft.view.version) == ('saved', 2)
    other = studio.documents.save_draft(view.id, {**draft.raw, 'prompt': 'elsewhere'}, revision=draft.view.revision)
    draft.raw['prompt'] = 'mine'
    draft.edited()
    assert not await draft.save()
    assert (draft.state, draft.stored.draft['prompt']) == ('conflict', 'elsewhere')
    assert studio.documents.get(view.id).revision == other.revision
    await draft.keep_mine()
    assert studio.documents.get(view.id).draft['prompt'] == 'mine'
    assert states


async def test_a_title_that_is_too_long_never_holds_the_spec_back(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    draft.raw['prompt'], draft.title = 'kept', 'a' * 300
    draft.edited()
    assert not await draft.save()
    assert (draft.state, draft.message) == ('failed', 'At most 200 characters, not 300')
    assert studio.documents.get(view.id).draft['prompt'] == 'kept'
    draft.title = 'short'
    draft.edited()
    assert await draft.save()
    assert studio.documents.get(view.id).title == 'short'


async def test_a_tab_without_edits_follows_a_change_elsewhere_and_one_with_edits_asks(studio: Studio) -> None:
    view = studio.documents.create(task(), title='One')
    redrawn: list[str] = []
    draft = Draft(studio.documents, view, lambda: None, lambda: redrawn.append(draft.title))
    await draft.look()
    assert (draft.state, redrawn) == ('saved', [])
    view = studio.documents.update(view.id, title='Two', revision=view.revision)
    await draft.look()
    assert (draft.state, redrawn) == ('saved', ['Two'])
    draft.title = 'Mine'
    draft.edited()
    assert await draft.save()
    studio.documents.update(view.id, title='Three', revision=draft.view.revision)
    await draft.look()
    assert (draft.state, draft.stored.title, redrawn) == ('conflict', 'Three', ['Two'])


async def test_keys_during_a_slow_save_are_saved_after_it(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    view = studio.documents.create(task(), title='One')
    draft = Draft(studio.documents, view, lambda: None)
    save_draft = studio.documents.save_draft

    def slowly(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.3)
        return save_draft(*args, **kwargs)

    monkeypatch.setattr(studio.documents, 'save_draft', slowly)
    draft.raw['prompt'] = 'first'
    draft.edited()
    first = asyncio.create_task(draft.save())
    await asyncio.sleep(0.1)
    draft.raw['prompt'] = 'second'
    draft.edited()
    assert await draft.save()
    await first
    assert draft.state == 'saved'
    assert studio.documents.get(view.id).draft['prompt'] == 'second'


# ---------------------------------------------------------------------------------------------------------- parts

_TEXTS = st.lists(st.sampled_from(['a', 'b', 'é', '\r\n', '\n', '\r', '🔄']), max_size=12).map(''.join)


@given(before=_TEXTS, typed=st.data())
def test_line_endings_survive_an_edit(before: str, typed: st.DataObject) -> None:
    shown = as_shown(before)
    start = typed.draw(st.integers(0, len(shown)))
    end = typed.draw(st.integers(start, len(shown)))
    after = shown[:start] + typed.draw(st.sampled_from(['', 'x', '\n', 'x\ny'])) + shown[end:]
    assert as_shown(keep_line_endings(before, after)) == after
    assert keep_line_endings(before, shown) == before


def test_a_windows_file_keeps_its_endings_around_an_edit() -> None:
    assert keep_line_endings('a\r\nb\r\nc', 'a\nb\nx\nc') == 'a\r\nb\r\nx\r\nc'


@pytest.mark.parametrize(
    ('typed', 'value'),
    [('30', 30), (' 2.5 ', 2.5), ('0.0000125', 0.0000125), ('soon', 'soon'), ('1e999', float('inf'))],
)
def test_a_typed_number_is_read_or_left_to_the_validator(typed: str, value: Any) -> None:
    assert _number(typed) == value


def test_the_form_shows_every_checker_and_only_drafts_in_shape() -> None:
    assert list(KINDS) == ['exit_code', 'file_exists', 'pytest', 'script']
    assert fits_the_form(task().task_spec.to_json())
    assert not fits_the_form({'prompt': 'p', 'setup_files': [], 'setup_commands': [], 'checker': {}})


# ---------------------------------------------------------------------------------------------------------- start


def test_a_busy_port_is_one_clear_message() -> None:
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            studio_app.claim_port('127.0.0.1', port)
    assert f'Port {port} is in use' in refused.value.message
    assert f'--port {port + 1}' in refused.value.hint


# ---------------------------------------------------------------------------------------------------- house rules


def test_pages_use_tokens_and_symbols_that_exist() -> None:
    symbols = set(re.findall(r'symbol id="([^"]+)"', (ROOT / 'assets/icons/icons.svg').read_text(encoding='utf-8')))
    for path in SOURCES:
        text = path.read_text(encoding='utf-8')
        assert not re.search(r'#[0-9a-fA-F]{6}\b', text), f'{path} has a colour of its own'
        named = re.findall(r"(?:Icon\(|icon=|sprite\()'([a-z0-9-]+)'", text)
        assert set(named) <= symbols, f'{path}: {set(named) - symbols}'
    styles = (ROOT / 'assets/css/studio.css').read_text(encoding='utf-8')
    assert not re.search(r'#[0-9a-fA-F]{3,8}\b', styles)


def test_text_of_others_never_becomes_html() -> None:
    for path in SOURCES:
        for line in path.read_text(encoding='utf-8').splitlines():
            assert 'ui.markdown(' not in line, path
            assert 'v-html' not in line, path
