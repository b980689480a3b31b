"""Results: adapters with what was measured before and after, and a zip that holds exactly the adapter."""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable

import pytest
from stand_in import ended, new_run

from studio.documents.service import NotFound
from studio.services import Studio
from trainer.errors import RunFolderError

Open = Callable[..., Studio]
MEASURED = {
    'stage': 'after', 'k': 4, 'temperature': 1.0, 'mean': 0.5, 'low': 0.2, 'high': 0.8, 'solved': 2, 'attempts': 4,
    'errors': 0, 'tasks': [{'id': 'a', 'title': 'A', 'solved': 2, 'attempts': 4, 'errors': 0, 'low': 0.2, 'high': 0.8}],
}  # fmt: skip


@pytest.fixture
def studio_with_run(open_studio: Open) -> tuple[Studio, str]:
    studio = open_studio('--steps', '1')
    run = new_run(studio)
    studio.runs.start(run.id)
    ended(studio, run.id)
    return studio, run.id


def test_an_adapter_names_its_run_and_its_measurements(studio_with_run: tuple[Studio, str]) -> None:
    studio, run_id = studio_with_run
    folder = studio.runs.folder(run_id)
    (folder.path / 'evaluation-after.json').write_text(json.dumps(MEASURED), encoding='utf-8')
    view = studio.results.adapter(run_id)
    assert (view.run_id, view.model, view.step, view.before) == (run_id, 'starter', 1, None)
    assert view.after is not None and (view.after.mean, view.after.n) == (0.5, 1)
    assert view.sha256 == hashlib.sha256(b'weights').hexdigest()
    (folder.adapter / 'adapter_model.safetensors').write_bytes(b'other weights')
    assert studio.results.adapter(run_id).sha256 == hashlib.sha256(b'other weights').hexdigest()


def test_the_zip_holds_the_adapter_and_is_made_once(studio_with_run: tuple[Studio, str]) -> None:
    studio, run_id = studio_with_run
    path = studio.results.zip(run_id)
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ['adapter_config.json', 'adapter_model.safetensors']
        assert archive.read('adapter_model.safetensors') == b'weights'
    made = path.stat().st_mtime_ns
    assert studio.results.zip(run_id).stat().st_mtime_ns == made
    config = studio.runs.folder(run_id).adapter / 'adapter_config.json'
    config.write_text('{"r": 1}', encoding='utf-8')
    os.utime(config, ns=(made + 10**9, made + 10**9))
    with zipfile.ZipFile(studio.results.zip(run_id)) as archive:
        assert archive.read('adapter_config.json') == b'{"r": 1}'


def test_a_run_without_an_adapter_says_so(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    with pytest.raises(NotFound, match='no adapter'):
        studio.results.zip(new_run(studio).id)


def test_a_damaged_evaluation_is_named(studio_with_run: tuple[Studio, str]) -> None:
    studio, run_id = studio_with_run
    assert studio.results.evaluation(run_id, 'before') is None
    (studio.runs.folder(run_id).path / 'evaluation-before.json').write_text('{"k": 1}', encoding='utf-8')
    with pytest.raises(RunFolderError, match=r'evaluation-before\.json'):
        studio.results.evaluation(run_id, 'before')
    assert studio.results.adapter(run_id).before is None
