"""The page of one rollout: its group, what the model said and did turn by turn, the verdict, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nicegui import run as background
from nicegui import ui

from studio.errors import NotFound
from studio.runs.views import RolloutRow, RunView
from studio.ui.components.elements import Button, Text, chip, kbd, spacer
from studio.ui.components.panel import empty, facts, panel
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.transcript import ENDINGS, changes_card, transcript, verdict_card
from studio.ui.components.wording import plural, signed
from studio.ui.layout import Shell
from studio.ui.pages.rollout_workspace import workspace_card
from studio.ui.pages.run_reading import token_limit
from studio.workspaces.final import WorkspaceView
from trainer.errors import RlvrError
from trainer.recording import Rollout

if TYPE_CHECKING:
    from studio.services import Studio

STAGES = {
    'before': 'Held-out, before training',
    'during': 'Held-out, during training',
    'after': 'Held-out, after training',
}


@dataclass(frozen=True)
class Member:
    """A rollout of the group with its record; without one where the record cannot be read."""

    row: RolloutRow
    rollout: Rollout | None


@dataclass(frozen=True)
class Group:
    """Everything the page shows: ``steps`` leads from each step the task was attempted in to its first rollout."""

    run: RunView
    rollout: Rollout
    members: tuple[Member, ...]
    at: int
    checker: str
    steps: dict[int, int]
    limit: int | None
    workspace: WorkspaceView

    @property
    def title(self) -> str:
        """The task's title."""
        return self.rollout.title or self.members[self.at].row.title

    @property
    def rewards(self) -> list[float]:
        """Rewards of the attempts that were scored."""
        return [member.row.reward for member in self.members if member.row.reward is not None]


async def page(shell: Shell, run_id: str, rollout_id: str) -> None:
    """Draw the page."""
    number = int(rollout_id) if rollout_id.isdecimal() else -1
    try:
        group = await background.io_bound(read_group, shell.studio, run_id, number)
    except RlvrError as error:
        with shell.topbar('Rollout', crumbs=[('Runs', '/runs')]):
            pass
        with empty('circle-alert', error.message):
            Button('Open the run', on_click=lambda: ui.navigate.to(f'/runs/{run_id}'))
        return
    if group is None:
        return
    crumbs = [('Runs', '/runs'), (group.run.name, f'/runs/{run_id}'), ('Rollouts', f'/runs/{run_id}/rollouts')]
    with shell.topbar(group.title, crumbs=crumbs, main=f'{group.title}, step {group.rollout.step}'):
        if group.rollout.stage in STAGES:
            chip(STAGES[group.rollout.stage])
        else:
            _steps(group)
        spacer()
        task = f'/runs/{run_id}/tasks?task={group.rollout.task}'
        Button('Re-grade', icon='history', kind='gho', on_click=lambda: ui.navigate.to(_again(group)))
        Button('Task', icon='file-text', kind='gho', on_click=lambda: ui.navigate.to(task))
    with ui.element('div').classes('ro'):
        with ui.element('div'):
            _head(group)
            with ui.element('div').classes('attempts').props('role=group aria-label="Rollouts in this group"'):
                for number, member in enumerate(group.members):
                    _card(group, number, member)
        with ui.element('div').classes('cols'):
            _transcript(group)
            with ui.element('aside').classes('side'):
                _score(group)
                verdict_card(group.rollout.verdict, group.checker)
                if group.rollout.changes:
                    changes_card(group.rollout.changes)
                workspace_card(shell.studio, run_id, group.members[group.at].row.id, group.workspace)


