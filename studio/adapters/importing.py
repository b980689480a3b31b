"""Adapters of others: a zip or a folder becomes the files of a version, or is refused with the path of what is wrong.

Every name is judged before a byte is read, and only known files are taken. Pickles are refused, since loading one runs
code; so are links, paths that lead elsewhere, archives that unpack to much more than they are, anything but LoRA, and
weights whose header does not describe them. What an adapter does to a model is not looked at: its author is trusted
with that, as with any model.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from studio.adapters.files import CONFIG, WEIGHTS
from studio.adapters.safetensors_header import BadHeader, Tensor, read_header
from studio.exchange.archive import BROKEN, MAX_RATIO, RATIO_COUNTS_FROM, is_noise, judge, kind_of
from trainer.errors import ConfigError, FieldError

MAX_ENTRIES: Final = 2_000
MAX_WEIGHTS_BYTES: Final = 16 * 1024**3
MAX_SMALL_BYTES: Final = 64 * 1024**2
PICKLES: Final = frozenset({'.bin', '.pt', '.pth', '.pkl', '.pickle', '.ckpt', '.joblib', '.npy', '.npz'})
TAKEN: Final = frozenset({
    CONFIG, WEIGHTS, 'README.md', 'lineage.json', 'LICENSE', 'chat_template.jinja', 'tokenizer.json',
    'tokenizer_config.json', 'special_tokens_map.json', 'added_tokens.json', 'vocab.json', 'vocab.txt', 'merges.txt',
    'tokenizer.model',
})  # fmt: skip
PIECE: Final = 1024**2
LORA_PARTS: Final = ('.lora_A.', '.lora_B.', '.lora_embedding_A', '.lora_embedding_B', '.lora_magnitude_vector')


class LoraSettings(BaseModel):
    """What of adapter_config.json must hold; the rest is peft's own business and kept as it is."""

    model_config = ConfigDict(extra='ignore', strict=True)

    peft_type: str
    base_model_name_or_path: str = Field(max_length=1000)
    r: int = Field(ge=1, le=4096)
    lora_alpha: float = Field(default=8, ge=0, allow_inf_nan=False)
    target_modules: list[str] | str | None = None
    task_type: str | None = None
    auto_mapping: dict[str, Any] | None = None
    megatron_config: dict[str, Any] | None = None
    modules_to_save: list[str] | None = None

    @field_validator('peft_type')
    @classmethod
    def _only_lora(cls, value: str) -> str:
        if value != 'LORA':
            raise ValueError(f'only LoRA adapters can be imported, not {value[:40]}')
        return value

    @field_validator('base_model_name_or_path')
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError('name the base model: its id on the hub, or its folder')
        return value.strip()

    @field_validator('task_type')
    @classmethod
    def _language_model(cls, value: str | None) -> str | None:
        if value not in (None, 'CAUSAL_LM'):
            raise ValueError(f'must be CAUSAL_LM, not {value[:40]}')
        return value

    @field_validator('megatron_config')
    @classmethod
    def _no_modules(cls, value: object) -> object:
        if value is not None:
            raise ValueError('names a Python module to load: that is refused')
        return value

    @field_validator('auto_mapping')
    @classmethod
    def _only_transformers(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        library = str((value or {}).get('parent_library', 'transformers'))
        if library.split('.')[0] != 'transformers':
            raise ValueError(f'names the Python module {library[:40]} to load: only transformers may be named')
        return value


@dataclass(frozen=True)
class Member:
    """One entry of what is imported, not read yet; ``size`` as declared, ``packed`` in the archive."""

    name: str
    kind: str
    size: int
    packed: int
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Brought:
    """What an import found: its base model, and the files that were left out because nobody needs them."""

    base: str
    left_out: tuple[str, ...]


def bring_in(source: Path, files: Path) -> Brought:
    """Check a zip or a folder and put its adapter into ``files``. Raises ``ConfigError`` with the path of each fault.

    What was written by then is the caller's to remove.
    """
    with _members(source) as members:
        inside = _adapter_of(members)
        wanted = [(path, member) for path, member in inside if _is_taken(path)]
        _refuse_pickles(inside)
        _check_sizes(wanted)
        for path, member in wanted:
            _copy(path, member, files)
    settings = _settings(files / CONFIG)
    _check_lineage(files / 'lineage.json')
    _check_tensors(files / WEIGHTS, settings)
    taken = {id(member) for _, member in wanted}
    others = [member.name for member in members if id(member) not in taken and member.kind == 'file']
    return Brought(settings.base_model_name_or_path, tuple(others))


@contextmanager
def _members(source: Path) -> Iterator[list[Member]]:
    """The entries of a zip or a folder, none of them read."""
    if source.is_dir() and not source.is_symlink():
        yield _of_folder(source)
        return
    try:
        archive = zipfile.ZipFile(source)
    except FileNotFoundError:
        raise _refused('file', f'{source} is not there') from None
    except BROKEN as error:
        raise _refused('file', f'is no readable zip archive: {error}') from None
    with archive:
        infos = [info for info in archive.infolist() if not is_noise(info.filename)]
        encrypted = [info.orig_filename for info in infos if info.flag_bits & 0x1]
        if encrypted:
            raise _refused(encrypted[0], 'is encrypted: unpack it and zip it again without a password')
        yield [
            Member(info.orig_filename, kind_of(info), info.file_size, info.compress_size, _opener(archive, info))
            for info in infos
        ]


def _opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(info)


def _of_folder(source: Path) -> list[Member]:
    found = []
    for folder, names, files in os.walk(source, followlinks=False):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            kinds = ((stat.S_ISLNK, 'link'), (stat.S_ISDIR, 'folder'), (stat.S_ISREG, 'file'))
            kind = next((kind for test, kind in kinds if test(mode)), 'other')
            size = path.lstat().st_size
            shown = path.relative_to(source).as_posix() + ('/' if kind == 'folder' else '')
            found.append(Member(shown, kind, size, size, _file_opener(path)))
            if len(found) > MAX_ENTRIES:
                return found
    return found


def _file_opener(path: Path) -> Callable[[], IO[bytes]]:
    # What was a file a moment ago may be a link by now.
    return lambda: os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), 'rb')


