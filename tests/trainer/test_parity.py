"""The parity proof on a real run: what was trained is what was saved, and nothing else passes for it (case G3)."""

import json
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import trainer.parity
from studio.services import Studio
from studio.settings import Settings
from studio.store.ids import new_id
from trainer.config import RunConfig, parse_settings
from trainer.errors import BaseUnavailable, CheckerError, ConfigError, SandboxUnavailable
from trainer.evaluation import Evaluation, TaskResult
from trainer.manifest import read_manifest
from trainer.models import ASSETS, STARTER_FOLDER
from trainer.parity import prove, read_expectation
from trainer.proof import Expectation, ProofResult
from trainer.runfolder import RunFolder

pytestmark = pytest.mark.train
WEIGHTS = 'adapter_model.safetensors'


@pytest.fixture(scope='module')
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of the starter model from a copied folder, far from the assets."""
    root = tmp_path_factory.mktemp('parity')
    base = root / 'a base of mine'
    shutil.copytree(STARTER_FOLDER, base)
    settings, _ = parse_settings(
        {
            'rl': {'enabled': True, 'numGenerations': 4, 'maxSteps': 1},
            'heldOutAttempts': 2,
            'evalEvery': 0,
            'learningRate': 2e-6,
            'loraRank': 8,
            'batchSize': 1,
        }
    )
    config = RunConfig(
        id=new_id(), created_at=datetime.now(UTC), model=str(base), settings=settings, home=str(root / 'home')
    )
    tasks = ASSETS / 'tasks'
    train, held_out = (read_manifest(tasks / f'tutorial-{name}.jsonl') for name in ('train', 'heldout'))
    folder = RunFolder.create(root / 'run', config, train[:1], held_out[:1])
    with folder.log.open('wb') as log:
        done = subprocess.run([sys.executable, '-m', 'trainer', str(folder.path)], stdout=log, stderr=log, timeout=240)
    assert done.returncode == 0, folder.log.read_text()[-3000:]
    return folder


def found(run: RunFolder, adapter: Path, base: str = '') -> ProofResult:
    """What a proof finds, made in this process."""
    return prove(
        adapter,
        read_expectation(run.path / 'parity.json'),
        run.held_out_tasks(),
        home=run.path.parent / 'home',
        base=base,
    )


def test_an_adapter_behaves_in_a_fresh_process_as_in_training(run: RunFolder, tmp_path: Path) -> None:
    adapter = tmp_path / 'elsewhere'
    shutil.copytree(run.adapter, adapter)
    command = [sys.executable, '-m', 'trainer.parity', '--adapter', str(adapter)]
    command += ['--home', str(run.path.parent / 'home'), '--expected', str(run.path / 'parity.json')]
    process = subprocess.Popen(
        [*command, '--held-out', str(run.held_out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:  # its stdin stays open: when that closes, it gives up
        assert process.stdout is not None
        lines = [json.loads(line) for line in process.stdout]
    assert lines[-1]['kind'] == 'done', lines[-1]
    assert {line['text'] for line in lines[:-1]} >= {'Loading the base model', 'Repeating held-out attempts'}
    result = ProofResult.model_validate(lines[-1]['result'])
    assert (result.state, result.problems) == ('proven', ())
    assert result.logit_difference <= result.logit_tolerance
    assert result.verdicts is not None
    assert (result.verdicts.same, result.verdicts.attempts, result.verdicts.exact) == (2, 2, True)
    lineage = json.loads((adapter / 'lineage.json').read_text())
    assert lineage['model']['sha256'] == result.base
    assert len(lineage['held_out']) == 1


def test_the_studio_proves_what_a_run_left(run: RunFolder) -> None:
    home = run.path.parent / 'home'
    shutil.copytree(run.path, home / 'runs' / run.config().id)
    studio = Studio(Settings(home=home))
    try:
        studio.supervisor.adopt()
        studio.supervisor.tick()
        assert studio.adapters.keep_up() == 1
        version = studio.adapters.find(run.config().id)
        assert version.proof.state == 'queued'
        deadline = time.monotonic() + 120
        while version.proof.state in ('queued', 'running') and time.monotonic() < deadline:
            studio.proofs.keep_up()
            time.sleep(0.1)
            version = studio.adapters.get(version.id)
        assert version.proof.state == 'proven', version.proof
    finally:
        studio.stop()


def test_one_changed_tensor_is_found(run: RunFolder, tmp_path: Path) -> None:
    adapter = tmp_path / 'damaged'
    shutil.copytree(run.adapter, adapter)
    tensors = load_file(adapter / WEIGHTS)
    name = next(name for name in sorted(tensors) if 'lora_B' in name)
    tensors[name] = tensors[name] + 0.2
    save_file(tensors, adapter / WEIGHTS)
    result = found(run, adapter)
    assert result.state == 'failed'
    assert f'{WEIGHTS} is not the file that training wrote' in result.problems
    assert any(problem.startswith('A logit differs by ') for problem in result.problems)


def test_another_base_is_found_and_a_missing_one_is_one_sentence(run: RunFolder, tmp_path: Path) -> None:
    other = tmp_path / 'other'
    shutil.copytree(run.config().model, other)
    tensors = load_file(other / 'model.safetensors')
    name = sorted(tensors)[0]
    tensors[name] = tensors[name] + 0.01
    save_file(tensors, other / 'model.safetensors', metadata={'format': 'pt'})
    result = found(run, run.adapter, str(other))
    assert result.state == 'failed'
    assert any(problem.startswith('The base model is another one than in training') for problem in result.problems)
    assert result.other_base
    with pytest.raises(BaseUnavailable, match='The base model is not here') as error:
        found(run, run.adapter, str(tmp_path / 'gone'))
    assert error.value.hint.startswith('Put it back, or name its folder.')


def test_what_stands_in_the_way_of_a_proof_is_told_by_its_class(run: RunFolder, tmp_path: Path) -> None:
    """Naming the base model helps with the first ones only."""
    base = Path(run.config().model)
    narrow, unreadable = tmp_path / 'narrow', tmp_path / 'unreadable'
    for folder in (narrow, unreadable):
        shutil.copytree(base, folder)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base, intermediate_size=64)).save_pretrained(narrow)
    with pytest.raises(BaseUnavailable, match='The base model is another one than in training'):
        found(run, run.adapter, str(narrow))
    (unreadable / 'model.safetensors').write_bytes(b'x' * 64)
    with pytest.raises(BaseUnavailable, match='could not be loaded'):
        found(run, run.adapter, str(unreadable))
    (unreadable / 'tokenizer.json').write_text('{')
    with pytest.raises(BaseUnavailable):
        found(run, run.adapter, str(unreadable))

    adapter = tmp_path / 'adapter'
    shutil.copytree(run.adapter, adapter)
    (adapter / WEIGHTS).write_bytes(b'x' * 64)
    with pytest.raises(ConfigError, match='The adapter could not be loaded') as error:
        found(run, adapter)
    assert type(error.value) is ConfigError and 'train it again' in error.value.hint


def test_without_a_sandbox_nothing_is_found_out(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt would end in an error: that says nothing against the adapter."""

    def none(**_: object) -> None:
        raise SandboxUnavailable('there is none')

    monkeypatch.setattr(trainer.parity, 'open_sandbox', none)
    with pytest.raises(SandboxUnavailable):
        found(run, run.adapter)


def test_errors_of_checkers_say_nothing_against_an_adapter(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = run.held_out_tasks()
    errors = TaskResult(id=task.id, solved=0, attempts=0, errors=2, low=0, high=1, rewards=(None, None))
    broken = Evaluation(k=2, mean=None, low=0, high=1, solved=0, attempts=0, errors=2, tasks=(errors,))
    monkeypatch.setattr(trainer.parity, '_attempt_again', lambda *_: broken)
    with pytest.raises(CheckerError, match='Only 0 of 2 held-out attempts'):
        found(run, run.adapter)


def test_the_card_has_numbers_and_plots_and_what_was_recorded_can_be_read(run: RunFolder) -> None:
    card = (run.adapter / 'README.md').read_text()
    assert '## Held-out success' in card and 'k = 2 attempts a task' in card
    assert '![Held-out success before and after](plots/held-out.svg)' in card
    assert '<svg' in (run.adapter / 'plots' / 'held-out.svg').read_text()
    assert str(run.path.parent) not in card
    expected = Expectation.model_validate_json((run.path / 'parity.json').read_bytes())
    assert expected.base == expected.base_after
    assert [len(probe.top) for probe in expected.probes] == [32]
