"""A trained adapter as others can use it: PEFT files, tokenizer, lineage, checksums, and how it behaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from trainer.checkpoints import sha256
from trainer.config import Plan, RunConfig
from trainer.engines.policy import causal_lm
from trainer.evaluation import Evaluation
from trainer.fingerprint import base_checksum, probes
from trainer.models import ModelInfo
from trainer.policy import save_weights
from trainer.preparation import Run
from trainer.proof import EXPECTED, Expectation, Sampling
from trainer.rollout.chat import Chat
from trainer.runfolder import write_json
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
    held_out: Sequence[TaskFile] = (),
    base: str = '',
) -> dict[str, str]:
    """Save weights, tokenizer and lineage into ``folder``; return the sha256 of each weight file by name.

    ``lineage.json`` says what the adapter came from: model, run, step, task versions, settings, library versions.
    ``base`` is the checksum of the base model's tensors as they were loaded.
    """
    save_weights(policy, folder)
    tokenizer.save_pretrained(folder)
    _name_the_base(folder, model)
    sums = {path.name: sha256(path) for path in sorted(folder.glob('adapter_*'))}
    lineage = {
        'model': {'id': model.id, 'kind': model.kind, 'revision': revision(policy), 'sha256': base},
        'run': {'id': config.id, 'name': config.name, 'training_type': config.training_type},
        'cold_start': config.cold_start.model_dump(mode='json', by_alias=True) if config.cold_start else None,
        'step': step,
        'plan': plan.model_dump(mode='json', exclude={'notes'}),
        'settings': config.settings.model_dump(mode='json', by_alias=True),
        'tasks': [_named(task) for task in tasks],
        'held_out': [_named(task) for task in held_out],
        'libraries': {name: version(name) for name in LIBRARIES},
        'sha256': sums,
    }
    (folder / 'lineage.json').write_text(json.dumps(lineage, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')
    return sums


def record_behaviour(run: Run, policy: Any, held_out: Evaluation | None, *, base: str, step: int) -> None:
    """Write down how the policy behaves now and what it is made of, for a fresh process to compare (``parity.json``).

    ``base`` is the checksum of the base model as it was loaded; ``held_out`` what was measured with these weights.
    """
    plan = run.plan
    rewards = {task.id: task.rewards for task in held_out.tasks} if held_out is not None else None
    after = base_checksum(policy)
    if after != base:
        run.journal.notice('The base model was changed by training: the adapter alone cannot repeat it', level='error')
    expected = Expectation(
        model=run.config.model,
        step=step,
        precision=run.hardware.precision,
        device=run.hardware.name,
        base=base,
        base_after=after,
        files={path.name: sha256(path) for path in sorted(run.folder.adapter.glob('adapter_*'))},
        probes=probes(policy, Chat(run.tokenizer), run.held_out or run.tasks),
        sampling=Sampling(
            seed=run.config.settings.seed,
            k=held_out.k if held_out is not None else 0,
            temperature=plan.temperature,
            tokens=plan.max_completion_length,
            turns=plan.max_turns,
            answer_tokens=plan.answer_tokens,
            engine=plan.engine,
            processes=run.team.size,
            packages=tuple(run.config.settings.rl.pip_packages),
        ),
        rewards=rewards,
    )
    write_json(run.folder.path / EXPECTED, expected.model_dump(mode='json'))


def revision(policy: Any) -> str:
    """The revision of the base model on its hub; empty where it came from a folder."""
    return str(getattr(causal_lm(policy).config, '_commit_hash', None) or '')


def _named(task: TaskFile) -> dict[str, object]:
    return {'id': task.id, 'title': task.title, 'version': task.version, 'hash': task.hash}


def _name_the_base(folder: Path, model: ModelInfo) -> None:
    """Name the base model by what others know it as: a local path exists on one machine only."""
    path = folder / 'adapter_config.json'
    data = json.loads(path.read_text(encoding='utf-8'))
    data['base_model_name_or_path'] = model.id if model.kind in ('eligible', 'hub') else model.title.lower()
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + '\n', encoding='utf-8')
