"""The parts of the run page around its charts: progress, health, outcome, events, machine and log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from nicegui import ui

from studio.runs import health
from studio.runs.meters import Machine
from studio.runs.results import EvaluationView, TaskResult
from studio.runs.views import RunView
from studio.ui.components.before_after import Pair, Share
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.panel import measure, panel
from studio.ui.components.plain_text import visible, without_colours
from studio.ui.components.wording import STATES, duration, plural, size
from trainer.events import AnyEvent, Artifact, Notice, Resumed, State

SILENT_S: Final = 45.0
"""After this without a sign of life the page says so."""
LOG_CHARS: Final = 200_000
TELL_S: Final = 4.0
MAX_LINES: Final = 200
"""Events on the page."""


class StateChip(ui.element):
    """The state of a run as a chip; a live one has the pulsing dot."""

    def __init__(self) -> None:
        super().__init__('span')
        self.props('role=status')
        self._shown = ''

    def show(self, view: RunView) -> None:
        """Bring it up to date."""
        word, kind, icon = state_words(view)
        if word == self._shown:
            return
        self._shown = word
        self.classes(replace=f'chip z-lg {kind}')
        self.clear()
        with self:
            if icon:
                Icon(icon, 'ic-xs')
            else:
                ui.element('span').classes('dot pulse')
            Text(word)


def state_words(view: RunView) -> tuple[str, str, str]:
    """Word, colour and icon of a run's state."""
    word, kind, icon = STATES[view.state]
    if view.stopping:
        return 'Stopping', 'warn', 'hourglass'
    if view.can_start:
        return 'Not started', '', 'circle-dashed'
    if view.state == 'stopped' and view.step:
        return f'Stopped at {view.step}', kind, icon
    return word, kind, icon


class Progress:
    """The strip below the top bar: step, bar, times, reward, the best weights, rollouts."""

    def __init__(self, run_id: str) -> None:
        self._step = measure('Step')
        with ui.element('div').classes('prog'), ui.element('div').classes('meter') as self._meter:
            self._meter.props('role=progressbar aria-label="Training progress" aria-valuemin=0')
            self._bar = ui.element('i').style('--v: 0%; --k: var(--accent)')
        self._eta = measure('ETA')
        self._elapsed = measure('Elapsed')
        self._reward = measure('Reward now')
        self._best = measure('Best held-out', 'hide-s')
        with ui.element('a').classes('m').props(f'href="/runs/{run_id}/rollouts"') as link:
            link.props['title'] = 'Search the rollouts of this run'
            Text('Rollouts')
            self._rollouts = Text('', 'b', 'num')

    def show(self, view: RunView, rollouts: int, held_out: health.Series | None) -> None:
        """Bring it up to date."""
        share = min(1.0, view.step / view.total) if view.total else 0.0
        self._step.set_text(f'{view.step:,} of {view.total:,}' if view.total else f'{view.step:,}')
        self._bar.style(f'--v: {share:.0%}; --k: var(--accent)')
        self._meter.props(f'aria-valuenow={share:.0%} aria-valuemax=100'.replace('%', ''))
        self._eta.set_text('done' if view.state == 'finished' else duration(None if view.is_final else view.eta_s))
        self._elapsed.set_text(duration(view.elapsed_s))
        reward = view.latest.get(health.REWARD)
        self._reward.set_text('–' if reward is None else f'{reward:.2f}')  # noqa: RUF001
        self._rollouts.set_text(f'{rollouts:,}')
        trained = [(value, step) for step, value in zip(*(held_out or ([], [])), strict=True) if step > 0]
        best = max(trained, default=None)
        self._best.set_text('–' if best is None else f'{best[0]:.2f}, step {best[1]:,}')  # noqa: RUF001


