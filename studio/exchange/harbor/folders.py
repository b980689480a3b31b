"""Reads Harbor task folders out of an import, each as one task or as the reasons why it is none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from studio.exchange.harbor.dockerfile import INSTALLS, Build, read_dockerfile
from studio.exchange.harbor.paths import SOLUTION, WORK, moved, outside
from studio.exchange.harbor.settings import HarborSettings, read_settings
from studio.exchange.harbor.verifier import script_checker
from studio.exchange.pool import Entry, Found, Pool, parse_json, refusal
from trainer.errors import FieldError, TaskError
from trainer.task import MAX_TITLE_CHARS, parse_task

NAME: Final = 'harbor'
RECORD: Final = 'rlvr.json'
RECORD_FORMAT: Final = 1
MAX_FILES: Final = 2000
MAX_TEXT_BYTES: Final = 4 * 1024**2
MAX_CONTROL_BYTES: Final = 256 * 1024
"""For the files that are read line by line: task.toml, Dockerfile, test.sh, solve.sh."""
PARTS: Final = ('instruction.md', 'task.toml', 'environment/', 'tests/', 'solution/')
_MARKS: Final = ('task.toml', 'instruction.md')
_COMPOSE: Final = ('environment/docker-compose.yaml', 'environment/docker-compose.yml')


@dataclass
class _Folder:
    """One task folder: its files by path, and what was said while it was read."""

    source: str
    path: str
    files: dict[str, Entry] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)

    def refuse(self, loc: str, message: str) -> None:
        self.errors.append(FieldError(loc=loc, msg=message[:1].upper() + message[1:]))

    def under(self, part: str) -> dict[str, bytes]:
        """The files of a subfolder, by their path in it."""
        return {name[len(part) :]: entry.data for name, entry in self.files.items() if name.startswith(part)}

    def text(self, name: str) -> str | None:
        """A file as text; what is no UTF-8 is refused by name."""
        if name not in self.files:
            return None
        if len(self.files[name].data) > MAX_TEXT_BYTES:
            self.refuse(name, f'is larger than {MAX_TEXT_BYTES // 1024**2} MB')
            return None
        try:
            return self.files[name].data.decode('utf-8')
        except UnicodeDecodeError as error:
            self.refuse(name, f'is not UTF-8 text at byte {error.start}')
            return None


def read(pool: Pool) -> Iterator[Found]:
    """Every folder with a task.toml or an instruction.md; one that cannot be a task says why."""
    for folder in _folders(pool):
        yield _read_folder(folder)
    for entry in [entry for entry in pool.entries if not entry.path and entry.source in (*_MARKS, 'Dockerfile')]:
        pool.take_entries([entry])
        yield refusal(entry.source, entry.source, 'is one file of a Harbor task: zip the whole folder', format=NAME)
    older = [entry for entry in pool.entries if PurePosixPath(entry.path).name == 'task.yaml']
    for entry in older:
        pool.take_entries([entry])
        text = 'is a Terminal-Bench 1 task: bring it to the Harbor format first'
        yield refusal(entry.source, entry.path, text, format=NAME)


def digest(files: Mapping[str, bytes], part: str) -> str:
    """Hex sha256 over the names and contents of a part of a folder."""
    wanted = sorted(name for name in files if name == part or (part.endswith('/') and name.startswith(part)))
    lines = [f'{hashlib.sha256(files[name]).hexdigest()}  {name}\n' for name in wanted]
    return hashlib.sha256(''.join(lines).encode('utf-8')).hexdigest()


def _folders(pool: Pool) -> list[_Folder]:
    """Take the task folders out of the pool; a task.toml deep inside a task belongs to that task."""
    entries = [entry for entry in pool.entries if entry.path]
    marked = {(entry.source, _parent(entry.path)) for entry in entries if PurePosixPath(entry.path).name in _MARKS}
    folders = {place: _Folder(*place) for place in sorted(marked) if _root_of(*place, marked) == place}
    taken = []
    for entry in entries:
        folder = folders.get(_root_of(entry.source, _parent(entry.path), marked) or ('', ''))
        if folder is not None:
            folder.files[entry.path[len(folder.path) + 1 :] if folder.path else entry.path] = entry
            taken.append(entry)
    pool.take_entries(taken)
    for refused in pool.refused:
        folder = folders.get(_root_of(refused.source, _parent(refused.where), marked) or ('', ''))
        if folder is not None:
            folder.refuse(refused.where, refused.errors[0].msg)
    return list(folders.values())


def _root_of(source: str, path: str, marked: set[tuple[str, str]]) -> tuple[str, str] | None:
    """The outermost marked folder that a folder lies in."""
    parts = path.split('/') if path else []
    return next(
        (place for depth in range(len(parts) + 1) if (place := (source, '/'.join(parts[:depth]))) in marked), None
    )


def _parent(path: str) -> str:
    return path.rpartition('/')[0]


def _read_folder(folder: _Folder) -> Found:
    _check_sizes(folder)
    name = folder.path.rsplit('/', 1)[-1] or PurePosixPath(folder.source).stem
    raw: dict[str, Any] = {}
    if not folder.errors:
        raw = _read_raw(folder, name)
    where = f'{folder.path}/' if folder.path else folder.source
    title = str(raw.get('title', '') or name)[:MAX_TITLE_CHARS]
    if not folder.errors:
        try:
            task, notes = parse_task(raw)
        except TaskError as error:
            folder.errors += error.fields
        else:
            warnings = (*folder.warnings, *(f'{note.loc} {note.msg}' for note in notes))
            return Found(folder.source, where, NAME, task, title, warnings=warnings)
    return Found(folder.source, where, NAME, None, title, errors=tuple(folder.errors))


def _check_sizes(folder: _Folder) -> None:
    if len(folder.files) > MAX_FILES:
        folder.refuse('', f'it has {len(folder.files)} files; at most {MAX_FILES} are read of one task')
    for name in ('task.toml', 'environment/Dockerfile', 'tests/test.sh', 'solution/solve.sh'):
        if name in folder.files and len(folder.files[name].data) > MAX_CONTROL_BYTES:
            folder.refuse(name, f'is larger than {MAX_CONTROL_BYTES // 1024} kB')


def _read_raw(folder: _Folder, name: str) -> dict[str, Any]:
    """The task as plain values: from our own record where Harbor's files are as we wrote them, else from those."""
    record, changed = _record(folder)
    if record is not None and not changed:
        return record
    settings = HarborSettings()
    if 'task.toml' not in folder.files:
        folder.refuse('task.toml', 'is missing')
        return {}
    try:
        settings = read_settings(folder.files['task.toml'].data)
    except ValueError as error:
        folder.refuse('task.toml', f'cannot be read: {error}')
        return {}
    return _merge(folder, name, settings, record, changed)