def read_group(studio: Studio, run_id: str, rollout_id: int) -> Group:
    """Read a rollout, its group and where its task was attempted. Raises ``NotFound``, ``RunFolderError``."""
    runs = studio.runs
    rollout = runs.rollout(run_id, rollout_id)
    rows = [
        row
        for row in runs.group(run_id, rollout.step, rollout.task, stage=rollout.stage)
        if row.group == rollout.group or row.id == rollout_id
    ]
    members = []
    for row in rows:
        try:
            record = rollout if row.id == rollout_id else runs.rollout(run_id, row.id)
        except RlvrError:  # a damaged record: its row is still worth showing
            record = None
        members.append(Member(row, record))
    checker: str
    try:
        checker = runs.task(run_id, rollout.task).task_spec.checker.type
    except NotFound:
        checker = ''
    others = runs.rollouts(run_id, task=rollout.task, stage=rollout.stage, limit=10_000)
    view = runs.get(run_id)
    return Group(
        run=view,
        rollout=rollout,
        members=tuple(members),
        at=next(number for number, row in enumerate(rows) if row.id == rollout_id),
        checker=checker,
        steps={row.step: row.id for row in reversed(others)},
        limit=token_limit(studio, view),
        workspace=studio.workspaces.view(run_id, rollout_id),
    )


def _steps(group: Group) -> None:
    order = sorted(group.steps)
    at = order.index(group.rollout.step)
    with ui.element('span').classes('btng'):
        _go(group, order[at - 1] if at else None, 'chevron-left', 'Previous step of this task', '[')
        Text(f'Step {group.rollout.step}', 'span', 'btn z-sm num')
        _go(group, order[at + 1] if at + 1 < len(order) else None, 'chevron-right', 'Next step of this task', ']')


def _go(group: Group, step: int | None, icon: str, label: str, key: str) -> None:
    button = Button(icon=icon, kind='icn sm', label=f'{label}, {key}', key=key)
    if step is None:
        button.disable('There is none')
    else:
        button.on('click', lambda: ui.navigate.to(_path(group, group.steps[step])), args=[])


def _head(group: Group) -> None:
    rewards = group.rewards
    errors = len(group.members) - len(rewards)
    with ui.element('div').classes('gh'):
        Text(f'Group of {len(group.members)}', 'b', 'w6')
        with ui.element('dl'):
            _fact('Mean', f'{sum(rewards) / len(rewards):.2f}' if rewards else 'nothing scored')
            _fact('Scored', f'{len(rewards)} of {len(group.members)}')
            _fact('Solved', f'{sum(reward == 1.0 for reward in rewards)} of {len(rewards)}')
            if len(set(rewards)) < 2 and len(rewards) > 1 and group.rollout.stage == 'train':
                _fact('Gradient', 'none, all the same')
            if errors:
                _fact('Errors', f'{errors} excluded')
        spacer()
        with ui.element('span').classes('hint hs hs-6 hide-s'):
            Text('Rollout')
            kbd('J')
            kbd('K')
        if group.rollout.stage not in STAGES:
            with ui.element('span').classes('hint hs hs-6 hide-s'):
                Text('Step')
                kbd('[')
                kbd(']')


def _card(group: Group, number: int, member: Member) -> None:
    row, selected = member.row, number == group.at
    kind = f'g {"sel" if selected else ""} {"xcl" if row.reward is None else ""}'
    with ui.element('a').classes(kind) as card:
        card.props['href'] = _path(group, row.id)
        card.props['aria-label'] = f'Rollout {number + 1}'
        if selected:
            card.props['aria-current'] = 'true'
        turns = '' if member.rollout is None else plural(len(member.rollout.turns), 'turn')
        _pair(f'#{number + 1}', turns)
        with ui.element('div').classes('r'):
            Text('Error – excluded' if row.reward is None else f'{row.reward:.2f}')  # noqa: RUF001
        with ui.element('div').classes('bar'):
            ui.element('i').style(f'width: {row.reward or 0:.0%}')
        advantage = None if member.rollout is None else member.rollout.advantage
        if row.reward is None:
            _pair('not scored', '')
        elif advantage is None:
            _pair('no advantage', '')
        else:
            _pair('advantage', signed(advantage))


def _pair(left: str, right: str) -> None:
    with ui.element('div').classes('t'):
        Text(left)
        Text(right, classes='adv')