def _adapter_of(members: Sequence[Member]) -> list[tuple[str, Member]]:
    """The files of the folder that the adapter is in, by their path from there."""
    if len(members) > MAX_ENTRIES:
        raise _refused('file', f'holds more than {MAX_ENTRIES:,} entries: an adapter has a few')
    problems = judge([(member.name, member.kind) for member in members])
    faults = [
        FieldError(loc=member.name[:200] or 'file', msg=problem)
        for member, problem in zip(members, problems, strict=True)
        if problem
    ]
    if faults:
        raise ConfigError(f'{faults[0].loc} {faults[0].msg}', faults, hint='Nothing was stored.')
    configs = [member.name for member in members if PurePosixPath(member.name).name == CONFIG]
    if not configs:
        raise _refused(CONFIG, 'is missing: choose the zip or the folder that peft saved')
    if len(configs) > 1:
        raise _refused(configs[1], f'is a second adapter beside {configs[0]}: import one at a time')
    root = str(PurePosixPath(configs[0]).parent)
    prefix = '' if root == '.' else f'{root}/'
    return [
        (str(PurePosixPath(member.name[len(prefix) :])), member)
        for member in members
        if member.kind == 'file' and member.name.startswith(prefix)
    ]


def _refuse_pickles(inside: Sequence[tuple[str, Member]]) -> None:
    for path, member in inside:
        if PurePosixPath(path).suffix.lower() in PICKLES:
            raise _refused(
                member.name,
                'is a pickle, which runs code when it is loaded',
                hint=f'Save the adapter as {WEIGHTS} (peft does so by default), without other pickles beside it.',
            )
    if WEIGHTS not in {path for path, _ in inside}:
        raise _refused(WEIGHTS, f'is missing beside {CONFIG}')


