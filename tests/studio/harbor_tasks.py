"""Harbor tasks for tests: some of ours, one of somebody else in the newest schema, and a plain one in the oldest."""

from __future__ import annotations

from typing import Any

from studio.exchange.archive import pack
from studio.exchange.formats import read_all
from studio.exchange.pool import Found, Incoming
from trainer.task import TaskFile, parse_task


def step(tool: str, **args: str) -> dict[str, Any]:
    return {'tool': tool, 'args': args}


def full(title: str, checker: dict[str, Any], *steps: dict[str, Any], **spec: Any) -> TaskFile:
    solutions = [{'kind': 'reference', 'steps': list(steps)}, {'kind': 'wrong', 'name': 'nothing'}]
    raw = {
        'title': title,
        'topics': ['a "b"', 'ü'],
        'solutions': solutions,
        'notes': "line\r\nit's",
        'task_spec': {'prompt': 'Do {it} as $HOME says: 100 %\r\n', 'checker': checker, **spec},
    }
    return parse_task(raw)[0]


OURS = [
    full(
        'Greet: Übung/../1',
        {'type': 'exit_code', 'config': {'command': 'grep -qx "it\'s" out/a.txt', 'expected_code': 0}},
        step('write_file', path='out/a.txt', content="it's"),
        max_steps=3,
        setup_commands=['printf \'%s\\n\' "$PWD"\ntrue'],
    ),
    full(
        'Files',
        {'type': 'file_exists', 'config': {'paths': ['a.txt', 'd/'], 'timeout_s': 5}},
        step('run_command', command='touch a.txt; mkdir d'),
    ),
    full(
        'Tests',
        {'type': 'pytest', 'config': {'test_paths': ['tests/test_add.py']}},
        step('write_file', path='solution.py', content='def add(a, b):\n    return a + b\n'),
        setup_files={
            'tests/test_add.py': 'from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n',
            'run.sh': '#!/bin/sh\necho hi\n',
            'solution.py': 'add = None\n',
        },
    ),
    full(
        'Script',
        {'type': 'script', 'config': {'script': "print(open('n.txt').read().count('x') / 4)", 'protect': []}},
        step('run_command', command='printf xxxx > n.txt'),
        step('read_file', path='n.txt'),
        step('list_dir', path='.'),
    ),
    full(
        'Shell script',
        {'type': 'script', 'config': {'script': '#!/bin/bash\n[[ -f a ]]\n'}},
        step('run_command', command='touch a'),
    ),
]


def zipped(files: dict[str, str | bytes]) -> Found:
    entries = [(name, data.encode() if isinstance(data, str) else data, 0o644) for name, data in files.items()]
    (found,) = read_all([Incoming('task.zip', pack(entries))]).found
    return found


OTHERS: dict[str, str | bytes] = {
    'tasks/word-count/task.toml': """\
schema_version = "1.4"
source = "somebody/else"
artifacts = [{ source = "/app/count.json", destination = "count.json" }]

[task]
name = "acme/word-count"
version = "2.1.0"
description = "Count words of a text"
authors = [{ name = "A. Author", email = "a@example.invalid" }]
keywords = ["text", "python"]

[metadata]
category = "scripting"
difficulty = "easy"

[agent]
timeout_sec = 900.0
network_mode = "no-network"

[verifier]
timeout_sec = 90.0
environment_mode = "separate"
env = { EXPECTED = "3", TOKEN = "${HOST_TOKEN}" }

[solution]
env = { ANSWER = "3" }

[environment]
build_timeout_sec = 600.0
cpus = 2
memory_mb = 4096
storage_mb = 10240
network_mode = "allowlist"
allowed_hosts = ["pypi.org"]
workdir = "/app"
""",
    'tasks/word-count/instruction.md': '# Words\n\nCount the words of /app/data/text.txt into `/app/count.txt`.\n',
    'tasks/word-count/environment/Dockerfile': """\
FROM python:3.13-slim AS base
# what the task needs
RUN apt-get update && \\
    apt-get install -y --no-install-recommends jq \\
    && rm -rf /var/lib/apt/lists/*
ENV LIMIT=10 PYTHONUNBUFFERED=1
WORKDIR /app
COPY data/ ./data/
COPY --chmod=755 count.sh /app/bin/
COPY etc.conf /etc/thing.conf
RUN mkdir -p /app/out && echo ready > /app/out/state
RUN useradd agent
CMD ["sleep", "infinity"]
""",
    'tasks/word-count/environment/data/text.txt': 'one two three\n',
    'tasks/word-count/environment/count.sh': '#!/bin/bash\nwc -w < /app/data/text.txt\n',
    'tasks/word-count/environment/etc.conf': 'x',
    'tasks/word-count/tests/test.sh': """\
#!/bin/bash
apt-get update && apt-get install -y curl
curl -LsSf https://example.invalid/uv/install.sh | sh
source $HOME/.local/bin/env

uvx \\
  -p 3.13 \\
  -w pytest==8.4.1 \\
  -w pytest-json-ctrf==0.3.5 \\
  pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
""",
    'tasks/word-count/tests/test_outputs.py': """\
import json, os
from pathlib import Path

def test_count():
    expected = json.loads(Path('/tests/expected.json').read_text())['count']
    assert Path('/app/count.txt').read_text().strip() == str(expected) == os.environ['EXPECTED']
    assert Path('/tests/logo.png').read_bytes()[1:4] == b'PNG'
""",
    'tasks/word-count/tests/expected.json': '{"count": 3}',
    'tasks/word-count/tests/logo.png': b'\x89PNG\r\n\x1a\n\xff',
    'tasks/word-count/solution/solve.sh': '#!/bin/bash\nset -e\n. /solution/lib.sh\ncount > /app/count.txt\n',
    'tasks/word-count/solution/lib.sh': 'count() { bash /app/bin/count.sh | tr -d " "; [[ $ANSWER == 3 ]]; }\n',
    'README.md': 'A data set',
}


def plain(**files: str | bytes) -> dict[str, str | bytes]:
    base: dict[str, str | bytes] = {
        'task.toml': 'version = "1.0"\n[metadata]\ntags = ["t"]\n[environment]\nmemory = "4G"\nallow_internet = true\n',
        'instruction.md': 'Do it',
        'environment/Dockerfile': 'FROM ubuntu:24.04\nWORKDIR /app\n',
        'tests/test.sh': 'true',
    }
    return {name: data for name, data in {**base, **files}.items() if data is not None}