def _transcript(group: Group) -> None:
    rollout = group.rollout
    calls = sum(len(turn.calls) for turn in rollout.turns)
    with panel(f'Rollout {group.at + 1}', label='Transcript') as head:
        body = ui.element('div')

        def draw(kind: str) -> None:
            body.clear()
            with body:
                transcript(rollout, raw=kind == 'raw')

        with head:
            counts = f'{plural(len(rollout.turns), "turn")} · {plural(calls, "tool call")}'
            Text(counts, classes='t3 t-small num nowrap')
            spacer()
            Segmented([Choice('text', 'Text'), Choice('raw', 'Raw')], 'text', label='View', on_change=draw)
            with ui.element('span').classes('btng'):
                _move(group, -1, 'arrow-left', 'Previous rollout', 'k')
                _move(group, 1, 'arrow-right', 'Next rollout', 'j')
        draw('text')


def _move(group: Group, by: int, icon: str, label: str, key: str) -> None:
    button = Button(icon=icon, kind='icn sm', label=f'{label}, {key.upper()}', key=key)
    to = group.at + by
    if 0 <= to < len(group.members):
        button.on('click', lambda: ui.navigate.to(_path(group, group.members[to].row.id)), args=[])
    else:
        button.disable('There is none')


def _score(group: Group) -> None:
    rollout, reward = group.rollout, group.rollout.verdict.reward
    advantage = rollout.advantage
    with ui.element('section').classes('card').props('aria-label="Score"'):
        with ui.element('div').classes('kp'):
            _key('Reward', '–' if reward is None else f'{reward:.2f}', '')  # noqa: RUF001
            color = '' if not advantage else 'c-ok' if advantage > 0 else 'c-bad'
            _key('Advantage', '–' if advantage is None else signed(advantage), color)  # noqa: RUF001
            _key('Tokens', f'{rollout.tokens:,}', '')
        facts(*_facts(group, group.rewards))


def _facts(group: Group, rewards: Sequence[float]) -> list[tuple[str, str]]:
    rollout, reward = group.rollout, group.rollout.verdict.reward
    rl = group.run.settings.get('rl', {})
    found = []
    if reward is not None and rollout.advantage is not None and rewards:
        found.append(('How', how(reward, rollout.advantage, rewards, rl.get('scaleRewards', 'batch'))))
    elif reward is None:
        found.append(('How', 'left out of the group mean and of training'))
    elif rollout.stage == 'train':
        found.append(('How', 'not trained on: another group took its place'))
    limit = group.limit
    clipped = 'clipped' if rollout.ending == 'token_budget' else 'not clipped'
    found.append(('Generated', f'{rollout.tokens:,}{f" of {limit:,}" if limit else ""} tokens, {clipped}'))
    names = {'generate': 'generate', 'tools': 'tools', 'check': 'grading'}
    times = [f'{rollout.seconds[key]:.1f} s {name}' for key, name in names.items() if key in rollout.seconds]
    if times:
        found.append(('Time', ', '.join(times)))
    found.append(('Ended because', ENDINGS[rollout.ending]))
    return found


def how(reward: float, advantage: float, rewards: Sequence[float], scale: str) -> str:
    """How an advantage came about; the spread is what the advantage was really divided by."""
    mean = sum(rewards) / len(rewards)
    difference = f'{reward:.2f} − {mean:.2f} group mean'  # noqa: RUF001
    if abs(reward - mean) < 1e-9 or not advantage:
        return f'{difference}: nothing to learn from' if len(set(rewards)) < 2 else difference
    if scale == 'none':
        return difference
    return f'({difference}) ÷ {(reward - mean) / advantage:.2f} {scale} spread'


def _key(label: str, value: str, color: str) -> None:
    with ui.element('div'):
        Text(label, 'div', 'hint')
        Text(value, 'div', f'v {color}')


def _fact(name: str, value: str) -> None:
    with ui.element('div'):
        Text(name, 'dt')
        Text(value, 'dd')


def _again(group: Group) -> str:
    """Where this group is graded again."""
    ids = ','.join(str(member.row.id) for member in group.members)
    return f'/runs/{group.run.id}/regrade?{urlencode({"task": group.rollout.task, "rollouts": ids})}'


def _path(group: Group, rollout_id: int) -> str:
    return f'/runs/{group.run.id}/rollouts/{rollout_id}'
