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
from collections.abc import Callable
from typing import Any

from trainer.checkers.inside.integrity import Snapshot
from trainer.checkers.inside.watch import Origin, bake, guard_signals, install

FILE = '<checker>'


def main(request: dict[str, Any], send: Callable[[bytes], None]) -> None:
    """Answer one request: ``send`` gets one JSON object when the script is over."""
    script = request['script']
    # Out of the reach of what runs below: a report without it is somebody else's.
    nonce = request.pop('nonce')
    root = os.getcwd()
    try:
        code = compile(script, FILE, 'exec', dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, 'lineno', None)
        where = f' in line {line}' if line else ''
        problem = f'the script is not valid Python{where}: {error}'
        send(json.dumps({'author_error': problem, 'nonce': nonce}).encode())
        return
    linecache.cache[FILE] = (len(script), None, script.splitlines(keepends=True), FILE)
    sys.path.append(root)
    sys.argv = ['checker.py']
    origin = Origin({FILE, *(f'{root}/{path}' for path in request['trusted'])}, request['site'])
    words = _Words(origin)
    guard_signals(origin)
    tampered: list[str] = []
    snapshot = Snapshot(origin)
    install(origin, tampered.append)
    report = _run(code, script.splitlines(), words, root)
    if origin.candidate_modules():
        tampered += [f'{what} was changed' for what in (snapshot.changed(), words.changed()) if what]
    report.update(last=words.last_line(), tampered=f'forged: {tampered[0]}' if tampered else '')
    if os.getpid() == words.owner:
        send(json.dumps({**report, 'nonce': nonce}).encode())


def _run(code: types.CodeType, lines: list[str], words: _Words, root: str) -> dict[str, Any]:
    """Run the script; return how it ended."""
    space = {'__name__': '__main__', '__file__': f'{root}/checker.py', 'exit': sys.exit, 'quit': sys.exit}
    try:
        exec(code, {**space, 'print': words.print})
    except SystemExit as error:
        text = error.code if isinstance(error.code, str) else ''
        plain = isinstance(error.code, int | None)
        report = {'ended': 'exit', 'code': int(error.code or 0) if plain else 1, 'said': text[:400]}
        return {**report, 'by_candidate': not _is_own_exit(error, words.origin, lines)}
    except BaseException as error:
        traceback.print_exc()
        return {'ended': 'exception', 'said': f'{type(error).__name__}: {error}'[:400], 'line': _line(error)}
    return {'ended': 'end'}


def _is_own_exit(error: SystemExit, origin: Origin, lines: list[str]) -> bool:
    """Whether the script (or a library it called) asked to exit, and no code of the candidate."""
    trace, frame, line = error.__traceback__, None, 0
    while trace is not None:
        frame, line = trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next
    if frame is None or origin.is_candidate(frame.co_filename):
        return False
    # A function of the candidate may be sys.exit under another name: the line itself has to say what it does.
    return frame.co_filename != FILE or any(word in lines[line - 1] for word in ('exit', 'quit', 'SystemExit'))


def _line(error: BaseException) -> int | None:
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class _Words:
    """What the script itself printed, by ``print`` or on standard output."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.owner = os.getpid()
        self._printed: list[str] = []
        self._real = sys.stdout
        parts = {'printed': self._printed, 'real': self._real}
        _Log.write = bake(_write, origin=origin, getframe=sys._getframe, file=FILE, **parts)  # type: ignore[method-assign]
        self._write = _Log.write
        self._log = _Log(self._real)
        self.print = bake(_print, log=self._log, text=str, plain=print, **parts)
        sys.stdout = self._log

    def last_line(self) -> str:
        """The last line that is not empty."""
        lines = [line for line in ''.join(self._printed).splitlines() if line.strip()]
        return lines[-1][:400] if lines else ''

    def changed(self) -> str:
        """Name what was changed on the way from the script to here, or return an empty text."""
        same = sys.stdout is self._log and _Log.write is self._write
        return '' if same else 'sys.stdout'


class _Log(io.TextIOBase):
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

    def reconfigure(self, **options: Any) -> None:
        """Change how text is encoded in the log."""
        self._real.reconfigure(**options)


def _print(*values: Any, sep: Any = ' ', end: Any = '\n', file: Any = None, flush: bool = False) -> None:
    log: Any = '@log'
    printed: Any = '@printed'
    real: Any = '@real'
    text: Any = '@text'
    if file is not None and file is not log:
        plain: Any = '@plain'
        plain(*values, sep=sep, end=end, file=file, flush=flush)
        return
    words = [text(value) for value in values]
    line = (' ' if sep is None else sep).join(words) + ('\n' if end is None else end)
    printed.append(line)
    printed[:] = printed[-1000:]
    real.write(line)
    real.flush()


def _write(self: Any, text: str) -> int:
    printed: Any = '@printed'
    origin: Any = '@origin'
    real: Any = '@real'
    getframe: Any = '@getframe'
    frame = getframe(1)
    while frame is not None and origin.is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename == '@file':
        printed.append(text)
        printed[:] = printed[-1000:]
    written: int = real.write(text)
    real.flush()
    return written
