"""Charts, heatmap and before/after as pure functions: missing is a gap, long series are thinned, text stays text."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.runs.heat_grid import MAX_COLUMNS, ROWS, Cell, HeatGrid, Row
from studio.runs.records import merged_bars
from studio.runs.series import joined, measured, thinned, with_gaps
from studio.runs.views import BarColumn, Bars
from studio.ui.components.before_after import Share, bars_svg
from studio.ui.components.charts import ChartSpec, LiveChart, Series, append_all, band
from studio.ui.components.heatmap import _difference
from studio.ui.components.plain_text import visible, without_colours
from studio.ui.pages.run_charts import csv_text, table_rows
from studio.ui.pages.run_series import GRADE, NAMES, SPECS, bars_with_grade, others, with_grade

HOSTILE = '</script><img src=x onerror="document.title=\'pwned\'">'

STEPS = st.lists(st.integers(0, 10_000), unique=True, max_size=60).map(sorted)


def test_a_lost_stretch_is_a_gap_and_never_a_zero():
    x, y = with_gaps(([1, 2, 3, 7, 8], [0.1, 0.2, 0.3, 0.7, 0.8]))
    assert x == [1, 2, 3, 5.0, 7, 8]
    assert y == [0.1, 0.2, 0.3, None, 0.7, 0.8]


def test_a_run_that_logs_every_fifth_step_has_no_gaps():
    _, y = with_gaps((list(range(0, 50, 5)), [0.5] * 10))
    assert None not in y


def test_an_addition_after_a_lost_stretch_begins_with_a_gap():
    assert with_gaps(([9], [0.5]), last=5, spacing=1.0) == ([7.0, 9], [None, 0.5])
    assert with_gaps(([6], [0.5]), last=5, spacing=1.0) == ([6], [0.5])


@given(STEPS)
def test_gaps_add_only_nulls_and_keep_every_value(steps: list[int]):
    x, y = with_gaps((steps, [float(step) for step in steps]))
    assert [value for value in y if value is not None] == [float(step) for step in steps]
    assert all(before < after for before, after in pairwise(x))


@given(STEPS, st.integers(1, 20))
def test_thinning_keeps_the_ends_the_spikes_and_every_gap(steps: list[int], buckets: int):
    line = with_gaps((steps, [float(step * 7 % 31) for step in steps]))
    few = thinned(line, buckets)
    assert [x for x, y in zip(*few, strict=True) if y is None] == [x for x, y in zip(*line, strict=True) if y is None]
    if steps:
        assert (few[0][0], few[0][-1]) == (steps[0], steps[-1])
        assert max(measured(few)[1]) == max(measured(line)[1])
        assert min(measured(few)[1]) == min(measured(line)[1])


def test_lines_are_joined_with_a_gap_where_they_are_far_apart():
    assert joined(([1], [0.1]), ([2], [0.2]), reach=1.5) == ([1, 2], [0.1, 0.2])
    assert joined(([1], [0.1]), ([9], [0.2]), reach=1.5) == ([1, 5.0, 9], [0.1, None, 0.2])


def test_the_band_is_known_only_where_mean_and_spread_are():
    steps, low, high = band(([1, 2, 3], [0.5, 0.9, 0.1]), ([1, 3], [0.2, 0.3]))
    assert (steps, low, high) == ([1, 3], [0.3, 0.0], [0.7, 0.4])
    assert band(([1, 2, 4], [0.5, None, 0.5]), ([1, 4], [0.1, 0.1]))[1] == [0.4, None, 0.4]


def test_bars_of_a_long_run_are_merged_into_sums_or_means():
    parts = [(step, 1.0, 1) for step in range(1000)]
    assert merged_bars(parts, 250, sums=True) == BarColumn([0, 1, 2, 3], [250.0] * 4, [250] * 4)
    assert merged_bars(parts, 250, sums=False).values == [1.0] * 4
    assert merged_bars([], 250, sums=True) == BarColumn([], [], [])


def test_what_is_new_goes_out_once_in_one_message(monkeypatch: pytest.MonkeyPatch):
    sent: list[tuple[str, tuple[Any, ...]]] = []
    monkeypatch.setattr(LiveChart, '__init__', lambda self, spec: _bare(self, spec))
    monkeypatch.setattr(LiveChart, 'run_method', lambda self, name, *args: sent.append((name, args)))
    lines = LiveChart(
        ChartSpec(title='a', series=(Series(key='m|s', name='band', kind='band'), Series(key='m', name='m')))
    )
    bars = LiveChart(ChartSpec(title='b', series=(Series(key='e', name='e', kind='bar', sums=True),)))
    lines.load({'m': ([1, 2], [0.5, 0.5]), 's': ([1, 2], [0.1, 0.1])})
    bars.load({}, Bars(4, {'e': BarColumn([0], [2.0], [3])}))
    assert append_all([lines, bars], {'m': ([2, 3], [0.5, 0.6]), 's': ([3], [0.2]), 'e': ([3, 4], [1.0, 2.0])})
    assert append_all([lines, bars], {'m': ([3], [0.6])})
    name, (message,) = sent[-1]
    assert name == 'spread' and len(sent) == 3, 'the second time there was nothing new'
    assert message['x'] == [3] and message['c'][lines.id] == [{'lo': [0.4], 'hi': [0.8]}, {'y': [0.6]}]
    assert message['c'][bars.id] == [{'x': [4], 'y': [2]}], 'step 3 is in the last bar already'


def _bare(chart: LiveChart, spec: ChartSpec) -> None:
    chart.spec, chart.id, chart._ready = spec, 7 + len(spec.series), True


def test_every_series_of_a_run_has_a_chart():
    assert [spec.title for spec in others(('loss', 'groups/extra', 'rollouts'))] == ['groups/extra']
    assert len(NAMES) == len(set(NAMES)) and GRADE not in NAMES


def test_grade_is_tools_and_check_together():
    columns = with_grade({'seconds/tools': ([1, 2], [3.0, 4.0]), 'seconds/check': ([2], [1.0])})
    assert columns[GRADE] == ([1, 2], [3.0, 5.0])
    assert GRADE not in with_grade({'loss': ([1], [0.0])})
    bars = Bars(
        4, {'seconds/tools': BarColumn([0], [3.0], [4]), 'seconds/check': BarColumn([0, 1], [1.0, 2.0], [4, 2])}
    )
    assert bars_with_grade(bars).columns[GRADE] == BarColumn([0, 1], [4.0, 2.0], [4, 2])


def test_a_table_leaves_missing_values_empty():
    columns = {'completions/mean_length': ([1, 2], [10.0, 20.0]), 'completions/clipped_ratio': ([2], [0.5])}
    names, rows = table_rows(SPECS[3], columns)
    assert names == ['step', 'completions/mean_length', 'completions/clipped_ratio']
    assert rows == [['1', '10', ''], ['2', '20', '0.5']]
    assert csv_text(SPECS[3], columns).decode().splitlines()[1] == '1,10,'


def test_the_heatmap_says_what_was_drawn_what_broke_and_what_was_lost():
    grid = HeatGrid({'a': HOSTILE, 'b': 'b'})
    grid.add([Row('a', 1, Cell(8.0, 8, 8, 0)), Row('a', 2, Cell(0.0, 0, 8, 8)), Row('b', 2, Cell(2.0, 4, 8, 4))])
    grid.add([Row('a', 4, Cell(0.0, 8, 8, 0))])
    view = grid.view()
    assert view.cells == ('.d~.', '6e~0')[:: 1 if view.tasks[0] == 'b' else -1]
    assert grid.describe('a', 1) == f'Step 2: {HOSTILE}, nothing scored of 8 attempts, 8 not scored'
    assert grid.describe('b', 0).endswith('not drawn')
    assert grid.newest('a', 0) == 1 and grid.newest('b', 0) is None
    assert grid.recent(2)[HOSTILE] == [None, 0.0]


def test_a_group_that_goes_on_is_one_cell():
    grid = HeatGrid({})
    grid.add([Row('a', 1, Cell(1.0, 2, 2, 0))])
    grid.add([Row('a', 1, Cell(2.0, 2, 2, 0))])
    assert grid.describe('a', 0) == 'Step 1: a, mean reward 0.75 of 4 attempts'


def test_a_thousand_tasks_over_five_thousand_steps_are_paged_and_share_columns():
    grid = HeatGrid({f't{number:04}': f'Task {number:04}' for number in range(1000)})
    grid.add([Row(f't{n * 7 % 1000:04}', n // 8 + 1, Cell(n % 9, 8, 8, 0)) for n in range(40_000)])
    view = grid.view(page=999)
    assert view.used <= MAX_COLUMNS and view.width == 50 and view.found == 1000
    assert view.page == view.pages - 1 and len(view.tasks) == 1000 % ROWS
    assert all(len(letters) == view.used for letters in view.cells)
    found = grid.view(search='task 0012')
    assert found.titles == ('Task 0012',)
    column = next(at for at, letter in enumerate(found.cells[0]) if letter != '.')
    newest = grid.newest('t0012', column)
    assert newest is not None and f'Opens step {newest}' in grid.describe('t0012', column)


@pytest.mark.parametrize(
    ('old', 'new', 'change'), [('..', '..', (2, '')), ('1.2', '152', (1, '5')), ('1', '12', (1, '2'))]
)
def test_only_cells_that_changed_are_sent(old: str, new: str, change: tuple[int, str]):
    assert _difference(old, new) == change


def test_what_a_terminal_would_obey_is_seen():
    assert visible('\x1b[31mred\0 \r\nok\u202etxt') == '\u241b[31mred\u2400 \nok\u27e8U+202E\u27e9txt'
    assert without_colours('\x1b[1;31mred\x1b[0m\x1b]0;title\x07 end') == 'red end'


def test_bars_say_their_numbers_and_cope_with_nothing_measured():
    drawn = bars_svg(Share(0.5, 0.2, 0.8, 4, 8), None)
    assert 'aria-label="before 4 of 8"' in drawn and 'no data' in drawn


def test_a_page_of_the_heatmap_may_be_turned_while_new_groups_are_counted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, counted, failed = HeatGrid({}), [], []

    def count_in() -> None:
        for step in range(400):
            grid.add([Row(task, step, Cell(1.0, 1, 1, 0)) for task in ('one', f'task {step % 40}')])
            counted.append(step)

    writer = threading.Thread(target=count_in)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        while writer.is_alive():
            try:
                view = grid.view()
                assert all(len(cells) == view.used for cells in view.cells)
                grid.recent(3)
            except (RuntimeError, LookupError) as error:
                failed.append(error)
    finally:
        sys.setswitchinterval(before)
        writer.join()
    assert not failed and len(counted) == 400
    assert grid.view().last == 399
