"""Grading kept final workspaces again, with the run's own checkers or with changed ones: which verdicts flip.

Nothing of the run changes: what was earned stays as it is recorded. A check sees exactly what ``rlvr check`` would see
in the same workspace; where a changed task begins otherwise than the run's did, it is not graded, and the reason said.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from trainer.checkers.grading import grade, protected_files
from trainer.errors import CheckerError, RlvrError
from trainer.events import RolloutEvent, read_events
from trainer.kept_workspaces import KeptWorkspace, WorkspaceFolder
from trainer.runfolder import RunFolder
from trainer.sandbox import Isolation, SandboxScope
from trainer.sandbox.leftovers import passing_folder
from trainer.sandbox.python_env import PythonEnvironment
from trainer.task import TaskSpec
from trainer.validation import Document
from trainer.verdict import Outcome, Verdict

Change = Literal[
    'pass_to_fail', 'fail_to_pass', 'error_to_scored', 'scored_to_error', 'reward_changed', 'unchanged', 'not_graded'
]
"""What grading again did to a verdict. A pass is the full reward; a fail is anything scored below it."""
CHANGES: Final[tuple[Change, ...]] = (
    'pass_to_fail',
    'fail_to_pass',
    'scored_to_error',
    'error_to_scored',
    'reward_changed',
    'not_graded',
    'unchanged',
)
"""Every change, what deserves to be seen first at the front."""
WORKERS: Final = max(1, min(8, (os.cpu_count() or 1) // 2))
"""Checks at a time: a run may be at work beside it."""
MAX_TEXT: Final = 2_000


class Score(Document):
    """A verdict without its lines and output."""

    outcome: Outcome
    reward: float | None = None
    reason: str = ''


class Regraded(Document):
    """One rollout graded again; without ``after``, ``why_not`` says why it was not. ``offset`` is its record's."""

    offset: int
    stage: str
    step: int
    task: str
    title: str = ''
    group: int
    index: int
    before: Score
    after: Score | None = None
    why_not: str = ''
    output: str = ''

    @property
    def change(self) -> Change:
        """What became of the verdict."""
        if self.after is None:
            return 'not_graded'
        then, now = self.before, self.after
        if 'error' in (then.outcome, now.outcome):
            return _of_error(then, now)
        if (then.outcome == 'passed') != (now.outcome == 'passed'):
            return 'pass_to_fail' if then.outcome == 'passed' else 'fail_to_pass'
        return 'unchanged' if then.reward == now.reward else 'reward_changed'


@dataclass(frozen=True)
class Ground:
    """Where checks run: the data folder, the isolation, and the Python of the run's sandboxes."""

    home: Path
    isolation: Isolation
    environment: PythonEnvironment


def regrade(
    run: RunFolder,
    kept: Iterable[KeptWorkspace],
    tasks: Mapping[str, TaskSpec | str],
    ground: Ground,
    *,
    on_result: Callable[[Regraded], object],
    scope: SandboxScope | None = None,
    workers: int = WORKERS,
) -> None:
    """Grade workspaces again, a few at a time, each in a fresh sandbox; results come in the order they are ready.

    ``tasks`` has the spec to grade with by task id, or why that task cannot be graded. ``on_result`` is called in this
    thread. Ending ``scope`` ends what runs; nothing more is reported then.
    """
    scope = scope or SandboxScope()
    folder = WorkspaceFolder(run.path)
    with ThreadPoolExecutor(workers, thread_name_prefix='regrade') as pool:
        futures = [pool.submit(_one, folder, one, tasks.get(one.task, NO_TASK), ground, scope) for one in kept]
        try:
            for future in as_completed(futures):
                done = future.result()
                if scope.ended:
                    break
                if done is not None:
                    on_result(done)
        finally:
            pool.shutdown(cancel_futures=True)


NO_TASK: Final = 'the run has no such task'


def obstacle(frozen: TaskSpec, other: TaskSpec) -> str:
    """Why workspaces of ``frozen`` cannot be graded with the checker of ``other``, or nothing.

    Files that its checker puts back may differ; what else the workspace began with may not.
    """
    if frozen.setup_commands != other.setup_commands:
        return 'its setup commands were changed, so its workspaces begin otherwise now'
    try:
        put_back = protected_files(other.checker, other.setup_files)
    except CheckerError as error:
        return error.message
    for path in sorted({*frozen.setup_files, *other.setup_files} - put_back):
        if frozen.setup_files.get(path) != other.setup_files.get(path):
            return f'its setup file {path} was changed and is not put back by the checker'
    return ''


def recorded(run: RunFolder) -> dict[int, RolloutEvent]:
    """The episodes of a run by the offset of their records, without those of steps that were done again."""
    found: dict[int, RolloutEvent] = {}
    offset, after = -1, 0
    while after != offset:
        offset = after
        events, after = read_events(run.events, offset)
        for event in events:
            if isinstance(event, RolloutEvent):
                found[event.offset] = event
            elif (redone := event.redone) is not None:
                found = {at: one for at, one in found.items() if not redone.covers(one.stage, one.step)}
    return found


def counted(results: Iterable[Regraded]) -> dict[Change, int]:
    """How many verdicts changed in which way; every change is there."""
    counts = Counter(one.change for one in results)
    return {change: counts[change] for change in CHANGES}


def _one(
    folder: WorkspaceFolder, kept: KeptWorkspace, spec: TaskSpec | str, ground: Ground, scope: SandboxScope
) -> Regraded | None:
    """Grade one; ``None`` where the scope has ended."""
    result = Regraded(
        before=Score(outcome=kept.outcome, reward=kept.reward, reason=kept.reason),
        **kept.model_dump(include={'offset', 'stage', 'step', 'task', 'title', 'group', 'index'}),
    )
    if scope.ended:
        return None
    if isinstance(spec, str):
        return result.model_copy(update={'why_not': spec})
    if why := kept.why_not_whole:
        return result.model_copy(update={'why_not': why})
    try:
        verdict = _graded(folder, kept, spec, ground, scope)
    except (RlvrError, OSError) as error:
        return result.model_copy(update={'why_not': str(error)})
    after = Score(outcome=verdict.outcome, reward=verdict.reward, reason=verdict.reason[:MAX_TEXT])
    return result.model_copy(update={'after': after, 'output': verdict.output[-MAX_TEXT:]})


def _graded(
    folder: WorkspaceFolder, kept: KeptWorkspace, spec: TaskSpec, ground: Ground, scope: SandboxScope
) -> Verdict:
    with passing_folder('regrade') as made, scope.entered():
        final = made / 'work'
        final.mkdir()
        folder.unpack(kept, final)
        return grade(
            spec.checker,
            spec.setup_files,
            final,
            home=ground.home,
            isolation=ground.isolation,
            environment=ground.environment,
        )


def _of_error(then: Score, now: Score) -> Change:
    if then.outcome == now.outcome:
        return 'unchanged'
    return 'error_to_scored' if then.outcome == 'error' else 'scored_to_error'
