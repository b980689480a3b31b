"""Episodes of plain TRL and ours side by side: same starter model, tasks, sandbox, tools and batch, in one run.

Three kinds of tasks: (a) the tutorial's short shell chores; (b) chores whose every tool call and check runs pytest;
(c) chores whose tools wait 0.3 s, as a tool that asks a service does. Both sides run TRL's trainer with a learning rate
of (almost) nothing, in turn, so that both meet the same machine. Prints seconds a step by phase, and the ratio of the
episode phase: everything from prompts to rewards. Updates here are of episodes that differ: `update.py` has them
on the same ones. `python tests/bench/rollout.py [--steps 4] [--kinds a b c] [--no-sharing]`.

The `cpu` column is processor seconds of the episode phase, those of closed sandboxes included: what working side by
side cannot shrink. In (b) each tool call takes about 0.16 of them for pytest on both sides, two at a time on two cores;
what ours saves beside that is work: attempts that have been told the same run an equal call once, and equal final
workspaces of a batch are checked once.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from trainer.config import parse_settings, plan
from trainer.engines import open_engine
from trainer.hardware import detect
from trainer.manifest import read_manifest
from trainer.models import ASSETS, STARTER
from trainer.policy import load_model, load_tokenizer, lora
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player
from trainer.sandbox.python_env import base_environment
from trainer.task import TaskFile, parse_task
from trainer.tools import ToolResult

GROUP = 8
TOKENS = 384
TOOL_WAIT_S = 0.3
TESTS = 'import os\n\n\ndef test_something_was_made():\n    assert os.listdir() != ["test_made.py"]\n'


class WaitingEnv(TfcodeEnv):
    """Tools that wait."""

    def _call(self, name: str, args: Any) -> ToolResult:
        time.sleep(TOOL_WAIT_S)
        return super()._call(name, args)


class TestingEnv(TfcodeEnv):
    """Tools that run the author's tests after what was asked for, as a careful agent does."""

    def _call(self, name: str, args: Any) -> ToolResult:
        result = super()._call(name, args)
        super()._call('run_command', {'command': 'python3 -m pytest -q test_made.py'})
        return result


def with_tests(task: TaskFile) -> TaskFile:
    """The same chore, checked by pytest."""
    spec = task.task_spec.model_dump(mode='json')
    spec['setup_files'] = {**spec['setup_files'], 'test_made.py': TESTS}
    spec['checker'] = {'type': 'pytest', 'config': {'test_paths': ['test_made.py']}}
    return parse_task({'id': task.id, 'title': task.title, 'task_spec': spec})[0]


KINDS: dict[str, tuple[str, type[TfcodeEnv], Callable[[TaskFile], TaskFile]]] = {
    'a': ('short shell tasks', TfcodeEnv, lambda task: task),
    'b': ('pytest in tools and checks', TestingEnv, with_tests),
    'c': ('tools that wait 0.3 s', WaitingEnv, lambda task: task),
}


