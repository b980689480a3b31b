"""A trained adapter as others can use it: standard PEFT files, its tokenizer, lineage and checksums."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from trainer.checkpoints import sha256
from trainer.config import Plan, RunConfig
from trainer.evaluate import Evaluation
from trainer.models import ModelInfo
from trainer.policy import save_weights
from trainer.task import TaskFile

LIBRARIES: Final = ('torch', 'transformers', 'trl', 'peft', 'rlvr-studio')


def save_adapter(
    folder: Path,
    policy: Any,
    tokenizer: Any,
    *,
    config: RunConfig,
    model: ModelInfo,
    plan: Plan,
    tasks: Sequence[TaskFile],
    step: int,
) -> dict[str, str]:
    """Save weights, tokenizer and lineage into ``folder``; return the sha256 of each weight file by name.

    ``lineage.json`` says what the adapter came from: model, run, step, task versions, settings, library versions.
    """
    save_weights(policy, folder)
    tokenizer.save_pretrained(folder)
    _name_the_base(folder, model)
    sums = {path.name: sha256(path) for path in sorted(folder.glob('adapter_*'))}
    lineage = {
        'model': {'id': model.id, 'kind': model.kind},
        'run': {'id': config.id, 'name': config.name},
        'step': step,
        'plan': plan.model_dump(mode='json', exclude={'notes'}),
        'settings': config.settings.model_dump(mode='json', by_alias=True),
        'tasks': [{'id': task.id, 'title': task.title, 'version': task.version, 'hash': task.hash} for task in tasks],
        'libraries': {name: version(name) for name in LIBRARIES},
        'sha256': sums,
    }
    (folder / 'lineage.json').write_text(json.dumps(lineage, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')
    return sums


def write_model_card(
    folder: Path,
    *,
    config: RunConfig,
    model: ModelInfo,
    plan: Plan,
    step: int,
    before: Evaluation | None,
    after: Evaluation | None,
    evaluations: int = 0,
) -> None:
    """Write README.md: what the adapter is, its held-out success with intervals, and how to load it."""
    success = '\n'.join(
        f'| {name} | {result.solved} of {result.attempts} | {result.mean:.2f} | {result.low:.2f} to {result.high:.2f} |'
        for name, result in (('base model', before), ('this adapter', after))
        if result is not None and result.mean is not None
    )
    measured = next((result for result in (after, before) if result is not None), None)
    how = f'k = {measured.k}, temperature {measured.temperature:g}' if measured else ''
    if after is not None and evaluations > 2:
        # The highest of several measurements is a little too high.
        how += f'. Step {step} was the best of {evaluations} evaluations on these tasks'
    table = (
        f'\n| | solved | success | 95 % interval |\n|---|---|---|---|\n{success}\n\n{how}\n'
        if success
        else ('\nNot measured: the run had no held-out tasks.\n')
    )
    (folder / 'README.md').write_text(
        f"""---
library_name: peft
base_model: {model.id}
tags: [grpo, rlvr, lora]
---
# {config.name or config.id}

LoRA adapter (rank {plan.lora_rank}) for `{model.id}`, trained for {step} steps of {_method(config, plan)}.
`lineage.json` holds the task versions, the settings, the library versions and the checksums.

## Held-out success
{table}
## Use

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained("{model.id if model.kind != 'bundled' else 'PATH/TO/STARTER'}")
model = PeftModel.from_pretrained(base, "PATH/TO/THIS/FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH/TO/THIS/FOLDER")
```
""",
        encoding='utf-8',
    )


def _method(config: RunConfig, plan: Plan) -> str:
    if config.training_type == 'conversationalTraining':
        return 'supervised training on demonstrations'
    first = ', after a cold start on demonstrations' if config.cold_start else ''
    return (
        f'agentic GRPO on tasks with verifiable rewards: {plan.groups} tasks a step, {plan.generations} attempts '
        f'each{first}'
    )


def _name_the_base(folder: Path, model: ModelInfo) -> None:
    """Name the base model by what others know it as: a local path exists on one machine only."""
    path = folder / 'adapter_config.json'
    data = json.loads(path.read_text(encoding='utf-8'))
    data['base_model_name_or_path'] = model.id if model.kind in ('eligible', 'hub') else model.title.lower()
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + '\n', encoding='utf-8')
