"""Harbor task folders: written and read back whole, and read from other hands so that they work here."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from harbor_tasks import OTHERS, OURS, step, zipped
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in import task

from studio.exchange.archive import pack
from studio.exchange.formats import read_all, read_paths, writer
from studio.exchange.harbor.dockerfile import parse
from studio.exchange.harbor.write import folder_files
from studio.exchange.pool import Incoming
from trainer.attempt import attempt
from trainer.certify import certify
from trainer.task import Solution, TaskFile, parse_task

ROOT = Path(__file__).parents[2]


def unzip(data: bytes, folder: Path) -> Path:
    shutil.unpack_archive(_saved(data, folder), folder / 'out')
    return folder / 'out'


def _saved(data: bytes, folder: Path) -> Path:
    path = folder / 'tasks.zip'
    path.write_bytes(data)
    return path


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


def test_samples_survive_the_way_through_harbor() -> None:
    lines = (ROOT / 'assets' / 'tasks' / 'tutorial-train.jsonl').read_text(encoding='utf-8').splitlines()[:3]
    tasks = [parse_task(json.loads(line))[0] for line in lines] + [task(1)]
    found = read_all([Incoming('x.zip', writer('harbor').write(tasks))]).found  # type: ignore[arg-type]
    assert sorted(str(one.task) for one in found) == sorted(str(one) for one in tasks)


TEXTS = st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\0'), max_size=80)
WORDS = TEXTS.filter(lambda text: bool(text.strip()))


@settings(max_examples=60, deadline=None)
@given(prompt=WORDS, title=TEXTS, text=TEXTS, topic=WORDS, command=WORDS)
def test_any_text_survives_the_way_through_harbor(prompt: str, title: str, text: str, topic: str, command: str) -> None:
    checker = {'type': 'exit_code', 'config': {'command': command}}
    spec = {'prompt': prompt, 'setup_files': {'a/b.txt': text}, 'setup_commands': [command], 'checker': checker}
    solution = {'kind': 'reference', 'files': {'c': text}, 'steps': [step('run_command', command=command)]}
    one = parse_task({'title': title, 'topics': [topic], 'task_spec': spec, 'solutions': [solution], 'notes': text})[0]
    data = writer('harbor').write([one])
    assert isinstance(data, bytes)
    (found,) = read_all([Incoming('x.zip', data)]).found
    assert found.task == one and not found.warnings
    folder = folder_files(one, 'x')
    assert tomllib.loads(folder['task.toml'].decode())['task']['description'] == title
    folder['solution/solve.sh'] += b'# changed\n'
    assert zipped(folder).task is not None
