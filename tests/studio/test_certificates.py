"""Certificates of documents: kept by hash, stale when what they rest on changes; and ``rlvr certify``."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from studio.cli import main
from studio.documents.service import Documents
from studio.documents.views import DocumentView
from studio.errors import NotFound
from studio.services import Studio
from studio.store.database import Database
from trainer.attempt import Cancelled
from trainer.certify import Certificate, ProbeResult, evidence_hash
from trainer.errors import TaskError
from trainer.task import parse_task

GOOD: dict[str, Any] = {
    'title': 'Forty-two',
    'task_spec': {
        'prompt': 'Put 42 into result.txt.',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx 42 result.txt'}},
    },
    'solutions': [{'kind': 'reference', 'files': {'result.txt': '42\n'}}],
}
WEAK: dict[str, Any] = {
    **GOOD,
    'task_spec': {'prompt': 'Write a.txt.', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}},
}


def _made(view: DocumentView, state: Any = 'certified') -> Certificate:
    probe = ProbeResult(name='reference passes', ok=state == 'certified', detail='1.00', kind='reference')
    return Certificate(
        state=state,
        hash=view.hash,
        evidence=evidence_hash(view.solutions),
        probes=(probe,),
        isolation='bubblewrap',
        created_at=datetime.now(UTC),
        duration_ms=5,
    )


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    return open_studio(watch=False)


def test_a_document_is_certified_and_the_certificate_is_kept(studio: Studio) -> None:
    document = studio.documents.create(parse_task(GOOD)[0])
    assert (document.certificate, studio.certificates.get(document.id)) == ('uncertified', None)
    said: list[tuple[int, int, str]] = []
    made = studio.certificates.run(document.id, repeats=2, on_progress=lambda *seen: said.append(seen))
    assert made.state == 'certified', made.failed
    assert made.hash == document.hash and said[-1][0] == said[-1][1] > 5
    assert studio.certificates.get(document.id) == studio.certificates.get(document.hash) == made
    assert studio.certificates.state(document.id) == studio.certificates.state(document.hash) == 'certified'
    assert studio.documents.get(document.id).certificate == 'certified'


def test_cancelling_keeps_nothing(studio: Studio) -> None:
    document = studio.documents.create(parse_task(GOOD)[0])
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        studio.certificates.run(document.id, on_progress=lambda *_: cancel.set(), cancel=cancel)
    assert studio.certificates.state(document.id) == 'uncertified'


def test_a_draft_without_a_version_cannot_be_certified(studio: Studio) -> None:
    document = studio.documents.create()
    with pytest.raises(TaskError, match='no valid version'):
        studio.certificates.run(document.id)
    with pytest.raises(NotFound):
        studio.certificates.state('0' * 26)


def test_stale_when_the_spec_or_the_solutions_change_and_again_valid_when_they_come_back(studio: Studio) -> None:
    document = studio.documents.create(parse_task(GOOD)[0])
    studio.certificates.keep(_made(document, 'failed'))
    studio.certificates.keep(_made(document))
    assert studio.documents.get(document.id).certificate == 'certified'

    changed = studio.documents.save_draft(document.id, {**document.draft, 'max_steps': 3}, revision=document.revision)
    assert changed.certificate == 'stale'
    older = studio.certificates.get(document.id)
    assert older is not None and older.hash == document.hash
    studio.certificates.keep(_made(changed, 'failed'))
    assert studio.certificates.state(document.id) == 'failed'
    assert studio.certificates.state(document.hash) == 'certified'

    back = studio.documents.save_draft(document.id, document.draft, revision=changed.revision)
    assert back.certificate == 'certified'
    wrong = {'kind': 'wrong', 'files': {'result.txt': '42\n'}}
    more = studio.documents.update(document.id, solutions=[*back.solutions, wrong], revision=back.revision)
    assert more.certificate == 'stale'
    assert studio.documents.update(document.id, solutions=back.solutions, revision=more.revision).certificate == (
        'certified'
    )


def test_the_states_of_a_list_take_one_query(database: Database, open_studio: Callable[..., Studio]) -> None:
    studio = open_studio(watch=False)
    ids = []
    for number in range(20):
        spec = {**GOOD['task_spec'], 'prompt': f'Put 42 into result.txt, {number}.'}
        view = studio.documents.create(parse_task({**GOOD, 'task_spec': spec})[0])
        ids.append(view.id)
        if number % 2:
            studio.certificates.keep(_made(view, 'failed' if number % 3 else 'certified'))
    statements: list[str] = []
    event.listen(studio.database.engine, 'before_cursor_execute', lambda *seen: statements.append(seen[2]))
    rows = studio.documents.list().rows
    assert sum('certificate' in statement for statement in statements) == 1
    states = studio.certificates.for_documents([*ids, '0' * 26])
    assert states == {row.id: row.certificate for row in rows}
    assert list(states.values()).count('certified') == 3 and list(states.values()).count('uncertified') == 10


def test_documents_of_an_older_store_are_uncertified(documents: Documents) -> None:
    assert documents.create(parse_task(GOOD)[0]).certificate == 'uncertified'


@pytest.fixture
def rlvr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(task: dict[str, Any], *options: str) -> tuple[int, str, str]:
        path = tmp_path / 'task.json'
        path.write_text(json.dumps(task), encoding='utf-8')
        monkeypatch.setenv('RLVR_HOME', str(tmp_path / 'home'))
        monkeypatch.setattr(sys, 'argv', ['rlvr', 'certify', str(path), *options])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        return (code if isinstance(code, int) else 0, *capfd.readouterr())

    return run


def test_certify_on_the_command_line(rlvr: Callable[..., Any]) -> None:
    code, out, _ = rlvr(GOOD, '--json', '--repeats', '2')
    said = json.loads(out)
    assert (code, said['state'], said['weak']) == (0, 'certified', '')
    assert {'name', 'ok', 'detail'} == set(said['probes'][0])
    assert said['hash'] == parse_task(GOOD)[0].task_spec.hash
    assert '2 repeats identical' in [probe['name'] for probe in said['probes']]

    code, out, _ = rlvr(WEAK)
    lines = out.splitlines()
    assert code == 1 and 'failed' in lines[1] and 'untouched' in lines[1]
    assert 'Not certified' in out


def test_certify_takes_a_reference_from_a_file(rlvr: Callable[..., Any], tmp_path: Path) -> None:
    bare = GOOD['task_spec']
    steps = tmp_path / 'steps.json'
    steps.write_text(
        json.dumps([{'tool': 'run_command', 'args': {'command': 'echo 42 > result.txt'}}]), encoding='utf-8'
    )
    assert json.loads(rlvr(bare, '--json')[1])['state'] == 'failed'
    code, out, _ = rlvr(bare, '--json', '--solution', str(steps))
    assert (code, json.loads(out)['state']) == (0, 'certified')


def test_certify_refuses_bad_input_and_missing_isolation(rlvr: Callable[..., Any], tmp_path: Path) -> None:
    code, out, error = rlvr({'prompt': 'x'})
    assert (code, out) == (2, '') and 'checker' in error
    rlvr(GOOD, '--json', '--repeats', '1')
    no_bubblewrap = 'import shutil; shutil.which = lambda *_, **__: None; from studio.cli import main; main()'
    done = subprocess.run(
        [sys.executable, '-c', no_bubblewrap, 'certify', str(tmp_path / 'task.json')],
        env={**os.environ, 'RLVR_HOME': str(tmp_path / 'home'), 'PYTHONPATH': str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, '') and '--unsafe-sandbox' in done.stderr
