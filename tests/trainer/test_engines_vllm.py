"""The vLLM engine over its server: tokens in and out, each adapter once, nothing left, failures with a reason."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from trainer import engine_choice
from trainer.config import parse_settings, plan
from trainer.engine_choice import Vllm, choose, find_vllm
from trainer.engines import Engines, Generation, generate
from trainer.engines.vllm import VllmEngine
from trainer.engines.vllm_client import VllmClient
from trainer.engines.vllm_server import VllmServer
from trainer.errors import ConfigError, GenerationError
from trainer.hardware import detect
from trainer.models import MODELS, STARTER
from trainer.policy import load_model, load_tokenizer, with_adapter
from trainer.rollout.chat import Chat

FAKE = Path(__file__).with_name('fake_vllm.py')
GUARD = Path(engine_choice.__file__).parent / 'engines' / 'guard.py'
PROGRAM = os.environ.get('RLVR_VLLM', '')
END = 2
"""The starter model's token that ends a turn."""


@pytest.fixture(scope='module')
def tokenizer():  # type: ignore[no-untyped-def]
    return load_tokenizer(STARTER)


@pytest.fixture
def base():  # type: ignore[no-untyped-def]
    return load_model(STARTER, detect())


@pytest.fixture
def policy(base):  # type: ignore[no-untyped-def]
    return with_adapter(base, plan(parse_settings({})[0], STARTER, 4))


