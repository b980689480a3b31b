"""tests/ of a Harbor task as a ``script`` checker: they stay hidden from the model, test.sh decides as it did there.

Files of tests/ travel inside the script, which unpacks them in the fresh sandbox of the check, runs test.sh in the
workspace and reads the reward it left. Lines of test.sh that install things are taken out and named; ``uvx … pytest``
becomes the pytest of the sandbox. It does not make a careless test.sh safe: the certificate says what holds.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from studio.exchange.harbor.dockerfile import INSTALLS
from studio.exchange.harbor.paths import INSIDE_TESTS, STAGE, moved, outside
from studio.exchange.python_source import texts_source

MARGIN_S: Final = 2.0
"""Seconds the script keeps for itself within the checker's time limit."""
_ACTIVATES: Final = re.compile(r'^\s*(?:source|\.)\s+\S*(?:\.local/bin/env|venv\S*/activate|/activate)\s*$')
_OPTION_WITH_VALUE: Final = ('-p', '-w', '--python', '--with', '--from', '--index-url', '--index', '--refresh-package')
_OWN_PACKAGES: Final = ('pytest', 'pytest-json-ctrf')
_CTRF: Final = re.compile(r'\s--ctrf(?:=|\s+)\S+')

_PROGRAM: Final = '''\
"""Grades the workspace as tests/test.sh of the Harbor task did: the reward it leaves is the reward."""
import base64
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

TEXTS = {texts}
BINARIES = {binaries}
ENV = {env}
STAGE = pathlib.Path(tempfile.mkdtemp(prefix='harbor-'))
TIMEOUT_S = {timeout}


def unpack():
    for name, text in TEXTS.items():
        write(name, text.replace({stage!r}, str(STAGE)).encode())
    for name, data in BINARIES.items():
        write(name, base64.b64decode(data))
    (STAGE / 'logs' / 'verifier').mkdir(parents=True)
    (STAGE / 'logs' / 'artifacts').mkdir()


def write(name, data):
    path = STAGE / 'tests' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755 if data.startswith(b'#!') else 0o644)


def adopt():
    """Become the parent of whatever the tests leave running, so that it can be ended before the reward is read."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def end_children():
    for _ in range(1000):
        children = pathlib.Path(f'/proc/self/task/{{os.getpid()}}/children').read_text().split()
        if not children:
            return
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
                os.waitpid(int(child), 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def run():
    environment = {{**os.environ, **{{name: text.replace({stage!r}, str(STAGE)) for name, text in ENV.items()}}}}
    command = ['bash', str(STAGE / 'tests' / 'test.sh')]
    process = subprocess.Popen(command, env=environment, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        return process.wait(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f'tests/test.sh did not end within {{TIMEOUT_S:g}} s')
        end_children()
        sys.exit(1)


def reward():
    folder = STAGE / 'logs' / 'verifier'
    if (folder / 'reward.json').is_file():
        said = json.loads((folder / 'reward.json').read_text())
        if isinstance(said, dict):
            values = [float(value) for value in said.values()]
            said = said['reward'] if 'reward' in said else sum(values) / len(values)
        return float(said)
    if (folder / 'reward.txt').is_file():
        return float((folder / 'reward.txt').read_text())
    return None


unpack()
adopt()
code = run()
end_children()
value = reward()
if value is None and code:
    print(f'tests/test.sh ended with {{code}} and left no reward')
    sys.exit(1)
if value is None:
    raise SystemExit(2)
print(value)
'''


