"""Whether a model can be trained on tools, asked before a run is started; a yes is not asked for again."""

from __future__ import annotations

import os
from typing import Final

from studio.launchers.local import child_environment
from trainer.models import Preflight, preflight

_PASSED: Final[dict[str, Preflight]] = {}


def check_model(reference: str) -> Preflight:
    """Run the pre-flight in a process of its own: seconds, from the tokenizer alone, no weights."""
    known = _PASSED.get(reference)
    if known is not None:
        return known
    result = preflight(reference, environment=child_environment(os.environ))
    if result.ok:
        _PASSED[reference] = result
    return result
