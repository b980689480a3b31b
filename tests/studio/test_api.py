"""The API over a real store: documents, jobs and their results, keys and scopes, one shape for every error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stand_in import SPEC, ended, new_run, task
from starlette.testclient import TestClient

from studio.api.app import build
from studio.api.jobs import Series
from studio.api.metrics import as_csv
from studio.services import Studio

Open = Callable[..., Studio]
REFERENCE = {
    'workspaceid': '$WS',
    'data': [
        {
            'autoParse': True,
            'rawTrainingData': {
                'task_spec': {
                    'prompt': 'Create greeting.txt containing the word Bonjour',
                    'env': 'tfcode',
                    'max_steps': 8,
                    'checker': {'type': 'exit_code', 'config': {'command': 'grep -q Bonjour greeting.txt'}},
                }
            },
            'type': 'rlTask',
            'userid': '$USER_ID',
            'title': 'Greeting task',
            'topics': [],
            'status': 'published',
            'scope': 'training',
        }
    ],
}


@pytest.fixture
def studio(open_studio: Open) -> Studio:
    return open_studio('--steps', '4', '--rollouts', '4', watch=False)


@pytest.fixture
def api(studio: Studio) -> Iterator[TestClient]:
    with TestClient(build(studio), raise_server_exceptions=False) as client:
        yield client


def document(**changes: Any) -> dict[str, Any]:
    """A body that makes one document."""
    return {'data': [{'rawTrainingData': {'task_spec': SPEC}, 'title': 'A task', **changes}]}


def refused(answer: Any, status: int, *locs: str) -> dict[str, Any]:
    """Check the shape of an error and the paths it names; return it."""
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {'error'}
    error: dict[str, Any] = answer.json()['error']
    assert set(error) == {'code', 'message', 'fields'} and error['code'] and error['message']
    assert all(set(field) == {'loc', 'msg'} for field in error['fields'])
    for loc in locs:
        assert loc in [field['loc'] for field in error['fields']], error
    return error


# ----------------------------------------------------------------------------------------------------- documents


def test_the_reference_document_is_made_as_it_stands(api: TestClient, studio: Studio) -> None:
    made = api.post('/doc/create', json=REFERENCE).json()['data'][0]
    stored = studio.documents.get(made['id'])
    assert (stored.title, stored.status, stored.userid, stored.workspaceid) == (
        'Greeting task',
        'published',
        '$USER_ID',
        '$WS',
    )
    assert stored.task_spec is not None and stored.task_spec.max_steps == 8
    assert (
        made['rawTrainingData']['task_spec']['prompt'] == REFERENCE['data'][0]['rawTrainingData']['task_spec']['prompt']
    )  # type: ignore[index]
    assert made['type'] == 'rlTask' and made['scope'] == 'training' and made['version'] == 1
    found = api.get('/doc/list', params={'workspaceid': '$WS'}).json()
    assert [row['id'] for row in found['data']] == [made['id']] and found['total'] == 1
    assert api.get('/doc/list', params={'workspaceid': 'another'}).json()['total'] == 0


def test_a_prompt_is_kept_byte_for_byte_and_clamps_are_reported(api: TestClient) -> None:
    prompt = 'Reply with {"answer": 1}. Keep {{name}} and {% if x %} and 100% and $HOME as they are. 漢字 🔄'
    spec = {**SPEC, 'prompt': prompt, 'max_steps': 500}
    made = api.post('/doc/create', json=document(rawTrainingData={'task_spec': spec})).json()['data'][0]
    assert api.get(f'/doc/get/{made["id"]}').json()['rawTrainingData']['task_spec']['prompt'] == prompt
    assert made['remarks'] == [{'loc': 'max_steps', 'msg': 'lowered from 500 to 64'}]


@pytest.mark.parametrize(
    ('body', 'loc'),
    [
        (document(titel='x'), 'data.0.titel'),
        (document(title=7), 'data.0.title'),
        (document(title='x' * 201), 'data.0.title'),
        (document(title='', status='published'), 'data.0.title'),
        (document(type='other'), 'data.0.type'),
        (document(autoParse='yes'), 'data.0.autoParse'),
        (document(topics='a'), 'data.0.topics'),
        (document(topics=['a' * 61]), 'data.0.topics.0'),
        (document(userid='\0'), 'data.0.userid'),
        (document(solutions=[{'kind': 'wrong', 'files': {'../x': ''}}]), 'data.0.solutions.0.files'),
        (document(rawTrainingData={'task_spec': {**SPEC, 'prompt': ''}}), 'data.0.rawTrainingData.task_spec.prompt'),
        (document(rawTrainingData={'task_spec': {**SPEC, 'env': 'other'}}), 'data.0.rawTrainingData.task_spec.env'),
        (
            document(rawTrainingData={'task_spec': {**SPEC, 'setup_files': {'../outside.txt': ''}}}),
            'data.0.rawTrainingData.task_spec.setup_files',
        ),
        ({'data': []}, 'data'),
        ({'workspaceid': 'w'}, 'data'),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(api: TestClient, studio: Studio, body: Any, loc: str) -> None:
    """Cases A5, A7."""
    refused(api.post('/doc/create', json=body), 422, loc)
    assert studio.documents.count() == 0


def test_of_a_batch_everything_is_stored_or_nothing(api: TestClient, studio: Studio) -> None:
    good = document()['data'][0]
    bad = document(rawTrainingData={'task_spec': {**SPEC, 'chekker': {}}}, title='x' * 300)['data'][0]
    error = refused(
        api.post('/doc/create', json={'data': [good, bad, good]}),
        422,
        'data.1.rawTrainingData.task_spec.chekker',
        'data.1.title',
    )
    assert error['message'].startswith('Nothing was stored')
    assert studio.documents.count() == 0
    made = api.post('/doc/create', json={'data': [good, good]}).json()['data']
    assert studio.documents.count() == 2 and made[0]['id'] != made[1]['id']


def test_an_update_changes_what_it_names_at_once_or_nothing(api: TestClient, studio: Studio) -> None:
    """Case F3: also the smallest change inside the spec survives."""
    id = api.post('/doc/create', json=document(status='published')).json()['data'][0]['id']
    spec = json.loads(json.dumps(SPEC))
    spec['checker']['config']['timeout_s'] = 9
    body = {'rawTrainingData': {'task_spec': spec}, 'title': 'Another', 'notes': 'n', 'revision': 1}
    changed = api.post(f'/doc/update/{id}', json=body).json()
    assert (changed['title'], changed['version'], changed['revision'], changed['status']) == (
        'Another',
        2,
        2,
        'published',
    )
    assert api.get(f'/doc/get/{id}').json()['rawTrainingData']['task_spec']['checker']['config']['timeout_s'] == 9
    assert refused(api.post(f'/doc/update/{id}', json=body), 409)['code'] == 'changed_elsewhere'
    refused(api.post(f'/doc/update/{id}', json={'title': ' ', 'notes': 'lost?'}), 422, 'title')
    refused(api.post(f'/doc/update/{id}', json={'notes': 'x', 'rawTrainingData': {'task_spec': {}}}), 422)
    assert studio.documents.get(id).notes == 'n'
    assert api.post(f'/doc/update/{id}', json={'status': 'draft'}).json()['status'] == 'draft'
    assert api.delete(f'/doc/delete/{id}').json() == {'id': id, 'deleted': True}
    refused(api.delete(f'/doc/delete/{id}'), 404)
    refused(api.get(f'/doc/get/{id}'), 404)


# ---------------------------------------------------------------------------------------------------------- jobs


def job(**changes: Any) -> dict[str, Any]:
    return {'name': 'a job', 'base_model': 'starter', **changes}


def test_a_job_takes_documents_topics_or_all_that_is_published(api: TestClient, studio: Studio) -> None:
    ids = [studio.documents.create(task(n), status='published', topics=[f't{n}']).id for n in range(3)]
    studio.documents.create(task(3), topics=['t0'])
    for selection, expected in (
        ({}, ids),
        ({'topics': ['t0', 't2']}, [ids[0], ids[2]]),
        ({'document_ids': ids[1:2]}, ids[1:2]),
    ):
        made = api.post('/finetuning/create', json=job(**selection)).json()
        assert made['document_count'] == len(expected) and made['started'] is False and made['state'] == 'queued'
        assert [frozen.id for frozen in studio.runs.tasks(made['id'])] == expected
    apart = api.post('/finetuning/create', json=job(topics=['t0'], held_out_topics=['t1'])).json()
    assert [frozen.role for frozen in studio.runs.tasks(apart['id'])] == ['train', 'held_out']
    only_sft = api.post('/finetuning/create', json=job(training_type='conversationalTraining')).json()
    assert (only_sft['training_type'], only_sft['rlvr']) == ('conversationalTraining', False)
    assert studio.runs.folder(only_sft['id']).config().training_type == 'conversationalTraining'


def test_tasks_with_the_topic_held_out_are_measured_unless_the_caller_says_otherwise(
    api: TestClient, studio: Studio
) -> None:
    topics = (['a'], ['a', 'held-out'], ['b'], ['b', 'held-out'])
    ids = [studio.documents.create(task(n), status='published', topics=several).id for n, several in enumerate(topics)]
    for selection, train, held_out in (
        ({}, [0, 2], [1, 3]),
        ({'topics': ['a']}, [0], [1]),
        ({'held_out_topics': ['b']}, [0, 1], [2, 3]),
        ({'held_out_ids': []}, [0, 1, 2, 3], []),
        ({'topics': ['held-out']}, [1, 3], []),
        ({'document_ids': ids[:2]}, [0, 1], []),
    ):
        made = api.post('/finetuning/create', json=job(**selection)).json()
        frozen = [(one.role, ids.index(one.id)) for one in studio.runs.tasks(made['id'])]
        assert frozen == [*(('train', n) for n in train), *(('held_out', n) for n in held_out)], selection
        said = [note['msg'] for note in made['notes'] if note['loc'] == 'held_out_topics']
        by_topic = held_out if selection in ({}, {'topics': ['a']}) else []
        assert [message.split()[0] for message in said] == ([str(len(by_topic))] if by_topic else [])
    studio.documents.update(ids[0], topics=['held-out', 'a'], revision=studio.documents.get(ids[0]).revision)
    refused(api.post('/finetuning/create', json=job(topics=['a'])), 400, 'topics')


@pytest.mark.parametrize(
    ('changes', 'status', 'loc'),
    [
        ({'name': ' '}, 400, 'name'),
        ({'base_model': 'nothing'}, 400, 'base_model'),
        ({'document_ids': []}, 400, 'document_ids'),
        ({'document_ids': ['../../etc']}, 422, 'document_ids.0'),
        ({'topics': ['nowhere']}, 400, 'topics.0'),
        ({'topics': [], 'document_ids': []}, 422, 'topics'),
        ({'held_out_topics': ['nowhere']}, 400, 'held_out_topics.0'),
        ({'rlvr': False}, 422, 'rlvr'),
        ({'rlvr': 'true'}, 422, 'rlvr'),
        ({'training_type': 'dpo'}, 422, 'training_type'),
        ({'training_type': 'conversationalTraining', 'config': {'rl': {'enabled': True}}}, 400, 'config.rl.enabled'),
        ({'config': {'rl': {'numGenerations': 'many'}}}, 400, 'config.rl.numGenerations'),
        ({'config': {'rl': {'numGeneration': 8}}}, 400, 'config.rl.numGeneration'),
        ({'config': {'learningRate': 'x', 'rl': {'lossType': 'y'}}}, 400, 'config.learningRate'),
        ({'config': {'rl': {'generationEngine': 'warp'}}}, 400, 'config.rl.generationEngine'),
        ({'config': {'temperature': 0}}, 400, 'config.temperature'),
        ({'more': 1}, 422, 'more'),
    ],
)
def test_a_job_that_cannot_work_is_not_made(
    api: TestClient, studio: Studio, changes: Any, status: int, loc: str
) -> None:
    studio.documents.create(task(), status='published')
    refused(api.post('/finetuning/create', json=job(**changes)), status, loc)
    assert studio.runs.list().total == 0
    assert list(studio.settings.runs_folder.iterdir()) == []


@pytest.mark.parametrize(
    'line',
    [
        'pkg @ https://example.invalid/p-1.0.tar.gz',
        'pkg @ file:///tmp/p.whl',
        '-r other.txt',
        '--index-url https://example.invalid/simple',
        '-e .',
        './local',
        'git+https://example.invalid/a/b.git',
        'requests==2.31.0 --hash=sha256:00',
        'café>=1',
        'requests = 2.0',
    ],
)
def test_a_package_that_is_more_than_a_name_is_refused_with_400_and_its_line(
    api: TestClient, studio: Studio, line: str
) -> None:
    """Case A2."""
    studio.documents.create(task(), status='published')
    config = {'rl': {'pipPackages': ['# why', 'numpy>=1; python_version > "3"', line]}}
    error = refused(api.post('/finetuning/create', json=job(config=config)), 400, 'config.rl.pipPackages')
    assert error['fields'][0]['msg'].startswith('Line 3 (')


def test_a_job_starts_once_with_the_settings_of_its_start(api: TestClient, studio: Studio) -> None:
    """Case C5 over the API: of ten calls at once one starts it, with clamps and notes reported back."""
    studio.documents.create(task(), status='published')
    made = api.post('/finetuning/create', json=job(config={'rl': {'maxSteps': 3, 'numGenerations': 99}})).json()
    assert {'loc': 'config.rl.numGenerations', 'msg': 'lowered from 99 to 16: 4 to 16'} in made['notes']
    start = f'/finetuning/start/{made["id"]}'
    refused(api.post(start, json={'config': {'rl': {'lossType': 'y'}}}), 400, 'config.rl.lossType')
    refused(api.post(start, json={'config': {}, 'more': 1}), 422, 'more')
    assert studio.runs.get(made['id']).queued_at is None
    answers: list[Any] = []
    body = {'config': {'learningRate': 1e-3, 'rl': {'numGenerations': 2}}}
    threads = [threading.Thread(target=lambda: answers.append(api.post(start, json=body))) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [started] = [answer.json() for answer in answers if answer.status_code == 200]
    assert sorted({answer.status_code for answer in answers}) == [200, 409]
    assert {answer.json()['error']['code'] for answer in answers if answer.status_code == 409} == {'already_started'}
    assert started['started'] is True
    assert started['config']['rl'] | {} == {**made['config']['rl'], 'numGenerations': 4}
    assert started['config']['learningRate'] == 1e-3
    assert {'loc': 'config.rl.numGenerations', 'msg': 'raised from 2 to 4: 4 to 16'} in started['notes']
    written = json.loads((studio.runs.folder_path(made['id']) / 'run.json').read_text(encoding='utf-8'))
    assert written['settings'] == {
        'rl': {'maxSteps': 3, 'numGenerations': 4, 'enabled': True},
        'learningRate': 1e-3,
    }


def test_the_same_wish_makes_one_job(api: TestClient, studio: Studio) -> None:
    studio.documents.create(task(), status='published')
    headers = {'Idempotency-Key': 'once'}
    first, again = (api.post('/finetuning/create', json=job(), headers=headers).json() for _ in range(2))
    assert first['id'] == again['id'] and studio.runs.list().total == 1


def test_a_job_that_has_run_shows_everything(open_studio: Open) -> None:
    studio = open_studio('--steps', '4', '--rollouts', '4', '--interval', '0')
    run = new_run(studio)
    api = TestClient(build(studio))
    assert api.post(f'/finetuning/start/{run.id}').status_code == 200
    ended(studio, run.id)
    status = api.get(f'/finetuning/status/{run.id}').json()
    assert status['state'] == 'finished' and status['has_adapter'] is True
    assert status['progress'] == {'step': 4, 'total': 4, 'share': 1.0, 'eta_s': None}
    assert status['metrics'] == {'loss': 0.25, 'rewards/TfcodeEnv/mean': 1.0}
    assert status['series']['loss'] == {'steps': [1, 2, 3, 4], 'values': [1, 1 / 2, 1 / 3, 1 / 4]}
    part = api.get(f'/finetuning/metrics/{run.id}', params={'names': 'loss', 'first': 2, 'last': 3}).json()
    assert part['series'] == {'loss': {'steps': [2, 3], 'values': [1 / 2, 1 / 3]}}
    assert part['names'] == ['loss', 'rewards/TfcodeEnv/mean']
    thin = api.get(f'/finetuning/metrics/{run.id}', params={'points': 2}).json()['series']['loss']
    assert (thin['steps'][0], thin['steps'][-1]) == (1, 4)
    csv = api.get(f'/finetuning/metrics/{run.id}?format=csv')
    assert csv.headers['content-type'].startswith('text/csv') and csv.text.splitlines()[:2] == [
        'step,loss,rewards/TfcodeEnv/mean',
        '1,1.0,0.25',
    ]
    page = api.get(f'/finetuning/rollouts/{run.id}', params={'outcome': 'passed', 'per_page': 3}).json()
    assert page['total'] == 4 and len(page['rows']) == 3
    whole = api.get(f'/finetuning/rollouts/{run.id}/{page["rows"][0]["id"]}').json()
    assert whole['prompt'] == 'Do {"it"}' and whole['verdict']['reward'] == 1.0
    refused(api.get(f'/finetuning/rollouts/{run.id}/99999'), 404)
    assert api.get(f'/finetuning/log/{run.id}').json()['lines']
    zip = api.get(f'/finetuning/download/{run.id}')
    assert zip.headers['content-type'] == 'application/zip' and zip.content[:2] == b'PK'
    assert api.get('/finetuning/list', params={'states': 'finished'}).json()['total'] == 1
    assert api.post(f'/finetuning/stop/{run.id}').json()['state'] == 'finished'
    assert api.delete(f'/finetuning/delete/{run.id}').json()['freed_bytes'] > 0
    refused(api.get(f'/finetuning/status/{run.id}'), 404)


def test_what_is_in_use_is_not_deleted(open_studio: Open) -> None:
    """Case F4: a running job stays; the tasks it uses may go, it has its own copies."""
    studio = open_studio('--hold', 'training')
    run = new_run(studio)
    api = TestClient(build(studio))
    api.post(f'/finetuning/start/{run.id}')
    assert refused(api.delete(f'/finetuning/delete/{run.id}'), 409)['code'] == 'still_active'
    [first, _] = studio.runs.tasks(run.id)
    assert api.delete(f'/doc/delete/{first.id}').status_code == 200
    assert studio.runs.task(run.id, first.id).title == first.title
    assert api.post(f'/finetuning/stop/{run.id}').json()['stopping'] is True
    assert ended(studio, run.id).state == 'stopped'
    with studio.database.read() as session:
        assert session.connection().exec_driver_sql('PRAGMA foreign_key_check').all() == []


def test_missing_numbers_are_empty_cells_and_no_name_is_a_formula() -> None:
    """Case G2."""
    series = {
        'z': Series(steps=(1, 3), values=(0.5, 0.25)),
        'entropy': Series(steps=(2,), values=(1.5,)),
        '=HYPERLINK("x"),\n"y"': Series(steps=(3,), values=(2.0,)),
    }
    assert as_csv(series) == ('step,"\'=HYPERLINK(""x""),\n""y""",entropy,z\n1,,,0.5\n2,,1.5,\n3,2.0,,0.25\n')
    assert as_csv({}) == 'step\n'


