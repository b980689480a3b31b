"""Packages of a run: installed once by pip into an environment for sandboxes, from an index on this disk."""

import hashlib
import threading
import zipfile
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer.attempt import attempt
from trainer.errors import PackagesFailed
from trainer.sandbox import SandboxSpec, open_sandbox, packages
from trainer.sandbox.packages import InstallStopped
from trainer.sandbox.python_env import base_environment, package_environment
from trainer.task import Solution, parse_task


def wheel(folder: Path, name: str, version: str, *, needs: str = '', files: dict[str, str] = {}) -> None:  # noqa: B006
    """Write a wheel with a module, a program and what else is given."""
    info = f'{name}-{version}.dist-info'
    content = {
        f'{name}.py': f'version = {version!r}\n\ndef main():\n    print({name!r}, version)\n',
        f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'
        + (f'Requires-Dist: {needs}\n' if needs else ''),
        f'{info}/WHEEL': 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
        f'{info}/entry_points.txt': f'[console_scripts]\n{name}-say = {name}:main\npython3 = {name}:main\n',
        **files,
    }
    rows = [
        f'{path},sha256={urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()},{len(text)}'
        for path, text in content.items()
    ]
    with zipfile.ZipFile(folder / f'{name}-{version}-py3-none-any.whl', 'w') as archive:
        for path, text in content.items():
            archive.writestr(path, text)
        archive.writestr(f'{info}/RECORD', '\n'.join([*rows, f'{info}/RECORD,,', '']))


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('packages-home')


@pytest.fixture(scope='module')
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('index')
    wheel(folder, 'rlvrdemo', '1.0')
    wheel(folder, 'rlvrdemo', '2.0', files={'rlvrdemo_old/two.py': 'print "no python 3"\n'})
    wheel(folder, 'rlvrneedy', '1.0', needs='rlvrdemo<2')
    (folder / 'rlvrsource-1.0.tar.gz').write_bytes(b'a source package, never opened')
    return folder


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    """Point pip to the folder by its own settings."""
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(index))


def test_it_is_the_python_of_sandboxes_with_pytest_beside_it(home: Path) -> None:
    said: list[str] = []
    environment = package_environment(home, ('rlvrdemo==2.0',), report=said.append)
    spec = SandboxSpec(mounts=environment.mounts, path_prefix=environment.path_prefix)
    with open_sandbox(spec) as sandbox:
        sandbox.write_file('test_a.py', b'import rlvrdemo\n\ndef test_a():\n    assert rlvrdemo.version == "2.0"\n')
        assert '1 passed' in sandbox.run('python3 -m pytest -q').text
        assert sandbox.run('rlvrdemo-say').text == 'rlvrdemo 2.0\n'  # a program of a package finds its interpreter
        assert sandbox.run('python3 -c "print(1)"').text == '1\n'  # and takes nobody's place
        assert sandbox.run('touch /opt/rlvr/env/x').exit_code != 0
    assert 'rlvrdemo==2.0' in environment.packages
    assert said[0] == 'Installing 1 package for sandboxes'
    assert 'rlvrdemo==2.0' in said[1]
    with pytest.raises(ImportError):
        import rlvrdemo  # noqa: F401


def test_a_set_is_installed_once_whatever_its_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = package_environment(home, ('rlvrneedy', 'rlvrdemo'))
    assert {'rlvrdemo==1.0', 'rlvrneedy==1.0'} <= set(first.packages)
    monkeypatch.setattr(packages, 'LIMIT_S', -1.0)
    assert package_environment(home, ('rlvrdemo', 'rlvrneedy')) == first
    with pytest.raises(PackagesFailed, match='within -1 s'):
        package_environment(home, ('rlvrdemo',))
    assert package_environment(home, ()) == base_environment(home)


@pytest.mark.parametrize(
    ('lines', 'said', 'hint'),
    [
        (('rlvrdemo==3.0',), 'from versions: 1.0, 2.0', 'names and versions'),
        (('rlvr-no-such-package',), 'No matching distribution found', 'names and versions'),
        (('rlvrsource',), 'No matching distribution found', 'source package'),
        (('rlvrneedy', 'rlvrdemo==2.0'), 'rlvrneedy 1.0 depends on rlvrdemo<2', 'Loosen'),
        (('pytest<5',), 'conflicting dependencies', 'the checkers bring pytest=='),
    ],
)
def test_pip_says_why_and_nothing_is_left(home: Path, lines: tuple[str, ...], said: str, hint: str) -> None:
    before = {place.name for place in (home / 'envs').iterdir() if not place.name.startswith('.lock-')}
    with pytest.raises(PackagesFailed) as caught:
        package_environment(home, lines)
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert {place.name for place in (home / 'envs').iterdir() if not place.name.startswith('.lock-')} == before


def test_settings_of_pip_that_install_elsewhere_are_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PIP_TARGET', str(tmp_path / 'elsewhere'))
    assert 'rlvrdemo==1.0' in package_environment(tmp_path, ('rlvrdemo==1.0',)).packages
    settings = tmp_path / 'pip.conf'
    settings.write_text(f'[install]\nprefix = {tmp_path / "elsewhere"}\n', encoding='utf-8')
    monkeypatch.setenv('PIP_CONFIG_FILE', str(settings))
    with pytest.raises(PackagesFailed, match='rlvrdemo is not there'):
        package_environment(tmp_path, ('rlvrdemo==2.0',))


def test_two_runs_at_once_install_once_and_one_can_be_stopped(tmp_path: Path) -> None:
    installing = threading.Event()

    def wait(_: str) -> None:
        installing.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(package_environment, tmp_path, ('rlvrdemo==1.0',), report=wait)
        assert installing.wait(60)
        second = pool.submit(package_environment, tmp_path, ('rlvrdemo==1.0',))
        assert first.result() == second.result()
    with pytest.raises(InstallStopped):
        package_environment(tmp_path, ('rlvrdemo==2.0',), stop=lambda: True)
    assert not [place for place in (tmp_path / 'envs').iterdir() if place.name.startswith('.draft')]


def test_a_checker_imports_them(home: Path) -> None:
    task = parse_task(
        {
            'task_spec': {
                'prompt': 'Write version.txt',
                'checker': {
                    'type': 'script',
                    'config': {
                        'script': 'import rlvrdemo\nprint(float(open("version.txt").read() == rlvrdemo.version))'
                    },
                },
            }
        }
    )[0]
    solution = Solution.model_validate(
        {
            'kind': 'reference',
            'steps': [
                {
                    'tool': 'run_command',
                    'args': {
                        'command': 'python3 -c "import rlvrdemo; print(rlvrdemo.version, end=str())" > version.txt'
                    },
                }
            ],
        }
    )
    environment = package_environment(home, ('rlvrdemo==2.0',))
    verdict = attempt(task.task_spec, solution, home=home, environment=environment).verdict
    assert verdict.outcome == 'passed', verdict
    assert attempt(task.task_spec, solution, home=home).verdict.outcome == 'error'


def test_a_real_package_of_the_public_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('PIP_NO_INDEX')
    monkeypatch.delenv('PIP_FIND_LINKS')
    try:
        environment = package_environment(tmp_path, ('tabulate==0.9.0',))
    except PackagesFailed as error:
        if 'could not be reached' in error.hint:
            pytest.skip('no package index can be reached')
        raise
    with open_sandbox(SandboxSpec(mounts=environment.mounts, path_prefix=environment.path_prefix)) as sandbox:
        code = 'import tabulate; print(tabulate.__version__)'
        assert sandbox.run(['python3', '-c', code]).text == '0.9.0\n'
