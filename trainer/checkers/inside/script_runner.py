"""Runs the author's script and reports what it printed and how it ended over the private channel.

What the script itself prints is collected here; what its children and the candidate's modules print goes to the log.
The report is written when the script is over: a process that is ended before reports nothing.
"""

from __future__ import annotations

import io
import json
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any

from trainer.checkers.inside.integrity import Snapshot
from trainer.checkers.inside.watch import Origin, bake, guard_signals, install

FILE = '<checker>'
KEPT_CHARS = 64 * 1024


def main(request: Mapping[str, Any], send: Callable[[bytes], None]) -> None:
    """Answer one request: ``send`` gets one JSON object when the script is over."""
    script = request['script']
    root = os.getcwd()
    try:
        code = compile(script, FILE, 'exec', dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, 'lineno', None)
        where = f' in line {line}' if line else ''
        send(json.dumps({'author_error': f'the script is not valid Python{where}: {error}'}).encode())
        return
    linecache.cache[FILE] = (len(script), None, script.splitlines(keepends=True), FILE)
    sys.path.append(root)
    sys.argv = ['checker.py']
    sys.modules['__main__'] = types.ModuleType('__main__')
    author = {FILE, *(f'{root}/{path}' for path in request['trusted'])}
    origin = Origin(author, request['site'])
    printed: list[str] = []
    tampered: list[str] = []
    real = sys.stdout
    sys.stdout = _OwnWords(real)
    _OwnWords.write = bake(_write, printed=printed, real=real, origin=origin)  # type: ignore[method-assign]
    guard_signals(origin)
    snapshot = Snapshot(origin)
    install(origin, tampered.append)
    _run(code, origin, printed, tampered, snapshot, send, os.getpid())


def _run(
    code: types.CodeType,
    origin: Origin,
    printed: list[str],
    tampered: list[str],
    snapshot: Snapshot,
    send: Callable[[bytes], None],
    owner: int,
) -> None:
    space = {'__name__': '__main__', '__file__': f'{os.getcwd()}/checker.py', '__builtins__': __builtins__}
    space.update(exit=sys.exit, quit=sys.exit)
    report: dict[str, Any] = {}
    try:
        exec(code, space)  # noqa: S102 - the author's script
        report = {'ended': 'end'}
    except SystemExit as error:
        report = {'ended': 'exit', 'code': error.code if isinstance(error.code, int | None) else 1}
        if not isinstance(error.code, int | None):
            report['said'] = str(error.code)[:400]
        if origin.is_candidate(_innermost(error)):
            report['by_candidate'] = True
    except BaseException as error:
        traceback.print_exc()
        report = {'ended': 'exception', 'said': f'{type(error).__name__}: {error}'[:400], 'line': _line(error)}
    changed = snapshot.changed()
    if changed and origin.candidate_modules():
        tampered.append(f'{changed} was changed')
    lines = [line for line in ''.join(printed).splitlines() if line.strip()]
    report.update(last=lines[-1][:400] if lines else '', tampered=f'forged: {tampered[0]}' if tampered else '')
    if os.getpid() == owner:
        send(json.dumps(report).encode())
    sys.stderr.flush()


def _innermost(error: BaseException) -> str:
    trace = error.__traceback__
    file = FILE
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return file


def _line(error: BaseException) -> int | None:
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class _OwnWords(io.TextIOBase):
    """Standard output: everything goes to the log, and the script's own words are kept."""

    encoding = 'utf-8'

    def __init__(self, real: Any) -> None:
        self._real = real
        self.buffer = real.buffer

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The log's descriptor, which children inherit."""
        return int(self._real.fileno())

    def flush(self) -> None:
        """Write out what is buffered, so that the order of lines in the log is right."""
        self._real.flush()


def _write(self: _OwnWords, text: str) -> int:
    printed: Any = '@printed'
    origin: Any = '@origin'
    real: Any = '@real'
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and origin.is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename == FILE:
        printed.append(text)
        if len(printed) > KEPT_CHARS:
            printed[:] = [''.join(printed)[-KEPT_CHARS:]]
    written: int = real.write(text)
    real.flush()
    return written
