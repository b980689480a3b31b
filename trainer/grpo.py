"""Agentic GRPO: TRL's trainer on our episodes, one row of right numbers a step (spec section 6, arXiv 2402.03300)."""

from __future__ import annotations

import copy
import hashlib
import shutil
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from datasets import Dataset
from pydantic import Field
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from trainer.checkpoints import Checkpoint, whole_folder
from trainer.errors import RunFolderError
from trainer.events import Metrics, Progress, finite
from trainer.held_out import HeldOut, Measured, best, since_improvement
from trainer.journal import print_exception, print_line
from trainer.policy import paused_autocast, save_weights, without_warnings
from trainer.preparation import Run
from trainer.recording import Rollout
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.metrics import advantages, step_metrics
from trainer.rollout.play import Episode, Player, Stopped, record
from trainer.saving import STANDING, Saver, said
from trainer.schedule import Outcomes, order, teaches
from trainer.statistics import wilson
from trainer.steps import Steps
from trainer.task import TaskFile
from trainer.team import PATIENCE
from trainer.validation import Document

ERROR_WINDOW: Final = 5
"""Steps over which the share of errors is taken."""
EXTRA_ROUNDS: Final = 2
"""How often a step's groups that cannot teach are replaced by others at most (dynamic sampling)."""
STOPPED_BY_USER: Final = 'stopped by the user'
FROM_TRL: Final = ('loss', 'grad_norm', 'learning_rate', 'entropy', 'clip_ratio/region_mean', 'policy_loss')
"""What is taken over from TRL's log: the numbers of its update. The others are computed over groups, by us."""

Group = list[Episode]


class Standing(Document):
    """What the stage has to remember from one process to the next."""

    measured: tuple[Measured, ...] = ()
    errors: tuple[tuple[int, int], ...] = ()
    outcomes: dict[str, tuple[float, float]] = Field(default_factory=dict)
    tasks: str = Field(default='', description='Digest of the tasks: the step is a place in their order.')


