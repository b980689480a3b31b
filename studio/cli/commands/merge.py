"""``rlvr merge``: an adapter written into its base model, in the foreground, with how far the result is from both."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import typer
from pydantic import ValidationError

from studio.adapters.use import AdapterSource, read_source
from studio.cli.commands.output import print_json, say
from studio.side_jobs.process import SideProcess, how_it_ended
from trainer.errors import ConfigError, FieldError
from trainer.merged_model import Dtype, MergedModel
from trainer.runfolder import RunFolder
from trainer.side_work import GIVEN_UP, REPORT, Done, Failed, Progress


def merge(adapter: Path, *, out: Path, dtype: str, model: str, as_json: bool) -> int:
    """Merge to the end; 0 done, 1 failed, 130 given up. Raises ``ConfigError`` for what cannot be merged."""
    kind = _dtype(dtype)
    source = _source(adapter, model)
    lines: SimpleQueue[bytes | int] = SimpleQueue()
    arguments = ['--model', source.model, '--adapter', str(source.folder.resolve()), '--out', str(out.resolve())]
    arguments += ['--dtype', kind, *(['--tasks', str(source.tasks.resolve())] if source.tasks else [])]
    process = SideProcess('trainer.merge', arguments, on_line=lines.put, on_end=lines.put)
    try:
        return _follow(lines, process, out, as_json=as_json)
    except KeyboardInterrupt:
        process.end()
        say('Given up; nothing is left of it')
        return GIVEN_UP


def _follow(lines: SimpleQueue[bytes | int], process: SideProcess, out: Path, *, as_json: bool) -> int:
    """Show what the process says until it has ended."""
    told, done = '', None
    while isinstance(line := lines.get(), bytes):
        try:
            report = REPORT.validate_json(line)
        except ValidationError:
            continue
        match report:
            case Progress(text=text) if text != told:
                told = text
                say(text)
            case Done(result=result):
                done = MergedModel.model_validate({name: value for name, value in result.items() if name != 'folder'})
            case Failed(message=message, hint=hint):
                told = message
                say(f'{message}\n{hint}'.strip(), error=True)
    if done is None:
        if line != 1:
            say(f'{how_it_ended(line)[0]}\n{process.tail}', error=True)
        return 1
    if as_json:
        print_json({**done.model_dump(mode='json'), 'folder': str(out.resolve())})
    else:
        typer.echo(f'{done.drift.words}\nMerged model: {out}')
    return 0


def _source(adapter: Path, model: str) -> AdapterSource:
    """An adapter's folder, or that of the run that made it."""
    inside = RunFolder(adapter).adapter
    folder = inside if (inside / 'adapter_config.json').is_file() else adapter
    source = read_source(folder, model=model)
    if not source.model:
        message = 'The adapter does not say what its base model is'
        raise ConfigError(message, [FieldError(loc='model', msg=message)], hint='Name it with --model.')
    return source


def _dtype(name: str) -> Dtype:
    match name:
        case 'float32' | 'bfloat16':
            return name
        case 'bf16':
            return 'bfloat16'
    message = f'{name} is neither float32 nor bfloat16'
    raise ConfigError(message, [FieldError(loc='dtype', msg=message)])
