"""One update on recorded episodes: TRL's own loop over environments and ours give the same tokens and gradients."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from trainer.config import parse_settings, plan
from trainer.engines import open_engine
from trainer.grpo import _reward, _text_only
from trainer.hardware import detect
from trainer.manifest import read_manifest
from trainer.models import ASSETS, STARTER
from trainer.policy import load_model, load_tokenizer, lora
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import Episode, EpisodeLimits, Player
from trainer.tools import TOOL_SCHEMAS

GROUP = 4
LIMIT = 160


@pytest.fixture(scope='module')
def episodes(checker_home: Path) -> dict[str, list[Episode]]:
    """Two groups of real episodes with tool calls, by task."""
    torch.manual_seed(2)
    tokenizer, model = load_tokenizer(STARTER), load_model(STARTER, detect())
    tasks = read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl')[:2]
    player = Player(
        Chat(tokenizer),
        open_engine('plain', model, tokenizer),
        EpisodeLimits(LIMIT, 8, 1.3),
        lambda: TfcodeEnv(checker_home, 'bubblewrap'),
    )
    played = defaultdict(list)
    for episode in player.play([task for task in tasks for _ in range(GROUP)]):
        # TRL lists the methods of an environment by name.
        episode.prompt = tokenizer.apply_chat_template(
            [{'role': 'user', 'content': episode.task.task_spec.prompt}],
            tools=sorted(TOOL_SCHEMAS, key=lambda schema: schema['function']['name']),
            add_generation_prompt=True,
            return_dict=False,
        )
        played[episode.task.id].append(episode)
    player.close()
    return dict(played)


class Recorded:
    """An environment that answers as it did, and whose reward is the recorded one."""

    waiting: dict[str, list[tuple[Episode, float]]]

    def reset(self, task: str, **_: object) -> None:
        self._episode, self._score = self.waiting[task].pop(0)
        self._results = iter([call.result for turn in self._episode.turns for call in turn.calls])

    def run_command(self, command: str) -> str:
        """Run a shell command in the workspace.

        Args:
            command: The command line.

        """
        return next(self._results)

    def read_file(self, path: str) -> str:
        """Read a text file of the workspace.

        Args:
            path: Path relative to the workspace.

        """
        return next(self._results)

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, replacing it if it exists.

        Args:
            path: Path relative to the workspace.
            content: The whole new content.

        """
        return next(self._results)

    def list_dir(self, path: str) -> str:
        """List a folder of the workspace.

        Args:
            path: Path relative to the workspace.

        """
        return next(self._results)

    def get_reward(self) -> float:
        return self._score


def segments(episode: Episode) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Everything before a turn, and the turn."""
    prefix, place = list(episode.prompt), 0
    while place < len(episode.completion):
        end = place
        while end < len(episode.mask) and episode.mask[end]:
            end += 1
        yield tuple(prefix), episode.completion[place:end]
        while end < len(episode.mask) and not episode.mask[end]:
            end += 1
        prefix += episode.completion[place:end]
        place = end


class Gradients(TrainerCallback):  # type: ignore[misc]
    """Keeps the gradients of the one step."""

    def __init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.found = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def one_step(
    folder: Path,
    scale: str,
    episodes: dict[str, list[Episode]],
    turns: dict[tuple[int, ...], list[list[int]]] | None = None,
    **side: Any,
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """The gradients and the log of one update on these episodes."""
    torch.manual_seed(0)
    rows = [
        {'prompt': [{'role': 'user', 'content': group[0].task.task_spec.prompt, 'task': id_}], 'task': id_}
        for id_, group in episodes.items()
    ]
    kept = Gradients()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        trainer = GRPOTrainer(
            model=load_model(STARTER, detect()),
            args=GRPOConfig(
                output_dir=str(folder),
                max_steps=1,
                per_device_train_batch_size=2 * GROUP,
                num_generations=GROUP,
                max_completion_length=LIMIT,
                temperature=1.3,
                learning_rate=1e-3,
                scale_rewards=scale,
                loss_type='dapo',
                entropy_coef=0.05,
                epsilon_high=0.28,
                beta=0.0,
                seed=1,
                use_cpu=True,
                bf16=False,
                logging_steps=1,
                save_strategy='no',
                report_to=[],
                disable_tqdm=True,
                remove_unused_columns=False,
                dataloader_pin_memory=False,
            ),
            train_dataset=Dataset.from_list(rows),
            peft_config=lora(plan(parse_settings({})[0], STARTER, 2)),
            callbacks=[kept],
            **side,
        )
        trainer.remove_callback(PrinterCallback)
        if turns is not None:
            said = turns
            trainer._generate_single_turn = lambda prompts, *_, **__: (
                [said[tuple(ids)].pop(0) for ids in prompts],
                None,
            )
        # Some of LoRA's matrices start at zero, and their partners' gradients with them.
        torch.manual_seed(4)
        for name, value in trainer.model.named_parameters():
            if 'lora_B' in name:
                torch.nn.init.normal_(value, std=0.05)
        trainer.train()
    return kept.found, trainer.state.log_history[0]


@pytest.mark.parametrize('scale', ['batch', 'group', 'none'])
def test_gradients_equal_those_of_plain_trl(scale: str, episodes: dict[str, list[Episode]], tmp_path: Path) -> None:
    scores = {id_: [float(index % 3 == 0) for index in range(len(group))] for id_, group in episodes.items()}
    assert any(
        call for group in episodes.values() for episode in group for turn in episode.turns for call in turn.calls
    )

    order = {id_: list(zip(group, scores[id_], strict=True)) for id_, group in episodes.items()}

    def replay(prompts: list[Any], _: Any) -> dict[str, Any]:
        pairs = [order[prompt[-1]['task']].pop(0) for prompt in prompts]
        return {
            'prompt_ids': [episode.prompt for episode, _ in pairs],
            'completion_ids': [episode.completion for episode, _ in pairs],
            'env_mask': [episode.mask for episode, _ in pairs],
            'logprobs': None,
            'reward': [score for _, score in pairs],
        }

    tokenizer = load_tokenizer(STARTER)
    mine, log = one_step(
        tmp_path / 'ours',
        scale,
        episodes,
        processing_class=_text_only(tokenizer),
        reward_funcs=_reward,
        rollout_func=replay,
    )

    Recorded.waiting = {id_: list(zip(group, scores[id_], strict=True)) for id_, group in episodes.items()}
    turns: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
    for group in episodes.values():
        for episode in group:
            for prefix, turn in segments(episode):
                turns[prefix].append(turn)
    theirs, their_log = one_step(
        tmp_path / 'theirs',
        scale,
        episodes,
        processing_class=load_tokenizer(STARTER),
        reward_funcs=[],
        environment_factory=Recorded,
        turns=turns,
    )

    assert not any(turns.values())
    assert log['num_tokens'] == their_log['num_tokens']
    assert set(mine) == set(theirs)
    assert max(float(grad.abs().max()) for grad in theirs.values()) > 1e-4
    for name, grad in theirs.items():
        torch.testing.assert_close(
            mine[name], grad, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f'{name}: {text}'
        )
    for series in ('loss', 'entropy', 'grad_norm'):
        assert log[series] == pytest.approx(their_log[series], rel=1e-4, abs=1e-6)