class GrpoRun:
    """One GRPO stage: builds TRL's trainer around ``rollout_func``, trains, and says why it ended."""

    def __init__(self, run: Run, held_out: HeldOut, *, loaded: Checkpoint | None = None) -> None:
        self._run = run
        self._held_out = held_out
        self._loaded = loaded
        self._tasks = {task.id: task for task in run.tasks}
        self._values: dict[str, float] = {}
        self._seconds: Counter[str] = Counter()
        standing = _standing(loaded)
        self._digest = _digest(run.tasks)
        if loaded is not None and standing.tasks not in ('', self._digest):
            raise RunFolderError(
                f'The tasks in {run.folder.manifest.name} are not those of checkpoint {loaded.path.name}',
                hint='Put them back, or make a new run for other tasks.',
            )
        self._errors: deque[tuple[int, int]] = deque(standing.errors, maxlen=ERROR_WINDOW)
        self._outcomes = Outcomes(standing.outcomes)
        if loaded is not None:
            held_out.measured = standing.measured
        self.steps = loaded.step if loaded else 0
        self.stop_reason = ''
        """Why training ended before its last step, or empty."""
        self.failed = False
        """Whether that reason is a failure."""
        self.stopped = False
        """Whether that reason is the user."""

    def train(self, policy: Any) -> None:
        """Train a PEFT model in place, to the last step of the plan or to a reason to end before."""
        if self.steps >= self._run.plan.steps:
            return
        settings, journal = self._run.config.settings, self._run.journal
        saver = self._saver = Saver(
            journal,
            journal.folder.checkpoints,
            every=settings.save_every,
            keep=settings.keep_checkpoints,
            standing=lambda: self._standing.model_dump(mode='json'),
            loaded=self._loaded,
        )
        with without_warnings():
            trainer = GRPOTrainer(
                model=policy,
                args=self._arguments(policy),
                train_dataset=self._dataset(),
                processing_class=_text_only(self._run.tokenizer),
                reward_funcs=_reward,
                rollout_func=self._rollouts,
                callbacks=[Steps(self._ended), saver],
            )
            trainer.remove_callback(PrinterCallback)
            saver.trainer = trainer
            self._policy = trainer.model
            self._player: Player = self._run.player(trainer.model)
            try:
                trainer.train(resume_from_checkpoint=str(self._loaded.path) if self._loaded else None)
            except Stopped:
                self._end(STOPPED_BY_USER, stopped=True)
            finally:
                self._player.close()
            saver.save()

    @property
    def _standing(self) -> Standing:
        return Standing(
            measured=self._held_out.measured,
            errors=tuple(self._errors),
            outcomes=dict(self._outcomes.last),
            tasks=self._digest,
        )

    def _arguments(self, policy: Any) -> GRPOConfig:
        run, plan = self._run, self._run.plan
        rl, hardware = run.config.settings.rl, run.hardware
        return GRPOConfig(
            output_dir=str(run.folder.checkpoints),
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
            seed=run.config.settings.seed,
            shuffle_dataset=False,
            use_cpu=hardware.device == 'cpu',
            bf16=hardware.precision == 'bfloat16',
            fp16=hardware.precision == 'float16',
            gradient_checkpointing=run.model.checkpoints_layers(gpu=hardware.device == 'cuda')
            and policy.supports_gradient_checkpointing,
            logging_steps=1,
            save_strategy='no',
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=hardware.device == 'cuda',
            ddp_find_unused_parameters=False,
            ddp_timeout=int(PATIENCE.total_seconds()),
        )

    def _dataset(self) -> Dataset:
        """One row a group of the whole run, in the order of the schedule: the step is the place to go on from.

        Only the id travels: ``datasets`` would pad nested columns with the keys of other rows.
        """
        plan = self._run.plan
        ids = order(list(self._tasks), plan.steps * plan.groups, self._run.config.settings.seed)
        return Dataset.from_dict({'prompt': [[{'role': 'user', 'content': id_}] for id_ in ids]})

    def _rollouts(self, prompts: list[list[dict[str, str]]], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play the episodes of a step for TRL: token ids, mask, and rewards (``None`` for an error)."""
        size, team = self._run.plan.generations, self._run.team
        self._seconds.clear()
        # Each process is given its own groups; all of them play all groups, and know how each went.
        shares = team.gather([prompt[-1]['content'] for prompt in prompts[::size]])
        played = self._play([id_ for share in shares for id_ in share])
        trained = list(played)
        if self._run.config.settings.dynamic_sampling:
            played += self._replace(trained)
        self._record(played, trained, trainer.state.global_step + 1)
        episodes = team.share([episode for group in trained for episode in group])
        return {
            'prompt_ids': [episode.prompt for episode in episodes],
            'completion_ids': [episode.completion for episode in episodes],
            'env_mask': [episode.mask for episode in episodes],
            'logprobs': None,
            'reward': [episode.verdict.reward for episode in episodes],
        }

    def _play(self, ids: Sequence[str]) -> list[Group]:
        """Play a group of each task."""
        size = self._run.plan.generations
        tasks: list[TaskFile] = [self._tasks[id_] for id_ in ids for _ in range(size)]
        share = self._run.config.settings.share_calls
        episodes = self._player.play(tasks, stop=lambda: self._run.journal.stop_requested, share_calls=share)
        self._seconds.update(self._player.seconds)
        groups = [episodes[start : start + size] for start in range(0, len(episodes), size)]
        for id_, group in zip(ids, groups, strict=True):
            self._outcomes.note(id_, _rewards(group))
        return groups

    def _replace(self, groups: list[Group]) -> list[Group]:
        """Put groups of other tasks where a group cannot teach, a bounded number of times; return what was played."""
        extra: list[Group] = []
        tried = {group[0].task.id for group in groups}
        for _ in range(EXTRA_ROUNDS):
            dead = [place for place, group in enumerate(groups) if not teaches(_rewards(group))]
            others = self._outcomes.most_teaching(id_ for id_ in self._tasks if id_ not in tried)[: len(dead)]
            if not others:
                break
            tried.update(others)
            fresh = self._play(others)
            extra += fresh
            for place, group in zip(dead, (group for group in fresh if teaches(_rewards(group))), strict=False):
                groups[place] = group
        return extra

    def _record(self, played: Sequence[Group], trained: Sequence[Group], step: int) -> None:
        """Record every episode, and compute the numbers of the step. What was replaced has no advantage."""
        rl, journal = self._run.config.settings.rl, self._run.journal
        weights = advantages([_rewards(group) for group in trained], rl.scale_rewards)
        of_group = {id(group): row for group, row in zip(trained, weights, strict=True)}
        groups: list[list[Rollout]] = []
        for number, group in enumerate(played):
            row = of_group.get(id(group), [None] * len(group))
            groups.append(
                [
                    record(episode, step=step, stage='train', group=number, index=index, advantage=weight)
                    for index, (episode, weight) in enumerate(zip(group, row, strict=True))
                ]
            )
            for rollout in groups[-1]:
                journal.rollout(rollout, 'train')
        kept = [rollouts for group, rollouts in zip(played, groups, strict=True) if id(group) in of_group]
        self._values = step_metrics(groups, trained=kept)
        if self._run.config.settings.dynamic_sampling:
            self._values['groups/extra'] = float(len(played) - len(trained))
            self._values['groups/replaced'] = float(sum(id(group) not in of_group for group in played[: len(trained)]))
        self._values |= {f'seconds/{phase}': seconds for phase, seconds in self._seconds.items()}
        if self._seconds['generate'] > 0:
            tokens = sum(rollout.tokens for group in groups for rollout in group)
            self._values['tokens_per_second'] = tokens / self._seconds['generate']
        self._errors.append((int(self._values['checker/errors']), int(self._values['rollouts'])))
        self._episodes_ended = time.perf_counter()

    def _ended(self, step: int, log: dict[str, float], durations: Sequence[float]) -> bool:
        """Write the row of a step; whether training ends with it."""
        self._write_row(step, log, durations)
        return self._should_end()

    def _write_row(self, step: int, log: dict[str, float], durations: Sequence[float]) -> None:
        """Write the row of a step: TRL's numbers of the update, ours of the episodes."""
        self.steps = step
        total, journal = self._run.plan.steps, self._run.journal
        self._values = self._row(log)
        journal.write(Metrics(step=step, values=self._values))
        reward = self._values.get('rewards/TfcodeEnv/mean')
        shown = 'no reward' if reward is None else f'reward {reward:.3f}'
        if self._run.team.writes:
            print_line(f'step {step}/{total}  {shown}  {durations[-1]:.1f} s')
        eta = (total - step) * sum(durations) / len(durations) if durations else None
        journal.write(Progress(step=step, total=total, eta_s=round(eta, 1) if eta else None))

    def _row(self, log: Mapping[str, float]) -> dict[str, float]:
        """The numbers of the step that has just been done."""
        theirs = {name: log.get(name) for name in FROM_TRL}
        return finite({**self._values, 'seconds/update': time.perf_counter() - self._episodes_ended, **theirs})

    def _should_end(self) -> bool:
        """Whether training ends here: somebody asked, too many checks were errors, or there is nothing left to gain."""
        if self._run.team.any(self._run.journal.stop_requested):
            self._end(STOPPED_BY_USER, stopped=True)
        elif reason := _too_many_errors(self._errors, self._run.config.settings.max_error_share):
            self._end(reason, failed=True)
        elif self.steps < self._run.plan.steps:
            measured = self._measure()
            if reason := self._nothing_to_gain(measured):
                self._end(reason)
        return bool(self.stop_reason)

    def _end(self, reason: str, *, stopped: bool = False, failed: bool = False) -> None:
        self.stop_reason, self.stopped, self.failed = reason, stopped, failed

    def _measure(self) -> bool:
        """Measure held-out success where it is time to, and keep the best adapter; whether it was measured."""
        every = self._run.config.settings.eval_every
        if not every or self.steps % every or not self._held_out.wanted:
            return False
        with paused_autocast(self._policy):
            result = self._held_out.measure(self._player, 'during', self.steps)
        self._run.journal.state('training')
        top = best(self._held_out.measured)
        if top is not None and top.step == self.steps and self._run.team.writes:
            self._keep_best()
        return result is not None

    def _keep_best(self) -> None:
        """Keep the adapter of this step, and the best one up to the last checkpoint: the run may go on from there."""
        folder = self._run.folder.best(self.steps)
        try:
            with whole_folder(folder) as partial:
                save_weights(self._policy, partial)
        except Exception as error:
            # As with a checkpoint: libraries name a full disk in many ways, and the run can do without.
            print_exception()
            self._run.journal.notice(
                f'The adapter of step {self.steps}, the best so far, could not be kept: {said(error)}', level='warning'
            )
            return
        sure = best([one for one in self._held_out.measured if one.step <= self._saver.saved])
        kept = {folder, self._run.folder.best(sure.step)} if sure is not None else {folder}
        for other in set(folder.parent.iterdir()) - kept:
            shutil.rmtree(other)

    def _nothing_to_gain(self, measured: bool) -> str:
        """Why more steps would bring nothing, where early stopping is wanted."""
        patience = self._run.config.settings.early_stop
        if not patience:
            return ''
        if self._outcomes.all_solved(self._tasks):
            return 'ended early: the last attempts at every task all succeeded'
        if measured and since_improvement(self._held_out.measured) >= patience:
            return f'ended early: held-out success has not improved for {patience} evaluations'
        return ''


def _standing(loaded: Checkpoint | None) -> Standing:
    return Standing.model_validate_json((loaded.path / STANDING).read_bytes()) if loaded else Standing()


def _digest(tasks: Sequence[TaskFile]) -> str:
    return hashlib.sha256('\n'.join(f'{task.task_spec.hash} {task.id}' for task in tasks).encode()).hexdigest()


def _rewards(group: Group) -> list[float | None]:
    return [episode.verdict.reward for episode in group]


def _too_many_errors(errors: Sequence[tuple[int, int]], limit: float) -> str:
    """Why the checks of the last steps end the run, or nothing. Before there are enough steps, beyond doubt only."""
    bad, attempts = (sum(column) for column in zip(*errors, strict=True))
    share = bad / attempts if len(errors) == ERROR_WINDOW else wilson(bad, attempts)[0]
    if share <= limit:
        return ''
    return (
        f'{bad} of {attempts} checks of the last {len(errors)} steps were errors, '
        f'more than the limit of {limit:.0%}: the checkers could not do their work'
    )


def _reward(reward: list[float | None], **_: object) -> list[float | None]:
    """The reward of each episode as its checker gave it; ``None`` is an error, which TRL leaves out."""
    return reward


_reward.__name__ = TfcodeEnv.__name__  # TRL names the series of a reward after its function


def _text_only(tokenizer: Any) -> Any:
    """A tokenizer that TRL will not parse turns with: episodes are read back where they are played."""
    copied = copy.copy(tokenizer)
    copied.response_template = None
    return copied
