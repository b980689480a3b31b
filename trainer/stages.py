"""The stages of a run in their order: prepare, measure before, cold start, train, save the adapter, measure after.

Each can be gone on with: what one has finished stands in the run folder, and the next process begins behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from transformers import set_seed

from trainer.adapters import record_behaviour, save_adapter
from trainer.checkpoints import Checkpoint, discard_after, newest, whole_folder
from trainer.evaluate import Evaluation
from trainer.events import Progress, Resumed, RunState, Stage
from trainer.fingerprint import base_checksum
from trainer.grpo import GrpoRun
from trainer.held_out import HeldOut, best
from trainer.journal import Journal
from trainer.model_card import write_model_card
from trainer.policy import load_model, load_weights, save_weights, with_adapter, without_autocast
from trainer.preparation import Run, prepare
from trainer.runfolder import RunFolder, write_json
from trainer.sandbox.packages import InstallStopped
from trainer.sft import SftRun
from trainer.trackers import Trackers

SUCCESS_OF_COLD_START = 'cold_start/success'


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    state: RunState
    reason: str = ''


@dataclass(frozen=True)
class Trained:
    """What training left: the policy, the last step it was trained for, and why it ended there."""

    policy: Any
    steps: int
    total: int
    ending: Ending


def run_stages(folder: RunFolder, journal: Journal) -> Ending:
    """Run every stage; return how it ended. Raises ``RlvrError`` where a stage cannot do its work."""
    try:
        run = prepare(folder, journal)
    except InstallStopped as stopped:
        return Ending('stopped', stopped.message)
    wanted = run.config.settings.report_to if run.team.writes else ()
    with Trackers(wanted, journal) as trackers, closing(run.engines):
        ending = _stages(run)
        trackers.failed = ending.state == 'failed'
        return ending


def _stages(run: Run) -> Ending:
    settings, journal = run.config.settings, run.journal
    held_out = HeldOut(
        run.held_out,
        journal,
        k=settings.held_out_attempts,
        temperature=run.plan.temperature,
        seed=settings.seed,
        writes=run.team.writes,
    )
    base = load_model(run.model, run.hardware)
    loaded = base_checksum(base) if run.team.writes else ''
    before = _measured_before(run, base, held_out)
    if run.team.any(journal.stop_requested):
        return Ending('stopped', 'stopped before training')
    trained = _trained(run, base, held_out)
    return _deliver(run, trained, held_out, before, base=loaded)


def _measured_before(run: Run, base: Any, held_out: HeldOut) -> Evaluation | None:
    """Held-out success of the model as it came; a process before this one may have measured it."""
    known = held_out.known('before', 0)
    if known is None:
        return _measure(run, base, held_out, 'before', 0)
    if known.mean is not None:
        held_out.note(0, known.mean)
    return known


def _trained(run: Run, base: Any, held_out: HeldOut) -> Trained:
    """The policy after the stages that this run has, each going on where it was left."""
    # The first weights of a new adapter follow from the seed alone, whatever was measured before.
    set_seed(run.config.settings.seed)
    loaded, broken = newest(run.folder.checkpoints)
    for said in broken:
        run.journal.notice(f'Not used: {said}', level='error')
    if loaded is not None:
        return _reinforced(run, with_adapter(base, run.plan, loaded.path), held_out, loaded)
    policy = with_adapter(base, run.plan)
    if run.config.cold_start is not None:
        stage = _cold_start(run, policy, held_out)
        if stage.stopped:
            return Trained(policy, stage.steps, stage.steps, Ending('stopped', 'stopped by the user'))
        if run.config.training_type == 'conversationalTraining':
            return Trained(policy, stage.steps, stage.steps, Ending('finished'))
    return _reinforced(run, policy, held_out, None)


def _cold_start(run: Run, policy: Any, held_out: HeldOut) -> SftRun:
    """Learn from demonstrations, or take what a process before this one learned from them."""
    assert run.config.cold_start is not None
    stage = SftRun(run, run.config.cold_start)
    if run.folder.cold_start.is_dir():
        load_weights(policy, run.folder.cold_start)
    else:
        run.journal.state('cold_start')
        stage.train(policy)
        without_autocast(policy)
        if stage.stopped:
            return stage
        if run.team.writes:
            with whole_folder(run.folder.cold_start) as folder:
                save_weights(policy, folder)
        run.journal.artifact('cold_start', 'cold_start')
    if run.config.training_type == 'grpoTraining' and held_out.known('during', 0) is None:
        _measure(run, policy, held_out, 'during', 0, name=SUCCESS_OF_COLD_START)
    return stage


def _reinforced(run: Run, policy: Any, held_out: HeldOut, loaded: Checkpoint | None) -> Trained:
    """Learn from rewards."""
    stage = GrpoRun(run, held_out, loaded=loaded)
    if loaded is not None:
        run.team.wait()  # until all have read it
        if run.team.writes:
            discard_after(run.folder.checkpoints, loaded.step)
    if run.journal.continued:
        run.journal.write(Resumed(step=stage.steps))
        run.journal.write(Progress(step=stage.steps, total=run.plan.steps))
    run.journal.state('training')
    stage.train(policy)
    without_autocast(policy)
    state: RunState = 'finished'
    if stage.failed or stage.stopped:
        state = 'failed' if stage.failed else 'stopped'
    return Trained(policy, stage.steps, run.plan.steps, Ending(state, stage.stop_reason))


def _deliver(run: Run, trained: Trained, held_out: HeldOut, before: Evaluation | None, *, base: str) -> Ending:
    """Save the adapter: that of the last step, or of the step that was best on held-out tasks."""
    ending, step, after = trained.ending, trained.steps, None
    save = _adapter_writer(run, trained.policy, base)
    sums = save(step)
    if ending.state == 'finished':
        after = _measure(run, trained.policy, held_out, 'after', step)
        if run.team.any(run.journal.stop_requested):
            ending = Ending('stopped', 'stopped by the user during the last evaluation')
    if not run.team.writes:
        return ending
    top = best(held_out.measured)
    if top is not None and top.step != step and run.folder.best(top.step).is_dir():
        load_weights(trained.policy, run.folder.best(top.step))
        run.journal.notice(
            f'The adapter is that of step {top.step}, the best on held-out tasks: {top.mean:.0%}'
            + (f', {after.mean:.0%} after step {step}' if after and after.mean is not None else '')
        )
        step = top.step
        sums = save(step)
        if known := held_out.known('during', step):
            after = known.model_copy(update={'stage': 'after'})
            held_out.write(after)
    write_model_card(run.folder, run.folder.adapter)
    record_behaviour(run, trained.policy, after, base=base, step=step)
    run.journal.artifact('adapter', 'adapter', sums.get('adapter_model.safetensors', ''))
    write_json(
        run.folder.summary,
        {
            'state': ending.state,
            'steps': trained.steps,
            'total': trained.total,
            'adapter_step': step,
            'before': before.mean if before else None,
            'after': after.mean if after else None,
            'adapter': str(run.folder.adapter),
        },
    )
    return ending


def _adapter_writer(run: Run, policy: Any, base: str) -> Callable[[int], dict[str, str]]:
    """Saves the policy's adapter, whole or not at all, as that of a step; returns its checksums."""

    def save(step: int) -> dict[str, str]:
        if not run.team.writes:
            return {}
        with whole_folder(run.folder.adapter) as folder:
            return save_adapter(
                folder,
                policy,
                run.tokenizer,
                config=run.config,
                model=run.model,
                plan=run.plan,
                tasks=run.tasks,
                step=step,
                held_out=run.held_out,
                base=base,
            )

    return save


def _measure(
    run: Run, policy: Any, held_out: HeldOut, stage: Stage, step: int, *, name: str = 'held_out/success'
) -> Evaluation | None:
    """Held-out success of a policy; ``None`` where there is nothing to do or a stop cut it short."""
    if not held_out.wanted:
        return None
    player = run.player(policy)
    try:
        return held_out.measure(player, stage, step, name=name)
    finally:
        player.close()