def _record(folder: _Folder) -> tuple[dict[str, Any] | None, set[str]]:
    """What we wrote beside Harbor's files, and which of their parts were changed since."""
    entry = folder.files.get(RECORD)
    if entry is None:
        return None, set()
    try:
        record = parse_json(entry.data.decode('utf-8'))
        if record['format'] != RECORD_FORMAT:
            raise ValueError(f'format {record["format"]!r} is not known')
        task, digests = dict(record['task']), dict(record['sha256'])
        dict(task['task_spec'])
    except (ValueError, KeyError, TypeError) as error:
        folder.warnings.append(f'{RECORD} cannot be read ({error}): the task is read from its other files')
        return None, set()
    files = {name: one.data for name, one in folder.files.items()}
    changed = {part for part in PARTS if digest(files, part) != digests.get(part)}
    if changed:
        names = ', '.join(sorted(changed))
        folder.warnings.append(f'{names} changed since the export: read from there, the rest from {RECORD}')
    return task, changed


def _merge(
    folder: _Folder, name: str, settings: HarborSettings, record: dict[str, Any] | None, changed: set[str]
) -> dict[str, Any]:
    """Put the task together: what Harbor's files say, and for unchanged parts of our own export the record."""

    def ours(part: str) -> bool:
        return record is not None and part not in changed

    kept: dict[str, Any] = record or {}
    spec: dict[str, Any] = dict(kept.get('task_spec', {}))
    if not (ours('environment/') and ours('tests/')):
        for refusal_text in settings.refusals:
            folder.refuse('task.toml', refusal_text)
    build = _environment(folder, settings)
    folders = {build.root: WORK}
    raw: dict[str, Any] = {key: value for key, value in kept.items() if key not in ('task_spec', 'hash', 'version')}
    if not ours('task.toml'):
        raw |= _names(name, settings, record)
    if not ours('instruction.md'):
        spec['prompt'] = _prompt(folder, folders)
    if not ours('environment/'):
        folder.warnings += build.warnings
        spec |= {'setup_files': _setup_files(folder, build, folders), 'setup_commands': build.commands}
    if not ours('tests/'):
        spec['checker'] = _checker(folder, settings, build, folders)
    if not ours('solution/'):
        others = [one for one in kept.get('solutions', []) if one.get('kind') != 'reference']
        raw['solutions'] = [*_solutions(folder, settings, folders), *others]
    if not ours('task.toml'):
        # Last: what is missing in the workspace or in the tests matters more than limits and users.
        folder.warnings += settings.warnings
    return {**raw, 'task_spec': spec}


