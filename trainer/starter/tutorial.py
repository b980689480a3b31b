"""The tutorial tasks: families of small file chores as data, and the two task files made from them.

A family is one skill: how it is asked for, the careful way to do it, the careless ways a hasty model might, and the
checker that tells them apart. The same families, filled with invented names, are the starter's demonstrations.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainer.starter.words import DEMO_ENDINGS, TUTORIAL_ENDINGS, TUTORIAL_WORDS, invented_word

TASKS_FOLDER: Final = Path(__file__).resolve().parents[2] / 'assets' / 'tasks'
TRAIN_FILE: Final = 'tutorial-train.jsonl'
HELD_OUT_FILE: Final = 'tutorial-heldout.jsonl'
SEED: Final = 20
TRAIN_TASKS: Final = 32
HELD_OUT_TASKS: Final = 16

Names = Mapping[str, str]
_SLOT: Final = re.compile(r'<([a-z])>')


@dataclass(frozen=True)
class Step:
    """One tool call and what the tool answers; `<x>` stands for a name or word of the task."""

    tool: str
    args: Mapping[str, str]
    answer: str = ''

    def filled(self, names: Names) -> Step:
        """The same step with the names of one task in place."""
        args = {key: fill(value, names) for key, value in self.args.items()}
        answer = fill(self.answer, names)
        if self.tool == 'write_file':
            answer = f'wrote {len(args["content"].encode())} bytes to {args["path"]}'
        return Step(self.tool, args, answer)


@dataclass(frozen=True)
class Family:
    """One skill of the tutorial, as data: requests, the careful script, the careless ones with weights, the checker."""

    skill: str
    requests: tuple[str, ...]
    careful: tuple[Step, ...]
    careless: tuple[tuple[int, tuple[Step, ...]], ...]
    checker: Mapping[str, Any]
    care: float
    setup_files: Mapping[str, str] = field(default_factory=dict)
    max_steps: int = 4


@dataclass(frozen=True)
class Chore:
    """A family with names filled in: one concrete task with every way of going about it."""

    family: Family
    prompt: str
    careful: tuple[Step, ...]
    careless: tuple[tuple[Step, ...], ...]
    names: Names

    def as_task(self) -> dict[str, Any]:
        """The task line of a JSONL file: title, topics, task_spec and solutions."""
        family = self.family
        setup = {fill(path, self.names): fill(text, self.names) for path, text in family.setup_files.items()}
        checker = {'type': family.checker['type'], 'config': _filled(family.checker['config'], self.names)}
        wrong = next(script for script in self.careless if script)
        subject = self.names.get('a') or self.names.get('d') or f'{self.names["m"]}.py'
        return {
            'title': f'{family.skill.capitalize()}: {subject}',
            'topics': ['tutorial', family.skill],
            'task_spec': {
                'prompt': self.prompt,
                'env': 'tfcode',
                'max_steps': family.max_steps,
                'setup_files': setup,
                'setup_commands': [],
                'checker': checker,
            },
            'solutions': [
                {'kind': 'reference', 'steps': [{'tool': s.tool, 'args': dict(s.args)} for s in self.careful]},
                {'kind': 'wrong', 'steps': [{'tool': s.tool, 'args': dict(s.args)} for s in wrong]},
            ],
        }


def fill(text: str, names: Names) -> str:
    """Replaces every `<slot>` of a text by the task's own name or word."""
    return _SLOT.sub(lambda match: names[match.group(1)], text)


def _filled(value: Any, names: Names) -> Any:
    if isinstance(value, str):
        return fill(value, names)
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    return {key: _filled(item, names) for key, item in value.items()}


def _run(command: str, answer: str = '[exit code 0]') -> Step:
    return Step('run_command', {'command': command}, answer)


def _write(path: str, content: str) -> Step:
    return Step('write_file', {'path': path, 'content': content})


def _read(path: str, answer: str) -> Step:
    return Step('read_file', {'path': path}, answer)


def _exits(command: str) -> dict[str, Any]:
    return {'type': 'exit_code', 'config': {'command': command, 'protect': []}}


_SHARE_SCRIPT: Final = """\
import pathlib

wanted = {'<a>': '<w>', '<b>': '<v>'}
right = 0
for name, word in wanted.items():
    path = pathlib.Path(name)
    right += path.is_file() and path.read_text(encoding='utf-8').strip() == word
print(right / len(wanted))
"""

_TEST_FILE: Final = """\
from <m> import <f>


def test_<f>_returns_the_word():
    assert <f>() == '<w>'
"""

