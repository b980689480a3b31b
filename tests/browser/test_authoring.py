"""Authoring in a real browser: from a blank task to a verdict, and nothing typed is ever lost."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from authoring import check, checker_code, new_task, prompt, run_tool, status, stored, until_stored
from live_server import Server
from playwright.sync_api import BrowserContext, Page, WebSocketRoute, expect

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]

PROMPT = (
    'Reply with {"answer": 1}. Keep {{name}} and {% if x %} and 100% and $HOME as they are.\n\n- é 漢 🔄 <b>bold</b>'
)
SCRIPT_TEXT = '# ok 🔄 é 漢\nx = 1\n'


def test_the_first_page_is_there_soon(server: Server, page: Page) -> None:
    page.goto(server.url)
    expect(page.get_by_role('heading', level=1, name='Tasks')).to_be_visible()
    # Processor time: a machine with more to do than cores to do it takes longer by the clock.
    spent = psutil.Process(server.process.pid).cpu_times()
    assert spent.user + spent.system < 3


def test_a_blank_task_is_written_dry_run_and_published(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    expect(status(page)).to_contain_text('3 problems')
    expect(page.locator('.problems')).to_contain_text('3 problems')
    expect(page.get_by_role('button', name='Publish')).to_be_disabled()
    prompt(page).click()
    page.keyboard.type(PROMPT, delay=3)
    page.get_by_label('Title', exact=True).fill('Write the answer')
    checker_code(page).click()
    page.keyboard.type('grep -qx granite answer.txt', delay=3)
    until_stored(server, task_id, title='Write the answer', prompt=PROMPT)
    expect(status(page)).to_contain_text('Saved v')
    document = stored(server, task_id)
    assert document['draft']['checker']['config']['command'] == 'grep -qx granite answer.txt'

    run_tool(page, 'echo hello > answer.txt')
    expect(page.locator('.play .tree')).to_contain_text('answer.txt')
    expect(check(page)).to_have_text('Failed0.00')
    run_tool(page, 'echo granite > answer.txt')
    expect(check(page)).to_have_text('Passed1.00')
    page.get_by_role('button', name='Keep 2 steps').click()
    page.get_by_text('As reference solution').click()
    expect(page.get_by_label('Reference solution').first).to_contain_text('echo granite > answer.txt')

    checker_code(page).click()
    page.keyboard.press('Control+a')
    page.keyboard.type('no_such_program answer.txt')
    badge = check(page)
    expect(badge).to_have_text('Error – not scored')  # noqa: RUF001
    expect(page.locator('.verd .reason')).to_contain_text('no_such_program')
    assert not re.search(r'\d\.\d\d', badge.inner_text())

    page.keyboard.press('Control+z')
    expect(checker_code(page)).to_have_text('grep -qx granite answer.txt')
    page.get_by_role('button', name='Publish').click()
    expect(page.locator('header .chip')).to_have_text('Published')
    page.reload()
    expect(prompt(page)).to_have_value(PROMPT)
    expect(page.locator('header .chip')).to_have_text('Published')
    assert [step['tool'] for step in stored(server, task_id)['solutions'][0]['steps']] == ['run_command'] * 2
    prompt(page).fill('')
    expect(page.locator('.problems')).to_contain_text(re.compile(r'1 problem to solve; until then runs are given v\d'))


def test_a_reload_right_after_the_last_key_keeps_it(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    prompt(page).click()
    page.keyboard.type('first words and the last one')
    page.reload()
    # The last keys and the reload come over two connections: the page follows if it was drawn before they arrived.
    expect(prompt(page)).to_have_value('first words and the last one')
    page.keyboard.press('g')
    page.keyboard.press('t')
    page.wait_for_url(server.url + '/')
    assert stored(server, task_id)['draft']['prompt'] == 'first words and the last one'


def test_keys_that_a_closing_connection_took_along_are_back_after_the_reload(server: Server, page: Page) -> None:
    sockets: list[WebSocketRoute] = []
    lost: list[str | bytes] = []

    def connect(socket: WebSocketRoute) -> None:
        studio = socket.connect_to_server()
        sockets.append(socket)

        def send(message: str | bytes) -> None:
            if socket is sockets[0] and (lost or 'the last on' in str(message)):
                lost.append(message)
            else:
                studio.send(message)

        socket.on_message(send)

    page.route_web_socket(re.compile('.*'), connect)
    task_id = new_task(page, server)
    prompt(page).click()
    page.keyboard.type('first words and the last one')
    page.reload()
    expect(page.get_by_text('Back from before the reload: Prompt')).to_be_visible()
    assert lost
    expect(prompt(page)).to_have_value('first words and the last one')
    until_stored(server, task_id, prompt='first words and the last one')
    expect(status(page)).to_contain_text('Draft saved')
    page.get_by_role('button', name='Undo').click()
    expect(prompt(page)).to_have_value('first words and the last o')


def test_a_reload_brings_back_nothing_that_was_undone_or_is_typed_anew(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    checker_code(page).click()
    page.keyboard.type('kept')
    prompt(page).fill('before')
    until_stored(server, task_id, prompt='before')
    checker_code(page).click()
    page.keyboard.press('Control+End')
    page.keyboard.type(' undone')
    page.wait_for_timeout(100)  # the text is known to have been typed before it is undone
    page.keyboard.press('Control+z')
    expect(checker_code(page)).not_to_contain_text('undone')
    prompt(page).fill('at last')
    page.reload()
    prompt(page).fill('after')
    until_stored(server, task_id, prompt='after')
    page.wait_for_function('sessionStorage.getItem("rlvr-unsent") === null')
    page.wait_for_timeout(1500)  # what would be put back would be there by now
    expect(page.get_by_text('Back from before')).to_have_count(0)
    expect(checker_code(page)).to_have_text('kept')
    assert stored(server, task_id)['draft']['prompt'] == 'after'


def test_fast_typing_in_two_files_and_undo_stay_apart(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    page.get_by_role('radio', name='script').click()
    script = checker_code(page)
    script.click()
    page.keyboard.type('def check(c, e):\nreturn c == e\nprint(1.0)', delay=3)
    files = page.locator('.files')
    for name, text in (('a.py', SCRIPT_TEXT), ('src/b.txt', 'second file')):
        files.get_by_role('button', name='New file').first.click()
        page.get_by_label('Path', exact=True).fill(name)
        page.get_by_role('button', name='Add the file').click()
        editor = files.locator('.code-editor:visible .cm-content')
        expect(editor).to_have_attribute('aria-label', name)
        editor.click()
        page.keyboard.insert_text(text)
    files.get_by_title('a.py').first.click()
    editor = files.get_by_label('a.py', exact=True)
    editor.click()
    page.keyboard.press('Control+End')
    page.keyboard.type('y = 2', delay=2)
    files.get_by_title('src/b.txt').first.click()
    editor = files.get_by_label('src/b.txt', exact=True)
    editor.click()
    for _ in range(5):
        page.keyboard.press('Control+z')
    expect(editor).to_have_text('')
    page.keyboard.insert_text('x' * 300_000)
    deadline = time.monotonic() + 60
    while (held := len(stored(server, task_id)['draft']['setup_files'].get('src/b.txt', ''))) != 300_000:
        assert time.monotonic() < deadline, f'{held} characters are stored; the editor says {status(page).inner_text()}'
        time.sleep(0.1)
    draft = stored(server, task_id)['draft']
    assert draft['checker']['config']['script'].startswith('def check(c, e):')
    assert draft['setup_files'] == {'a.py': SCRIPT_TEXT + 'y = 2', 'src/b.txt': 'x' * 300_000}
    assert draft['checker']['config']['script'].replace(' ', '') == 'defcheck(c,e):\nreturnc==e\nprint(1.0)'


def test_a_lost_connection_loses_no_key(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    page.evaluate('window.mark = 1')
    prompt(page).click()
    page.keyboard.type('before ')
    page.context.set_offline(True)
    page.evaluate('window.socket.io.engine.close()')
    page.keyboard.type('during ')
    expect(page.locator('#popup')).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator('#popup')).to_be_hidden(timeout=60_000)
    page.keyboard.type('after')
    until_stored(server, task_id, prompt='before during after')
    assert page.evaluate('window.mark') == 1


def test_json_and_form_are_one_draft_and_versions_come_back(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    prompt(page).fill('first')
    checker_code(page).click()
    page.keyboard.type('true')
    expect(status(page)).to_contain_text('Saved v1')
    page.get_by_role('button', name='JSON').click()
    code = page.get_by_label('task_spec as JSON')
    code.click()
    page.keyboard.press('Control+a')
    page.keyboard.insert_text('{"prompt": "second", ')
    expect(page.get_by_text('Not JSON yet')).to_be_visible()
    page.keyboard.insert_text('"setup_files": {"a.txt": "b"}, "setup_commands": ["ls"], "max_step": 3, ')
    page.keyboard.insert_text('"checker": {"type": "file_exists", "config": {"paths": ["x"]}}}')
    expect(page.get_by_text("did you mean 'max_steps'")).to_be_visible()
    page.keyboard.press('Control+a')
    page.keyboard.insert_text(json.dumps({
        'prompt': 'second', 'setup_files': {'a.txt': 'b'}, 'setup_commands': ['ls'], 'max_steps': 3,
        'checker': {'type': 'file_exists', 'config': {'paths': ['x']}},
    }))  # fmt: skip
    expect(status(page)).to_contain_text('Saved v2')
    page.get_by_role('button', name='Form').click()
    expect(prompt(page)).to_have_value('second')
    expect(page.get_by_role('radio', name='file_exists')).to_have_attribute('aria-checked', 'true')
    expect(page.get_by_label('Required path 1', exact=True)).to_have_value('x')
    page.get_by_role('button', name='Version history').first.click()
    page.get_by_role('button', name='Restore').click()
    expect(prompt(page)).to_have_value('first')
    expect(status(page)).to_contain_text('Saved v3')
    assert stored(server, task_id)['draft']['checker'] == {'type': 'exit_code', 'config': {'command': 'true'}}


def test_two_tabs_never_overwrite_each_other(server: Server, new_page: NewPage) -> None:
    one = new_page()
    task_id = new_task(one, server)
    two = new_page(context=one.context)
    two.goto(one.url)
    expect(prompt(two)).to_be_visible()
    prompt(two).fill('a beginning')
    expect(prompt(one)).to_have_value('a beginning')
    prompt(one).fill('from the first tab')
    until_stored(server, task_id, prompt='from the first tab')
    expect(status(two)).to_have_text('Changed in another tab')
    prompt(two).fill('from the second tab')
    two.wait_for_timeout(1500)
    assert stored(server, task_id)['draft']['prompt'] == 'from the first tab'
    two.get_by_role('button', name='Keep mine').click()
    until_stored(server, task_id, prompt='from the second tab')
    expect(status(one)).to_have_text('Changed in another tab')
    one.get_by_role('button', name='Take theirs').click()
    expect(prompt(one)).to_have_value('from the second tab')


def test_keys_search_and_hostile_titles(server: Server, page: Page) -> None:
    hostile = '</script><img src=x onerror="document.title=\'pwned\'">'
    task_id = new_task(page, server)
    page.get_by_label('Title', exact=True).fill(hostile)
    prompt(page).fill(hostile)
    until_stored(server, task_id, title=hostile, prompt=hostile)
    page.keyboard.press('Escape')
    page.get_by_role('link', name='Tasks').first.click()
    expect(page.get_by_role('link', name=hostile)).to_be_visible()
    page.keyboard.press('/')
    page.keyboard.type('onerror', delay=20)
    expect(page.locator('.tt a')).to_have_count(1)
    expect(page).to_have_url(re.compile('search=onerror'))
    page.reload()
    expect(page.locator('.tt a')).to_have_text([hostile])
    page.get_by_label('Search title, prompt, file name or command').press('Escape')
    page.locator('h1').click()
    page.keyboard.press('?')
    expect(page.get_by_role('heading', name='Keyboard')).to_be_visible()
    page.keyboard.press('Escape')
    expect(page.locator('.q-dialog__inner')).to_have_count(0)
    page.keyboard.press('Control+k')
    expect(page.get_by_role('combobox', name='Do something')).to_be_focused()
    page.keyboard.type('onerror')
    expect(page.get_by_role('option')).to_have_text([re.compile(re.escape(hostile))])
    page.keyboard.press('Enter')
    expect(prompt(page)).to_have_value(hostile)
    assert 'pwned' not in page.title() or hostile in page.title()
    assert page.evaluate('document.querySelectorAll("img").length') == 0


def test_bulk_delete_can_be_undone(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    page.get_by_label('Title', exact=True).fill('Doomed')
    until_stored(server, task_id, title='Doomed')
    page.get_by_role('link', name='Tasks').first.click()
    row = page.locator('tr', has_text='Doomed')
    row.locator('.q-checkbox').click()
    expect(page.locator('.bulk')).to_contain_text('1selected')
    page.locator('.bulk').get_by_role('button', name='Delete').click()
    expect(row).to_have_count(0)
    page.get_by_role('button', name='Undo').click()
    expect(row).to_have_count(1)


def test_one_slow_check_freezes_nobody_and_can_be_cancelled(server: Server, new_page: NewPage) -> None:
    one = new_page()
    new_task(one, server)
    prompt(one).fill('slow')
    checker_code(one).click()
    one.keyboard.type('sleep 55')
    expect(status(one)).to_contain_text('v1')
    one.keyboard.press('Control+Enter')
    chip = one.locator('.play .chip').first
    expect(chip).to_contain_text('Checking')
    two = new_page()
    two.goto(one.url)
    expect(prompt(two)).to_be_visible()
    two.get_by_role('link', name='Settings').first.click()
    expect(two.get_by_role('heading', level=1, name='Settings')).to_be_visible()
    # The second tab was answered while the first still waited for its checker.
    expect(chip).to_contain_text('Checking')
    one.get_by_role('button', name='Cancel').click()
    expect(chip).not_to_contain_text('Checking')
    expect(one.locator('.vb')).to_have_count(0)


@pytest.mark.parametrize('path', ['/', '/templates', '/models', '/settings'])
@pytest.mark.parametrize('width', [1440, 1024])
def test_pages_have_one_heading_and_no_side_scroll(server: Server, new_page: NewPage, path: str, width: int) -> None:
    page = new_page(width=width, height=768)
    page.goto(server.url + path)
    expect(page.get_by_role('heading', level=1)).to_have_count(1)
    page.wait_for_function('window.did_handshake')
    assert page.evaluate('document.documentElement.scrollWidth') <= width
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, a[href], input, textarea')].filter(e => e.getClientRects().length
        && !e.getAttribute('aria-label') && !e.title && !e.textContent.trim() && !e.closest('label')
        && !e.closest('[aria-hidden=true]') && !e.labels?.length && e.type !== 'file').map(e => e.outerHTML)"""
    )
    assert nameless == []


def test_the_theme_follows_the_system_and_is_kept(server: Server, new_page: NewPage) -> None:
    page = new_page(dark=True)
    page.goto(server.url)
    expect(page.locator('body.body--dark')).to_have_count(1)
    page.get_by_role('button', name='Switch theme').click()
    expect(page.locator('body.body--light')).to_have_count(1)
    page.reload()
    expect(page.locator('body.body--light')).to_have_count(1)


def test_other_hosts_and_origins_are_refused(server: Server, browser: Any) -> None:
    context: BrowserContext = browser.new_context()
    request = context.request
    assert request.get(server.url, headers={'Host': 'evil.example'}).status == 400
    assert request.get(f'{server.url}/healthz').json()['status'] == 'ok'
    answer = request.get(
        f'{server.url}/_nicegui_ws/socket.io/?EIO=4&transport=polling', headers={'Origin': 'http://evil.example'}
    )
    assert answer.status == 403
    assert "frame-ancestors 'none'" in request.get(server.url).headers['content-security-policy']
    assert request.get(f'{server.url}/adapters/none/download').status == 404
    context.close()
