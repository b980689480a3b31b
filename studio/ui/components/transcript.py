"""One recorded episode for reading: turns with their tool calls, the verdict, what changed in the workspace.

Everything here was written by a model, a tool or a candidate's tests: it goes in as text nodes only, and long text is
cut with the rest one click away. Control characters are seen and do nothing; what is copied is the text as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from nicegui import ui

from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.panel import panel
from studio.ui.components.plain_text import visible
from trainer.recording import Change, Ending, Rollout, ToolRecord, Turn
from trainer.verdict import Item, Verdict

SHOWN_CHARS: Final = 4000
SHOWN_LINES: Final = 200

ENDINGS: Final[Mapping[Ending, str]] = {
    'answer': 'the model answered without a tool call',
    'tool_budget': 'it had used all its tool calls',
    'token_budget': 'it reached its token limit',
    'tool_answer_did_not_fit': 'a tool answer did not fit into its token limit',
    'unreadable_tool_call': 'its tool call could not be read',
    'error': 'the sandbox could not go on',
}

OUTCOMES: Final[Mapping[str, tuple[str, str, str]]] = {
    'passed': ('Passed', 'ok', 'circle-check'),
    'partial': ('Failed', 'bad', 'circle-x'),
    'failed': ('Failed', 'bad', 'circle-x'),
    'error': ('Error – not scored', 'warn', 'triangle-alert'),  # noqa: RUF001
}
"""Outcome → word, colour and icon. A reward below 1 is Failed; an error has no number."""

_CALL: Final = re.compile(r'<tool_call>.*?(?:</tool_call>|\Z)|<\|python_tag\|>.*|```tool_call\n.*?```', re.DOTALL)
_SPECIAL: Final = re.compile(r'<\|(?:im_end|eot_id|eom_id|endoftext)\|>|<end_of_turn>|</s>')


def transcript(rollout: Rollout, *, raw: bool = False) -> None:
    """Draw the task and every turn; ``raw`` shows the model's text as decoded, tool calls included."""
    with ui.element('div').classes('tr'):
        _prompt(rollout)
        for number, turn in enumerate(rollout.turns, start=1):
            draw_turn(number, turn, raw=raw)
        used = sum(len(turn.calls) for turn in rollout.turns)
        with ui.element('div').classes('endb'):
            Icon('flag', 'ic-s')
            with ui.element('span'):
                Text('Ended because ', 'b')
                Text(f'{ENDINGS[rollout.ending]}. {used} tool {"call" if used == 1 else "calls"}.')


def spoken(turn: Turn) -> str:
    """What the model said beside its tool calls; all of it where a call could not be read."""
    if turn.unreadable or not turn.calls:
        return _SPECIAL.sub('', turn.text).strip()
    return _SPECIAL.sub('', _CALL.sub('', turn.text)).strip()


def long_text(text: str, classes: str = '') -> None:
    """Draw text as it is, wrapped; past ``SHOWN_CHARS`` or ``SHOWN_LINES`` the rest waits behind a button."""
    lines = text.split('\n')
    short = '\n'.join(lines[:SHOWN_LINES])[:SHOWN_CHARS]
    shown = Text(visible(short), 'div', f'longtext {classes}')
    if short == text:
        return
    with ui.element('div').classes('more') as row:
        rest = f'{len(text) - len(short):,} more characters'
        Text(f'… {rest}', classes='t3 t-micro num')

        def reveal() -> None:
            shown.set_text(visible(text))
            row.delete()

        Button('Show all', kind='xs', on_click=reveal)


def copy_button(text: str, what: str) -> None:
    """Draw a button that copies a text as it was written."""
    Button(icon='copy', kind='gho icn xs copy', label=f'Copy {what}', on_click=lambda: ui.clipboard.write(text))


def verdict_card(verdict: Verdict, checker: str = '') -> None:
    """Draw what the checker said: outcome, reason, its lines and its output."""
    word, kind, icon = OUTCOMES[verdict.outcome]
    with panel('Checker output', icon='scale') as head:
        with head:
            if checker:
                chip(checker, 'mono')
            spacer()
            if verdict.items:
                passed = sum(item.passed for item in verdict.items)
                Text(f'{passed} of {len(verdict.items)}', classes='w6 t-small num nowrap')
            Text(f'{verdict.duration_ms / 1000:.1f} s', classes='t3 t-small num nowrap')
        with ui.element('div').classes(f'vline {kind}'):
            Icon(icon)
            with ui.element('div').classes('vs vs-0'):
                Text(word if verdict.reward is None else f'{word} {verdict.reward:.2f}', 'b', 'w6 num')
                if verdict.reason:
                    long_text(verdict.reason, 't-small')
                if verdict.reward is None:
                    Text('Nothing is counted for or against the model.', 'div', 't-small')
                if verdict.tampered:
                    Text('The candidate was caught forging the result.', 'div', 't-small')
        _items(verdict.items, verdict.reason)
        if verdict.output.strip():
            with ui.element('details').classes('outp'):
                Text('Output', 'summary', 't-small')
                long_text(verdict.output, 'code out t2')


def changes_card(changes: tuple[Change, ...]) -> None:
    """Draw what the episode left in its workspace against the start."""
    added = sum(_count(change.diff, '+') for change in changes)
    removed = sum(_count(change.diff, '-') for change in changes)
    with panel('Workspace changes', icon='git-compare') as head:
        with head:
            spacer()
            if added or removed:
                Text(f'+{added}', classes='c-ok t-small num')
                Text(f'−{removed}', classes='c-bad t-small num')  # noqa: RUF001
            Text(f'{len(changes)} {"file" if len(changes) == 1 else "files"}', classes='t3 t-small num nowrap')
        for change in changes:
            _change(change)