def _names(name: str, settings: HarborSettings, record: dict[str, Any] | None) -> dict[str, Any]:
    if record is not None:
        return {'title': settings.description or record.get('title', ''), 'topics': list(settings.topics)}
    notes = settings.description.strip()
    return {'title': (settings.name or name)[:MAX_TITLE_CHARS], 'topics': list(settings.topics), 'notes': notes}


def _environment(folder: _Folder, settings: HarborSettings) -> Build:
    for name in _COMPOSE:
        if name in folder.files:
            folder.refuse(name, 'several containers are needed; a sandbox is one')
    context = folder.under('environment/')
    text = folder.text('environment/Dockerfile')
    if text is None:
        build = Build(root=settings.workdir or '/app')
        if context and not folder.errors:
            build.warnings.append('environment/ has no Dockerfile: its files are left out')
        return build
    build = read_dockerfile(text, context, root=settings.workdir)
    build.env |= settings.env
    return build


def _prompt(folder: _Folder, folders: Mapping[str, str]) -> str:
    prompt = folder.text('instruction.md')
    if prompt is None:
        if 'instruction.md' not in folder.files:
            folder.refuse('instruction.md', 'is missing')
        return ''
    prompt, count = moved(prompt, folders)
    if count:
        folder.warnings.append(f'instruction.md: {next(iter(folders))} became {WORK} in {count} places')
    if found := outside(prompt):
        folder.warnings.append(f'instruction.md names {", ".join(found[:3])}: outside the workspace, not in a sandbox')
    return prompt


def _setup_files(folder: _Folder, build: Build, folders: Mapping[str, str]) -> dict[str, str]:
    files = dict(build.texts)
    for place, path in build.files.items():
        text = folder.text(f'environment/{path}')
        if text is not None:
            files[place], count = moved(text, folders)
            if count:
                folder.warnings.append(f'environment/{path}: {build.root} became {WORK} in {count} places')
    return files


def _checker(folder: _Folder, settings: HarborSettings, build: Build, folders: Mapping[str, str]) -> dict[str, Any]:
    tests = folder.under('tests/')
    if 'Dockerfile' in tests:
        folder.warnings.append('tests/Dockerfile is not built: what it installs is not here')
    try:
        checker = script_checker(
            tests, folders, {**build.env, **settings.verifier_env}, settings.timeout_s, folder.warnings
        )
    except ValueError as error:
        folder.refuse('tests/test.sh', str(error).removeprefix('tests/test.sh '))
        return {}
    folder.warnings.append('tests/ became a script checker: certify the task before you train on it')
    return checker


def _solutions(folder: _Folder, settings: HarborSettings, folders: Mapping[str, str]) -> list[dict[str, Any]]:
    """solution/solve.sh as the reference: its files are put aside, it runs in the workspace, they are removed."""
    data = folder.under('solution/')
    if not data:
        return []
    if 'solve.sh' not in data:
        folder.warnings.append('solution/ has no solve.sh: it is left out')
        return []
    files = {}
    renamed = {**folders, '/solution': f'{WORK}/{SOLUTION}'}
    for name, content in data.items():
        try:
            files[f'{SOLUTION}/{name}'], _ = moved(content.decode('utf-8'), renamed)
        except UnicodeDecodeError:
            folder.warnings.append(f'solution/{name} is not UTF-8 text: the solution is left out')
            return []
    for number, line in enumerate(files[f'{SOLUTION}/solve.sh'].split('\n'), start=1):
        if INSTALLS.search(line) and not line.lstrip().startswith('#'):
            folder.warnings.append(
                f'solution/solve.sh line {number}: {line.strip()[:70]} needs a network and will fail'
            )
    exports = ''.join(f'export {name}={json.dumps(value)}; ' for name, value in settings.solution_env.items())
    steps = [
        {'tool': 'run_command', 'args': {'command': f'{exports}bash {SOLUTION}/solve.sh'}},
        {'tool': 'run_command', 'args': {'command': f'rm -rf {SOLUTION}'}},
    ]
    return [{'kind': 'reference', 'name': 'solution/solve.sh', 'files': files, 'steps': steps}]
