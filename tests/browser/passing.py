"""What a page shows for a moment only: noted or clicked by the page itself, however late the test looks."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from playwright.sync_api import Page

_numbers = itertools.count()
_WATCH = """([name, selector, text, press]) => {
    const look = () => {
        const found = [...document.querySelectorAll(selector)].find((one) => one.textContent.includes(text));
        if (!found || window[name]) return;
        window[name] = true;
        observer.disconnect();
        if (press) found.click();
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
    look();
}"""


def watch_for(page: Page, selector: str, text: str, *, press: bool = False) -> Callable[[], None]:
    """Note from now on when an element of ``selector`` holds ``text``, and click it then if asked to.

    Call what is returned to wait until that has happened.
    """
    name = f'seen{next(_numbers)}'
    page.evaluate(_WATCH, [name, selector, text, press])

    def wait() -> None:
        page.wait_for_function(f'window.{name}', timeout=60_000)

    return wait