class HealthStrip(ui.element):
    """What the series mean, with the way to act on it; redrawn only when it changes."""

    def __init__(self, run_id: str) -> None:
        super().__init__('div')
        self.classes('health').props('role=list aria-label="Run health" aria-live=polite')
        self.set_visibility(False)
        self._run_id = run_id
        self._shown: Sequence[tuple[str, str, str]] = ()
        self._texts: list[tuple[Text, Text]] = []
        self._told_at = 0.0

    def show(self, found: Sequence[health.Condition]) -> None:
        """Bring it up to date: a new warning at once, all else now and then, so that it can be read."""
        shown = [(condition.key, condition.level, condition.setting) for condition in found]
        warns = any(one[1] == 'warn' and one not in self._shown for one in shown)
        if self._shown and not warns and time.monotonic() - self._told_at < TELL_S:
            return
        if shown == self._shown:
            self._told_at = time.monotonic()
            for (title, text), condition in zip(self._texts, found, strict=True):
                title.set_text(condition.title)
                text.set_text(f' {condition.text}')
            return
        self._shown, self._texts, self._told_at = shown, [], time.monotonic()
        self.set_visibility(bool(found))
        self.clear()
        icons = {'ok': 'trending-up', 'warn': 'triangle-alert', 'info': 'info'}
        with self:
            for condition in found:
                with ui.element('div').classes(f'hl {condition.level}').props('role=listitem'):
                    Icon(icons[condition.level])
                    with ui.element('span'):
                        self._texts.append((Text(condition.title, 'b'), Text(f' {condition.text}', classes='t2')))
                    if condition.level == 'warn' and condition.setting:
                        self._draw_action(condition)

    def _draw_action(self, condition: health.Condition) -> None:
        text = 'Choose tasks' if condition.setting == 'tasks' else 'Set in a new run'
        with ui.element('a').classes('btn z-xs act').props(f'href="/train?copy={self._run_id}"') as link:
            link.props['title'] = f'A new run from this one, to change {condition.setting}'
            Text(text)


