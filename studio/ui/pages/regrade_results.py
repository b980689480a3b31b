"""What grading again came to: how far it is, how many verdicts changed in which way, and each of them to be opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from nicegui import run as background
from nicegui import ui

from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.plain_text import visible
from studio.ui.components.transcript import OUTCOMES
from studio.ui.components.wording import ago, duration, plural
from studio.ui.pages.rollouts import STAGES
from studio.workspaces.regrade import PAGE
from studio.workspaces.regrade_views import RegradeView, Row
from trainer.regrade import Change, Score

if TYPE_CHECKING:
    from studio.services import Studio

LOOKS: Final[dict[Change, tuple[str, str, str]]] = {
    'pass_to_fail': ('passed, now fail', 'bad', 'trending-down'),
    'fail_to_pass': ('failed, now pass', 'ok', 'trending-up'),
    'scored_to_error': ('now an error', 'warn', 'triangle-alert'),
    'error_to_scored': ('was an error, scored now', 'info', 'circle-check'),
    'reward_changed': ('another reward', 'info', 'equal'),
    'not_graded': ('not graded', '', 'ban'),
    'unchanged': ('unchanged', '', 'minus'),
}
"""Change → words, colour, icon."""
CHECKERS: Final = {'frozen': 'the checkers of the run', 'library': 'the checkers of the library'}


class RegradeResults:
    """The right side of the page; ``on_state`` is told whether a job works."""

    def __init__(self, studio: Studio, run_id: str, *, on_state: Callable[[bool], Any]) -> None:
        self._studio, self._id, self._on_state = studio, run_id, on_state
        self._view: RegradeView | None = None
        self._change: Change | str = ''
        self._page = 1
        with ui.element('section').classes('card job').props('aria-label="Result"') as self._card:
            with ui.element('div').classes('hd'):
                self._icon = Icon('hourglass', 'lead')
                self._title = Text('', 'h2').props('role=status')
                self._when = Text('', classes='t3 t-small num nowrap')
                spacer()
                self._cancel = Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self._cancel_now)
            with ui.element('div').classes('bd vs vs-1'):
                with ui.element('div').classes('meter').props('role=progressbar aria-label="Graded"') as self._bar:
                    self._fill = ui.element('i')
                self._counts = ui.element('div').classes('hs hs-1 wrap').props('role=group aria-label="What changed"')
                self._reason = Text('', 'p', 'c-bad t-small')
            self._list = ui.element('div').props('data-rows')
        with ui.element('div').classes('card empty') as self._none:
            Icon('history', 'ic-l t3')
            Text('Not graded again yet.')
            Text(
                'Correct a checker in the library, then see which of these verdicts would have been others.',
                classes='t3',
            )
        self._timer = ui.timer(0.7, self._tick, active=False)

    def show(self, view: RegradeView | None) -> None:
        """Show a job as it is now."""
        before, self._view = self._view, view
        self._none.set_visibility(view is None)
        self._card.set_visibility(view is not None)
        if view is None:
            return
        self._timer.active = view.is_active
        if before is None or before.is_active != view.is_active:
            self._on_state(view.is_active)
        if before is not None and before.started_at != view.started_at:
            self._change, self._page = '', 1
        self._draw(view)
        if before is None or before.counts != view.counts or before.state != view.state:
            self._draw_counts(view)
            self._draw_rows()

    async def _tick(self) -> None:
        view = await background.io_bound(self._studio.regrades.view, self._id)
        if view is not None:
            self.show(view)

    def _draw(self, view: RegradeView) -> None:
        icons = {'running': 'hourglass', 'done': 'circle-check', 'cancelled': 'circle-stop', 'stopped': 'circle-alert'}
        self._icon.set(icons[view.state])
        self._title.set_text(title(view))
        left = f'about {duration(view.eta_s)} left' if view.is_active and view.eta_s is not None else ''
        self._when.set_text(left if view.is_active else f'{ago(view.ended_at)}, with {CHECKERS[view.asked.source]}')
        self._cancel.set_visibility(view.is_active)
        self._bar.set_visibility(view.is_active)
        self._bar.props(f'aria-valuemin=0 aria-valuemax={view.total} aria-valuenow={view.done}')
        self._fill.style(f'width: {100 * view.done / max(view.total, 1):.1f}%')
        self._reason.set_text(view.reason)
        self._reason.set_visibility(bool(view.reason))

    def _draw_counts(self, view: RegradeView) -> None:
        self._counts.clear()
        with self._counts:
            for change, (words, kind, icon) in LOOKS.items():
                count = view.counts.get(change, 0)
                if not count:
                    continue
                with ui.element('button').props('type=button').classes('plain') as button:
                    chip(f'{count:,} {words}', kind, icon=icon)
                on = self._change == change
                button.props(f'aria-pressed={"true" if on else "false"}')
                button.props['title'] = 'Show all of them' if on else 'Show only these'
                button.on('click', lambda picked=change: self._pick(picked), args=[])
            if view.not_kept:
                chip(f'{view.not_kept:,} not kept', 'out', icon='file-x').props['title'] = (
                    'Rollouts whose final workspace is not there: they cannot be graded again'
                )

    def _pick(self, change: Change) -> None:
        self._change, self._page = '' if self._change == change else change, 1
        if self._view is not None:
            self._draw_counts(self._view)
        self._draw_rows()

    def _draw_rows(self) -> None:
        rows, total = self._studio.regrades.rows(self._id, change=self._change, page=self._page)
        self._list.clear()
        if not total:
            return
        with self._list:
            with ui.element('div').classes('tblbox'), ui.element('table').classes('tbl rolls flips'):
                with ui.element('thead'), ui.element('tr'):
                    for name, kind in (('Step', 'r'), ('Task', ''), ('Recorded', ''), ('Now', ''), ('Why', 'hide-s')):
                        with ui.element('th').classes(kind):
                            Text(name)
                with ui.element('tbody'):
                    for row in rows:
                        self._draw_row(row)
            if total > PAGE:
                self._draw_pager(total)

    def _draw_pager(self, total: int) -> None:
        first = (self._page - 1) * PAGE
        with ui.element('div').classes('runbar pad'):
            spacer()
            Text(f'{first + 1:,} to {min(first + PAGE, total):,} of {total:,}', classes='t3 t-small num nowrap')
            for by, icon, label, key in (
                (-1, 'chevron-left', 'Previous page', '['),
                (1, 'chevron-right', 'Next page', ']'),
            ):
                button = Button(icon=icon, kind='icn sm', label=label, key=key)
                button.on('click', lambda by=by: self._turn(by), args=[])
                there = 1 <= self._page + by <= -(-total // PAGE)
                button.off('' if there else 'There are no more')

    def _turn(self, by: int) -> None:
        self._page += by
        self._draw_rows()

    def _draw_row(self, row: Row) -> None:
        result = row.result
        with ui.element('tr'):
            with ui.element('td').classes('r num'):
                Text(f'{result.step:,}')
            with ui.element('td').classes('grow'):
                with ui.element('a').classes('w5 ell').props(f'href="/runs/{self._id}/rollouts/{row.id}"') as link:
                    link.props['data-row'] = str(row.id)
                    link.props['title'] = visible(result.title or result.task)
                    Text(visible(result.title or result.task))
                where = '' if result.stage == 'train' else f' · {STAGES.get(result.stage, result.stage)}'
                Text(f'#{result.index + 1}{where}', 'div', 't3 t-micro num')
            with ui.element('td'):
                _score(result.before)
            with ui.element('td'):
                if result.after is None:
                    chip('Not graded', '', icon='ban')
                else:
                    _score(result.after)
            with ui.element('td').classes('because hide-s'):
                why = visible(result.after.reason if result.after else result.why_not)
                text = Text(why, 'div', 'ell t2 t-small')
                text.props['title'] = f'{why}\n\n{visible(result.output)}'.strip()

    def _cancel_now(self) -> None:
        self._cancel.disable('Ending what runs')
        self._studio.regrades.cancel(self._id)
        self._cancel.enable()


def title(view: RegradeView) -> str:
    """What the job does or came to, in words."""
    if view.is_active:
        return f'{view.text}: {view.done:,} of {view.total:,}' if view.total else view.text
    flipped = sum(view.counts.get(change, 0) for change in ('pass_to_fail', 'fail_to_pass'))
    graded = sum(view.counts.values()) - view.counts.get('not_graded', 0)
    words = f'{plural(graded, "rollout")} graded again, {flipped:,} flipped'
    return {'done': words, 'cancelled': f'Cancelled: {words}', 'stopped': f'Stopped: {words}'}[view.state]


def _score(score: Score) -> None:
    word, kind, icon = OUTCOMES[score.outcome]
    chip('Error' if score.reward is None else f'{word} {score.reward:.2f}', kind, icon=icon)
