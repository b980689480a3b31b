"""Tasks to try the product's attacks on: one for each way a check can be written, with what solves it."""

from __future__ import annotations

from typing import Any

from tests.trainer.attack_model import ADD, RUN_PROG, RUN_PROG_OPEN, WRONG, E, F, P, exit_code, script

RESULT = {'result.txt': '42\n'}
GREP = 'grep -qx 42 result.txt'
MISSING = {**P, 'setup_files': {'tests/test_solution.py': P['setup_files']['tests/test_solution.py']}}
COMPARE = (
    "import subprocess\nout = subprocess.run(['python3', 'prog.py'], capture_output=True, text=True).stdout\n"
    "print(1.0 if out == open('expected.txt').read() else 0.0)\n"
)
IMPORT = (
    'try:\n    from solution import add\n    right = add(1, 2) == 3 and add(2, 2) == 4\n'
    'except Exception as error:\n    print(error)\n    right = False\nprint(1.0 if right else 0.0)\n'
)

BASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    'pytest': (P, {'solution.py': ADD}),
    'pytest without the module': (MISSING, {'solution.py': ADD}),
    'grep': (E, RESULT),
    'check.sh': (exit_code('sh check.sh', {'check.sh': f'{GREP}\n'}), RESULT),
    'make': (exit_code('make check', {'Makefile': f'check:\n\t@{GREP}\n'}), RESULT),
    "the candidate's make": (exit_code('make && grep -qx 42 out.txt'), {'Makefile': 'all:\n\techo 42 > out.txt\n'}),
    'login shell': (exit_code(f"bash -lc '{GREP}'"), RESULT),
    'two programs': (exit_code(f'{GREP} && python3 -c "pass"'), RESULT),
    'python3 -c': (
        exit_code("""python3 -c 'import json,sys; sys.exit(json.load(open("r.json"))["n"] != 42)'"""),
        {'r.json': '{"n": 42}'},
    ),
    'check.py': (
        exit_code('python3 check.py', {'check.py': 'import json\nassert json.load(open("r.json"))["n"] == 42\n'}),
        {'r.json': '{"n": 42}'},
    ),
    'python3 -m check': (
        exit_code('python3 -m check', {'check.py': 'assert open("result.txt").read() == "42\\n"\n'}),
        RESULT,
    ),
    'diff': (
        exit_code('python3 prog.py > out.txt && diff out.txt expected.txt', {'expected.txt': '42\n'}),
        {'prog.py': 'print(42)\n'},
    ),
    'another exit code': (exit_code('grep -q 42 result.txt && exit 1; exit 2', expected_code=1), RESULT),
    'file': (F, {'out/report.txt': 'x'}),
    'script runs a program': (script(RUN_PROG), {'prog.py': 'print(42)\n'}),
    'script lets a program print': (
        script(RUN_PROG_OPEN),
        {'prog.py': 'print(0.3)\nopen("done.txt", "w").close()\n'},
    ),
    'script compares': (script(COMPARE, {'expected.txt': '42\n'}), {'prog.py': 'print(42)\n'}),
    'script imports': (script(IMPORT, {'solution.py': WRONG}), {'solution.py': ADD}),
    'script reads': (
        script(
            'import json, os\nr = json.load(open("r.json")) if os.path.isfile("r.json") else {}\n'
            'print(1.0 if r.get("n") == 42 else 0.0)\n'
        ),
        {'r.json': '{"n": 42}'},
    ),
}

EARNS_NOTHING = frozenset(
    [
        'exit-at-import',
        'sys-exit-at-import',
        'exit-in-call',
        'sys-exit-in-call',
        'equal-object',
        'equal-int',
        'equal-text',
        'mock-any',
        'approx-all',
        'equal-to-numbers',
        'equal-to-small',
        'equal-to-first',
        'skip-in-call',
        'xfail-in-call',
        'patched-reports',
        'record-by-hand',
        'frame',
        'frame-traceback',
        'frame-generator',
        'frame-logging',
        'frame-inspect',
        'frame-false-name',
        'endless-loop',
        'kills-checker',
        'record-descriptors',
        'garbage',
        'ctypes',
        'tests-code',
        'patched-runner',
        'own-memory',
        'audit-hook',
        'trace',
    ]
)
"""Attacks on the pytest task that earn 0, though one of its four tests wants the number they return."""
