"""The SFT cold start: TRL's trainer on demonstrations in the form of rollouts, loss on the assistant's tokens alone.

A base model that never used tools earns nothing, and where nothing is earned nothing is learned: some demonstrations
first give RLVR attempts to choose from (DeepSeek-R1, arXiv 2501.12948, section 2.3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from datasets import Dataset
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from trainer.checkpoints import newest
from trainer.config import ColdStart
from trainer.demonstrations import Demonstration, read_demonstrations, replayed
from trainer.errors import ConfigError, FieldError
from trainer.events import Metrics, Progress, Resumed, finite
from trainer.journal import print_line
from trainer.policy import load_weights, without_warnings
from trainer.preparation import Run
from trainer.rollout.chat import Chat
from trainer.saving import Saver
from trainer.schedule import order
from trainer.steps import Steps
from trainer.team import PATIENCE

RATE: Final = 2e-4
"""Learning rate of LoRA on demonstrations where neither the user nor a small model asks for another."""
IGNORED: Final = -100
FROM_TRL: Final = {
    'loss': 'loss', 'grad_norm': 'grad_norm', 'learning_rate': 'learning_rate', 'mean_token_accuracy': 'token_accuracy',
}  # fmt: skip
"""What is taken over from TRL's log, and its name here."""

Example = tuple[list[int], list[int]]
"""Token ids and labels of one chat; labels are ``IGNORED`` on what the assistant did not say."""


