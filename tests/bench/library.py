"""How quick the library is with many tasks, as a browser sees it: `python tests/bench/library.py [--tasks N]`.

Seeds a store, starts a real studio over it, and drives Chromium: the first view, a search as it is typed, the next
page, a filter. Prints medians, the worst, and how busy the machine was. Exit code 1 when a median is above its bar.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests' / 'browser')]

from live_server import ARGUMENTS, CHROMIUM, serving  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from studio.documents.rows import new_row  # noqa: E402
from studio.store.database import Database  # noqa: E402
from studio.store.tables import (  # noqa: E402
    CalibrationSubjectTable,
    CalibrationTable,
    CertificateTable,
    VersionTable,
)
from trainer.task import TaskSpec, parse_task  # noqa: E402

BARS_MS = {'first view': 1000, 'search result': 300, 'next page': 300, 'filter': 300, 'tier': 300, 'sort by rate': 300}
WORDS = (
    'paginate', 'nginx', 'client', 'config', 'toml', 'merge', 'conflict', 'importer', 'photo', 'rename', 'capture',
    'split', 'retry', 'backoff', 'fetch', 'words', 'report', 'commit', 'build', 'contacts', 'install', 'posix',
    'makefile', 'symlink', 'invoice', 'totals', 'cron', 'squash', 'escape', 'query', 'archive',
)  # fmt: skip
TOPICS = ('python', 'bugfix', 'shell', 'text', 'formats', 'git', 'csv', 'files', 'build', 'network')
CHECKERS: tuple[dict[str, Any], ...] = (
    {'type': 'pytest', 'config': {'test_paths': ['tests/test_it.py']}},
    {'type': 'exit_code', 'config': {'command': 'grep -qx 42 result.txt'}},
    {'type': 'file_exists', 'config': {'paths': ['dist/', 'report.txt']}},
    {'type': 'script', 'config': {'script': 'import json\nprint(float(json.load(open("out.json"))["ok"]))\n'}},
)
MARK = """(what) => {
  const shown = () => document.querySelector('.tasks tbody tr .tt')?.textContent + '|'
    + document.querySelector('.stat')?.textContent + document.querySelector('.filters')?.textContent;
  window.rlvrBench = {before: shown(), shown};
}"""


def seed(home: Path, count: int) -> None:
    """Fill a store with tasks as an author of thousands has them: texts of some kB, versions, certificates, rates."""
    draw = random.Random(1)
    database = Database(f'sqlite:///{home / "studio.db"}')
    database.migrate()
    began = datetime.now(UTC) - timedelta(days=90)
    with database.write() as session:
        for subject in ('starter', 'another'):
            session.add(
                CalibrationSubjectTable(key=subject, model='starter', temperature=1.0, tokens=384, used_at=began)
            )
        session.flush()
        for number in range(count):
            row, certificate = _task(draw, number)
            row.created_at = row.updated_at = began + timedelta(minutes=number * 13)
            spec = TaskSpec.model_validate(row.draft)
            row.version, row.hash = 1, spec.hash
            session.add(row)
            version = VersionTable(
                document_id=row.id, number=1, hash=row.hash, task_spec=row.draft, created_at=row.created_at
            )
            session.add(version)
            for subject in ('starter', 'another'):
                if draw.random() < 0.8:
                    session.add(_rate(draw, subject, row.hash, row.created_at))
            if certificate:
                evidence = row.evidence if certificate != 'stale' else 'older'
                state = 'failed' if certificate == 'failed' else 'certified'
                session.add(
                    CertificateTable(hash=row.hash, evidence=evidence, state=state, data={}, created_at=row.created_at)
                )
    database.close()


def _rate(draw: random.Random, subject: str, hash: str, when: datetime) -> CalibrationTable:
    passes = draw.choice((0, 0, 1, 3, 5, 7, 8, 8))
    rewards = {reward: count for reward, count in (('1', passes), ('0', 8 - passes)) if count}
    return CalibrationTable(
        subject=subject, hash=hash, passes=passes, attempts=8, rewards=rewards, updated_at=when, error=''
    )


def _task(draw: random.Random, number: int) -> tuple[Any, str]:
    title = ' '.join(draw.sample(WORDS, 3)).capitalize()
    raw = {
        'prompt': f'{title}.\n\n' + ' '.join(draw.choices(WORDS, k=120)) + f' in workspace {number}.',
        'setup_files': {f'src/{name}.py': 'x = 1\n' * draw.randint(20, 300) for name in draw.sample(WORDS, 4)},
        'setup_commands': [f'mkdir -p {draw.choice(WORDS)}'],
        'checker': draw.choice(CHECKERS),
    }
    steps = [{'tool': 'write_file', 'args': {'path': 'result.txt', 'content': '42\n'}}]
    solutions = [{'kind': 'reference', 'steps': steps}]
    task = parse_task({'title': title, 'task_spec': raw, 'solutions': solutions})[0]
    status: Any = 'published' if draw.random() < 0.8 else 'draft'
    row = new_row(task, '', draw.sample(TOPICS, draw.randint(1, 3)), 'local', 'local', status, None)
    return row, draw.choice(('certified', 'certified', 'certified', 'failed', 'stale', ''))


APPEARED = """() => {
  const look = () => {
    if (document.querySelector('.tasks tbody tr .tt')) window.rlvrAppeared = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


def first_view(browser: Browser, url: str) -> float:
    """Milliseconds, by the browser's clock, from the address to the first rows, in a browser that was never here."""
    context = browser.new_context(viewport={'width': 1440, 'height': 900})
    page = context.new_page()
    page.add_init_script(f'({APPEARED})()')
    page.goto(url, wait_until='commit')
    took = float(page.wait_for_function('window.rlvrAppeared').json_value())
    context.close()
    return took


def until_changed(page: Page, act: Callable[[], object]) -> float:
    """Milliseconds, by the browser's clock, from an act to other rows on the screen."""
    page.evaluate(MARK, None)
    page.evaluate(
        """() => {
          window.rlvrTook = new Promise((done) => {
            let began = 0;
            const begin = () => { began ||= performance.now(); };
            for (const kind of ['keydown', 'pointerdown']) addEventListener(kind, begin, {capture: true, once: true});
            const look = () => {
              if (began && window.rlvrBench.shown() !== window.rlvrBench.before) done(performance.now() - began);
              else requestAnimationFrame(look);
            };
            look();
          });
        }"""
    )
    act()
    return float(page.evaluate('window.rlvrTook'))


def interactions(page: Page, repeats: int) -> dict[str, list[float]]:
    """What a search, the next page, filters and a sort take, each several times."""
    took: dict[str, list[float]] = {name: [] for name in BARS_MS if name != 'first view'}
    box = page.locator('[data-search] input')
    for turn in range(repeats):
        box.fill('')
        page.wait_for_timeout(500)
        word = WORDS[turn % len(WORDS)]
        took['search result'].append(until_changed(page, partial(box.press, word[0])))
        box.fill('')
        page.wait_for_timeout(500)
        took['search result'].append(until_changed(page, partial(box.press, 'z')))
        box.fill('')
        page.wait_for_timeout(500)
        took['next page'].append(until_changed(page, page.get_by_role('button', name='Next page').click))
        took['filter'].append(until_changed(page, page.get_by_role('radio', name='Draft').click))
        page.get_by_role('radio', name='All').click()
        page.wait_for_timeout(500)
        page.get_by_role('button', name='Filter: Tier').click()
        took['tier'].append(until_changed(page, page.get_by_role('menuitemradio', name='In band').click))
        page.wait_for_timeout(500)
        page.get_by_role('button', name='Remove the filter Tier').click()
        page.wait_for_timeout(500)
        rates = page.get_by_role('button', name='Pass rate, 95% interval')
        took['sort by rate'].append(until_changed(page, rates.click))
        page.get_by_role('button', name='Updated', exact=True).click()
        page.wait_for_timeout(500)
    return took


def main() -> int:
    """Measure everything once and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--tasks', type=int, default=10_000)
    parser.add_argument('--repeats', type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='rlvr-bench-', ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        began = time.perf_counter()
        seed(home, options.tasks)
        print(f'{options.tasks} tasks stored in {time.perf_counter() - began:.1f} s')
        with serving(home) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            first_view(browser, server.url)
            load = os.getloadavg()[0]
            took = {'first view': [first_view(browser, server.url) for _ in range(options.repeats)]}
            page = browser.new_page(viewport={'width': 1440, 'height': 900})
            page.goto(server.url)
            page.locator('.tasks tbody tr .tt').first.wait_for()
            took |= interactions(page, options.repeats)
            browser.close()
    print(f'{os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} after')
    slow = False
    for name, bar in BARS_MS.items():
        median = statistics.median(took[name])
        slow = slow or median > bar
        print(f'{name:<14} median {median:6.0f} ms   worst {max(took[name]):6.0f} ms   n={len(took[name])}   bar {bar}')
    return int(slow)


if __name__ == '__main__':
    sys.exit(main())