FAMILIES: Final = (
    Family(
        skill='write a file',
        requests=(
            'Create the file <a> with the word <w> in it.',
            'Write <w> to the file <a>.',
            'Make a file called <a> that says <w>.',
            'Put the word <w> into a new file <a>.',
        ),
        careful=(_write('<a>', '<w>'),),
        careless=((3, (_write('<a>', 'hello'),)), (2, ())),
        checker=_exits('test "$(cat <a>)" = <w>'),
        care=0.5,
    ),
    Family(
        skill='write two files',
        requests=(
            'Create <a> with the word <w> and <b> with the word <v>.',
            'Write <w> to <a> and <v> to <b>.',
            'Make two files: <a> says <w>, <b> says <v>.',
            'Put <w> into <a>, then put <v> into <b>.',
        ),
        careful=(_write('<a>', '<w>'), _write('<b>', '<v>')),
        careless=(
            (4, (_write('<a>', '<w>'),)),
            (2, (_write('<a>', 'hello'), _write('<b>', 'hello'))),
            (2, ()),
        ),
        checker={'type': 'script', 'config': {'script': _SHARE_SCRIPT, 'protect': []}},
        care=0.5,
        max_steps=6,
    ),
    Family(
        skill='rename a file',
        requests=(
            'Rename <a> to <b>.',
            'Give the file <a> the new name <b>.',
            'The file <a> should be called <b>. Rename it.',
            'Change the name of <a> to <b>.',
        ),
        setup_files={'<a>': '<w>'},
        careful=(_run('mv <a> <b>'),),
        careless=((3, (_run('cp <a> <b>'),)), (1, (_run('touch <b>'),)), (1, ())),
        checker=_exits('test "$(cat <b>)" = <w> && ! test -e <a>'),
        care=0.5,
    ),
    Family(
        skill='copy a file',
        requests=(
            'Copy <a> to <b>.',
            'Make a copy of <a> called <b>.',
            'Keep <a> and copy it to <b>.',
            'Duplicate the file <a> as <b>.',
        ),
        setup_files={'<a>': '<w>'},
        careful=(_run('cp <a> <b>'),),
        careless=((2, (_run('mv <a> <b>'),)), (2, (_run('touch <b>'),)), (1, ())),
        checker=_exits('test "$(cat <a>)" = <w> && test "$(cat <b>)" = <w>'),
        care=0.5,
    ),
    Family(
        skill='read and write',
        requests=(
            'Read <a> and write the word you find to <b>.',
            'Look into <a>. Write the same word to <b>.',
            'Find out which word is in <a> and put it into <b>.',
        ),
        setup_files={'<a>': '<w>'},
        careful=(_read('<a>', '<w>'), _write('<b>', '<w>')),
        careless=((3, (_read('<a>', '<w>'),)), (3, (_write('<b>', 'hello'),)), (1, ())),
        checker=_exits('test "$(cat <b>)" = <w>'),
        care=0.5,
    ),
    Family(
        skill='append a line',
        requests=(
            'Add the line <w> at the end of <a>.',
            'Append <w> to the file <a>.',
            'Put <w> on a new last line of <a>.',
            'Add <w> to <a> and keep what is there.',
        ),
        setup_files={'<a>': '<v>\n'},
        careful=(_run('echo <w> >> <a>'),),
        careless=((3, (_run('echo <w> > <a>'),)), (2, (_write('<a>', 'hello'),)), (1, ())),
        checker=_exits('grep -qx <v> <a> && grep -qx <w> <a>'),
        care=0.5,
    ),
    Family(
        skill='replace a word',
        requests=(
            'Replace the word <v> with <w> in <a>.',
            'In <a>, change <v> to <w>.',
            'Swap <v> for <w> in the file <a>.',
            'The file <a> says <v>. Make it say <w>.',
        ),
        setup_files={'<a>': '<v>'},
        careful=(_run('sed -i s/<v>/<w>/ <a>'),),
        careless=((3, (_run('sed s/<v>/<w>/ <a>', '<w>'),)), (2, (_write('<a>', 'hello'),)), (1, ())),
        checker=_exits('grep -qx <w> <a> && ! grep -q <v> <a>'),
        care=0.45,
    ),
    Family(
        skill='delete a file',
        requests=(
            'Delete <a> but keep <b>.',
            'Remove the file <a>. Leave <b> alone.',
            'Keep <b> and delete <a>.',
            'The file <a> is not needed. Delete it, not <b>.',
        ),
        setup_files={'<a>': '<w>', '<b>': '<v>'},
        careful=(_run('rm <a>'),),
        careless=((3, (_run('rm *'),)), (1, (_run('touch <a>'),)), (1, ())),
        checker=_exits('! test -e <a> && test "$(cat <b>)" = <v>'),
        care=0.55,
    ),
    Family(
        skill='make a folder',
        requests=(
            'Make the folder <d> with a file <a> in it that says <w>.',
            'Create a folder <d>. Inside it, write <w> to <a>.',
            'Put a file <a> with the word <w> into a new folder <d>.',
        ),
        careful=(_run('mkdir <d>'), _write('<d>/<a>', '<w>')),
        careless=((3, (_run('mkdir <d>'),)), (3, (_write('<a>', '<w>'),)), (1, ())),
        checker=_exits('test "$(cat <d>/<a>)" = <w>'),
        care=0.55,
        max_steps=6,
    ),
    Family(
        skill='make two folders',
        requests=(
            'Make the folders <d> and <e>.',
            'Create two folders called <d> and <e>.',
            'I need a folder <d> and a folder <e>.',
        ),
        careful=(_run('mkdir <d> <e>'),),
        careless=((3, (_run('mkdir <d>'),)), (2, (_run('touch <d> <e>'),)), (1, ())),
        checker={'type': 'file_exists', 'config': {'paths': ['<d>/', '<e>/']}},
        care=0.5,
    ),
    Family(
        skill='count files',
        requests=(
            'Count the files in <d> and write the number to <a>.',
            'How many files are in the folder <d>? Write the number to <a>.',
            'Write the number of files in <d> to <a>.',
        ),
        setup_files={'<d>/<g>': '<v>', '<d>/<h>': '<w>'},
        careful=(_run('ls <d> | wc -l > <a>'),),
        careless=((3, (Step('list_dir', {'path': '<d>'}, '<l>'),)), (2, (_write('<a>', 'hello'),)), (1, ())),
        checker=_exits('test "$(cat <a>)" -eq 2'),
        care=0.45,
    ),
    Family(
        skill='write a function',
        requests=(
            'Write the function <f> in <m>.py. It returns the word <w>.',
            'In <m>.py, define <f> so that it returns <w>.',
            'Make <m>.py with a function <f> that returns <w>.',
        ),
        setup_files={'test_<m>.py': _TEST_FILE},
        careful=(_write('<m>.py', "def <f>():\n    return '<w>'\n"),),
        careless=((3, (_write('<m>.py', 'pass\n'),)), (2, (_write('<m>.py', 'hello'),)), (1, ())),
        checker={'type': 'pytest', 'config': {'test_paths': ['test_<m>.py']}},
        care=0.5,
    ),
)
"""Every skill of the tutorial; `care` is the share of careful demonstrations the starter sees of it."""

