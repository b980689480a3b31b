"""Charts, heatmap and before/after as pure functions: missing is a gap, long series are thinned, text stays text."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from studio.ui.components.before_after import Share, bars_svg
from studio.ui.components.charts import band, binned, with_gaps
from studio.ui.components.heatmap import MAX_COLUMNS, Columns, HeatCell, HeatRow, axis_html, describe, names_html, svg
from studio.ui.pages.run_charts import GRADE, SPECS, csv_text, table_rows, with_grade

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


def test_the_band_is_known_only_where_mean_and_spread_are():
    steps, low, high = band(([1, 2, 3], [0.5, 0.9, 0.1]), ([1, 3], [0.2, 0.3]))
    assert steps == [1, 3]
    assert [round(value, 6) for value in low] == [0.3, 0.0]
    assert [round(value, 6) for value in high] == [0.7, 0.4]


def test_bars_of_a_long_run_are_merged_and_errors_are_summed():
    column = (list(range(1, 1001)), [1.0] * 1000)
    steps, values, width = binned(column, 300, total=True)
    assert width == 4 and len(steps) == 250
    assert sum(values) == 1000
    assert binned(column, 300)[1] == [1.0] * 250
    assert binned(([], []), 300) == ([], [], 1)


def test_grade_is_tools_and_check_together():
    columns = with_grade({'seconds/tools': ([1, 2], [3.0, 4.0]), 'seconds/check': ([2], [1.0])})
    assert columns[GRADE] == ([1, 2], [3.0, 5.0])
    assert GRADE not in with_grade({'loss': ([1], [0.0])})


def test_a_table_leaves_missing_values_empty():
    columns = {'completions/mean_length': ([1, 2], [10.0, 20.0]), 'completions/clipped_ratio': ([2], [0.5])}
    names, rows = table_rows(SPECS[3], columns)
    assert names == ['step', 'completions/mean_length', 'completions/clipped_ratio']
    assert rows == [['1', '10', ''], ['2', '20', '0.5']]
    assert csv_text(SPECS[3], columns).decode().splitlines()[1] == '1,10,'


def test_the_heatmap_escapes_titles_and_marks_groups_without_a_score():
    row = HeatRow(task='a', title=HOSTILE, cells={1: HeatCell(mean=1.0, n=8), 2: HeatCell(mean=None, errors=8, n=8)})
    columns = Columns.of([row])
    assert '<img' not in names_html([row])
    drawn = svg([row], columns)
    assert 'class="l6"' in drawn and 'class="err"' in drawn
    assert describe(row, 2) == f'Step 2: {HOSTILE}, nothing scored of 8 attempts, 8 not scored'
    assert describe(row, None).endswith('not drawn')


def test_a_long_run_shares_columns_and_opens_the_newest_group():
    row = HeatRow(task='a', title='a', cells={step: HeatCell(mean=0.5, n=8) for step in range(1, 1001)})
    columns = Columns.of([row])
    assert columns.used <= MAX_COLUMNS
    assert columns.newest(row, columns.used - 1) == 1000
    assert columns.newest(row, 0) == columns.width
    assert len(svg([row] * 60, columns)) < 150_000
    assert len(axis_html(columns)) < 5_000


def test_bars_say_their_numbers_and_cope_with_nothing_measured():
    drawn = bars_svg(Share(0.5, 0.2, 0.8, 4, 8), None)
    assert 'aria-label="before 4 of 8"' in drawn and 'no data' in drawn
