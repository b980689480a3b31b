"""The rules that keep the shape of the house: who may import whom, what is loaded when, how large a file gets."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HEAVY = ('torch', 'transformers', 'trl', 'peft', 'accelerate', 'datasets')
MAX_LINES = 400
LIGHT = (
    'errors', 'validation', 'paths', 'verdict', 'task', 'tools', 'attempt', 'config', 'manifest', 'events',
    'runfolder', 'models', 'recording', 'requirements', 'statistics', 'sandbox', 'sandbox.probe', 'checkers',
    'checkers.grading',
)  # fmt: skip
SOURCES = sorted(
    path
    for folder in ('trainer', 'studio')
    for path in (ROOT / folder).rglob('*.py')
    if '__pycache__' not in path.parts
)


def _loaded(code: str) -> list[str]:
    """Heavy modules in ``sys.modules`` after some code has run in a fresh process."""
    done = subprocess.run(
        [sys.executable, '-c', f'{code}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded: list[str] = ast.literal_eval(done.stdout.splitlines()[-1])
    return loaded


def test_the_light_half_of_the_trainer_loads_nothing_heavy() -> None:
    assert _loaded('\n'.join(f'import trainer.{name}' for name in LIGHT)) == []


def test_a_running_studio_never_loads_the_training_stack(tmp_path: Path) -> None:
    code = (
        f'import os; os.environ["NICEGUI_STORAGE_PATH"] = {str(tmp_path)!r}\n'
        'import studio.app, studio.services, studio.cli, studio.cli.commands.machine, studio.cli.commands.training\n'
        'import studio.ui.layout, studio.ui.pages\n'
        'from pathlib import Path\nfrom studio.services import Studio\nfrom studio.settings import Settings\n'
        'from studio.documents.samples import load_tutorial, templates\n'
        f'studio = Studio(Settings(home=Path({str(tmp_path)!r})))\nstudio.start()\n'
        'train, held_out = load_tutorial(studio.documents)\ntemplates()\n'
        'studio.runs.create("x", "starter", {}, train, held_out)\n'
        'studio.playground.close(studio.playground.open(studio.documents.get(train[0]).draft))\nstudio.stop()'
    )
    assert _loaded(code) == []


def test_imports_go_one_way() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name('lint-imports')), '--no-cache'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('path', SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding='utf-8')
    assert len(text.splitlines()) <= MAX_LINES
    assert ast.get_docstring(ast.parse(text)), 'the file does not open with a sentence saying what it is'
    assert path.stem not in ('utils', 'helpers', 'manager', 'core')