def test_models_say_whether_they_support_rl(api: TestClient) -> None:
    models = {model['id']: model for model in api.get('/finetuning/models').json()['data']}
    assert models['starter']['supportsRl'] is True and models['unsloth/Qwen3-0.6B']['supportsRl'] is True


# ---------------------------------------------------------------------------------------------- adapters, proofs


def test_adapters_are_listed_renamed_downloaded_and_deleted(open_studio: Open) -> None:
    """Case G3: an adapter says what it was trained from; a name becomes a harmless file name."""
    studio = open_studio('--steps', '1')
    run = new_run(studio, 'a "quoted"\r\nX-Evil: 1 ../name')
    api = TestClient(build(studio))
    api.post(f'/finetuning/start/{run.id}')
    ended(studio, run.id)
    studio.adapters.keep_up()
    [named] = api.get('/adapter/list').json()['data']
    version = named['versions'][0]
    assert version['run_id'] == run.id and len(version['sha256']) == 64
    got = api.get(f'/adapter/download/{version["id"]}')
    assert got.content[:2] == b'PK' and 'x-evil' not in got.headers
    assert not set('\r\n/\\') & set(got.headers['content-disposition'])
    changed = api.post(f'/adapter/update/{version["id"]}', json={'name': 'Other', 'notes': 'n'}).json()
    assert (changed['name'], changed['notes']) == ('Other', 'n')
    refused(api.post(f'/adapter/update/{version["id"]}', json={'name': ' '}), 400, 'name')
    assert api.delete(f'/adapter/delete/{version["id"]}').status_code == 200
    refused(api.get(f'/adapter/get/{version["id"]}'), 404)


