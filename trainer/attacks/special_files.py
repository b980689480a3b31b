"""Links, pipes and devices where the check expects files, and processes that feed them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from trainer.attacks.model import ALL_KINDS, Attack, Ground, Leftover, quoted

MAX_ANSWER_CHARS = 2_000


def _at_outputs(command: str) -> Callable[[Ground], Leftover | None]:
    """Make an attack: a command for every path the check looks at, after what is there was removed."""

    def leave(ground: Ground) -> Leftover | None:
        return _placed(ground.outputs, command)

    return leave


def _placed(paths: Iterable[str], command: str) -> Leftover | None:
    commands = []
    for path in paths:
        word = quoted(path.rstrip('/'))
        commands.append(f'rm -rf {word}; mkdir -p "$(dirname {word})"; {command.format(path=word)}')
    return Leftover({}, tuple(commands)) if commands else None


def _linked_folders(ground: Ground) -> Leftover | None:
    folders = dict.fromkeys(path.split('/')[0] for path in ground.outputs if '/' in path.rstrip('/'))
    return _placed((folder for folder in folders if folder), 'ln -s /usr {path}')


def _fed_pipes(ground: Ground) -> Leftover | None:
    """Pipes at the places of the answers, fed with the right ones by a process that outlives the episode."""
    answers = {path: ground.answers.get(path, '1.0\n') for path in ground.outputs if not path.endswith('/')}
    answers |= {path: text for path, text in ground.answers.items() if len(text) <= MAX_ANSWER_CHARS}
    commands = []
    for path, text in list(answers.items())[:4]:
        word = quoted(path)
        feed = f'while :; do printf %s {shlex.quote(text[:MAX_ANSWER_CHARS])} > {word}; done'
        commands.append(
            f'rm -rf {word}; mkdir -p "$(dirname {word})"; mkfifo {word}; (setsid sh -c {shlex.quote(feed)} &)'
        )
    return Leftover({}, tuple(commands)) if commands else None


_LEAVES_ODD_FILES = 'mkdir -p .odd && cd .odd && mkfifo pipe && ln -s /nowhere nowhere && ln -s /dev/zero zero'

ATTACKS = (
    Attack(
        name='links-outside',
        title='Links to files of the system',
        core=True,
        explanation='The files your check looks for are links to programs and folders of the system.',
        kinds=ALL_KINDS,
        leave=_at_outputs('ln -s "$(test -e /usr/bin/env && echo /usr/bin/env)" {path}'),
        honest=lambda ground: Leftover({}, (_LEAVES_ODD_FILES,)),
    ),
    Attack(
        name='folders-outside',
        title='Folders that are links to the system',
        core=True,
        explanation='The folder your check looks into is a link to a folder of the system.',
        kinds=ALL_KINDS,
        leave=_linked_folders,
    ),
    Attack(
        name='pipes',
        title='Pipes instead of files',
        core=True,
        explanation='The files your check looks for are named pipes: reading one would never end.',
        kinds=ALL_KINDS,
        leave=_at_outputs('mkfifo {path}'),
    ),
    Attack(
        name='dangling-links',
        title='Links that lead nowhere',
        explanation='The files your check looks for are links to what does not exist.',
        kinds=ALL_KINDS,
        leave=_at_outputs('ln -s /nowhere {path}'),
    ),
    Attack(
        name='devices',
        title='Links to an endless device',
        explanation='The files your check looks for are links to /dev/zero.',
        kinds=ALL_KINDS,
        leave=_at_outputs('ln -s /dev/zero {path}'),
    ),
    Attack(
        name='fed-pipes',
        title='Pipes fed in the background',
        core=True,
        explanation='A process that outlives the episode feeds the right answer into pipes while the check reads them.',
        kinds=ALL_KINDS,
        leave=_fed_pipes,
    ),
)
