"""Documents: nothing typed is lost, nothing valid changes afterwards, no tab overwrites another in silence."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from stand_in import SPEC, task

from studio.documents import samples
from studio.documents.certificates import Certificates
from studio.documents.service import Conflict, DocumentQuery, Documents, NotFound
from studio.settings import Settings
from studio.store.database import Database
from trainer.certify import Certificate, evidence_hash
from trainer.errors import TaskError
from trainer.manifest import read_manifest, write_manifest

BRACES = 'Reply with {"answer": 1}. Keep {{name}} and {% if x %} and 100% and $HOME as they are.\r\n\tЖ 🔄'


def test_a_blank_document_is_a_draft_that_says_what_it_needs(documents: Documents) -> None:
    view = documents.create()
    assert (view.status, view.version, view.title, view.type, view.scope) == ('draft', None, '', 'rlTask', 'training')
    assert {problem.loc for problem in view.problems} == {'prompt', 'checker.config.command'}


def test_a_prompt_is_the_same_everywhere_byte_for_byte(documents: Documents, tmp_path: Path) -> None:
    """Case A1."""
    view = documents.create(raw={**SPEC, 'prompt': BRACES}, title='Braces', status='published')
    assert documents.get(view.id).draft['prompt'] == BRACES
    (frozen,) = documents.published([view.id])
    write_manifest(tmp_path / 'manifest.jsonl', [frozen])
    assert read_manifest(tmp_path / 'manifest.jsonl')[0].task_spec.prompt == BRACES
    assert documents.tasks([view.id])[0].task_spec.prompt == BRACES
    assert documents.list(DocumentQuery(search='{{name}} 100%')).total == 1


@pytest.mark.parametrize(
    'title', ['math/gsm8k hard: v2', '..', 'CON', 'задача 🚀', 'Foo', 'foo', 'foo bar', 'foo-bar', '=1+1', 'a' * 200]
)
def test_titles_are_free_text(documents: Documents, title: str) -> None:
    """Case A5."""
    view = documents.create(task(), title=title, status='published')
    assert documents.get(view.id).title == title


@pytest.mark.parametrize('title', ['a' * 300, 'nul\0', 'half \ud83d'])
def test_titles_that_cannot_be_kept_are_refused(documents: Documents, title: str) -> None:
    with pytest.raises(TaskError) as refused:
        documents.create(title=title)
    assert [field.loc for field in refused.value.fields] == ['title']
    assert documents.list().total == 0


@pytest.mark.parametrize('title', ['', '  ', '\n'])
def test_publishing_needs_a_title(documents: Documents, title: str) -> None:
    draft = documents.create(raw=SPEC, title=title)
    with pytest.raises(TaskError, match='title'):
        documents.publish(draft.id, revision=draft.revision)
    assert documents.get(draft.id).status == 'draft'


def test_refused_input_names_its_field_and_stores_nothing(documents: Documents) -> None:
    spec = {**SPEC, 'setup_files': {'../out.txt': ''}, 'promt': 'x'}
    with pytest.raises(TaskError) as refused:
        documents.create(raw=spec, title='Bad', status='published')
    assert {'setup_files', 'promt'} <= {field.loc for field in refused.value.fields}
    assert documents.list().total == 0


def test_an_invalid_draft_is_kept_as_typed_and_the_version_stays(documents: Documents) -> None:
    view = documents.create(task())
    typed = {**view.draft, 'prompt': '', 'checker': {'type': 'pytset'}, 'later': [1, {'a': None}]}
    saved = documents.save_draft(view.id, typed, revision=view.revision)
    assert saved.draft == typed
    assert saved.problems
    assert (saved.version, saved.hash, saved.task_spec) == (1, view.hash, view.task_spec)


def test_every_changed_valid_spec_is_a_version_of_its_own(documents: Documents) -> None:
    view = documents.create(task())
    second = documents.save_draft(view.id, {**view.draft, 'prompt': 'Another'}, revision=view.revision)
    back = documents.save_draft(view.id, view.draft, revision=second.revision)
    assert [version.number for version in documents.versions(view.id)] == [3, 2, 1]
    assert [version.task_spec.prompt for version in documents.versions(view.id)][1] == 'Another'
    assert (back.hash, back.version) == (view.hash, 3)


def test_saving_what_is_there_changes_nothing(documents: Documents) -> None:
    view = documents.create(task())
    again = documents.save_draft(view.id, dict(view.draft), revision=view.revision)
    assert (again.revision, again.updated_at, again.version) == (view.revision, view.updated_at, 1)


def test_a_clamp_is_said(documents: Documents) -> None:
    view = documents.create(raw={**SPEC, 'max_steps': 99}, title='Long')
    assert view.task_spec is not None and view.task_spec.max_steps == 64
    assert [remark.loc for remark in view.remarks] == ['max_steps']


def test_the_second_tab_is_told_and_gets_what_is_there(documents: Documents) -> None:
    view = documents.create(task())
    first = documents.save_draft(view.id, {**view.draft, 'prompt': 'Mine'}, revision=view.revision)
    for change in (
        lambda: documents.save_draft(view.id, {**view.draft, 'prompt': 'Yours'}, revision=view.revision),
        lambda: documents.update(view.id, notes='x', revision=view.revision),
        lambda: documents.publish(view.id, revision=view.revision),
    ):
        with pytest.raises(Conflict) as conflict:
            change()
        assert conflict.value.stored == first
    assert documents.get(view.id) == first


def test_of_twenty_parallel_saves_one_wins(documents: Documents) -> None:
    view = documents.create(task())

    def save(number: int) -> int | None:
        try:
            documents.save_draft(view.id, {**view.draft, 'prompt': f'Version {number}'}, revision=view.revision)
        except Conflict:
            return None
        return number

    with ThreadPoolExecutor(20) as pool:
        winners = [number for number in pool.map(save, range(20)) if number is not None]
    assert len(winners) == 1
    assert documents.get(view.id).draft['prompt'] == f'Version {winners[0]}'


EDITS: dict[str, dict[str, Any]] = {
    'one number': {'checker': {'type': 'pytest', 'config': {'test_paths': ['test_add.py'], 'timeout_s': 9.0}}},
    'one more file': {'setup_files': {**SPEC['setup_files'], 'b.txt': 'b'}},
    'a renamed file': {'setup_files': {'test_sum.py': SPEC['setup_files']['test_add.py']}},
    'no file left': {'setup_files': {}},
}


@pytest.mark.parametrize('edit', EDITS.values(), ids=EDITS.keys())
def test_a_nested_edit_survives_a_restart(tmp_path: Path, edit: dict[str, Any]) -> None:
    """Case F3."""
    url = f'sqlite:///{tmp_path / "x.db"}'
    database = Database(url)
    database.migrate()
    view = Documents(database).create(task())
    saved = Documents(database).save_draft(view.id, view.draft | edit, revision=view.revision)
    database.close()
    reopened = Database(url)
    read = Documents(reopened).get(view.id)
    reopened.close()
    assert read == saved
    assert read.draft == view.draft | edit
    assert read.updated_at > view.updated_at


def test_what_lies_beside_the_spec_makes_no_version(documents: Documents) -> None:
    view = documents.create(task())
    solution = {'kind': 'reference', 'steps': [{'tool': 'run_command', 'args': {'command': 'ls'}}]}
    saved = documents.update(view.id, topics=['b', ' a ', 'b'], notes='n', solutions=[solution], revision=view.revision)
    assert (saved.topics, saved.notes, saved.version) == (('b', 'a'), 'n', 1)
    assert saved.solutions[0].steps[0].args == {'command': 'ls'}
    with pytest.raises(TaskError) as refused:
        documents.update(view.id, solutions=[solution, {'kind': 'good'}], revision=saved.revision)
    assert refused.value.fields[0].loc == 'solutions.1.kind'
    assert documents.get(view.id) == saved


def test_deleted_is_gone_until_it_is_restored_whole(documents: Documents) -> None:
    view = documents.create(task(), topics=['t'])
    documents.delete(view.id)
    assert documents.list().total == 0
    with pytest.raises(NotFound):
        documents.get(view.id)
    back = documents.restore(view.id)
    assert back.model_copy(update={'revision': view.revision}) == view
    assert len(documents.versions(view.id)) == 1


def test_a_duplicate_has_its_own_history(documents: Documents) -> None:
    view = documents.create(task(), title='x' * 200, status='published')
    copy = documents.duplicate(view.id)
    assert (copy.status, copy.version, copy.hash, copy.draft) == ('draft', 1, view.hash, view.draft)
    assert copy.title.endswith('(copy)') and len(copy.title) <= 200


def test_lists_search_filter_sort_and_page(documents: Documents) -> None:
    for number in range(5):
        documents.create(task(number), title=f'Übung {number}', topics=['math', 'Ä'], status='published')
    other = documents.create(raw={'prompt': 'Zeige #math', 'checker': {'type': 'script'}}, title='100% skript')
    assert documents.list(DocumentQuery(search='übung TEST_ADD')).total == 5
    assert documents.list(DocumentQuery(search='100%')).rows[0].id == other.id
    assert documents.list(DocumentQuery(search='10_%')).total == 0
    assert documents.list(DocumentQuery(topics=('MATH',))).total == 5
    assert documents.list(DocumentQuery(checker='script')).total == 1
    page = documents.list(DocumentQuery(status='published', sort='title', descending=False, page=2, per_page=2))
    assert [row.title for row in page.rows] == ['Übung 2', 'Übung 3']
    assert (page.total, page.counts) == (5, {'draft': 1, 'published': 5})
    assert documents.topics() == {'math': 5, 'Ä': 5}


@pytest.mark.parametrize(
    ('typed', 'found'),
    [
        ('pag', 'Fix paginate()'), ('AGINAT', 'Fix paginate()'), ('paginate fix', 'Fix paginate()'), ('fix menu', None),
        ('café', 'Menu'), ('CAFE', 'Menu'), ('strasse', 'Menu'), ('漢', '漢字'), ('字', '漢字'), ('网', None),
        ('8S', 'k8s'), ('src/app.py', 'k8s'), ('sort -u', 'k8s'), ('nètwork', 'k8s'),
    ],
)  # fmt: skip
def test_what_is_typed_is_found_anywhere_without_case_or_accents(
    documents: Documents, typed: str, found: str | None
) -> None:
    documents.create(title='Fix paginate()')
    documents.create(title='Menu', raw={'prompt': 'Ein Cafe\u0301 in der Hauptstraße'})
    documents.create(title='漢字')
    files = {**SPEC, 'setup_files': {'src/app.py': 'secret'}, 'setup_commands': ['sort -u x']}
    documents.create(title='k8s', raw=files, topics=['Network'])
    assert [row.title for row in documents.list(DocumentQuery(search=typed)).rows] == ([found] if found else [])
    assert documents.list(DocumentQuery(search='secret')).total == 0, 'what is in files is not looked at'


@pytest.mark.parametrize(
    'typed',
    ['"', '""', '" OR "', "'; DROP TABLE document; --", 'a AND', 'NOT', 'NEAR(a b)', 'text:x', '*', 'abc*', '^abc', '(',
     '{', 'a -b', '\0', 'ab\0cd', '\ud83d', '\x1f', '%', '_', '\\', 'x' * 100_000, 'a ' * 50_000, 'abc ' * 50_000],
    ids=lambda typed: ascii(typed)[:12],
)  # fmt: skip
def test_no_text_is_a_faulty_search(documents: Documents, typed: str) -> None:
    documents.create(title='Something else')
    assert documents.list(DocumentQuery(search=typed, topics=(typed,), without_topics=(typed,))).total == 0
    assert documents.ids(DocumentQuery(search=typed)) is not None


def test_filters_by_topics_and_certificates_are_exact(documents: Documents, database: Database) -> None:
    certificates = Certificates(database, Settings(home=Path('unused')))
    ids = {}
    for number, (title, topics) in enumerate(
        {'certified': ('a', 'b'), 'failed': ('a',), 'stale': ('ab',), 'solved': ('b',), 'uncertified': ()}.items()
    ):
        view = documents.create(task(number), title=title, topics=topics)
        ids[title] = view.id
        if title != 'uncertified':
            state: Any = 'failed' if title == 'failed' else 'certified'
            certificates.keep(
                Certificate(
                    state=state, hash=view.hash, evidence=evidence_hash(()), probes=(), isolation='bubblewrap',
                    created_at=datetime.now(UTC), duration_ms=1,
                )
            )  # fmt: skip
    stale, solved = documents.get(ids['stale']), documents.get(ids['solved'])
    documents.save_draft(stale.id, {**stale.draft, 'prompt': 'Another'}, revision=stale.revision)
    solution = {'kind': 'reference', 'steps': [{'tool': 'read_file', 'args': {'path': 'a'}}]}
    documents.update(solved.id, solutions=[solution], revision=solved.revision)

    def titles(**query: Any) -> set[str]:
        return {row.title for row in documents.list(DocumentQuery(**query)).rows}

    assert titles(certificate='stale') == {'stale', 'solved'}
    for state in ('certified', 'failed', 'uncertified'):
        assert titles(certificate=state) == {state}
        page = documents.list(DocumentQuery(certificate=state))
        assert (page.total, page.counts, page.rows[0].certificate) == (1, {'draft': 1, 'published': 0}, state)
        assert certificates.state(ids[state]) == state
    assert titles(topics=('a',)) == {'certified', 'failed'}
    assert titles(topics=('a', 'b')) == {'certified'}
    assert titles(topics=('b',), without_topics=('a',)) == {'solved'}
    assert titles(without_topics=('a', 'b')) == {'stale', 'uncertified'}
    assert documents.ids(DocumentQuery(topics=('a',), sort='title', descending=False, per_page=1)) == (
        ids['certified'], ids['failed']
    )  # fmt: skip


def test_only_published_tasks_are_frozen_for_a_run(documents: Documents) -> None:
    published = documents.create(task(1), status='published')
    draft = documents.create(task(2))
    (frozen,) = documents.published()
    assert (frozen.id, frozen.version, frozen.hash) == (published.id, 1, published.hash)
    with pytest.raises(TaskError) as refused:
        documents.published([published.id, draft.id])
    assert draft.id in refused.value.fields[0].msg
    documents.save_draft(published.id, {**published.draft, 'prompt': ''}, revision=published.revision)
    assert documents.published() == (frozen,), 'an invalid draft leaves the last version in use'


def test_the_tutorial_is_loaded_once(documents: Documents) -> None:
    first = samples.load_tutorial(documents)
    assert samples.load_tutorial(documents) == first
    train, held_out = first
    assert documents.list(DocumentQuery(topics=(samples.TUTORIAL,))).total >= len(train)
    assert {task.id for task in documents.published()} == {*train, *held_out}
