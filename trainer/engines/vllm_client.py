"""The part of vLLM's HTTP API that a run needs: health, models, adapters that come and go, completions by token ids."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from trainer.errors import GenerationError

ANSWER_BYTES: Final = 64 * 2**20
HEALTH_S: Final = 5.0
ADAPTER_S: Final = 120.0


class Unreachable(GenerationError):
    """Nobody is there, or not any more."""


class VllmClient:
    """Speaks to one server, from several threads at once."""

    def __init__(self, address: str, *, key: str = '') -> None:
        self.address = address
        self._url = urlsplit(address)
        self._headers = {'Content-Type': 'application/json'} | ({'Authorization': f'Bearer {key}'} if key else {})
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self._aborted = False

    def healthy(self) -> bool:
        """Whether the server takes requests."""
        with suppress(GenerationError):
            self._request('GET', '/health', timeout_s=HEALTH_S)
            return True
        return False

    def models(self) -> list[dict[str, Any]]:
        """What the server serves, as it says it. Raises ``GenerationError``."""
        said = self._request('GET', '/v1/models', timeout_s=HEALTH_S)
        data = said.get('data') if isinstance(said, dict) else None
        if not isinstance(data, list) or not all(isinstance(one, dict) and 'id' in one for one in data):
            raise GenerationError(f'{self.address} is no vLLM server: its list of models cannot be read')
        return data

    def load_adapter(self, name: str, path: str) -> None:
        """Make an adapter available under a name. Raises ``GenerationError``."""
        body = {'lora_name': name, 'lora_path': path}
        self._request('POST', '/v1/load_lora_adapter', body, timeout_s=ADAPTER_S)

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Raises ``GenerationError``."""
        self._request('POST', '/v1/unload_lora_adapter', {'lora_name': name}, timeout_s=ADAPTER_S)

    def complete(self, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The one choice of a completion. Raises ``GenerationError``."""
        said = self._request('POST', '/v1/completions', body, timeout_s=timeout_s)
        choices = said.get('choices') if isinstance(said, dict) else None
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            raise GenerationError('vLLM answered a completion without exactly one choice')
        return choices[0]

    def abort(self) -> None:
        """Hang up on every request under way; the server then stops working on it. Nothing can be asked any more."""
        with self._lock:
            self._aborted = True
            connections = list(self._open)
        for connection in connections:
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float) -> Any:
        """Send one request; returns the JSON of the answer, or its text."""
        kind = http.client.HTTPSConnection if self._url.scheme == 'https' else http.client.HTTPConnection
        connection = kind(self._url.hostname or '', self._url.port, timeout=timeout_s)
        with self._lock:
            self._open.add(connection)
        try:
            connection.connect()
            # From here on ``abort`` can hang up on it.
            if self._aborted:
                raise Unreachable('the request was given up')
            sent = None if body is None else json.dumps(body).encode()
            connection.request(method, self._url.path + path, body=sent, headers=self._headers)
            answer = connection.getresponse()
            said = answer.read(ANSWER_BYTES)
        except TimeoutError:
            raise GenerationError(f'vLLM at {self.address} did not answer {path} within {timeout_s:g} s') from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f'vLLM at {self.address} cannot be reached: {error or type(error).__name__}') from error
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
        if answer.status >= 300:
            raise GenerationError(f'vLLM refused {path}: {answer.status} {_message(said)}')
        try:
            return json.loads(said)
        except ValueError:
            return said.decode('utf-8', 'replace')


def _message(said: bytes) -> str:
    """What the server says went wrong, short."""
    text = said.decode('utf-8', 'replace').strip()
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(text)
        text = str(found['error']['message'] if 'error' in found else found['message'])
    return text[:500] or 'without a word'
