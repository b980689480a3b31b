"""Where Python looks for modules while a command is checked: the workspace comes after the standard library.

A file ``json.py`` that the candidate left cannot stand in for the real one in the author's code (``python3 -c``,
``python3 -m`` and protected scripts). Programs of the candidate find their modules as ever.
"""

import os
import sys


def _folder() -> str:
    """The folder that Python would have put first (it does not, in safe-path mode)."""
    arguments = list(sys.orig_argv[1:])
    while arguments:
        argument = arguments.pop(0)
        if argument in ('-c', '-m') or argument[:2] in ('-c', '-m'):
            return os.getcwd()
        if argument in ('-W', '-X'):
            arguments = arguments[1:]
        elif not argument.startswith('-') or argument == '-':
            return os.getcwd() if argument == '-' else os.path.dirname(os.path.realpath(argument))
    return os.getcwd()


def _script() -> str:
    for argument in sys.orig_argv[1:]:
        if argument[:2] in ('-c', '-m') or argument == '-':
            return ''
        if not argument.startswith('-'):
            return os.path.realpath(argument)
    return ''


_here = _folder()
_root = os.path.realpath(os.environ.get('RLVR_WORKSPACE', '/work'))
_protected = [f'{_root}/{path}' for path in os.environ.get('RLVR_PROTECTED', '').split(':')]
sys.path[:] = [path for path in sys.path if path != os.path.dirname(__file__)]
if not _script() or _script() in _protected:
    sys.path.append(_here)
else:
    sys.path.insert(0, _here)