def diff_lines(diff: str) -> list[tuple[str, str]]:
    """Lines of a unified diff with their class: ``a`` added, ``d`` deleted, ``h`` a hunk's header."""
    found = []
    for line in diff.splitlines():
        if line.startswith(('--- ', '+++ ')):
            continue
        kind = {'+': 'a', '-': 'd', '@': 'h'}.get(line[:1], '')
        found.append((kind, line))
    return found


def _prompt(rollout: Rollout) -> None:
    with ui.element('article').classes('turn').props('aria-label="Task"'):
        with ui.element('span').classes('av'):
            Icon('user')
        with ui.element('div'):
            with ui.element('div').classes('who'):
                Text('Task', 'b')
            long_text(rollout.prompt, 'prose')


def draw_turn(number: int, turn: Turn, *, raw: bool = False) -> None:
    """Draw one turn with its tool calls."""
    with ui.element('article').classes('turn').props(f'aria-label="Model, turn {number}"'):
        with ui.element('span').classes('av as'):
            Icon('bot')
        with ui.element('div'):
            with ui.element('div').classes('who'):
                Text(f'Model, turn {number}', 'b')
                if turn.unreadable:
                    chip('tool call not readable', 'warn', icon='triangle-alert')
                spacer()
                copy_button(turn.text, f'turn {number}')
                Text(f'{turn.tokens:,} tokens · {turn.seconds:.1f} s', classes='t3 num t-micro nowrap')
            text = turn.text if raw else spoken(turn)
            if text:
                long_text(text, 'code' if raw or turn.unreadable else 'prose')
            elif not turn.calls:
                Text('No text.', 'div', 't3')
            for call in turn.calls:
                draw_call(call)


def draw_call(call: ToolRecord) -> None:
    """Draw one tool call with its answer."""
    with ui.element('div').classes('call'):
        with ui.element('div').classes('ch'):
            Icon('wrench', 'ic-s t3')
            Text(visible(call.name), 'b')
            subject = _subject(call)
            Text(visible(subject[:300]), classes='mono ell').props['title'] = visible(subject[:1000])
            spacer()
            if call.result:
                copy_button(call.result, f'what {call.name} answered')
            if call.exit_code is not None:
                good = call.exit_code == 0 and call.ok
                chip(f'exit {call.exit_code}', 'ok num' if good else 'bad num', icon='check' if good else 'x')
            else:
                chip('ok' if call.ok else 'failed', 'ok' if call.ok else 'bad', icon='check' if call.ok else 'x')
            if call.shared:
                shared = Text('shared', classes='t3 t-micro nowrap')
                shared.props['title'] = (
                    'Another attempt with the same history ran this call; its answer and files were taken over'
                )
            Text(f'{call.duration_ms:,} ms', classes='t3 num t-micro nowrap')
        content = call.args.get('content')
        if call.name == 'write_file' and isinstance(content, str):
            long_text(content, 'code out')
        elif '\n' in subject or len(subject) > 300:
            long_text(subject, 'code out')
        if call.result:
            long_text(call.result, 'code out t2')


def _subject(call: ToolRecord) -> str:
    """The one argument a call is about; all of them where it has none of that kind."""
    for name in ('command', 'path'):
        if isinstance(value := call.args.get(name), str):
            return value
    return ', '.join(f'{name}={value!r}' for name, value in call.args.items())


def _items(items: tuple[Item, ...], reason: str) -> None:
    """A line for each item; what the reason above says already is not said again."""
    if not items:
        return
    with ui.element('ul').classes('tests'):
        for item in items[:SHOWN_LINES]:
            with ui.element('li'):
                Icon(
                    'circle-check' if item.passed else 'circle-x',
                    'c-ok' if item.passed else 'c-bad',
                    label='passed' if item.passed else 'failed',
                )
                Text(visible(item.name), classes='ell').props['title'] = visible(item.name)
                if item.detail not in ('', reason) and not item.passed:
                    Text(visible(item.detail[:200]), classes='m ell').props['title'] = visible(item.detail[:2000])
    if len(items) > SHOWN_LINES:
        Text(f'{len(items) - SHOWN_LINES:,} more', 'div', 't3 t-small pad')


def _change(change: Change) -> None:
    color, word = {'A': ('c-ok', 'Added'), 'M': ('c-warn', 'Changed'), 'D': ('c-bad', 'Deleted')}[change.kind]
    with ui.element('div').classes('fl'):
        Text(change.kind, classes=f'mk {color}').props(f'title={word}')
        Text(visible(change.path), classes='mono ell').props['title'] = visible(change.path)
        if change.diff:
            spacer()
            copy_button(change.diff, f'the changes of {change.path}')
    lines = diff_lines(change.diff)
    if not lines:
        return
    with ui.element('div').classes('diff'):
        for kind, line in lines[:SHOWN_LINES]:
            Text(visible(line[:500]), 'div', kind)
    if len(lines) > SHOWN_LINES:
        Text(f'{len(lines) - SHOWN_LINES:,} more lines', 'div', 't3 t-small pad')


def _count(diff: str, sign: str) -> int:
    return sum(line.startswith(sign) for _, line in diff_lines(diff))
