"""The stages of a run in their order: prepare, measure before, train, save the adapter, measure after."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import set_seed

from trainer.adapters import save_adapter, write_model_card
from trainer.config import Plan, RunConfig, resolve
from trainer.engines import open_engine
from trainer.errors import SandboxUnavailable
from trainer.evaluate import Evaluation, evaluate
from trainer.events import Metrics, RunState
from trainer.grpo import GrpoRun
from trainer.hardware import Hardware, detect
from trainer.journal import Journal
from trainer.models import ModelInfo
from trainer.policy import load_model, load_tokenizer
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player
from trainer.runfolder import RunFolder, write_json
from trainer.sandbox.packages import InstallStopped
from trainer.sandbox.probe import probe
from trainer.sandbox.python_env import PythonEnvironment, package_environment
from trainer.task import TaskFile


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    state: RunState
    reason: str = ''


@dataclass(frozen=True)
class Run:
    """What every stage needs."""

    folder: RunFolder
    journal: Journal
    config: RunConfig
    model: ModelInfo
    plan: Plan
    hardware: Hardware
    tokenizer: Any
    tasks: Sequence[TaskFile]
    held_out: Sequence[TaskFile]
    python: PythonEnvironment

    @property
    def home(self) -> Path:
        """Data folder with the Python environments of sandboxes."""
        return home_of(self.config, self.folder)

    def player(self, policy: Any) -> Player:
        """A player of episodes with the policy as it stands."""
        limits = EpisodeLimits(self.plan.max_completion_length, self.plan.max_turns, self.plan.temperature)
        engine = open_engine(self.plan.engine, policy, self.tokenizer)
        return Player(
            Chat(self.tokenizer), engine, limits, lambda: TfcodeEnv(self.home, self.config.isolation, self.python)
        )


def run_stages(folder: RunFolder, journal: Journal) -> Ending:
    """Run every stage; return how it ended. Raises ``RlvrError`` where a stage cannot do its work."""
    try:
        run = _prepare(folder, journal)
    except InstallStopped as stopped:
        return Ending('stopped', stopped.message)
    policy = load_model(run.model, run.hardware)
    before = _measure(run, policy, 'before', step=0)
    if journal.stop_requested:
        return Ending('stopped', 'stopped before training')
    journal.state('training')
    stage = GrpoRun(run.config, run.plan, run.tasks, journal, run.hardware)
    policy = stage.train(policy, run.tokenizer, run.player)
    sums = save_adapter(
        folder.adapter,
        policy,
        run.tokenizer,
        config=run.config,
        model=run.model,
        plan=run.plan,
        tasks=run.tasks,
        step=stage.steps,
    )
    stopped = bool(stage.stop_reason)
    after = None if stopped else _measure(run, policy, 'after', step=stage.steps)
    write_model_card(
        folder.adapter,
        config=run.config,
        model=run.model,
        plan=run.plan,
        step=stage.steps,
        before=before,
        after=after,
    )
    journal.artifact('adapter', 'adapter', sums.get('adapter_model.safetensors', ''))
    state: Literal['finished', 'stopped', 'failed'] = 'finished'
    if stage.failed or stopped:
        state = 'failed' if stage.failed else 'stopped'
    write_json(
        folder.path / 'summary.json',
        {
            'state': state,
            'steps': stage.steps,
            'before': before.mean if before else None,
            'after': after.mean if after else None,
            'adapter': str(folder.adapter),
        },
    )
    return Ending(state, stage.stop_reason)


def home_of(config: RunConfig, folder: RunFolder) -> Path:
    """Data folder with the Python environments of sandboxes."""
    return Path(config.home or folder.path / 'home')


def _prepare(folder: RunFolder, journal: Journal) -> Run:
    config, tasks, held_out = folder.config(), folder.tasks(), folder.held_out_tasks()
    model, plan = resolve(config, len(tasks))
    write_json(folder.path / 'plan.json', plan.model_dump(mode='json'))
    for note in plan.notes:
        journal.notice(f'{note.loc}: {note.msg}', level='warning', setting=note.loc)
    isolation = probe(config.isolation)
    # A weaker kind that was asked for by name is taken and said; one that is not there at all never.
    held = any(row.ok for row in isolation.rows)
    if not isolation.proven and (config.isolation == 'bubblewrap' or not held):
        raise SandboxUnavailable(f'The sandbox {isolation.name} does not hold on this machine', hint=isolation.fix)
    write_json(folder.path / 'isolation.json', isolation.model_dump(mode='json'))
    journal.notice(f'Sandbox: {isolation.name}', level='info' if isolation.proven else 'error')
    # Before the model is loaded: what cannot be installed ends the run at once.
    python = package_environment(
        home_of(config, folder),
        config.settings.rl.pip_packages,
        report=journal.notice,
        stop=lambda: journal.stop_requested,
    )
    if python.packages:
        write_json(folder.path / 'packages.json', python.packages)
    hardware = detect()
    journal.notice(f'Device: {hardware.name}, {hardware.precision}')
    if hardware.device == 'cpu':
        torch.set_num_threads(os.cpu_count() or 1)
    set_seed(config.settings.seed)
    return Run(folder, journal, config, model, plan, hardware, load_tokenizer(model), tasks, held_out, python)


def _measure(run: Run, policy: Any, stage: Literal['before', 'after'], *, step: int) -> Evaluation | None:
    """Held-out success of the policy as it stands, written beside the events; ``None`` where there is nothing to do."""
    k = run.config.settings.held_out_attempts
    if not run.held_out or not k:
        return None
    run.journal.state('evaluating', f'held-out success {stage} training')
    player = run.player(policy)
    try:
        result = evaluate(
            player,
            run.held_out,
            k=k,
            temperature=run.plan.temperature,
            stage=stage,
            step=step,
            on_rollout=lambda rollout: run.journal.rollout(rollout, stage),
            stop=lambda: run.journal.stop_requested,
        )
    finally:
        player.close()
    name = f'evaluation-{stage}.json'
    write_json(run.folder.path / name, result.model_dump(mode='json'))
    run.journal.artifact('evaluation', name)
    if result.mean is not None:
        run.journal.write(Metrics(step=step, values={'held_out/success': result.mean}))
    return result
