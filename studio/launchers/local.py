"""Runs a trainer on this machine, in a session of its own: it survives the studio, a browser and the terminal.

Between studio and trainer stands a tiny waiting parent (``wait.py``) that records how the trainer ended.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trainer
from studio.launchers.tree import end_all, marked, members
from trainer.errors import RunFolderError
from trainer.reporting import variables
from trainer.runfolder import TOKEN, Claim, RunFolder

CLAIM_S: Final = 30.0
TERM_S: Final = 3.0

ALLOWED: Final = frozenset({
    'PATH', 'HOME', 'USER', 'LOGNAME', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'VIRTUAL_ENV',
    'XDG_CACHE_HOME', 'XDG_DATA_HOME', 'XDG_CONFIG_HOME', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE',
    'CURL_CA_BUNDLE', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy',
    'TOKENIZERS_PARALLELISM', 'SYSTEMROOT',
})  # fmt: skip
ALLOWED_PREFIXES: Final = (
    'LC_', 'RLVR_', 'HF_', 'HUGGINGFACE_', 'TRANSFORMERS_', 'TORCH_', 'PYTORCH_', 'CUDA_', 'NVIDIA_', 'NCCL_',
    'ROCR_', 'HIP_', 'OMP_', 'MKL_', 'OPENBLAS_', 'VLLM_', 'TRITON_', 'PIP_', 'UV_',
)  # fmt: skip
SECRET_WORDS: Final = ('TOKEN', 'SECRET', 'PASSWORD', 'CREDENTIAL', 'KEY')
SECRETS_ALLOWED: Final = frozenset({'HF_TOKEN', 'HUGGINGFACE_HUB_TOKEN', 'HF_TOKEN_PATH'})
"""The trainer downloads gated models; no sandbox ever sees these."""


class LocalLauncher:
    """Starts and ends trainers. ``command`` gets the run folder as its last argument.

    ``term_s``: seconds a process gets to end after SIGTERM, before SIGKILL.
    """

    def __init__(self, command: Sequence[str] = (sys.executable, '-m', 'trainer'), *, term_s: float = TERM_S) -> None:
        self.command = tuple(command)
        self.term_s = term_s

    def start(self, folder: RunFolder, environment: Mapping[str, str] | None = None) -> Claim:
        """Start a trainer on the folder, with more environment, and return who it is. Raises ``RunFolderError``."""
        (folder.path / 'claim.json').unlink(missing_ok=True)
        (folder.path / 'exit.json').unlink(missing_ok=True)
        path = str(folder.path.resolve())
        script = Path(__file__).with_name('wait.py')
        token = secrets.token_hex(16)
        trackers = variables(folder.config().settings.report_to, os.environ)
        inherited = {**child_environment(os.environ), **trackers}
        # Returns as soon as the claim is written: the waiting parent detaches itself.
        try:
            started = subprocess.run(
                [sys.executable, '-I', '-S', str(script), path, *self.command, path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=path,
                env={**inherited, **(environment or {}), TOKEN: token},
                timeout=CLAIM_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            # Part of it may have begun: a trainer that starts late, unseen by everybody, would be the worst.
            end_all(lambda: marked(TOKEN, token), term_s=0)
            raise RunFolderError(f'The trainer did not start within {CLAIM_S:g} s on {path}') from None
        claim = folder.claim()
        if claim is None:
            said = started.stderr.decode('utf-8', 'replace').strip().splitlines()
            raise RunFolderError(
                f'The trainer could not be started on {path}' + (f': {said[-1]}' if said else ''),
                hint='See whether the disk is full or the folder cannot be written.',
            )
        return claim

    def end(self, claim: Claim) -> None:
        """End the trainer and everything it started, in its own or other sessions; return when all are gone."""
        end_all(lambda: members(claim, TOKEN), term_s=self.term_s)

    def alive(self, claim: Claim) -> bool:
        """Whether any process of the run still lives."""
        return any(process.is_running() for process in members(claim, TOKEN))


def child_environment(source: Mapping[str, str]) -> dict[str, str]:
    """What a trainer inherits: an allow-list, no secrets but the model hub's token."""
    kept = {name: value for name, value in source.items() if _allowed(name)}
    root = str(Path(trainer.__file__).parent.parent.absolute())
    # The trainer finds the packages that the studio found, wherever it is started from.
    paths = os.pathsep.join(filter(None, (root, source.get('PYTHONPATH', ''))))
    # A log is no terminal: no bars that redraw themselves.
    plain = {'PYTHONUNBUFFERED': '1', 'PYTHONIOENCODING': 'utf-8', 'TQDM_DISABLE': '1'}
    return {**kept, **plain, 'PYTHONPATH': paths}


def _allowed(name: str) -> bool:
    if name in SECRETS_ALLOWED:
        return True
    if name == 'RLVR_DATABASE':  # may hold a password, and a trainer never opens the store
        return False
    if any(word in name.upper().split('_') for word in SECRET_WORDS):
        return False
    return name in ALLOWED or name.startswith(ALLOWED_PREFIXES)
