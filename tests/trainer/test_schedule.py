"""The order of tasks and the memory of how groups ended."""

from trainer.schedule import Outcomes, order, teaches

IDS = ['a', 'b', 'c', 'd', 'e']


def test_every_task_comes_once_before_any_comes_again() -> None:
    places = order(IDS, 23, seed=1)
    for start in range(0, 20, 5):
        assert sorted(places[start : start + 5]) == IDS
    assert places[:5] != places[5:10]


def test_more_steps_only_add_to_the_order() -> None:
    assert order(IDS, 40, seed=3)[:17] == order(IDS, 17, seed=3)
    assert order(IDS, 17, seed=3) != order(IDS, 17, seed=4)


def test_a_group_teaches_when_attempts_differ() -> None:
    assert teaches([0.0, 1.0, None])
    assert not teaches([1.0, 1.0, None])
    assert not teaches([None, None])
    assert not teaches([1.0])
    assert not teaches([])


def test_what_promises_most_comes_first() -> None:
    outcomes = Outcomes()
    outcomes.note('solved', [1.0, 1.0])
    outcomes.note('mixed', [0.0, 1.0])
    outcomes.note('hopeless', [0.0, 0.0])
    outcomes.note('broken', [None, None])
    ids = ['solved', 'hopeless', 'new', 'broken', 'mixed']
    assert outcomes.most_teaching(ids) == ['mixed', 'new', 'broken', 'solved', 'hopeless']


def test_tasks_are_solved_when_every_last_attempt_was() -> None:
    outcomes = Outcomes()
    outcomes.note('a', [1.0, 1.0, None])
    assert outcomes.all_solved(['a'])
    assert not outcomes.all_solved(['a', 'never tried'])
    outcomes.note('a', [1.0, 0.5])
    assert not outcomes.all_solved(['a'])
    assert Outcomes(outcomes.last).last == {'a': (0.5, 1.0)}
