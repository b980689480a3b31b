"""Pushing to a hub, against a small one on loopback: what is stored there, and that the token stands nowhere."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainer.hub_push import for_others

TOKEN = 'hf_' + 'aB3' * 11
ENVIRONMENT = {'HF_HUB_DISABLE_XET': '1', 'HF_HUB_OFFLINE': '0'}


@dataclass
class Hub:
    """What a hub was told."""

    url: str = ''
    repos: dict[str, bool] = field(default_factory=dict)
    """Repo → private."""
    files: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    """What an upload is answered with; 0: the connection is closed instead."""


class Handler(BaseHTTPRequestHandler):
    """Answers as a hub does, as far as a push asks."""

    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer({})

    def do_GET(self) -> None:
        if self.refused():
            return
        if self.path == '/api/whoami-v2':
            self.answer({'name': 'me', 'type': 'user'})
        else:
            repo = self.path.split('?')[0].removeprefix('/api/models/')
            known = repo in self.hub.repos
            self.answer(
                {'id': repo, 'private': self.hub.repos[repo], 'tags': [], 'siblings': []}
                if known
                else {'error': 'None'},
                200 if known else 404,
            )

    def do_PUT(self) -> None:
        body = self.body()
        if self.hub.status == 0:
            self.close_connection = True
        elif self.hub.status != 200:
            self.answer({'error': 'No room left for this account'}, self.hub.status)
        else:
            self.hub.large[self.path.rsplit('/', 1)[-1]] = body
            self.answer({})

    def do_POST(self) -> None:
        body = self.body()
        if self.refused():
            return
        for mark, act in (
            ('/api/repos/create', self.create),
            ('/preupload/', self.preupload),
            ('/info/lfs/objects/batch', self.batch),
            ('/api/validate-yaml', lambda _: self.answer({'errors': [], 'warnings': []})),
            ('/commit/', self.commit),
        ):
            if mark in self.path:
                act(body)

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        repo = f'{asked.get("organization") or "me"}/{asked["name"]}'
        if repo.startswith('other/'):
            self.answer({'error': 'You have no rights'}, 403)
        elif repo in self.hub.repos:
            self.answer({'url': f'{self.hub.url}/{repo}', 'error': 'exists'}, 409)
        else:
            self.hub.repos[repo] = bool(asked.get('private') or asked.get('visibility') == 'private')
            self.answer({'url': f'{self.hub.url}/{repo}', 'id': repo, 'name': repo})

    def preupload(self, body: bytes) -> None:
        files = [one['path'] for one in json.loads(body)['files']]
        modes = {path: 'lfs' if path.endswith('.safetensors') else 'regular' for path in files}
        self.answer({
            'files': [{'path': path, 'uploadMode': modes[path], 'shouldIgnore': False} for path in files]
        })  # fmt: skip

    def batch(self, body: bytes) -> None:
        objects = [
            one | {'actions': {'upload': {'href': f'{self.hub.url}/store/{one["oid"]}', 'header': {}}}}
            for one in json.loads(body)['objects']
        ]
        self.answer({'transfer': 'basic', 'objects': objects}, kind='application/vnd.git-lfs+json')

    def commit(self, body: bytes) -> None:
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry['value']
            if entry['key'] == 'file':
                self.hub.files[value['path']] = base64.b64decode(value['content'])
            elif entry['key'] == 'lfsFile':
                self.hub.files[value['path']] = self.hub.large[value['oid']]
        self.answer({'commitOid': 'c0ffee', 'commitUrl': f'{self.hub.url}/me/x/commit/c0ffee', 'hookOutput': ''})

    def refused(self) -> bool:
        if self.headers.get('Authorization') == f'Bearer {TOKEN}':
            return False
        self.answer({'error': 'Invalid credentials'}, 401)
        return True

    def body(self) -> bytes:
        if self.headers.get('Transfer-Encoding') != 'chunked':
            return self.rfile.read(int(self.headers.get('Content-Length') or 0))
        parts = b''
        while size := int(self.rfile.readline(), 16):
            parts += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return parts

    def answer(self, data: Any, status: int = 200, kind: str = 'application/json') -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(text)


@pytest.fixture
def hub() -> Iterator[Hub]:
    found = Hub()
    server = ThreadingHTTPServer(('127.0.0.1', 0), type('Handler', (Handler,), {'hub': found}))
    found.url = f'http://127.0.0.1:{server.server_port}'
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / 'adapter'
    made.mkdir()
    (made / 'adapter_model.safetensors').write_bytes(b'weights' * 1000)
    (made / 'adapter_config.json').write_text('{}')
    (made / '.cache').mkdir()
    (made / '.cache' / 'x').write_text('not ours')
    (made / 'README.md').write_text('---\nlibrary_name: peft\nbase_model: /home/me/small\n---\n# From /home/me/small\n')
    (made / 'lineage.json').write_text(json.dumps({'model': {'id': '/home/me/small', 'kind': 'local'}}))
    return made


def push(folder: Path, hub_url: str, repo: str, *, token: str = TOKEN, private: bool = True) -> tuple[int, Any, str]:
    """Exit code, the last line of the report, everything that was printed."""
    with subprocess.Popen(
        [sys.executable, '-m', 'trainer.hub_push', '--folder', str(folder)],
        env={
            **os.environ,
            'HF_ENDPOINT': hub_url,
            'HF_HUB_DISABLE_XET': '1',
            'HF_HUB_OFFLINE': '0',
            'HF_HOME': str(folder.parent),
            'TQDM_DISABLE': '1',  # as the studio starts it
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({'token': token, 'repo': repo, 'private': private}) + '\n')
        process.stdin.flush()
        said = process.stdout.read()
    lines = [line for line in said.splitlines() if line.startswith('{')]
    return process.returncode, json.loads(lines[-1]), said


def test_the_files_arrive_and_the_token_stands_nowhere(hub: Hub, folder: Path) -> None:
    code, last, said = push(folder, hub.url, 'me/small-tools')
    assert (code, last['kind']) == (0, 'done'), said
    assert last['result'] == {
        'repo': 'me/small-tools', 'url': f'{hub.url}/me/small-tools', 'commit': 'c0ffee', 'private': True
    }  # fmt: skip
    assert hub.repos == {'me/small-tools': True}
    assert set(hub.files) == {'adapter_model.safetensors', 'adapter_config.json', 'README.md', 'lineage.json'}
    assert hub.files['adapter_model.safetensors'] == b'weights' * 1000
    # A path of this machine means nothing elsewhere, and is nobody's business.
    assert b'/home/me' not in hub.files['README.md'] + hub.files['lineage.json']
    assert b'base_model' not in hub.files['README.md']
    assert TOKEN not in said
    assert not [path for path in folder.parent.rglob('*') if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert [json.loads(line)['text'] for line in said.splitlines() if '"Uploading adapter_model' in line]


def test_a_public_repo_is_not_taken_for_a_private_one(hub: Hub, folder: Path) -> None:
    hub.repos['me/open'] = False
    code, last, _ = push(folder, hub.url, 'me/open')
    assert code == 1
    assert 'everybody can read it' in last['message']
    assert hub.files == {}
    assert push(folder, hub.url, 'open', private=False)[0] == 0
    assert hub.files


@pytest.mark.parametrize(
    ('repo', 'token', 'expected'),
    [
        ('me/x', 'hf_wrong', 'does not know this token'),
        ('other/x', TOKEN, 'may not write to other/x'),
        ('me/../x', TOKEN, 'Repo id'),
    ],
)
def test_what_the_hub_refuses_is_said(hub: Hub, folder: Path, repo: str, token: str, expected: str) -> None:
    code, last, said = push(folder, hub.url, repo, token=token)
    assert code == 1
    assert expected in last['message']
    assert token not in said
    assert hub.files == {}


@pytest.mark.parametrize(('status', 'expected'), [(413, 'answered 413: No room left'), (403, 'may not write to me/x')])
def test_why_an_upload_was_refused_is_said(hub: Hub, folder: Path, status: int, expected: str) -> None:
    hub.status = status
    code, last, said = push(folder, hub.url, 'me/x')
    assert code == 1
    assert expected in last['message']
    assert TOKEN not in said
    assert hub.files == {}


def test_no_network_is_said(folder: Path) -> None:
    code, last, said = push(folder, 'http://127.0.0.1:9', 'me/x')
    assert code == 1
    assert 'does not answer' in last['message']
    assert 'HF_ENDPOINT' in last['hint']
    assert TOKEN not in said


def test_a_hub_model_stays_named() -> None:
    text = '---\nbase_model: unsloth/Qwen3-0.6B\n---\n'
    assert for_others(text, 'README.md', {'kind': 'eligible', 'id': 'unsloth/Qwen3-0.6B'}) == text