def conditions(
    view: RunView,
    columns: Mapping[str, health.Series],
    recent: Mapping[str, Sequence[float | None]],
    limit: int | None,
) -> list[health.Condition]:
    """Everything to say about a run now: silence first, then what its series mean, then tasks that are done."""
    rl = view.settings.get('rl', {})
    found = list(
        health.conditions(
            columns,
            max_completion_length=limit or rl.get('maxCompletionLength', 1024),
            entropy_coef=rl.get('entropyCoef', 0.05),
            max_error_share=view.settings.get('maxErrorShare', 0.2),
        )
    )
    if view.is_active and view.silent_s is not None and view.silent_s > SILENT_S:
        last = f' Its last line: {view.last_line}' if view.last_line else ' Its log is empty.'
        text = f'The trainer lives but has written nothing since.{last}'
        # Tens of seconds, so that the strip is not redrawn at every tick.
        quiet = duration(view.silent_s // 10 * 10)
        found.insert(0, health.Condition(key='silent', level='warn', title=f'No sign of life for {quiet}', text=text))
    solved = health.solved_tasks(recent)
    if solved is not None and not view.is_final:
        found.append(solved)
    if view.waiting:
        text = 'It begins by itself. The list of runs has the queue and its order.'
        found.append(
            health.Condition(key='waiting', level='info', title=view.reason or 'Waits for its turn', text=text)
        )
    elif view.can_start:
        text = 'Start puts it to work, or into the queue behind the runs that work.'
        found.append(health.Condition(key='draft', level='info', title='Not started', text=text))
    return found


class Outcome(ui.element):
    """How a run ended where it did not finish: cause, last lines, what to do."""

    def __init__(self) -> None:
        super().__init__('div')
        self.set_visibility(False)
        self._shown: tuple[str, str] = ('', '')

    def show(self, view: RunView, log: Sequence[str]) -> None:
        """Bring it up to date."""
        if (view.state, view.reason) == self._shown:
            return
        self._shown = (view.state, view.reason)
        self.set_visibility(view.state in ('failed', 'interrupted'))
        self.clear()
        if view.state not in ('failed', 'interrupted'):
            return
        with self, ui.element('div').classes('fail' if view.state == 'failed' else 'fail warn').props('role=alert'):
            Icon('circle-x' if view.state == 'failed' else 'triangle-alert')
            with ui.element('div'):
                word = 'The run failed' if view.state == 'failed' else 'The run was interrupted'
                Text(f'{word} at step {view.step}: {view.reason}', 'b')
                Text(advice(view.reason), 'p')
                if log:
                    lines = Text('\n'.join(log[-50:]), 'pre')
                    lines.props('tabindex=0 aria-label="Last lines of the log"')
                    ui.run_javascript(f'const e = getHtmlElement({lines.id}); if (e) e.scrollTop = e.scrollHeight')
                    log_link(view.id)
            Button('Start again', icon='rotate-ccw', on_click=lambda: ui.navigate.to(f'/train?copy={view.id}'))


def advice(reason: str) -> str:
    """What to do about a failure, by its cause."""
    low = reason.lower()
    if 'out of memory' in low or 'sigkill' in low:
        return 'Lower numGenerations or maxCompletionLength, or choose a smaller model. Then start again.'
    if 'error share' in low or 'checker' in low:
        return 'Open a hatched cell below to see what the checker said, mend the task, then start again.'
    if 'pip' in low or 'package' in low or 'requirement' in low:
        return 'Check pipPackages: each must be installable by its name. Then start again.'
    if 'sandbox' in low or 'bubblewrap' in low:
        return 'Open Settings to see which isolation this machine offers.'
    if 'no exit code' in low:
        return 'The machine may have been switched off. What was measured is kept; start again for a new run.'
    return 'The last lines of its log say more. What was measured until then is kept.'


class Events(ui.element):
    """What happened, newest first; as text, for notices may quote a task or a model."""

    def __init__(self) -> None:
        super().__init__('ol')
        self.classes('ev').props('tabindex=0 aria-label="Events, newest first"')

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Put new events on top, in one message."""
        lines = [
            [clock(event.time), moment(event.time), visible(text), kind]
            for event in events
            for text, kind in [event_words(event)]
            if text
        ]
        if lines:
            ui.run_javascript(f'rlvrEvents({self.id}, {MAX_LINES}, {json.dumps(lines)})')


def event_words(event: AnyEvent) -> tuple[str, str]:
    """An event in words and its colour class; empty for what is no news."""
    if isinstance(event, State):
        word = STATES[event.state][0]
        words = f'{word}: {event.reason}' if event.reason else word
        if event.reason.startswith(f'{word.lower()} '):  # 'stopped by the user' needs no 'Stopped' before it
            words = word + event.reason[len(word) :]
        return words, 'error' if event.state == 'failed' else ''
    if isinstance(event, Notice):
        setting = f' ({event.setting})' if event.setting and event.setting not in event.text else ''
        return event.text + setting, event.level
    if isinstance(event, Resumed):
        return event.words, ''
    if isinstance(event, Artifact):
        name = event.path.rstrip('/').rpartition('/')[2]
        return f'Saved: {name if name.startswith(event.kind) else f"{event.kind} {name}".strip()}', ''
    return '', ''


def clock(time: float) -> str:
    """Hours and minutes in local time; another day by its date."""
    if not time:
        return ''
    then = datetime.fromtimestamp(time, UTC).astimezone()
    today = then.date() == datetime.now(UTC).astimezone().date()
    return then.strftime('%H:%M' if today else '%-d %b')


def moment(time: float) -> str:
    """Date and time in local time."""
    return datetime.fromtimestamp(time, UTC).astimezone().strftime('%-d %b %Y, %H:%M:%S') if time else ''


class MachineCard:
    """Meters of this machine while a run works."""

    def __init__(self) -> None:
        self._shown: Machine | None = None
        with ui.element('div').classes('card') as self._card, panel('Machine', classes='bare', flat=True) as head:
            with head:
                spacer()
                self._speed = Text(classes='t3 t-small num')
            self._rows = ui.element('div').classes('sys')
        self._meters: dict[str, tuple[ui.element, Text]] = {}
        self._card.set_visibility(False)

    def show(self, machine: Machine | None, speed: float | None) -> None:
        """Bring the meters up to date."""
        self._card.set_visibility(machine is not None)
        if machine is None or machine is self._shown:
            return
        self._shown = machine
        self._speed.set_text('' if speed is None else f'{speed:,.0f} tok/s')
        for number, gpu in enumerate(machine.gpus):
            name = 'GPU' if len(machine.gpus) == 1 else f'GPU {number}'
            heat = [] if gpu.celsius is None else [f'{gpu.celsius} °C']
            busy = [] if gpu.busy is None else [f'{gpu.busy:.0%}']
            self._fill(name, gpu.busy or 0.0, ' · '.join(busy + heat) or 'not told', gpu.name)
            self._fill(f'{name} mem', gpu.used / gpu.total, f'{size(gpu.used)} of {size(gpu.total)}', gpu.name)
        self._fill('CPU', machine.cpu, f'{machine.cpu:.0%} · {plural(machine.cores, "core")}')
        self._fill('Memory', machine.used / machine.total, f'{size(machine.used)} of {size(machine.total)}')
        if machine.trainer is not None:
            self._fill('Trainer', machine.trainer / machine.total, size(machine.trainer))

    def _fill(self, name: str, share: float, text: str, title: str = '') -> None:
        if name not in self._meters:
            with self._rows, ui.element('div').classes('rw') as row:
                row.props['title'] = title
                Text(name, classes='t2')
                with ui.element('div').classes('meter'):
                    bar = ui.element('i')
                self._meters[name] = (bar, Text(classes='v'))
        bar, value = self._meters[name]
        bar.style(f'--v: {min(1.0, share):.0%}; --k: var(--c1)')
        value.set_text(text)


class Log(ui.element):
    """The tail of the trainer's log; follows only while it is scrolled to its end."""

    def __init__(self) -> None:
        super().__init__('pre')
        self.classes('log').props('role=log tabindex=0 aria-label="Trainer log"')

    def add(self, text: str) -> None:
        """Append lines, as text."""
        if not text:
            return
        shown = visible(without_colours(text))
        ui.run_javascript(f'rlvrLog({self.id}, {LOG_CHARS}, {json.dumps(shown)})')


def log_link(run_id: str) -> None:
    """Draw the link to the whole log."""
    with ui.element('a').classes('t-small nowrap').props(f'href="/runs/{run_id}/trainer.log" target=_blank'):
        Text('Whole log')


def share(view: EvaluationView | None) -> Share | None:
    """The totals of an evaluation for the before/after card."""
    if view is None:
        return None
    return Share(view.mean, view.low, view.high, view.solved, view.attempts)


def pairs(before: EvaluationView | None, after: EvaluationView | None) -> list[Pair]:
    """The held-out tasks of two evaluations side by side, the largest gain first."""
    first = {task.id: task for task in before.tasks} if before else {}
    second = {task.id: task for task in after.tasks} if after else {}
    found = []
    for id in dict.fromkeys((*second, *first)):
        old, new = first.get(id), second.get(id)
        title = (new or old).title or id if (new or old) else id  # type: ignore[union-attr]
        found.append(Pair(id, title, _task_share(old), _task_share(new)))
    return sorted(found, key=lambda pair: -((pair.after.mean or 0) if pair.after else 0))


def _task_share(task: TaskResult | None) -> Share | None:
    if task is None:
        return None
    mean = task.solved / task.attempts if task.attempts else None  # errors are no attempts
    return Share(mean, task.low, task.high, task.solved, task.attempts)