def test_a_certificate_is_made_and_read(api: TestClient, studio: Studio) -> None:
    spec = {'prompt': 'p', 'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx done out.txt'}}}
    solution = {
        'kind': 'reference',
        'steps': [{'tool': 'write_file', 'args': {'path': 'out.txt', 'content': 'done\n'}}],
    }
    body = document(rawTrainingData={'task_spec': spec}, solutions=[solution])
    id = api.post('/doc/create', json=body).json()['data'][0]['id']
    assert api.get(f'/certificate/get/{id}').json() == {'document_id': id, 'state': 'uncertified', 'certificate': None}
    made = api.post(f'/certificate/create/{id}', json={'repeats': 1})
    assert made.status_code == 200, made.text
    assert made.json()['certificate']['probes'] and made.json()['state'] in ('certified', 'failed')
    assert api.get(f'/certificate/get/{id}').json() == made.json()
    refused(api.get('/certificate/get/01K0A7Z9E5T3G8W4R6Q2M1N0PX'), 404)


# ---------------------------------------------------------------------------------------------------- keys, shape


def test_without_a_key_only_while_there_is_none(api: TestClient, studio: Studio) -> None:
    health = api.get('/health').json()
    assert health['access'] == 'open' and 'Make a key in Settings' in health['warning']
    assert api.get('/doc/list').headers['x-rlvr-access'].startswith('open')
    refused(api.get('/doc/list', headers={'x-api-key': 'guessed'}), 401)
    made = studio.keys.create('ci', ['read'])
    assert api.get('/health').json()['access'] == 'key'
    assert refused(api.get('/doc/list'), 401)['code'] == 'no_key'
    for wrong in ('guessed', made.key[:-1] + ('A' if made.key[-1] != 'A' else 'B'), made.key + 'A', made.key.lower()):
        assert refused(api.get('/doc/list', headers={'x-api-key': wrong}), 401)['code'] == 'wrong_key'
    assert api.get('/doc/list', headers={'x-api-key': made.key}).headers['x-rlvr-access'] == 'key'
    studio.keys.revoke(made.view.id)
    refused(api.get('/doc/list', headers={'x-api-key': made.key}), 401)
    refused(api.get('/doc/list'), 401)  # a revoked key opens nothing
    studio.keys.remove(made.view.id)
    assert api.get('/doc/list').status_code == 200


