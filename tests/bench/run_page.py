"""How quick the page of a run is, as a browser sees it: `python tests/bench/run_page.py [--steps N] [--live SECONDS]`.

Seeds a finished run of 100,000 steps x 14 series with 20,000 rollouts and one of 50 steps, and opens both in turn: the
short one shows what the machine and the chart library take alone. Then a live run at 5 rows a second for two minutes,
with a reload, a second tab and ten seconds offline: bytes a second, points without a gap, zoom kept, heap. Prints
medians and the worst; exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests' / 'browser'), str(ROOT / 'tests' / 'studio')]

import live_server  # noqa: E402
from live_server import ARGUMENTS, CHROMIUM, Server, serving  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402
from stand_in import new_run  # noqa: E402

from studio.ingest import ingest  # noqa: E402
from studio.services import Studio  # noqa: E402
from studio.settings import Settings  # noqa: E402
from studio.store.tables import RunTable  # noqa: E402
from trainer.runfolder import RunFolder  # noqa: E402

LEARNER = ROOT / 'tests' / 'studio' / 'learner.py'
SERVE = f"""
import functools, sys
import studio.services as services
services.LocalLauncher = functools.partial(
    services.LocalLauncher, (sys.executable, {str(LEARNER)!r}, '--interval', '0.2', '--steps', '100000'))
{live_server.SERVE}
"""
SERIES = (
    'rewards/TfcodeEnv/mean', 'rewards/TfcodeEnv/std', 'frac_reward_zero_std', 'entropy', 'completions/mean_length',
    'completions/clipped_ratio', 'checker/errors', 'seconds/generate', 'seconds/tools', 'seconds/check',
    'seconds/update', 'tools/call_frequency', 'tools/failure_frequency', 'loss',
)  # fmt: skip
OPEN_S, BYTES, HEAP = 2.0, 2048, 1.5
POINTS = '(document.querySelector(".hero .js-plotly-plot")?.data?.[1]?.x?.length ?? 0)'
DRAWN = f'{POINTS} > 0 && !!document.querySelector(".hm li")'
RANGE = 'document.querySelector(".hero .js-plotly-plot")._fullLayout.xaxis.range.map((x) => Math.round(x))'


def main() -> int:
    """Run everything; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--steps', type=int, default=100_000)
    parser.add_argument('--rollouts', type=int, default=20_000)
    parser.add_argument('--live', type=int, default=120, help='seconds of the live run; 0 leaves it out')
    parser.add_argument('--opens', type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='rlvr-bench-', ignore_cleanup_errors=True) as folder:
        home = Path(folder) / 'home'
        began = time.monotonic()
        short, long, live = seed(home, options.steps, options.rollouts)
        say(f'seeded {options.steps:,} steps and {options.rollouts:,} rollouts in {time.monotonic() - began:.0f} s')
        with serving(home, SERVE) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            missed = opens(browser, server, short, long, options.opens)
            if options.live:
                missed += watches(browser, server, live, options.live)
            browser.close()
    for what in missed:
        say(f'MISSED: {what}')
    return 1 if missed else 0


def opens(browser: Browser, server: Server, short: str, long: str, times: int) -> list[str]:
    """Open both finished runs in turn; the first time of each fills the caches and does not count."""
    context = browser.new_context(viewport={'width': 1440, 'height': 900})
    took: dict[str, list[float]] = {short: [], long: []}
    for _ in range(times + 1):
        for run_id in (short, long):
            took[run_id].append(open_run(context.new_page(), server, run_id))
    context.close()
    few, many = (sorted(took[run_id][1:]) for run_id in (short, long))
    load = os.getloadavg()[0]
    for name, values in (('50 steps', few), ('the long run', many)):
        say(f'open, {name}: median {statistics.median(values):.2f} s, worst {values[-1]:.2f} s (load {load:.1f})')
    ratio = statistics.median(many) / statistics.median(few)
    say(f'the long run opens in {ratio:.2f} x the time of the short one')
    return [] if statistics.median(many) <= OPEN_S else [f'opens in {statistics.median(many):.2f} s, not {OPEN_S} s']


def open_run(page: Page, server: Server, run_id: str) -> float:
    """Seconds until the reward chart and the heatmap are drawn."""
    began = time.monotonic()
    page.goto(f'{server.url}/runs/{run_id}')
    page.wait_for_function(DRAWN, timeout=120_000)
    took = time.monotonic() - began
    page.close()
    return took


