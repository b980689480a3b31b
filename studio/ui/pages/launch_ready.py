"""What the launch page knows before Start: the plan, what it will cost, and everything that is not ready, by name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studio.runs.estimates import Measured, Room, evaluated_rollouts, room
from studio.runs.footprint import Footprint, footprint, weight_bytes
from studio.runs.views import PlanView, RunView
from studio.ui.components.wording import plural, size
from studio.ui.pages.launch_models import hub_cache, model_of, on_disk
from studio.ui.pages.launch_values import field_of, wording
from trainer.config import parse_settings
from trainer.errors import ConfigError
from trainer.models import ModelInfo
from trainer.sandbox.probe import ProbeReport

if TYPE_CHECKING:
    from studio.services import Studio

CHECKPOINT_SHARE = 3
"""A checkpoint is about so many times its adapter: weights, two moments."""


@dataclass(frozen=True)
class Standing:
    """How things stand for what is in the form now. ``download``: bytes that are fetched first; sizes in bytes."""

    view: PlanView
    model: ModelInfo
    measured: Measured | None
    reckoned: Footprint | None
    room: Room
    evaluated: int
    download: int
    free_for_model: int
    free_for_runs: int
    working: tuple[RunView, ...]
    waiting: int
    places: int


@dataclass(frozen=True)
class Need:
    """Something to say before Start; ``link`` leads to what it is about."""

    lead: str
    text: str
    link: str = ''


def standing(
    studio: Studio, model: str, settings: Mapping[str, Any], ids: Sequence[str], held_out: Sequence[str]
) -> Standing:
    """Read it all; called off the event loop."""
    view = studio.runs.draft_plan(model, settings, ids)
    info, here = model_of(model), room()
    evaluated = 0
    if view.plan is not None:
        try:
            evaluated = evaluated_rollouts(view.plan, parse_settings(settings)[0], len(held_out))
        except ConfigError:  # said by the plan already
            evaluated = 0
    fetched = not on_disk(info)[1] and info.kind in ('eligible', 'hub')
    return Standing(
        view=view,
        model=info,
        measured=studio.estimates.measured(info.id),
        reckoned=None if view.plan is None else footprint(info, view.plan, gpu=here.gpu),
        room=here,
        evaluated=evaluated,
        download=(weight_bytes(info, gpu=True) or 0) if fetched else 0,
        free_for_model=_free(hub_cache()),
        free_for_runs=_free(studio.settings.runs_folder),
        working=studio.runs.working(),
        waiting=len(studio.runs.waiting()),
        places=studio.settings.runs_at_once,
    )


def memory_range(now: Standing) -> tuple[int, int, bool] | None:
    """Least and most bytes that the run needs, and whether that was measured; ``None`` where nothing is known."""
    if now.measured is not None and now.measured.memory and not now.room.gpu:
        return now.measured.memory, now.measured.memory, True
    return None if now.reckoned is None else (*now.reckoned.range, False)


def blocking(
    now: Standing,
    *,
    train: int,
    solutions: int,
    cold_start: bool,
    refused_packages: bool,
    model_problem: str,
    sandbox: ProbeReport | None,
) -> list[Need]:
    """What must be mended before a run can start."""
    found: list[Need] = []
    if not train:
        found.append(Need('No tasks.', 'Choose at least one task to train on.'))
    wrong = [(field_of(error.loc), error.msg) for error in now.view.errors if error.loc != 'tasks']
    found += [Need(f'{key}:', f'{wording(key, message).rstrip(".")}.') for key, message in wrong]
    if refused_packages:
        found.append(Need('pipPackages:', 'Correct or remove the lines that were not added.'))
    if model_problem or not now.model.supports_rl:
        found.append(Need('Base model.', model_problem or 'It cannot call tools. Choose one that supports RL.'))
    if cold_start and train and not solutions:
        found.append(
            Need('Cold start.', 'No task has a solution to learn from. Record one in the editor, or switch it off.')
        )
    if sandbox is not None and not any(row.ok for row in sandbox.rows):
        found.append(Need('No sandbox.', sandbox.fix or 'Settings says how to get one.', '/settings'))
    if now.download and now.download > now.free_for_model:
        text = f'The model takes {size(now.download)}, {size(now.free_for_model)} are free in {hub_cache()}.'
        found.append(Need('Disk full.', text))
    if (least := least_disk(now)) > now.free_for_runs:
        text = f'The run takes at least {size(least)}, {size(now.free_for_runs)} are free. Delete old runs.'
        found.append(Need('Disk full.', text, '/runs'))
    return found


def warnings(now: Standing, *, train: int, held_out: int, sandbox: ProbeReport | None) -> list[Need]:
    """What a user should know and may accept."""
    found: list[Need] = []
    if now.working and len(now.working) + now.waiting >= now.places:
        first = now.working[0]
        ahead = f' and {plural(now.waiting, "run")} that wait' if now.waiting else ''
        ahead = ahead.replace('run that wait', 'run that waits')
        found.append(Need('It will wait.', f'Starts after "{first.name[:60]}"{ahead}.', f'/runs/{first.id}'))
    if now.download:
        found.append(Need('Download first.', f'{now.model.title} takes {size(now.download)} from the model hub.'))
    needed = memory_range(now)
    if needed is not None and needed[0] > now.room.free:
        where = 'of GPU memory' if now.room.gpu else 'of memory'
        text = f'At least {size(needed[0])} needed, {size(now.room.free)} {where} free. Lower batchSize or the lengths.'
        found.append(Need('Memory may not do.', text))
    if train and not held_out:
        found.append(Need('No held-out tasks.', 'Success before and after cannot be compared.'))
    if sandbox is not None and not sandbox.proven and any(row.ok for row in sandbox.rows):
        found.append(Need('The sandbox is not proven.', sandbox.fix, '/settings'))
    return found


def least_disk(now: Standing) -> int:
    """Bytes that a run writes at least: its adapter and one checkpoint."""
    return 0 if now.reckoned is None else now.reckoned.optimiser // 4 * (1 + CHECKPOINT_SHARE)


def _free(path: Path) -> int:
    """Free bytes where a folder is, or will be."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free
