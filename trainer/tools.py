"""The four tools of the terminal environment: the schemas a model is shown and what each call answers (spec section 2).

The text of an answer is part of the policy's input, so it is defined here once: rollouts, replays of solutions,
demonstrations and the playground all show a model the same words.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from trainer.sandbox.protocol import ExecResult, PathRefused, Sandbox

TOOL_TIMEOUT_S: Final = 30.0
MAX_ANSWER_CHARS: Final = 8_000
MAX_READ_BYTES: Final = 1024 * 1024


class ToolCall(BaseModel):
    """One call as a model or an author asked for it. The arguments may be wrong; ``call_tool`` says so."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class ToolResult(BaseModel):
    """What a call answered: ``text`` is exactly what the model is shown.

    ``ok`` is false when the call could not be carried out (its text then starts with ``error: ``); a command that ran
    and failed is ``ok``, its ``exit_code`` says how it ended (``None`` when a limit ended it, or for other tools).
    """

    model_config = ConfigDict(frozen=True, extra='forbid')

    text: str
    ok: bool = True
    exit_code: int | None = None
    timed_out: bool = False
    duration_ms: int = Field(default=0, ge=0)
    met_limit: bool = False
    """Whether a limit of time, memory or files ended it."""
    shared: bool = False
    """Whether it was another attempt's call, of the same history, that was answered so."""


def call_tool(sandbox: Sandbox, name: str, args: Mapping[str, Any], *, timeout_s: float = TOOL_TIMEOUT_S) -> ToolResult:
    """Carry out one call and answer in text, whatever is wrong with it.

    Raises ``SandboxError`` only when the sandbox itself is broken, which is no mistake of the model.
    """
    started = time.monotonic()
    try:
        checked = _checked(name, args)
        result = _TOOLS[name](sandbox, checked, timeout_s)
    except (_Mistake, PathRefused) as error:
        result = ToolResult(text=_readable(f'error: {error}'), ok=False)
    return result.model_copy(update={'duration_ms': round((time.monotonic() - started) * 1000)})


def _schema(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {'type': 'string', 'description': text} for key, text in parameters.items()}
    return {
        'type': 'function',
        'function': {
            'name': name,
            'description': description,
            'parameters': {'type': 'object', 'properties': properties, 'required': list(parameters)},
        },
    }


TOOL_SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    _schema('run_command', 'Run a shell command in the workspace.', command='The command line.'),
    _schema('read_file', 'Read a text file of the workspace.', path='Path relative to the workspace.'),
    _schema(
        'write_file',
        'Write a text file, replacing it if it exists.',
        path='Path relative to the workspace.',
        content='The whole new content.',
    ),
    _schema('list_dir', 'List a folder of the workspace.', path='Path relative to the workspace.'),
)
"""Tool schemas in the JSON form chat templates take, in the order every prompt lists them."""

TOOL_NAMES: Final = tuple(schema['function']['name'] for schema in TOOL_SCHEMAS)


class _Mistake(Exception):
    """A call that no tool can carry out; the text tells the model what to change."""


def _checked(name: str, args: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(name, str) or name not in _PARAMETERS:
        raise _Mistake(f'there is no tool {name!r}; the tools are {", ".join(TOOL_NAMES)}')
    wanted = _PARAMETERS[name]
    if not isinstance(args, Mapping) or any(key not in args for key in wanted) or len(args) != len(wanted):
        raise _Mistake(f'{name} takes exactly the arguments {", ".join(wanted)}')
    for key in wanted:
        if not isinstance(args[key], str):
            raise _Mistake(f'{key} of {name} has to be a string')
    return dict(args)


def _run_command(sandbox: Sandbox, args: dict[str, str], timeout_s: float) -> ToolResult:
    done = sandbox.run(args['command'], timeout_s=timeout_s)
    output = _readable(done.text)
    ending = _ending(done, timeout_s, silent=not output)
    if ending and output and not output.endswith('\n'):
        output += '\n'
    return ToolResult(
        text=_cut(output + ending, done.cut_bytes),
        exit_code=done.exit_code,
        timed_out=done.timed_out,
        met_limit=done.exit_code is None,
    )


def _read_file(sandbox: Sandbox, args: dict[str, str], timeout_s: float) -> ToolResult:
    data = sandbox.read_file(args['path'], limit=MAX_READ_BYTES + 1)
    text = data[:MAX_READ_BYTES].decode('utf-8', errors='replace')
    if len(data) > MAX_READ_BYTES:
        text += f'\n[… only the first {MAX_READ_BYTES} bytes were read …]'
    return ToolResult(text=_cut(text))


def _write_file(sandbox: Sandbox, args: dict[str, str], timeout_s: float) -> ToolResult:
    data = args['content'].encode('utf-8', errors='replace')
    sandbox.write_file(args['path'], data)
    return ToolResult(text=_readable(f'wrote {len(data)} bytes to {args["path"]}'))


def _list_dir(sandbox: Sandbox, args: dict[str, str], timeout_s: float) -> ToolResult:
    names = sandbox.list_dir(args['path'])
    return ToolResult(text=_cut(_readable('\n'.join(names))) or '(empty)')


_TOOLS: Final[Mapping[str, Callable[[Sandbox, dict[str, str], float], ToolResult]]] = {
    'run_command': _run_command,
    'read_file': _read_file,
    'write_file': _write_file,
    'list_dir': _list_dir,
}
_PARAMETERS: Final = {
    schema['function']['name']: tuple(schema['function']['parameters']['required']) for schema in TOOL_SCHEMAS
}


def _ending(done: ExecResult, timeout_s: float, *, silent: bool) -> str:
    """Return the last line of a command's answer; none after output and success."""
    if done.timed_out:
        return f'[timed out after {timeout_s:g} s]'
    if done.out_of_memory:
        return '[stopped: out of memory]'
    if done.too_many_files:
        return '[stopped: too many files in the workspace]'
    if done.exit_code == 0 and not silent:
        return ''
    return f'[exit code {done.exit_code}]'


_ESCAPES: Final = re.compile(
    r'\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])'
)
_CONTROLS: Final = re.compile(r'[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]')


def _readable(text: str) -> str:
    """Drop terminal escapes; replace control characters and what is not valid Unicode."""
    text = text.encode('utf-16', errors='surrogatepass').decode('utf-16', errors='replace')
    return _CONTROLS.sub('\N{REPLACEMENT CHARACTER}', _ESCAPES.sub('', text))


def _cut(text: str, already: int = 0) -> str:
    """Keep head and tail of a long answer, with a mark that counts what is missing (``already`` is gone before)."""
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    # The mark's own length depends on the number in it; 64 characters are enough for any.
    half = (MAX_ANSWER_CHARS - 64) // 2
    return f'{text[:half]}\n[… {len(text) - 2 * half + already} characters cut …]\n{text[-half:]}'
