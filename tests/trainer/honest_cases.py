"""Honest work that hardening must not cost its reward, all of it."""

from __future__ import annotations

from tests.trainer.honest_basics import BASICS
from tests.trainer.honest_machinery import MACHINERY

HONEST = [*BASICS, *MACHINERY]
