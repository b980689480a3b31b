"""Keeps the final workspaces of a run's episodes in its folder, so that a changed checker can grade them again.

All of it happens in one thread of its own, beside the run: an episode hands its workspace over and goes on. Each
content is stored once. Once the folder holds more than it may, the oldest and dullest workspaces are dropped: first
those that failed as their whole group did, then what failed otherwise, last passes and errors. Nothing here ends a run.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainer.errors import RunFolderError
from trainer.events import Redone
from trainer.kept_workspaces import KeptWorkspace, Tree, WorkspaceFolder
from trainer.recording import Rollout
from trainer.workspace_capture import Capture, Captured, Packed

BLOCK: Final = 4096
"""What a file takes on disk at least, and by how much it grows."""
MAX_WAITING: Final = 512
"""Workspaces that wait to be read: each is a folder on disk until then."""
ROOM: Final = 0.95
"""Of the limit, that is left filled when something had to be dropped."""
NICE: Final = 10
"""How much of its turn the thread leaves to the run."""


class WorkspaceKeeper:
    """Reads, stores and drops workspaces. Thread-safe; ``close`` waits until all that was recorded is stored.

    Without ``run`` it only reads, as in a process of a run that leaves the writing to another one.
    """

    def __init__(self, run: Path | None, *, limit_bytes: int, notice: Callable[[str], object]) -> None:
        self._notice = notice
        self._capture = Capture()
        self._waiting: dict[str, Future[Captured]] = {}
        self._unread = 0
        self._has_failed = False
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='workspaces', initializer=_step_back)
        self._store = WorkspaceStore(WorkspaceFolder(run), limit_bytes) if run is not None else None
        if self._store is not None:
            self._do(self._store.open)

    def take(self, final: Path, release: Callable[[], None]) -> str:
        """Take over the final workspace of an episode; ``release`` removes it once it was read. Returns its name."""
        with self._lock:
            is_full = self._unread >= MAX_WAITING
            self._unread += not is_full
        if is_full:
            release()
            self._failed('they come faster than they can be stored')
            return ''
        name = secrets.token_hex(8)
        self._waiting[name] = self._thread.submit(self._read, final, release)
        return name

    def captured(self, name: str) -> Captured | None:
        """What was read under a name, for another process to ``add``; it is forgotten here."""
        future = self._waiting.pop(name, None)
        return future.result() if future is not None and future.exception() is None else None

    def add(self, name: str, captured: Captured) -> None:
        """Take over what another process has read."""
        future: Future[Captured] = Future()
        future.set_result(captured)
        self._waiting[name] = future

    def keep(self, rollout: Rollout, offset: int) -> None:
        """Store the workspace of an episode whose record begins at ``offset``."""
        future = self._waiting.pop(rollout.workspace, None)
        if future is not None and self._store is not None:
            self._do(self._keep, future, rollout, offset)

    def drop(self, name: str) -> None:
        """Forget a workspace whose episode could not be recorded."""
        self._waiting.pop(name, None)

    def forget(self, redone: Redone) -> None:
        """Drop what episodes left that are played again."""
        if self._store is not None:
            self._do(self._store.forget, redone)

    def close(self) -> None:
        """Store what was recorded, and end."""
        self._waiting.clear()
        self._thread.shutdown(wait=True)

    def _do(self, call: Callable[..., None], *args: object) -> None:
        self._thread.submit(self._tried, call, *args)

    def _tried(self, call: Callable[..., None], *args: object) -> None:
        try:
            call(*args)
        except Exception as error:  # whatever it is, the run goes on without it
            self._failed(_said(error))

    def _read(self, final: Path, release: Callable[[], None]) -> Captured:
        try:
            return self._capture.read(final)
        except Exception as error:
            self._failed(_said(error))
            raise
        finally:
            with self._lock:
                self._unread -= 1
            with suppress(OSError):  # a temporary folder: what is left of it goes with the others
                release()

    def _keep(self, future: Future[Captured], rollout: Rollout, offset: int) -> None:
        if self._store is not None and future.exception() is None:  # else it was said when it was read
            captured = future.result()
            self._store.keep(_kept(rollout, offset, captured.tree), captured.contents)

    def _failed(self, why: str) -> None:
        with self._lock:
            is_first, self._has_failed = not self._has_failed, True
        if is_first:
            self._notice(f'Not every final workspace can be kept: {why}. Training goes on')


@dataclass(frozen=True)
class _Row:
    """What has to be known of a stored workspace without reading it again."""

    name: str
    number: int
    place: tuple[str, int, int, int]
    outcome: str
    reward: float | None
    size: int
    files: frozenset[str]

    @property
    def group(self) -> tuple[str, int, int]:
        return self.place[:3]


class WorkspaceStore:
    """The folder on disk, within its limit; for one thread of one process. Raises ``OSError``."""

    def __init__(self, folder: WorkspaceFolder, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._rows: dict[str, _Row] = {}
        self._at: dict[tuple[str, int, int, int], str] = {}
        self._uses: Counter[str] = Counter()
        self._sizes: dict[str, int] = {}
        self._number = 0
        self._is_open = False
        self.bytes = 0
        """What all of it takes on disk."""

    def open(self) -> None:
        """Make the folder, or find out what is in it; what belongs to nothing is removed."""
        for path in (self._folder.path, self._folder.episodes, self._folder.files):
            if path.is_symlink():
                raise OSError(f'{path} is a link')
            path.mkdir(exist_ok=True)
        for path in self._folder.episodes.iterdir():
            kept = self._known(path)
            if kept is None:
                path.unlink()
            else:
                self._add(kept, _on_disk(path.stat().st_size))
        for path in self._folder.files.glob('*/*'):
            if path.parent.name + path.name not in self._uses:
                path.unlink()
        self._is_open = True

    def keep(self, kept: KeptWorkspace, contents: dict[str, Packed]) -> None:
        """Store a workspace in place of an earlier one of the same attempt, and make room if it is needed.

        Nothing of it is left where it cannot be stored whole. One that alone is over the limit is not stored.
        """
        if not self._is_open:  # that was said when it failed
            return
        self._number += 1
        kept = kept.model_copy(update={'number': self._number})
        data = kept.model_dump_json().encode()
        size = _on_disk(len(data))
        if size + sum(_on_disk(len(one.data)) for one in contents.values()) > self._limit:
            return
        earlier = self._at.get(kept.place)
        if earlier is not None:
            self._drop(self._rows[earlier])
        new = [sha256 for sha256 in contents if sha256 not in self._uses]
        try:
            for sha256 in new:
                self._folder.file(sha256).parent.mkdir(exist_ok=True)
                _write(self._folder.file(sha256), contents[sha256].data)
            _write(self._folder.manifest(kept.name), data)
        except OSError:
            for sha256 in new:
                self._folder.file(sha256).unlink(missing_ok=True)
            raise
        for sha256 in new:
            self._sizes[sha256] = _on_disk(len(contents[sha256].data))
        self._add(kept, size)
        if self.bytes > self._limit:
            self._make_room(self._limit * ROOM)

    def forget(self, redone: Redone) -> None:
        """Drop the attempts that are made again."""
        for row in list(self._rows.values()):
            stage, step, *_ = row.place
            if redone.covers(stage, step):
                self._drop(row)

    def _make_room(self, wanted: float) -> None:
        for row in self._dullest_first():
            if self.bytes <= wanted:
                break
            self._drop(row)

    def _dullest_first(self) -> list[_Row]:
        rewards: defaultdict[tuple[str, int, int], set[float]] = defaultdict(set)
        for row in self._rows.values():
            if row.reward is not None:
                rewards[row.group].add(row.reward)
        newest = max(self._rows.values(), key=lambda row: row.number)

        def worth(row: _Row) -> tuple[int, int]:
            if row.outcome in ('passed', 'error'):
                return 2, row.number
            # Of the newest step not every attempt may be here yet, so its groups are not known.
            is_dull = len(rewards[row.group]) == 1 and row.place[:2] != newest.place[:2]
            return (0 if is_dull else 1), row.number

        return sorted(self._rows.values(), key=worth)

    def _known(self, path: Path) -> KeptWorkspace | None:
        """A stored workspace with all its contents; ``None`` where it is not whole."""
        try:
            kept = self._folder.get(path.stem) if path.suffix == '.json' else None
            files = {entry.sha256 for entry in kept.tree.entries if entry.sha256} if kept else set()
            for sha256 in files - self._sizes.keys():
                self._sizes[sha256] = _on_disk(self._folder.file(sha256).stat().st_size)
        except (RunFolderError, FileNotFoundError):
            return None
        return kept

    def _add(self, kept: KeptWorkspace, size: int) -> None:
        files = frozenset(entry.sha256 for entry in kept.tree.entries if entry.sha256)
        row = _Row(kept.name, kept.number, kept.place, kept.outcome, kept.reward, size, files)
        self._rows[row.name] = row
        self._at[row.place] = row.name
        self._number = max(self._number, row.number)
        self.bytes += size + sum(self._sizes[sha256] for sha256 in files if sha256 not in self._uses)
        self._uses.update(files)

    def _drop(self, row: _Row) -> None:
        # The list first: what is left without one is found and removed when the folder is opened again.
        self._folder.manifest(row.name).unlink(missing_ok=True)
        del self._rows[row.name]
        if self._at.get(row.place) == row.name:
            del self._at[row.place]
        self.bytes -= row.size
        for sha256 in row.files:
            self._uses[sha256] -= 1
            if not self._uses[sha256]:
                del self._uses[sha256]
                self.bytes -= self._sizes.pop(sha256)
                self._folder.file(sha256).unlink(missing_ok=True)


def _kept(rollout: Rollout, offset: int, tree: Tree) -> KeptWorkspace:
    verdict = rollout.verdict
    return KeptWorkspace(
        name=rollout.workspace,
        offset=offset,
        stage=rollout.stage,
        step=rollout.step,
        task=rollout.task,
        title=rollout.title,
        group=rollout.group,
        index=rollout.index,
        outcome=verdict.outcome,
        reward=verdict.reward,
        reason=verdict.reason[:500],
        tree=tree,
    )


def _write(path: Path, data: bytes) -> None:
    """Write whole or not at all."""
    partial = path.with_suffix('.partial')
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def _on_disk(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _step_back() -> None:
    with suppress(OSError):  # it works without
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _said(error: Exception) -> str:
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__
