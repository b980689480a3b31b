"""The model card of an adapter: README.md with its numbers and plots, written from what the run folder holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainer.config import Plan, RunConfig
from trainer.errors import ConfigError, RunFolderError
from trainer.evaluation import Evaluation, Stage, read_evaluation
from trainer.events import Metrics, read_events
from trainer.models import find_model
from trainer.plots import curve_svg, success_svg
from trainer.runfolder import RunFolder

PLOTS: Final = 'plots'
REWARD: Final = 'rewards/TfcodeEnv/mean'
HELD_OUT: Final = 'held_out/success'
PIECE: Final = 1024**2
"""Bytes of events read at once."""


def write_model_card(run: RunFolder, folder: Path) -> None:
    """Write README.md and its plots into the adapter in ``folder``; what the run did not measure is left out."""
    config, plan = run.config(), _plan(run)
    before, after = _evaluation(run, 'before'), _evaluation(run, 'after')
    lineage = _object(folder / 'lineage.json')
    series = _series(run)
    plots = folder / PLOTS
    plots.mkdir(exist_ok=True)
    pictures = []
    if before is not None or after is not None:
        (plots / 'held-out.svg').write_text(success_svg(before, after), encoding='utf-8')
        pictures.append(f'![Held-out success before and after]({PLOTS}/held-out.svg)')
    curves = (('reward', REWARD, 'Mean reward in training'), ('success', HELD_OUT, 'Held-out success over the steps'))
    for name, key, title in curves:
        if len(series.get(key, {})) > 1:
            points = sorted(series[key].items())
            (plots / f'{name}.svg').write_text(curve_svg(title, points), encoding='utf-8')
            pictures.append(f'![{title}]({PLOTS}/{name}.svg)')
    text = _card(config, plan, lineage, before, after, measured=len(series.get(HELD_OUT, {})), pictures=pictures)
    (folder / 'README.md').write_text(text, encoding='utf-8')


def _card(
    config: RunConfig,
    plan: Plan | None,
    lineage: dict[str, Any],
    before: Evaluation | None,
    after: Evaluation | None,
    *,
    measured: int,
    pictures: Sequence[str],
) -> str:
    base, hub = _base(config)
    step = lineage.get('step')
    steps = f', trained for {step} steps' if isinstance(step, int) else ''
    rank = f' (rank {plan.lora_rank})' if plan is not None else ''
    head = f'base_model: {json.dumps(base)}\n' if hub else ''
    return f"""---
library_name: peft
{head}tags: [grpo, rlvr, lora]
---
# {_line(config.name or config.id)}

LoRA adapter{rank} for `{base}`{steps} by {_method(config, plan)}.
`lineage.json` holds the task versions, the settings, the library versions and the checksums.

## Held-out success
{_table(before, after, step, measured)}
{_by_task(before, after)}
{chr(10).join(pictures)}

## Use

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained({json.dumps(base if hub else f'PATH/TO/{base}')})
model = PeftModel.from_pretrained(base, "PATH/TO/THIS/FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH/TO/THIS/FOLDER")
```
"""


def _table(before: Evaluation | None, after: Evaluation | None, step: object, measured: int) -> str:
    rows = '\n'.join(
        f'| {name} | {result.solved} of {result.attempts} | {result.mean:.2f} | {result.low:.2f} to {result.high:.2f} |'
        for name, result in (('base model', before), ('this adapter', after))
        if result is not None and result.mean is not None
    )
    if not rows:
        return '\nNot measured: the run had no held-out tasks, or was stopped before.\n'
    one = after or before
    how = f'k = {one.k} attempts a task, temperature {one.temperature:g}; 95 % Wilson intervals' if one else ''
    if after is not None and measured > 2:
        # The highest of several measurements is a little too high.
        how += f'. Step {step} was the best of {measured} evaluations on these tasks'
    return f'\n| | solved | success | 95 % interval |\n|---|---|---|---|\n{rows}\n\n{how}.\n'


def _by_task(before: Evaluation | None, after: Evaluation | None) -> str:
    first = {task.id: task for task in before.tasks} if before else {}
    second = {task.id: task for task in after.tasks} if after else {}
    rows = []
    for id in dict.fromkeys((*second, *first)):
        old, new = first.get(id), second.get(id)
        title = next((task.title for task in (new, old) if task is not None and task.title), id)
        cells = [f'{task.solved} of {task.attempts}' if task is not None else '' for task in (old, new)]
        rows.append(f'| {_line(title)} | {cells[0]} | {cells[1]} |')
    if not rows:
        return ''
    return '| task | before | after |\n|---|---|---|\n' + '\n'.join(rows) + '\n'


def _method(config: RunConfig, plan: Plan | None) -> str:
    if config.training_type == 'conversationalTraining':
        return 'supervised training on demonstrations'
    groups = f': {plan.groups} tasks a step, {plan.generations} attempts each' if plan is not None else ''
    first = ', after a cold start on demonstrations' if config.cold_start else ''
    return f'agentic GRPO on tasks with verifiable rewards{groups}{first}'


def _base(config: RunConfig) -> tuple[str, bool]:
    """What others know the base model as, and whether that is its id on the hub."""
    try:
        model = find_model(config.model)
    except ConfigError:  # a folder that is gone, or was on another machine
        return config.model.rstrip('/').rsplit('/', 1)[-1], False
    return (model.id, True) if model.kind in ('eligible', 'hub') else (model.title.lower(), False)


def _line(text: str) -> str:
    """A text of others on one line of markdown, as text."""
    plain = ' '.join(''.join(letter if letter.isprintable() else ' ' for letter in text).split())
    return ''.join(f'\\{letter}' if letter in '\\`*_{}[]<>#|!' else letter for letter in plain)


def _series(run: RunFolder) -> dict[str, dict[int, float]]:
    """The series that are drawn, by name and step; a step that was done twice counts as it was last."""
    found: dict[str, dict[int, float]] = {}
    events, offset = read_events(run.events, limit=PIECE)
    while events:
        for event in events:
            for name in (REWARD, HELD_OUT):
                if isinstance(event, Metrics) and name in event.values:
                    found.setdefault(name, {})[event.step] = event.values[name]
        events, offset = read_events(run.events, offset, limit=PIECE)
    return found


def _evaluation(run: RunFolder, stage: Stage) -> Evaluation | None:
    try:
        return read_evaluation(run.path, stage)
    except RunFolderError:  # damaged: the card says less
        return None


def _plan(run: RunFolder) -> Plan | None:
    try:
        return Plan.model_validate_json((run.path / 'plan.json').read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (FileNotFoundError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
