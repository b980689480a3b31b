"""The forecast at the top of the plan: what share of the groups of a run will teach something, and how to raise it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nicegui import run, ui

from studio.calibrations.forecast import FEW, LEAST, MOST, Forecast, Suggestion
from studio.calibrations.views import JobView, Subject, Who
from studio.documents.pass_rates import TIERS, PassRate, Tier
from studio.documents.views import DocumentRow
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.tiers import rate_words, tier_badge
from studio.ui.components.wording import plural
from studio.ui.pages.calibrating import open_calibrate

if TYPE_CHECKING:
    from studio.services import Studio

SHOWN: Final = 12
MORE: Final = 60
GOOD: Final = 0.75
"""A task whose share is lower is drawn in the colour of a warning."""
WORTH: Final = 0.02
"""A larger group that adds less to the share is not suggested."""
_RADIUS: Final = 23
_ROUND: Final = 2 * math.pi * _RADIUS


class Signal:
    """The forecast in one tab. ``on_change`` is called when a calibration was started, or tasks are to be left out.

    ``use(size)`` sets the group size in the form, ``leave_out(ids)`` takes tasks out of the training.
    """

    def __init__(
        self,
        studio: Studio,
        on_change: Callable[[], Awaitable[Any]],
        *,
        use: Callable[[int], Any],
        leave_out: Callable[[Sequence[str]], Any],
    ) -> None:
        self._studio, self._on_change, self._use, self._leave_out = studio, on_change, use, leave_out
        self._read: tuple[Any, ...] = ()
        self._who = Who(model='')
        self._rows: Mapping[str, DocumentRow] = {}
        self._forecast = Forecast((), {})
        self._rates: dict[str, PassRate] = {}
        self._subject: Subject | None = None
        self._size = 0
        self._cold_start = False
        self._place: ui.element | None = None
        self._tier_place: ui.element | None = None

    @property
    def tiers(self) -> dict[str, Tier]:
        """The tier of each task that is known of, by its id."""
        return {id: rate.tier for id, rate in self._rates.items()}

    def forget(self) -> None:
        """Read again at the next occasion: more was counted."""
        self._read = ()

    async def read(self, rows: Sequence[DocumentRow], train: Sequence[str], who: Who) -> None:
        """Read what is known of tasks and a model, unless it is known already."""
        wanted = (who, tuple(train), tuple(row.hash for row in rows))
        if wanted == self._read:
            return
        found = await run.io_bound(_read, self._studio, [row.id for row in rows], train, who)
        if found is None:
            return
        self._read, self._who = wanted, who
        self._rows = {row.id: row for row in rows}
        self._forecast, self._subject, self._rates = found
        self._size = 0
        self._draw_tiers()

    # ------------------------------------------------------------------------------------------------- in the card

    def place_tiers(self) -> None:
        """Make the room for the tiers of the picked tasks."""
        self._tier_place = ui.element('div').classes('tiers')
        self._draw_tiers()

    def _draw_tiers(self) -> None:
        if self._tier_place is None or self._tier_place.is_deleted:
            return
        self._tier_place.clear()
        with self._tier_place:
            for tier, word in TIERS.items():
                if count := self._forecast.tiers.get(tier, 0):
                    tier_badge(tier, f'{count:,} {word.lower() if tier != "unknown" else "not calibrated"}')
            if self._forecast.known:  # else the plan, where the forecast is missed, offers the first one
                spacer()
                again = Button('Calibrate again', icon='target', kind='xs', on_click=lambda: self._calibrate(self._ids))
                again.props['title'] = 'Attempts add up: the rates of all these tasks get more certain'

    @property
    def _ids(self) -> list[str]:
        return list(self._read[1]) if self._read else []

    async def _calibrate(self, ids: Sequence[str]) -> None:
        async def started(_: JobView) -> None:
            self.forget()
            await self._on_change()

        await open_calibrate(self._studio, ids, started, who=self._who)

    # ------------------------------------------------------------------------------------------------- in the plan

    def place(self) -> None:
        """Make the room for the forecast. It is drawn anew when it changes only, so that a click meets its button."""
        self._place = ui.element('div')

    def resize(self, size: int, *, cold_start: bool) -> None:
        """Show the forecast for a group size; every size was reckoned before.

        ``cold_start``: whether the run begins with one, after which the model is another than was measured.
        """
        if self._place is None or self._place.is_deleted or not LEAST <= size <= MOST:
            return
        if (size, cold_start) == (self._size, self._cold_start):
            return
        self._size, self._cold_start = size, cold_start
        self._place.clear()
        with self._place:
            total = self._forecast.total(size)
            if not self._ids:
                return
            with ui.element('section').classes('bd vs vs-3 fcast').props('aria-label=Forecast') as section:
                if total is None:
                    self._draw_unknown()
                    return
                if total < FEW:
                    section.classes(add='few')
                self._draw_total(total)
                self._draw_tasks()
                self._draw_advice(total)

    def _draw_unknown(self) -> None:
        with ui.element('div').classes('big'):
            _ring(None)
            with ui.element('div').classes('vs vs-1'):
                Text('No forecast yet', classes='w6 t-md')
                Text(
                    'This model has attempted none of the tasks: how many teach something is not known.',
                    'p',
                    't-small t2',
                )
                Button('Calibrate these', icon='target', kind='sm', on_click=lambda: self._calibrate(self._ids))

    def _draw_total(self, total: float) -> None:
        with ui.element('div').classes('big'):
            _ring(total)
            with ui.element('div').classes('vs vs-1'):
                Text('of groups should carry a gradient', classes='w6 t-md')
                Text('The rest earn the same reward throughout and teach nothing.', classes='t-small t2')
        assert self._subject is not None
        low, high = self._forecast.attempts
        each = f'{low} attempts' if low == high else f'{low} to {high} attempts'
        bounds = self._forecast.interval(self._size) or (total, total)
        words = f'{bounds[0]:.0%} to {bounds[1]:.0%} (95% interval), from {each} a task with {self._subject.title}'
        if self._subject.key and not self._samples_alike:
            words += '; this run samples otherwise'
        Text(words, classes='hint num')
        if self._cold_start:
            Text('This is the model before its cold start, after which it solves more.', classes='hint')

    @property
    def _samples_alike(self) -> bool:
        subject = self._subject
        return subject is not None and (subject.temperature, subject.tokens) == (
            self._who.temperature,
            self._who.tokens,
        )

    def _draw_tasks(self) -> None:
        ranked = self._forecast.ranked(self._size)
        self._draw_bars(ranked[:SHOWN])
        if len(ranked) > SHOWN:
            with ui.element('details').classes('rest'):
                Text(f'{len(ranked) - SHOWN:,} more', 'summary', 't-small t2')
                self._draw_bars(ranked[SHOWN : SHOWN + MORE])
                if len(ranked) > SHOWN + MORE:
                    Text(f'and {len(ranked) - SHOWN - MORE:,} more', classes='hint')
        with ui.element('div').classes('hs hs-3 t-small'):
            for colour, words in (('c3', f'{GOOD:.0%} or more'), ('warn', f'Under {GOOD:.0%}')):
                with ui.element('span').classes('leg'):
                    ui.element('i').classes('sq').style(f'--k: var(--{colour})')
                    Text(words)
            if self._forecast.unknown:
                with ui.element('span').classes('leg'):
                    ui.element('i').classes('hatched')
                    Text('Not calibrated')

    def _draw_bars(self, ranked: Sequence[tuple[str, float | None]]) -> None:
        with (
            ui.element('div').classes('fbars').props('role=list aria-label="Share of groups with a gradient, by task"')
        ):
            for id, share in ranked:
                self._draw_bar(self._rows[id].title if id in self._rows else id, self._rates.get(id), share)

    def _draw_bar(self, title: str, rate: PassRate | None, share: float | None) -> None:
        with ui.element('div').props('role=listitem') as row:
            Text(title, classes='nm').props['title'] = title
            if share is None:
                ui.element('span').classes('tr hatched').props('aria-hidden=true')
                Text('?', classes='v t3').props['title'] = 'Not calibrated'
            else:
                with ui.element('span').classes('tr' if share >= GOOD else 'tr low').props('aria-hidden=true'):
                    ui.element('i').style(f'width: {share:.1%}')
                Text(f'{share:.0%}', classes='v')
        if rate is not None and rate.attempts:
            row.props['title'] = rate_words(rate)

    def _draw_advice(self, total: float) -> None:
        forecast = self._forecast
        if forecast.unknown:
            count = len(forecast.unknown)
            words = f'{plural(count, "task")} not calibrated: the forecast leaves {"it" if count == 1 else "them"} out.'
            with _note(words, 'info'):
                Button('Calibrate', kind='xs', on_click=lambda: self._calibrate(forecast.unknown))
        if total < FEW:
            self._warn()
        suggestion = forecast.suggestion
        if suggestion is not None:
            self._suggest(suggestion, total)

    def _warn(self) -> None:
        """Say that most groups teach nothing, and offer to leave those tasks out that are to blame."""
        tiers = self.tiers
        out = [id for id in self._ids if tiers.get(id) in ('hard', 'easy') and (self._share(id) or 0.0) < FEW]
        counts = {tier: sum(tiers.get(id) == tier for id in out) for tier in ('hard', 'easy')}
        parts = [
            f'{count} {word}' for count, word in ((counts['hard'], 'too hard'), (counts['easy'], 'too easy')) if count
        ]
        words = f'For this model {" and ".join(parts)}. ' if parts else ''
        with _note(
            words + ('Take tasks in band.' if self._cold_start else 'Take tasks in band, or begin with a cold start.'),
            'triangle-alert',
            'warn',
            'Most groups would teach nothing.',
        ):
            if out and len(out) < self._forecast.known:
                Button(f'Leave out {len(out)}', kind='xs', on_click=lambda: self._leave_out(out))

    def _share(self, id: str) -> float | None:
        return self._forecast.share(id, self._size)

    def _suggest(self, suggestion: Suggestion, total: float) -> None:
        size, change = suggestion.size, suggestion.size / self._size - 1
        if size == self._size or 0 <= suggestion.share - total < WORTH:
            reached = f'{total / suggestion.most:.0%} of what {MOST} attempts would give'
            _note(f'numGenerations {self._size} is enough: it reaches {reached}.', 'sparkles')
            return
        does = 'would raise this to' if size > self._size else 'would keep'
        cost = f'{abs(change):.0%} {"more" if change > 0 else "less"} time'
        with _note(f'numGenerations {size} {does} {suggestion.share:.0%} for {cost}: {suggestion.why}.', 'sparkles'):
            Button(f'Use {size}', kind='xs', on_click=lambda: self._use(size))


def _read(
    studio: Studio, ids: Sequence[str], train: Sequence[str], who: Who
) -> tuple[Forecast, Subject | None, dict[str, PassRate]]:
    """Forecast the tasks that are trained on; the rates are of all."""
    subject, rates = studio.calibrations.known(ids, who)
    return Forecast(train, rates), subject, rates


def _note(text: str, icon: str, kind: str = '', lead: str = '') -> ui.element:
    with ui.element('div').classes(f'note {kind}') as note:
        Icon(icon, 'ic-s' if kind else 'ic-s c-acc')
        with ui.element('span'):
            if lead:
                Text(f'{lead} ', 'b')
            Text(text)
    return note


def _ring(share: float | None) -> None:
    """A ring that is filled as far as a share, with the share in its middle. Numbers only: it goes in as markup."""
    arc = f'{(share or 0) * _ROUND:.1f} {_ROUND:.1f}'
    circle = f'cx="30" cy="30" r="{_RADIUS}"'
    value = f'<circle class="value" {circle} stroke-dasharray="{arc}" transform="rotate(-90 30 30)"/>' if share else ''
    words, says = ('?', 'not known') if share is None else (f'{share:.0%}', f'{share:.0%} of groups')
    drawn = (
        ui.element('svg').classes('ring' if share is not None else 'ring none').props('viewBox="0 0 60 60" role=img')
    )
    drawn.props['aria-label'] = says
    drawn._props['innerHTML'] = (
        f'<circle class="track" {circle}/>{value}<text x="30" y="34.5" text-anchor="middle">{words}</text>'
    )
