"""The configuration of a run: ``config.rl`` with its bounds, the settings around it, and what is written to run.json.

Out-of-bounds values of ``config.rl`` are clamped and reported back as notes; values that cannot work are refused with
the path of their field (spec section 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from trainer.engine_choice import Engine, choose, obstacle
from trainer.errors import ConfigError, FieldError
from trainer.gpus import gpus
from trainer.models import ModelInfo, Preset, find_model
from trainer.reporting import Tracker
from trainer.reporting import obstacle as tracker_obstacle
from trainer.requirements import parse_requirements
from trainer.sandbox import Isolation
from trainer.validation import Document, Invalid, at, note, validate

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    'num_generations': (4, 16),
    'max_completion_length': (256, 4096),
    'max_tool_calling_iterations': (4, 32),
    'entropy_coef': (0.0, 0.5),
}
"""Field of ``config.rl`` → lowest and highest value; what is outside is clamped."""

MAX_PACKAGES: Final = 50

FROM_HARDWARE: Final = frozenset({'bf16', 'fp16', 'useCpu', 'use_cpu', 'device', 'precision', 'dtype'})
"""Keys of other tools that set by hand what is chosen from the hardware here."""


class CamelDocument(Document):
    """A document whose keys are spelt in camelCase outside, as the API spells them."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra='forbid', populate_by_name=True)


class RlConfig(CamelDocument):
    """``config.rl``: the reinforcement-learning half of a run's settings."""

    enabled: bool = Field(default=False, strict=True, description='Train on verifiable rewards.')
    env: Literal['tfcode'] = Field(default='tfcode', description='Environment of the episodes.')
    num_generations: int = Field(default=8, strict=True, ge=1, description='Attempts per task and step (group size G).')
    max_completion_length: int = Field(default=1024, strict=True, ge=1, description='Tokens of one episode.')
    max_tool_calling_iterations: int = Field(default=16, strict=True, ge=1, description='Tool-call turns per episode.')
    loss_type: Literal['dapo', 'dr_grpo', 'sapo'] = Field(default='dapo', description='Loss aggregation.')
    scale_rewards: Literal['batch', 'group', 'none'] = Field(
        default='batch', description='Which spread the advantages are divided by.'
    )
    entropy_coef: float = Field(default=0.05, strict=True, ge=0, description='Bonus on entropy, against collapse.')
    generation_engine: Engine = Field(default='auto', description='What generates the completions.')
    max_steps: int = Field(
        default=0, strict=True, ge=0, le=100_000, description='Cap on optimizer steps; 0 derives it.'
    )
    pip_packages: tuple[str, ...] = Field(default=(), description='Packages every rollout and checker can import.')

    @field_validator(*BOUNDS)
    @classmethod
    def _clamp(cls, value: float, info: ValidationInfo) -> float:
        low, high = BOUNDS[info.field_name or '']
        clamped = min(max(value, low), high)
        if clamped != value:
            word = 'lowered' if clamped < value else 'raised'
            note(info, 'rl.' + to_camel(info.field_name or ''), f'{word} from {value} to {clamped}: {low} to {high}')
        return type(value)(clamped)

    @field_validator('pip_packages')
    @classmethod
    def _only_named_packages(cls, packages: tuple[str, ...]) -> tuple[str, ...]:
        kept = parse_requirements(packages)
        if len(kept) > MAX_PACKAGES:
            raise ValueError(f'at most {MAX_PACKAGES} packages, not {len(kept)}')
        return kept


class ColdStart(CamelDocument):
    """Supervised training on demonstrations before RLVR, for models that never used tools (spec section 6)."""

    epochs: float = Field(default=3.0, strict=True, gt=0, le=100, description='Passes over the demonstrations.')
    learning_rate: float | None = Field(default=None, strict=True, gt=0, le=1, allow_inf_nan=False)
    batch_size: int = Field(default=8, strict=True, ge=1, le=256, description='Demonstrations of one optimizer step.')


