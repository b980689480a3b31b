"""How the API answers with a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.responses import FileResponse

# What the weights are is random to a compressor: sent as they are, their length is known and a part can be asked for.
_AS_IT_IS = {'content-encoding': 'identity'}


def zip_file(path: Path, name: str) -> FileResponse:
    """A zip to be kept under a name, which may hold anything: it is quoted, and never a path."""
    name = name.replace('/', '-').replace('\\', '-')
    return FileResponse(path, filename=name, media_type='application/zip', headers=_AS_IT_IS)


def zip_answer(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a route that answers with a zip."""
    content = {'application/zip': {'schema': {'type': 'string', 'format': 'binary'}}}
    return {**arguments, 'responses': {**arguments['responses'], 200: {'description': 'A zip.', 'content': content}}}
