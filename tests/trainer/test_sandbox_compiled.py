"""Modules shown in sandboxes have bytecode for the Python there, whatever the studio's own Python has left."""

import os
import subprocess
from pathlib import Path

from trainer.sandbox.compiled import compiled
from trainer.sandbox.python_env import sandbox_interpreter


def modules(folder: Path) -> Path:
    folder.mkdir()
    (folder / '__init__.py').write_text('', encoding='utf-8')
    (folder / 'one.py').write_text('NUMBER = 1\n', encoding='utf-8')
    return folder


def came_from(folder: Path) -> str:
    code = f'import sys; sys.path.insert(0, {str(folder.parent)!r}); from inside import one; print(one.__spec__.cached)'
    command = [sandbox_interpreter().path, '-I', '-S', '-B', '-v', '-c', code]
    return subprocess.run(command, capture_output=True, text=True, env={}, check=True).stderr


def test_a_folder_without_bytecode_is_shown_by_a_compiled_copy(tmp_path: Path) -> None:
    folder = modules(tmp_path / 'inside')
    copy = compiled(folder, sandbox_interpreter(), '/shown/inside')
    assert copy != folder
    assert not (folder / '__pycache__').exists()
    assert 'one.cpython' in came_from(copy)
    assert 'bytecode is stale' not in came_from(copy)
    assert compiled(folder, sandbox_interpreter(), '/shown/inside') == copy


def test_a_folder_is_shown_itself_where_its_bytecode_fits(tmp_path: Path) -> None:
    folder = modules(tmp_path / 'inside')
    subprocess.run([sandbox_interpreter().path, '-I', '-m', 'compileall', '-q', str(folder)], check=True, env={})
    assert compiled(folder, sandbox_interpreter(), '/shown/there') == folder


def test_stale_bytecode_does_not_fit(tmp_path: Path) -> None:
    folder = modules(tmp_path / 'inside')
    subprocess.run([sandbox_interpreter().path, '-I', '-m', 'compileall', '-q', str(folder)], check=True, env={})
    os.utime(folder / 'one.py', (1000, 1000))
    copy = compiled(folder, sandbox_interpreter(), '/shown/elsewhere')
    assert copy != folder
    assert 'bytecode is stale' not in came_from(copy)
