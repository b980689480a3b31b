"""The log of the server: a browser that left is no error, everything else is kept."""

from __future__ import annotations

import logging
import sys

from studio.app import _somebody_stayed


def record(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except Exception:
        return logging.LogRecord(
            'uvicorn.error', logging.ERROR, '', 0, 'Exception in ASGI application', (), sys.exc_info()
        )


def test_only_a_browser_that_left_is_left_out() -> None:
    assert not _somebody_stayed(record(RuntimeError('No response returned.')))
    assert _somebody_stayed(record(RuntimeError('something else')))
    assert _somebody_stayed(logging.LogRecord('uvicorn.error', logging.INFO, '', 0, 'started', (), None))
