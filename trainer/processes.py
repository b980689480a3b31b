"""Several processes for one run: how many, and starting them through ``accelerate launch``.

The process that was started on the run folder keeps the claim and writes how it ended; the others are its children
and run the same program, each knowing its rank from the environment. They are asked to stop through the run folder.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from typing import Final

from trainer.config import RunConfig
from trainer.gpus import gpus
from trainer.runfolder import STOP, RunFolder

PR_SET_PDEATHSIG: Final = 1
LOST: Final = ('closed by peer', 'Connection reset', 'Broken pipe', 'NCCL', 'ncclRemoteError')
"""Words in errors of a process whose partner has gone."""


def rank() -> int | None:
    """Which of several processes this is; ``None`` where the run has one."""
    return int(os.environ['RANK']) if 'RANK' in os.environ and 'WORLD_SIZE' in os.environ else None


def wanted(config: RunConfig) -> int:
    """How many processes share the steps: what the user asks for, or one for each GPU."""
    return config.settings.processes or max(1, gpus())


def launch(folder: RunFolder, count: int) -> str:
    """Run the folder with ``count`` processes to their end; return what ended them early, or empty.

    A signal to end is passed on as a request to stop, so that all of them stop at the same place and save.
    """
    command = [
        *(sys.executable, '-m', 'accelerate.commands.launch', '--multi_gpu', '--num_machines', '1'),
        *('--num_processes', str(count), '--main_process_port', '0', '--mixed_precision', 'no'),
        *('--dynamo_backend', 'no', '-m', 'trainer', str(folder.path)),
    ]
    for file in folder.path.glob('failure-*.txt'):
        file.unlink()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: folder.request(STOP))
    # In a session of its own: a Ctrl-C in the terminal reaches this process alone, which asks all to stop.
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent)
    code = started.wait()
    return '' if code == 0 else failure(folder) or f'one of {count} processes ended with exit code {code}'


def write_failure(folder: RunFolder, number: int, reason: str) -> None:
    """Leave word of what ended one of several processes; the parent and the first one look for it."""
    if rank() is not None:
        (folder.path / f'failure-{number}.txt').write_text(reason, encoding='utf-8')


def failure(folder: RunFolder) -> str:
    """What ended one of the other processes first, if anything did."""
    files = sorted(folder.path.glob('failure-*.txt'), key=lambda file: file.stat().st_mtime_ns)
    return files[0].read_text(encoding='utf-8') if files else ''


def cause(folder: RunFolder, reason: str) -> str:
    """What really ended this process: where another one failed first, it only lost its company."""
    if first := failure(folder):
        return first
    if rank() is not None and any(word in reason for word in LOST):
        return f'another process of the run is gone, likely out of memory ({reason})'
    return reason


def _die_with_parent() -> None:
    """Between fork and exec: nothing goes on when the process with the claim is killed."""
    if sys.platform.startswith('linux'):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
