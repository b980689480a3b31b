"""Attempts without a model: a fresh workspace as a task describes it, a solution replayed in it, and its verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from trainer.checkers.grading import grade
from trainer.errors import RlvrError, SandboxError, SetupFailed
from trainer.sandbox import Isolation, Sandbox, SandboxSpec, open_sandbox
from trainer.sandbox.leftovers import passing_folder
from trainer.sandbox.protocol import Limits, PathRefused, State
from trainer.sandbox.python_env import PythonEnvironment, base_environment
from trainer.sandbox.snapshot import write_workspace
from trainer.task import Solution, Step, TaskSpec
from trainer.tools import TOOL_TIMEOUT_S, call_tool
from trainer.verdict import Verdict

SETUP_TIMEOUT_S = 60.0
"""Seconds one setup command may take. Tools and checkers have limits of their own."""

MIN_FREE_BYTES = 1024**2


class StepRecord(BaseModel):
    """One tool call as it was replayed; ``result`` is exactly what a model would have been shown."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    tool: str
    args: dict[str, Any]
    result: str
    exit_code: int | None = None
    duration_ms: int = Field(default=0, ge=0)


class Attempt(BaseModel):
    """A replayed solution: what each step answered, and what the checker said of the final workspace."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    verdict: Verdict
    steps: tuple[StepRecord, ...] = ()


class Cancelled(RlvrError):
    """The attempt was ended by the user."""


def attempt(
    task: TaskSpec,
    solution: Solution | Iterable[Step] = (),
    *,
    home: Path,
    isolation: Isolation | None = None,
    environment: PythonEnvironment | None = None,
    on_step: Callable[[StepRecord], object] | None = None,
    cancel: threading.Event | None = None,
) -> Attempt:
    """Replay a solution in a fresh sandbox and grade the final workspace; without steps, the untouched workspace.

    A setup that fails, or a sandbox that breaks, is a verdict with outcome ``error``. Raises ``Cancelled`` when
    ``cancel`` is set between two steps.
    """
    files, steps = _parts(solution)
    records: list[StepRecord] = []
    try:
        python = environment or base_environment(home)
        with prepare(task, home=home, isolation=isolation, environment=python) as sandbox:
            _write(sandbox, files)
            for step in steps:
                _stop_if(cancel)
                records.append(_replay(sandbox, step))
                if on_step is not None:
                    on_step(records[-1])
            _stop_if(cancel)
            with final_workspace(sandbox) as final:
                verdict = grade(
                    task.checker, task.setup_files, final, home=home, isolation=isolation, environment=python
                )
    except Cancelled:
        raise
    except (SandboxError, PathRefused) as error:
        verdict = Verdict.not_scored(f'{error.message}. {error.hint}' if error.hint else error.message)
    except OSError as error:
        verdict = Verdict.not_scored(f'The attempt could not be made: {error.strerror or error}')
    return Attempt(verdict=verdict, steps=tuple(records))


def prepare(
    task: TaskSpec,
    *,
    home: Path,
    isolation: Isolation | None = None,
    environment: PythonEnvironment | None = None,
    limits: Limits | None = None,
) -> Sandbox:
    """Open a sandbox as an episode finds it: setup files written, setup commands run. The caller closes it.

    Raises ``SetupFailed`` when a setup command fails or takes longer than its limit, and ``SandboxError``.
    """
    sandbox = open_sandbox(workbench_spec(home, environment=environment, limits=limits), isolation=isolation)
    try:
        set_up(sandbox, task)
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def resume(
    state: State,
    *,
    home: Path,
    isolation: Isolation | None = None,
    environment: PythonEnvironment | None = None,
) -> Sandbox:
    """Open a sandbox like ``prepare``'s that goes on from what another one has saved. Raises ``SandboxError``."""
    return open_sandbox(replace(workbench_spec(home, environment=environment), state=state), isolation=isolation)


@contextmanager
def final_workspace(left: Sandbox | State) -> Iterator[Path]:
    """Lend a host copy of the workspace that an episode left.

    Every process of a sandbox is ended, and it cannot be used afterwards. Raises ``SandboxError`` and ``OSError``
    where it cannot be read.
    """
    with passing_folder('final') as folder:
        final = folder / 'work'
        final.mkdir()
        if isinstance(left, State):
            write_workspace(left, final)
        else:
            left.snapshot(final)
        yield final


def workbench_spec(
    home: Path, *, environment: PythonEnvironment | None = None, limits: Limits | None = None
) -> SandboxSpec:
    """The kind of sandbox that episodes, replays and the playground work in. Raises ``SandboxError``."""
    python = environment or base_environment(home)
    return SandboxSpec(limits=limits or Limits(), mounts=python.mounts, path_prefix=python.path_prefix)


def set_up(sandbox: Sandbox, task: TaskSpec) -> None:
    """Write the setup files into an empty workspace and run the setup commands, each with its own time limit.

    Files that begin with ``#!`` are executable. Raises ``SetupFailed`` and ``SandboxError``.
    """
    try:
        _write(sandbox, task.setup_files)
    except PathRefused as error:
        raise SetupFailed(f'a setup file could not be written: {error.message}') from error
    for number, command in enumerate(task.setup_commands, start=1):
        result = sandbox.run(command, timeout_s=SETUP_TIMEOUT_S)
        if result.exit_code == 0:
            continue
        how = f'exit code {result.exit_code}'
        if result.timed_out:
            how = f'timed out after {SETUP_TIMEOUT_S:g} s'
        elif result.out_of_memory:
            how = 'ran out of memory'
        elif result.exit_code is None:
            how = 'a limit of the sandbox ended it'
        said = result.text.strip().splitlines()
        raise SetupFailed(
            f'setup command {number} failed ({how}): {command[:200]}' + (f': {said[-1][:300]}' if said else ''),
            hint='Run it in the playground and correct it.',
        )
    if task.setup_commands and _free_bytes(sandbox) < MIN_FREE_BYTES:
        raise SetupFailed('the setup commands filled the workspace', hint='Leave room for what the model has to write.')


def _free_bytes(sandbox: Sandbox) -> int:
    result = sandbox.run(['stat', '--file-system', '--format=%a %S', '.'], timeout_s=SETUP_TIMEOUT_S)
    blocks, _, size = result.text.strip().partition(' ')
    return int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else MIN_FREE_BYTES


def _write(sandbox: Sandbox, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        sandbox.write_file(path, text.encode('utf-8', 'surrogatepass'))
    programs = [path for path, text in files.items() if text.startswith('#!')]
    if programs:
        sandbox.run(['chmod', '+x', '--', *programs], timeout_s=SETUP_TIMEOUT_S)


def _parts(solution: Solution | Iterable[Step]) -> tuple[Mapping[str, str], tuple[Step, ...]]:
    if isinstance(solution, Solution):
        return solution.files, solution.steps
    return {}, tuple(solution)


def _replay(sandbox: Sandbox, step: Step) -> StepRecord:
    result = call_tool(sandbox, step.tool, step.args, timeout_s=TOOL_TIMEOUT_S)
    return StepRecord(
        tool=step.tool,
        args=dict(step.args),
        result=result.text,
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
    )


def _stop_if(cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Cancelled('The attempt was cancelled')
