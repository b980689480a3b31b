"""Merging an adapter into its base: the same answers, nothing written over, nothing left half done (case G3)."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from made_adapters import changed_adapter
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import chat_template_utils as templates

from studio.adapters.snippets import Snippet, python_merged, python_peft, tool_parser
from trainer.engines import generate, open_engine
from trainer.errors import ConfigError
from trainer.hardware import Hardware
from trainer.manifest import read_manifest
from trainer.merge import merge
from trainer.merged_model import adapter_rank, bytes_needed, read_merged
from trainer.models import ASSETS, STARTER
from trainer.policy import load_model, without_warnings
from trainer.rollout.chat import Chat

CPU = Hardware('cpu', 'float32', 'CPU')


@pytest.fixture(scope='module')
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter that changes what the starter model says."""
    folder = changed_adapter(tmp_path_factory.mktemp('adapter'))
    lineage = {'run': {'id': 'x', 'name': 'my run'}, 'step': 7, 'model': {'id': 'starter', 'kind': 'bundled'}}
    (folder / 'lineage.json').write_text(json.dumps(lineage), encoding='utf-8')
    return folder


def greedy(model: object, tokenizer: Any, prompts: list[list[int]]) -> list[list[int]]:
    engine = open_engine('plain', model, tokenizer)
    return [turn.ids for turn in generate(engine, prompts, [40] * len(prompts), temperature=0)]


def follows(model: Any, prompt: list[int], answer: list[int]) -> bool:
    """Whether an answer is the greedy one of a model as it is, its adapter beside it."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + answer[:-1]])).logits[0, len(prompt) - 1 :]
    return bool(logits.argmax(-1).tolist() == answer)


def test_merged_answers_as_base_and_adapter(adapter: Path, tmp_path: Path) -> None:
    """Case G3: the same answers to 20 prompts in float32, and other ones than the base's."""
    out = tmp_path / 'merged model'
    told: list[str] = []
    merged = merge(STARTER, adapter, out, report=lambda text, done, total: told.append(text))
    assert (merged.drift.equal, merged.drift.prompts) == (20, 20)
    assert merged.drift.max_logit < 1e-3
    assert 'Merging' in told
    tasks = ASSETS / 'tasks'
    prompts = [task.task_spec.prompt for task in read_manifest(tasks / 'tutorial-heldout.jsonl')]
    prompts = (prompts + [task.task_spec.prompt for task in read_manifest(tasks / 'tutorial-train.jsonl')])[:20]
    chat = Chat(AutoTokenizer.from_pretrained(out))
    ids = [chat.prompt_ids(prompt) for prompt in prompts]
    whole = greedy(AutoModelForCausalLM.from_pretrained(out), chat.tokenizer, ids)
    with without_warnings():
        policy = load_model(STARTER, CPU, adapter=adapter)
    assert all(follows(policy, prompt, answer) for prompt, answer in zip(ids, whole, strict=True))
    with policy.disable_adapter():
        assert not all(follows(policy, prompt, answer) for prompt, answer in zip(ids, whole, strict=True))
    assert read_merged(out) == merged
    assert {'model.safetensors', 'chat_template.jinja', 'generation_config.json', 'README.md'} <= set(merged.files)
    assert (out / 'chat_template.jinja').read_text() == (adapter / 'chat_template.jinja').read_text()
    assert (merged.run, merged.step, merged.base) == ('my run', 7, 'starter')
    assert [path.name for path in tmp_path.iterdir()] == ['merged model']
    # What the studio gives to copy is run as it stands.
    said = [executed(python_peft('starter', adapter)), executed(python_merged(out))]
    assert said[0] == said[1] != ''


