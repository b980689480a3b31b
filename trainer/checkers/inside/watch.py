"""The audit hook: refuses the candidate's code what only a forger needs, and remembers that it was tried.

An audit hook cannot be removed. Responsible for an event is the nearest caller whose file is not of the standard
library: logging and namedtuple may look at frames, a module in the workspace may not. Signal handlers of the candidate
get no frame.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

TRICKS = frozenset(
    (
        'sys._getframe',
        'sys._current_frames',
        'sys._current_exceptions',
        'sys.settrace',
        'sys.setprofile',
        'sys.addaudithook',
        'sys.monitoring.register_callback',
        'gc.get_objects',
        'gc.get_referrers',
        'gc.get_referents',
        'code.__new__',
        'marshal.loads',
        'marshal.load',
        'ctypes.dlopen',
        'ctypes.dlsym',
        'ctypes.cdata',
        'ctypes.cdata/buffer',
        'ctypes.string_at',
        'ctypes.call_function',
        'object.__getattr__',
        'object.__setattr__',
        'object.__delattr__',
        'import',
        'compile',
        'open',
    )
)
FRAME_ATTRIBUTES = frozenset(('tb_frame', 'gi_frame', 'cr_frame', 'ag_frame'))
FRAME_FUNCTIONS = frozenset(('currentframe', '<lambda>', 'stack', 'getouterframes'))
"""Functions of the standard library that hand a frame to whoever calls them."""
NATIVE_MODULES = frozenset(
    (
        '_ctypes',
        'ctypes',
        '_testcapi',
        '_testinternalcapi',
        '_xxsubinterpreters',
        '_xxinterpchannels',
        '_interpreters',
        '_cffi_backend',
        'cffi',
        'readline',
    )
)


class Refused(RuntimeError):
    """What the candidate's code gets when it reaches for the checker's own process."""


def bake(function: Callable[..., Any], **values: object) -> Callable[..., Any]:
    """A copy of a function with placeholder constants (``'@name'``) replaced by objects.

    Unlike a closure, an attribute or a global name, a constant of a code object is out of reach of the candidate's
    code. The copy has no global names but builtins of its own: whatever it needs is baked in.
    """
    assert isinstance(function, types.FunctionType)
    code = bake_code(function.__code__, {f'@{name}': value for name, value in values.items()})
    space = {'__name__': 'checker', '__builtins__': dict(vars(builtins))}
    baked = types.FunctionType(code, space, function.__name__, function.__defaults__)
    baked.__kwdefaults__ = function.__kwdefaults__
    return baked


def bake_code(code: types.CodeType, names: dict[str, object]) -> types.CodeType:
    """A copy of a code object, and of those inside it, with placeholder constants replaced."""
    constants: list[object] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            constants.append(bake_code(constant, names))
        elif type(constant) is str and constant in names:
            constants.append(names[constant])
        else:
            constants.append(constant)
    return code.replace(co_consts=tuple(constants))


class Origin:
    """Says of a file name whether code in it is the library's, the author's or the candidate's."""

    def __init__(self, author: Iterable[str], trusted: Iterable[str]) -> None:
        self.author = frozenset(author)
        root = f'{os.getcwd()}/'
        folders = {os.path.dirname(os.__file__), *trusted, *(path for path in sys.path if path)}
        self.library = tuple(sorted(f'{folder}/' for folder in folders if not f'{folder}/'.startswith(root)))

    def candidate_modules(self) -> bool:
        """Whether a module of the candidate was imported."""
        files = (getattr(module, '__file__', None) for module in list(sys.modules.values()))
        return any(isinstance(file, str) and self.is_candidate(file) for file in files)

    def is_library(self, filename: str) -> bool:
        """Standard library, pytest, installed packages, and the runner itself."""
        return filename.startswith(('<frozen ', '<rlvr', '<__array_function__')) or filename.startswith(self.library)

    def is_candidate(self, filename: str) -> bool:
        """A file of the workspace that the author did not write, or code made from text."""
        return filename not in self.author and not self.is_library(filename)


def install(origin: Origin, tried: Callable[[str], object]) -> None:
    """Watch from now on; ``tried`` is called with what the candidate's code attempted."""
    baked = bake(
        _hook,
        origin=origin,
        tried=tried,
        busy=[],
        getframe=sys._getframe,
        tricks=TRICKS,
        judge=_problem,
        refused=Refused,
    )
    sys.addaudithook(baked)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    tricks: Any = '@tricks'
    busy: Any = '@busy'
    if event not in tricks or busy:
        return
    getframe: Any = '@getframe'
    judge: Any = '@judge'
    busy.append(True)
    try:
        problem = judge(event, arguments, getframe(1), '@origin')
    finally:
        busy.pop()
    if problem:
        tried: Any = '@tried'
        tried(problem)
        refused: Any = '@refused'
        raise refused(f'{problem} is refused while the checker runs')


