"""The recipe of a run with its two stages, and the rules of RLVR that are fixed, with their reasons."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.wording import plural
from studio.ui.pages.launch_form import SettingsForm
from trainer.config import Plan

REASONS = (
    (
        'Learning rate',
        'A higher one makes this model forget how to call tools. What is above the cap is lowered to it.',
    ),
    ('beta 0.0', 'Rewards are verified, so no KL term has to hold the policy to the base model.'),
    ('spot off', 'A run keeps its sandboxes on this machine: it cannot be moved while it works.'),
)


class Recipe:
    """The stages of a run: a cold start that can be switched on, then RLVR."""

    def __init__(self, form: SettingsForm) -> None:
        self._form = form
        with ui.element('div').classes('recipe two'):
            with ui.element('div').classes('rec'):
                self._switch = ui.element('span').classes('tgl').props('role=switch tabindex=0')
                self._switch.props['aria-label'] = 'SFT cold start'
                with ui.element('span').classes('vs vs-0'):
                    Text('SFT cold start', classes='w5')
                    self._cold_text = Text(classes='hint')
            Icon('arrow-right', 't3')
            with ui.element('div').classes('rec'):
                switch = ui.element('span').classes('tgl on').style('opacity: .55')
                switch.props('role=switch aria-checked=true aria-disabled=true aria-label=RLVR')
                with ui.element('span').classes('vs vs-0'):
                    Text('RLVR', classes='w5')
                    self._text = Text('Agentic GRPO', classes='hint ell')
                Icon('lock', 'ic-s t3', label='Always on')
        form.draw_cold_start()
        for event in ('click', 'keydown.enter', 'keydown.space.prevent'):
            self._switch.on(event, self._turn, args=[])
        self._mark()

    def show(self, plan: Plan | None, solutions: int) -> None:
        """Say what the stages will do."""
        if plan is not None:
            self._text.set_text(f'Agentic GRPO, LoRA rank {plan.lora_rank}, {plural(plan.steps, "step")}')
        words = f'{plural(solutions, "task")} with solutions to learn from'
        self._cold_text.set_text(words if self._form.cold_start else 'For models that never used tools')

    def _turn(self) -> Any:
        result = self._form.switch_cold_start(not self._form.cold_start)
        self._mark()
        return result

    def _mark(self) -> None:
        on = self._form.cold_start
        self._switch.classes(add='on') if on else self._switch.classes(remove='on')
        self._switch.props['aria-checked'] = 'true' if on else 'false'


def draw_locks() -> Text:
    """Draw the fixed rules; return the text that names the highest learning rate."""
    with ui.element('div').classes('locks'):
        Text('Fixed by the studio', classes='t3 t-small')
        with ui.element('span').classes('chip lock'):
            Icon('lock', 'ic-xs')
            rate = Text()
        for text in ('beta 0.0', 'spot off'):
            chip(text, 'lock', icon='lock')
        spacer()
        Button('Why these are fixed', kind='gho sm', on_click=_why)
    return rate


def _why() -> None:
    with opened_dialog('Why these are fixed') as dialog:
        with ui.element('dl').classes('why'):
            for name, text in REASONS:
                Text(name, 'dt', 'w5')
                Text(text, 'dd', 't2')
        with ui.element('div').classes('act'):
            spacer()
            Button('Close', on_click=dialog.close).props('autofocus')