_FILE_SLOTS: Final = frozenset('abgh')
_LISTING: Final = 'l'


def chore(family: Family, rng: random.Random, words: Iterator[str], endings: tuple[str, ...]) -> Chore:
    """One task of a family, its names and words taken from an iterator in order."""
    names = {slot: next(words) for slot in _slots(family)}
    names |= {slot: f'{word}.{rng.choice(endings)}' for slot, word in names.items() if slot in _FILE_SLOTS}
    names[_LISTING] = '\n'.join(sorted(name for slot, name in names.items() if slot in 'gh'))
    return Chore(
        family=family,
        prompt=fill(rng.choice(family.requests), names),
        careful=tuple(step.filled(names) for step in family.careful),
        careless=tuple(tuple(step.filled(names) for step in script) for _, script in family.careless),
        names=names,
    )


def _slots(family: Family) -> list[str]:
    text = ' '.join((*family.requests, *family.setup_files, *family.setup_files.values()))
    return sorted(set(_SLOT.findall(text)))


def demo_chore(rng: random.Random, family: Family | None = None) -> Chore:
    """A chore with invented names, as the demonstrations use them; none of them occurs in the tutorial."""

    def words() -> Iterator[str]:
        while True:
            yield invented_word(rng)

    return chore(family or rng.choice(FAMILIES), rng, words(), DEMO_ENDINGS)


def tutorial_chores(seed: int = SEED) -> tuple[list[Chore], list[Chore]]:
    """The chores of the two tutorial files, train and held out, with no name or word in common."""
    rng = random.Random(seed)
    words = list(TUTORIAL_WORDS)
    rng.shuffle(words)
    supply = iter(words)
    families = [FAMILIES[index % len(FAMILIES)] for index in range(TRAIN_TASKS + HELD_OUT_TASKS)]
    chores = [chore(family, rng, supply, TUTORIAL_ENDINGS) for family in families]
    return chores[:TRAIN_TASKS], chores[TRAIN_TASKS:]


def write_files(folder: Path = TASKS_FOLDER) -> None:
    """Rewrites the two tutorial files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, chores in zip((TRAIN_FILE, HELD_OUT_FILE), tutorial_chores(), strict=True):
        (folder / name).write_text(as_jsonl(chores), encoding='utf-8')


def as_jsonl(chores: list[Chore]) -> str:
    """The text of a task file: one task a line."""
    return ''.join(json.dumps(item.as_task(), ensure_ascii=False) + '\n' for item in chores)


if __name__ == '__main__':
    write_files()