def script_checker(
    tests: Mapping[str, bytes],
    folders: Mapping[str, str],
    env: Mapping[str, str],
    timeout_s: float,
    warnings: list[str],
) -> dict[str, Any]:
    """The checker, of ``{path under tests/: data}``; adds to ``warnings``. Raises ``ValueError`` without test.sh."""
    if 'test.sh' not in tests:
        raise ValueError('tests/test.sh is missing: nothing says what the reward is')
    texts: dict[str, str] = {}
    binaries: dict[str, str] = {}
    for name, data in tests.items():
        try:
            text = data.decode('utf-8')
        except UnicodeDecodeError:
            binaries[name] = base64.b64encode(data).decode('ascii')
            continue
        if name == 'test.sh':
            text, said = adapted(text)
            warnings += said
        texts[name], _ = moved(text, {**INSIDE_TESTS, **folders})
    if 'TEST_DIR' in texts['test.sh']:
        env = {**env, 'TEST_DIR': f'{STAGE}/tests'}
    if found := outside('\n'.join(texts.values()).replace(STAGE, '')):
        warnings.append(f'tests/ look at {", ".join(found[:3])}, outside the workspace')
    script = _PROGRAM.format(
        texts=texts_source(texts),
        binaries=texts_source(binaries),
        env=texts_source(dict(env)),
        stage=STAGE,
        timeout=max(timeout_s - MARGIN_S, 1.0),
    )
    # The place of tests and reward is another one each time, so that nothing can wait for it there.
    # Nothing is restored: the tests are in the script, and Harbor puts no other file back either.
    return {'type': 'script', 'config': {'script': script, 'timeout_s': timeout_s, 'protect': []}}


def adapted(text: str) -> tuple[str, list[str]]:
    """test.sh without what installs things, with the pytest of the sandbox; and what was changed, line by line."""
    warnings: list[str] = []
    kept: list[str] = []
    for number, line in _logical_lines(text.replace('\r\n', '\n')):
        changed = _CTRF.sub('', _uv_run(line, number, warnings))
        if _only_installs(changed):
            warnings.append(f'tests/test.sh line {number}: {_short(line)} is not run: it installs or downloads')
            changed = ':'
        elif INSTALLS.search(_without_strings(changed)) and not changed.lstrip().startswith('#'):
            warnings.append(f'tests/test.sh line {number}: {_short(line)} needs a network and will fail')
        kept.append(changed)
    return '\n'.join(kept), warnings


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers, continued ones joined."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    for number, line in enumerate(text.split('\n'), start=1):
        is_continued = line.endswith('\\') and (parts or not line.lstrip().startswith('#'))
        parts.append(line[:-1] + ' ' if is_continued else line)
        if not is_continued:
            found.append((number - len(parts) + 1, ''.join(parts)))
            parts = []
    if parts:
        found.append((text.count('\n') + 2 - len(parts), ''.join(parts)))
    return found


def _uv_run(line: str, number: int, warnings: list[str]) -> str:
    """``uvx … pytest`` and ``uv run … pytest`` as the program of the sandbox."""
    match = re.match(r'(\s*(?:if\s+|!\s*|\w+=\S+\s+)*)(uvx|uv\s+(?:run|tool\s+run))\s+(.*)$', line)
    if match is None:
        return line
    words = match[3].split()
    position = 0
    packages: list[str] = []
    while position < len(words) and words[position].startswith('-'):
        name, _, value = words[position].partition('=')
        takes_next = not value and name in _OPTION_WITH_VALUE
        if name in ('-w', '--with', '--from'):
            packages.append((value or ' '.join(words[position + 1 : position + 2])).strip('"\''))
        position += 2 if takes_next else 1
    program = words[position] if position < len(words) else ''
    bare = re.split(r'[=<>~@!\[]', program)[0]
    more = [package for package in packages if re.split(r'[=<>~!\[]', package)[0] not in _OWN_PACKAGES]
    if bare not in ('pytest', 'python', 'python3') and not program.endswith('.py'):
        return line
    if more:
        needed = ', '.join(more)
        warnings.append(f'tests/test.sh line {number}: needs {needed}: name them in pipPackages of the run')
    start = 'python3 -m pytest' if bare == 'pytest' else 'python3'
    rest = words[position:] if program.endswith('.py') else words[position + 1 :]
    return ' '.join([match[1] + start, *rest])


def _only_installs(line: str) -> bool:
    text = line.strip()
    if not text or text.startswith('#'):
        return False
    if _ACTIVATES.match(text):
        return True
    parts = [part.strip() for part in re.split(r'&&|\|\||;', text) if part.strip()]
    return all(
        INSTALLS.match(part) or re.match(r'(?:rm -rf /var/lib/apt|export\s+\w+=|true$|:$)', part) for part in parts
    ) and bool(INSTALLS.search(text))


def _without_strings(line: str) -> str:
    return re.sub(r'"[^"]*"|\'[^\']*\'', '', line)


def _short(line: str) -> str:
    text = ' '.join(line.split())
    return text if len(text) <= 70 else f'{text[:70]}…'
