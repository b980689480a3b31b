"""The certificate: proof that a task's checker tells earned rewards from others (spec section 4).

What is tried: the untouched workspace and the wrong solutions must not earn 1.0; the reference must, as often as it is
repeated, and so must the alternatives; no forge probe may earn more than the untouched workspace does (or than the same
leftover without its trick, where it replaces the candidate's code), and none may earn 1.0; harmless leftovers of the
same shapes on top of the reference must not cost it anything. An error is never a pass.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from trainer.attacks import probes_for
from trainer.attempt import Attempt, Cancelled
from trainer.errors import CheckerError
from trainer.sandbox import Isolation, SandboxSpec, open_sandbox
from trainer.sandbox.python_env import PythonEnvironment, base_environment
from trainer.task import Solution, TaskFile, TaskSpec, content_hash
from trainer.trials import EMPTIED, Bench, OnProgress, Plan, Trial
from trainer.validation import Document
from trainer.verdict import Verdict

REPEATS: Final = 5
ProbeKind = Literal['untouched', 'reference', 'repeats', 'alternative', 'wrong', 'content', 'forge', 'control']


class ProbeResult(Document):
    """One line of a certificate: what was tried, whether it came out right, and what it earned or what to do."""

    name: str
    ok: bool
    detail: str = ''
    kind: ProbeKind


class SummaryLine(Document):
    """All lines of one kind in one, as a panel shows them: ``Forge probes rejected``, ``12/12``."""

    kind: ProbeKind
    label: str
    value: str
    ok: bool


class Certificate(Document):
    """What was proven of one version of a task. ``weak`` says how its checker could be better, and fails nothing."""

    state: Literal['certified', 'failed']
    hash: str
    evidence: str = Field(default='', description='Hash of the solutions that were tried.')
    probes: tuple[ProbeResult, ...]
    weak: str = ''
    isolation: str
    created_at: datetime
    duration_ms: int = Field(ge=0)

    @property
    def failed(self) -> tuple[ProbeResult, ...]:
        """The lines that say why there is no certificate."""
        return tuple(probe for probe in self.probes if not probe.ok)

    def summary(self) -> tuple[SummaryLine, ...]:
        """One line for each kind, in the order of a certificate."""
        lines = []
        for kind, label in LABELS.items():
            probes = [probe for probe in self.probes if probe.kind == kind]
            if not probes:
                continue
            good = sum(probe.ok for probe in probes)
            single = len(probes) == 1 and kind not in ('forge', 'control')
            value = probes[0].detail.split(' ', 1)[0].rstrip(':,.') if single else f'{good}/{len(probes)}'
            lines.append(SummaryLine(kind=kind, label=label, value=value, ok=good == len(probes)))
        return tuple(lines)


LABELS: Final[dict[ProbeKind, str]] = {
    'untouched': 'Untouched workspace fails',
    'reference': 'Reference passes',
    'repeats': 'Repeats identical',
    'alternative': 'Alternatives pass',
    'wrong': 'Wrong solutions fail',
    'content': 'Checker looks at something',
    'forge': 'Forge probes rejected',
    'control': 'Honest controls pass',
}


def certify(
    task: TaskFile | tuple[TaskSpec, Sequence[Solution]],
    *,
    home: Path,
    isolation: Isolation | None = None,
    environment: PythonEnvironment | None = None,
    repeats: int = REPEATS,
    thorough: bool = False,
    on_progress: OnProgress | None = None,
    cancel: threading.Event | None = None,
) -> Certificate:
    """Try a task's checker with its solutions, forge probes and honest controls.

    ``thorough`` tries the attacks on the checkers themselves too, which the product's tests try on every release.
    Raises ``SandboxUnavailable`` where there is no isolation, ``Cancelled`` when ``cancel`` is set.
    """
    spec, solutions = (task.task_spec, task.solutions) if isinstance(task, TaskFile) else task
    started = time.monotonic()
    with open_sandbox(SandboxSpec(), isolation=isolation) as sandbox:
        name = sandbox.name
    bench = Bench(spec, home, isolation, environment or base_environment(home), on_progress, cancel)
    with bench:
        probes, weak = _tried(bench, spec, tuple(solutions), max(repeats, 1), thorough)
    return Certificate(
        state='certified' if all(probe.ok for probe in probes) else 'failed',
        hash=spec.hash,
        evidence=evidence_hash(solutions),
        probes=tuple(probes),
        weak=weak,
        isolation=name,
        created_at=datetime.now(UTC),
        duration_ms=round((time.monotonic() - started) * 1000),
    )


def evidence_hash(solutions: Sequence[Solution]) -> str:
    """The identity of the solutions a certificate rests on."""
    return content_hash([solution.model_dump(mode='json') for solution in solutions])


def _tried(
    bench: Bench, spec: TaskSpec, solutions: tuple[Solution, ...], repeats: int, thorough: bool
) -> tuple[list[ProbeResult], str]:
    reference = next((solution for solution in solutions if solution.kind == 'reference'), None)
    try:
        probes = probes_for(spec, reference, thorough=thorough)
    except CheckerError as error:
        problem = f'{error.message}. {error.hint}'.rstrip('. ')
        return [ProbeResult(name='checker', ok=False, detail=problem, kind='content')], ''
    untouched, again = (
        Trial('untouched workspace'),
        [Trial('reference', reference, number) for number in range(repeats)],
    )
    hollow = Trial('content', reference, hollow=True)
    others = [Trial(f'{s.kind} solution', s) for s in solutions if s is not reference]
    plan = Plan(probes, reference)
    first = [untouched, *([*again, hollow] if reference else []), *others]
    bench.expect([*first, *plan.forges(None), *plan.together()])
    bench.run(first)
    baseline = bench.verdict(untouched)
    passes = reference is not None and bench.verdict(again[0]).solved
    limit = bench.limit(again[0]) if reference else spec.checker.config.timeout_s
    then = [*(plan.forges(limit) if baseline.reward is not None else ()), *(plan.together() if passes else ())]
    bench.expect(then)
    bench.run(then)
    if passes and not all(_keeps(bench.verdict(trial)) for trial in plan.together()):
        bench.run([trial for control in plan.controls for trial in control[1:]])
    lines = [_untouched(baseline)]
    lines += _reference(bench, reference, again)
    lines += [_solution(bench.verdict(trial), trial.solution) for trial in others if trial.solution is not None]
    lines.append(_content(spec, bench.verdict(again[0]) if reference else None))
    lines += _forges(bench, plan, baseline)
    lines += _controls(bench, plan) if passes else []
    return lines, _weakness(spec, passes, bench.attempt(hollow) if reference else None)


def _untouched(verdict: Verdict) -> ProbeResult:
    ok = verdict.reward is not None and not verdict.solved
    detail = _said(verdict)
    if verdict.solved:
        detail += ': a model that does nothing earns the reward. Check for what the task asks to be made.'
    return ProbeResult(name='untouched workspace fails', ok=ok, detail=detail, kind='untouched')


def _reference(bench: Bench, reference: Solution | None, again: list[Trial]) -> Iterator[ProbeResult]:
    if reference is None:
        yield ProbeResult(
            name='reference passes',
            ok=False,
            detail='There is no reference solution. Record one in the playground, or write its steps.',
            kind='reference',
        )
        return
    verdicts = [bench.verdict(trial) for trial in again]
    yield ProbeResult(name='reference passes', ok=verdicts[0].solved, detail=_said(verdicts[0]), kind='reference')
    seen = [(v.reward, tuple((item.name, item.passed) for item in v.items)) for v in verdicts]
    same = max(seen.count(one) for one in seen)
    scored = all(verdict.reward is not None for verdict in verdicts)
    detail = f'{same}/{len(seen)} agree'
    if same < len(seen):
        odd = next(v for v, one in zip(verdicts, seen, strict=True) if seen.count(one) < same or one != seen[0])
        detail += f': once it was {_said(odd)}. Remove what differs between runs: time, random numbers, order.'
    elif not scored:
        detail += f', in an error: {verdicts[0].reason}'
    name = f'{len(seen)} repeats identical'
    yield ProbeResult(name=name, ok=same == len(seen) and scored, detail=detail, kind='repeats')


def _solution(verdict: Verdict, solution: Solution) -> ProbeResult:
    wrong = solution.kind == 'wrong'
    ok = verdict.reward is not None and verdict.solved != wrong
    verb, advice = ('fails', 'The checker does not see what is wrong with it.') if wrong else ('passes', '')
    if not wrong:
        advice = 'The checker asks for more than the task does, or this solution is not one.'
    name = f'{solution.kind} solution {verb}' + (f': {solution.name}' if solution.name else '')
    kind: ProbeKind = 'wrong' if wrong else 'alternative'
    advice = '' if ok or verdict.reward is None else f'. {advice}'
    return ProbeResult(name=name, ok=ok, detail=_said(verdict) + advice, kind=kind)


def _content(spec: TaskSpec, verdict: Verdict | None) -> ProbeResult:
    items = len(verdict.items) if verdict else 0
    what = {'pytest': 'tests', 'file_exists': 'paths'}.get(spec.checker.type, 'checks')
    if verdict is None or verdict.reward is None:
        detail, ok = 'not known: there is no graded reference', verdict is None
    else:
        detail, ok = f'{items} {what if items != 1 else what.removesuffix("s")}', items > 0
    return ProbeResult(name='checker looks at something', ok=ok, detail=detail, kind='content')


def _forges(bench: Bench, plan: Plan, untouched: Verdict) -> Iterator[ProbeResult]:
    if untouched.reward is None:
        if plan.probes:
            detail = 'Not tried: the untouched workspace cannot be graded.'
            yield ProbeResult(name='forge probes', ok=False, detail=detail, kind='forge')
        return
    for probe in plan.probes:
        verdict = bench.verdict(plan.forged(probe))
        twin = plan.defused(probe)
        honest = max(untouched.reward, (bench.verdict(twin).reward or 0.0) if twin else 0.0)
        attack = probe.attack
        detail = _said(verdict)
        ok = verdict.reward is not None and verdict.reward <= honest and not verdict.solved
        if verdict.reward is not None and not ok:
            detail = (
                f'earned {verdict.reward:.2f}, honest is {honest:.2f}. {attack.explanation} {attack.advice}'.strip()
            )
        elif verdict.reward is None:
            detail = f'{detail}. {attack.explanation} A model must not be able to make the check fail.'
        yield ProbeResult(name=f'forge: {attack.title}', ok=ok, detail=detail, kind='forge')


def _controls(bench: Bench, plan: Plan) -> Iterator[ProbeResult]:
    together = next(iter(plan.together()), None)
    all_kept = together is not None and _keeps(bench.verdict(together))
    for probe, trial, litter in plan.controls:
        name = f'control: {probe.attack.title}'
        verdict = bench.verdict(together if together is not None and all_kept else trial)
        ok, detail = _keeps(verdict), _said(verdict)
        if not ok and verdict.reward is not None and not _keeps(bench.verdict(litter)):
            ok, detail = True, 'does not fit: the check forbids such files'
        elif not ok:
            detail += '. A harmless leftover costs the reference its reward.'
        yield ProbeResult(name=name, ok=ok, detail=detail, kind='control')


def _weakness(spec: TaskSpec, passes: bool, hollow: Attempt | None) -> str:
    weak = spec.checker.weakness()
    if weak or not passes or hollow is None or not hollow.steps:
        return weak
    if EMPTIED in hollow.steps[-1].result and hollow.verdict.solved:
        return (
            'Checks existence only: the reference earns 1.0 with every file it wrote emptied. '
            'Look at the content too: exit_code with grep or cmp, a script, or pytest.'
        )
    return ''


def _keeps(verdict: Verdict) -> bool:
    return verdict.solved and not verdict.tampered


def _said(verdict: Verdict) -> str:
    """A verdict in a line: the reward first."""
    if verdict.reward is None:
        return f'error: {verdict.reason}'
    return f'{verdict.reward:.2f}' + (f' ({verdict.reason})' if verdict.reason else '')


__all__ = ['REPEATS', 'Cancelled', 'Certificate', 'ProbeResult', 'SummaryLine', 'certify', 'evidence_hash']
