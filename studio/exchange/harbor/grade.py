"""Grades the workspace in a Harbor container as the studio's checker would, and writes the reward.

This file is the tests/grade.py of an exported task. Where the checker cannot do its work it writes no reward, so that
an error is never a reward. It has none of the studio's protection against a model that cheats.
"""

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

WORK = Path(os.environ.get('WORK_DIR', '/work'))
TESTS = Path(__file__).resolve().parent
LOGS = Path(os.environ.get('LOGS_DIR', '/logs/verifier'))


def main() -> None:
    """Put the author's files back, run the checker, write the reward."""
    task = json.loads((TESTS / 'checker.json').read_text(encoding='utf-8'))
    for name, text in task['protected'].items():
        path = WORK / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode('utf-8', 'surrogatepass'))
    checker = task['checker']
    config = checker['config']
    reward = KINDS[checker['type']](config, float(config.get('timeout_s', 60)))
    if not 0.0 <= reward <= 1.0:
        raise SystemExit(f'the reward {reward} is not between 0 and 1')
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / 'reward.txt').write_text(f'{reward}\n', encoding='utf-8')


def _exit_code(config: dict[str, Any], timeout_s: float) -> float:
    code = _run(['/bin/sh', '-c', config['command']], timeout_s).returncode
    return 1.0 if code == config.get('expected_code', 0) else 0.0


def _file_exists(config: dict[str, Any], timeout_s: float) -> float:
    found = [_exists(path) for path in config['paths']]
    return sum(found) / len(found)


def _exists(path: str) -> bool:
    target = WORK / path
    if not target.resolve().is_relative_to(WORK.resolve()):
        return False
    return target.is_dir() if path.endswith('/') else target.is_file()


def _pytest(config: dict[str, Any], timeout_s: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / 'report.xml'
        options = ['-q', '-p', 'no:cacheprovider', f'--junitxml={report}']
        _run([sys.executable, '-m', 'pytest', *options, *config['test_paths']], timeout_s)
        if not report.exists():
            return 0.0
        cases = list(xml.etree.ElementTree.parse(report).getroot().iter('testcase'))
    passed = [case for case in cases if not any(child.tag in ('failure', 'error', 'skipped') for child in case)]
    return len(passed) / len(cases) if cases else 0.0


def _script(config: dict[str, Any], timeout_s: float) -> float:
    script = config['script']
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'check'
        path.write_text(script, encoding='utf-8')
        first = script.split('\n', 1)[0]
        program = first[2:].split() if first.startswith('#!') else [sys.executable]
        done = _run([*program, str(path)], timeout_s)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    try:
        said = float(lines[-1]) if lines else None
    except ValueError:
        said = None
    if done.returncode == 0:
        return 1.0 if said is None else said
    if done.returncode == 1:
        return 0.0
    raise SystemExit(f'the script ended with {done.returncode}')


def _run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(command, cwd=WORK, timeout=timeout_s, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        sys.stdout.write(f'timed out after {timeout_s:g} s\n')
        return subprocess.CompletedProcess(command, 1, '', '')
    sys.stdout.write(done.stdout + done.stderr)
    return done


KINDS = {'exit_code': _exit_code, 'file_exists': _file_exists, 'pytest': _pytest, 'script': _script}

if __name__ == '__main__':
    main()
