"""One GRPO step with real tool calls on a tiny random model of each family: template, parser, sandbox, update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tiny_models import GEMMA, LLAMA, QWEN, Family, save_model
from trl import chat_template_utils as trl_templates

from trainer import preparation
from trainer.config import RunConfig, parse_settings
from trainer.engines import Engines, Generation, GenerationEngine, generate, open_engine
from trainer.events import Metrics, Notice, RolloutEvent, read_events
from trainer.grpo import GrpoRun
from trainer.held_out import HeldOut
from trainer.journal import Journal
from trainer.policy import adapter_checksum, load_model, with_adapter
from trainer.recording import Rollout
from trainer.runfolder import RunFolder
from trainer.task import parse_task

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings('ignore::FutureWarning')]  # of transformers' own names

WRITE = {'name': 'write_file', 'arguments': {'path': 'a.txt', 'content': 'it\'s "done"\n'}}
LOOK = {'name': 'run_command', 'arguments': {'command': 'cat a.txt | wc -l'}}
FAMILIES: dict[str, tuple[Family, str, str]] = {
    'qwen3': (QWEN, trl_templates.qwen3_chat_template, 'qwen3'),
    'llama3_2': (LLAMA, trl_templates.llama3_2_chat_template, 'llama'),
    'gemma3': (GEMMA, trl_templates.gemma3_chat_template, 'gemma3_text'),
}
TASK = {
    'title': 'Done',
    'task_spec': {
        'prompt': 'Write a.txt.',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -q "it\'s \\"done\\"" a.txt'}},
    },
}


class Spoken:
    """Turns as a model of the family would write them, in the tokens of its template."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, said: str | dict[str, Any]) -> list[int]:
        asked = {'role': 'user', 'content': 'x'}
        turn: dict[str, Any] = {'role': 'assistant', 'content': said if isinstance(said, str) else ''}
        if isinstance(said, dict):
            turn['tool_calls'] = [{'type': 'function', 'function': said}]
        opening = self._render([asked], opening=True)
        whole = self._render([asked, turn], opening=False)
        end = max(place for place, token in enumerate(whole) if token == self._tokenizer.eos_token_id)
        return whole[len(opening) : end + 1]

    def _render(self, messages: list[dict[str, Any]], *, opening: bool) -> list[int]:
        ids = self._tokenizer.apply_chat_template(messages, add_generation_prompt=opening, return_dict=False)
        return list(ids)


class PromptedEngine:
    """The real engine generates on every conversation, and what it said is replaced: two attempts of four do it."""

    name = 'prompted'

    def __init__(self, engine: GenerationEngine, tokenizer: Any) -> None:
        self._engine = engine
        self._spoken = Spoken(tokenizer)

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[PromptedStream]:
        yield PromptedStream(self._engine, self._spoken, rows, seed)


class PromptedStream:
    """The conversations of a batch."""

    def __init__(self, engine: GenerationEngine, spoken: Spoken, rows: int, seed: int) -> None:
        self._engine, self._seed = engine, seed
        diligent = [spoken(WRITE), spoken(LOOK), spoken('Done.')]
        self._scripts = [list(diligent) if row % 2 else [spoken('I would rather not.')] for row in range(rows)]
        self._ids: list[list[int]] = [[] for _ in range(rows)]
        self._waiting: list[int] = []

    @property
    def asked(self) -> int:
        return len(self._waiting)

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        self._ids[row] += ids
        self._waiting.append(row)

    def advance(self) -> list[tuple[int, Generation]]:
        rows, self._waiting = sorted(self._waiting), []
        real = generate(
            self._engine, [self._ids[row] for row in rows], [3] * len(rows), temperature=1.0, seed=self._seed
        )
        assert all(1 <= len(turn.ids) <= 3 for turn in real)
        turns = [(row, Generation(self._scripts[row].pop(0), finished=True)) for row in rows]
        for row, turn in turns:
            self._ids[row] += turn.ids
        return turns


@pytest.mark.parametrize('name', FAMILIES)
def test_one_step_with_a_real_tool_call(
    name: str, tmp_path: Path, checker_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, template, kind = FAMILIES[name]
    settings, _ = parse_settings(
        {'rl': {'enabled': True, 'numGenerations': 4, 'maxSteps': 1, 'maxCompletionLength': 2048}, 'learningRate': 2e-6}
    )
    config = RunConfig(
        id='family',
        created_at=datetime.now(UTC),
        model=str(save_model(tmp_path / 'model', family, template, kind=kind)),
        settings=settings,
        home=str(checker_home),
    )
    folder = RunFolder.create(tmp_path / 'run', config, [parse_task(TASK)[0]])

    def prompted(self: Any, policy: Any) -> PromptedEngine:
        return PromptedEngine(open_engine('plain', policy, self._tokenizer), self._tokenizer)

    monkeypatch.setattr(Engines, 'engine', prompted)
    with Journal(folder) as journal:
        run = preparation.prepare(folder, journal)
        policy = with_adapter(load_model(run.model, run.hardware), run.plan)
        before = adapter_checksum(policy)
        GrpoRun(run, HeldOut([], journal, k=0, temperature=1.0, seed=1)).train(policy)
    events, _ = read_events(folder.events)
    (row,) = [event.values for event in events if isinstance(event, Metrics)]
    assert row['rewards/TfcodeEnv/mean'] == 0.5
    assert row['tools/call_frequency'] == 1.0
    assert row['tools/failure_frequency'] == 0.0
    assert row['grad_norm'] > 0
    assert adapter_checksum(policy) != before
    rollouts = [
        Rollout.model_validate(folder.rollout(event.offset)) for event in events if isinstance(event, RolloutEvent)
    ]
    assert [(rollout.verdict.outcome, rollout.ending) for rollout in rollouts] == [
        ('failed', 'answer'),
        ('passed', 'answer'),
    ] * 2
    calls = [call for turn in rollouts[1].turns for call in turn.calls]
    assert [(call.name, call.args, call.ok) for call in calls] == [
        (said['name'], said['arguments'], True) for said in (WRITE, LOOK)
    ]
    assert calls[1].result.strip() == '1'
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any('own variant' in text or "studio's variant" in text for text in notices) == (name == 'gemma3')
