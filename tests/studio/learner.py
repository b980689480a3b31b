"""A stand-in that learns on paper: writes every series, groups with transcripts and evaluations as a real run does.

``python learner.py [--steps N --interval S …] RUN_DIR``, for tests of the training pages. A run whose name begins with
``quick`` ends at once, one with ``fail`` in its name fails.
"""

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path

from trainer.events import Artifact, EventWriter, Metrics, Notice, Progress, RolloutEvent, State
from trainer.recording import Change, Rollout, ToolRecord, Turn
from trainer.runfolder import STOP, RunFolder
from trainer.task import TaskFile
from trainer.verdict import Item, Verdict

HOSTILE = '</script><img src=x onerror="document.title=\'pwned\'">[x](javascript:alert(1))'


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=42)
    parser.add_argument('--interval', type=float, default=0.0)
    parser.add_argument('--lost', default='', help='steps that leave no values, with commas')
    parser.add_argument('--wait-file', default='', help='do not end before this file exists in the run folder')
    parser.add_argument('--fail', default='', help='end with this error')
    parser.add_argument('folder', type=Path)
    options = parser.parse_args()
    name = RunFolder(options.folder).config().name
    if name.startswith('quick'):
        options.interval, options.steps = 0.0, 12
    if 'fail' in name:
        options.fail = 'torch.OutOfMemoryError: CUDA out of memory'
    Learner(RunFolder(options.folder), options).run()


