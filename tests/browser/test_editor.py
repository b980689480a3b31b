"""The editor in a real browser: without a mouse, blocks, solutions by hand, files, versions, two sides, a crash."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from authoring import check, checker_code, menu_pick, new_task, prompt, status, stored, tab_to, until_stored
from live_server import Server, start_server, stop_server
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]

DROP = """(names) => {
    const data = new DataTransfer();
    for (const [name, text] of names) data.items.add(new File([text], name));
    const at = document.querySelector('.files .tree li[data-folder="src/"]') ?? document.querySelector('.files');
    at.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def spec(**fields: object) -> dict[str, object]:
    """A valid spec."""
    return {'prompt': 'p', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}, **fields}


def put_json(page: Page, value: object) -> None:
    """Type a spec into the JSON view and go back to the form."""
    page.get_by_role('button', name='JSON', exact=True).click()
    page.get_by_label('task_spec as JSON').click()
    page.keyboard.press('Control+a')
    page.keyboard.insert_text(value if isinstance(value, str) else json.dumps(value))
    expect(status(page)).to_contain_text(re.compile('saved', re.IGNORECASE))
    page.get_by_role('button', name='Form', exact=True).click()
    expect(prompt(page)).to_be_visible()


def until_draft(server: Server, task_id: str, condition: Callable[[dict[str, object]], object]) -> dict[str, object]:
    """Wait until the stored draft is as asked and return it."""
    deadline = time.monotonic() + 60
    while not condition(draft := stored(server, task_id)['draft']):
        assert time.monotonic() < deadline, draft
        time.sleep(0.05)
    return draft  # type: ignore[no-any-return]


def test_a_task_is_made_checked_and_published_without_a_mouse(server: Server, page: Page) -> None:
    page.goto(server.url)
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_role('heading', level=1, name='Tasks')).to_be_visible()
    page.keyboard.press('n')
    expect(page.get_by_label('Title', exact=True)).to_be_focused()
    task_id = page.url.rsplit('/', 1)[-1]
    page.keyboard.type('Say the colour')
    page.keyboard.press('Enter')  # and nobody waits to type on
    page.keyboard.type('Write granite into answer.txt.')
    tab_to(page, 'New file')
    page.keyboard.press('Enter')
    expect(page.get_by_label('Path', exact=True)).to_be_focused()
    page.keyboard.type('notes/hint.md')
    page.keyboard.press('Enter')
    expect(page.get_by_label('notes/hint.md', exact=True)).to_be_focused()
    page.keyboard.type('# A hint')
    tab_to(page, 'Command 1')
    page.keyboard.type('mkdir -p out')
    page.keyboard.press('Enter')
    expect(page.get_by_label('Command 2', exact=True)).to_be_focused()
    page.keyboard.type('touch out/log')
    tab_to(page, 'exit_code')
    page.keyboard.press('ArrowRight')
    expect(page.get_by_role('radio', name='file_exists')).to_have_attribute('aria-checked', 'true')
    page.keyboard.press('ArrowLeft')
    expect(page.get_by_role('radio', name='exit_code')).to_be_focused()
    expect(page.get_by_role('radio', name='exit_code')).to_have_attribute('aria-checked', 'true')
    expect(page.get_by_label('Required path 1', exact=True)).to_have_count(0)
    expect(checker_code(page)).to_have_attribute('aria-label', 'Command')
    tab_to(page, 'Command')
    page.keyboard.type('grep -qx granite answer.txt')
    tab_to(page, 'Add a block')
    page.keyboard.press('Enter')
    menu_pick(page, 'Reference solution')
    expect(page.get_by_label('Command of step 1')).to_be_focused()
    page.keyboard.type('echo granite > answer.txt')
    expect(check(page)).to_have_text('Failed0.00')
    expect(status(page)).to_contain_text('Saved v')
    tab_to(page, 'Publish')
    page.keyboard.press('Enter')
    expect(page.locator('header .chip')).to_have_text('Published')
    document = stored(server, task_id)
    assert document['title'] == 'Say the colour'
    assert document['draft']['setup_files'] == {'notes/hint.md': '# A hint'}
    assert document['draft']['setup_commands'] == ['mkdir -p out', 'touch out/log']
    assert document['draft']['checker'] == {'type': 'exit_code', 'config': {'command': 'grep -qx granite answer.txt'}}
    assert document['solutions'][0]['steps'] == [
        {'tool': 'run_command', 'args': {'command': 'echo granite > answer.txt'}}
    ]


