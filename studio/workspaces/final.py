"""The final workspaces that runs kept, to be looked at: their files, what they hold, and a zip to take away."""

from __future__ import annotations

import io
import stat
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Final

from studio.runs.records import RunRecords
from studio.workspaces.changes import MAX_ENTRIES, Entry, FileState, entries
from trainer.errors import RunFolderError
from trainer.kept_workspaces import KeptWorkspace, WorkspaceFolder
from trainer.validation import Document

MAX_SHOWN_CHARS: Final = 200_000


class WorkspaceView(Document):
    """A final workspace; where it is not there, ``why_not`` says why, and ``left_out`` what of it was not kept."""

    entries: tuple[Entry, ...] = ()
    size: int = 0
    left_out: tuple[str, ...] = ()
    why_not: str = ''

    @property
    def is_cut(self) -> bool:
        """Whether there is more than is listed."""
        return len(self.entries) >= MAX_ENTRIES


class FilePreview(Document):
    """A file as text, or in ``note`` what it is instead."""

    path: str
    text: str = ''
    note: str = ''


class FinalWorkspaces:
    """Final workspaces by run and rollout. Raises ``NotFound``, ``RunFolderError``."""

    def __init__(self, runs: RunRecords) -> None:
        self._runs = runs

    def view(self, run_id: str, rollout_id: int) -> WorkspaceView:
        """What a rollout left, marked where it differs from the setup files; or why that is not known."""
        try:
            _, kept = self._find(run_id, rollout_id)
        except RunFolderError as error:
            return WorkspaceView(why_not=error.message)
        if kept is None:
            return WorkspaceView(why_not=self._why_not(run_id, rollout_id))
        spec = self._runs.task(run_id, kept.task).task_spec
        start = {path: FileState.of(text.encode('utf-8', 'surrogatepass')) for path, text in spec.setup_files.items()}
        above = {f'{folder}/' for path in start for folder in PurePosixPath(path).parents if folder.name}
        start |= dict.fromkeys(above, FileState(0, 'folder'))
        now = {
            entry.shown + ('/' if entry.kind == 'folder' else ''): FileState(
                entry.size, entry.sha256 or FileState.of(b'').digest if entry.kind == 'file' else entry.kind
            )
            for entry in kept.tree.entries[:MAX_ENTRIES]
        }
        return WorkspaceView(
            entries=entries(start, now),
            size=sum(entry.size for entry in kept.tree.entries),
            left_out=kept.tree.left_out,
        )

    def read(self, run_id: str, rollout_id: int, path: str) -> FilePreview:
        """A file of a final workspace, to be shown; links are named, never followed."""
        folder, kept = self._find(run_id, rollout_id)
        entry = next((one for one in kept.tree.entries if one.shown == path), None) if kept else None
        if entry is None:
            raise RunFolderError(f'{path} is not there any more')
        if entry.kind == 'link':
            return FilePreview(path=path, note=f'A link to {entry.target.decode("utf-8", "replace")}')
        data = folder.content(entry)
        try:
            text = data.decode('utf-8')
        except UnicodeDecodeError:
            return FilePreview(path=path, note=f'Binary, {len(data):,} bytes')
        if '\0' in text:
            return FilePreview(path=path, note=f'Binary, {len(data):,} bytes')
        note = '' if text else 'Empty'
        if len(text) > MAX_SHOWN_CHARS:
            text, note = text[:MAX_SHOWN_CHARS], f'The first {MAX_SHOWN_CHARS:,} of {len(text):,} characters'
        return FilePreview(path=path, text=text, note=note)

    def zip(self, run_id: str, rollout_id: int) -> bytes:
        """A zip of a final workspace, as far as it was kept."""
        folder, kept = self._find(run_id, rollout_id)
        if kept is None:
            raise RunFolderError(self._why_not(run_id, rollout_id))
        whole = kept.model_copy(update={'tree': kept.tree.model_copy(update={'left_out': ()})})
        file = io.BytesIO()
        with tempfile.TemporaryDirectory(prefix='rlvr-zip-', ignore_cleanup_errors=True) as made:
            # Laid out and read back, so that no name in the zip leads out of it.
            folder.unpack(whole, Path(made))
            _pack(Path(made), file)
        return file.getvalue()

    def _find(self, run_id: str, rollout_id: int) -> tuple[WorkspaceFolder, KeptWorkspace | None]:
        rollout = self._runs.rollout(run_id, rollout_id)
        folder = WorkspaceFolder(self._runs.folder_path(run_id))
        return folder, folder.get(rollout.workspace)

    def _why_not(self, run_id: str, rollout_id: int) -> str:
        rollout = self._runs.rollout(run_id, rollout_id)
        limit = self._runs.folder(run_id).config().settings.keep_workspaces_mb
        if rollout.workspace:
            return (
                f'Not there any more. A run keeps {limit:,} MB of them at most (keepWorkspacesMb): the oldest and '
                f'dullest make room. Where one could not be stored, the events of the run say so.'
            )
        if not limit:
            return 'This run keeps none: its setting keepWorkspacesMb is 0.'
        if rollout.verdict.outcome == 'error':
            return 'None was kept: the sandbox failed before the checker saw a workspace.'
        return 'None was kept: this run is older than the setting keepWorkspacesMb, or it could not be stored.'


def _pack(folder: Path, file: IO[bytes]) -> None:
    taken: set[str] = set()
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob('*')):
            info = zipfile.ZipInfo(_zip_name(path.relative_to(folder), taken), (2000, 1, 1, 0, 0, 0))
            status = path.lstat()
            info.external_attr = (status.st_mode & 0xFFFF) << 16
            if stat.S_ISLNK(status.st_mode):
                archive.writestr(info, str(path.readlink()).encode('utf-8', 'surrogateescape'))
            elif stat.S_ISDIR(status.st_mode):
                info.filename += '/'
                archive.writestr(info, b'')
            else:
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, path.read_bytes())


def _zip_name(path: Path, taken: set[str]) -> str:
    """A name that every program that unpacks takes for one inside; backslashes and colons lead elsewhere on some."""
    name = str(path).encode('utf-8', 'surrogateescape').decode('utf-8', 'replace')
    name = ''.join('_' if letter in '\\:' or not letter.isprintable() else letter for letter in name)
    while name in taken:
        name += '_'
    taken.add(name)
    return name