ROUTES = [
    ('read', 'GET', '/doc/list'),
    ('read', 'GET', '/finetuning/list'),
    ('read', 'GET', '/finetuning/models'),
    ('read', 'GET', '/adapter/list'),
    ('write', 'POST', '/doc/create'),
    ('write', 'POST', '/doc/update/{id}'),
    ('write', 'DELETE', '/doc/delete/{id}'),
    ('write', 'POST', '/finetuning/create'),
    ('write', 'DELETE', '/finetuning/delete/{id}'),
    ('write', 'POST', '/adapter/update/{id}'),
    ('write', 'DELETE', '/adapter/delete/{id}'),
    ('run', 'POST', '/finetuning/start/{id}'),
    ('run', 'POST', '/finetuning/stop/{id}'),
    ('run', 'POST', '/finetuning/resume/{id}'),
    ('run', 'POST', '/certificate/create/{id}'),
]


def test_a_key_may_do_what_its_scopes_say(api: TestClient, studio: Studio) -> None:
    keys = {scope: studio.keys.create(scope, [scope]).key for scope in ('read', 'write', 'run')}
    run = new_run(studio)
    for scope, method, path in ROUTES:
        path = path.replace('{id}', run.id)
        for name, key in keys.items():
            answer = api.request(method, path, headers={'x-api-key': key}, json=None if method != 'POST' else {'no': 1})
            assert (answer.status_code == 403) == (name != scope), (method, path, name, answer.text)
        refused(api.request(method, path), 401)
    assert studio.documents.count() == 2


