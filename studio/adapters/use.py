"""What can be done with an adapter: merge it into its base, push it to a hub. Each is a job in a process of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from studio.adapters.snippets import serving_name
from studio.side_jobs.service import SideJobs, SideJobView
from trainer.checkpoints import sha256
from trainer.errors import ConfigError, FieldError, RunFolderError
from trainer.merged_model import Dtype, MergedModel, adapter_rank, bytes_needed, check_adapter, read_merged
from trainer.models import find_model
from trainer.validation import Document

MERGE: Final = 'merge'
PUSH: Final = 'push'
SECRETS: Final = ('HF_TOKEN', 'HUGGINGFACE_HUB_TOKEN', 'HF_TOKEN_PATH')
"""A push uses the token that was typed, and no other."""
_PART: Final = r'[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?'
_REPO: Final = re.compile(rf'(?:{_PART}/)?{_PART}')


class AdapterSource(Document):
    """An adapter on disk: what it is called, the id of its base model, its folder, and what measures it.

    ``tasks``: the manifest of the run that trained it, whose prompts a merge is measured with.
    """

    name: str
    model: str
    folder: Path
    run_id: str = ''
    tasks: Path | None = None

    @property
    def rank(self) -> int | None:
        """Its LoRA rank."""
        return adapter_rank(self.folder)


class MergePlan(Document):
    """What a merge would need, in bytes; ``problem`` says why it cannot be done there."""

    out: Path
    needed: int | None
    free: int | None
    problem: str = ''


class Merged(Document):
    """A merged model that is here."""

    folder: Path
    size: int
    model: MergedModel


def read_source(folder: Path, *, name: str = '', run_id: str = '', model: str = '') -> AdapterSource:
    """The adapter in a folder; what is not given is told by its lineage. Raises ``ConfigError``."""
    check_adapter(folder)
    try:
        lineage = json.loads((folder / 'lineage.json').read_text(encoding='utf-8'))
    except (OSError, ValueError):
        lineage = {}
    lineage = lineage if isinstance(lineage, dict) else {}
    run = lineage.get('run') if isinstance(lineage.get('run'), dict) else {}
    base = lineage.get('model') if isinstance(lineage.get('model'), dict) else {}
    tasks = folder.parent / 'manifest.jsonl'
    return AdapterSource(
        name=name or str((run or {}).get('name') or folder.name),
        model=model or str((base or {}).get('id') or _named_base(folder)),
        folder=folder,
        run_id=run_id,
        tasks=tasks if tasks.is_file() else None,
    )


class AdapterUse:
    """Merging and pushing, over the data folder of a studio. Raises ``ConfigError``, ``StoreError``."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.jobs = SideJobs()

    def default_target(self, source: AdapterSource, dtype: Dtype) -> Path:
        """A folder that is not there yet, named after the adapter."""
        kind = '' if dtype == 'float32' else '-bf16'
        first = self._merged_home() / f'{serving_name(source.name)[:60]}{kind}'
        return next(path for path in _numbered(first) if not path.exists())

    def plan_merge(self, source: AdapterSource, out: str, dtype: Dtype) -> MergePlan:
        """What a merge into a folder as typed would need, and what is in its way."""
        target = self._target(out, source, dtype)
        try:
            needed = bytes_needed(find_model(source.model), dtype)
            check_adapter(source.folder)
        except ConfigError as error:
            return MergePlan(out=target, needed=None, free=None, problem=f'{error.message}. {error.hint}')
        there = next((parent for parent in target.parents if parent.is_dir()), None)
        free = shutil.disk_usage(there).free if there is not None else None
        problem = ''
        if target.exists() or target.is_symlink():
            problem = 'This folder is there already, and nothing is written over. Choose another name.'
        elif not target.parent.is_dir() and target.parent != self._merged_home():
            problem = f'{target.parent} is no folder. Make it first, or choose another one.'
        elif needed is not None and free is not None and free < needed:
            problem = 'There is not enough room on this disk. Free some, choose another disk, or take bfloat16.'
        return MergePlan(out=target, needed=needed, free=free, problem=problem)

    def merge(self, source: AdapterSource, out: str, dtype: Dtype) -> SideJobView:
        """Begin to merge into a folder; the job's result is a ``MergedModel`` and its ``folder``.

        Raises ``ConfigError`` at ``out``.
        """
        plan = self.plan_merge(source, out, dtype)
        if plan.problem:
            raise _refused('out', plan.problem)
        self._merged_home().mkdir(parents=True, exist_ok=True)
        arguments = ['--model', source.model, '--adapter', str(source.folder), '--out', str(plan.out)]
        arguments += ['--dtype', dtype, *(['--tasks', str(source.tasks)] if source.tasks else [])]
        return self.jobs.start(MERGE, str(source.folder), 'trainer.merge', arguments)

    def merged(self, source: AdapterSource) -> tuple[Merged, ...]:
        """Merged models of an adapter in the data folder and where the last job put one, newest first."""
        there = self._merged_home().iterdir() if self._merged_home().is_dir() else ()
        folders = {folder for folder in there if not folder.name.startswith('.')}  # Those are being written.
        last = self.jobs.latest(MERGE, str(source.folder))
        if last is not None and last.state == 'done' and (made := last.result.get('folder')):
            folders.add(Path(made))
        digest = _digest(source.folder)
        found = []
        for folder in folders:
            try:
                model = read_merged(folder)
            except (RunFolderError, OSError):
                continue  # Half a folder, or something else that somebody put there.
            if model.adapter_sha256 == digest:
                size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())
                found.append(Merged(folder=folder, size=size, model=model))
        return tuple(sorted(found, key=lambda one: one.model.created_at, reverse=True))

    def push(self, folder: Path, repo: str, token: str, *, private: bool = True) -> SideJobView:
        """Begin to push a folder to a hub with a token that is used for this and kept nowhere.

        The job's result has ``repo`` and ``url``. Raises ``ConfigError`` at ``repo`` or ``token``.
        """
        repo, token = repo.strip(), token.strip()
        check_repo(repo)
        if not token or not token.isascii() or not token.isprintable() or ' ' in token:
            raise _refused('token', 'Paste a token with write access: it begins with hf_')
        order = json.dumps({'token': token, 'repo': repo, 'private': private})
        return self.jobs.start(
            PUSH, str(folder), 'trainer.hub_push', ['--folder', str(folder)], without=SECRETS, first_line=order
        )

    def close(self) -> None:
        """End every job."""
        self.jobs.close()

    def _target(self, out: str, source: AdapterSource, dtype: Dtype) -> Path:
        """A folder as typed; a bare name goes into the data folder."""
        text = out.strip()
        if not text:
            return self.default_target(source, dtype)
        if '\0' in text:
            raise _refused('out', 'A folder cannot hold a NUL character')
        return self._merged_home() / Path(text).expanduser()

    def _merged_home(self) -> Path:
        return self._home.resolve() / 'merged'


def check_repo(repo: str) -> None:
    """See that a name fits a hub: ``name`` or ``owner/name``. Raises ``ConfigError`` at ``repo``."""
    if not _REPO.fullmatch(repo) or '--' in repo or '..' in repo or repo.endswith('.git'):
        raise _refused(
            'repo', 'Write owner/name: letters, digits, and single - _ . between them, at most 96 characters each'
        )


def _named_base(folder: Path) -> str:
    """The base model that an adapter's PEFT config names; that of the bundled one is ``starter``."""
    try:
        config = json.loads((folder / 'adapter_config.json').read_text(encoding='utf-8'))
        return str(config.get('base_model_name_or_path') or '')
    except (OSError, ValueError, AttributeError):
        return ''


def _digest(folder: Path) -> str:
    """sha256 of the adapter's weights; empty where they are gone."""
    try:
        return sha256(folder / 'adapter_model.safetensors')
    except OSError:
        return ''


def _numbered(first: Path) -> Iterator[Path]:
    yield first
    number = 2
    while True:
        yield first.with_name(f'{first.name}-{number}')
        number += 1


def _refused(loc: str, message: str) -> ConfigError:
    return ConfigError(message, [FieldError(loc=loc, msg=message)])