def executed(snippet: Snippet) -> str:
    """What a snippet prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), without_warnings():
        exec(compile(snippet.text, snippet.title, 'exec'), {})
    return printed.getvalue()


def test_bfloat16_takes_half_and_says_how_far_it_is(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('trainer.merge.PROMPTS', 5)
    merged = merge(STARTER, adapter, tmp_path / 'small', dtype='bfloat16', prompts=['Write a.txt.'])
    assert 0 < merged.drift.max_logit < 2
    assert (tmp_path / 'small' / 'model.safetensors').stat().st_size < STARTER.parameters * 2.1  # type: ignore[operator]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / 'small', dtype='auto').dtype == torch.bfloat16
    assert f'{merged.drift.equal} of 5 answers' in (tmp_path / 'small' / 'README.md').read_text()


def test_nothing_is_written_over_and_the_disk_is_looked_at(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'there').mkdir()
    with pytest.raises(ConfigError, match='exists already'):
        merge(STARTER, adapter, tmp_path / 'there')
    with pytest.raises(ConfigError, match='is no folder'):
        merge(STARTER, adapter, tmp_path / 'not' / 'there')
    with pytest.raises(ConfigError, match=r'holds no adapter_config\.json'):
        merge(STARTER, tmp_path, tmp_path / 'new')
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr('trainer.merge.shutil.disk_usage', lambda path: usage)
    with pytest.raises(ConfigError, match=r'needs 0\.08 GB, and 0\.00 GB are free') as caught:
        merge(STARTER, adapter, tmp_path / 'new')
    assert caught.value.fields[0].loc == 'out'
    assert [path.name for path in tmp_path.iterdir()] == ['there']


def test_a_merge_that_is_given_up_leaves_nothing(adapter: Path, tmp_path: Path) -> None:
    """Its stdin closes as soon as it writes aside; a folder that a killed one left goes too."""
    (tmp_path / '.out.999999999.partial').mkdir()
    command = [sys.executable, '-m', 'trainer.merge', '--model', 'starter', '--adapter', str(adapter)]
    with subprocess.Popen(
        [*command, '--out', str(tmp_path / 'out')],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        first = json.loads(process.stdout.readline())
        assert first == {'kind': 'progress', 'text': 'Loading base model and adapter', 'done': 0, 'total': 0}
        process.stdin.close()
        assert process.wait(60) == 130, process.stderr
    assert list(tmp_path.iterdir()) == []


def test_size_and_rank_are_told_without_weights(adapter: Path, tmp_path: Path) -> None:
    assert bytes_needed(STARTER, 'float32') == 2_066_368 * 4 + 64 * 1024**2
    local = STARTER.model_copy(update={'parameters': None})
    assert bytes_needed(local, 'bfloat16') == 2_066_368 * 2 + 64 * 1024**2
    assert bytes_needed(local.model_copy(update={'source': 'owner/name'}), 'float32') is None
    assert adapter_rank(adapter) == 4
    assert adapter_rank(tmp_path) is None


def test_each_family_has_the_parser_that_reads_its_calls(tmp_path: Path) -> None:
    """The templates that training uses, as they are saved with an adapter."""
    for name, parser in (('qwen3_training', 'hermes'), ('llama3_2', 'llama3_json')):
        (tmp_path / 'chat_template.jinja').write_text(getattr(templates, f'{name}_chat_template'))
        assert tool_parser(tmp_path) == parser, name
    (tmp_path / 'chat_template.jinja').write_text((ASSETS / 'chat_templates' / 'gemma3.jinja').read_text())
    assert tool_parser(tmp_path) == 'hermes'


def test_a_damaged_adapter_is_one_sentence(adapter: Path, tmp_path: Path) -> None:
    damaged = tmp_path / 'damaged'
    shutil.copytree(adapter, damaged)
    (damaged / 'adapter_model.safetensors').write_bytes(b'nonsense')
    with pytest.raises(ConfigError, match=r'The adapter in .*damaged could not be loaded') as error:
        merge(STARTER, damaged, tmp_path / 'merged')
    assert (error.value.fields[0].loc, 'another base model' in error.value.hint) == ('adapter', True)
    assert [path.name for path in tmp_path.iterdir()] == ['damaged']
