"""Run health (cases D3 A to D): what is warned about, with which setting, and what is left alone."""

from hypothesis import given
from hypothesis import strategies as st

from studio.runs.health import WATCHED, Condition, conditions


def rows(count: int = 5, **values: float | list[float]) -> dict[str, tuple[list[int], list[float]]]:
    names = {
        'reward': 'rewards/TfcodeEnv/mean',
        'std': 'rewards/TfcodeEnv/std',
        'zero': 'frac_reward_zero_std',
        'clipped': 'completions/clipped_ratio',
        'length': 'completions/mean_length',
        'errors': 'checker/error_share',
        'calls': 'tools/call_frequency',
        'unreadable': 'tools/unreadable_frequency',
        'budget': 'episodes/budget_share',
    }
    series = {}
    for key, value in values.items():
        column = value if isinstance(value, list) else [value] * count
        series[names.get(key, key)] = (list(range(1, len(column) + 1)), column)
    return series


def by_key(found: tuple[Condition, ...]) -> dict[str, Condition]:
    return {condition.key: condition for condition in found}


def test_d3_a_every_answer_cut_at_the_limit():
    found = conditions(rows(clipped=1.0, length=256.0, reward=0.0, std=0.0, zero=1.0), max_completion_length=256)
    assert found[0].level == 'warn'
    assert found[0].title == 'Every answer hit the 256-token limit'
    assert found[0].setting == 'maxCompletionLength'
    assert 'clipping' not in by_key(found), 'one cause is named once'


def test_d3_b_all_attempts_already_succeed():
    found = conditions(rows(clipped=0.0, reward=1.0, std=0.0, zero=1.0))
    assert [condition.level for condition in found] == ['warn']
    assert found[0].title == 'All attempts already succeed'
    assert 'make the tasks harder' in found[0].text


def test_d3_c_a_healthy_run_with_loss_0_is_left_alone():
    found = conditions(rows(loss=0.0, grad_norm=0.08, reward=[0.2, 0.3, 0.4, 0.5, 0.6], zero=0.2))
    assert not [condition for condition in found if condition.level == 'warn']
    assert by_key(found)['loss'].title == 'Loss near 0 is normal'
    assert by_key(found)['trend'].title == 'Reward rising'


def test_d3_d_no_spread_within_groups_in_spite_of_the_batch_std():
    found = conditions(rows(reward=0.5, reward_std=0.5, zero=1.0, loss=0.0, grad_norm=0.0))
    assert [condition.level for condition in found] == ['warn']
    assert found[0].title == 'Rewards are the same within every group'
    assert found[0].setting == 'numGenerations'


def test_no_attempt_succeeds_asks_for_easier_tasks():
    (found,) = conditions(rows(reward=0.0, zero=1.0, clipped=0.1))
    assert found.title == 'No attempt succeeds'
    assert 'easier tasks' in found.text


def test_a_share_of_dead_groups_is_named_in_percent():
    (found,) = conditions(rows(zero=0.75, reward=0.5))
    assert found.title == 'Few groups carry a gradient'
    assert '75%' in found.text


def test_entropy_towards_0_names_a_larger_coefficient():
    falling = [1.0] * 5 + [0.6, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]
    found = by_key(conditions(rows(entropy=falling, reward=[0.4] * 15, zero=[0.2] * 15), entropy_coef=0.05))['entropy']
    assert found.setting == 'entropyCoef'
    assert 'entropyCoef to 0.1' in found.text
    at_cap = by_key(conditions(rows(entropy=falling), entropy_coef=0.5))['entropy']
    assert at_cap.setting == 'learningRate'
    solved = conditions(rows(entropy=falling, reward=[0.98] * 15))
    assert 'entropy' not in by_key(solved), 'a policy that succeeds may be sure of itself'


def test_length_up_with_clipping_is_a_symptom_of_reward_hacking():
    found = by_key(conditions(rows(length=[100.0] * 5 + [300.0] * 5, clipped=[0.4] * 10)))['clipping']
    assert 'reward hacking' in found.text
    plain = by_key(conditions(rows(length=[100.0] * 10, clipped=[0.4] * 10)))['clipping']
    assert plain.title == '40% of answers are cut'


def test_checker_errors_alarm_although_zero_std_says_fine():
    found = by_key(conditions(rows(zero=0.0, errors=0.15)))['errors']
    assert found.level == 'warn'
    assert '20%' in found.text


def test_tool_use_and_budget_have_their_own_words():
    found = by_key(conditions(rows(calls=0.0, unreadable=0.5, budget=0.7)))
    assert found['calls'].title == 'The model calls no tools'
    assert found['unreadable'].title == '50% tool calls not readable'
    assert found['budget'].setting == 'maxToolCallingIterations'


def test_warnings_come_first_and_a_falling_reward_is_said():
    found = conditions(rows(reward=[0.8] * 10 + [0.4] * 10, loss=[0.0] * 20, zero=[0.1] * 20))
    assert [condition.level for condition in found] == ['warn', 'info']
    assert found[0].title == 'Reward falling'


def test_too_few_rows_and_missing_series_say_nothing():
    assert conditions({}) == ()
    assert conditions(rows(4, zero=1.0, reward=0.0)) == ()


@given(
    st.dictionaries(
        st.sampled_from(WATCHED), st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=30)
    )
)
def test_any_series_gives_readable_conditions(columns: dict[str, list[float]]):
    found = conditions({name: (list(range(len(values))), values) for name, values in columns.items()})
    assert len({condition.key for condition in found}) == len(found)
    for condition in found:
        assert 'nan' not in condition.text and condition.title
        assert condition.level in ('ok', 'info', 'warn')


def test_a_run_that_has_learned_its_tasks_is_no_alarm():
    """Few groups carry a gradient because hardly anything fails any more: that is what a run is for."""
    rising = [0.4, 0.45, 0.55, 0.65, 0.75, 0.85, 0.9, 0.92, 0.95, 0.95]
    for share in (0.7, 0.95, 1.0):
        found = conditions(rows(reward=rising, zero=[0.1] * 5 + [share] * 5))
        assert not [condition for condition in found if condition.level == 'warn'], share
        assert by_key(found)['signal'].title == 'The tasks are learned'
        assert 'rose from 43% to 91%' in by_key(found)['signal'].text


def test_tasks_that_were_easy_from_the_start_are_still_said():
    easy = by_key(conditions(rows(reward=[0.9] * 10, zero=[0.7] * 10)))['signal']
    assert (easy.level, easy.title) == ('info', 'Most attempts succeed')
    solved = by_key(conditions(rows(reward=[1.0] * 10, zero=[1.0] * 10)))['signal']
    assert (solved.level, solved.title) == ('warn', 'All attempts already succeed')


def test_a_run_that_stopped_learning_half_way_is_an_alarm():
    stuck = conditions(rows(reward=[0.2, 0.4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], zero=[0.2] * 5 + [0.8] * 5))
    assert by_key(stuck)['signal'].level == 'warn'
