"""A data folder with every state a page can show, for pictures and for tests of looks; and a studio over it.

Tasks with every certificate and pass rate, runs that ended, failed and go on, and one adapter a state of its proof.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LEARNER = HERE.parent / 'studio' / 'learner.py'
sys.path[:0] = [str(ROOT), str(HERE), str(LEARNER.parent)]

import live_server  # noqa: E402
from adapter_files import files, zipped  # noqa: E402
from kept_run import LENIENT, kept_run, spec  # noqa: E402
from stand_in import ended, until  # noqa: E402

from studio.calibrations.rows import count, keep_subject, new_subject  # noqa: E402
from studio.documents.samples import load_tutorial  # noqa: E402
from studio.documents.service import DocumentQuery  # noqa: E402
from studio.launchers import LocalLauncher  # noqa: E402
from studio.services import Studio  # noqa: E402
from studio.settings import Settings  # noqa: E402
from studio.store.tables import AdapterVersionTable  # noqa: E402
from studio.workspaces.regrade_views import Asked  # noqa: E402
from trainer.calibration_messages import Counted  # noqa: E402
from trainer.proof import Agreement, ProofResult  # noqa: E402
from trainer.task import parse_task  # noqa: E402

SERVE = f"""
import studio.services as services
from studio.side_jobs.views import SideJobView

class Proofs(services.Proofs):
    def progress(self, id):
        if self._adapters.get(id).proof.state == 'running':
            return SideJobView(id='job', kind='proof', subject=id, state='running', text='Repeating held-out attempts',
                               done=37, total=80, elapsed_s=95.0)