def test_every_route_needs_a_scope_and_none_changes_anything_by_get(api: TestClient) -> None:
    for path, methods in api.get('/openapi.json').json()['paths'].items():
        for method, operation in methods.items():
            if path == '/health':
                assert 'security' not in operation
                continue
            scope = operation['x-needed-scope']
            assert operation['security'] == [{'x-api-key': []}]
            assert (method == 'get') == (scope == 'read'), path
            assert operation['responses']['401']['content']['application/json']['schema'] == {
                '$ref': '#/components/schemas/ErrorBody'
            }


@pytest.mark.parametrize(
    ('method', 'path', 'more', 'status', 'code'),
    [
        ('GET', '/doc/nothing', {}, 404, 'not_found'),
        ('GET', '/doc/get/..%2f..%2fetc%2fpasswd', {}, 404, 'not_found'),
        ('GET', '/doc/get/01K0A7Z9E5T3G8W4R6Q2M1N0PX', {}, 404, 'not_found'),
        ('GET', '/finetuning/download/..', {}, 404, 'not_found'),
        ('GET', '/finetuning/status/%00', {}, 404, 'not_found'),
        ('PUT', '/doc/list', {}, 405, 'method_not_allowed'),
        ('POST', '/doc/create', {'content': '{'}, 400, 'bad_json'),
        ('POST', '/doc/create', {'content': '{"data": NaN}'}, 400, 'bad_json'),
        ('POST', '/doc/create', {'content': '{"data": "\\ud800"}'}, 400, 'bad_json'),
        ('POST', '/doc/create', {'content': '[' * 100_000}, 400, 'bad_json'),
        ('POST', '/doc/create', {'content': b'\xff'}, 400, 'bad_json'),
        (
            'POST',
            '/doc/create',
            {'content': '{}', 'headers': {'content-type': 'text/plain'}},
            415,
            'unsupported_media_type',
        ),
        ('POST', '/doc/create', {}, 422, 'invalid'),
        ('GET', '/doc/list?page=0&colour=red', {}, 422, 'invalid'),
    ],
)
def test_every_error_has_one_shape(
    api: TestClient, method: str, path: str, more: dict[str, Any], status: int, code: str
) -> None:
    more = {'headers': {'content-type': 'application/json'}} | more
    answer = api.request(method, path, **more)
    assert refused(answer, status)['code'] == code
    if status == 405:
        assert answer.headers['allow'] == 'GET'


