"""Runs a ``script`` checker and turns each way it can end into one outcome (see ``trainer.checkers.script``)."""

from __future__ import annotations

import math
import re
import secrets
from typing import Any, Final

from trainer.checkers.base import CheckContext
from trainer.checkers.blame import without_candidate
from trainer.checkers.private_run import run_privately
from trainer.checkers.steady import deciding_files, fingerprint
from trainer.errors import CheckerError
from trainer.sandbox.protocol import ExecResult, Sandbox
from trainer.verdict import Item, Verdict

MODULES: Final = ('watch', 'integrity', 'script_runner')
MAX_SHELL_SCRIPT: Final = 120_000
_NUMBER: Final = re.compile(r'[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)', re.A | re.I)


def check_script(
    script: str, shell: tuple[str, ...], timeout_s: float, context: CheckContext, *, explicit: bool
) -> Verdict:
    """Run the author's script over the workspace; ``explicit`` says that the author listed what to protect.

    Raises ``CheckerError`` or ``SandboxError``.
    """
    deciding = deciding_files(script, context.protected, explicit=explicit)
    if shell:
        return _check_shell(script, shell, timeout_s, context, deciding)
    request = {'script': script, 'trusted': sorted(context.protected)}

    def run(sandbox: Sandbox) -> tuple[ExecResult, dict[str, Any]]:
        nonce = secrets.token_hex(16)
        result, said = run_privately(sandbox, MODULES, {**request, 'nonce': nonce}, timeout_s=timeout_s)
        return result, _sealed(said, nonce)

    with context.open_sandbox() as sandbox:
        before = fingerprint(sandbox, deciding)
        result, said = run(sandbox)
        changed = fingerprint(sandbox, deciding) != before

    def changes(sandbox: Sandbox) -> bool:
        before = fingerprint(sandbox, deciding)
        run(sandbox)
        return fingerprint(sandbox, deciding) != before

    if changed and not without_candidate(context, f'changes\0{script}', changes):
        return _changed(deciding, result)
    if not said:
        how = _how_it_ended(result, timeout_s)
        if without_candidate(context, f'{script}\0{timeout_s}', lambda sandbox: not run(sandbox)[1]):
            raise CheckerError(
                f"The script {how}, also without the model's files",
                hint='Make the script end by itself, or raise the time limit of the checker.',
                output=result.text,
            )
        return Verdict.scored(0.0, f'the script {how}', output=result.text)
    return _verdict(said, result)


def _sealed(said: list[dict[str, Any]], nonce: str) -> dict[str, Any]:
    """The runner's own report, by the number that only it was given; empty where there is none."""
    own = [part for part in said if part.pop('nonce', None) == nonce]
    if len(own) < len(said):
        return {'tampered': 'forged: a false report was written'}
    return own[-1] if own else {}


def read_number(line: str, output: str = '') -> float | None:
    """The reward on a line: a number in [0, 1]; ``None`` if the line is no number. Raises ``CheckerError``."""
    text = line.strip()
    if not _NUMBER.fullmatch(text):
        parts = re.split(r'[\s,;]+', text)
        if len(parts) > 1 and all(_NUMBER.fullmatch(part) for part in parts):
            raise CheckerError(f'The last line holds several numbers: {_short(text)}', hint=_ONE, output=output)
        return None
    value = float(text)
    if not math.isfinite(value):
        raise CheckerError(f'The reward is not a finite number: {_short(text)}', hint=_ONE, output=output)
    if not 0.0 <= value <= 1.0:
        raise CheckerError(
            f'The reward is out of range: {_short(text)} is not between 0 and 1', hint=_ONE, output=output
        )
    return abs(value)


_ONE: Final = 'Print one number from 0 to 1 as the last line; it is never clamped.'


def _verdict(said: dict[str, Any], result: ExecResult) -> Verdict:
    output = result.text
    if said.get('tampered'):
        return Verdict.scored(0.0, str(said['tampered']), output=output, tampered=True)
    if 'author_error' in said:
        text = str(said['author_error'])
        raise CheckerError(text[:1].upper() + text[1:], output=output)
    if said.get('by_candidate'):
        return Verdict.scored(0.0, "the model's code ended the script", output=output)
    if said.get('ended') == 'exception':
        where = f' in line {said["line"]}' if said.get('line') else ''
        raise CheckerError(
            f'The script raised {said.get("said")}{where}',
            hint='Catch what a wrong workspace can cause and print 0.',
            output=output,
        )
    code = said.get('code') or 0
    return _reward(str(said.get('last', '')), int(code), said.get('ended') == 'exit', str(said.get('said', '')), output)