def watches(browser: Browser, server: Server, run_id: str, seconds: int) -> list[str]:
    """Watch a live run: a quarter quietly, then a zoom, a reload, a second tab, and offline for ten seconds."""
    context = browser.new_context(viewport={'width': 1440, 'height': 900})
    page = context.new_page()
    traffic = Traffic(page)
    page.goto(f'{server.url}/runs/{run_id}')
    page.get_by_role('button', name='Start', exact=True).click()
    page.wait_for_function(f'{POINTS} > 5', timeout=60_000)
    page.wait_for_timeout(5_000)
    traffic.reset()
    page.wait_for_timeout(1000 * seconds // 4)
    rate, largest = traffic.rate(), traffic.largest
    early = heap(page)
    zoom(page)
    wanted = page.evaluate(RANGE)
    page.reload()
    page.wait_for_function(f'{POINTS} > 5', timeout=60_000)
    other = context.new_page()
    other.goto(f'{server.url}/runs/{run_id}')
    other.wait_for_function(f'{POINTS} > 5', timeout=60_000)
    page.evaluate('window.marker = 1')
    context.set_offline(True)
    page.wait_for_timeout(10_000)
    context.set_offline(False)
    page.wait_for_timeout(max(0, 1000 * seconds * 3 // 4 - 20_000))
    late = heap(page)
    steps = [step for step in page.evaluate('document.querySelector(".hero .js-plotly-plot").data[1].x')]
    kept = page.evaluate(RANGE) == wanted
    page.get_by_role('button', name='Stop', exact=True).click()
    page.get_by_role('button', name='Stop the run').click()
    holes = len(steps) and steps != list(range(int(steps[0]), int(steps[0]) + len(steps)))
    reloaded = page.evaluate('window.marker') != 1
    context.close()
    say(f'live at 5 rows a second: {rate:.0f} B/s, largest message {largest:,} B')
    say(f'heap {early / 1e6:.1f} MB early, {late / 1e6:.1f} MB at the end: {late / early:.2f} x')
    say(f'{len(steps):,} points drawn; zoom kept: {kept}; reloaded by itself: {reloaded}; holes: {bool(holes)}')
    missed = {
        f'{rate:.0f} B/s while live, not {BYTES}': rate > BYTES,
        f'heap grew {late / early:.2f} x, not {HEAP} x': late > HEAP * early,
        'the zoom was lost': not kept,
        'points are missing': bool(holes),
        'the page reloaded by itself after a gap in the network': reloaded,
    }
    return [what for what, is_so in missed.items() if is_so]


class Traffic:
    """Bytes of the messages a page gets over its socket, before compression."""

    def __init__(self, page: Page) -> None:
        self.reset()
        page.on('websocket', lambda socket: socket.on('framereceived', self._count))

    def reset(self) -> None:
        """Begin to count."""
        self.bytes, self.largest, self.began = 0, 0, time.monotonic()

    def rate(self) -> float:
        """Bytes a second since then."""
        return self.bytes / (time.monotonic() - self.began)

    def _count(self, payload: str | bytes) -> None:
        size = len(payload.encode() if isinstance(payload, str) else payload)
        self.bytes += size
        self.largest = max(self.largest, size)


def heap(page: Page) -> float:
    """Bytes of the page's JavaScript after a collection."""
    session = page.context.new_cdp_session(page)
    session.send('HeapProfiler.collectGarbage')
    used = session.send('Runtime.getHeapUsage')['usedSize']
    session.detach()
    return float(used)


def zoom(page: Page) -> None:
    """Drag over a part of the reward chart."""
    box = page.locator('.hero .plot').bounding_box()
    assert box is not None
    page.mouse.move(box['x'] + 120, box['y'] + 80)
    page.mouse.down()
    page.mouse.move(box['x'] + 260, box['y'] + 80, steps=5)
    page.mouse.up()
    page.wait_for_function('document.querySelector("[aria-label=Range] [aria-checked=true]") === null')


def seed(home: Path, steps: int, rollouts: int) -> tuple[str, str, str]:
    """A short run, a long one, and one that waits to be started; their ids."""
    studio = Studio(Settings(home=home))
    ids = []
    for number, count in ((50, 200), (steps, rollouts)):
        run = new_run(studio, f'{number} steps', tasks=16)
        folder = studio.runs.folder(run.id)
        write_run(folder, number, count, [task.id for task in studio.runs.tasks(run.id)])
        ingest(studio.database, run.id, folder)
        with studio.database.write() as session:
            row = session.get(RunTable, run.id)
            assert row is not None
            row.state, row.started_at, row.ended_at = 'finished', datetime.now(UTC), datetime.now(UTC)
        ids.append(run.id)
    live = new_run(studio, 'live', tasks=16).id
    studio.stop()
    return ids[0], ids[1], live


def write_run(folder: RunFolder, steps: int, rollouts: int, tasks: list[str]) -> None:
    """What a trainer would have written, at once."""
    draw = random.Random(1)
    every = max(1, steps * 8 // rollouts)
    with folder.events.open('w', encoding='utf-8') as file:
        seq = 0

        def write(**event: object) -> None:
            nonlocal seq
            seq += 1
            file.write(json.dumps({'seq': seq, 'time': 1.0, **event}) + '\n')

        write(type='state', state='training')
        for step in range(1, steps + 1):
            write(type='metrics', step=step, values={name: round(draw.random(), 6) for name in SERIES})
            for index in range(8) if step % every == 0 else ():
                reward = float(draw.random() < step / steps)
                outcome = 'passed' if reward else 'failed'
                task = tasks[step // every % len(tasks)]
                write(type='rollout', step=step, task=task, index=index, outcome=outcome, reward=reward, offset=0)
        write(type='progress', step=steps, total=steps)
        write(type='state', state='finished')


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + '\n')
    sys.stdout.flush()


if __name__ == '__main__':
    sys.exit(main())
