"""A stand-in for `vllm serve`: the part of its HTTP API that a run uses, and the ways in which it may fail.

Runs by path. ``FAKE_VLLM`` names the failure. What it was asked is in requests.jsonl of its working folder. A turn is
made of the numbers 11, 12, 13 … up to its limit, or up to 16 and then the first token that ends turns.
"""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAILURE = os.environ.get('FAKE_VLLM', '')


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


class Handler(BaseHTTPRequestHandler):
    adapters: dict[str, str] = {}  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == '/health':
            self.answer(200, '')
        else:
            models = [{'id': option('--served-model-name'), 'root': sys.argv[2], 'parent': None, 'max_model_len': 700}]
            self.answer(200, json.dumps({'data': models}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        with Path('requests.jsonl').open('a', encoding='utf-8') as log:
            log.write(json.dumps({'path': self.path, 'body': body}) + '\n')
        if self.headers['Authorization'] != f'Bearer {os.environ["VLLM_API_KEY"]}':
            self.refuse(401, 'Unauthorized')
        elif self.path == '/v1/load_lora_adapter':
            self.load(body)
        elif self.path == '/v1/unload_lora_adapter':
            del self.adapters[body['lora_name']]
            self.answer(200, 'Success')
        else:
            self.complete(body)

    def load(self, body: dict[str, str]) -> None:
        folder = Path(body['lora_path'])
        if FAILURE == 'refuses adapters' or not (folder / 'adapter_model.safetensors').is_file():
            self.refuse(400, 'LoRA rank 64 is greater than max_lora_rank 16')
        else:
            self.adapters[body['lora_name']] = str(folder)
            self.answer(200, f'Success: LoRA adapter {body["lora_name"]} added successfully.')

    def complete(self, body: dict[str, object]) -> None:
        if FAILURE == 'error 500':
            return self.refuse(500, 'EngineCore encountered an issue')
        if FAILURE == 'slow':
            time.sleep(60)
        if FAILURE == 'dies':
            print('torch.OutOfMemoryError: no memory left', flush=True)
            os._exit(3)
        if body['model'] not in (option('--served-model-name'), *self.adapters):
            return self.refuse(404, f'The model `{body["model"]}` does not exist.')
        limit = body['max_tokens']
        assert isinstance(limit, int) and isinstance(body['stop_token_ids'], list)
        ids = [*range(11, 17), body['stop_token_ids'][0]][:limit]
        if FAILURE == 'too many tokens':
            ids = [5] * (limit + 1)
        choice = {'index': 0, 'text': 'words', 'finish_reason': 'stop' if len(ids) == 7 else 'length'}
        if FAILURE != 'only text':
            choice['token_ids'] = ids  # type: ignore[assignment]
        self.answer(200, json.dumps({'choices': [choice]}))

    def refuse(self, code: int, message: str) -> None:
        self.answer(code, json.dumps({'error': {'message': message, 'code': code}}))

    def answer(self, code: int, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == '__main__':
    assert sys.argv[1] == 'serve'
    assert os.environ['VLLM_ALLOW_RUNTIME_LORA_UPDATING'] == '1'
    assert 'PYTHONPATH' not in os.environ
    if FAILURE == 'does not start':
        print('ValueError: No available memory for the cache blocks.', file=sys.stderr)
        print('RuntimeError: Engine core initialization failed. See root cause above.', file=sys.stderr)
        sys.exit(1)
    if FAILURE == 'never ready':
        time.sleep(600)
    # As vLLM's workers may be: in a session of their own.
    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
    Path('child.pid').write_text(str(child.pid), encoding='ascii')
    ThreadingHTTPServer(('127.0.0.1', int(option('--port'))), Handler).serve_forever()
