"""The playground: a workspace of a task, worked in by hand with the tools a model gets, and checked as a model's is.

Every session has a sandbox of its own, so two tabs never share one. A session ends with its tab, or when nobody has
touched it for a while. Calls of one session wait for each other; ``cancel`` ends the one that runs.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from studio.errors import NotFound
from studio.store.ids import new_id
from studio.workspaces.changes import (
    MAX_TEXT_BYTES,
    Entry,
    FileChange,
    FileState,
    WorkspaceState,
    changes,
    entries,
    file_change,
    unified,
    workspace_state,
)
from trainer.attempt import Cancelled, final_workspace, set_up, workbench_spec
from trainer.checkers.grading import grade
from trainer.errors import SandboxError, TaskError
from trainer.sandbox import Isolation, PathRefused, Sandbox, SandboxScope, open_sandbox
from trainer.sandbox.python_env import package_environment
from trainer.task import Step, TaskSpec, parse_task_spec
from trainer.tools import TOOL_NAMES, ToolResult, call_tool
from trainer.validation import Document
from trainer.verdict import Verdict

IDLE_S: Final = 30 * 60.0
"""A session nobody has used for so long is closed."""
MAX_SESSIONS: Final = 16
MAX_DRY_RUNS: Final = 30
"""Dry runs kept of one document; the oldest goes first."""
MAX_DOCUMENTS: Final = 20
MAX_KEPT_DIFF: Final = 100_000
"""Characters of diffs kept with one dry run."""
_START: Final = ('env', 'setup_files', 'setup_commands')
_UNWRITTEN: Final = {'prompt': 'Not written yet', 'checker': {'type': 'exit_code', 'config': {'command': 'false'}}}


class Answer(Document):
    """What a tool call answered, and how it changed the file it wrote."""

    result: ToolResult
    change: FileChange | None = None


class DryRun(Document):
    """One check of a workspace, and what was done to get there since the check before it in the same tab.

    ``changes`` are those of the workspace (against the start, where it is the first), ``task_diff`` those of the
    checker and the setup.
    """

    number: int
    at: datetime
    verdict: Verdict
    steps: int
    changes: tuple[FileChange, ...] = ()
    task_diff: str = ''
    is_first: bool = False


@dataclass
class _Trail:
    """What a tab checked last, to say what the next check changes."""

    state: WorkspaceState
    task: str


@dataclass
class _Session:
    id: str
    spec: TaskSpec
    alive: Callable[[], bool]
    sandbox: Sandbox
    document: str = ''
    tab: str = ''
    start: WorkspaceState = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    unfit: TaskError | None = None
    used: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    cancel: threading.Event = field(default_factory=threading.Event)
    check: SandboxScope | None = None


class Playground:
    """Sessions by id. Thread-safe. Raises ``TaskError``, ``SandboxError``, ``NotFound``, ``Cancelled``."""

    def __init__(self, home: Path, isolation: Isolation, packages: Sequence[str] = ()) -> None:
        self._home = home
        self._packages = packages
        self._isolation = isolation
        self._sessions: dict[str, _Session] = {}
        self._dry_runs: OrderedDict[str, deque[DryRun]] = OrderedDict()
        self._trails: OrderedDict[str, _Trail] = OrderedDict()
        self._lock = threading.Lock()

    def open(
        self,
        raw: Mapping[str, Any],
        *,
        id: str = '',
        alive: Callable[[], bool] = lambda: True,
        document: str = '',
        tab: str = '',
    ) -> str:
        """Make a workspace from a task_spec as typed, setup done; return its id.

        Prompt and checker may still be wanting: the tools work, a check says what is wrong with them.
        ``alive`` is asked now and then whether the tab is still there; when it is not, the session is closed.
        With an ``id`` of the caller's choice, ``cancel`` works while the setup runs. Checks are remembered for a
        ``document``; what changed between two of them is said of those of one ``tab``.
        """
        spec, unfit = _startable(raw)
        self.sweep()
        if len(self._sessions) >= MAX_SESSIONS:
            raise SandboxError(
                f'{MAX_SESSIONS} dry runs are open already', hint='Close one: each holds a sandbox of its own.'
            )
        session = _Session(id or new_id(), spec, alive, self._sandbox(), document, tab or id, unfit=unfit)
        with self._lock:
            self._sessions[session.id] = session
        try:
            with self._using(session.id):
                self._set_up(session)
        except BaseException:
            self.close(session.id)
            raise
        return session.id

    def run_tool(self, id: str, name: str, args: Mapping[str, Any]) -> ToolResult:
        """Call one of the four tools; the answer is exactly what a model would be shown."""
        return self.call(id, name, args).result

    def call(self, id: str, name: str, args: Mapping[str, Any]) -> Answer:
        """Call one of the four tools, and say what a ``write_file`` did to the file that was there."""
        with self._using(id) as session:
            before = _file(session.sandbox, args) if name == 'write_file' else None
            result = call_tool(session.sandbox, name, args)
            if not result.ok:
                return Answer(result=result)
            if name in TOOL_NAMES:
                session.steps.append(Step(tool=name, args=dict(args)))
            after = _file(session.sandbox, args) if name == 'write_file' else None
            change = file_change(str(args['path']), before, after) if after is not None else None
            return Answer(result=result, change=change)

    def tree(self, id: str) -> tuple[Entry, ...]:
        """The workspace, sorted by path, with what changed since the start; deleted files are listed too."""
        with self._using(id) as session:
            return entries(session.start, workspace_state(session.sandbox))

    def changes(self, id: str) -> tuple[FileChange, ...]:
        """Every file that differs from the start, with diffs of those that are text."""
        with self._using(id) as session:
            return changes(session.start, workspace_state(session.sandbox, texts=True))

    def read(self, id: str, path: str) -> str:
        """A file as text; bytes that are not UTF-8 become replacement marks. Raises ``PathRefused``."""
        with self._using(id) as session:
            return session.sandbox.read_file(path).decode('utf-8', 'replace')

    def check(self, id: str, raw: Mapping[str, Any] | None = None) -> Verdict:
        """Grade the workspace as it is now; work can go on afterwards, programs left running are ended.

        With a spec as typed, its checker and its setup files decide; the workspace stays the one it is.
        """
        spec = parse_task_spec(raw, root='')[0] if raw is not None else None
        with self._using(id) as session:
            if spec is None and session.unfit is not None:
                raise session.unfit
            session.spec, session.unfit = spec or session.spec, None
            session.check = scope = SandboxScope()
            try:
                with final_workspace(session.sandbox) as final:
                    # That was the end of the sandbox: go on in a new one over the same files.
                    session.sandbox = self._sandbox(final)
                    state = workspace_state(session.sandbox, texts=True)
                    verdict = self._graded(session, scope, final)
            finally:
                session.check = None
            self._remember(session, verdict, state)
            return verdict

    def dry_runs(self, document: str) -> tuple[DryRun, ...]:
        """The checks made of a document since the studio was started, newest first."""
        with self._lock:
            return tuple(reversed(self._dry_runs.get(document, ())))

    def steps(self, id: str) -> tuple[Step, ...]:
        """The tool calls made since the start: a solution that was worked out by hand."""
        return tuple(self._session(id).steps)

    def reset(self, id: str, raw: Mapping[str, Any] | None = None) -> None:
        """Begin again with a fresh workspace, of the same spec or of a new one."""
        fresh = _startable(raw) if raw is not None else None
        with self._using(id, again=True) as session:
            session.spec, session.unfit = fresh or (session.spec, session.unfit)
            session.sandbox.close()
            session.sandbox = self._sandbox()
            self._set_up(session)

    def cancel(self, id: str) -> None:
        """End the call that runs, with everything it started.

        A check leaves the workspace as it is; after any other call ``reset`` makes a fresh one.
        """
        session = self._session(id)
        check = session.check
        if check is not None:
            check.end()
        elif session.lock.locked():
            session.cancel.set()
            session.sandbox.close()

    def close(self, id: str) -> None:
        """End a session; one that is gone already is fine."""
        with self._lock:
            session = self._sessions.pop(id, None)
        if session is not None:
            session.cancel.set()
            check = session.check
            if check is not None:
                check.end()
            session.sandbox.close()

    def sweep(self) -> None:
        """Close sessions whose tab is gone or that nobody has used for long."""
        now = time.monotonic()
        for session in list(self._sessions.values()):
            if not session.alive() or (now - session.used > IDLE_S and not session.lock.locked()):
                self.close(session.id)

    def close_all(self) -> None:
        """End every session."""
        for id in list(self._sessions):
            self.close(id)

    def _sandbox(self, workspace: Path | None = None) -> Sandbox:
        spec = workbench_spec(self._home, environment=package_environment(self._home, self._packages))
        return open_sandbox(replace(spec, workspace=workspace), isolation=self._isolation)

    def _set_up(self, session: _Session) -> None:
        set_up(session.sandbox, session.spec)
        session.start, session.steps = workspace_state(session.sandbox, texts=True), []

    def _graded(self, session: _Session, scope: SandboxScope, final: Path) -> Verdict:
        """Grade so that ``cancel`` ends what runs. Raises ``Cancelled``; the workspace is then as it was."""
        spec = session.spec
        with scope.entered():
            verdict = grade(
                spec.checker,
                spec.setup_files,
                final,
                home=self._home,
                isolation=self._isolation,
                environment=package_environment(self._home, self._packages),
            )
        if not scope.ended:
            return verdict
        raise Cancelled('The check was cancelled', hint='The workspace is as it was.')

    def _remember(self, session: _Session, verdict: Verdict, state: WorkspaceState) -> None:
        if not session.document:
            return
        task = _task_text(session.spec)
        with self._lock:
            before = self._trails.pop(session.tab, None)
            kept = self._dry_runs.setdefault(session.document, deque(maxlen=MAX_DRY_RUNS))
            self._dry_runs.move_to_end(session.document)
            while len(self._dry_runs) > MAX_DOCUMENTS:
                self._dry_runs.popitem(last=False)
            task_diff = '\n'.join(unified('task', before.task, task)) if before else ''
            kept.append(
                DryRun(
                    number=kept[-1].number + 1 if kept else 1,
                    at=datetime.now(UTC),
                    verdict=verdict,
                    steps=len(session.steps),
                    changes=changes(before.state if before else session.start, state, max_chars=MAX_KEPT_DIFF),
                    task_diff=task_diff[:MAX_KEPT_DIFF],
                    is_first=before is None,
                )
            )
            self._trails[session.tab] = _Trail(state, task)
            if len(self._trails) > MAX_SESSIONS:
                self._trails.popitem(last=False)

    def _session(self, id: str) -> _Session:
        session = self._sessions.get(id)
        if session is None:
            raise NotFound('This dry run has ended', hint='Start a new one.')
        return session

    @contextmanager
    def _using(self, id: str, *, again: bool = False) -> Iterator[_Session]:
        session = self._session(id)
        with session.lock:
            session.used = time.monotonic()
            if again:
                session.cancel.clear()
            try:
                if session.cancel.is_set():
                    raise SandboxError('The workspace is closed')
                yield session
            except SandboxError as error:
                if session.cancel.is_set():
                    raise Cancelled('The call was cancelled', hint='Reset to go on with a fresh workspace.') from error
                raise
            finally:
                session.used = time.monotonic()
                if session.cancel.is_set():
                    session.sandbox.close()  # It may be a new one, made while the session was being closed.


def _startable(raw: Mapping[str, Any]) -> tuple[TaskSpec, TaskError | None]:
    """The spec as typed, or one with the same start, and what keeps it from being checked. Raises ``TaskError``."""
    try:
        return parse_task_spec(raw, root='')[0], None
    except TaskError as error:
        start = {name: raw[name] for name in _START if name in raw}
        return parse_task_spec({**_UNWRITTEN, **start}, root='')[0], error


def _file(sandbox: Sandbox, args: Mapping[str, Any]) -> FileState | None:
    try:
        return FileState.of(sandbox.read_file(str(args.get('path', '')), limit=MAX_TEXT_BYTES + 1))
    except PathRefused:
        return None  # It is not there, or no file: the tool itself says so.


def _task_text(spec: TaskSpec) -> str:
    """What of a task decides a verdict, as text to compare: the setup and the checker."""
    lines = []
    for name, text in spec.setup_files.items():
        lines += [f'setup file {name}', *(f'    {line}' for line in text.split('\n'))]
    lines += [f'setup command: {command}' for command in spec.setup_commands]
    config = spec.to_json()['checker']['config']
    lines.append(f'checker: {spec.checker.type}')
    for name, value in config.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f'{name}:', *(f'    {line}' for line in text.split('\n'))]
    return '\n'.join(lines) + '\n'
