"""The playground: a workspace of a task, worked in by hand with the tools a model gets, and checked as a model's is.

Every session has a sandbox of its own, so two tabs never share one. A session ends with its tab, or when nobody has
touched it for a while. Calls of one session wait for each other; ``cancel`` ends the one that runs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from studio.document_views import NotFound
from studio.store.ids import new_id
from trainer.attempt import Cancelled, set_up, workbench_spec
from trainer.checkers.grading import grade
from trainer.errors import SandboxError
from trainer.sandbox import Isolation, Sandbox, open_sandbox
from trainer.task import Step, TaskSpec, parse_task_spec
from trainer.tools import TOOL_NAMES, ToolResult, call_tool
from trainer.validation import Document
from trainer.verdict import Verdict

IDLE_S: Final = 30 * 60.0
"""A session nobody has used for so long is closed."""
MAX_SESSIONS: Final = 16
MAX_ENTRIES: Final = 2_000


class Entry(Document):
    """One file or folder of a workspace; ``mark`` says how it differs from the start: added, modified, deleted."""

    path: str
    is_folder: bool = False
    size: int = 0
    mark: Literal['', 'A', 'M', 'D'] = ''


@dataclass
class _Session:
    id: str
    spec: TaskSpec
    alive: Callable[[], bool]
    sandbox: Sandbox
    start: dict[str, tuple[int, str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    used: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    cancel: threading.Event = field(default_factory=threading.Event)
    checking: bool = False


class Playground:
    """Sessions by id. Thread-safe. Raises ``TaskError``, ``SandboxError``, ``NotFound``, ``Cancelled``."""

    def __init__(self, home: Path, isolation: Isolation) -> None:
        self._home = home
        self._isolation = isolation
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def open(self, raw: Mapping[str, Any], *, id: str = '', alive: Callable[[], bool] = lambda: True) -> str:
        """Make a workspace from a task_spec as typed, setup done; return its id.

        ``alive`` is asked now and then whether the tab is still there; when it is not, the session is closed.
        With an ``id`` of the caller's choice, ``cancel`` works while the setup runs.
        """
        spec, _ = parse_task_spec(raw, root='')
        self.sweep()
        if len(self._sessions) >= MAX_SESSIONS:
            raise SandboxError(
                f'{MAX_SESSIONS} dry runs are open already', hint='Close one: each holds a sandbox of its own.'
            )
        session = _Session(id or new_id(), spec, alive, self._sandbox())
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
        with self._using(id) as session:
            result = call_tool(session.sandbox, name, args)
            if name in TOOL_NAMES and result.ok:
                session.steps.append(Step(tool=name, args=dict(args)))
            return result

    def tree(self, id: str) -> tuple[Entry, ...]:
        """The workspace, sorted by path, with what changed since the start; deleted files are listed too."""
        with self._using(id) as session:
            return _marked(session.start, _listing(session.sandbox))

    def read(self, id: str, path: str) -> str:
        """A file as text; bytes that are not UTF-8 become replacement marks. Raises ``PathRefused``."""
        with self._using(id) as session:
            return session.sandbox.read_file(path).decode('utf-8', 'replace')

    def check(self, id: str, raw: Mapping[str, Any] | None = None) -> Verdict:
        """Grade the workspace as it is now; work can go on afterwards, programs left running are ended.

        With a spec as typed, its checker and its setup files decide; the workspace stays the one it is.
        """
        spec = parse_task_spec(raw, root='')[0] if raw is not None else None
        with self._using(id) as session, tempfile.TemporaryDirectory(prefix='rlvr-check-') as folder:
            session.spec = spec or session.spec
            final = Path(folder) / 'work'
            final.mkdir()
            session.sandbox.snapshot(final)
            # A snapshot is the end of a sandbox: go on in a new one over the same files.
            session.sandbox = self._sandbox(final)
            return self._graded(session, final)

    def steps(self, id: str) -> tuple[Step, ...]:
        """The tool calls made since the start: a solution that was worked out by hand."""
        return tuple(self._session(id).steps)

    def reset(self, id: str, raw: Mapping[str, Any] | None = None) -> None:
        """Begin again with a fresh workspace, of the same spec or of a new one."""
        spec = parse_task_spec(raw, root='')[0] if raw is not None else None
        with self._using(id, again=True) as session:
            session.spec = spec or session.spec
            session.sandbox.close()
            session.sandbox = self._sandbox()
            self._set_up(session)

    def cancel(self, id: str) -> None:
        """End the call that runs, with everything it started.

        A check leaves the workspace as it is; after any other call ``reset`` makes a fresh one.
        """
        session = self._session(id)
        session.cancel.set()
        if not session.checking:
            session.sandbox.close()

    def close(self, id: str) -> None:
        """End a session; one that is gone already is fine."""
        with self._lock:
            session = self._sessions.pop(id, None)
        if session is not None:
            session.cancel.set()
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
        return open_sandbox(replace(workbench_spec(self._home), workspace=workspace), isolation=self._isolation)

    def _set_up(self, session: _Session) -> None:
        set_up(session.sandbox, session.spec)
        session.start, session.steps = _listing(session.sandbox), []

    def _graded(self, session: _Session, final: Path) -> Verdict:
        """Grade in a thread, so that a user who cancels does not wait for a checker that takes minutes."""
        copy = Path(tempfile.mkdtemp(prefix='rlvr-check-'))
        shutil.copytree(final, copy / 'work', symlinks=True)
        graded: Future[Verdict] = Future()

        def work() -> None:
            spec = session.spec
            try:
                graded.set_result(
                    grade(spec.checker, spec.setup_files, copy / 'work', home=self._home, isolation=self._isolation)
                )
            except BaseException as error:
                graded.set_exception(error)  # raised again where the verdict is waited for
            finally:
                shutil.rmtree(copy, ignore_errors=True)

        session.checking = True
        try:
            thread = threading.Thread(target=work, name='playground check', daemon=True)
            thread.start()
            while thread.is_alive() and not session.cancel.is_set():
                thread.join(0.05)
        finally:
            session.checking = False
        if session.cancel.is_set():
            if session.id in self._sessions:
                session.cancel.clear()
            raise Cancelled('The check was cancelled')
        return graded.result()

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


def _listing(sandbox: Sandbox) -> dict[str, tuple[int, str]]:
    """Path → size and digest of every file; folders end with a slash."""
    done = sandbox.run(['/usr/bin/env', 'python3', '-I', '-S', '-c', _LIST, str(MAX_ENTRIES)], channel=b'')
    try:
        return {str(path): (int(size), str(digest)) for path, size, digest in json.loads(done.channel)}
    except (ValueError, TypeError):
        raise SandboxError(f'The workspace cannot be listed: {done.text[-300:] or "no answer"}') from None


def _marked(start: Mapping[str, tuple[int, str]], now: Mapping[str, tuple[int, str]]) -> tuple[Entry, ...]:
    def mark(path: str) -> Literal['', 'A', 'M', 'D']:
        if path not in start:
            return 'A'
        if path not in now:
            return 'D'
        return '' if start[path] == now[path] else 'M'

    return tuple(
        Entry(
            path=path.rstrip('/'),
            is_folder=path.endswith('/'),
            size=now.get(path, start.get(path, (0, '')))[0],
            mark=mark(path),
        )
        for path in sorted({*start, *now}, key=lambda path: path.split('/'))
    )


_LIST: Final = """
import hashlib, json, os, sys
rows = []
for folder, folders, files in os.walk('.'):
    folders.sort()
    for name in [name + '/' for name in folders] + sorted(files):
        path = os.path.join(folder, name)[2:]
        if name.endswith('/'):
            rows.append((path, 0, 'link' if os.path.islink(path[:-1]) else 'folder'))
            continue
        try:
            size = os.lstat(path).st_size
            if os.path.islink(path):
                digest = 'link to ' + os.readlink(path)
            elif os.path.isfile(path):
                with open(path, 'rb') as file:
                    digest = hashlib.file_digest(file, 'sha256').hexdigest()
            else:
                digest = 'special'
        except OSError:
            size, digest = 0, 'unreadable'
        rows.append((path, size, digest))
    if len(rows) >= int(sys.argv[1]):
        break
with os.fdopen(int(os.environ['RLVR_CHANNEL']), 'wb') as channel:
    channel.write(json.dumps(rows[:int(sys.argv[1])]).encode())
"""