def _is_taken(path: str) -> bool:
    return path in TAKEN or (path.startswith('plots/') and path.count('/') == 1 and path.endswith('.svg'))


def _check_sizes(wanted: Sequence[tuple[str, Member]]) -> None:
    for path, member in wanted:
        limit = MAX_WEIGHTS_BYTES if path == WEIGHTS else MAX_SMALL_BYTES
        if member.size > limit:
            raise _refused(member.name, f'is larger than {limit // 1024**2:,} MB')
        if member.size > RATIO_COUNTS_FROM and member.size > MAX_RATIO * max(member.packed, 1):
            times = member.size // max(member.packed, 1)
            raise _refused(member.name, f'unpacks to {times:,} times its size, as only a zip bomb does')


def _copy(path: str, member: Member, files: Path) -> None:
    """Copy one file, never more of it than was declared."""
    target = files / path
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    try:
        with member.open() as file, target.open('xb') as out:
            while piece := file.read(min(PIECE, left + 1)):
                left -= len(piece)
                if left < 0:
                    break
                out.write(piece)
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, zipfile.BadZipFile):
            raise
        raise _refused(member.name, f'cannot be unpacked: {error}') from None
    if left != 0:
        raise _refused(member.name, 'is not as long as it says')


def _settings(path: Path) -> LoraSettings:
    data = _json(path)
    try:
        return LoraSettings.model_validate(data)
    except ValidationError as error:
        faults = [
            FieldError(loc=f'{CONFIG}: {".".join(map(str, one["loc"]))}', msg=one['msg'].removeprefix('Value error, '))
            for one in error.errors()
        ]
        raise ConfigError(f'{faults[0].loc}: {faults[0].msg}', faults, hint='Nothing was stored.') from None


def _check_lineage(path: Path) -> None:
    if path.exists():
        _json(path)


def _check_tensors(path: Path, settings: LoraSettings) -> None:
    try:
        tensors = read_header(path)
    except BadHeader as error:
        raise _refused(f'{WEIGHTS}: {error.where}' if error.where else WEIGHTS, str(error)) from None
    lora = [tensor for tensor in tensors if any(part in f'{tensor.name}.' for part in LORA_PARTS)]
    if not any('.lora_A.' in tensor.name for tensor in lora):
        raise _refused(WEIGHTS, 'holds no LoRA tensors (names with lora_A and lora_B)')
    saved = tuple(f'.{name}.' for name in settings.modules_to_save or ())
    for tensor in tensors:
        if tensor not in lora and not any(name in tensor.name for name in saved):
            raise _refused(f'{WEIGHTS}: {tensor.name}', 'is no part of a LoRA adapter')
    _check_pairs(lora)


def _check_pairs(lora: Sequence[Tensor]) -> None:
    """Each lora_A [rank, in] needs its lora_B [out, rank]."""
    by_name = {tensor.name: tensor for tensor in lora}
    for name, tensor in by_name.items():
        if '.lora_A.' not in name:
            continue
        other = by_name.get(name.replace('.lora_A.', '.lora_B.'))
        if other is None:
            raise _refused(f'{WEIGHTS}: {name}', 'has no lora_B beside it')
        if len(tensor.shape) < 2 or len(other.shape) < 2 or tensor.shape[0] != other.shape[1]:
            raise _refused(f'{WEIGHTS}: {name}', f'has the shape {tensor.shape}, and its lora_B {other.shape}')


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise _refused(path.name, f'is no JSON: {error}') from None
    if not isinstance(data, dict):
        raise _refused(path.name, 'is no JSON object')
    return data


def _refused(loc: str, problem: str, *, hint: str = 'Nothing was stored.') -> ConfigError:
    shown = loc[:200]
    return ConfigError(f'{shown} {problem}', [FieldError(loc=shown, msg=problem)], hint=hint)
