"""Writes tasks as Harbor task folders (schema 1.4) in one zip, each of them complete: it runs in Harbor as it is."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from studio.exchange.archive import pack
from studio.exchange.harbor.folders import PARTS, RECORD, RECORD_FORMAT, digest
from studio.exchange.harbor.paths import WORK
from trainer.checkers.grading import protected_files
from trainer.manifest import task_json
from trainer.task import Solution, Step, TaskFile, TaskSpec

SCHEMA: Final = '1.4'
IMAGE: Final = 'python:3.12-bookworm'
_GRADER: Final = Path(__file__).with_name('grade.py')
_TEST: Final = f"""#!/bin/bash
# The checker of the task; grade.py writes /logs/verifier/reward.txt, or nothing where it cannot grade.
cd {WORK} && python3 /tests/grade.py
"""


def write(tasks: Iterable[TaskFile]) -> bytes:
    """A zip with one folder a task; the same tasks give the same bytes."""
    files: list[tuple[str, bytes, int]] = []
    taken: set[str] = set()
    for task in tasks:
        folder = _folder_name(task, taken)
        files += [(f'{folder}/{name}', data, _mode(data)) for name, data in folder_files(task, folder).items()]
    return pack(files)


def folder_files(task: TaskFile, name: str) -> dict[str, bytes]:
    """The files of one task folder, by path."""
    spec = task.task_spec
    files = {'instruction.md': _bytes(spec.prompt), 'task.toml': _bytes(_task_toml(task, name))}
    files['environment/Dockerfile'] = _bytes(_dockerfile(spec))
    files |= {f'environment/workspace/{path}': _bytes(text) for path, text in spec.setup_files.items()}
    protected = {path: spec.setup_files[path] for path in sorted(protected_files(spec.checker, spec.setup_files))}
    checker = {'checker': spec.to_json()['checker'], 'protected': protected}
    files |= {
        'tests/test.sh': _bytes(_TEST),
        'tests/grade.py': _GRADER.read_bytes(),
        'tests/checker.json': _json(checker),
    }
    reference = task.solution('reference')
    if reference is not None:
        files['solution/solve.sh'] = _bytes(_solve_sh(reference))
    record = {
        'format': RECORD_FORMAT,
        'task': task_json(task.model_copy(update={'hash': '', 'version': None})),
        'sha256': {part: digest(files, part) for part in PARTS},
    }
    return {**files, RECORD: _json(record)}


def _task_toml(task: TaskFile, name: str) -> str:
    checker = task.task_spec.checker
    timeout = checker.config.timeout_s
    return f"""schema_version = {_toml(SCHEMA)}

[task]
name = {_toml(f'rlvr/{name}')}
description = {_toml(task.title)}
keywords = [{', '.join(_toml(topic) for topic in task.topics)}]

[metadata]
checker = {_toml(checker.type)}
max_steps = {task.task_spec.max_steps}

[agent]
timeout_sec = {float(task.task_spec.max_steps * 60)}

[verifier]
timeout_sec = {float(timeout) + 30}

[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 2048
network_mode = "no-network"
"""


def _dockerfile(spec: TaskSpec) -> str:
    lines = [f'FROM {IMAGE}']
    if spec.checker.type == 'pytest':
        lines.append('RUN pip install --no-cache-dir pytest')
    lines.append(f'WORKDIR {WORK}')
    if spec.setup_files:
        lines.append(f'COPY workspace/ {WORK}/')
    lines += [f'RUN {json.dumps(["/bin/sh", "-c", command])}' for command in spec.setup_commands]
    return '\n'.join(lines) + '\n'


def _solve_sh(solution: Solution) -> str:
    lines = ['#!/bin/bash', f'cd {WORK}']
    lines += [_write_line(path, text) for path, text in solution.files.items()]
    lines += [_step_line(step) for step in solution.steps]
    return '\n'.join(lines) + '\n'


def _step_line(step: Step) -> str:
    path = shlex.quote(step.args.get('path', ''))
    if step.tool == 'write_file':
        return _write_line(step.args['path'], step.args['content'])
    if step.tool == 'run_command':
        return f'(cd {WORK} && /bin/sh -c {shlex.quote(step.args["command"])})'
    return f'cat -- {path}' if step.tool == 'read_file' else f'ls -la -- {path}'


def _write_line(path: str, text: str) -> str:
    quoted = shlex.quote(path)
    folder = path.rpartition('/')[0]
    make = f'mkdir -p -- {shlex.quote(folder)} && ' if folder else ''
    return f"{make}printf '%s' {shlex.quote(text)} > {quoted}"


def _folder_name(task: TaskFile, taken: set[str]) -> str:
    """A name for files made from the title, which is free text: letters, digits and dashes, each once."""
    plain = unicodedata.normalize('NFKD', task.title).encode('ascii', 'ignore').decode('ascii').lower()
    name = re.sub(r'[^a-z0-9]+', '-', plain).strip('-')[:48].strip('-') or 'task'
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f'{name}-{number}'
    taken.add(unique)
    return unique


def _toml(text: str) -> str:
    """A basic string of TOML; its escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace('\x7f', '\\u007f')


def _json(data: dict[str, Any]) -> bytes:
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + '\n').encode('utf-8')


def _bytes(text: str) -> bytes:
    return text.encode('utf-8')


def _mode(data: bytes) -> int:
    return 0o755 if data.startswith(b'#!') else 0o644
