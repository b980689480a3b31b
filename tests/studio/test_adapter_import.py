"""Adapters of others: what is whole comes in, all else is refused by the path of its fault and leaves nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from adapter_files import CONFIG, LAYER, SHAPES, files, safetensors, with_header, zipped

from studio.adapters.service import Adapters
from studio.store.database import Database
from trainer.errors import ConfigError


@pytest.fixture
def adapters(database: Database, tmp_path: Path) -> Adapters:
    return Adapters(database, tmp_path / 'adapters', tmp_path / 'runs')


def refused(adapters: Adapters, source: Path) -> str:
    """The path of the fault, after making sure that nothing was stored."""
    with pytest.raises(ConfigError) as error:
        adapters.bring_in(source)
    assert adapters.list() == []
    folder = source.parent / 'adapters'
    assert not folder.exists() or list(folder.iterdir()) == []
    return error.value.fields[0].loc


def config(**changes: Any) -> bytes:
    return json.dumps(CONFIG | changes).encode()


@pytest.mark.parametrize('prefix', ['', 'deep/er/'])
def test_a_zip_comes_in_and_goes_out_the_same(adapters: Adapters, tmp_path: Path, prefix: str) -> None:
    entries = {f'{prefix}{name}': data for name, data in files(tokenizer__json=b'{}').items()}
    entries |= {f'{prefix}optimizer.json': b'{}', '__MACOSX/x': b'', f'{prefix}plots/held-out.svg': b'<svg/>'}
    done = adapters.bring_in(zipped(tmp_path / 'gift.zip', entries))
    version = done.version
    assert (version.name, version.number, version.model, version.rank) == ('gift', 1, 'unsloth/Qwen3-0.6B', 2)
    assert done.left_out == (f'{prefix}optimizer.json',)
    assert version.imported and version.proof.state == 'none' and version.run_id is None
    again = adapters.bring_in(adapters.zip(version.id), name='gift')
    assert again.version.number == 2
    assert [file.sha256 for file in again.version.files] == [file.sha256 for file in version.files]


def test_a_folder_comes_in_and_a_known_base_gets_its_name(adapters: Adapters, tmp_path: Path) -> None:
    folder = tmp_path / 'mine'
    folder.mkdir()
    for name, data in files(adapter_config__json=config(base_model_name_or_path='starter')).items():
        (folder / name).write_bytes(data)
    assert adapters.bring_in(folder, name='Mine, too').version.model == 'starter'


@pytest.mark.parametrize(
    ('name', 'loc'),
    [
        ('../evil.json', '../evil.json'),
        ('/etc/evil', '/etc/evil'),
        ('a/../../evil', 'a/../../evil'),
        ('C:\\evil', 'C:\\evil'),
        ('readme.md', 'readme.md'),
        ('adapter_model.bin', 'adapter_model.bin'),
        ('training_args.bin', 'training_args.bin'),
        ('sub/adapter_config.json', 'sub/adapter_config.json'),
    ],
)
def test_names_that_must_not_come_in(adapters: Adapters, tmp_path: Path, name: str, loc: str) -> None:
    """Case A7, and pickles."""
    assert refused(adapters, zipped(tmp_path / 'x.zip', files() | {name: b'x'})) == loc


def test_links_are_refused_in_zips_and_folders(adapters: Adapters, tmp_path: Path) -> None:
    archive = zipped(tmp_path / 'x.zip', files(README__md=None), links={'README.md': '/etc/passwd'})
    assert refused(adapters, archive) == 'README.md'
    folder = tmp_path / 'folder'
    folder.mkdir()
    for name, data in files(README__md=None).items():
        (folder / name).write_bytes(data)
    (folder / 'README.md').symlink_to('/etc/passwd')
    assert refused(adapters, folder) == 'README.md'
    (folder / 'README.md').unlink()
    os.mkfifo(folder / 'README.md')
    assert refused(adapters, folder) == 'README.md'


def test_a_bomb_is_refused(adapters: Adapters, tmp_path: Path) -> None:
    bomb = zipped(tmp_path / 'x.zip', files(tokenizer__json=b'0' * 30_000_000))
    assert refused(adapters, bomb) == 'tokenizer.json'


def test_what_is_no_zip_or_holds_no_adapter_is_refused(adapters: Adapters, tmp_path: Path) -> None:
    (tmp_path / 'x.zip').write_bytes(b'PK\x03\x04 and no more')
    assert refused(adapters, tmp_path / 'x.zip') == 'file'
    assert refused(adapters, zipped(tmp_path / 'y.zip', {'a.txt': b''})) == 'adapter_config.json'
    (tmp_path / 'cut.zip').write_bytes(zipped(tmp_path / 'z.zip', files()).read_bytes()[:-200])
    assert refused(adapters, tmp_path / 'cut.zip') == 'file'
    without = zipped(tmp_path / 'w.zip', files(adapter_model__safetensors=None))
    assert refused(adapters, without) == 'adapter_model.safetensors'


@pytest.mark.parametrize(
    ('data', 'loc'),
    [
        (b'{', 'adapter_config.json'),
        (b'[]', 'adapter_config.json'),
        (b'[' * 100_000, 'adapter_config.json'),
        (config(peft_type='IA3'), 'adapter_config.json: peft_type'),
        (config(peft_type=None), 'adapter_config.json: peft_type'),
        (config(base_model_name_or_path=None), 'adapter_config.json: base_model_name_or_path'),
        (config(base_model_name_or_path='  '), 'adapter_config.json: base_model_name_or_path'),
        (config(r='8'), 'adapter_config.json: r'),
        (config(r=0), 'adapter_config.json: r'),
        (config(task_type='SEQ_CLS'), 'adapter_config.json: task_type'),
        (config(megatron_config={}, megatron_core='os'), 'adapter_config.json: megatron_config'),
        (config(auto_mapping={'parent_library': 'evil'}), 'adapter_config.json: auto_mapping'),
    ],
)
def test_configurations_that_are_refused(adapters: Adapters, tmp_path: Path, data: bytes, loc: str) -> None:
    assert refused(adapters, zipped(tmp_path / 'x.zip', files(adapter_config__json=data))) == loc


A, B = SHAPES
ENTRY = {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]}


@pytest.mark.parametrize(
    ('data', 'loc'),
    [
        (b'', ''),
        (b'\xff' * 8, ''),
        ((2**40).to_bytes(8, 'little') + b'{}', ''),
        (safetensors()[:-4], ''),
        (safetensors() + b'more', ''),
        (with_header([]), ''),
        (with_header({A: 1}), f': {A}'),
        (with_header({A: ENTRY | {'dtype': 'PICKLE'}}, b'x' * 8), f': {A}'),
        (with_header({A: ENTRY | {'shape': [-2]}}, b'x' * 8), f': {A}'),
        (with_header({A: ENTRY | {'shape': [True, 2]}}, b'x' * 8), f': {A}'),
        (with_header({A: ENTRY | {'shape': [4]}}, b'x' * 8), f': {A}'),
        (with_header({A: ENTRY | {'data_offsets': [4, 12]}}, b'x' * 12), f': {A}'),
        (with_header({A: ENTRY, B: ENTRY}, b'x' * 8), f': {B}'),
        (b'\x1e' + b'\0' * 7 + b'{"a": 1, "a": 2}              ', ''),
        (safetensors({'model.weight': [2, 2]}), ''),
        (safetensors({**SHAPES, 'model.embed_tokens.weight': [2, 2]}), ': model.embed_tokens.weight'),
        (safetensors({A: [2, 8]}), f': {A}'),
        (safetensors({A: [2, 8], B: [8, 3]}), f': {A}'),
    ],
)
def test_weights_that_are_not_what_they_say(adapters: Adapters, tmp_path: Path, data: bytes, loc: str) -> None:
    where = refused(adapters, zipped(tmp_path / 'x.zip', files(adapter_model__safetensors=data)))
    assert where == f'adapter_model.safetensors{loc}'


def test_whole_modules_may_be_saved_with_it(adapters: Adapters, tmp_path: Path) -> None:
    weights = safetensors({**SHAPES, f'{LAYER}.lm_head.weight': [2, 2]})
    entries = files(adapter_model__safetensors=weights, adapter_config__json=config(modules_to_save=['lm_head']))
    assert adapters.bring_in(zipped(tmp_path / 'x.zip', entries)).version.size > len(weights)
