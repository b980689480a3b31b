"""Reward hacks as data, all of them."""

from __future__ import annotations

from tests.trainer.attack_process import OWN_PYTEST_ATTACKS
from tests.trainer.attack_pytest import PYTEST_ATTACKS
from tests.trainer.attack_script import SCRIPT_ATTACKS
from tests.trainer.attack_shell import SHELL_ATTACKS

ATTACKS = [*PYTEST_ATTACKS, *OWN_PYTEST_ATTACKS, *SHELL_ATTACKS, *SCRIPT_ATTACKS]
