"""``config.rl``: bounds clamp with a note, what cannot work is refused by field, divisibility is solved and said."""

import json
from pathlib import Path

import pytest

from trainer.config import parse_settings, plan
from trainer.errors import ConfigError
from trainer.models import MODELS, STARTER, find_model

QWEN = MODELS[1]


def refused(data: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_settings(data)
    return {field.loc: field.msg for field in caught.value.fields}


def test_defaults_are_those_of_the_contract() -> None:
    rl = parse_settings({})[0].rl
    assert rl.model_dump(by_alias=True, mode='json') == {
        'enabled': False,
        'env': 'tfcode',
        'numGenerations': 8,
        'maxCompletionLength': 1024,
        'maxToolCallingIterations': 16,
        'lossType': 'dapo',
        'scaleRewards': 'batch',
        'entropyCoef': 0.05,
        'generationEngine': 'auto',
        'maxSteps': 0,
        'pipPackages': [],
    }


@pytest.mark.parametrize(
    ('key', 'given', 'kept'),
    [
        ('numGenerations', 2, 4),
        ('numGenerations', 99, 16),
        ('maxCompletionLength', 5000, 4096),
        ('maxCompletionLength', 1, 256),
        ('maxToolCallingIterations', 100, 32),
        ('entropyCoef', 0.9, 0.5),
    ],
)
def test_out_of_bounds_is_clamped_and_said(key: str, given: float, kept: float) -> None:
    settings, notes = parse_settings({'rl': {key: given}})
    assert settings.rl.model_dump(by_alias=True)[key] == kept
    assert [note.loc for note in notes] == [f'rl.{key}']
    assert str(given) in notes[0].msg and str(kept) in notes[0].msg


@pytest.mark.parametrize(
    ('data', 'loc'),
    [
        ({'rl': {'numGenerations': '8'}}, 'rl.numGenerations'),
        ({'rl': {'maxCompletionLength': 0}}, 'rl.maxCompletionLength'),
        ({'rl': {'lossType': 'ppo'}}, 'rl.lossType'),
        ({'rl': {'entropyCoef': -1}}, 'rl.entropyCoef'),
        ({'temperature': 0}, 'temperature'),
        ({'learningRate': '1e-6'}, 'learningRate'),
        ({'spot': 'yes'}, 'spot'),
        ({'rl': {'maxCompletionLength': -1}}, 'rl.maxCompletionLength'),
        ({'rl': {'numGenerations': 0}}, 'rl.numGenerations'),
        ({'rl': {'numGenerations': 8.5}}, 'rl.numGenerations'),
        ({'rl': {'numGenerations': True}}, 'rl.numGenerations'),
        ({'rl': {'maxSteps': -1}}, 'rl.maxSteps'),
        ({'rl': {'env': 'gym'}}, 'rl.env'),
        ({'rl': {'scaleRewards': True}}, 'rl.scaleRewards'),
        ({'rl': {'generationEngine': 'sglang'}}, 'rl.generationEngine'),
        ({'rl': {'enabled': 'yes'}}, 'rl.enabled'),
        ({'rl': []}, 'rl'),
        ({'temperature': float('nan')}, 'temperature'),
        ({'temperature': -0.5}, 'temperature'),
        ({'temperature': 1e-40}, 'temperature'),  # logits over it are no numbers
        ({'learningRate': 0}, 'learningRate'),
        ({'learningRate': float('inf')}, 'learningRate'),
        ({'batchSize': 0}, 'batchSize'),
        ({'processes': 0}, 'processes'),
        ({'bf16': True}, 'bf16'),
        ({'precision': 'bfloat16'}, 'precision'),
        ({'rl': {'pipPackages': ['numpy', 'git+https://example.invalid/a.git']}}, 'rl.pipPackages'),
    ],
)
def test_what_cannot_work_is_refused_by_its_field(data: object, loc: str) -> None:
    assert list(refused(data)) == [loc]


def test_an_unknown_key_gets_a_guess() -> None:
    assert 'numGenerations' in refused({'rl': {'numGeneration': 8}})['rl.numGeneration']


def test_bare_rl_keys_are_taken() -> None:
    assert parse_settings({'numGenerations': 4})[0].rl.num_generations == 4


def test_every_bad_package_line_is_named() -> None:
    """Case A2."""
    lines = ['requests>=2.31  # why', 'pkg @ https://example.invalid/p.tar.gz', '-r other.txt', './local', 'a = 2']
    message = refused({'rl': {'pipPackages': lines}})['rl.pipPackages']
    assert all(f'line {number}' in message.lower() for number in (2, 3, 4, 5))
    assert 'line 1 ' not in message.lower()
    assert 'a == 2' in message


def test_package_lines_that_pip_accepts() -> None:
    lines = [
        '\ufeffrequests>=2.31  # why',
        '',
        '# only a comment',
        'pandas[excel]>=2.0,<3',
        "numpy==1.26.*; python_version<'3.9'",
    ]
    kept = parse_settings({'rl': {'pipPackages': lines}})[0].rl.pip_packages
    assert [name.split('=')[0].split('>')[0].split('[')[0].split('<')[0] for name in kept] == [
        'requests',
        'pandas',
        'numpy',
    ]


def test_the_learning_rate_is_capped_for_the_model() -> None:
    settings, _ = parse_settings({'learningRate': 1e-4})
    made = plan(settings, QWEN, 10)
    assert made.learning_rate == 2e-6
    assert [note.loc for note in made.notes] == ['learningRate']
    assert plan(settings, STARTER, 10).learning_rate == 1e-4


def test_beta_is_zero_whatever_is_asked() -> None:
    settings, notes = parse_settings({'beta': 0.1})
    assert settings.beta == 0.0
    assert [note.loc for note in notes] == ['beta']


@pytest.mark.parametrize(
    ('batch', 'accumulation', 'generations', 'kept'),
    [(1, 1, 4, 4), (6, 1, 4, 2), (4, 2, 8, 2), (8, 1, 8, 1), (3, 5, 8, 8)],
)
def test_divisibility_is_solved_and_said(batch: int, accumulation: int, generations: int, kept: int) -> None:
    """Case C1."""
    settings, _ = parse_settings(
        {'batchSize': batch, 'gradientAccumulationSteps': accumulation, 'rl': {'numGenerations': generations}}
    )
    made = plan(settings, QWEN, 10)
    assert (made.batch_size, made.accumulation) == (batch, kept)
    assert made.rollouts_per_step == batch * kept
    assert bool(made.notes) == (kept != accumulation)


@pytest.mark.parametrize(
    ('tasks', 'processes', 'groups'), [(32, 2, 4), (32, 4, 4), (32, 3, 6), (1, 2, 2), (3, 2, 4), (32, 8, 8)]
)
def test_a_group_is_never_split_between_processes(tasks: int, processes: int, groups: int) -> None:
    made = plan(parse_settings({'processes': processes})[0], QWEN, tasks)
    assert made.groups == groups
    assert made.batch_size * made.accumulation % made.generations == 0
    assert made.rollouts_per_step == made.batch_size * made.accumulation * processes
    assert [note.loc for note in made.notes] == ([] if groups == min(4, tasks) else ['processes'])


def test_precision_is_not_set_by_hand() -> None:
    """Case C2."""
    assert 'chosen from the hardware' in refused({'bf16': True})['bf16']


def test_spot_is_off_whatever_is_asked() -> None:
    settings, notes = parse_settings({'spot': True})
    assert settings.spot is False
    assert [note.loc for note in notes] == ['spot']


@pytest.mark.parametrize('model', MODELS, ids=lambda model: model.title)
@pytest.mark.parametrize('tasks', [1, 3, 7, 32])
def test_presets_fit_any_number_of_tasks(model, tasks: int) -> None:  # type: ignore[no-untyped-def]
    made = plan(parse_settings({})[0], model, tasks)
    assert made.rollouts_per_step == made.batch_size * made.accumulation
    assert made.groups == min(model.preset.tasks_per_step, tasks)
    assert made.steps >= 1


def test_max_steps_caps_the_steps() -> None:
    assert plan(parse_settings({'rl': {'maxSteps': 3}})[0], STARTER, 32).steps == 3


def test_an_engine_that_cannot_run_is_refused(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv('RLVR_VLLM', '/no/such/program')
    with pytest.raises(ConfigError) as caught:
        plan(parse_settings({'rl': {'generationEngine': 'vllm'}})[0], STARTER, 4)
    assert caught.value.fields[0].loc == 'rl.generationEngine'


def test_models_are_found_by_id_folder_and_hub_id(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert find_model('starter') is STARTER
    assert find_model('unsloth/Qwen3-0.6B').rate_cap == 2e-6
    assert find_model('someone/some-model').kind == 'hub'
    (tmp_path / 'config.json').write_text('{}')
    assert find_model(str(tmp_path)).kind == 'local'
    with pytest.raises(ConfigError, match='no known model'):
        find_model('nothing')


@pytest.mark.parametrize(
    ('config', 'said'),
    [
        ({'layer_types': ['full_attention', 'linear_attention']}, 'layers of the kind linear_attention'),
        ({'text_config': {'layer_types': ['conv', 'full_attention']}}, 'layers of the kind conv'),
        ({'layer_types': ['sliding_attention', 'full_attention']}, ''),
        ({}, ''),
        ([], ''),
    ],
)
def test_an_engine_that_cannot_run_a_model_is_refused_before_the_launch(
    config: object, said: str, tmp_path: Path
) -> None:
    (tmp_path / 'config.json').write_text(json.dumps(config))
    settings, _ = parse_settings({'rl': {'generationEngine': 'continuous_batching'}})
    if not said:
        assert plan(settings, find_model(str(tmp_path)), 4).engine == 'continuous_batching'
        return
    with pytest.raises(ConfigError, match=said) as caught:
        plan(settings, find_model(str(tmp_path)), 4)
    assert [field.loc for field in caught.value.fields] == ['rl.generationEngine']
    assert plan(parse_settings({})[0], find_model(str(tmp_path)), 4).engine == 'plain'
