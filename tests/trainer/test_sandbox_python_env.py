"""The Python environment inside sandboxes: built once by whoever comes first, complete, and apart from the studio's."""

import os
import shutil
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

from trainer.errors import SandboxError
from trainer.sandbox import SandboxSpec, open_sandbox, python_env
from trainer.sandbox.python_env import base_environment, sandbox_interpreter


@pytest.fixture(scope='module')
def home():
    """A home that is closed to everybody else, as /root is."""
    folder = tempfile.mkdtemp(prefix='rlvr-home-')
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture(params=['bubblewrap', 'unsafe'])
def sandbox(request, home):
    environment = base_environment(home)
    spec = SandboxSpec(mounts=environment.mounts, path_prefix=environment.path_prefix)
    with open_sandbox(spec, isolation=request.param) as made:
        yield made


def test_python_and_pytest_work(sandbox):
    sandbox.write_file(
        'test_a.py', b'import calc\ndef test_a(): assert calc.one == 1\ndef test_b(): assert [1] == [2]\n'
    )
    sandbox.write_file('calc.py', b'one = 1\n')
    for command in ('python3 -m pytest -q', 'python -m pytest -q'):
        done = sandbox.run(command)
        assert done.exit_code == 1, done.text
        assert '1 failed, 1 passed' in done.text
        assert 'At index 0 diff: 1 != 2' in done.text
    done = sandbox.run('pytest -q --rootdir . -o pythonpath=.')
    assert '1 failed, 1 passed' in done.text, done.text


def test_nothing_of_the_studio_is_in_it(sandbox):
    code = (
        'import importlib.util as u, sys; print([n for n in ("torch", "nicegui", "pydantic", "pip") if u.find_spec(n)])'
    )
    assert sandbox.run(['python3', '-c', code]).text == '[]\n'
    done = sandbox.run('python3 -c "import pytest; print(pytest.__version__)"; command -v python3 pytest')
    assert done.text.split()[0] == metadata.version('pytest')
    assert done.text.split()[1].endswith('/bin/python3')


def test_the_paths_it_names_are_right(home):
    environment = base_environment(home)
    with open_sandbox(SandboxSpec(mounts=environment.mounts)) as sandbox:
        code = 'import sys; print(sys.prefix, *sys.version_info[:2])'
        shown = sandbox.run([environment.python, '-I', '-c', code]).text.split()
        assert shown == ['/opt/rlvr/env', *map(str, sandbox_interpreter().version)]
        assert sandbox.run(['ls', f'{environment.site_packages}/_pytest/__init__.py']).exit_code == 0
        # Compiled beforehand, for the paths at which it is seen: starting pytest must not cost a compilation each time.
        code = 'import _pytest.config as c; print(c.__cached__); print(c.main.__code__.co_filename)'
        cached, source = sandbox.run([environment.python, '-c', code]).text.split()
        assert sandbox.run(['test', '-f', cached]).exit_code == 0
        assert source == f'{environment.site_packages}/_pytest/config/__init__.py'
        assert sandbox.run('touch /opt/rlvr/env/x').exit_code != 0


def test_many_builders_at_once_make_one(tmp_path, monkeypatch):
    dead = tmp_path / 'envs' / '.draft-4194305-77-0123456789ab'
    dead.mkdir(parents=True)
    with ThreadPoolExecutor(3) as pool:
        made = set(pool.map(lambda _: base_environment(tmp_path), range(3)))
    assert len(made) == 1
    (folder,) = (place for place in (tmp_path / 'envs').iterdir() if not place.name.startswith('.lock-'))
    assert made.pop().mounts[-1].source == folder
    modes = [stat.S_IMODE(place.stat().st_mode) for place in folder.rglob('*') if not place.is_symlink()]
    assert all(mode & 0o444 == 0o444 for mode in modes)


def test_an_old_system_python_is_passed_over(monkeypatch):
    monkeypatch.setattr(python_env, 'SYSTEM_PYTHON', Path('/nonexistent/python3'))
    sandbox_interpreter.cache_clear()
    try:
        chosen = sandbox_interpreter()
    finally:
        monkeypatch.undo()
        sandbox_interpreter.cache_clear()
    assert os.access(chosen.path, os.X_OK)
    assert chosen.version >= (3, 11)


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(python_env, '_BASE_PACKAGES', ('no-such-package',))
    with pytest.raises(SandboxError, match='no-such-package is missing') as caught:
        base_environment(tmp_path)
    assert 'pip install' in caught.value.hint
    assert not (tmp_path / 'envs').exists()


def test_a_home_that_cannot_be_written(tmp_path):
    (tmp_path / 'envs').write_text('in the way', encoding='utf-8')
    with pytest.raises(SandboxError, match='cannot be built'):
        base_environment(tmp_path)