@pytest.fixture
def fake(tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    program = tmp_path / 'vllm'
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv('RLVR_VLLM', str(program))
    monkeypatch.delenv('RLVR_VLLM_URL', raising=False)
    monkeypatch.setenv('PYTHONPATH', '/somewhere')
    folder = tmp_path / 'run'
    folder.mkdir()
    return folder


@pytest.fixture
def server(fake):  # type: ignore[no-untyped-def]
    found = find_vllm()
    assert isinstance(found, Vllm)
    made = VllmServer(found, fake, start_s=60)
    yield made
    made.close()


def asked(folder: Path, path: str) -> list[dict[str, object]]:
    lines = map(json.loads, (folder / 'requests.jsonl').read_text().splitlines())
    return [line['body'] for line in lines if line['path'] == path]


def ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def wait_until_ended(*pids: int) -> None:
    deadline = time.monotonic() + 60
    while not all(map(ended, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def change(policy: torch.nn.Module) -> None:
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if 'lora_B' in name:
                parameter += 0.1


def test_turns_are_asked_for_by_token_ids(fake, base, tokenizer) -> None:  # type: ignore[no-untyped-def]
    told: list[str] = []
    engines = Engines('vllm', tokenizer, folder=fake, lora_rank=16, report=told.append)
    try:
        engine = engines.engine(base)
        with engine.open(3, temperature=0.7, seed=4) as stream:
            for row in range(3):
                stream.extend(row, [10, 11, 12 + row % 2], 4 if row == 2 else 40)
            turns = {}
            while stream.asked:
                turns.update(stream.advance())
            stream.extend(1, [77], 3)
            while stream.asked:
                for _, turn in stream.advance():
                    turns[3] = turn
    finally:
        engines.close()
    whole = Generation([11, 12, 13, 14, 15, 16, END], finished=True)
    assert turns == {0: whole, 1: whole, 2: Generation([11, 12, 13, 14], False), 3: Generation([11, 12, 13], False)}
    bodies = asked(fake, '/v1/completions')
    assert sorted(map(tuple, (body['prompt'] for body in bodies))) == sorted(  # type: ignore[arg-type]
        [(10, 11, 12), (10, 11, 13), (10, 11, 12), (10, 11, 13, 11, 12, 13, 14, 15, 16, END, 77)]
    )
    assert {body['temperature'] for body in bodies} == {0.7}
    assert {(body['top_p'], body['top_k'], body['return_token_ids']) for body in bodies} == {(1.0, 0, True)}
    # The same prompt twice must not be the same sample twice.
    assert len({body['seed'] for body in bodies}) == 4
    assert {body['model'] for body in bodies} == {'base'}
    assert [text.split()[0] for text in told] == ['Starting', 'vLLM']


def test_each_adapter_is_handed_over_once_and_the_last_taken_back(fake, policy, tokenizer) -> None:  # type: ignore[no-untyped-def]
    engines = Engines('vllm', tokenizer, folder=fake, lora_rank=16)
    try:
        for step in range(4):
            engine = engines.engine(policy)  # as a new stage of a run does
            generate(engine, [[10, 11]], [5], temperature=1.0)
            if step != 1:
                change(policy)
        kept = [path.name for path in (fake / 'vllm').iterdir()]
    finally:
        engines.close()
    loaded = [body['lora_name'] for body in asked(fake, '/v1/load_lora_adapter')]
    assert len(loaded) == len(set(loaded)) == 3
    assert [body['lora_name'] for body in asked(fake, '/v1/unload_lora_adapter')] == loaded[:2]
    assert [body['model'] for body in asked(fake, '/v1/completions')] == [*loaded[:2], loaded[1], loaded[2]]
    assert kept == [loaded[2]]
    assert not (fake / 'vllm').exists()


def test_nothing_is_left_of_a_server_that_was_ended(server, base, tokenizer, fake) -> None:  # type: ignore[no-untyped-def]
    generate(VllmEngine(server, base, tokenizer, lora_rank=16), [[1]], [3], temperature=0)
    guard = server._process.pid
    pids = [guard, int((fake / 'child.pid').read_text()), *(one.pid for one in psutil.Process(guard).children())]
    assert len(pids) >= 3
    server.close()
    assert all(map(ended, pids))


def test_a_server_ends_with_the_process_that_holds_it() -> None:
    child = (
        'import subprocess, sys, time\n'
        'sleep = [sys.executable, "-c", "import time; time.sleep(600)"]\n'
        'print(subprocess.Popen(sleep, start_new_session=True).pid, flush=True)\n'
        'time.sleep(600)\n'
    )
    holder = (
        'import subprocess, sys, time\n'
        'held = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE)\n'
        'print(held.pid, flush=True)\n'
        'time.sleep(600)\n'
    )
    command = [sys.executable, '-c', holder, str(GUARD), sys.executable, '-c', child]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGKILL)
    wait_until_ended(*pids)


def test_a_server_that_must_be_killed_leaves_no_shared_memory() -> None:
    child = (
        'import signal, time\n'
        'from multiprocessing.shared_memory import SharedMemory\n'
        'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
        'made = SharedMemory(create=True, size=1000)\n'
        'print(made.name, flush=True)\n'
        'time.sleep(600)\n'
    )
    command = [sys.executable, '-I', str(GUARD), sys.executable, '-c', child]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        memory = Path('/dev/shm', process.stdout.readline().strip())
        there = memory.is_file()
        process.stdin.close()
    assert there
    assert not memory.exists()


def test_longer_conversations_get_a_server_that_takes_them(server, base, tokenizer, fake) -> None:  # type: ignore[no-untyped-def]
    engine = VllmEngine(server, base, tokenizer, lora_rank=16)
    generate(engine, [[1] * 100], [100], temperature=0)
    first = server._process.pid
    assert server.max_length == 512
    generate(engine, [[1] * 500], [100], temperature=0)
    assert server.max_length == 1024
    assert ended(first)
    generate(engine, [[1] * 4000], [500], temperature=0)
    assert server.max_length == 4096  # what the model was made for
    assert asked(fake, '/v1/completions')[-1]['max_tokens'] == 96
    with pytest.raises(GenerationError, match='5000 tokens does not fit'):
        generate(engine, [[1] * 5000], [100], temperature=0)


def test_a_conversation_that_grows_out_of_the_server_ends_by_its_limit(server, base, tokenizer) -> None:  # type: ignore[no-untyped-def]
    """What a model says ends no run: only a prompt that does not fit does."""
    engine = VllmEngine(server, base, tokenizer, lora_rank=16)
    with engine.open(2, temperature=0, seed=1) as stream:
        turns = {}
        stream.extend(0, [1] * 4000, 500)
        while stream.asked:
            turns.update(stream.advance())
        stream.extend(0, [1] * 96, 400)
        stream.extend(1, [1] * 10, 5)
        while stream.asked:
            turns.update(stream.advance())
    assert turns == {0: Generation([], finished=False), 1: Generation([11, 12, 13, 14, 15], finished=False)}


@pytest.mark.parametrize(
    ('failure', 'words'),
    [
        ('does not start', 'exit code 1 before it was ready: ValueError: No available memory for the cache blocks.'),
        ('refuses adapters', '400 LoRA rank 64 is greater than max_lora_rank 16'),
        ('error 500', 'refused /v1/completions: 500 EngineCore encountered an issue'),
        ('slow', 'did not answer /v1/completions within 0.5 s'),
        ('dies', 'ended with exit code 3: torch.OutOfMemoryError: no memory left'),
        ('only text', 'without the token ids'),
        ('too many tokens', 'more tokens than were asked for'),
    ],
)
def test_failures_end_a_batch_with_their_reason(
    failure: str,
    words: str,
    server,  # type: ignore[no-untyped-def]
    policy,  # type: ignore[no-untyped-def]
    tokenizer,  # type: ignore[no-untyped-def]
    monkeypatch,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.setenv('FAKE_VLLM', failure)
    engine = VllmEngine(server, policy, tokenizer, lora_rank=16, turn_s=0.5)
    with pytest.raises(GenerationError) as caught:
        generate(engine, [[1, 2], [3, 4]], [30, 30], temperature=1.0)
    assert words in caught.value.message


def test_a_server_that_is_never_ready_is_given_up(fake, base, tokenizer, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv('FAKE_VLLM', 'never ready')
    found = find_vllm()
    assert isinstance(found, Vllm)
    server = VllmServer(found, fake, start_s=1)
    with pytest.raises(GenerationError, match='not ready within 1 s') as caught:
        generate(VllmEngine(server, base, tokenizer, lora_rank=16), [[1]], [3], temperature=0)
    assert 'vllm.log' in caught.value.hint
    assert server._process is None


def test_a_batch_that_is_given_up_waits_for_nobody(server, base, tokenizer, fake, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv('FAKE_VLLM', 'slow')
    engine = VllmEngine(server, base, tokenizer, lora_rank=16)
    with pytest.raises(KeyboardInterrupt), engine.open(2, temperature=1.0, seed=1) as stream:
        stream.extend(0, [1, 2], 10)
        stream.extend(1, [1, 2], 10)
        while not (fake / 'requests.jsonl').exists():
            assert stream.advance() == []
        began = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - began < 30


def test_who_waits_for_a_server_to_start_is_asked_meanwhile(server, base, tokenizer, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv('FAKE_VLLM', 'never ready')
    engine = VllmEngine(server, base, tokenizer, lora_rank=16)
    with engine.open(1, temperature=1.0, seed=1) as stream:
        stream.extend(0, [1, 2], 10)
        for _ in range(3):
            assert stream.advance() == []
    first = server._process.pid
    # Given up in one batch, the server goes on to start for the next.
    with engine.open(1, temperature=1.0, seed=1) as stream:
        stream.extend(0, [1, 2], 10)
        assert stream.advance() == []
    assert server._process.pid == first


def test_a_server_that_runs_already_is_used_and_left(server, policy, tokenizer, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    generate(VllmEngine(server, policy, tokenizer, lora_rank=16), [[1]], [3], temperature=0)
    monkeypatch.setenv('RLVR_VLLM_URL', server._address + '/')
    found = find_vllm()
    assert found == Vllm('attached', address=server._address)
    other = tmp_path / 'other'
    other.mkdir()
    attached = VllmServer(found, other)
    attached._key = server._key  # the stand-in has one; a server that others started has none
    turn = generate(VllmEngine(attached, policy, tokenizer, lora_rank=16), [[1] * 690], [30], temperature=0)
    assert attached.max_length == 700
    assert len(turn[0].ids) == 7
    attached.close()
    assert server.client().healthy()


def test_what_is_no_vllm_server_is_said(tmp_path, base, tokenizer) -> None:  # type: ignore[no-untyped-def]
    server = VllmServer(Vllm('attached', address='http://127.0.0.1:1'), tmp_path)
    with pytest.raises(GenerationError, match='cannot be reached'):
        generate(VllmEngine(server, base, tokenizer, lora_rank=16), [[1]], [3], temperature=0)
    assert not VllmClient('http://127.0.0.1:1').healthy()


@pytest.fixture
def nowhere(monkeypatch, tmp_path):  # type: ignore[no-untyped-def]
    """A machine without GPU and vLLM."""
    for name in ('RLVR_VLLM', 'RLVR_VLLM_URL', 'CUDA_VISIBLE_DEVICES'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('PATH', str(tmp_path))
    monkeypatch.setattr(engine_choice, '_capabilities', lambda: ())
    monkeypatch.setattr(engine_choice.importlib.util, 'find_spec', lambda name: None)
    monkeypatch.setattr(engine_choice.sys, 'executable', str(tmp_path / 'python'))
    return tmp_path


def test_vllm_is_refused_where_there_is_none(nowhere) -> None:  # type: ignore[no-untyped-def]
    settings, _ = parse_settings({'rl': {'generationEngine': 'vllm'}})
    with pytest.raises(ConfigError, match='it was not found') as caught:
        plan(settings, STARTER, 4)
    assert [field.loc for field in caught.value.fields] == ['rl.generationEngine']
    assert plan(parse_settings({})[0], STARTER, 4).engine == 'plain'
    settings, _ = parse_settings({'rl': {'generationEngine': 'continuous_batching'}})
    assert plan(settings, STARTER, 4).engine == 'continuous_batching'


@pytest.mark.parametrize(
    ('variables', 'words'),
    [
        ({'RLVR_VLLM': '/no/such/vllm'}, 'RLVR_VLLM names /no/such/vllm, which is no program'),
        ({'RLVR_VLLM_URL': 'gpu-box:8000'}, 'RLVR_VLLM_URL must be like http://host:8000, not gpu-box:8000'),
    ],
)
def test_a_vllm_that_is_named_wrongly_is_refused(variables: dict[str, str], words: str, nowhere, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=words):
        plan(parse_settings({'rl': {'generationEngine': 'vllm'}})[0], STARTER, 4)


@pytest.mark.parametrize(
    ('capabilities', 'importable', 'hidden', 'auto', 'mode'),
    [
        ((), True, None, 'plain', None),
        ((7.5,), True, None, 'plain', None),
        ((8.0, 7.5), True, None, 'plain', None),
        ((9.0,), True, None, 'vllm', 'colocated'),
        ((9.0,), True, '', 'plain', None),
        ((9.0,), False, None, 'plain', None),
    ],
)
def test_auto_takes_vllm_where_bf16_and_vllm_are_there(  # type: ignore[no-untyped-def]
    capabilities, importable: bool, hidden: str | None, auto: str, mode: str | None, nowhere, monkeypatch
) -> None:
    monkeypatch.setattr(engine_choice, '_capabilities', lambda: capabilities)
    monkeypatch.setattr(engine_choice.importlib.util, 'find_spec', lambda name: object() if importable else None)
    if hidden is not None:
        monkeypatch.setenv('CUDA_VISIBLE_DEVICES', hidden)
    assert choose('auto', MODELS[1]) == auto
    found = find_vllm()
    assert (found.mode if isinstance(found, Vllm) else None) == mode
    assert choose('auto', MODELS[1].model_copy(update={'gguf': 'weights.gguf'})) == 'plain'


def test_a_program_that_is_named_comes_before_the_package(nowhere, fake, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(engine_choice, '_capabilities', lambda: (9.0,))
    monkeypatch.setattr(engine_choice.importlib.util, 'find_spec', lambda name: object())
    found = find_vllm()
    assert isinstance(found, Vllm)
    assert found.mode == 'server'


@pytest.mark.vllm
@pytest.mark.skipif(not PROGRAM, reason='RLVR_VLLM does not name vllm or python of an environment with vLLM')
@pytest.mark.timeout(1500)  # longer than a server may take to start: then the reason is told
def test_a_real_server_says_what_plain_says(policy, tokenizer, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Greedy turns of the real thing, with the adapter of each step."""
    from trainer.engines import open_engine

    chat = Chat(tokenizer)
    prompts = [chat.prompt_ids(text) for text in ('Delete old.md', 'Make the folders a and b.')]
    engines = Engines('vllm', tokenizer, folder=tmp_path, lora_rank=16)
    said = []
    try:
        for _ in range(3):
            said.append(generate(engines.engine(policy), prompts, [40, 3], temperature=0))
            assert said[-1] == generate(open_engine('plain', policy, tokenizer), prompts, [40, 3], temperature=0)
            change(policy)
        sampled = generate(engines.engine(policy), prompts * 4, [40] * 8, temperature=1.0, seed=1)
    finally:
        engines.close()
    assert said[0] != said[2]
    assert len({tuple(turn.ids) for turn in sampled[::2]}) > 1
