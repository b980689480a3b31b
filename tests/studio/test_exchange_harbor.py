"""Harbor task folders: written and read back whole, read from other hands, and told what cannot be carried over."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from stand_in import task

from studio.exchange.archive import pack
from studio.exchange.formats import read_all, read_paths, writer
from studio.exchange.harbor.dockerfile import parse, read_dockerfile
from studio.exchange.harbor.verifier import adapted
from studio.exchange.harbor.write import folder_files
from studio.exchange.pool import Found, Incoming
from trainer.attempt import attempt
from trainer.certify import certify
from trainer.task import Solution, TaskFile, parse_task

ROOT = Path(__file__).parents[2]


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


def unzip(data: bytes, folder: Path) -> Path:
    shutil.unpack_archive(_saved(data, folder), folder / 'out')
    return folder / 'out'


def _saved(data: bytes, folder: Path) -> Path:
    path = folder / 'tasks.zip'
    path.write_bytes(data)
    return path


def zipped(files: dict[str, str | bytes]) -> Found:
    entries = [(name, data.encode() if isinstance(data, str) else data, 0o644) for name, data in files.items()]
    (found,) = read_all([Incoming('task.zip', pack(entries))]).found
    return found


def test_five_tasks_come_back_whole_from_a_zip_and_from_folders(tmp_path: Path) -> None:
    data = writer('harbor').write(OURS)
    assert isinstance(data, bytes) and data == writer('harbor').write(OURS)
    for reading in (read_all([Incoming('x.zip', data)]), read_paths([unzip(data, tmp_path)])):
        by_title = {found.task.title: found for found in reading.found if found.task}
        assert {title: found.task for title, found in by_title.items()} == {one.title: one for one in OURS}
        assert not any(found.warnings for found in by_title.values()) and not reading.skipped
    assert sorted(path.name for path in (tmp_path / 'out').iterdir()) == [
        'files',
        'greet-ubung-1',
        'script',
        'shell-script',
        'tests',
    ]


@pytest.mark.parametrize('ours', OURS, ids=lambda one: one.title)
def test_what_is_written_is_harbors_and_grades_there(ours: TaskFile, tmp_path: Path) -> None:
    """The folder without Docker: environment/ as the workspace, solve.sh, then tests/test.sh."""
    files = folder_files(ours, 'name')
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    settings = tomllib.loads(files['task.toml'].decode())
    assert (settings['schema_version'], settings['task']['keywords']) == ('1.4', ['a "b"', 'ü'])
    assert files['instruction.md'] == ours.task_spec.prompt.encode()
    assert parse(files['environment/Dockerfile'].decode())[0].word == 'FROM'
    work = tmp_path / 'environment' / 'workspace'
    work.mkdir(exist_ok=True)

    def reward() -> float:
        env = {**os.environ, 'WORK_DIR': str(work), 'LOGS_DIR': str(tmp_path / 'logs')}
        subprocess.run([sys.executable, tmp_path / 'tests' / 'grade.py'], env=env, check=True, timeout=60)
        return float((tmp_path / 'logs' / 'reward.txt').read_text(encoding='utf-8'))

    assert reward() < 1.0
    solve = (tmp_path / 'solution' / 'solve.sh').read_text(encoding='utf-8').replace('cd /work', f'cd {work}')
    subprocess.run(['bash', '-c', solve], check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert reward() == 1.0


def test_what_the_certificate_attacks_does_not_pay(tmp_path: Path) -> None:
    found = zipped({name.removeprefix('tasks/word-count/'): data for name, data in OTHERS.items() if name[0] == 't'})
    assert found.task is not None
    certificate = certify(found.task, home=tmp_path, repeats=2)
    assert certificate.state == 'certified', certificate.failed


def test_a_part_that_was_changed_is_read_from_harbors_files() -> None:
    files = folder_files(OURS[2], 'name')
    changed = zipped({**files, 'instruction.md': 'Another prompt\n'})
    assert changed.task is not None
    assert changed.task.task_spec.prompt == 'Another prompt\n'
    assert changed.task.task_spec.checker == OURS[2].task_spec.checker and changed.task.solutions == OURS[2].solutions
    assert 'instruction.md changed since the export' in changed.warnings[0]
    files['environment/workspace/more.txt'] = b'more'
    more = zipped(files)
    assert more.task is not None and more.task.task_spec.setup_files == {
        **OURS[2].task_spec.setup_files,
        'more.txt': 'more',
    }
    broken = zipped({**folder_files(OURS[0], 'n'), 'rlvr.json': '{"format": 1'})
    assert broken.task is not None and broken.task.task_spec.checker.type == 'script'
    assert 'rlvr.json cannot be read' in ' '.join(broken.warnings)


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


def test_a_task_from_other_hands_in_the_newest_schema_works_here(tmp_path: Path) -> None:
    reading = read_all(
        [Incoming('set.zip', pack([(n, d.encode() if isinstance(d, str) else d, 0o644) for n, d in OTHERS.items()]))]
    )
    (found,) = reading.found
    assert found.task is not None, found.errors
    spec = found.task.task_spec
    assert (found.task.title, found.task.topics) == ('word-count', ('text', 'python', 'scripting', 'easy'))
    assert spec.prompt == '# Words\n\nCount the words of /work/data/text.txt into `/work/count.txt`.\n'
    assert set(spec.setup_files) == {'data/text.txt', 'bin/count.sh'}
    assert spec.setup_commands == ('mkdir -p /work/out && echo ready > /work/out/state',)
    assert spec.checker.config.timeout_s == 90
    assert reading.skipped == ('README.md',)
    said = '\n'.join(found.warnings)
    for part in (
        'Dockerfile line 3: RUN apt-get update',
        'Dockerfile line 6: ENV LIMIT=10',
        'line 10: COPY etc.conf /etc/thing.conf',
        'line 12: RUN useradd agent',
        'test.sh line 2',
        'test.sh line 3',
        'test.sh line 4',
        'memory: 4096 MB',
        'storage: 10240 MB',
        'pypi.org',
        'separate verifier',
        'agent.timeout_sec 900',
        'verifier.env: TOKEN',
        'instruction.md: /app became /work in 2 places',
        'certify',
    ):
        assert part in said, (part, said)
    assert attempt(spec, home=tmp_path).verdict.reward == 0.0
    (reference,) = found.task.solutions
    verdict = attempt(spec, reference, home=tmp_path).verdict
    assert verdict.reward == 1.0, verdict
    forged = 'mkdir -p /tmp/harbor/logs/verifier; echo 1 > /tmp/harbor/logs/verifier/reward.txt; echo 4 > count.txt'
    cheat = Solution.model_validate({'kind': 'wrong', 'steps': [step('run_command', command=forged)]})
    assert attempt(spec, cheat, home=tmp_path).verdict.reward == 0.0


def test_what_runs_on_after_the_tests_cannot_write_the_reward(tmp_path: Path) -> None:
    files = {name.removeprefix('tasks/word-count/'): data for name, data in OTHERS.items() if name != 'README.md'}
    files['tests/test.sh'] = 'bash ./answer.sh; cp $TEST_DIR/expected.json .\necho 0.25 > /logs/verifier/reward.txt\n'
    found = zipped(files)
    assert found.task is not None
    late = 'for i in $(seq 200); do echo 1 > /tmp/harbor/logs/verifier/reward.txt; sleep 0.01; done'
    answer = f"(setsid bash -c '{late}' &) >/dev/null 2>&1\n"
    solution = Solution.model_validate({'kind': 'wrong', 'files': {'answer.sh': answer}})
    assert attempt(found.task.task_spec, solution, home=tmp_path).verdict.reward == 0.25


def plain(**files: str | bytes) -> dict[str, str | bytes]:
    base: dict[str, str | bytes] = {
        'task.toml': 'version = "1.0"\n[metadata]\ntags = ["t"]\n[environment]\nmemory = "4G"\nallow_internet = true\n',
        'instruction.md': 'Do it',
        'environment/Dockerfile': 'FROM ubuntu:24.04\nWORKDIR /app\n',
        'tests/test.sh': 'true',
    }
    return {name: data for name, data in {**base, **files}.items() if data is not None}


def test_the_oldest_schema_is_read() -> None:
    found = zipped(plain())
    assert found.task is not None and found.task.topics == ('t',)
    assert {'memory: 4096 MB asked for, a sandbox has 2048 MB'} <= set(found.warnings)
    assert any('a sandbox has no network' in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ('files', 'loc', 'message'),
    [
        ({'task.toml': 'a = ['}, 'task.toml', 'cannot be read'),
        ({'task.toml': b'\xff'}, 'task.toml', 'not UTF-8'),
        ({'task.toml': 'agent = 3'}, 'task.toml', 'must be a table'),
        ({'task.toml': '[[steps]]\nname = "a"'}, 'task.toml', '1 steps'),
        ({'task.toml': '[environment]\nos = "windows"'}, 'task.toml', 'needs windows'),
        ({'task.toml': '[environment]\ngpus = 2'}, 'task.toml', 'needs 2 GPU'),
        ({'task.toml': '[environment]\nmcp_servers = [{name = "a"}]'}, 'task.toml', 'MCP'),
        ({'task.toml': '[[verifier.collect]]\ncommand = "x"'}, 'task.toml', 'verifier.collect'),
        ({'instruction.md': b'\xff'}, 'instruction.md', 'not UTF-8'),
        ({'instruction.md': ' \n'}, 'task_spec.prompt', 'what the model should do'),
        ({'environment/docker-compose.yaml': 'services: {}'}, 'environment/docker-compose.yaml', 'several containers'),
        (
            {'environment/Dockerfile': 'FROM ubuntu\nWORKDIR /app\nCOPY . .\n', 'environment/x.bin': b'\xff\0'},
            'environment/x.bin',
            'not UTF-8',
        ),
    ],
)
def test_what_a_sandbox_cannot_be_is_refused_with_its_file(files: dict[str, Any], loc: str, message: str) -> None:
    found = zipped(plain(**files))
    assert found.task is None and message.lower() in {error.loc: error.msg.lower() for error in found.errors}.get(
        loc, ''
    )


@pytest.mark.parametrize('gone', ['task.toml', 'instruction.md', 'tests/test.sh'])
def test_missing_files_are_named(gone: str) -> None:
    files = plain()
    del files[gone]
    found = zipped(files)
    assert found.task is None and gone in {error.loc for error in found.errors}


def test_parts_of_a_folder_say_to_zip_the_whole() -> None:
    (row,) = read_all([Incoming('task.toml', b'version = "1.0"')]).found
    assert 'zip the whole folder' in row.errors[0].msg
    assert 'Terminal-Bench 1' in zipped({'old/task.yaml': 'instruction: x'}).errors[0].msg


def test_a_task_with_a_refused_entry_is_refused() -> None:
    data = pack(
        [(name, str(text).encode(), 0o644) for name, text in plain().items()] + [('environment/../../x', b'', 0o644)]
    )
    rows = read_all([Incoming('t.zip', data)]).found
    assert [row.task for row in rows] == [None, None]
    assert 'remove ../' in rows[1].errors[0].msg


def test_dockerfiles_are_read_as_docker_would() -> None:
    text = (
        'FROM gcc AS b\nRUN make\nFROM ubuntu\nWORKDIR /srv/x\nWORKDIR app\nCOPY --from=b /o /srv/x/app/o\n'
        'COPY ["a b.txt", "c.txt"]\nCOPY *.py src/\nCOPY one.txt two.txt\nRUN ["touch", "it is"]\n'
        'COPY <<EOF note.txt\nhello\nEOF\nRUN <<EOF\necho 1\necho 2\nEOF\nADD https://example.invalid/x /srv/x/app/\n'
        'RUN cat /etc/passwd > p\nUSER me\nENTRYPOINT ["/start"]\n'
    )
    build = read_dockerfile(text, {'a b.txt': b'', 'x.py': b'', 'sub/y.py': b'', 'one.txt': b''})
    assert build.root == '/srv/x/app'
    assert build.files == {'c.txt': 'a b.txt', 'src/x.py': 'x.py', 'two.txt': 'one.txt'}
    assert build.texts == {'note.txt': 'hello\n'}
    assert build.commands == ["touch 'it is'", 'echo 1\necho 2']
    said = '\n'.join(build.warnings)
    for part in (
        '1 earlier build stages',
        'line 6',
        'line 18: ADD https',
        'line 19',
        'line 20: USER',
        'line 21: ENTRYPOINT',
    ):
        assert part in said, (part, said)


def test_lines_that_need_a_network_are_taken_out_or_named() -> None:
    text, said = adapted(
        'pip install x\nfoo && pip install y\nuv run --with rich pytest -q /tests/t.py\n# apt-get\necho "pip"\n'
    )
    assert text.split('\n')[:3] == [':', 'foo && pip install y', 'python3 -m pytest -q /tests/t.py']
    assert ['line 1' in said[0], 'line 2' in said[1] and 'will fail' in said[1], 'needs rich' in said[2]] == [True] * 3
    assert len(said) == 3
    assert adapted('cd /app\nbash run.sh\n') == ('cd /app\nbash run.sh\n', [])


def test_samples_survive_the_way_through_harbor() -> None:
    lines = (ROOT / 'assets' / 'tasks' / 'tutorial-train.jsonl').read_text(encoding='utf-8').splitlines()[:3]
    tasks = [parse_task(json.loads(line))[0] for line in lines] + [task(1)]
    found = read_all([Incoming('x.zip', writer('harbor').write(tasks))]).found  # type: ignore[arg-type]
    assert sorted(str(one.task) for one in found) == sorted(str(one) for one in tasks)
