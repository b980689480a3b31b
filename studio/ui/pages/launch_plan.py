"""The plan at the right of the launch page: steps, settings in force, time and memory with their ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import ui

from studio.ui.components.elements import Text, note, spacer
from studio.ui.components.wording import duration, plural, size
from studio.ui.pages.launch_ready import Standing, memory_range
from trainer.config import Plan

COLOURS: Final = {'Generate': 'c1', 'Grade': 'c2', 'Train': 'c3'}


def draw_plan(now: Standing, *, train: int, held_out: int, measure: Callable[[], Any]) -> None:
    """Draw all of it; ``measure`` draws the offer to measure where nothing is known of the model's speed."""
    plan = now.view.plan
    if plan is None:
        Text('The plan appears when the settings fit.', 'div', 't3 t-small pad')
        return
    with ui.element('div').classes('sums'):
        for label, value in (
            ('Steps', plan.steps),
            ('Per step', plan.rollouts_per_step),
            ('Rollouts', plan.steps * plan.rollouts_per_step),
        ):
            with ui.element('div'):
                Text(label, 'div', 'hint')
                Text(f'{value:,}', 'div', 'v')
    _time(now, plan, measure)
    _memory(now)
    with ui.element('dl').classes('plan'):
        for name, said in _lines(now, plan, train, held_out):
            Text(name, 'dt')
            Text(said, 'dd')
    if now.view.notes:
        with ui.element('div').classes('vs').style('padding: 4px 12px 12px'):
            for item in now.view.notes:
                note(item.msg, 'warn', icon='triangle-alert', lead=item.loc.removeprefix('rl.'))


def _lines(now: Standing, plan: Plan, train: int, held_out: int) -> Sequence[tuple[str, str]]:
    passes = f'{plan.accumulation:,} passes' if plan.accumulation > 1 else 'one pass'
    processes = f', in each of {plan.processes} processes' if plan.processes > 1 else ''
    return (
        ('Model', now.model.title),
        ('Tasks', f'{train}, {held_out} held out'),
        ('A step', f'{plural(plan.groups, "task")}, {plan.generations} attempts each'),
        ('Batch', f'a step is {passes} of {plural(plan.batch_size, "rollout")}{processes}'),
        ('Learning rate', f'{plan.learning_rate:g}'),
        ('Epochs', f'{plan.steps * plan.groups / max(1, train):.3g}'),
        ('Temperature', f'{plan.temperature:g}'),
        ('LoRA', f'rank {plan.lora_rank}, alpha {plan.lora_alpha}'),
        ('Episode', f'{plan.max_completion_length:,} tokens, {plan.max_turns} tool turns'),
        ('Engine', plan.engine),
    )


def _time(now: Standing, plan: Plan, measure: Callable[[], Any]) -> None:
    with ui.element('div').classes('est2').props('role=group aria-label=Time'):
        if now.measured is None:
            with ui.element('div').classes('hs'):
                Text('Time', classes='t2')
                spacer()
                Text('not known yet', classes='hint')
            measure()
            return
        low, middle, high = now.measured.seconds(plan.steps * plan.rollouts_per_step, now.evaluated)
        with ui.element('div').classes('hs'):
            Text('Time', classes='t2')
            spacer()
            if duration(low) != duration(high):
                Text(f'{duration(low)} to {duration(high)}', classes='hint num')
            Text(duration(middle), 'b', 'w6 t-md num')
        shares = {name: share for name, share in now.measured.shares.items() if share >= 0.005}
        _bar([(name, f'{share:.0%}', share, COLOURS[name]) for name, share in shares.items()], 'Share of the time')
        names = ', '.join(f'"{name[:30]}"' for name in now.measured.runs)
        Text(f'{plural(now.measured.steps, "step")} measured in {names}; loading not counted', classes='hint')


def _memory(now: Standing) -> None:
    with ui.element('div').classes('est2').props('role=group aria-label=Memory'):
        needed = memory_range(now)
        with ui.element('div').classes('hs'):
            Text('GPU memory' if now.room.gpu else 'Memory', classes='t2')
            spacer()
            Text(f'of {size(now.room.total)}', classes='hint num')
            if needed is None:
                Text('not known', classes='hint')
                return
            low, high, measured = needed
            words = size(low) if measured or size(low) == size(high) else f'{_number(low)} to {size(high)}'
            Text(words, 'b', 'w6 t-md num')
        if measured:
            Text('The most an earlier run of this model held', classes='hint')
            return
        assert now.reckoned is not None
        made = now.reckoned
        parts = (
            ('Weights', made.weights, 'c6'),
            ('Optimiser', made.optimiser, 'c4'),
            ('Activations', made.activations, 'c3'),
            ('KV cache', made.cache, 'c1'),
        )
        whole = max(now.room.total, made.weights + made.optimiser + made.activations + made.cache)
        _bar([(name, size(value), value / whole, colour) for name, value, colour in parts], 'Memory by use')
        Text('Reckoned from its layers; activations and cache take turns', classes='hint')


def _number(count: float) -> str:
    return size(count).rpartition(' ')[0] if size(count).endswith('GB') else size(count)


def _bar(parts: Sequence[tuple[str, str, float, str]], label: str) -> None:
    """A stacked bar with its legend: name, value in words, share of the whole, colour."""
    with ui.element('div').classes('meter lgm') as meter:
        meter.props['role'] = 'img'
        meter.props['aria-label'] = f'{label}: ' + ', '.join(f'{name} {words}' for name, words, _, _ in parts)
        for _, _, share, colour in parts:
            ui.element('i').style(f'--v: {share:.1%}; --k: var(--{colour})')
    with ui.element('div').classes('hs hs-3'):
        for name, words, _, colour in parts:
            with ui.element('span').classes('leg num'):
                ui.element('i').classes('sq').style(f'--k: var(--{colour})')
                Text(f'{name} {words}')
