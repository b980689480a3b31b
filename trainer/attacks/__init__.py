"""Forge probes: known ways to a reward that was not earned, as data, and how they are put on a user's own task.

A family of attacks is a file here and one line in ``ATTACKS``. A certificate tries those that are ``core`` and fit the
task; the others differ in how they get at the checker itself, whatever the task, and the product's tests try them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from trainer.attacks import (
    changed_during_check,
    conftest_reports,
    early_exit,
    equal_objects,
    forged_records,
    found_first,
    frames,
    printed_numbers,
    pytest_settings,
    replaced_programs,
    replaced_tests,
    runner_tampering,
    shadowed_modules,
    skipped_tests,
    special_files,
    startup_files,
)
from trainer.attacks.code import missing_modules
from trainer.attacks.ground import ground_of
from trainer.attacks.model import Attack, Ground, Leftover
from trainer.task import Solution, TaskSpec

ATTACKS: Final[tuple[Attack, ...]] = (
    *conftest_reports.ATTACKS,
    *pytest_settings.ATTACKS,
    *replaced_tests.ATTACKS,
    *shadowed_modules.ATTACKS,
    *startup_files.ATTACKS,
    *early_exit.ATTACKS,
    *equal_objects.ATTACKS,
    *skipped_tests.ATTACKS,
    *frames.ATTACKS,
    *runner_tampering.ATTACKS,
    *forged_records.ATTACKS,
    *printed_numbers.ATTACKS,
    *replaced_programs.ATTACKS,
    *found_first.ATTACKS,
    *special_files.ATTACKS,
    *changed_during_check.ATTACKS,
)


@dataclass(frozen=True)
class Probe:
    """An attack made for one task: what to leave on the untouched workspace, and on the reference solution."""

    attack: Attack
    leftover: Leftover
    defused: Leftover | None = None
    honest: Leftover | None = None


def probes_for(task: TaskSpec, reference: Solution | None = None, *, thorough: bool = False) -> list[Probe]:
    """The attacks that fit a task, ready to be tried; ``thorough`` takes those too that are not ``core``.

    Raises ``CheckerError`` where the checker names files that the task does not have.
    """
    ground = ground_of(task, reference)
    fitting = [attack for attack in ATTACKS if ground.kind in attack.kinds and (attack.core or thorough)]
    probes = (_made(attack, ground, missing_modules(ground)) for attack in fitting)
    return [probe for probe in probes if probe is not None]


def _made(attack: Attack, ground: Ground, missing: Mapping[str, str]) -> Probe | None:
    leftover = attack.leave(ground)
    if leftover is None:
        return None
    defused = attack.defused(ground)
    if missing and not leftover.files.keys() & missing.keys():
        # A check that already fails at an import would never get as far as the trick.
        leftover = replace(leftover, files={**missing, **leftover.files})
        defused = defused or Leftover(missing)
    return Probe(attack, leftover, defused, attack.honest(ground))


__all__ = ['ATTACKS', 'Attack', 'Leftover', 'Probe', 'probes_for']