class Settings(CamelDocument):
    """What is around ``config.rl``. ``None`` means: as the model's preset says."""

    rl: RlConfig = Field(default_factory=RlConfig)
    learning_rate: float | None = Field(default=None, strict=True, gt=0, le=1, allow_inf_nan=False)
    epochs: float | None = Field(default=None, strict=True, gt=0, le=1000, description='Passes over the tasks.')
    batch_size: int | None = Field(
        default=None, strict=True, ge=1, le=1024, description='Completions of one forward and backward pass.'
    )
    gradient_accumulation_steps: int | None = Field(default=None, strict=True, ge=1, le=1024)
    temperature: float | None = Field(default=None, strict=True, ge=0.01, le=5, allow_inf_nan=False)
    lora_rank: int | None = Field(default=None, strict=True, ge=1, le=512)
    lora_alpha: int | None = Field(default=None, strict=True, ge=1, le=2048)
    seed: int = Field(default=1, strict=True, ge=0, lt=2**31)
    held_out_attempts: int = Field(
        default=4,
        strict=True,
        ge=0,
        le=64,
        description='Attempts per held-out task in each evaluation; 0: none.',
    )
    eval_every: int = Field(
        default=10,
        strict=True,
        ge=0,
        le=100_000,
        description='Steps between held-out evaluations; 0: only before and after.',
    )
    early_stop: int = Field(
        default=0,
        strict=True,
        ge=0,
        le=1000,
        description='End after so many evaluations without improvement, or when every task is solved; 0: never.',
    )
    save_every: int = Field(
        default=10, strict=True, ge=0, le=100_000, description='Steps between checkpoints; 0: only at the end.'
    )
    keep_checkpoints: int = Field(default=2, strict=True, ge=1, le=1000, description='Newest checkpoints kept.')
    dynamic_sampling: bool = Field(
        default=False, strict=True, description='Replace groups that cannot teach by groups of other tasks.'
    )
    tool_answer_tokens: int | None = Field(
        default=None, strict=True, ge=16, le=4096, description='Tokens of one tool answer; what is longer is cut.'
    )
    share_calls: bool = Field(
        default=True,
        strict=True,
        description='In training, attempts of a task that have been told the same so far run an equal tool call once.',
    )
    cold_start: ColdStart | None = Field(default=None, description='Learn from demonstrations first.')
    processes: int | None = Field(
        default=None,
        strict=True,
        ge=1,
        le=64,
        description='Processes that share the episodes and the update of a step; none: one for each GPU.',
    )
    max_error_share: float = Field(
        default=0.2, strict=True, gt=0, le=1, description='Share of errors over five steps that stops the run.'
    )
    report_to: tuple[Tracker, ...] = Field(default=(), description='Trackers that get the numbers too.')
    keep_workspaces_mb: int = Field(
        default=256,
        strict=True,
        ge=0,
        le=100_000,
        description='MB of final workspaces kept, to grade them again with a changed checker; 0: none.',
    )
    spot: bool = Field(default=False, strict=True, description='Always off for RLVR.')
    beta: float = Field(default=0.0, strict=True, description='Always 0 for RLVR: no KL term.')

    @model_validator(mode='before')
    @classmethod
    def _hardware_decides(cls, data: Any) -> Any:
        for key in sorted(FROM_HARDWARE & set(data)) if isinstance(data, Mapping) else ():
            raise at(key, 'device and precision are chosen from the hardware at the start of a run: remove this key')
        return data

    @field_validator('report_to')
    @classmethod
    def _each_once(cls, trackers: tuple[Tracker, ...]) -> tuple[Tracker, ...]:
        return tuple(dict.fromkeys(trackers))

    @field_validator('spot')
    @classmethod
    def _no_spot(cls, spot: bool, info: ValidationInfo) -> bool:
        if spot:
            note(info, 'spot', 'set from true to false: RLVR runs are never on spot machines')
        return False

    @field_validator('beta')
    @classmethod
    def _no_kl(cls, beta: float, info: ValidationInfo) -> float:
        if beta != 0.0:
            note(info, 'beta', f'set from {beta} to 0: RLVR runs have no KL term')
        return 0.0


TrainingType = Literal['grpoTraining', 'conversationalTraining']
"""Learning from rewards, or from demonstrations alone."""


class RunConfig(CamelDocument):
    """Everything a trainer needs beside the manifest: the content of run.json, written once by whoever launches."""

    id: str
    name: str = ''
    created_at: datetime
    training_type: TrainingType = 'grpoTraining'
    rlvr: bool = True
    model: str
    settings: Settings = Field(default_factory=Settings)
    isolation: Isolation = 'bubblewrap'
    home: str = Field(default='', description='Data folder, for the Python environments of sandboxes.')
    lineage: dict[str, Any] = Field(default_factory=dict)

    @property
    def cold_start(self) -> ColdStart | None:
        """What is learned from demonstrations, if anything is."""
        alone = ColdStart() if self.training_type == 'conversationalTraining' else None
        return self.settings.cold_start or alone

    @model_validator(mode='after')
    def _rl_only_with_grpo(self) -> Self:
        if self.settings.rl.enabled and self.training_type != 'grpoTraining':
            raise ValueError('rl.enabled is only valid with training_type grpoTraining')
        return self


class Plan(Document):
    """What a run will really do: the settings with presets, caps and divisibility worked in, and the notes on changes.

    A step takes ``groups`` tasks, each attempted ``generations`` times; ``batch_size`` completions go through the
    model at once, ``accumulation`` times on each of ``processes``, so
    ``groups * generations == batch_size * accumulation * processes``, and no group is split between two of them.
    """

    learning_rate: float
    epochs: float
    temperature: float
    lora_rank: int
    lora_alpha: int
    engine: Engine
    generations: int
    max_completion_length: int
    answer_tokens: int = Field(default=512, description='Tokens of one tool answer.')
    max_turns: int
    groups: int
    batch_size: int
    accumulation: int
    processes: int = 1
    steps: int
    notes: tuple[FieldError, ...] = ()

    @property
    def rollouts_per_step(self) -> int:
        """Episodes of one step."""
        return self.groups * self.generations


