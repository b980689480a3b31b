"""Lists the tests that the author's files define, in a sandbox that holds nothing of a candidate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from trainer.checkers.inside.expected import collect, count_in_tree, syntax_error


def main(request: Mapping[str, Any], send: Callable[[bytes], None]) -> None:
    """Send what the syntax trees show, then what pytest collects: files that end the process leave the first."""
    sources, args, files = request['sources'], request['test_args'], request['test_files']
    broken = syntax_error(sources, files)
    if broken:
        send(json.dumps({'author_error': broken}).encode())
        return
    seen: dict[str, int] = {}
    for path in files:
        wanted = [arg.partition('::')[2] for arg in args if arg.split('::')[0] == path]
        seen.update(dict.fromkeys(count_in_tree(path, sources[path], wanted), 1))
    send(json.dumps({'tests': seen}).encode() + b'\n')
    send(json.dumps({'tests': collect(sources, args, files)}).encode() + b'\n')
