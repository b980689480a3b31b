"""``python -m trainer.preflight MODEL``: can this model be trained on tools? Reads its tokenizer, never its weights.

Prints one JSON object (``trainer.models.Preflight``) and exits 0 where the answer is yes, 1 where it is no.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from trainer.errors import RlvrError
from trainer.models import Preflight, find_model


def main(arguments: list[str] | None = None) -> int:
    """Check a model; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m trainer.preflight', description=__doc__)
    parser.add_argument('model')
    options = parser.parse_args(arguments)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print, and one object is what a reader expects
        result = preflight(options.model)
    print(result.model_dump_json())  # noqa: T201
    return 0 if result.ok else 1


def preflight(reference: str) -> Preflight:
    """Load the tokenizer behind an id, a folder or a hub id, and see whether tool calls can be shown and read."""
    began = time.perf_counter()
    try:
        model = find_model(reference)
        from trainer.chat_format import chat_format
        from trainer.policy import read_tokenizer

        found = chat_format(read_tokenizer(model))
    except RlvrError as error:
        return Preflight(
            model=reference, ok=False, problem=error.message, hint=error.hint, seconds=time.perf_counter() - began
        )
    return Preflight(
        model=reference, ok=True, family=found.family, note=found.note, seconds=time.perf_counter() - began
    )


if __name__ == '__main__':
    sys.exit(main())
