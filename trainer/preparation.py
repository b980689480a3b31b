"""What every stage of a run needs, put together once: configuration, plan, machine, sandbox, packages, tokenizer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer.config import Plan, RunConfig, resolve
from trainer.engines import Engines
from trainer.errors import SandboxUnavailable
from trainer.hardware import Hardware, detect
from trainer.journal import Journal
from trainer.models import ModelInfo
from trainer.policy import load_tokenizer
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player
from trainer.rollout.shared import SharedPlayer
from trainer.runfolder import RunFolder, write_json
from trainer.sandbox.packages import InstallStopped
from trainer.sandbox.probe import probe
from trainer.sandbox.python_env import PythonEnvironment, package_environment
from trainer.task import TaskFile
from trainer.team import Team


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
    team: Team
    engines: Engines

    @property
    def home(self) -> Path:
        """Data folder with the Python environments of sandboxes."""
        return home_of(self.config, self.folder)

    def player(self, policy: Any) -> Player:
        """A player of episodes with the policy as it stands."""
        plan = self.plan
        limits = EpisodeLimits(plan.max_completion_length, plan.max_turns, plan.temperature, plan.answer_tokens)
        engine = self.engines.engine(policy)
        kept = self.journal.workspaces
        keep = kept.take if kept is not None else None
        return SharedPlayer(
            Chat(self.tokenizer),
            engine,
            limits,
            lambda: TfcodeEnv(self.home, self.config.isolation, self.python, keep=keep),
            team=self.team,
            workspaces=kept,
        )


def home_of(config: RunConfig, folder: RunFolder) -> Path:
    """Data folder with the Python environments of sandboxes."""
    return Path(config.home or folder.path / 'home')


def prepare(folder: RunFolder, journal: Journal) -> Run:
    """Read the run folder and look at the machine. Raises ``RlvrError`` where a run cannot work here."""
    config, tasks, held_out = folder.config(), folder.tasks(), folder.held_out_tasks()
    hardware = detect()
    team = Team.join(hardware)
    model, plan = resolve(config, len(tasks), processes=team.size)
    if team.writes:
        write_json(folder.path / 'plan.json', plan.model_dump(mode='json'))
    for note in plan.notes:
        journal.notice(f'{note.loc}: {note.msg}', level='warning', setting=note.loc)
    isolation = probe(config.isolation)
    # A weaker kind that was asked for by name is taken and said; one that is not there at all never.
    held = any(row.ok for row in isolation.rows)
    if not isolation.proven and (config.isolation == 'bubblewrap' or not held):
        raise SandboxUnavailable(f'The sandbox {isolation.name} does not hold on this machine', hint=isolation.fix)
    if team.writes:
        write_json(folder.path / 'isolation.json', isolation.model_dump(mode='json'))
    journal.notice(f'Sandbox: {isolation.name}', level='info' if isolation.proven else 'error')
    # Before the model is loaded: what cannot be installed ends the run at once.
    python = _packages(folder, config, journal, team)
    if python.packages and team.writes:
        write_json(folder.path / 'packages.json', python.packages)
    shared = f', {team.size} processes' if team.size > 1 else ''
    journal.notice(f'Device: {hardware.name}, {hardware.precision}{shared}')
    journal.keep_workspaces(config.settings.keep_workspaces_mb)
    if hardware.device == 'cpu':
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // team.size))
    tokenizer = load_tokenizer(model, report=journal.notice)
    engines = Engines(
        plan.engine, tokenizer, folder=folder.path, lora_rank=plan.lora_rank, rank=team.rank, report=journal.notice
    )
    return Run(folder, journal, config, model, plan, hardware, tokenizer, tasks, held_out, python, team, engines)


def _packages(folder: RunFolder, config: RunConfig, journal: Journal, team: Team) -> PythonEnvironment:
    """The Python of sandboxes with the packages of the run. Raises ``PackagesFailed``, ``InstallStopped``."""
    python: PythonEnvironment | None = None
    with suppress(InstallStopped):
        python = package_environment(
            home_of(config, folder),
            config.settings.rl.pip_packages,
            report=journal.notice,
            stop=lambda: journal.stop_requested,
        )
    # One process may have been asked to stop while another had what it needs.
    if team.any(python is None) or python is None:
        raise InstallStopped('stopped while packages were being installed')
    return python