class SftRun:
    """One cold start."""

    def __init__(self, run: Run, settings: ColdStart) -> None:
        self._run = run
        self._settings = settings
        self.steps = 0
        self.stopped = False

    def train(self, policy: Any) -> None:
        """Train a PEFT model in place. Goes on from the newest checkpoint. Raises ``ConfigError`` without examples."""
        run, journal = self._run, self._run.journal
        # What a replay shows may differ from time to time: all processes learn from that of the first.
        examples = run.team.gather(self._examples() if run.team.writes else [])[0]
        self.stopped = run.team.any(journal.stop_requested)
        if self.stopped:
            return
        steps = max(1, math.ceil(len(examples) * self._settings.epochs / self._settings.batch_size))
        root = run.folder.checkpoints / 'cold_start'
        loaded, broken = newest(root)
        for said in broken:
            journal.notice(f'Not used: {said}', level='warning')
        self.steps = loaded.step if loaded else 0
        if journal.continued:
            journal.write(Resumed(stage='cold_start', step=self.steps))
        journal.notice(f'{len(examples)} demonstrations, {steps} steps')
        if loaded and self.steps >= steps:
            load_weights(policy, loaded.path)
            return
        saver = Saver(
            journal,
            root,
            every=run.config.settings.save_every,
            keep=run.config.settings.keep_checkpoints,
            loaded=loaded,
            announced=False,
        )
        with without_warnings():
            trainer = SFTTrainer(
                model=policy,
                args=self._arguments(policy, steps),
                train_dataset=self._dataset(examples, steps),
                processing_class=run.tokenizer,
                callbacks=[Steps(partial(self.row, steps)), saver],
            )
            trainer.remove_callback(PrinterCallback)
            saver.trainer = trainer
            trainer.train(resume_from_checkpoint=str(loaded.path) if loaded else None)
            saver.save()

    def row(self, total: int, step: int, log: dict[str, float], durations: Sequence[float]) -> bool:
        """Write the row of a step; return whether the stage ends here because somebody asked."""
        self.steps = step
        self._run.journal.write(Metrics(step=step, values=_row(log)))
        if self._run.team.writes:
            print_line(f'cold start {step}/{total}  loss {log["loss"]:.3f}  {durations[-1]:.1f} s')
        eta = (total - step) * sum(durations) / len(durations)
        self._run.journal.write(Progress(step=step, total=total, eta_s=round(eta, 1)))
        self.stopped = self._run.team.any(self._run.journal.stop_requested)
        return self.stopped

    def _examples(self) -> list[Example]:
        """The demonstrations as tokens. Raises ``ConfigError`` where there are none to learn from."""
        run, journal = self._run, self._run.journal
        if run.folder.demonstrations.exists():
            shown: list[Demonstration] = read_demonstrations(run.folder.demonstrations)
        else:
            shown, left_out = replayed(
                run.tasks,
                home=run.home,
                isolation=run.config.isolation,
                environment=run.python,
                stop=lambda: journal.stop_requested,
            )
            for reason in left_out:
                journal.notice(f'Not demonstrated: {reason}', level='warning')
        chat = Chat(run.tokenizer)
        examples = [labelled(chat, one, run.plan.answer_tokens) for one in shown]
        fitting = [one for one in examples if _learned_span(one) <= run.plan.max_completion_length]
        if len(fitting) < len(examples):
            journal.notice(
                f'{len(examples) - len(fitting)} demonstrations are longer than an episode may be '
                f'({run.plan.max_completion_length} tokens) and are left out',
                level='warning',
                setting='rl.maxCompletionLength',
            )
        if not fitting and not journal.stop_requested:
            message = 'There is no demonstration to learn from'
            raise ConfigError(
                message,
                [FieldError(loc='coldStart', msg=message)],
                hint='Give tasks a reference solution, or a JSONL of chats with tool calls.',
            )
        return fitting

    def _arguments(self, policy: Any, steps: int) -> SFTConfig:
        run, settings = self._run, self._settings
        hardware, preset = run.hardware, run.model.preset
        # What fits a small model at once goes through a large one chat by chat.
        share = max(1, settings.batch_size // run.team.size)
        together = share if preset.groups_per_batch > 1 else 1
        return SFTConfig(
            output_dir=str(run.folder.checkpoints),
            max_steps=steps,
            per_device_train_batch_size=together,
            gradient_accumulation_steps=share // together,
            learning_rate=settings.learning_rate or max(RATE, preset.learning_rate),
            lr_scheduler_type='linear',
            max_length=None,
            packing=False,
            seed=run.config.settings.seed,
            train_sampling_strategy='sequential',
            use_cpu=hardware.device == 'cpu',
            bf16=hardware.precision == 'bfloat16',
            fp16=hardware.precision == 'float16',
            gradient_checkpointing=run.model.checkpoints_layers(gpu=hardware.device == 'cuda')
            and policy.supports_gradient_checkpointing,
            logging_steps=1,
            save_strategy='no',
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=hardware.device == 'cuda',
            ddp_find_unused_parameters=False,
            ddp_timeout=int(PATIENCE.total_seconds()),
        )

    def _dataset(self, examples: Sequence[Example], steps: int) -> Dataset:
        """One row an example of the whole stage, in the order of the schedule: the step is the place to go on from."""
        numbers = order(
            [str(number) for number in range(len(examples))],
            steps * self._settings.batch_size,
            self._run.config.settings.seed,
        )
        chosen = [examples[int(number)] for number in numbers]
        return Dataset.from_dict({'input_ids': [ids for ids, _ in chosen], 'labels': [labels for _, labels in chosen]})


def _row(log: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a step."""
    return finite({f'cold_start/{ours}': log.get(theirs) for theirs, ours in FROM_TRL.items()})


def labelled(chat: Chat, demonstration: Demonstration, answer_tokens: int) -> Example:
    """Token ids of a demonstration and its labels: the assistant's tokens, ends of turns included, and no others."""
    ids, mask = chat.demonstration(demonstration.chat(lambda text: chat.cut(text, answer_tokens)))
    return ids, [token if own else IGNORED for token, own in zip(ids, mask, strict=True)]


def _learned_span(example: Example) -> int:
    """Tokens from the assistant's first to the last: what an episode counts as its completion."""
    labels = example[1]
    first = next((place for place, label in enumerate(labels) if label != IGNORED), len(labels))
    return len(labels) - first
