"""Search over rollouts: what is found, what the index survives, and what a hostile record or query does (nothing)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal

import pytest
from stand_in import new_run

from studio.ingest import ingest
from studio.runs.rollout_search import Hits, SearchQuery, excerpt
from studio.services import Studio
from studio.ui.components.transcript import OUTCOMES
from studio.ui.pages.rollouts import RESULTS, read_query
from trainer.events import Evaluating, EventWriter, Resumed, RolloutEvent
from trainer.line_file import LineFile
from trainer.recording import Rollout, ToolRecord, Turn
from trainer.runfolder import RunFolder
from trainer.verdict import Item, Verdict

Open = Callable[..., Studio]
Made = tuple[Studio, str, RunFolder]


def write(
    folder: RunFolder, events: EventWriter, step: int, index: int, said: str, reward: float | None = 1.0,
    stage: Literal['train', 'during'] = 'train',
) -> None:  # fmt: skip
    call = ToolRecord(
        name='run_command', args={'command': 'grep -n café notes.txt'}, result=f'{step}: über', exit_code=0
    )
    verdict = (
        Verdict.not_scored('The checker hit its limit')
        if reward is None
        else Verdict.scored(reward, items=(Item(name='test_page_size', passed=reward == 1.0),))
    )
    ending = 'token_budget' if index == 2 else 'answer'
    record = Rollout(
        step=step, stage=stage, task='a', index=index, prompt='in every prompt', verdict=verdict, ending=ending,
        tokens=10 * index, turns=(Turn(text=said, calls=(call,)), Turn(text='done')),
    )  # fmt: skip
    file = LineFile(folder.rollouts)
    offset = file.append(json.dumps(record.model_dump(mode='json'), ensure_ascii=False).encode())
    file.close()
    events.write(
        RolloutEvent(
            step=step, stage=stage, task='a', index=index, outcome=verdict.outcome, reward=reward, offset=offset
        )
    )


@pytest.fixture
def made(open_studio: Open) -> Made:
    studio = open_studio(watch=False)
    run = new_run(studio)
    folder = studio.runs.folder(run.id)
    with EventWriter(folder.events) as events:
        for step in range(1, 6):
            for index, reward in enumerate((1.0, 0.5, 0.0, None)):
                write(folder, events, step, index, f'I look at the paginator, take {index}. <b>"quoted"</b>', reward)
    ingest(studio.database, run.id, folder)
    return studio, run.id, folder


def find(made: Made, **asked: object) -> Hits:
    studio, run_id, _ = made
    return studio.search.find(run_id, SearchQuery.model_validate(asked), {'a': 'Task A'})


@pytest.mark.parametrize(
    ('asked', 'count'),
    [
        ({}, 20),
        ({'text': 'paginator'}, 20),
        ({'text': 'PAGIN take'}, 20),
        ({'text': '"paginator, take 2"'}, 5),
        ({'text': 'paginator nowhere'}, 0),
        ({'text': 'cafe uber'}, 20),
        ({'text': 'test_page_size'}, 15),
        ({'text': 'hit its limit'}, 5),
        ({'text': 'in every prompt'}, 0),
        ({'text': 'verdict'}, 0),
        ({'outcome': 'error'}, 5),
        ({'outcome': 'partial'}, 5),
        ({'outcome': 'not_passed'}, 10),
        ({'ending': 'token_budget'}, 5),
        ({'low': 0.25, 'high': 0.75}, 5),
        ({'low': 0.0}, 15),
        ({'task': 'b'}, 0),
        ({'stage': 'after'}, 0),
        ({'text': '" OR 1=1 --'}, 0),
        ({'text': '* AND NEAR( ^ : -'}, 0),
        ({'text': '<b>'}, 20),
        ({'text': 'a\0b'}, 0),
    ],
)
def test_what_is_found(made: Made, asked: dict[str, object], count: int) -> None:
    assert find(made, **asked).total == count


def test_hits_come_newest_first_in_pages_and_show_the_place(made: Made) -> None:
    first = find(made, text='paginator', per_page=3)
    assert [(hit.step, hit.index) for hit in first.rows] == [(5, 0), (5, 1), (5, 2)]
    assert first.is_complete and first.total == 20
    second = find(made, text='paginator', per_page=3, page=2)
    assert [(hit.step, hit.index) for hit in second.rows] == [(5, 3), (4, 0), (4, 1)]
    hit = first.rows[2]
    assert (hit.title, hit.ending, hit.tokens, hit.turns, hit.calls) == ('Task A', 'token_budget', 20, 2, 1)
    assert hit.excerpt.startswith('I look at the paginator, take 2')
    studio, run_id, _ = made
    assert studio.runs.rollout(run_id, hit.id).step == 5, 'the id opens the record'


def test_the_evaluation_of_a_step_comes_after_its_groups(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = new_run(studio)
    folder = studio.runs.folder(run.id)
    with EventWriter(folder.events) as events:
        for index in range(2):
            write(folder, events, 1, index, 'measured', stage='during')
            write(folder, events, 1, index, 'trained')
    ingest(studio.database, run.id, folder)
    rows = find((studio, run.id, folder)).rows
    assert [(hit.stage, hit.index) for hit in rows] == [('train', 0), ('train', 1), ('during', 0), ('during', 1)]


def test_the_index_follows_a_live_run_and_what_is_done_again(made: Made) -> None:
    studio, run_id, folder = made
    find(made)
    with EventWriter(folder.events) as events:
        events.write(Resumed(step=3))
        write(folder, events, 4, 0, 'the paginator once more')
    ingest(studio.database, run_id, folder)
    found = find(made, text='paginator')
    assert found.total == 13 and found.is_complete
    assert [hit.excerpt for hit in found.rows if hit.step == 4] == [
        'the paginator once more run_command grep -n café notes.txt 4: über done test_page_size'
    ]
    for index in range(2):  # an evaluation, and once more because the first was cut short
        with EventWriter(folder.events) as events:
            events.write(Evaluating(stage='after', step=4))
            write(folder, events, 4, 0, f'measured {index}', stage='after')
        ingest(studio.database, run_id, folder)
        (hit,) = find(made, text='measured').rows
        assert hit.excerpt.startswith(f'measured {index}')


def test_a_damaged_index_and_damaged_records_hide_nothing(made: Made) -> None:
    _, _, folder = made
    find(made)
    (folder.path / 'search.db').write_bytes(b'no database at all' * 1000)
    assert find(made, text='paginator').total == 20
    lines = folder.rollouts.read_bytes().splitlines(keepends=True)
    folder.rollouts.write_bytes(b'{' + b'x' * (len(lines[0]) - 2) + b'\n' + b''.join(lines[1:]))
    (folder.path / 'search.db').unlink()
    assert find(made).total == 20, 'a record that cannot be read is still a row'
    assert find(made, text='paginator').total == 19
    folder.rollouts.unlink()
    (folder.path / 'search.db').unlink()
    assert find(made, outcome='error').total == 5


def test_a_long_run_is_looked_through_in_slices(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    studio, run_id, _ = made
    monkeypatch.setattr('studio.runs.rollout_search.BATCH', 6)
    first = studio.search.find(run_id, SearchQuery(), {}, seconds=0)
    assert (first.indexed, first.recorded) == (6, 20) and not first.is_complete
    while not studio.search.find(run_id, SearchQuery(), {}, seconds=0).is_complete:
        pass
    assert find(made).total == 20


def test_an_excerpt_is_one_line_around_the_word() -> None:
    assert excerpt('a\n' * 100 + 'the Needle\nhere' + 'b ' * 200, ['needle']).count('\n') == 0
    assert 'Needle' in excerpt('x' * 500 + ' Needle', ['needle'])
    assert excerpt('nothing', ['needle']) == ''


@pytest.mark.parametrize('outcome', ['passed', 'partial', 'failed', 'error', 'not_passed'])
def test_a_filter_is_called_what_the_results_it_finds_are_called(made: Made, outcome: str) -> None:
    query = read_query({'outcome': outcome})
    found = {OUTCOMES[hit.outcome][0] for hit in find(made, outcome=query.outcome).rows}
    assert len(found) == 1 and found.pop().startswith(RESULTS[query.outcome].removesuffix('s'))
