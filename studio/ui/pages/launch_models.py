"""The base model of a run: a card for each that is offered, and a box for any folder or hub id."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from nicegui import run, ui

from studio.runs.estimates import card_footprint
from studio.runs.footprint import Footprint, weight_bytes
from studio.runs.preflight import check_model
from studio.ui.components.elements import Text, chip
from studio.ui.components.fields import Field
from studio.ui.components.wording import parameters, plural, size
from trainer.errors import ConfigError
from trainer.models import STARTER, ModelInfo, Preflight, find_model, offered_models

DOWNLOADS: Final = 'Downloads at start'
UNREAD: Final = 'What stands in "Another model" is looked at when you press Enter there, or leave it.'
ASKING: Final = 'The tokenizer of the other model is being asked whether its tool calls can be read.'


class ModelCards:
    """The choice in one tab; ``picked`` is the id of the model, ``problem`` why nothing can be started with it.

    What stands in the box for another model counts: until it has been looked at, or while it is refused, there is a
    ``problem``. An empty box means the card that was picked last.

    ``gpu``: whether this machine trains on one, which halves what weights take.
    """

    def __init__(self, picked: str, on_change: Callable[[], Any], *, gpu: bool) -> None:
        self.picked = picked
        self.problem = '' if picked in {model.id for model in offered_models()} else ASKING
        self._answer = ''
        self._gpu = gpu
        self._on_change = on_change
        self._cards: dict[str, tuple[ui.element, ui.element]] = {}
        with ui.element('div').classes('models').props('role=radiogroup aria-label="Base model"'):
            for model in offered_models():
                self._card(model)
        known = picked in self._cards
        self._card_picked = picked if known else STARTER.id
        with Field('Another model', hint='A folder with a saved transformers model, or a hub id: owner/name') as field:
            box = ui.input(value='' if known else picked).props('outlined dense hide-bottom-space')
            box.props['aria-label'] = 'Another model: folder or hub id'
            box.on_value_change(self._typed)
        self._other, self._field = box, field
        with ui.element('div').classes('hint').props('role=status') as self._status:
            self._said = Text()
        for event in ('blur', 'keydown.enter'):
            box.on(event, self._other_left, args=[])
        self._mark()
        ui.timer(0, self._ask, once=True)

    def _card(self, model: ModelInfo) -> None:
        with ui.element('button').classes('card model').props('type=button role=radio') as card:
            if model.about:
                card.props['title'] = model.about
            with ui.element('span').classes('hs'):
                Text(model.title, classes='w6 ell').props['title'] = model.title
                ui.element('span').classes('sp')
                dot = ui.element('span').classes('rad')
            with ui.element('span').classes('hs hs-1'):
                if model.supports_rl:
                    chip('Supports RL', 'acc', icon='check')
                else:
                    chip('No RL', 'warn', icon='ban')
            with ui.element('dl'):
                for name, (words, classes, title) in self._facts(model).items():
                    Text(name, 'dt')
                    said = Text(words, 'dd', classes)
                    if title:
                        said.props['title'] = title
        self._cards[model.id] = (card, dot)
        if model.supports_rl:
            card.on('click', lambda: self._pick(model.id), args=[])
        else:
            card.classes('off').props('disabled aria-disabled=true')

    def _facts(self, model: ModelInfo) -> dict[str, tuple[str, str, str]]:
        """Name → words, classes, and what the words consist of."""
        stored, need = weight_bytes(model, gpu=True), card_footprint(model, gpu=self._gpu)
        words, here = on_disk(model)
        if not here and stored and words == DOWNLOADS:
            words = f'Download {size(stored)}'
        return {
            'Size': (f'{parameters(model.parameters)} · {size(stored)}' if stored else '–', '', ''),  # noqa: RUF001
            'Memory': (
                f'about {size(need.total)}' if need else 'not known',
                '',
                memory_words(need, gpu=self._gpu) if need else '',
            ),
            'Disk': (words, 'c-ok' if here else '', ''),
        }

    def _pick(self, id: str) -> Any:
        self.picked = self._card_picked = id
        self.problem = ''
        self._other.value = ''
        return self._change(id)

    def _typed(self) -> Any:
        """What is typed is not looked at before it is left; nothing may be started with another model meanwhile."""
        text = self._text
        if not text or text == self.picked:
            return self._other_left()
        return self._refuse(UNREAD)

    def _other_left(self) -> Any:
        text = self._text
        if text == self.picked or (not text and self.picked == self._card_picked):
            # Back to what was picked before: looked at again, unless that is the answer already, or on its way.
            return None if self.problem in ('', ASKING, self._answer) else self._change(self.picked)
        try:
            model = find_model(text or self._card_picked)
        except ConfigError as error:
            self._field.show_error(error.message)
            title = model_of(self.picked).title
            return self._refuse(f'"Another model" is refused: correct it, or empty it to train {title}.')
        if model.id in self._cards:
            return self._pick(model.id)
        return self._change(model.id)

    @property
    def _text(self) -> str:
        return str(self._other.value or '').strip()

    def _refuse(self, problem: str) -> Any:
        """Let nothing be started; the page is told where that is news."""
        if problem == self.problem:
            return None
        self.problem = problem
        return self._on_change()

    def _change(self, id: str) -> Any:
        self.picked = id
        self.problem = '' if id in self._cards else ASKING
        self._field.show_error('')
        self._mark()
        with self._status:
            ui.timer(0, self._ask, once=True)
        return self._on_change()

    async def _ask(self) -> None:
        """Ask the tokenizer of the picked model whether its tool calls can be read; that of the starter is known."""
        id = self.picked
        if id == STARTER.id:
            self._said.set_text('')
            return
        self._said.set_text('Tool calls can be read: asking its tokenizer …')
        result: Preflight | None = await run.io_bound(check_model, id)
        if result is None or self.picked != id:
            return
        if result.ok:
            family = f' ({result.family})' if result.family else ''
            self._said.set_text(f'Tool calls can be read: yes{family}. {result.note}'.strip())
            if self.problem == ASKING:
                self.problem = ''
                await self._on_change()
        else:
            self._said.set_text('Tool calls can be read: no.')
            self.problem = self._answer = f'{result.problem}. {result.hint}'.strip()
            self._field.show_error(self.problem)
            await self._on_change()

    def _mark(self) -> None:
        for id, (card, dot) in self._cards.items():
            on = id == self.picked
            for element, name in ((card, 'sel'), (dot, 'on')):
                element.classes(add=name) if on else element.classes(remove=name)
            card.props['aria-checked'] = 'true' if on else 'false'


def memory_words(need: Footprint, *, gpu: bool) -> str:
    """What the memory of a run with a model's own preset consists of."""
    low, high = need.range
    kept = 'their layers are worked out again one by one' if gpu else 'on a CPU all their layers are kept'
    return (
        f'Weights {size(need.weights)}, adapter {size(need.optimiser)}, and the larger of two: learning from '
        f'{plural(need.batch, "rollout")} at once {size(need.activations)} ({kept}), or generating {size(need.cache)}. '
        f'{size(low)} to {size(high)} by the length of episodes; a smaller batchSize needs less.'
    )


def model_of(id: str) -> ModelInfo:
    """The model behind an id; the starter where it cannot be found any more (a folder that was moved)."""
    try:
        return find_model(id)
    except ConfigError:
        return STARTER


def on_disk(model: ModelInfo) -> tuple[str, bool]:
    """Words for where the weights are, and whether they are on this machine; looks at the disk only."""
    if model.kind in ('bundled', 'local'):
        there = any(Path(model.source).glob(model.gguf or '*.safetensors'))
        return ('Bundled' if model.kind == 'bundled' else 'On disk', True) if there else ('Missing', False)
    folder = hub_cache() / f'models--{model.source.replace("/", "--")}' / 'snapshots'
    if any(folder.glob('*/*.safetensors')):
        return 'On disk', True
    return DOWNLOADS, False


def hub_cache() -> Path:
    """Where the model hub's client keeps what it downloaded."""
    if cache := os.environ.get('HF_HUB_CACHE'):
        return Path(cache)
    home = os.environ.get('HF_HOME')
    return (Path(home) if home else Path.home() / '.cache' / 'huggingface') / 'hub'
