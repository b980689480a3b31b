"""Reward hacks that need a task of their own; those that fit any task are in ``trainer.attacks``."""

from __future__ import annotations

from tests.trainer.attack_script import SCRIPT_ATTACKS
from tests.trainer.attack_shell import SHELL_ATTACKS

ATTACKS = [*SHELL_ATTACKS, *SCRIPT_ATTACKS]