def test_what_breaks_says_nothing_of_the_inside(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError('a secret of the inside')

    monkeypatch.setattr(studio.documents, 'list', broken)
    answer = TestClient(build(studio), raise_server_exceptions=False).get('/doc/list')
    assert refused(answer, 500)['code'] == 'internal' and 'secret' not in answer.text


def test_the_reference_needs_no_network(api: TestClient) -> None:
    page = api.get('/docs').text
    assert 'https://' not in page and 'http://' not in page
    for name in ('swagger-ui-bundle.js', 'swagger-ui.css'):
        assert f'/docs/files/{name}' in page and api.get(f'/docs/files/{name}').status_code == 200
    schema = api.get('/openapi.json').json()
    assert set(schema['components']['securitySchemes']) == {'x-api-key'}
    spec = schema['components']['schemas']['TrainingData']['properties']['task_spec']
    assert {'prompt', 'checker'} <= set(spec['properties'])
    assert all('/_nicegui' not in path and path != '/' for path in schema['paths'])


def test_keys_are_nowhere_in_the_data_folder(studio: Studio) -> None:
    made = studio.keys.create('ci', ['read', 'run'])
    assert studio.keys.check(made.key) is not None
    secret = made.key.rpartition('_')[2].encode()
    files = [path for path in Path(studio.settings.home).rglob('*') if path.is_file()]
    assert files and not [path for path in files if secret in path.read_bytes()]
    assert made.key not in repr(studio.keys.list())
