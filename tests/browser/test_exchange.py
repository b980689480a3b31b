"""Import and export in a real browser: a preview of every row, nothing stored unconfirmed, undo, downloads."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from live_server import Server
from playwright.sync_api import Locator, Page, expect

from studio.exchange.archive import pack
from studio.exchange.formats import writer
from trainer.task import parse_task

pytestmark = pytest.mark.browser

CHECKER = {'type': 'exit_code', 'config': {'command': 'grep -qx done out.txt'}}


@pytest.fixture(autouse=True)
def _patience(page: Page) -> None:
    """Wait long enough for a machine with more to do than cores to do it."""
    page.set_default_timeout(45_000)
    expect.set_options(timeout=45_000)


def task(title: str, prompt: str = 'Write done into out.txt.') -> dict[str, Any]:
    steps = [{'tool': 'write_file', 'args': {'path': 'out.txt', 'content': 'done\n'}}]
    spec = {'prompt': f'{prompt} {title}', 'checker': CHECKER}
    return {'title': title, 'task_spec': spec, 'solutions': [{'kind': 'reference', 'steps': steps}]}


def titles(server: Server) -> list[str]:
    with sqlite3.connect(f'file:{server.home}/studio.db?mode=ro', uri=True) as database:
        rows = database.execute('select title from document where deleted_at is null order by title').fetchall()
    return [title for (title,) in rows]


def open_import(page: Page, server: Server) -> Locator:
    """The import dialog of the library."""
    page.goto(server.url)
    page.wait_for_function('window.did_handshake')
    page.get_by_role('button', name='Import', exact=True).click()
    dialog = page.get_by_role('dialog', name='Import tasks')
    expect(dialog).to_be_visible()
    return dialog


def row(page: Page, title: str) -> Locator:
    return page.locator('.report tbody tr', has=page.get_by_role('cell', name=title, exact=True))


def test_the_first_tasks_come_from_a_file_with_bad_lines(server: Server, page: Page, tmp_path: Path) -> None:
    lines = [
        json.dumps(task('One')),
        '{"prompt": ',
        json.dumps({**task('Two'), 'titel': 'x'}),
        json.dumps(task('Three')),
    ]
    path = tmp_path / 'tasks.jsonl'
    path.write_text('\n'.join(lines), encoding='utf-8')
    page.goto(server.url)
    page.wait_for_function('window.did_handshake')
    page.locator('input[type=file]').set_input_files(path)
    expect(page.get_by_role('heading', name='Import 2 tasks?')).to_be_visible()
    report = page.locator('.report')
    expect(report.locator('tbody tr')).to_have_count(4)
    expect(report.locator('tr', has_text='line 2')).to_contain_text('Not JSON')
    expect(row(page, 'Two')).to_contain_text("did you mean 'title'")
    expect(page.get_by_role('dialog')).to_contain_text('Read as JSON or JSONL of tasks')
    page.get_by_role('radio', name='Refused').click()
    expect(report.locator('tbody tr')).to_have_count(2)
    assert titles(server) == []
    page.get_by_role('button', name='Import 2 tasks').click()
    expect(page.get_by_role('link', name='Three')).to_be_visible()
    assert titles(server) == ['One', 'Three']


def test_a_harbor_zip_says_what_is_left_out_and_can_be_taken_back(server: Server, page: Page, tmp_path: Path) -> None:
    files = {
        'count/task.toml': 'schema_version = "1.4"\n[task]\nname = "acme/count"\nkeywords = ["text"]\n',
        'count/instruction.md': 'Count the lines of /app/in.txt into /app/out.txt\n',
        'count/environment/Dockerfile': 'FROM debian:13\nRUN apt-get install -y jq\nWORKDIR /app\nCOPY in.txt .\n',
        'count/environment/in.txt': 'a\nb\n',
        'count/tests/test.sh': 'grep -qx 2 /app/out.txt && echo 1 > /logs/verifier/reward.txt\n',
        'gpu/task.toml': '[environment]\ngpus = 1\n',
        'gpu/instruction.md': 'x',
        'gpu/tests/test.sh': 'true',
        '../evil.txt': 'x',
    }
    path = tmp_path / 'set.zip'
    path.write_bytes(pack([(name, text.encode(), 0o644) for name, text in files.items()]))
    before = titles(server)
    dialog = open_import(page, server)
    dialog.locator('input[type=file]').set_input_files(path)
    expect(page.get_by_role('heading', name='Import 1 task?')).to_be_visible()
    expect(row(page, 'count')).to_contain_text('line 2: RUN apt-get install -y jq')
    expect(row(page, 'gpu')).to_contain_text('needs 1 GPU')
    expect(page.locator('.report tr', has_text='../evil.txt')).to_contain_text('remove ../')
    assert titles(server) == before
    page.get_by_role('button', name='Import 1 task').click()
    expect(page.get_by_role('link', name='count')).to_be_visible()
    assert titles(server) == [*before, 'count']
    page.get_by_role('button', name='Undo').click()
    expect(page.get_by_role('link', name='count')).to_have_count(0)
    assert titles(server) == before


def test_a_conflict_waits_for_a_choice_by_keyboard(server: Server, page: Page) -> None:
    dialog = open_import(page, server)
    dialog.get_by_label('Or paste it').fill(json.dumps(task('One', 'Another prompt.')))
    dialog.get_by_role('button', name='Preview').click()
    preview = page.get_by_role('dialog', name='1 task differs from yours')
    expect(preview).to_contain_text('Here as “One” (v1); prompt differs')
    expect(preview.get_by_role('button', name='Import', exact=True)).to_be_disabled()
    choice = preview.get_by_role('radiogroup', name='What to do with One').get_by_role('radio', name='Keep mine')
    choice.focus()
    page.keyboard.press('ArrowRight')
    page.keyboard.press('ArrowRight')
    button = preview.get_by_role('button', name='Import 1 task')
    expect(button).to_be_enabled()
    button.focus()
    page.keyboard.press('Enter')
    expect(page.get_by_role('link', name='One (copy)')).to_be_visible()


def test_what_is_exported_is_what_there_is(server: Server, page: Page, tmp_path: Path) -> None:
    page.goto(server.url)
    page.get_by_role('link', name='One', exact=True).click()
    page.wait_for_url('**/tasks/*')
    page.get_by_role('button', name='More actions').click()
    page.get_by_text('Export…').click()
    dialog = page.get_by_role('dialog', name='Export 1 task')
    with page.expect_download() as download:
        dialog.get_by_role('button', name='Harbor folders in a zip').click()
    download.value.save_as(tmp_path / 'one.zip')
    assert download.value.suggested_filename == 'task.zip'
    expected = writer('harbor').write([parse_task(task('One'))[0]])
    with zipfile.ZipFile(tmp_path / 'one.zip') as archive:
        assert json.loads(archive.read('one/rlvr.json'))['task']['solutions'] == task('One')['solutions']
        (tmp_path / 'expected.zip').write_bytes(expected if isinstance(expected, bytes) else b'')
        with zipfile.ZipFile(tmp_path / 'expected.zip') as wanted:
            assert archive.namelist() == wanted.namelist()
            assert archive.read('one/instruction.md') == wanted.read('one/instruction.md')
    open_import(page, server).locator('input[type=file]').set_input_files(tmp_path / 'one.zip')
    expect(page.get_by_role('heading', name='Nothing to import')).to_be_visible()
    expect(row(page, 'One')).to_contain_text('Here already')
