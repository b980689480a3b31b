"""The parity proof: a fresh process loads base and adapter with plain peft and repeats what training measured last.

``python -m trainer.parity --adapter DIR --expected parity.json [--held-out FILE] [--base MODEL] --home DIR`` reports
JSON lines. The model is loaded as anybody loads it (``AutoModelForCausalLM`` and ``PeftModel.from_pretrained``); of
ours are only tokenizer, template, and the player of episodes. What it compares is in ``trainer.proof``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

import torch
from peft import PeftModel
from pydantic import ValidationError
from transformers import AutoModelForCausalLM, GgufConfig

from trainer import side_work
from trainer.checkpoints import sha256
from trainer.engines import open_engine
from trainer.errors import BaseUnavailable, CheckerError, ConfigError, FieldError, GenerationError, RunFolderError
from trainer.evaluate import evaluate
from trainer.evaluation import Evaluation
from trainer.fingerprint import base_checksum, difference
from trainer.hardware import Hardware, detect
from trainer.manifest import read_manifest
from trainer.models import ModelInfo, find_model
from trainer.policy import load_tokenizer, without_warnings
from trainer.proof import LOGIT_TOLERANCE, VERDICT_TOLERANCE, Agreement, Expectation, Precision, ProofResult
from trainer.requirements import parse_requirements
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player
from trainer.sandbox import Isolation, open_sandbox
from trainer.sandbox.python_env import PythonEnvironment, package_environment
from trainer.task import TaskFile

WEIGHTS: Final = 'adapter_model.safetensors'
SHOWN: Final = 5
"""Tasks named where verdicts differ."""
PUT_BACK: Final = 'Put it back, or name its folder.'


def prove(
    adapter: Path,
    expected: Expectation,
    held_out: Sequence[TaskFile],
    *,
    home: Path,
    base: str = '',
    isolation: Isolation = 'bubblewrap',
    report: side_work.Reporter | None = None,
) -> ProofResult:
    """Compare an adapter with what was recorded of it. ``base`` names the base model where it has moved.

    The isolation is the caller's to choose: what was recorded may come from another machine.

    Raises ``BaseUnavailable`` where the base model is missing or of no use, ``ConfigError`` where the adapter cannot be
    loaded, ``SandboxError`` or ``CheckerError`` where attempts cannot be repeated here: then nothing was found out.
    """
    started = time.monotonic()
    say = report or (lambda *_: None)
    model, hardware = _info(base or expected.model), detect()
    repeats = expected.rewards is not None and bool(held_out)
    python = _sandboxes(home, isolation, expected, say) if repeats else None
    say('Loading the base model')
    tokenizer = _tokenizer(model)
    if hardware.device == 'cpu':
        torch.set_num_threads(os.cpu_count() or 1)
    loaded = _load_base(model, expected.precision, hardware)
    checksum = base_checksum(loaded)
    problems = [*_changed_files(adapter, expected), *_changed_base(checksum, expected)]
    policy = _load_adapter(loaded, adapter, checksum, expected)
    say('Comparing logits')
    off = max((difference(policy, probe) for probe in expected.probes), default=0.0)
    tolerance = LOGIT_TOLERANCE[expected.precision]
    if off > tolerance:
        problems.append(f'A logit differs by {off:.3g}, more than {tolerance:g}')
    verdicts = None
    if repeats:
        now = _attempt_again(policy, tokenizer, expected, held_out, lambda: TfcodeEnv(home, isolation, python), say)
        verdicts, differing = agreement(expected, now)
        problems += differing
        _see_enough(verdicts, expected, problems)
    return ProofResult(
        state='failed' if problems else 'proven',
        problems=tuple(problems),
        logit_difference=min(off, 1e9),
        logit_tolerance=tolerance,
        verdicts=verdicts,
        other_base=checksum != expected.base,
        base=checksum,
        adapter=sha256(adapter / WEIGHTS),
        precision=expected.precision,
        device=hardware.name,
        seconds=time.monotonic() - started,
        made_at=datetime.now(UTC),
    )


def agreement(expected: Expectation, now: Evaluation) -> tuple[Agreement, list[str]]:
    """Compare held-out attempts one by one, or as a rate where they cannot be repeated; say what differs.

    An attempt counts as the same when both were solved or both were not; an error on either side is compared with
    nothing.
    """
    then = expected.rewards or {}
    both = [
        (task.title or task.id, old == 1.0, new == 1.0)
        for task in now.tasks
        for old, new in zip(then.get(task.id, ()), task.rewards, strict=False)
        if old is not None and new is not None
    ]
    solved_then, solved_now = sum(old for _, old, _ in both), sum(new for _, _, new in both)
    same = sum(old == new for _, old, new in both)
    exact = expected.sampling.exact
    allowed = int(len(both) * VERDICT_TOLERANCE[expected.precision]) if exact else len(both)
    found = Agreement(
        attempts=len(both), same=same, allowed=allowed, solved_then=solved_then, solved_now=solved_now, exact=exact
    )
    problems = []
    if len(both) - same > allowed:
        tasks = list(dict.fromkeys(title for title, old, new in both if old != new))
        named = ', '.join(tasks[:SHOWN]) + (f' and {len(tasks) - SHOWN} more' if len(tasks) > SHOWN else '')
        problems.append(f'{len(both) - same} of {len(both)} verdicts differ, at most {allowed} may: {named}')
    if not exact and both and not now.low <= solved_then / len(both) <= now.high:
        problems.append(
            f'{solved_now} of {len(both)} attempts are solved now, {solved_then} were: more than chance explains'
        )
    return found, problems


def _see_enough(verdicts: Agreement, expected: Expectation, problems: list[str]) -> None:
    """Too many errors prove nothing, for or against. Raises ``CheckerError`` where nothing else speaks against it."""
    asked = sum(map(len, (expected.rewards or {}).values()))
    if 2 * verdicts.attempts >= asked:
        return
    few = f'Only {verdicts.attempts} of {asked} held-out attempts could be repeated without an error'
    if not problems:
        hint = 'Weights and logits agree. See that the checkers of the held-out tasks work here, then prove it again.'
        raise CheckerError(few, hint=hint)
    problems.append(few)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove, reporting JSON lines; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m trainer.parity', description='Prove that an adapter is whole.')
    parser.add_argument('--adapter', type=Path, required=True)
    parser.add_argument('--expected', type=Path, required=True)
    parser.add_argument('--held-out', type=Path)
    parser.add_argument('--base', default='')
    parser.add_argument('--home', type=Path, required=True)
    parser.add_argument('--isolation', choices=get_args(Isolation), default='bubblewrap')
    options = parser.parse_args(arguments)

    def work(report: side_work.Reporter) -> Mapping[str, Any]:
        expected = read_expectation(options.expected)
        held_out = read_manifest(options.held_out) if options.held_out and options.held_out.is_file() else []
        done = prove(
            options.adapter,
            expected,
            held_out,
            home=options.home,
            base=options.base,
            isolation=options.isolation,
            report=report,
        )
        return done.model_dump(mode='json')

    return side_work.run(work)


def read_expectation(path: Path) -> Expectation:
    """What training recorded. Raises ``RunFolderError``."""
    try:
        return Expectation.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise RunFolderError(
            'Nothing was recorded to compare with', hint='Runs record it when they end; train it again to prove it.'
        ) from None
    except ValidationError as error:
        said = error.errors()[0]['msg']
        raise RunFolderError(f'{path.name} cannot be read: {said}', hint='Train it again to prove it.') from None


def _info(reference: str) -> ModelInfo:
    try:
        return find_model(reference)
    except ConfigError as error:
        hint = f'{PUT_BACK} {error.hint}'.strip()
        raise BaseUnavailable(f'The base model is not here: {reference}', error.fields, hint=hint) from None


def _sandboxes(home: Path, isolation: Isolation, expected: Expectation, say: Callable[..., None]) -> PythonEnvironment:
    """The Python of the sandboxes, with what the run had installed, after one was made: else each attempt would fail.

    Raises ``SandboxUnavailable``, ``PackagesFailed``.
    """
    say('Preparing the sandbox')
    open_sandbox(isolation=isolation).close()
    # Recorded packages may come from another machine: names alone, as in the settings of a run.
    return package_environment(home, parse_requirements(expected.sampling.packages))


def _tokenizer(model: ModelInfo) -> Any:
    try:
        return load_tokenizer(model)
    except (ConfigError, GenerationError) as error:
        if isinstance(error.__cause__, ImportError):
            raise  # Something has to be installed, wherever the model is.
        fields = [FieldError(loc='model', msg=error.message)]
        raise BaseUnavailable(error.message, fields, hint=_what_helps(model)) from error


def _what_helps(model: ModelInfo) -> str:
    return 'Download it again, or name its folder.' if model.kind in ('eligible', 'hub') else PUT_BACK


def _load_base(model: ModelInfo, precision: Precision, hardware: Hardware) -> Any:
    dtype = torch.bfloat16 if precision == 'bfloat16' else torch.float32
    options: dict[str, Any] = {'dtype': dtype}
    if model.gguf:
        options |= {'gguf_file': model.gguf, 'quantization_config': GgufConfig(dequantize=True)}
    try:
        loaded = AutoModelForCausalLM.from_pretrained(model.source, **options)
    except Exception as error:
        _explain(error, BaseUnavailable, f'The base model {model.title}', 'model', _what_helps(model))
    return loaded.to(hardware.device).eval()


def _load_adapter(base: Any, adapter: Path, checksum: str, expected: Expectation) -> Any:
    try:
        with without_warnings():
            return PeftModel.from_pretrained(base, str(adapter)).eval()
    except Exception as error:
        if checksum != expected.base:  # of another shape, most likely: not the adapter is to blame
            message = _changed_base(checksum, expected)[-1]
            hint = 'Name the folder of the one that was trained on.'
            raise BaseUnavailable(message, [FieldError(loc='model', msg=message)], hint=hint) from error
        hint = 'Put back the files that training wrote, or train it again.'
        _explain(error, ConfigError, 'The adapter', 'adapter', hint)


def _explain(error: Exception, kind: type[ConfigError], what: str, loc: str, hint: str) -> NoReturn:
    """Say what is wrong with files of others, which shows in as many kinds of errors as there are libraries below."""
    if side_work.is_out_of_memory(error):
        raise error
    if isinstance(error, ImportError):  # no matter of the files
        kind, hint = ConfigError, 'Install what is missing beside the studio, then prove it again.'
    said = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    raise kind(f'{what} could not be loaded: {said}', [FieldError(loc=loc, msg=said)], hint=hint) from error


def _changed_files(adapter: Path, expected: Expectation) -> list[str]:
    found = []
    for name, recorded in expected.files.items():
        path = adapter / name
        if not path.is_file():
            found.append(f'{name} is missing')
        elif sha256(path) != recorded:
            found.append(f'{name} is not the file that training wrote')
    return found


def _changed_base(checksum: str, expected: Expectation) -> list[str]:
    found = []
    if expected.base_after != expected.base:
        found.append('Training changed the base model itself: the adapter alone cannot repeat it')
    if checksum != expected.base:
        found.append(
            f'The base model is another one than in training: sha256 {checksum[:12]}…, not {expected.base[:12]}…'
        )
    return found


def _attempt_again(
    policy: Any,
    tokenizer: Any,
    expected: Expectation,
    held_out: Sequence[TaskFile],
    environment: Callable[[], TfcodeEnv],
    say: Callable[..., None],
) -> Evaluation:
    sampling = expected.sampling
    limits = EpisodeLimits(sampling.tokens, sampling.turns, sampling.temperature, sampling.answer_tokens)
    player = Player(Chat(tokenizer), open_engine('plain', policy, tokenizer), limits, environment)
    total = sampling.k * len(held_out)
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        say('Repeating held-out attempts', done, total)

    say('Repeating held-out attempts', 0, total)
    try:
        return evaluate(
            player,
            held_out,
            k=sampling.k,
            temperature=sampling.temperature,
            stage='after',
            step=expected.step,
            seed=sampling.seed,
            on_rollout=count,
        )
    finally:
        player.close()


if __name__ == '__main__':
    sys.exit(main())
