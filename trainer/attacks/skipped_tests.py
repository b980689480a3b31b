"""Code under test that skips the test which calls it."""

from __future__ import annotations

from trainer.attacks.code import in_modules
from trainer.attacks.model import Attack


def _attack(outcome: str) -> Attack:
    return Attack(
        name=f'{outcome}-in-call',
        core=outcome == 'skip',
        title=f'pytest.{outcome} in a call',
        explanation=f'The function under test calls pytest.{outcome}, so that no test fails.',
        kinds=('pytest',),
        leave=in_modules('import pytest', f'pytest.{outcome}("x")'),
    )


ATTACKS = (_attack('skip'), _attack('xfail'))