class Learner:
    def __init__(self, folder: RunFolder, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.dice = random.Random(7)
        self.tasks = folder.tasks()
        self.held_out = folder.held_out_tasks()
        self.ease = {task.id: self.dice.uniform(-0.25, 0.35) for task in self.tasks}

    def run(self) -> None:
        steps = self.options.steps
        with EventWriter(self.folder.events) as events:
            events.write(State(state='preparing'))
            sys.stdout.write('loading the model\n')
            events.write(State(state='evaluating', reason='held-out tasks, before training'))
            self.evaluate('before', 0.26)
            events.write(State(state='training'))
            events.write(Progress(step=0, total=steps))
            for step in range(1, steps + 1):
                if self.folder.requested(STOP):
                    self.save(events)
                    events.write(State(state='stopped', reason='stopped by the user'))
                    return
                if str(step) not in self.options.lost.split(','):
                    self.step(events, step)
                sys.stdout.write(f'step {step} done\n')
                sys.stdout.flush()
                eta = (steps - step) * max(self.options.interval, 0.01)
                events.write(Progress(step=step, total=steps, eta_s=eta))
                time.sleep(self.options.interval)
            while self.options.wait_file and not (self.folder.path / self.options.wait_file).exists():
                time.sleep(0.05)
            if self.options.fail:
                raise SystemExit(self.options.fail)
            events.write(State(state='evaluating', reason='held-out tasks, after training'))
            self.evaluate('after', 0.71)
            self.save(events)
            events.write(State(state='finished'))

    def step(self, events: EventWriter, step: int) -> None:
        groups = [self.group(events, step, number) for number in range(min(4, len(self.tasks)))]
        scored = [[reward for reward in group if reward is not None] for group in groups]
        rewards = [reward for group in scored for reward in group]
        flat = sum(len(set(group)) < 2 for group in scored) / len(groups)
        spread = [math.sqrt(sum((r - sum(g) / len(g)) ** 2 for r in g) / len(g)) for g in scored if g]
        errors = sum(reward is None for group in groups for reward in group)
        total = sum(len(group) for group in groups)
        progress = step / self.options.steps
        noise = self.dice.uniform(-0.02, 0.02)
        values = {
            'rewards/TfcodeEnv/mean': sum(rewards) / len(rewards),
            'rewards/TfcodeEnv/std': sum(spread) / len(spread),
            'frac_reward_zero_std': flat,
            'entropy': max(0.02, 0.9 - 0.4 * progress + noise),
            'completions/mean_length': 610 - 110 * progress + 400 * noise,
            'completions/clipped_ratio': max(0.0, 0.16 - 0.12 * progress + noise),
            'tools/call_frequency': 2.4 + progress + 5 * noise,
            'tools/failure_frequency': max(0.0, 0.2 - 0.15 * progress + noise),
            'tools/unreadable_frequency': max(0.0, 0.08 - 0.07 * progress + noise / 2),
            'episodes/budget_share': max(0.0, 0.1 + noise),
            'checker/errors': float(errors),
            'checker/error_share': errors / total,
            'loss': noise / 10,
            'grad_norm': 0.08 + abs(noise),
            'learning_rate': 2e-6 * (1 - progress),
            'seconds/generate': 34 + 200 * noise,
            'seconds/tools': 4 + 20 * abs(noise),
            'seconds/check': 3 + 20 * abs(noise),
            'seconds/update': 13 + 100 * noise,
            'tokens_per_second': 1840 + 1000 * noise,
        }
        events.write(Metrics(step=step, values=values))
        if errors:
            events.write(Notice(level='warning', text=f'{errors} attempts at step {step} were not scored'))
        if step % 20 == 0:
            events.write(Artifact(kind='checkpoint', path=f'checkpoints/step-{step}'))

    def group(self, events: EventWriter, step: int, number: int) -> list[float | None]:
        task = self.tasks[(step * 3 + number * 5) % len(self.tasks)]
        chance = min(0.97, max(0.02, 0.27 + 0.4 * step / self.options.steps + self.ease[task.id]))
        rewards: list[float | None] = []
        for index in range(8):
            broken = step % 17 == 2 and number == 1
            solved = self.dice.random() < chance
            reward = None if broken else 1.0 if solved else self.dice.choice([0.0, 0.0, 0.33])
            self.write(events, record(task, step, number, index, reward))
            rewards.append(reward)
        return rewards

    def write(self, events: EventWriter, rollout: Rollout) -> None:
        with self.folder.rollouts.open('ab') as file:
            offset = file.tell()
            file.write(rollout.model_dump_json().encode() + b'\n')
        fields = {name: getattr(rollout, name) for name in ('step', 'task', 'group', 'index', 'stage')}
        verdict = rollout.verdict
        events.write(RolloutEvent(**fields, outcome=verdict.outcome, reward=verdict.reward, offset=offset))

    def evaluate(self, stage: str, mean: float) -> None:
        if not self.held_out:
            return
        tasks = []
        for number, task in enumerate(self.held_out):
            solved = min(8, max(0, round(8 * mean + self.dice.uniform(-2.5, 2.5)))) if number else 5 - 2 * (mean > 0.5)
            low, high = wilson(solved, 8)
            tasks.append(
                {'id': task.id, 'title': task.title, 'solved': solved, 'attempts': 8, 'low': low, 'high': high}
            )
        solved, attempts = sum(task['solved'] for task in tasks), 8 * len(tasks)
        low, high = wilson(solved, attempts)
        view = {'stage': stage, 'k': 8, 'mean': solved / attempts, 'low': low, 'high': high, 'solved': solved}
        view |= {'attempts': attempts, 'tasks': tasks}
        (self.folder.path / f'evaluation-{stage}.json').write_text(json.dumps(view), encoding='utf-8')

    def save(self, events: EventWriter) -> None:
        self.folder.adapter.mkdir()
        (self.folder.adapter / 'adapter_model.safetensors').write_bytes(b'w' * 1_840_000)
        (self.folder.adapter / 'adapter_config.json').write_text('{"r": 16, "peft_type": "LORA"}', encoding='utf-8')
        events.write(Artifact(kind='adapter', path='adapter'))


def wilson(solved: int, attempts: int) -> tuple[float, float]:
    z, share = 1.96, solved / attempts
    middle = (share + z * z / (2 * attempts)) / (1 + z * z / attempts)
    half = z * math.sqrt(share * (1 - share) / attempts + z * z / (4 * attempts**2)) / (1 + z * z / attempts)
    return max(0.0, middle - half), min(1.0, middle + half)


def record(task: TaskFile, step: int, group: int, index: int, reward: float | None) -> Rollout:
    """One episode: it reads, writes and runs; its last words are hostile, as a model's can be."""
    calls = [
        ToolRecord(
            name='read_file', args={'path': 'src/paginate.py'}, result='def paginate(items):\n    …', duration_ms=3
        ),
        ToolRecord(
            name='write_file',
            args={'path': 'src/paginate.py', 'content': 'def paginate(items):\n    return items\n'},
            result='Wrote 41 bytes',
            duration_ms=3,
        ),
        ToolRecord(
            name='run_command',
            args={'command': 'python -m pytest -q tests'},
            result=f'.....F   [100%]\nFAILED tests/test_paginate.py::test_size {HOSTILE}\n1 failed, 5 passed',
            ok=True,
            exit_code=1,
            duration_ms=402,
        ),
    ]
    words = ['I will read the function first.', 'A slice end is exclusive.', '']
    markup = '<tool_call>\n{"name": "%s", "arguments": {}}\n</tool_call>'
    turns = [
        Turn(text=f'{said}\n{markup % call.name}<|im_end|>', tokens=64 + 30 * n, seconds=0.9 + n, calls=(call,))
        for n, (said, call) in enumerate(zip(words, calls, strict=True))
    ]
    turns.append(Turn(text=f'Done. {HOSTILE}', tokens=119, seconds=1.8))
    if index == 5:
        turns = [Turn(text='<tool_call>\n{"name": "read_file", "argu', tokens=64, seconds=0.9, unreadable=True)]
    items = tuple(Item(name=f'test_page_{n}', passed=n != 4 or reward == 1.0, detail='did not raise') for n in range(6))
    verdict = (
        Verdict.not_scored('The checker hit its 30 s limit')
        if reward is None
        else Verdict.scored(reward, '6 tests', items=items, output='.....F [100%]\n1 failed, 5 passed in 0.10s')
    )
    head = '--- a/src/paginate.py\n+++ b/src/paginate.py\n'
    diff = head + '@@ -5,2 +5,2 @@ def paginate\n     start = 0\n-    end = 1\n+    end = 2\n'
    return Rollout(
        step=step,
        task=task.id,
        title=task.title,
        group=group,
        index=index,
        prompt=task.task_spec.prompt,
        turns=tuple(turns),
        ending='unreadable_tool_call' if index == 5 else 'answer',
        verdict=verdict.model_copy(update={'duration_ms': 600}),
        tokens=sum(turn.tokens for turn in turns),
        advantage=None if reward is None else round(reward - 0.5, 3),
        changes=(Change(path='src/paginate.py', kind='M', diff=diff), Change(path='notes/<b>.txt', kind='A')),
        seconds={'generate': 6.1, 'tools': 0.4, 'check': 0.6},
    )


if __name__ == '__main__':
    main()
