"""The registry of adapters: every run's becomes a version once and outlives it; moved, compared, deleted, proven."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from adapter_files import CONFIG, safetensors
from stand_in import ended, new_run, until

from studio.errors import NotFound
from studio.services import Studio
from studio.store.tables import RunTable
from trainer.errors import ConfigError, RunFolderError
from trainer.proof import EXPECTED, Agreement, ProofResult
from trainer.runfolder import RunFolder

Open = Callable[..., Studio]
TASK = {'id': 'a', 'title': 'A | b', 'solved': 2, 'attempts': 4, 'errors': 0, 'low': 0.2, 'high': 0.8}
MEASURED = {
    'stage': 'after', 'k': 4, 'temperature': 1.0, 'mean': 0.5, 'low': 0.2, 'high': 0.8, 'solved': 2, 'attempts': 4,
    'errors': 0, 'tasks': [TASK],
}  # fmt: skip


def trained(studio: Studio, name: str = 'a run', *, fill: bytes = b'\x01', step: int = 3, **settings: object) -> str:
    """A run that has ended with an adapter, without a trainer."""
    run = new_run(studio, name)
    leave(studio.runs.folder(run.id), fill, step, **settings)
    with studio.database.write() as session:
        row = session.get(RunTable, run.id)
        assert row is not None
        row.state, row.has_adapter, row.ended_at = 'finished', True, run.created_at
    return run.id


def leave(folder: RunFolder, fill: bytes, step: int, **settings: object) -> None:
    folder.adapter.mkdir(exist_ok=True)
    (folder.adapter / 'adapter_model.safetensors').unlink(missing_ok=True)
    (folder.adapter / 'adapter_model.safetensors').write_bytes(safetensors(fill=fill))
    (folder.adapter / 'adapter_config.json').write_text(json.dumps(CONFIG), encoding='utf-8')
    lineage = {
        'step': step,
        'model': {'id': 'starter', 'kind': 'bundled'},
        'settings': settings,
        'tasks': [{'id': 't', 'title': 'T', 'version': step, 'hash': f'{step}' * 8}],
    }
    (folder.adapter / 'lineage.json').write_text(json.dumps(lineage), encoding='utf-8')
    (folder.path / 'evaluation-after.json').write_text(json.dumps(MEASURED), encoding='utf-8')


@pytest.fixture
def studio(open_studio: Open) -> Studio:
    return open_studio(watch=False)


def test_an_adapter_is_kept_when_its_run_ends(open_studio: Open) -> None:
    studio = open_studio('--steps', '1')
    run = new_run(studio)
    studio.runs.start(run.id)
    ended(studio, run.id)
    version = until(lambda: studio.adapters.of_run(run.id))
    assert (version.label, version.model, version.proof.state) == ('a run v1', 'starter', 'none')
    assert studio.adapters.count() == 1


def test_earlier_runs_are_taken_in_once_with_what_was_measured(studio: Studio) -> None:
    run_id = trained(studio)
    assert studio.adapters.keep_up() == 1
    assert studio.adapters.keep_up() == 0
    (named,) = studio.adapters.list()
    (version,) = named.versions
    assert (version.step, version.rank, version.run_id, version.run_name) == (3, 2, run_id, 'a run')
    assert version.after is not None and version.success == 0.5 and version.before is None
    names = [file.name for file in version.files]
    assert names == [
        'README.md', 'adapter_config.json', 'adapter_model.safetensors', 'lineage.json', 'plots/held-out.svg',
    ]  # fmt: skip
    card = (Path(version.path) / 'README.md').read_text(encoding='utf-8')
    assert '| this adapter | 2 of 4 | 0.50 | 0.20 to 0.80 |' in card
    assert 'k = 4 attempts a task, temperature 1' in card
    assert r'| A \| b |' in card and '(plots/held-out.svg)' in card
    with zipfile.ZipFile(studio.adapters.zip(version.id)) as archive:
        assert sorted(archive.namelist()) == names


def test_weights_take_their_space_once_and_outlive_their_run(studio: Studio) -> None:
    """Case F4."""
    run_id = trained(studio)
    studio.adapters.keep_up()
    version = studio.adapters.find(run_id)
    weights = Path(version.path, 'adapter_model.safetensors')
    assert weights.samefile(studio.runs.folder(run_id).adapter / weights.name)
    linked = studio.adapters.freed_by_deleting(version.id)
    studio.runs.delete(run_id)
    assert weights.read_bytes() == safetensors()
    assert studio.adapters.get(version.id) == version
    assert studio.adapters.freed_by_deleting(version.id) == linked + weights.stat().st_size
    assert studio.adapters.delete(version.id) == linked + len(safetensors())
    assert not Path(version.path).parent.exists()
    with pytest.raises(NotFound):
        studio.adapters.get(version.id)


def test_what_was_deleted_does_not_come_back_and_a_run_that_goes_on_adds_a_version(studio: Studio) -> None:
    run_id = trained(studio)
    studio.adapters.keep_up()
    studio.adapters.delete(studio.adapters.find(run_id).id)
    assert studio.adapters.keep_up() == 0
    assert studio.adapters.list() == []
    leave(studio.runs.folder(run_id), b'\x02', 6)
    with studio.database.write() as session:
        row = session.get(RunTable, run_id)
        assert row is not None
        row.ended_at = row.created_at.replace(year=row.created_at.year + 1)
    assert studio.adapters.keep_up() == 1
    version = studio.adapters.find(run_id)
    assert (version.number, version.step) == (2, 6)


def test_runs_of_one_name_are_versions_and_another_base_is_another_name(studio: Studio) -> None:
    trained(studio, fill=b'\x01')
    trained(studio, 'A  Run', fill=b'\x02')
    other = trained(studio, fill=b'\x03')
    with studio.database.write() as session:
        row = session.get(RunTable, other)
        assert row is not None
        row.model = 'unsloth/Qwen3-0.6B'
    assert studio.adapters.keep_up() == 3
    found = {named.name: [version.number for version in named.versions] for named in studio.adapters.list()}
    assert found == {'a run': [2, 1], 'a run (Qwen3-0.6B)': [1]}
    assert studio.adapters.find('a run').number == 2
    assert studio.adapters.find('A run:v1').number == 1
    assert studio.adapters.find('a run v1').number == 1
    with pytest.raises(NotFound, match='no adapter'):
        studio.adapters.find('a run:v9')


def test_versions_are_renamed_moved_and_annotated(studio: Studio) -> None:
    first, second = trained(studio, 'one'), trained(studio, 'two', fill=b'\x02')
    studio.adapters.keep_up()
    one, two = studio.adapters.find(first), studio.adapters.find(second)
    with pytest.raises(ConfigError) as taken:
        studio.adapters.rename(one.adapter_id, 'TWO')
    assert [field.loc for field in taken.value.fields] == ['name']
    for bad in ('', ' ', 'x' * 1000, 'a\0b'):
        with pytest.raises(ConfigError):
            studio.adapters.rename(one.adapter_id, bad)
    studio.adapters.rename(one.adapter_id, 'задача 🚀/..')
    assert studio.adapters.move(one.id, 'two').label == 'two v2'
    assert studio.adapters.move(one.id, 'two').label == 'two v2'
    assert studio.adapters.move(two.id, 'new').label == 'new v1'
    assert studio.adapters.annotate(one.id, '<b>best</b>').notes == '<b>best</b>'
    with pytest.raises(ConfigError):
        studio.adapters.annotate(one.id, 'x' * 30_000)


def test_two_versions_are_compared(studio: Studio) -> None:
    ids = [trained(studio, fill=b'\x01', seed=1), trained(studio, fill=b'\x02', step=4, seed=2, rl={'maxSteps': 5})]
    studio.adapters.keep_up()
    found = studio.adapters.compare(*(studio.adapters.find(id).id for id in ids))
    rows = {row.field: (row.a, row.b) for row in found.differences}
    assert rows['Step'] == ('3', '4')
    assert rows['Setting seed'] == ('1', '2')
    assert rows['Setting rl.maxSteps'] == ('', '5')
    assert rows['Task T'] == ('v3 · 33333333', 'v4 · 44444444')
    assert 'Base model' not in rows and 'Run' not in rows
    assert found.same_tasks


def test_a_proof_is_asked_for_when_there_is_something_to_compare(studio: Studio) -> None:
    provable, other = trained(studio, 'one'), trained(studio, 'two', fill=b'\x02')
    (studio.runs.folder(provable).path / EXPECTED).write_text('{"broken": true}', encoding='utf-8')
    studio.adapters.keep_up()
    one, two = studio.adapters.find(provable), studio.adapters.find(other)
    assert (one.proof.state, two.proof.state) == ('queued', 'none')
    with pytest.raises(Exception, match='Nothing was recorded'):
        studio.proofs.ask(two.id)
    studio.proofs.cancel(one.id)
    assert studio.adapters.get(one.id).proof.state == 'cancelled'
    studio.proofs.ask(one.id, base='/models/moved')
    assert studio.adapters.get(one.id).proof.state == 'queued'
    studio.proofs.cancel(one.id)
    studio.proofs.ask(one.id)
    assert studio.adapters.get(one.id).proof.base == '/models/moved', 'what was named once holds'


def test_a_proof_that_cannot_be_made_says_why_and_the_next_studio_goes_on(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id = trained(studio)
    (studio.runs.folder(run_id).path / EXPECTED).write_text('{"broken": true}', encoding='utf-8')
    studio.adapters.keep_up()
    id = studio.adapters.find(run_id).id
    studio.proofs.keep_up()
    assert studio.adapters.get(id).proof.state == 'running'
    assert studio.proofs.progress(id) is not None
    studio.proofs.close()
    assert studio.adapters.get(id).proof.state == 'queued'

    def proven() -> bool:
        studio.proofs.keep_up()
        return studio.adapters.get(id).proof.state == 'error'

    until(proven, 60)
    proof = studio.adapters.get(id).proof
    assert 'parity.json cannot be read' in proof.reason and proof.reason.endswith('Train it again to prove it.')
    assert proof.error == RunFolderError.__name__


def test_a_result_is_kept_with_what_differs(studio: Studio) -> None:
    run_id = trained(studio)
    studio.adapters.keep_up()
    id = studio.adapters.find(run_id).id
    result = ProofResult.model_validate(
        {
            'state': 'failed',
            'problems': ['A logit differs'],
            'logit_difference': 0.5,
            'logit_tolerance': 0.005,
            'verdicts': Agreement(attempts=80, same=71, allowed=1, solved_then=57, solved_now=50, exact=True),
            'base': 'b' * 64,
            'adapter': 'a' * 64,
            'precision': 'float32',
            'device': 'CPU',
            'seconds': 1.0,
            'made_at': '2026-01-01T00:00:00Z',
        }
    )
    studio.adapters.keep_proof(id, result)
    proof = studio.adapters.get(id).proof
    assert (proof.state, proof.reason, proof.result) == ('failed', 'A logit differs', result)