class Clock:
    """Seconds by phase, of one step after the other."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []

    def begin(self) -> None:
        """Begin a step."""
        self.steps.append(defaultdict(float))

    def timed(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, its seconds counted."""

        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                self.steps[-1][phase] += time.perf_counter() - began

        return timed

    def counted(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, counted."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self.steps[-1][what] += 1
            return call(*arguments, **options)

        return counted

    def medians(self) -> dict[str, float]:
        """Each phase's median over the steps, without the first, which warms up."""
        return {phase: median(step[phase] for step in self.steps[1:]) for phase in self.steps[-1]}


class TimedTrainer(GRPOTrainer):
    """Tells the episode phase from the update."""

    clock: Clock

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        self.clock.begin()
        whole = self.clock.timed('step', super().training_step)(*arguments, **options)
        step = self.clock.steps[-1]
        step['update'] = step['step'] - step['episodes']
        return whole

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        began = processor_seconds()
        output = self.clock.timed('episodes', super()._generate_and_score_completions)(inputs)
        self.clock.steps[-1]['cpu'] = processor_seconds() - began
        self.clock.steps[-1]['tokens'] = float((output['completion_mask'] * output.get('tool_mask', 1)).sum())
        self.clock.steps[-1]['reward'] = float(sum(self._metrics['train']['reward'][-1:]))
        return output


def processor_seconds() -> float:
    """Of this process and of those it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def arguments(folder: str, rollouts: int, steps: int) -> GRPOConfig:
    """What both sides train with."""
    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=rollouts,
        num_generations=GROUP,
        max_completion_length=TOKENS,
        temperature=1.0,
        learning_rate=1e-12,
        loss_type='dapo',
        beta=0.0,
        seed=1,
        use_cpu=True,
        bf16=False,
        logging_steps=1000,
        save_strategy='no',
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        max_tool_calling_iterations=16,
    )


def trainer(folder: str, tasks: list[TaskFile], rollouts: int, steps: int, clock: Clock, **side: Any) -> TimedTrainer:
    """TRL's trainer on these tasks, with the one side's way to episodes."""
    torch.manual_seed(1)
    by_id = [
        {'prompt': [{'role': 'user', 'content': task.task_spec.prompt, 'task': task.id}]}
        | {'task_spec': task.task_spec.model_dump_json()}
        for task in tasks
    ]
    made = TimedTrainer(
        model=load_model(STARTER, detect()),
        args=arguments(folder, rollouts, steps),
        train_dataset=Dataset.from_list(by_id),
        peft_config=lora(plan(parse_settings({})[0], STARTER, len(tasks))),
        **side,
    )
    made.clock = clock
    made.remove_callback(PrinterCallback)
    return made


def plain_trl(kind: str, tasks: list[TaskFile], rollouts: int, steps: int, home: Path) -> dict[str, float]:
    """TRL's own loop over environments."""
    clock = Clock()

    class Timed(KINDS[kind][1]):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(home, 'bubblewrap')
            self._call = clock.timed('tools', clock.counted('calls', self._call))
            self._grade = clock.timed('check', self._grade)

    with tempfile.TemporaryDirectory() as folder:
        made = trainer(
            folder,
            tasks,
            rollouts,
            steps,
            clock,
            processing_class=load_tokenizer(STARTER),
            reward_funcs=[],
            environment_factory=Timed,
        )
        made._generate_single_turn = clock.timed('generate', made._generate_single_turn)
        made.train()
        for pool in made._environment_pool.values():
            for environment in pool:
                environment._close()
    return clock.medians()


def ours(
    kind: str, tasks: list[TaskFile], rollouts: int, steps: int, home: Path, *, share_calls: bool = True
) -> dict[str, float]:
    """Our player behind ``rollout_func``."""
    clock, tokenizer = Clock(), load_tokenizer(STARTER)
    python, known = base_environment(home), {task.id: task for task in tasks}
    silent = load_tokenizer(STARTER)
    silent.response_template = None

    def roll_out(prompts: list[Any], _: Any) -> dict[str, Any]:
        episodes = player.play([known[prompt[-1]['task']] for prompt in prompts], share_calls=share_calls)
        clock.steps[-1].update(player.seconds, calls=sum(episode.calls for episode in episodes))
        return {
            'prompt_ids': [episode.prompt for episode in episodes],
            'completion_ids': [episode.completion for episode in episodes],
            'env_mask': [episode.mask for episode in episodes],
            'logprobs': None,
            'reward': [episode.checked.result()[0].reward for episode in episodes if episode.checked],
        }

    with tempfile.TemporaryDirectory() as folder:
        made = trainer(
            folder,
            tasks,
            rollouts,
            steps,
            clock,
            processing_class=silent,
            reward_funcs=lambda reward, **_: reward,
            rollout_func=roll_out,
        )
        limits = EpisodeLimits(TOKENS, 16, 1.0)
        engine = open_engine('plain', made.model, tokenizer)
        player = Player(Chat(tokenizer), engine, limits, lambda: KINDS[kind][1](home, 'bubblewrap', python))
        try:
            made.train()
        finally:
            player.close()
    return clock.medians()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--steps', type=int, default=4, help='measured steps of each side; one more warms up')
    parser.add_argument('--kinds', nargs='+', default=list(KINDS), choices=list(KINDS))
    parser.add_argument('--no-sharing', action='store_true', help='with us too, every attempt runs all of its calls')
    parser.add_argument('--rollouts', nargs='+', type=int, default=[16, 32])
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    tutorial = read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl')
    phases = ('episodes', 'cpu', 'generate', 'tools', 'check', 'update', 'calls', 'tokens', 'reward')
    print('seconds a step (median); what ran beside something else is counted where it was waited for')
    print(f'{"":42}' + ''.join(f'{phase:>10}' for phase in phases))
    sides = {'plain_trl': plain_trl, 'ours': partial(ours, share_calls=not options.no_sharing)}
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds:
            title, _, made = KINDS[kind]
            tasks = [made(task) for task in tutorial]
            for rollouts in options.rollouts:
                found = {}
                for name, side in sides.items():
                    row = found[name] = side(kind, tasks, rollouts, options.steps + 1, Path(folder))
                    label = f'({kind}) {title}, {rollouts}, {name}'
                    print(f'{label:42}' + ''.join(f'{row.get(phase, 0):10.2f}' for phase in phases), flush=True)
                theirs, mine = found['plain_trl'], found['ours']
                same = (theirs['update'] / theirs['tokens']) / (mine['update'] / mine['tokens'])
                print(f'    episodes {theirs["episodes"] / mine["episodes"]:.2f} x, update a token {same:.2f} x')
    print(f'load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')


if __name__ == '__main__':
    main()