services.Proofs = Proofs
{live_server.SERVE}
"""
"""A studio where one proof is for ever being made."""
CUT = """() => [...document.querySelectorAll('body *')].filter((one) => {
    const look = getComputedStyle(one);
    if (one.children.length || !one.textContent.trim() || look.visibility === 'hidden') return false;
    if (!one.getClientRects().length || one.closest('.sr, .term, .code, .diff, .cm-editor, pre, svg')) return false;
    let box = one;
    while (box && getComputedStyle(box).display === 'inline') box = box.parentElement;
    if (getComputedStyle(box).overflowX === 'visible' || box.scrollWidth <= box.clientWidth + 1) return false;
    return box.clientWidth > 1 && !one.closest('[title]') && !box.querySelector('[title]');
}).map((one) => one.textContent.trim().slice(0, 60))"""
"""Texts that are cut in a page without a title that holds all of it."""
AGREEMENT = Agreement(attempts=128, same=128, allowed=2, solved_then=91, solved_now=91, exact=True)
RESULT: dict[str, Any] = {
    'state': 'proven', 'logit_difference': 0.00021, 'logit_tolerance': 0.005, 'verdicts': AGREEMENT,
    'base': '9c41' * 16, 'adapter': 'b07e' * 16, 'precision': 'float32', 'device': 'CPU', 'seconds': 81.0,
    'made_at': datetime.now(UTC),
}  # fmt: skip
FAILED: dict[str, Any] = RESULT | {
    'state': 'failed',
    'problems': (
        'A logit differs by 0.5, more than 0.005',
        '9 of 128 verdicts differ, at most 2 may: Append a line: lizard.log, Copy a file: anchor.txt and 4 more',
    ),
    'logit_difference': 0.5,
    'verdicts': AGREEMENT.model_copy(update={'same': 119, 'solved_now': 84}),
}
OTHER_BASE: dict[str, Any] = RESULT | {
    'state': 'failed',
    'problems': (
        'The base model is another one than in training: sha256 1d77e0a5c3b2…, not 9c419c419c41…',
        'A logit differs by 2.41, more than 0.005',
    ),
    'logit_difference': 2.41,
    'verdicts': AGREEMENT.model_copy(update={'same': 64, 'solved_now': 39}),
    'other_base': True,
}
RESULTS = {'proven': RESULT, 'failed': FAILED, 'other-base': OTHER_BASE}
ERRORS = {
    'error': {
        'reason': 'The base model is not here: unsloth/Qwen3-0.6B. Name the folder it is in now, or download it again.',
        'error': 'BaseUnavailable',
    },
    'error-sandbox': {
        'reason': 'bubblewrap is not installed. Install it: apt install bubblewrap.',
        'error': 'SandboxUnavailable',
    },
}
PROOFS = ('proven', 'failed', 'other-base', *ERRORS, 'queued', 'running', 'cancelled', 'none')
"""States of a proof: one adapter each."""
LATER = ('deep-paginate', 'after-the-deep-one', 'not started yet')


@contextmanager
def showing(home: Path) -> Iterator[live_server.Server]:
    """The studio over a filled data folder; the run that was started goes on in it."""
    with live_server.serving(home, SERVE) as server:
        yield server


def fill(home: Path) -> dict[str, str]:
    """Fill a data folder; the addresses of what is in it, by the name of its picture."""
    studio = _opened(home)
    train, held_out = load_tutorial(studio.documents)
    studio.documents.create(title='A draft that nobody finished', topics=('shell',))
    tasks = _certified(studio)
    _calibrate(studio, train)
    studio.start()
    first, second = (_played(studio, 'paginate-and-friends', train[:14], held_out[:10], seed) for seed in (1, 2))
    failed = _played(studio, 'out-of-memory, failed', train, held_out)
    studio.stop()
    studio.adapters.keep_up()
    proofs = {f'proof-{state}': f'/adapters/{_proof(studio, state, home)}' for state in PROOFS}
    trained = [version for id in (first, second) if (version := studio.adapters.of_run(id)) is not None]
    for version in trained:
        studio.adapters.keep_proof(version.id, ProofResult.model_validate(RESULT))
    kept = _regraded(studio)
    group = studio.runs.rollouts(second, limit=1)[0]
    a, b = trained[0].id, trained[1].id
    studio.keys.create('Nightly evaluation', ('read', 'run'))
    studio.stop()
    studio = _opened(home, '--interval', '1.5', '--steps', '240', '--lost', '4,5')
    live, waits, draft = (studio.runs.create(name, 'starter', {}, train[:14], held_out[:10]).id for name in LATER)
    for id in (live, waits):
        studio.runs.start(id)
    studio.stop()
    return proofs | {
        'editor': f'/tasks/{tasks["certified"]}', 'editor-stale': f'/tasks/{tasks["stale"]}',
        'editor-failed': f'/tasks/{tasks["failed"]}', 'variants': f'/tasks/{tasks["template"]}/variants',
        'run': f'/runs/{second}', 'run-live': f'/runs/{live}', 'run-queued': f'/runs/{waits}',
        'run-draft': f'/runs/{draft}', 'run-failed': f'/runs/{failed}', 'run-tasks': f'/runs/{second}/tasks',
        'rollouts': f'/runs/{second}/rollouts', 'rollout': f'/runs/{second}/rollouts/{group.id}',
        'regrade': f'/runs/{kept}/regrade', 'regrade-nothing-kept': f'/runs/{second}/regrade',
        'compare': f'/compare?runs={first},{second}', 'compare-one': f'/compare?runs={first}',
        'compare-none': '/compare', 'adapter': f'/adapters/{b}', 'adapters-compared': f'/adapters/{a}/compare/{b}',
        'try-adapter': f'/try?adapter={b}',
        'no-such-run': '/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV', 'no-such-task': '/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV',
        'no-such-page': '/nothing/here',
    }  # fmt: skip


def _opened(home: Path, *options: str) -> Studio:
    """A studio whose runs learn on paper."""
    return Studio(Settings(home=home), launcher=LocalLauncher((sys.executable, str(LEARNER), *options)))


def _certified(studio: Studio) -> dict[str, str]:
    """Have every state of a certificate in the pictures, and a task to make variants of."""
    rows = studio.documents.list(DocumentQuery(checker='pytest', per_page=1)).rows
    rows += studio.documents.list(DocumentQuery(checker='exit_code', status='published', per_page=2)).rows
    raw = {'prompt': 'Tidy the workspace.', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}
    failing = studio.documents.create(parse_task({'title': 'Anything goes', 'task_spec': raw})[0], status='published')
    for id in [*(row.id for row in rows), failing.id]:
        studio.certificates.run(id)
    stale = studio.documents.get(rows[-1].id)
    changed = {**stale.draft, 'prompt': f'{stale.draft["prompt"]} Keep the rest.'}
    studio.documents.save_draft(stale.id, changed, revision=stale.revision)
    counting = {
        'prompt': 'Write {n} to out.txt.',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx {n} out.txt'}},
    }
    template = studio.documents.create(parse_task({'title': 'Write a number', 'task_spec': counting})[0])
    return {'certified': rows[0].id, 'stale': stale.id, 'failed': failing.id, 'template': template.id}


def _calibrate(studio: Studio, tasks: Sequence[str]) -> None:
    """Count what a calibration would have counted: too hard, in band, too easy, an error, and some not at all."""
    subject = new_subject('starter', '', None, None, None)
    with studio.database.write() as session:
        keep_subject(session, subject)
        session.flush()
        for number, id in enumerate(tasks[: len(tasks) * 3 // 4]):
            solved = (0, 2, 3, 5, 8, 6, 1)[number % 7]
            rewards: tuple[float | None, ...] = (1.0,) * solved + (0.0,) * (8 - solved)
            if number % 11 == 5:
                rewards = (*rewards[:-1], None)
            counted = Counted(task=id, rewards=rewards, error='the checker is gone' if None in rewards else '')
            count(session, subject.key, studio.documents.get(id).hash, counted)


def _played(studio: Studio, name: str, train: Sequence[str], held_out: Sequence[str], seed: int = 1) -> str:
    run = studio.runs.create(name, 'starter', {'seed': seed}, train, held_out)
    studio.runs.start(run.id)
    ended(studio, run.id)
    return run.id


def _proof(studio: Studio, state: str, home: Path) -> str:
    """Bring in an adapter whose proof stands there."""
    source = zipped(home / f'{state}.zip', files())
    version = studio.adapters.bring_in(source, name=f'proof {state}').version
    source.unlink()
    with studio.database.write() as session:
        row = session.get(AdapterVersionTable, version.id)
        assert row is not None
        row.proof, row.proof_asked_at = dict(ERRORS.get(state, {})), datetime.now(UTC)
        row.proof_state = 'error' if state in ERRORS else state
    if state in RESULTS:
        studio.adapters.keep_proof(version.id, ProofResult.model_validate(RESULTS[state]))
    return version.id


def _regraded(studio: Studio) -> str:
    """A run that kept its workspaces, graded again by a checker that was corrected since."""
    run = kept_run(studio)
    task = studio.runs.tasks(run)[0]
    studio.documents.save_draft(task.id, spec(LENIENT), revision=studio.documents.get(task.id).revision)
    studio.regrades.start(run, Asked(source='library'))
    until(lambda: (view := studio.regrades.view(run)) is not None and not view.is_active)
    return run