def parse_settings(data: object, *, root: str = '') -> tuple[Settings, tuple[FieldError, ...]]:
    """Validate settings: ``{"rl": {...}, …}`` or the bare keys of ``config.rl``. Raises ``ConfigError`` with paths."""
    known = {field.alias for field in RlConfig.model_fields.values()}
    if isinstance(data, Mapping) and data and 'rl' not in data and set(data) <= known:
        data = {'rl': data}
    try:
        return validate(Settings, data, root=root)
    except Invalid as invalid:
        raise ConfigError(f'The settings are not valid: {invalid}', invalid.fields) from None


def plan(settings: Settings, model: ModelInfo, tasks: int, *, processes: int | None = None) -> Plan:
    """Work presets, caps and divisibility into one plan for ``tasks`` tasks. Raises ``ConfigError``.

    ``processes`` is how many there are; where none has started yet, what the settings ask for, or one for each GPU.
    """
    if tasks < 1:
        raise ConfigError('A run needs at least one task', [FieldError(loc='tasks', msg='Choose at least one task')])
    _check_trackers(settings)
    notes: list[FieldError] = []
    preset = model.preset
    rate = settings.learning_rate or preset.learning_rate
    if rate > model.rate_cap:
        notes.append(
            FieldError(loc='learningRate', msg=f'lowered from {rate:g} to {model.rate_cap:g}, the cap of {model.title}')
        )
        rate = model.rate_cap
    generations = settings.rl.num_generations
    processes = processes or settings.processes or max(1, gpus())
    batch_size, accumulation = _batches(settings, preset, tasks, processes, notes)
    groups = batch_size * accumulation * processes // generations
    epochs = settings.epochs or preset.epochs
    steps = max(1, math.ceil(tasks * epochs / groups))
    length = _completion_length(settings.rl, model)
    if settings.rl.max_steps:
        steps = min(steps, settings.rl.max_steps) if settings.epochs else settings.rl.max_steps
    return Plan(
        learning_rate=rate,
        epochs=epochs,
        temperature=settings.temperature or preset.temperature,
        lora_rank=settings.lora_rank or preset.lora_rank,
        lora_alpha=settings.lora_alpha or 2 * (settings.lora_rank or 0) or preset.lora_alpha,
        engine=_engine(settings.rl.generation_engine, model),
        generations=generations,
        max_completion_length=length,
        answer_tokens=min(settings.tool_answer_tokens or length // 2, length),
        max_turns=settings.rl.max_tool_calling_iterations,
        groups=groups,
        batch_size=batch_size,
        accumulation=accumulation,
        processes=processes,
        steps=steps,
        notes=tuple(notes),
    )


def _batches(
    settings: Settings, preset: Preset, tasks: int, processes: int, notes: list[FieldError]
) -> tuple[int, int]:
    """Batch size and accumulation steps of one process, their product a multiple of the group size (spec section 6)."""
    generations = settings.rl.num_generations
    if settings.batch_size is None and settings.gradient_accumulation_steps is None:
        wanted = min(preset.tasks_per_step, tasks)
        groups = math.ceil(wanted / processes)
        if groups * processes != wanted:
            notes.append(
                FieldError(
                    loc='processes',
                    msg=f'a step takes {groups * processes} tasks instead of {wanted}: '
                    f'as many for each of {processes} processes',
                )
            )
        together = max(size for size in range(1, preset.groups_per_batch + 1) if groups % size == 0)
        return generations * together, groups // together
    batch_size = settings.batch_size or generations
    accumulation = settings.gradient_accumulation_steps or 1
    step = generations // math.gcd(batch_size, generations)
    fitting = math.ceil(accumulation / step) * step
    if fitting != accumulation:
        notes.append(
            FieldError(
                loc='gradientAccumulationSteps',
                msg=f'raised from {accumulation} to {fitting}: numGenerations {generations} must divide '
                f'batchSize x gradientAccumulationSteps',
            )
        )
    return batch_size, fitting


def _engine(name: Engine, model: ModelInfo) -> Engine:
    """Resolve ``auto``; refuse an engine that cannot run. Raises ``ConfigError`` at ``rl.generationEngine``."""
    if message := obstacle(name, model):
        raise ConfigError(message, [FieldError(loc='rl.generationEngine', msg=message)])
    return choose(name, model)


def _check_trackers(settings: Settings) -> None:
    """Refuse trackers that cannot be used here. Raises ``ConfigError`` at ``reportTo.N``."""
    said = [(number, tracker_obstacle(tracker)) for number, tracker in enumerate(settings.report_to)]
    if fields := [FieldError(loc=f'reportTo.{number}', msg=message) for number, message in said if message]:
        raise ConfigError(fields[0].msg, fields)


def _completion_length(rl: RlConfig, model: ModelInfo) -> int:
    """The user's value, or the model's preset where the user gave none."""
    if 'max_completion_length' in rl.model_fields_set or model.preset.max_completion_length is None:
        return rl.max_completion_length
    return model.preset.max_completion_length


def resolve(config: RunConfig, tasks: int, *, processes: int | None = None) -> tuple[ModelInfo, Plan]:
    """The model and the plan of a run. Raises ``ConfigError``."""
    model = find_model(config.model)
    return model, plan(config.settings, model, tasks, processes=processes)
