"""The Dockerfile of a Harbor task, read without Docker: what it puts into the workspace, and what a sandbox cannot do.

COPY into the WORKDIR becomes setup files, RUN that stays inside it becomes setup commands. What installs, downloads or
works outside the workspace is named with its line and left out.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from studio.exchange.harbor.paths import WORK, moved
from trainer.attempt import SETUP_TIMEOUT_S

INSTALLS: Final = re.compile(
    r'(?<![\w./-])(?:sudo\s+)?(?:apt-get|apt|apk|yum|dnf|pip3?|pipx|uv|uvx|conda|mamba|npm|npx|yarn|pnpm|cargo|gem|'
    r'curl|wget|git\s+clone|go\s+(?:install|get)|add-apt-repository)(?![\w./=-])'
)
"""Words that mean software or files from elsewhere."""
MAX_SOURCES: Final = 200
_PLAIN_IMAGES: Final = ('ubuntu', 'debian', 'python', 'alpine', 'busybox')
_QUIET_ENV: Final = re.compile(r'PYTHON\w*|DEBIAN_FRONTEND|LANG|LC_\w+|PIP_\w+|UV_\w+|PATH|TZ|TERM')
_QUIET: Final = ('LABEL', 'ARG', 'MAINTAINER', 'EXPOSE', 'STOPSIGNAL', 'SHELL')
_HARMLESS: Final = ('/dev/null', '/dev/stdout', '/dev/stderr', '/tmp', '/bin', '/usr/bin', WORK)
_SHOWN: Final = 90


@dataclass(frozen=True)
class Instruction:
    """One instruction: its line, its word, the rest, and the text of a here-document."""

    line: int
    word: str
    rest: str
    here: str = ''


@dataclass
class Build:
    """What a Dockerfile means for a sandbox: ``files`` are ``{workspace path: path under environment/}``."""

    root: str = ''
    files: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_dockerfile(text: str, context: Mapping[str, bytes], *, root: str = '') -> Build:
    """Read a Dockerfile over its context, ``{path under environment/: data}``; ``root`` overrules its WORKDIR."""
    instructions = parse(text)
    stages = [position for position, one in enumerate(instructions) if one.word == 'FROM']
    last = stages[-1] if stages else 0
    build = Build()
    if len(stages) > 1:
        build.warnings.append(f'environment/Dockerfile: {len(stages) - 1} earlier build stages are left out')
    steps = instructions[last:]
    folders = _workdirs(steps)
    build.root = root or (folders[-1] if folders and folders[-1] != '/' else '') or '/app'
    reader = _Reader(build, context)
    for one in steps:
        reader.read(one)
    if build.commands:
        what = f'{len(build.commands)} RUN lines became setup commands'
        build.warnings.append(
            f'environment/Dockerfile: {what}, run before every episode, for {SETUP_TIMEOUT_S:g} s at most'
        )
    return build


def parse(text: str) -> list[Instruction]:
    """Split a Dockerfile into instructions; continued lines are joined, comments dropped, here-documents kept."""
    lines = text.replace('\r\n', '\n').split('\n')
    found: list[Instruction] = []
    position = 0
    while position < len(lines):
        start = position
        line = lines[position].strip()
        position += 1
        if not line or line.startswith('#'):
            continue
        parts = [line]
        while parts[-1].endswith('\\') and position < len(lines):
            more = lines[position].strip()
            position += 1
            if not more.startswith('#'):
                parts[-1] = parts[-1][:-1].rstrip()
                parts.append(more)
        line = ' '.join(parts)
        here = []
        if mark := re.search(r'<<-?\s*["\']?(\w+)["\']?', line):
            while position < len(lines) and lines[position].strip() != mark[1]:
                here.append(lines[position])
                position += 1
            position += 1
        word, _, rest = line.partition(' ')
        found.append(Instruction(start + 1, word.upper(), rest.strip(), '\n'.join(here) + '\n' if here else ''))
    return found


def _workdirs(steps: list[Instruction]) -> list[str]:
    here, found = '/', []
    for one in steps:
        if one.word == 'WORKDIR':
            here = _join(here, one.rest.strip('"\''))
            found.append(here)
    return found


class _Reader:
    """Goes through the instructions of the last stage."""

    def __init__(self, build: Build, context: Mapping[str, bytes]) -> None:
        self._build, self._context = build, context
        self._here = '/'
        self._renamed = {build.root: WORK}

    def read(self, one: Instruction) -> None:
        """Take one instruction over, or say why not."""
        known = {
            'FROM': self._from,
            'WORKDIR': self._workdir,
            'COPY': self._copy,
            'ADD': self._copy,
            'RUN': self._run,
            'ENV': self._env,
            'USER': self._user,
            'CMD': self._start,
            'ENTRYPOINT': self._start,
        }
        if one.word in known:
            known[one.word](one)
        elif one.word not in _QUIET:
            self._leave(one, 'is left out')

    def _leave(self, one: Instruction, why: str) -> None:
        text = f'{one.word} {one.rest}'
        text = text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'
        self._build.warnings.append(f'environment/Dockerfile line {one.line}: {text} {why}')

    def _from(self, one: Instruction) -> None:
        words = [word for word in one.rest.split() if not word.startswith('--')]
        image = words[0] if words else ''
        if image.rsplit('/', 1)[-1].split(':')[0].split('@')[0] not in _PLAIN_IMAGES:
            self._leave(one, 'is not used: files and programs of that image are not here')

    def _workdir(self, one: Instruction) -> None:
        self._here = _join(self._here, one.rest.strip('"\''))

    def _user(self, one: Instruction) -> None:
        if one.rest.strip() not in ('root', '0'):
            self._leave(one, 'is left out: the sandbox has one user')

    def _start(self, one: Instruction) -> None:
        if not re.search(r'\b(?:bash|sh|sleep|tail|python3?)"?\s*[\],]?', one.rest) or one.word == 'ENTRYPOINT':
            self._leave(one, 'is not started: nothing runs in a sandbox but the tools')

    def _env(self, one: Instruction) -> None:
        pairs = _pairs(one.rest)
        self._build.env |= pairs
        if said := [name for name in pairs if not _QUIET_ENV.fullmatch(name)]:
            self._leave(one, f'is set for the checker, not for the tools of the model ({", ".join(said)})')

    def _run(self, one: Instruction) -> None:
        command = one.here.rstrip('\n') or _command(one.rest)
        if INSTALLS.search(command):
            self._leave(one, 'installs or downloads: not carried over, a sandbox has the programs of this machine')
            return
        command, _ = moved(command, self._renamed)
        if self._leaves_workspace(command):
            self._leave(one, 'works outside the workspace: not carried over')
            return
        folder = self._inside(self._here)
        if folder is None:
            self._leave(one, f'runs in {self._here}, outside the workspace: not carried over')
            return
        if re.fullmatch(r'mkdir (-p )?/work/?', command.strip()):
            return
        self._build.commands.append(f'cd {shlex.quote(folder)} && {command}' if folder else command)

    def _leaves_workspace(self, command: str) -> bool:
        paths = re.findall(r'(?<![\w.:$}~-])/[\w.+-][\w./+-]*', command)
        outside = [path for path in paths if not any(path == ok or path.startswith(f'{ok}/') for ok in _HARMLESS)]
        is_admin = re.search(r'(?<![\w./-])(?:useradd|groupadd|adduser|chown|usermod|ln\s+-s\w*\s+/)', command)
        return bool(outside or is_admin or '~' in command)

    def _copy(self, one: Instruction) -> None:
        flags = [word for word in one.rest.split() if word.startswith('--')]
        words = _words(one.rest)
        if any(flag.startswith('--from') for flag in flags):
            self._leave(one, 'is left out: it copies from another image')
            return
        if not 2 <= len(words) <= MAX_SOURCES:
            self._leave(one, 'is left out: it cannot be read')
            return
        *sources, target = words
        if one.here:
            self._write_here(one, target)
            return
        for source in sources:
            if re.match(r'https?:|git@', source) or (
                one.word == 'ADD' and re.search(r'\.(tar|tgz|zip|gz|xz)$', source)
            ):
                self._leave(one, 'is left out: what it downloads or unpacks is not here')
                return
        self._place(one, sources, target)

    def _write_here(self, one: Instruction, target: str) -> None:
        path = self._inside(_join(self._here, target))
        if path:
            self._build.texts[path] = one.here
        else:
            self._leave(one, 'lies outside the workspace: not carried over')

    def _place(self, one: Instruction, sources: list[str], target: str) -> None:
        end = _join(self._here, target)
        folder = self._inside(end)
        if folder is None:
            self._leave(one, f'lies outside the workspace {self._build.root}: not carried over')
            return
        found = [(path, name) for source in sources for path, name in self._matching(source)]
        if not found:
            self._leave(one, 'copies nothing that is here')
            return
        single = len(found) == 1 and found[0][0].rsplit('/', 1)[-1] == found[0][1]
        as_file = single and folder and not target.endswith('/') and not sources[0].endswith('/')
        as_file = as_file and found[0][0] == _normal(sources[0])
        for path, name in found:
            place = folder if as_file else f'{folder}/{name}' if folder else name
            self._build.files[place] = path

    def _matching(self, source: str) -> list[tuple[str, str]]:
        """Files of the context that a source names, and what they are called at the target."""
        name = _normal(source)
        skipped = ('Dockerfile', 'docker-compose.yaml', 'docker-compose.yml', '.dockerignore')
        if name in ('', '.'):
            return [(path, path) for path in self._context if path not in skipped]
        if name in self._context:
            return [(name, name.rsplit('/', 1)[-1])]
        found = []
        for path in self._context:
            if path.startswith(f'{name}/'):
                found.append((path, path[len(name) + 1 :]))
            elif path.count('/') == name.count('/') and fnmatch.fnmatchcase(path, name):
                found.append((path, path.rsplit('/', 1)[-1]))
        return found

    def _inside(self, path: str) -> str | None:
        """A path of the container as a path of the workspace; ``None`` where it lies outside."""
        root = self._build.root
        if path == root:
            return ''
        return path[len(root) + 1 :] if path.startswith(f'{root}/') else None


def _join(here: str, path: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(here) / path).parts:
        if part == '..':
            parts = parts[:-1]
        elif part not in ('/', '.'):
            parts.append(part)
    return '/' + '/'.join(parts)


def _normal(source: str) -> str:
    return '/'.join(part for part in source.split('/') if part not in ('', '.'))


def _command(rest: str) -> str:
    """The shell text of a RUN: the exec form becomes one line."""
    rest = re.sub(r'^(?:--\S+\s+)+', '', rest)
    if rest.startswith('['):
        try:
            words = json.loads(rest)
        except ValueError:
            return rest
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            is_shell = len(words) == 3 and words[1] == '-c' and words[0].rsplit('/', 1)[-1] in ('sh', 'bash')
            return words[2] if is_shell and words[0].endswith('/sh') else shlex.join(words)
    return rest


def _words(rest: str) -> list[str]:
    rest = re.sub(r'^(?:--\S+\s+)+', '', re.sub(r'<<-?\s*["\']?\w+["\']?', '<<', rest))
    if rest.startswith('['):
        try:
            words = json.loads(rest)
        except ValueError:
            return []
        return [str(word) for word in words] if isinstance(words, list) else []
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def _pairs(rest: str) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError:
        return {}
    if words and '=' not in words[0]:
        return {words[0]: ' '.join(words[1:])}
    return dict(word.split('=', 1) for word in words if '=' in word)