def test_a_block_that_is_missing_is_offered_and_one_that_is_there_is_greyed(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    checker_code(page).click()
    page.keyboard.type('true')
    until_draft(server, task_id, lambda draft: draft['checker'] == spec()['checker'])
    page.get_by_role('button', name='Remove RL Checker').click()
    expect(page.locator('.problems')).to_contain_text('checker')
    page.get_by_role('button', name='Undo').click()
    expect(checker_code(page)).to_have_text('true')
    page.get_by_role('button', name='Remove RL Checker').click()
    until_draft(server, task_id, lambda draft: 'checker' not in draft)
    page.keyboard.press('/')
    menu = page.locator('.q-menu')
    expect(menu.locator('.q-item', has_text='RL Task')).to_contain_text('Once per task')
    expect(menu.locator('.q-item', has_text='RL Task')).to_have_attribute('aria-disabled', 'true')
    for key, title in (('ArrowDown', 'RL Checker'), ('ArrowDown', 'Reference'), ('ArrowUp', 'RL Checker')):
        page.keyboard.press(key)
        expect(menu.locator('.q-item:focus')).to_contain_text(title)
    page.keyboard.press('Enter')
    expect(checker_code(page)).to_be_focused()
    until_draft(server, task_id, lambda draft: draft.get('checker') == {'type': 'exit_code', 'config': {'command': ''}})


def test_switching_the_checker_keeps_what_it_can_and_can_be_undone(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    checked = {'type': 'exit_code', 'config': {'command': 'test 1', 'timeout_s': 9}}
    put_json(page, spec(setup_files={'tests/test_a.py': ''}, checker=checked))
    page.get_by_role('radio', name='pytest').click()
    expect(page.get_by_label('Test path 1', exact=True)).to_have_value('tests/test_a.py')
    page.get_by_role('button', name='Undo').click()
    expect(page.get_by_role('radio', name='exit_code')).to_have_attribute('aria-checked', 'true')
    until_draft(server, task_id, lambda draft: draft['checker'] == checked)
    page.get_by_role('radio', name='pytest').click()
    switched = {'type': 'pytest', 'config': {'test_paths': ['tests/test_a.py'], 'timeout_s': 9}}
    until_draft(server, task_id, lambda draft: draft['checker'] == switched)
    page.get_by_role('radio', name='script').click()
    page.get_by_role('radio', name='exit_code').click()
    expect(checker_code(page)).to_have_text('test 1')


def test_steps_of_a_solution_are_written_moved_and_deleted_by_hand(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    page.get_by_role('button', name='Add a block').click()
    page.locator('.q-menu').get_by_text('Wrong solution').click()
    block = page.get_by_label('Wrong solution', exact=True)
    page.get_by_label('Command of step 1').fill('echo one')
    block.get_by_role('button', name='Add a step').click()
    page.get_by_label('Tool of step 2').click()
    page.get_by_role('option', name='write_file').click()
    page.get_by_label('Path of step 2').fill('a.txt')
    page.get_by_label('Content of step 2').fill('two\nlines ')
    page.get_by_label('Name of the wrong solution').fill('hardcodes it')
    block.get_by_role('button', name='Move step 2 up').click()
    expect(block.get_by_role('button', name='Edit step 1: write_file a.txt')).to_be_focused()

    def steps() -> list[str]:
        kept = stored(server, task_id)['solutions']
        return [next(iter(step['args'].values())) for step in kept[0]['steps']] if kept else []

    def until_steps(expected: list[str]) -> None:
        deadline = time.monotonic() + 60
        while steps() != expected:
            assert time.monotonic() < deadline, steps()
            time.sleep(0.05)

    until_steps(['a.txt', 'echo one'])
    solution = stored(server, task_id)['solutions'][0]
    assert (solution['kind'], solution['name']) == ('wrong', 'hardcodes it')
    assert solution['steps'][0]['args']['content'] == 'two\nlines '
    block.locator('.steps li').first.hover()
    block.get_by_role('button', name='Delete step 1').click()
    expect(block.locator('.steps li')).to_have_count(1)
    page.get_by_role('button', name='Undo').click()
    expect(block.locator('.steps li')).to_have_count(2)
    block.get_by_role('button', name='More for the wrong solution').click()
    page.locator('.q-menu').get_by_text('Delete').click()
    expect(block).to_have_count(0)
    page.locator('.q-notification', has_text='Wrong solution deleted').get_by_role('button', name='Undo').click()
    expect(block).to_contain_text('echo one')
    until_steps(['a.txt', 'echo one'])


def test_files_come_from_the_desktop_and_folders_are_renamed(server: Server, page: Page, tmp_path: Path) -> None:
    task_id = new_task(page, server)
    (tmp_path / 'a.py').write_bytes(b'x = 1\r\n')
    (tmp_path / 'logo.png').write_bytes(b'\x89PNG\r\n\x1a\n\0\0')
    with page.expect_file_chooser() as chooser:
        page.get_by_role('button', name='Upload files').click()
    chooser.value.set_files([tmp_path / 'a.py', tmp_path / 'logo.png'])
    expect(page.locator('.q-notification', has_text='1 file not added')).to_contain_text('logo.png: binary')
    until_draft(server, task_id, lambda draft: draft['setup_files'] == {'a.py': 'x = 1\r\n'})
    files = page.locator('.files')
    files.get_by_role('button', name='New file').first.click()
    page.get_by_label('Path', exact=True).fill('src/b.txt')
    page.get_by_role('button', name='Add the file').click()
    until_draft(server, task_id, lambda draft: 'src/b.txt' in draft['setup_files'])  # type: ignore[operator]
    page.evaluate(DROP, [['c d%.md', '# dropped'], ['e.sh', 'ls']])
    dropped = {'a.py': 'x = 1\r\n', 'src/b.txt': '', 'src/c d%.md': '# dropped', 'src/e.sh': 'ls'}
    until_draft(server, task_id, lambda draft: draft['setup_files'] == dropped)
    files.get_by_title('src/', exact=True).hover()
    files.get_by_role('button', name='Rename folder src/').click()
    page.get_by_label('Path', exact=True).fill('a.py')
    page.get_by_role('button', name='Rename the folder').click()
    expect(page.get_by_text('A.py is there already')).to_be_visible()
    page.get_by_label('Path', exact=True).fill('lib/in')
    page.get_by_role('button', name='Rename the folder').click()
    renamed = {path.replace('src/', 'lib/in/'): text for path, text in dropped.items()}
    until_draft(server, task_id, lambda draft: draft['setup_files'] == renamed)
    files.get_by_title('lib/', exact=True).hover()
    files.get_by_role('button', name='Delete folder lib/', exact=True).click()
    expect(files.get_by_title('lib/', exact=True)).to_have_count(0)
    page.locator('.q-notification', has_text='lib/ deleted with 3 files').get_by_role('button', name='Undo').click()
    until_draft(server, task_id, lambda draft: draft['setup_files'] == renamed)


def test_the_prompt_keeps_its_bytes_and_its_preview_is_text(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    text = (
        '# Head\r\n\r\n- **one**  \r\n- `two` <img src=x onerror="window.bad = 1">\r\n![p](http://a.invalid/p.png)\t '
    )
    put_json(page, spec(prompt=text))
    prompt(page).press('Control+End')
    page.keyboard.type('{x}')
    until_draft(server, task_id, lambda draft: draft['prompt'] == text + '{x}')
    page.get_by_role('radio', name='Preview').click()
    preview = page.get_by_label('Prompt preview')
    expect(preview).to_be_visible()
    expect(preview.locator('strong')).to_have_text('one')
    expect(preview.locator('li code')).to_have_text('two')
    expect(preview).to_contain_text('<img src=x')
    expect(preview.locator('img')).to_have_count(0)
    put_json(page, '{"prompt": "a\\u0000b", "checker": {"type": "exit_code", "config": {"command": "true"}}}')
    expect(page.locator('.field', has=prompt(page)).locator('.err')).to_contain_text('NUL')
    page.locator('.problems button', has_text='NUL').click()
    expect(prompt(page)).to_be_focused()


def test_json_is_wrong_by_its_line_and_never_dropped_in_silence(server: Server, page: Page) -> None:
    new_task(page, server)
    page.get_by_role('button', name='JSON', exact=True).click()
    code = page.get_by_label('task_spec as JSON')
    code.click()
    page.keyboard.press('Control+a')
    page.keyboard.insert_text('{\n"prompt": "p",\n"max_step": 3,\n"checker": {"type": "exit_code"}\n')
    expect(page.get_by_text('Not JSON yet. Line 5')).to_be_visible()
    page.get_by_role('button', name='Form', exact=True).click()
    page.get_by_role('button', name='Keep editing').click()
    code.click()
    page.keyboard.press('Control+End')
    page.keyboard.insert_text('}')
    expect(page.locator('.cm-problem')).to_have_count(2)
    expect(page.locator('.cm-problem').first).to_contain_text('max_step')
    page.locator('.problems button', has_text='config').click()
    expect(code).to_be_focused()
    expect(page.locator('.cm-activeLine')).to_contain_text('exit_code')


def test_versions_show_what_differs_and_a_restore_can_be_undone(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    put_json(page, spec(prompt='first line\nsecond line'))
    expect(status(page)).to_contain_text('Saved v1')
    prompt(page).fill('first line\nanother line')
    expect(status(page)).to_contain_text('Saved v2')
    page.get_by_role('button', name='Version history').first.click()
    changes = page.get_by_label('Changes of prompt')
    expect(changes.locator('.d')).to_contain_text('another line')
    expect(changes.locator('.a')).to_contain_text('second line')
    page.get_by_role('button', name='Restore v1').click()
    expect(prompt(page)).to_have_value('first line\nsecond line')
    until_stored(server, task_id, prompt='first line\nsecond line')
    page.get_by_role('button', name='Undo').click()
    until_stored(server, task_id, prompt='first line\nanother line')


def test_a_conflict_shows_both_sides_and_keeps_both(server: Server, new_page: NewPage) -> None:
    one = new_page()
    task_id = new_task(one, server)
    prompt(one).fill('a beginning')
    until_stored(server, task_id, prompt='a beginning')
    two = new_page(context=one.context)
    two.goto(one.url)
    expect(prompt(two)).to_have_value('a beginning')
    two.get_by_label('Title', exact=True).fill('Named in the second tab')
    until_stored(server, task_id, title='Named in the second tab')
    expect(status(one)).to_have_text('Changed in another tab')
    prompt(one).fill('written in the first tab')
    one.get_by_role('button', name='Compare').click()
    expect(one.get_by_label('Changes of title').locator('.d')).to_contain_text('Named in the second tab')
    expect(one.get_by_label('Changes of prompt').locator('.a')).to_contain_text('written in the first tab')
    one.locator('.dlg').get_by_role('button', name='Keep both').click()
    until_stored(server, task_id, title='Named in the second tab', prompt='written in the first tab')
    expect(prompt(one)).to_have_value('written in the first tab')


def test_a_task_is_duplicated_deleted_and_brought_back(server: Server, page: Page) -> None:
    task_id = new_task(page, server)
    page.get_by_label('Title', exact=True).fill('Twice')
    prompt(page).fill('the same in both')
    until_stored(server, task_id, title='Twice', prompt='the same in both')
    page.get_by_role('button', name='More actions').click()
    page.locator('.q-menu').get_by_text('Duplicate').click()
    page.wait_for_url(lambda url: '/tasks/' in url and not url.endswith(task_id))
    expect(page.get_by_label('Title', exact=True)).to_have_value('Twice (copy)')
    copied = page.url.rsplit('/', 1)[-1]
    prompt(page).fill('typed right before the end')
    page.get_by_role('button', name='More actions').click()
    page.locator('.q-menu').get_by_text('Delete').click()
    page.get_by_role('button', name='Delete the task').click()
    page.wait_for_url(server.url + '/')
    page.locator('.q-notification', has_text='1 task deleted').get_by_role('button', name='Undo').click()
    page.wait_for_url(f'**/tasks/{copied}')
    expect(prompt(page)).to_have_value('typed right before the end')


def test_what_was_typed_survives_a_crash_of_the_studio(browser: Browser, tmp_path: Path) -> None:
    server = start_server(tmp_path)
    page = browser.new_page()
    try:
        task_id = new_task(page, server)
        prompt(page).fill('saved before the crash')
        until_stored(server, task_id, prompt='saved before the crash')
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        expect(page.locator('#popup')).to_be_visible(timeout=30_000)
        prompt(page).fill('typed while nobody listened')
        server = start_server(tmp_path, port=int(server.url.rsplit(':', 1)[1]))
        expect(page.locator('.q-notification', has_text='Back from before')).to_contain_text('Prompt', timeout=60_000)
        expect(prompt(page)).to_have_value('typed while nobody listened')
        until_stored(server, task_id, prompt='typed while nobody listened')
    finally:
        page.close()
        stop_server(server)
