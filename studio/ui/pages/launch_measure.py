"""The offer to measure a model that never ran: one step of a real run, so that time and memory are known before Start.

The run stays in the list like any other; the page may be left meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nicegui import run as background
from nicegui import ui

from studio.runs.views import RunView
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.wording import STATES, duration
from studio.ui.pages.launch_models import model_of
from studio.ui.theme import toast

if TYPE_CHECKING:
    from studio.services import Studio

POLL_S: Final = 1.0
ONE_STEP: Final = {'heldOutAttempts': 0, 'evalEvery': 0, 'saveEvery': 0}
"""Settings that keep everything but the step itself out of the measurement."""


class Measure:
    """The offer in one tab; ``on_change`` is called when the run begins and when it has ended."""

    def __init__(self, studio: Studio, on_change: Callable[[], Awaitable[None]]) -> None:
        self._studio, self._on_change = studio, on_change
        self._wish: tuple[str, Mapping[str, Any], Sequence[str]] = ('', {}, ())
        self._run: RunView | None = None
        self._said: Text | None = None
        self._client = ui.context.client
        self._timer = ui.timer(POLL_S, self._look, active=False)
        self.off = ''

    @property
    def busy(self) -> bool:
        """Whether a measuring run works."""
        return self._run is not None

    def close(self) -> None:
        """The page goes away; the run goes on."""
        self._timer.cancel()

    def wants(self, model: str, settings: Mapping[str, Any], task_ids: Sequence[str]) -> None:
        """What would be measured now."""
        self._wish = (model, settings, task_ids)

    def draw(self) -> None:
        """Draw the offer, or how far it is."""
        with ui.element('div').classes('hs'):
            if self._run is not None:
                self._said = Text(_words(self._run), classes='t-small num').props('role=status')
                spacer()
                Button('Cancel', kind='xs', on_click=self._cancel)
                return
            Text('No run of this model was measured.', classes='hint')
            spacer()
            Button('Measure one step', icon='timer', kind='xs', on_click=self._start).off(self.off)

    async def _start(self) -> None:
        if self._run is not None:
            return
        model, settings, task_ids = self._wish
        rl = {**settings.get('rl', {}), 'maxSteps': 1}
        one = {key: value for key, value in settings.items() if key not in ('coldStart', 'epochs', 'earlyStop')}
        made = await background.io_bound(
            self._studio.runs.create,
            f'Measure {model_of(model).title}',
            model,
            {**one, **ONE_STEP, 'rl': rl},
            task_ids,
        )
        if made is None:
            return
        self._run = await background.io_bound(self._studio.runs.start, made.id)
        self._timer.activate()
        await self._on_change()

    async def _cancel(self) -> None:
        if self._run is not None:
            await background.io_bound(self._studio.runs.stop, self._run.id)
            self._studio.supervisor.wake()

    async def _look(self) -> None:
        if self._run is None:
            return
        view = await background.io_bound(self._studio.runs.get, self._run.id)
        if view is None:
            return
        if not view.is_final:
            self._run = view
            # The words alone: a button that is drawn anew each second would lose clicks.
            if self._said is not None:
                self._said.text = _words(view)
            return
        self._run = self._said = None
        self._timer.deactivate()
        if view.state not in ('finished', 'stopped'):
            with self._client.layout:
                toast('The step could not be measured', 'bad', detail=view.reason)
        await self._on_change()


def _words(run: RunView) -> str:
    return f'Measuring: {STATES[run.state][0].lower()}, {duration(run.elapsed_s)}'
