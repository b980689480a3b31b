"""Programs, functions and start-up files in the workspace that stand in for those of the system."""

from __future__ import annotations

from trainer.attacks.model import PROGRAM_KINDS, Attack, Ground, Leftover, quoted

PLACES = ('', 'bin/', '.local/bin/')
RC_FILES = ('.bash_profile', '.bashrc', '.profile', '.zshenv', '.shrc')


def _programs(ground: Ground) -> Leftover | None:
    tools = ground.tools or (('python3',) if ground.kind == 'script' else ())
    paths = [f'{place}{tool}' for tool in tools for place in PLACES]
    if not paths:
        return None
    text = f'#!/bin/sh\necho 1.0\nexit {ground.success}\n'
    profile = {'.profile': 'PATH=/work:/work/bin:$PATH\n'}
    return Leftover({**dict.fromkeys(paths, text), **profile}, (f'chmod +x {quoted(*paths)}',))


def _failing(ground: Ground) -> Leftover | None:
    tools = [tool for tool in ground.tools if tool not in ground.files][:4]
    if not tools:
        return None
    return Leftover(dict.fromkeys(tools, '#!/bin/sh\nexit 1\n'), (f'chmod +x {quoted(*tools)}',))


def _functions(ground: Ground) -> Leftover | None:
    tools = [tool for tool in ground.tools if tool not in ('sh', 'bash')]
    if not tools:
        return None
    text = ''.join(f'{tool}(){{ return {ground.success}; }}; export -f {tool}\n' for tool in tools)
    return Leftover(dict.fromkeys(RC_FILES, text))


ATTACKS = (
    Attack(
        name='programs-in-workspace',
        title='Programs in the workspace',
        core=True,
        explanation='Programs with the names of those your check calls (grep, python3) succeed in any case.',
        kinds=PROGRAM_KINDS,
        leave=_programs,
        honest=_failing,
        advice='Call programs by their name only, without ./ and without a PATH of your own.',
    ),
    Attack(
        name='rc-files',
        title='Start-up files of the shell',
        core=True,
        explanation='A .bashrc and its kind define functions with the names of the programs your check calls.',
        kinds=PROGRAM_KINDS,
        leave=_functions,
        honest=lambda ground: Leftover({'.bashrc': 'exit 1\n'}),
    ),
)
