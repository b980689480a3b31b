"""The starter model and its tutorial: files up to date, names apart, an honest template, a model that copies."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from trainer.starter import tutorial
from trainer.starter.demonstrations import chat, messages
from trainer.starter.tutorial import Chore
from trainer.starter.words import TUTORIAL_WORDS

STARTER = Path(__file__).resolve().parents[2] / 'assets' / 'starter'


def _chores() -> list[Chore]:
    train, held_out = tutorial.tutorial_chores()
    return [*train, *held_out]


def test_the_task_files_are_what_the_generator_writes() -> None:
    for name, chores in zip((tutorial.TRAIN_FILE, tutorial.HELD_OUT_FILE), tutorial.tutorial_chores(), strict=True):
        text = (tutorial.TASKS_FOLDER / name).read_text(encoding='utf-8')
        assert text == tutorial.as_jsonl(chores), f'{name}: run python -m trainer.starter.tutorial'


def test_train_and_held_out_share_no_word() -> None:
    train, held_out = (
        {part for item in chores for name in item.names.values() for part in re.split(r'\W', name)}
        & set(TUTORIAL_WORDS)
        for chores in tutorial.tutorial_chores()
    )
    assert len(train) > 50 and len(held_out) > 25
    assert not train & held_out


def test_demonstrations_never_use_a_tutorial_word() -> None:
    rng = random.Random(1)
    text = json.dumps([tutorial.demo_chore(rng).as_task() for _ in range(300)])
    words = set(text.replace('.', ' ').replace('"', ' ').replace('/', ' ').split())
    assert not words & set(TUTORIAL_WORDS)


def test_every_skill_is_in_both_files() -> None:
    train, held_out = tutorial.tutorial_chores()
    skills = {family.skill for family in tutorial.FAMILIES}
    assert {item.family.skill for item in train} == skills
    assert {item.family.skill for item in held_out} == skills


@pytest.mark.parametrize('item', _chores()[: len(tutorial.FAMILIES)], ids=lambda item: item.family.skill)
def test_scripts_answer_and_earn_as_declared(item: Chore, tmp_path: Path) -> None:
    scripts = [(), item.careful, *item.careless]
    for number, script in enumerate(scripts):
        folder = tmp_path / str(number)
        _set_up(item, folder)
        for step in script:
            assert _play(step.tool, step.args, folder) == step.answer
        assert (_reward(item, folder) == 1.0) == (number == 1), script


def _set_up(item: Chore, folder: Path) -> None:
    folder.mkdir()
    for path, text in item.as_task()['task_spec']['setup_files'].items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding='utf-8')


def _play(tool: str, args: Any, folder: Path) -> str:
    if tool == 'run_command':
        return _shell(args['command'], folder).stdout or '[exit code 0]'
    path = folder / args['path']
    if tool == 'read_file':
        return path.read_text(encoding='utf-8')
    if tool == 'list_dir':
        return '\n'.join(sorted(entry.name for entry in path.iterdir()))
    path.write_text(args['content'], encoding='utf-8')
    return f'wrote {len(args["content"])} bytes to {args["path"]}'


def _shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(['bash', '-c', command], cwd=folder, capture_output=True, text=True, check=False)


def _reward(item: Chore, folder: Path) -> float:
    checker = item.as_task()['task_spec']['checker']
    config = checker['config']
    if checker['type'] == 'exit_code':
        return float(_shell(config['command'], folder).returncode == 0)
    if checker['type'] == 'file_exists':
        return sum((folder / path).is_dir() for path in config['paths']) / len(config['paths'])
    program = config.get('script')
    if program is None:
        module = config['test_paths'][0].removesuffix('.py')
        program = f'import {module} as tests\n[test() for name, test in vars(tests).items() if name[:5] == "test_"]'
    done = subprocess.run([sys.executable, '-c', program], cwd=folder, capture_output=True, text=True, check=False)
    return 0.0 if done.returncode else float((done.stdout.split() or ['1'])[-1])


@pytest.fixture(scope='module')
def tokenizer() -> Any:
    transformers = pytest.importorskip('transformers')
    return transformers.AutoTokenizer.from_pretrained(STARTER)


@pytest.fixture(scope='module')
def model() -> Any:
    transformers = pytest.importorskip('transformers')
    return transformers.AutoModelForCausalLM.from_pretrained(STARTER).eval()


def test_the_template_suits_tool_training(tokenizer: Any) -> None:
    from trl import chat_template_utils as checks

    assert checks.supports_tool_calling(tokenizer)
    assert checks.is_chat_template_prefix_preserving(tokenizer)
    assert checks.is_chat_template_stop_token_trained(tokenizer)


def test_the_prompt_is_compact_and_keeps_a_system_message(tokenizer: Any) -> None:
    from trainer.tools import TOOL_SCHEMAS

    asked = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Rename a.txt to b.txt.'}]
    text = tokenizer.apply_chat_template(asked, tools=list(TOOL_SCHEMAS), tokenize=False, add_generation_prompt=True)
    assert text == (
        '<|im_start|>system\nBe brief.\n\nTools:\nrun_command(command)\nread_file(path)\nwrite_file(path, content)\n'
        'list_dir(path)<|im_end|>\n<|im_start|>user\nRename a.txt to b.txt.<|im_end|>\n<|im_start|>assistant\n'
    )
    assert len(tokenizer.encode(text)) < 100
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_consecutive_tool_answers_share_one_turn(tokenizer: Any) -> None:
    answers = [{'role': 'tool', 'name': 'run_command', 'content': text} for text in ('one', 'two')]
    text = tokenizer.apply_chat_template([{'role': 'user', 'content': 'x'}, *answers], tokenize=False)
    assert text.endswith(
        '<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n'
    )


def test_calls_are_read_back(tokenizer: Any) -> None:
    from trl.chat_template_utils import parse_response

    arguments = {'path': 'a b.txt', 'content': 'say "x"\n{y} é\\n'}
    calls = [
        {'type': 'function', 'function': {'name': 'write_file', 'arguments': arguments}},
        {'type': 'function', 'function': {'name': 'list_dir', 'arguments': {'path': '.'}}},
    ]
    said = [{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': '', 'tool_calls': calls}]
    prompt = tokenizer.apply_chat_template(said[:1], add_generation_prompt=True, return_dict=False)
    ids = tokenizer.apply_chat_template(said, return_dict=False)
    assert ids[: len(prompt)] == prompt
    assert parse_response(tokenizer, ids[len(prompt) :], prefix=prompt)['tool_calls'] == calls


def test_the_mask_covers_assistant_turns_and_no_more(tokenizer: Any) -> None:
    from trainer.tools import TOOL_SCHEMAS

    for told in islice((chat(random.Random(seed)) for seed in range(50)), 50):
        made = tokenizer.apply_chat_template(
            told, tools=list(TOOL_SCHEMAS), return_dict=True, return_assistant_tokens_mask=True
        )
        masked = zip(made['input_ids'], made['assistant_masks'], strict=True)
        learned = tokenizer.decode([token for token, inside in masked if inside])
        text = tokenizer.decode(made['input_ids'])
        turns = [part.split('<|im_end|>')[0] for part in text.split('<|im_start|>assistant\n')[1:]]
        assert learned == ''.join(turn + '<|im_end|>' for turn in turns)


def test_the_model_knows_its_chores_and_is_not_always_careful(model: Any, tokenizer: Any) -> None:
    torch = pytest.importorskip('torch')
    from trainer.starter.measure import measure

    torch.manual_seed(0)
    figures = measure(model, tokenizer, repeats=4)
    assert 0.2 < figures.share('careful') < 0.7
    assert figures.share('slip') < 0.12


def test_the_model_copies_names_it_has_never_seen(model: Any, tokenizer: Any) -> None:
    torch = pytest.importorskip('torch')

    sure = []
    for item in tutorial.tutorial_chores()[1]:
        told = messages(item.prompt, item.careful)
        made = tokenizer.apply_chat_template(
            told, return_dict=True, return_assistant_tokens_mask=True, return_tensors='pt'
        )
        with torch.no_grad():
            likely = model(made['input_ids']).logits[0, :-1].softmax(-1)
        chosen = likely.gather(1, made['input_ids'][0, 1:, None])[:, 0]
        inside = torch.as_tensor(made['assistant_masks']).reshape(-1)[1:] == 1
        sure += (chosen[inside] > 0.9).tolist()
    assert sum(sure) / len(sure) > 0.88


def test_the_folder_is_small_and_has_a_card() -> None:
    assert sum(path.stat().st_size for path in STARTER.iterdir()) < 20 * 1024**2
    assert 'careless' in (STARTER / 'README.md').read_text(encoding='utf-8')
