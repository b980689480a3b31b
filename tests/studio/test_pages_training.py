"""The training pages without a browser: what they show of a run, what they refuse, and what they read at a tick."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nicegui.testing import User
from stand_in import ended

from studio.documents.samples import load_tutorial
from studio.launchers import LocalLauncher
from studio.runs.views import Bars, RunView
from studio.services import Studio
from studio.settings import Settings
from studio.ui.components.charts import View
from studio.ui.components.transcript import diff_lines, spoken
from studio.ui.components.wording import ago, duration, signed, size
from studio.ui.pages.launch_form import changed_settings, read_packages
from studio.ui.pages.launch_tasks import TaskChoice
from studio.ui.pages.run_parts import advice, conditions
from studio.ui.pages.run_reading import Reader, token_limit
from trainer.config import Settings as RunSettings
from trainer.recording import ToolRecord, Turn

LEARNER = Path(__file__).with_name('learner.py')
HOSTILE = '</script><img src=x onerror="document.title=\'pwned\'">'


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a finished, a failed and a waiting-to-start run, made once."""
    folder = tmp_path_factory.mktemp('home')
    launcher = LocalLauncher((sys.executable, str(LEARNER)))
    studio = Studio(Settings(home=folder), launcher=launcher)
    studio.start()
    train, held_out = load_tutorial(studio.documents)
    for name in (f'quick {HOSTILE}', 'quick fail'):
        run = studio.runs.create(name, 'starter', {'rl': {'entropyCoef': 0.1}}, train[:6], held_out[:4])
        studio.runs.start(run.id)
        ended(studio, run.id)
    studio.runs.create('not started', 'starter', {}, train[:6])
    studio.stop()
    return folder


@pytest.fixture
def studio(home: Path) -> Iterator[Studio]:
    opened = Studio(Settings(home=home))
    yield opened
    opened.stop()


async def see(user: User, text: str) -> None:
    """Wait for a text: pages draw their frame first and read the store after."""
    await user.should_see(text, retries=60)


def run_named(studio: Studio, word: str) -> RunView:
    return next(run for run in studio.runs.list().rows if word in run.name)


