"""The environment ``tfcode``: a task's sandbox, the four tools over it, and the verdict at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from trainer.attempt import final_workspace, prepare, resume
from trainer.checkers.grading import grade
from trainer.errors import RlvrError, SandboxError
from trainer.recording import Change
from trainer.rollout.calls import SETUP, SharedCalls, first_history, spelled
from trainer.rollout.changes import changes
from trainer.rollout.verdicts import SharedVerdicts
from trainer.sandbox import Isolation
from trainer.sandbox.protocol import Sandbox, State
from trainer.sandbox.python_env import PythonEnvironment, base_environment
from trainer.task import TaskSpec
from trainer.tools import ToolResult, call_tool
from trainer.verdict import Verdict

Keep = Callable[[Path, Callable[[], None]], str]
"""Takes over a final workspace and what removes it when it has been read; returns the name it is kept by."""


class TfcodeEnv:
    """One episode's workspace; reusable by ``reset``, never shared between two episodes.

    The public methods besides ``reset`` and ``get_reward`` are the model's tools, so everything else is private.
    Whatever goes wrong in setup, tools or check is kept and becomes an ``error`` verdict: it never ends a run and is
    never a 0.
    """

    broken: str = ''
    """What broke its sandbox, if anything did: nothing that the model does from then on can earn a reward."""
    workspace: str = ''
    """The name its final workspace is kept by, known once the episode is graded; empty where none is."""
    verdicts: SharedVerdicts | None = None
    """Where it asks for its verdict first; whoever plays a batch gives one to all of it."""
    calls: SharedCalls | None = None
    """Where it asks for answers first; likewise, where calls are shared."""
    can_share: bool = False
    """Whether what its calls leave can be carried over: only bubblewrap gives a sandbox all its places for itself."""

    def __init__(
        self, home: Path, isolation: Isolation, python: PythonEnvironment | None = None, *, keep: Keep | None = None
    ) -> None:
        self._keep = keep
        self._home = home
        self._isolation = isolation
        self._python = python or base_environment(home)
        self._spec: TaskSpec | None = None
        self.can_share = isolation == 'bubblewrap'
        self._lock = threading.Lock()
        self._open = False
        self._at: Sandbox | State | None = None
        """Its sandbox; after a call that another attempt ran, what that left."""
        self._history: bytes | None = None
        """What it has been told, as long as it shares calls."""
        self._verdict: Verdict | None = None
        self.changes: tuple[Change, ...] = ()
        """What the episode changed, known once it is graded."""

    def reset(self, task_spec: str | TaskSpec, **_: object) -> None:
        """Start an episode in a fresh sandbox: setup files written, setup commands run."""
        self._close()
        self.broken, self._verdict, self.changes, self.workspace = '', None, (), ''
        self._spec = task_spec if isinstance(task_spec, TaskSpec) else TaskSpec.model_validate_json(task_spec)
        self._open = True
        self._history = first_history(self._spec) if self.calls is not None else None
        try:
            self._answered(SETUP, self._set_up)
        except Exception as error:
            self.broken = _said(error)
            self._close()

    def run_command(self, command: str) -> str:
        """Run a shell command in the workspace.

        Args:
            command: The command line.

        """
        return self._call('run_command', {'command': command}).text

    def read_file(self, path: str) -> str:
        """Read a text file of the workspace.

        Args:
            path: Path relative to the workspace.

        """
        return self._call('read_file', {'path': path}).text

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, replacing it if it exists.

        Args:
            path: Path relative to the workspace.
            content: The whole new content.

        """
        return self._call('write_file', {'path': path, 'content': content}).text

    def list_dir(self, path: str) -> str:
        """List a folder of the workspace.

        Args:
            path: Path relative to the workspace.

        """
        return self._call('list_dir', {'path': path}).text

    def get_reward(self) -> float | None:
        """End the episode and return its reward; ``None`` for an error."""
        return self._grade().reward

    def _call(self, name: str, args: Mapping[str, object]) -> ToolResult:
        """Carry out one call; see ``call_tool``. ``shared`` says whether another attempt's call answered it."""
        if self._at is None:
            return ToolResult(text='error: the sandbox is not available', ok=False)
        try:
            return self._answered(spelled(name, args), lambda: call_tool(self._sandbox(), name, args))
        except Exception as error:
            self.broken = _said(error)
            self._close()
            return ToolResult(text='error: the sandbox is not available', ok=False)

    def _grade(self) -> Verdict:
        """End every process, check the final workspace, and close; the verdict is kept for further calls."""
        if self._verdict is None:
            try:
                self._verdict = self._check()
            except Exception as error:
                self._verdict = Verdict.not_scored(f'The final workspace could not be checked: {_said(error)}')
            finally:
                self._close()
        return self._verdict

    def _check(self) -> Verdict:
        if self._spec is None or self._at is None:
            return Verdict.not_scored(self.broken or 'the episode never started')
        spec = self._spec
        with ExitStack() as stack:
            final = stack.enter_context(final_workspace(self._at))
            self.changes = changes(spec.setup_files, final)

            def check() -> Verdict:
                return grade(
                    spec.checker,
                    spec.setup_files,
                    final,
                    home=self._home,
                    isolation=self._isolation,
                    environment=self._python,
                )

            verdict = check() if self.verdicts is None else self.verdicts.of(spec, final, check)
            if self._keep is not None:
                self.workspace = self._keep(final, stack.pop_all().close)
            return verdict

    def _close(self) -> None:
        with self._lock:
            self._open = False
            self._stand_at(None)
            history, self._history = self._history, None
        if self.calls is not None and history is not None:
            self.calls.leave(history)

    def _answered(self, call: bytes | None, run: Callable[[], ToolResult]) -> ToolResult:
        """Run a call; or take over what it answered and left for an attempt with the same history, and say so."""
        history = self._history
        if self.calls is None or history is None or call is None:
            return run()
        # Whatever comes, the batch's count of this history is settled by the call.
        self._history = None
        answer = self.calls.once(history, call, run, self._saved)
        with self._lock:
            if answer.state is not None:
                self._stand_at(answer.state if self._open else None)
            if self._open:
                self._history = answer.history
        return answer.result.model_copy(update={'shared': answer.state is not None})

    def _set_up(self) -> ToolResult:
        assert self._spec is not None
        self._at = prepare(self._spec, home=self._home, isolation=self._isolation, environment=self._python)
        return ToolResult(text='')

    def _saved(self) -> State | None:
        try:
            return self._sandbox().save()
        except SandboxError:
            # The call was answered; if the sandbox is gone, the next one says so.
            return None

    def _sandbox(self) -> Sandbox:
        """Its sandbox; a new one that goes on from what another attempt has left, where that is all it has."""
        with self._lock:
            if not self._open or self._at is None:
                raise SandboxError('the episode is over')
            if isinstance(self._at, State):
                self._at = resume(self._at, home=self._home, isolation=self._isolation, environment=self._python)
            return self._at

    def _stand_at(self, state: State | None) -> None:
        """Close the sandbox it has, and go on from ``state``."""
        if self._at is not None and not isinstance(self._at, State):
            self._at.close()
        self._at = state


def _said(error: Exception) -> str:
    """What an error says; one that nobody foresaw says its kind too."""
    return str(error) if isinstance(error, RlvrError | OSError) else f'{type(error).__name__}: {error}'