def _reward(last: str, code: int, exited: bool, message: str, output: str) -> Verdict:
    if code not in (0, 1):
        raise CheckerError(
            f'The script exited with {code}', hint='Exit with 0 for a reward of 1.0 or with 1 for 0.0.', output=output
        )
    number = read_number(last, output) if last else None
    if number is not None:
        if code and number > 0:
            raise CheckerError(
                f'The script printed {_short(last)} and exited with 1',
                hint='Print a reward or exit with 1.',
                output=output,
            )
        return _scored(number, f'the script printed {_short(last.strip())}', output)
    if code:
        return _scored(0.0, message or _short(last) or 'the script exited with 1', output)
    if last and not exited:
        raise CheckerError(f'The last line is not a number: {_short(last)}', hint=_ONE, output=output)
    return _scored(1.0, _short(last) or 'the script exited with 0', output)


def _scored(reward: float, reason: str, output: str) -> Verdict:
    return Verdict.scored(
        reward, reason, items=(Item(name='script', passed=reward >= 1.0, detail=reason),), output=output
    )


def _changed(deciding: tuple[str, ...], result: ExecResult) -> Verdict:
    reason = f'a file the check decides by was changed during the check: {", ".join(deciding)}'
    return Verdict.scored(0.0, reason, output=result.text, tampered=True)


def _check_shell(
    script: str, shell: tuple[str, ...], timeout_s: float, context: CheckContext, deciding: tuple[str, ...]
) -> Verdict:
    if len(script.encode('utf-8', 'surrogatepass')) > MAX_SHELL_SCRIPT:
        raise CheckerError(f'A shell script has at most {MAX_SHELL_SCRIPT} bytes', hint='Write it in Python.')

    def run(sandbox: Sandbox) -> ExecResult:
        return sandbox.run([*shell, '-c', script, 'checker'], timeout_s=timeout_s)

    with context.open_sandbox() as sandbox:
        before = fingerprint(sandbox, deciding)
        result = run(sandbox)
        changed = fingerprint(sandbox, deciding) != before

    def changes(sandbox: Sandbox) -> bool:
        before = fingerprint(sandbox, deciding)
        run(sandbox)
        return fingerprint(sandbox, deciding) != before

    if changed and not without_candidate(context, f'changes\0{script}', changes):
        return _changed(deciding, result)
    if _ended_early(result):
        how = _how_it_ended(result, timeout_s)
        if without_candidate(context, f'{script}\0{timeout_s}', lambda sandbox: _ended_early(run(sandbox))):
            raise CheckerError(f"The script {how}, also without the model's files", output=result.text)
        return Verdict.scored(0.0, f'the script {how}', output=result.text)
    if result.exit_code == 127 and result.output.startswith(shell[0].encode()) and b'not found' in result.output[:80]:
        raise CheckerError(f'command not found: {shell[0]}', output=result.text)
    code_lines = [line.strip() for line in script.splitlines() if line.strip() and not line.strip().startswith('#')]
    prints = bool(code_lines) and re.match(r'(?:echo|printf)\b', code_lines[-1]) is not None
    lines = [line for line in result.text.splitlines() if line.strip()]
    return _reward(lines[-1] if prints and lines else '', result.exit_code or 0, not prints, '', result.text)


def _ended_early(result: ExecResult) -> bool:
    return result.exit_code is None or result.exit_code < 0


def _how_it_ended(result: ExecResult, timeout_s: float) -> str:
    if result.timed_out:
        return f'timed out after {timeout_s:g} s'
    if result.out_of_memory:
        return 'ran out of memory'
    if result.exit_code is not None and result.exit_code < 0:
        return f'was ended by signal {-result.exit_code}'
    return 'ended before it reported'


def _short(text: str) -> str:
    return text if len(text) <= 120 else f'{text[:117]}...'