async def test_a_finished_run_shows_its_gain_and_its_groups(user: User, studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    await user.open(f'/runs/{run.id}')
    await see(user, run.name)
    await see(user, '12 of 12')
    await see(user, 'Held-out success')
    await see(user, 'Finished')
    await see(user, 'Download adapter')
    await see(user, 'frac_reward_zero_std')


async def test_a_failed_run_says_the_cause_the_last_lines_and_what_to_do(user: User, studio: Studio) -> None:
    await user.open(f'/runs/{run_named(studio, "fail").id}')
    await see(user, 'likely out of memory')
    await see(user, 'Lower numGenerations or maxCompletionLength')
    await see(user, 'step 12 done')


async def test_a_run_that_is_not_there_is_said_so(user: User) -> None:
    await user.open('/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV')
    await see(user, 'There is no run')


async def test_the_list_of_runs_filters_by_its_address(user: User, studio: Studio) -> None:
    await user.open('/runs')
    for word in ('Not started', 'Finished', 'Failed'):
        await see(user, word)
    await user.open('/runs?search=fail')
    await see(user, 'quick fail')
    await user.should_not_see('not started')


async def test_a_rollout_is_readable_turn_by_turn(user: User, studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    row = next(row for row in studio.runs.rollouts(run.id, outcome='passed') if row.index == 0)
    await user.open(f'/runs/{run.id}/rollouts/{row.id}')
    for text in ('Group of 8', 'Model, turn 1', 'run_command', 'exit 1', '402 ms', 'Passed 1.00', 'src/paginate.py'):
        await see(user, text)
    await see(user, 'the model answered without a tool call')
    await see(user, 'of 384 tokens')
    await user.open(f'/runs/{run.id}/rollouts/999999')
    await see(user, 'There is no rollout')


async def test_an_error_has_no_number(user: User, studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    row = studio.runs.rollouts(run.id, outcome='error')[0]
    await user.open(f'/runs/{run.id}/rollouts/{row.id}')
    await user.should_see('Error – excluded')  # noqa: RUF001
    await see(user, 'Nothing is counted for or against the model.')
    await see(user, 'The checker hit its 30 s limit')


async def test_rollouts_are_found_by_what_the_address_asks_for(user: User, studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    await user.open(f'/runs/{run.id}/rollouts')
    await see(user, '384')
    await see(user, '1 to 40 of 384')
    await user.open(f'/runs/{run.id}/rollouts?outcome=error&ending=unreadable_tool_call')
    await see(user, '1 to 1 of 1')
    await see(user, 'unreadable tool call')
    await user.open(f'/runs/{run.id}/rollouts?text=nothing-like-it&low=abc&outcome=wrong')
    await see(user, 'No rollout fits')
    await user.open('/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/rollouts')
    await see(user, 'There is no run')


async def test_adapters_show_where_they_come_from(user: User, studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    await user.open(f'/adapters?run={run.id}')
    for text in (run.name, 'LoRA rank 16', 'Lineage', '6 tasks, 4 held out', 'adapter_model.safetensors', '1.8 MB'):
        await see(user, text)
    for text in ('Held-out success', 'Try it', 'Not proven', 'Its run recorded nothing to compare with', 'Notes'):
        await see(user, text)
    version = studio.adapters.find(run.id)
    await user.open(f'/adapters/{version.id}')
    await see(user, version.label)
    await user.open('/adapters/01ARZ3NDEKTSV4RRFFQ69G5FAV')
    await see(user, 'There is no such adapter')
    await user.open(f'/adapters/{version.id}/compare/{version.id}')
    await see(user, 'Nothing that is recorded.')


async def test_the_launch_page_plans_before_anything_starts(user: User, studio: Studio) -> None:
    await user.open('/train')
    await see(user, '32 selected')
    await see(user, 'Per step')
    await see(user, '32, 16 held out')
    await see(user, 'learning rate ≤ 0.002')
    assert len(studio.runs.list().rows) == 3


async def test_a_copied_run_brings_its_settings_and_tasks(user: User, studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    await user.open(f'/train?copy={run.id}')
    await see(user, '6 selected')
    await see(user, '1 changed from defaults')


def test_a_reader_reads_each_thing_once(studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    reader = Reader(studio, run.id)
    first, second = reader.read(), reader.read()
    assert first.lines is not None and second.lines is None
    assert len(first.lines['entropy'][0]) == 12
    assert first.heat is not None and first.heat.total == 6 and second.heat is None
    assert first.events and not second.events
    assert 'step 12 done' in first.log and second.log == ''
    assert second.columns['entropy'][0] == [12], 'only the newest step is asked for again'
    assert token_limit(studio, run) == 384


def test_a_log_is_read_in_whole_lines_and_progress_bars_as_their_last_state(studio: Studio, tmp_path: Path) -> None:
    reader = Reader(studio, 'none')
    log = tmp_path / 'trainer.log'
    log.write_bytes(b'10%\r50%\r100%\nhalf a li')
    assert reader._log(log, final=False) == '100%\n'
    with log.open('ab') as file:
        file.write(b'ne\n' + b'x' * 200_000 + b'\nlast \xff\n')
    assert reader._log(log, final=False) == 'last \ufffd\n', 'only the tail of what is long is read'


def test_a_range_of_a_long_run_is_read_finer_and_forgotten_with_the_zoom(studio: Studio) -> None:
    run = run_named(studio, HOSTILE)
    reader = Reader(studio, run.id)
    reader.read()
    zoomed = View(mode='free', smooth=False, range=(3.2, 8.9))
    assert not reader.look_at(zoomed), 'every point of a short run is drawn'
    reader.window, reader.last_step = None, 100_000
    assert reader.look_at(zoomed) and reader.window == (3, 9)
    lines = reader.read().lines
    assert lines is not None and lines['entropy'][0] == list(range(1, 13))
    reader.last_step = 100_000
    assert reader.look_at(View(mode='full', smooth=False)) and reader.window is None


def test_a_range_named_while_the_first_look_is_under_way_is_read_finer(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A page that is reloaded while zoomed says its range as soon as it stands, which may be in the middle of a look.
    run = run_named(studio, HOSTILE)
    reader = Reader(studio, run.id)
    bars, firsts = studio.runs.bars, []

    def zoomed_meanwhile(run_id: str, *args: Any, **limits: Any) -> Bars:
        firsts.append(limits.get('first'))
        reader.look_at(View(mode='free', smooth=False, range=(3.2, 8.9)))
        return bars(run_id, *args, **limits)

    monkeypatch.setattr(studio.runs, 'bars', zoomed_meanwhile)
    assert reader.read().lines is not None
    assert reader.read().lines is not None, 'the history is read again, with the range'
    assert reader.read().lines is None, 'and once'
    assert firsts == [None, 3]


def test_silence_is_said_first(studio: Studio) -> None:
    run = run_named(studio, 'fail')
    living = run.model_copy(update={'state': 'training', 'silent_s': 90.0, 'last_line': 'loading weights'})
    (found, *_) = conditions(living, {}, {}, None)
    assert found.title == 'No sign of life for 1 min 30 s'
    assert 'loading weights' in found.text


def test_a_run_that_has_not_begun_says_what_it_waits_for(studio: Studio) -> None:
    run = run_named(studio, 'fail').model_copy(update={'state': 'queued', 'queued_at': None, 'started_at': None})
    (draft,) = conditions(run, {}, {}, None)
    assert draft.title == 'Not started'
    queued = run.model_copy(update={'queued_at': run.created_at, 'reason': 'Waits for "first" to end'})
    (waits,) = conditions(queued, {}, {}, None)
    assert waits.title == 'Waits for "first" to end'


@pytest.mark.parametrize(
    ('reason', 'words'),
    [
        ('killed by SIGKILL, likely out of memory', 'Lower numGenerations'),
        ('error share 0.4 over the last 5 steps', 'hatched cell'),
        ('pip could not install pandas', 'pipPackages'),
        ('the process is gone and left no exit code', 'switched off'),
        ('exit code 3', 'last lines of its log'),
    ],
)
def test_each_cause_has_its_advice(reason: str, words: str) -> None:
    assert words in advice(reason)


def test_packages_are_judged_one_by_one() -> None:
    good, bad, reasons = read_packages(['requests>=2.31  # why', 'pandas=2.2', 'git+https://e.invalid/a.git', ''])
    assert good == ['requests>=2.31']
    assert bad == ['pandas=2.2', 'git+https://e.invalid/a.git']
    assert 'pandas==2.2' in reasons[0] and 'only packages by name' in reasons[1]


def test_copied_settings_are_those_that_differ() -> None:
    settings = RunSettings.model_validate({'rl': {'numGenerations': 4, 'enabled': True}, 'epochs': 2.0})
    flat = changed_settings(settings.model_dump(mode='json', by_alias=True))
    assert flat == {'epochs': 2.0, 'numGenerations': 4}


def test_held_out_tasks_are_kept_out_of_training(studio: Studio) -> None:
    rows = studio.documents.list().rows
    choice = TaskChoice(rows, None, None)
    assert len(choice.train) == 32 and len(choice.held_out) == 16
    moved = choice.held_out_ids[0]
    choice.put(moved, 'train')
    assert moved not in choice.held_out and moved in choice.train
    assert not choice.train & choice.held_out
    assert TaskChoice(rows, ['gone', rows[0].id], None).train == {rows[0].id}


def test_what_the_model_said_is_apart_from_its_calls() -> None:
    call = ToolRecord(name='read_file', args={'path': 'a'})
    turn = Turn(text='I look.\n<tool_call>\n{"name": "read_file"}\n</tool_call><|im_end|>', calls=(call,))
    assert spoken(turn) == 'I look.'
    broken = Turn(text='<tool_call>\n{"name": ', unreadable=True)
    assert spoken(broken) == '<tool_call>\n{"name":'


def test_a_diff_is_lines_with_their_kind() -> None:
    lines = diff_lines('--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n')
    assert [kind for kind, _ in lines] == ['h', 'd', 'a', '']


def test_words_for_numbers() -> None:
    assert [duration(value) for value in (None, 5, 200, 2400, 4320, 100_000)] == [
        '–', '5 s', '3 min 20 s', '40 min', '1 h 12 min', '1 d 3 h',  # noqa: RUF001
    ]  # fmt: skip
    assert size(1900) == '1.9 kB' and size(18_400_000) == '18.4 MB'
    assert signed(-0.5) == '−0.50' and signed(0.25) == '+0.25'  # noqa: RUF001
    assert signed(0.0) == signed(-0.004) == '0.00'
    assert ago(None) == '–'  # noqa: RUF001
