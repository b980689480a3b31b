"""Agentic GRPO: TRL's trainer on our episodes, one row of right numbers a step (spec section 6, arXiv 2402.03300)."""

from __future__ import annotations

import copy
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from trainer.config import Plan, RunConfig
from trainer.events import Metrics, Progress, finite
from trainer.hardware import Hardware
from trainer.journal import Journal
from trainer.policy import lora
from trainer.recording import Rollout
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.metrics import advantages, step_metrics
from trainer.rollout.play import Episode, Player, Stopped, record
from trainer.task import TaskFile

ERROR_WINDOW: Final = 5
"""Steps over which the share of errors is taken."""
ETA_WINDOW: Final = 10
STOPPED_BY_USER: Final = 'stopped by the user'
FROM_TRL: Final = ('loss', 'grad_norm', 'learning_rate', 'entropy', 'clip_ratio/region_mean', 'policy_loss')
"""What is taken over from TRL's log: the numbers of its update. The others are computed over groups, by us."""


class GrpoRun:
    """One GRPO stage: builds TRL's trainer around ``rollout_func``, trains, and says why it ended."""

    def __init__(
        self,
        config: RunConfig,
        plan: Plan,
        tasks: Sequence[TaskFile],
        journal: Journal,
        hardware: Hardware,
    ) -> None:
        self._config = config
        self._plan = plan
        self._tasks = {task.id: task for task in tasks}
        self._journal = journal
        self._hardware = hardware
        self._values: dict[str, float] = {}
        self._errors: deque[tuple[int, int]] = deque(maxlen=ERROR_WINDOW)
        self.steps = 0
        self.stop_reason = ''
        """Why training ended before its last step, or empty."""
        self.failed = False
        """Whether that reason is a failure."""

    def train(self, model: Any, tokenizer: Any, make_player: Callable[[Any], Player]) -> Any:
        """Train and return the PEFT model; ``make_player`` gets the wrapped model that generates the episodes."""
        with warnings.catch_warnings():
            # TRL calls rollout_func experimental, and transformers its own deprecated names, at every start.
            warnings.simplefilter('ignore', UserWarning)
            warnings.simplefilter('ignore', FutureWarning)
            trainer = GRPOTrainer(
                model=model,
                args=self._arguments(),
                train_dataset=self._dataset(),
                processing_class=_text_only(tokenizer),
                reward_funcs=_reward,
                rollout_func=self._rollouts,
                peft_config=lora(self._plan),
                callbacks=[_Steps(self)],
            )
            trainer.remove_callback(PrinterCallback)
            self._player = make_player(trainer.model)
            try:
                trainer.train()
            except Stopped:
                self.stop_reason = STOPPED_BY_USER
            finally:
                self._player.close()
        return trainer.model

    def _arguments(self) -> GRPOConfig:
        rl, plan = self._config.settings.rl, self._plan
        return GRPOConfig(
            output_dir=str(self._journal.folder.checkpoints),
            max_steps=plan.steps,
            per_device_train_batch_size=plan.batch_size,
            gradient_accumulation_steps=plan.accumulation,
            num_generations=plan.generations,
            max_completion_length=plan.max_completion_length,
            temperature=plan.temperature,
            learning_rate=plan.learning_rate,
            lr_scheduler_type='linear',
            loss_type=rl.loss_type,
            scale_rewards=rl.scale_rewards,
            entropy_coef=rl.entropy_coef,
            epsilon_high=0.28,  # clip-higher of DAPO, arXiv 2503.14476
            beta=0.0,
            seed=self._config.settings.seed,
            use_cpu=self._hardware.device == 'cpu',
            bf16=self._hardware.precision == 'bfloat16',
            fp16=self._hardware.precision == 'float16',
            gradient_checkpointing=self._hardware.device == 'cuda',
            logging_steps=1,
            save_strategy='no',
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=self._hardware.device == 'cuda',
        )

    def _dataset(self) -> Dataset:
        """One row a task, repeated where a step asks for more groups than there are tasks.

        Only the id travels: ``datasets`` would pad nested columns with the keys of other rows.
        """
        ids = list(self._tasks)
        ids *= -(-self._plan.groups // len(ids))
        rows = [[{'role': 'user', 'content': self._tasks[id_].task_spec.prompt, 'task': id_}] for id_ in ids]
        return Dataset.from_dict({'prompt': rows})

    def _rollouts(self, prompts: list[list[dict[str, str]]], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play the episodes of a step for TRL: token ids, mask, and rewards (``None`` for an error)."""
        tasks = [self._tasks[prompt[-1]['task']] for prompt in prompts]
        episodes = self._player.play(tasks, stop=lambda: self._journal.stop_requested)
        groups = self._record(episodes, trainer.state.global_step + 1)
        rewards = [rollout.verdict.reward for group in groups for rollout in group]
        return {
            'prompt_ids': [episode.prompt for episode in episodes],
            'completion_ids': [episode.completion for episode in episodes],
            'env_mask': [episode.mask for episode in episodes],
            'logprobs': None,
            'reward': rewards,
        }

    def _record(self, episodes: Sequence[Episode], step: int) -> list[list[Rollout]]:
        size = self._plan.generations
        batches = [episodes[start : start + size] for start in range(0, len(episodes), size)]
        plain = [
            [
                record(episode, step=step, stage='train', group=number, index=index, advantage=None)
                for index, episode in enumerate(batch)
            ]
            for number, batch in enumerate(batches)
        ]
        weights = advantages(
            [[rollout.verdict.reward for rollout in group] for group in plain],
            self._config.settings.rl.scale_rewards,
        )
        groups = [
            [rollout.model_copy(update={'advantage': weight}) for rollout, weight in zip(group, row, strict=True)]
            for group, row in zip(plain, weights, strict=True)
        ]
        for group in groups:
            for rollout in group:
                self._journal.rollout(rollout, 'train')
        self._values = step_metrics(groups)
        self._values |= {f'seconds/{phase}': seconds for phase, seconds in self._player.seconds.items()}
        tokens = sum(rollout.tokens for group in groups for rollout in group)
        if self._player.seconds['generate'] > 0:
            self._values['tokens_per_second'] = tokens / self._player.seconds['generate']
        self._errors.append((int(self._values['checker/errors']), len(episodes)))
        self._episodes_ended = time.perf_counter()
        return groups

    def step_ended(self, step: int, log: dict[str, float], durations: Sequence[float]) -> None:
        """Write the row of a step: TRL's numbers of the update, ours of the episodes."""
        self.steps = step
        now = time.perf_counter()
        self._values['seconds/update'] = now - self._episodes_ended
        self._values |= finite({name: log.get(name) for name in FROM_TRL})
        self._journal.write(Metrics(step=step, values=finite(self._values)))
        reward = self._values.get('rewards/TfcodeEnv/mean')
        shown = 'no reward' if reward is None else f'reward {reward:.3f}'
        print(f'step {step}/{self._plan.steps}  {shown}  {durations[-1]:.1f} s', flush=True)  # noqa: T201
        left = self._plan.steps - step
        eta = left * sum(durations) / len(durations) if durations else None
        self._journal.write(Progress(step=step, total=self._plan.steps, eta_s=round(eta, 1) if eta else None))

    def should_stop(self) -> bool:
        """Whether training ends here: somebody asked, or too many checks could not do their work."""
        if self._journal.stop_requested:
            self.stop_reason = STOPPED_BY_USER
            return True
        errors, attempts = (sum(column) for column in zip(*self._errors, strict=True))
        limit = self._config.settings.max_error_share
        if errors > limit * attempts:
            self.failed = True
            self.stop_reason = (
                f'{errors} of {attempts} checks of the last {len(self._errors)} steps were errors, '
                f'more than the limit of {limit:.0%}: the checkers could not do their work'
            )
            return True
        return False


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Turns TRL's callbacks into rows and stops."""

    def __init__(self, run: GrpoRun) -> None:
        self._run = run
        self._durations: deque[float] = deque(maxlen=ETA_WINDOW)
        self._began = time.perf_counter()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and 'loss' in logs:
            self._durations.append(time.perf_counter() - self._began)
            self._run.step_ended(state.global_step, logs, self._durations)
            if self._run.should_stop():
                control.should_training_stop = True


def _reward(reward: list[float | None], **_: object) -> list[float | None]:
    """The reward of each episode as its checker gave it; ``None`` is an error, which TRL leaves out."""
    return reward


_reward.__name__ = TfcodeEnv.__name__  # TRL names the series of a reward after its function


def _text_only(tokenizer: Any) -> Any:
    """A tokenizer that TRL will not parse turns with: episodes are read back where they are played."""
    copied = copy.copy(tokenizer)
    copied.response_template = None
    return copied
