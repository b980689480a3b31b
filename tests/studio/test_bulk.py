"""Changes to many documents: what is done is named, what is refused says why, and everything can be taken back."""

from stand_in import SPEC, task

from studio.documents.bulk import AT_ONCE, BulkDocuments
from studio.documents.service import DocumentQuery, Documents
from studio.store.database import Database


def test_what_is_fit_is_published_and_the_rest_says_why(documents: Documents, database: Database) -> None:
    bulk = BulkDocuments(database)
    fit, nameless, broken, published = (
        documents.create(task(1), title='Fit'),
        documents.create(raw=SPEC),
        documents.create(raw={**SPEC, 'prompt': ''}, title='Broken'),
        documents.create(task(2), title='There', status='published'),
    )
    ids = [fit.id, nameless.id, broken.id, published.id, 'gone']
    changes = bulk.publish(ids)
    assert changes.changed == [fit.id]
    assert [(one.id, 'title' in one.reason) for one in changes.refused] == [(nameless.id, True), (broken.id, False)]
    assert documents.get(fit.id).revision == fit.revision + 1
    assert bulk.unpublish(changes.changed).changed == [fit.id]
    assert documents.list().counts == {'draft': 3, 'published': 1}


def test_topics_are_added_taken_away_and_put_back(documents: Documents, database: Database) -> None:
    bulk = BulkDocuments(database)
    ids = [documents.create(task(n), topics=topics).id for n, topics in enumerate((['a', 'B'], ['b'], []))]
    before = bulk.topics(ids)
    assert bulk.retopic(ids, add=['c ', 'A'], remove=['b']).changed == ids
    assert [documents.get(id).topics for id in ids] == [('a', 'c'), ('c', 'A'), ('c', 'A')]
    assert bulk.retopic(ids, add=['c'], remove=['none']).changed == []
    assert documents.ids(DocumentQuery(search='c', topics=('a',))) == tuple(reversed(ids))
    bulk.set_topics(before)
    assert bulk.topics(ids) == before
    full = documents.create(task(9), title='Full', topics=[str(n) for n in range(50)])
    assert [one.title for one in bulk.retopic([full.id, ids[0]], add=['x']).refused] == ['Full']
    assert documents.get(ids[0]).topics == ('a', 'B', 'x')


def test_thousands_are_put_away_and_come_back_whole(documents: Documents, database: Database) -> None:
    bulk = BulkDocuments(database)
    first = documents.create(task(), title='First')
    copies = [first.id]
    while len(copies) < 40:
        copies += bulk.duplicate(copies[:20]).changed
    ids = [*copies, *(f'gone {n}' for n in range(3 * AT_ONCE))]
    assert sorted(bulk.delete(ids).changed) == sorted(copies)
    assert documents.list().total == 0 and bulk.delete(copies).changed == []
    assert sorted(bulk.restore(ids).changed) == sorted(copies)
    assert documents.get(first.id).draft == first.draft
    assert documents.get(copies[-1]).title.startswith('First (copy)')
    assert bulk.titles(copies[:1]) == {first.id: 'First'}