def _problem(event: str, arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    """Name what is wrong with an event, or return an empty text."""
    judge = _JUDGES.get(event)
    if judge is not None:
        return judge(arguments, frame, origin)
    direct = origin.is_candidate(frame.f_code.co_filename)
    return event if direct else ''


def _judge_frame(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    if origin.is_candidate(frame.f_code.co_filename):
        return 'sys._getframe'
    caller = frame.f_back
    if frame.f_code.co_name in FRAME_FUNCTIONS and caller and origin.is_candidate(caller.f_code.co_filename):
        return 'reading frames'
    return 'reading frames' if frame.f_code.co_name == 'walk_stack' and _responsible(frame, origin) else ''


def _judge_attribute(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    owner, name = arguments[0], arguments[1]
    if name in FRAME_ATTRIBUTES:
        return name if origin.is_candidate(frame.f_code.co_filename) else ''
    if name in ('__code__', '__defaults__', '__kwdefaults__') and origin.is_candidate(frame.f_code.co_filename):
        code = owner.__code__ if isinstance(owner, types.FunctionType) else None
        return '' if code is not None and origin.is_candidate(code.co_filename) else f'{name} of a function not its own'
    return ''


def _judge_import(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    name, filename = arguments[0], arguments[1]
    if isinstance(filename, str) and filename.endswith('.so') and not origin.is_library(filename):
        return f'loading the extension module {os.path.basename(filename)}'
    if name in NATIVE_MODULES and name not in sys.modules and _responsible(frame, origin):
        return f'import {name}'
    return ''


def _judge_compile(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    source, filename = arguments[0], arguments[1]
    if isinstance(filename, bytes):
        filename = os.fsdecode(filename)
    if not isinstance(filename, str) or origin.is_candidate(filename):
        return ''
    if origin.is_candidate(frame.f_code.co_filename):
        return 'compiling code under a false file name'
    if 'importlib' in frame.f_code.co_filename and isinstance(source, bytes) and filename.startswith('/'):
        with open(filename, 'rb') as file:
            return '' if file.read() == source else 'compiling code under a false file name'
    return ''


def _judge_code(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    return 'making code objects' if origin.is_candidate(frame.f_code.co_filename) else ''


def _judge_marshal(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    if origin.is_candidate(frame.f_code.co_filename):
        return 'marshal'
    caller = frame.f_back
    if 'importlib' not in frame.f_code.co_filename or caller is None:
        return ''
    path = caller.f_locals.get('bytecode_path') or caller.f_locals.get('path')
    known = isinstance(path, str) and (path in origin.author or origin.is_library(path))
    return '' if known or not isinstance(path, str) else 'loading compiled code'


def _judge_trace(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    return 'tracing' if _responsible(frame, origin) else ''


def _judge_open(arguments: tuple[Any, ...], frame: types.FrameType, origin: Origin) -> str:
    path = arguments[0]
    if not isinstance(path, str | bytes):
        return ''
    text = os.fsdecode(path)
    return 'reading process memory' if text.startswith('/proc/') and text.endswith('/mem') else ''


_JUDGES: dict[str, Callable[[tuple[Any, ...], types.FrameType, Origin], str]] = {
    'sys._getframe': _judge_frame,
    'object.__getattr__': _judge_attribute,
    'object.__setattr__': _judge_attribute,
    'object.__delattr__': _judge_attribute,
    'import': _judge_import,
    'compile': _judge_compile,
    'code.__new__': _judge_code,
    'marshal.loads': _judge_marshal,
    'marshal.load': _judge_marshal,
    'sys.settrace': _judge_trace,
    'sys.setprofile': _judge_trace,
    'open': _judge_open,
}


def _responsible(frame: types.FrameType | None, origin: Origin) -> bool:
    """Whether the nearest caller outside the standard library is the candidate."""
    while frame is not None and origin.is_library(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith('<rlvr') or '/_pytest/' in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return frame is not None and origin.is_candidate(frame.f_code.co_filename)


def guard_signals(origin: Origin) -> None:
    """Let signal handlers of the candidate run, but without the frame they would get; done before any snapshot."""
    module: Any = importlib.import_module('_signal')
    wrapped: dict[Any, Any] = {}
    known = {'origin': origin, 'wrapped': wrapped, 'attribute': getattr, 'is_callable': callable}
    setter = bake(_signal_without_frame, original=module.signal, **known)
    module.signal = setter
    module.getsignal = bake(_getsignal, original=module.getsignal, wrapped=wrapped)


def _signal_without_frame(number: int, handler: Any) -> Any:
    original: Any = '@original'
    origin: Any = '@origin'
    wrapped: Any = '@wrapped'
    attribute: Any = '@attribute'
    is_callable: Any = '@is_callable'
    code = attribute(handler, '__code__', None)
    author = code is not None and code.co_filename in origin.author
    if not is_callable(handler) or author:
        before = original(number, handler)
    else:

        def without_frame(received: int, frame: Any) -> Any:
            return handler(received, None)

        wrapped[without_frame] = handler
        before = original(number, without_frame)
    return wrapped.get(before, before)


def _getsignal(number: int) -> Any:
    original: Any = '@original'
    wrapped: Any = '@wrapped'
    now = original(number)
    return wrapped.get(now, now)
