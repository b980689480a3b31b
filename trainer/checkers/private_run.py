"""Runs one of our runners inside a sandbox over its private channel, and reads what it says.

The runner's source travels with the request, so that nothing the candidate can read or change lies in the sandbox; the
program that unpacks it is the interpreter's own command line.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainer.sandbox.protocol import ExecResult, Sandbox

INSIDE: Final = Path(__file__).with_name('inside')
PACKAGE: Final = 'trainer.checkers.inside'

_START: Final = """
import os, sys
fd = int(os.environ.pop('RLVR_CHANNEL'))
os.set_inheritable(fd, False)
data = b''
while chunk := os.read(fd, 1 << 20):
    data += chunk
import json, types
request = json.loads(data)
del data
try:
    import _ctypes, ctypes
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
finally:
    for name in [name for name in sys.modules if name.endswith('ctypes') or name.startswith('ctypes')]:
        del sys.modules[name]
version = 'python%d.%d' % sys.version_info[:2]
prefix = os.path.dirname(os.path.dirname(sys.executable))
site = [prefix + '/lib/' + version + '/site-packages']
request['site'] = [folder for folder in site if os.path.isdir(folder)]
sys.path[:] = [folder for folder in sys.path if folder] + request['site']
request['close_channel'] = lambda: os.close(fd)
def send(data):
    while data:
        data = data[os.write(fd, data):]
names = []
for name, source in request.pop('modules'):
    module = types.ModuleType(name)
    module.__file__ = '<rlvr>'
    sys.modules[name] = module
    names.append(name)
    try:
        exec(compile(source, '<rlvr ' + name + '>', 'exec'), module.__dict__)
    except ImportError as error:
        missing = (error.name or '').split('.')[0].lstrip('_')
        send(json.dumps({'author_error': missing + ' is not installed in the sandbox (' + str(error) + ')'}).encode())
        os._exit(0)
main = module.main
sys.modules['__main__'] = types.ModuleType('__main__')
for name in names:
    del sys.modules[name]
main(request, send)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


def run_privately(
    sandbox: Sandbox, modules: Sequence[str], request: Mapping[str, Any], *, timeout_s: float
) -> tuple[ExecResult, list[dict[str, Any]]]:
    """Run the last of ``modules`` (its ``main``) inside the sandbox; return how it ended and the objects it sent.

    Raises ``SandboxError``.
    """
    sources = [(f'{PACKAGE}.{name}', _source(name)) for name in modules]
    data = json.dumps({**request, 'modules': sources}).encode('utf-8', 'surrogatepass')
    command = ['python3', '-I', '-S', '-B', '-c', _START]
    result = sandbox.run(command, timeout_s=timeout_s, channel=data)
    return result, _objects(result.channel)


def _objects(channel: bytes) -> list[dict[str, Any]]:
    found = []
    for line in channel.split(b'\n'):
        try:
            value = json.loads(line) if line.strip() else None
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


@functools.cache
def _source(name: str) -> str:
    return (INSIDE / f'{name}.py').read_text(encoding='utf-8')
