"""What honest work is, as data: tests, files and the reward an ordinary run gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Honest:
    """Author's tests, the candidate's files and the reward an ordinary test run gives."""

    name: str
    tests: Mapping[str, str]
    files: Mapping[str, str]
    paths: tuple[str, ...] = ('tests/',)
    reward: float = 1.0
