"""States that are seen seldom: proofs at work or failed, runs that wait or ended badly, what is not there (E4, G5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import showcase
from live_server import Server
from playwright.sync_api import Page, expect
from test_accessibility import SWITCH, faults

pytestmark = pytest.mark.browser
SIZE = (1024, 768)

NewPage = Callable[..., Page]
Shown = tuple[Server, dict[str, str]]
SEEN = (
    'proof-queued', 'proof-running', 'proof-error', 'proof-other-base', 'proof-failed', 'run-queued', 'run-failed',
    'rollout', 'compare', 'try-adapter',
)  # fmt: skip
BACK = """() => { const one = document.createElement('canvas').getContext('2d');
    const look = getComputedStyle(document.querySelector('.btn.pri'));
    return [look.color, look.backgroundColor].map((colour) => {
        one.fillStyle = colour; one.fillRect(0, 0, 1, 1);
        const parts = [...one.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; }); }"""


@pytest.fixture(scope='module')
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A studio with every state in it, and where each is."""
    home = tmp_path_factory.mktemp('home')
    found = showcase.fill(home)
    with showcase.showing(home) as server:
        yield server, found


@pytest.mark.parametrize('name', SEEN)
def test_a_state_reads_well_in_both_themes_and_fits_in_1024_px(shown: Shown, tab: Page, name: str) -> None:
    server, found = shown
    tab.goto(server.url + found[name])
    expect(tab.get_by_role('heading', level=1)).to_have_count(1)
    tab.wait_for_load_state('networkidle')
    assert faults(tab) + faults(tab, dark=True) == []
    assert tab.evaluate('document.documentElement.scrollWidth') <= 1024
    assert tab.evaluate(showcase.CUT) == [], 'what is cut has a title that holds all of it'


def test_a_proof_says_what_it_waits_for_how_far_it_is_and_what_to_do(shown: Shown, tab: Page) -> None:
    server, found = shown
    proof = tab.get_by_role('region', name='Parity proof')
    for name, text in (
        ('proof-queued', 'Waits for "deep-paginate" to end'),
        ('proof-running', '37 of 80 · 1 min 35 s'),
        ('proof-error', 'Name the folder it is in now'),
        ('proof-failed', '9 of 128 verdicts differ'),
    ):
        tab.goto(server.url + found[name])
        expect(proof).to_contain_text(text)
        expect(proof).to_be_in_viewport(ratio=1)
    for name, helps in (
        ('proof-error', ['Name the base…', 'Prove again']),
        ('proof-error-sandbox', ['Settings', 'Prove again']),
        ('proof-other-base', ['Name the base…', 'Prove again']),
        ('proof-failed', ['Prove again']),
    ):
        tab.goto(server.url + found[name])
        expect(proof.locator('.foot .btn')).to_have_text(helps)


def test_what_an_adapter_can_be_used_for_opens_and_closes_by_keys(shown: Shown, tab: Page) -> None:
    server, found = shown
    tab.goto(server.url + found['adapter'])
    serve, opened = tab.get_by_role('button', name='Serve', exact=True), tab.get_by_role('region', name='Serve')
    serve.press('Enter')
    expect(opened).to_contain_text('PeftModel.from_pretrained')
    assert faults(tab) + faults(tab, dark=True) == []
    tab.keyboard.press('Escape')
    expect(opened).to_be_hidden()
    expect(serve).to_be_focused()
    expect(serve).to_have_attribute('aria-expanded', 'false')


def test_the_reference_of_the_api_follows_the_switch_of_the_studio(shown: Shown, new_page: NewPage) -> None:
    server, _ = shown
    studio = new_page()
    reference = new_page(context=studio.context)
    reference.goto(f'{server.url}/docs')
    reference.locator('.opblock-summary-control').first.click()
    reference.locator('.try-out__btn').first.click()
    look = 'getComputedStyle(document.body).backgroundColor'
    light, dark = 'rgb(247, 248, 250)', 'rgb(12, 13, 16)'
    assert reference.evaluate(look) == light
    reference.emulate_media(color_scheme='dark')
    reference.wait_for_function(f'{look} === "{dark}"')
    studio.goto(f'{server.url}/settings')
    for seen in (dark, light):
        studio.get_by_role('button', name='Switch theme').click()
        reference.wait_for_function(f'{look} === "{seen}"')
        assert faults(reference, dark=True) == [], 'colours alone: the rest is as its makers made it'
    reference.reload()
    assert reference.evaluate(look) == light, 'the studio is light, whatever the system is'


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_the_main_button_reads_well_under_the_pointer(shown: Shown, tab: Page, theme: str) -> None:
    tab.goto(f'{shown[0].url}/runs')
    button = tab.locator('.btn.pri')
    expect(button).to_be_visible()
    tab.evaluate(SWITCH, theme)
    at_rest = tab.evaluate(BACK)
    button.hover()
    assert tab.evaluate('getComputedStyle(document.querySelector(".btn.pri")).transitionDuration') in ('0s', '1e-05s')
    low, high = sorted(tab.evaluate(BACK))
    assert (high + 0.05) / (low + 0.05) >= 4.5
    assert tab.evaluate(BACK) != at_rest, 'it shows that the pointer is there'


def test_the_attempts_of_a_group_stand_in_a_grid(shown: Shown, tab: Page) -> None:
    server, found = shown
    tab.goto(server.url + found['rollout'])
    expect(tab.locator('.attempts .g')).to_have_count(8)
    assert tab.evaluate('getComputedStyle(document.querySelector(".attempts")).gridTemplateColumns').count('px') == 4


@pytest.mark.parametrize(('name', 'theme'), [('adapter', 'dark'), ('rollouts', 'light')])
def test_focus_is_seen_wherever_tab_goes(shown: Shown, tab: Page, name: str, theme: str) -> None:
    server, found = shown
    tab.goto(server.url + found[name])
    tab.wait_for_load_state('networkidle')
    tab.evaluate(SWITCH, theme)
    unseen = []
    for _ in range(30):
        tab.keyboard.press('Tab')
        seen = tab.evaluate(
            """() => { const e = document.activeElement;
            const around = e.closest('.srch') ?? e.closest('.q-checkbox, .q-field__control') ?? e;
            const ringed = (look) => look.boxShadow !== 'none'
                || (look.outlineStyle !== 'none' && look.outlineWidth !== '0px');
            return [e.outerHTML.slice(0, 120),
                e === document.body || [e, around].map((one) => getComputedStyle(one)).some(ringed)]; }"""
        )
        unseen += [] if seen[1] else [seen[0]]
    assert unseen == []
