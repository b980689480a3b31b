"""The README names what there is: every checker, every setting of a run, every command."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from studio.cli.app import app
from trainer.checkers import CHECKER_KINDS
from trainer.config import RlConfig, Settings

README = (Path(__file__).parents[2] / 'README.md').read_text(encoding='utf-8')
ALIASES = [str(field.alias) for model in (RlConfig, Settings) for field in model.model_fields.values()]


@pytest.mark.parametrize('kind', [kind.model_fields['type'].default for kind in CHECKER_KINDS])
def test_every_checker_is_named(kind: str) -> None:
    assert f'| `{kind}` |' in README


@pytest.mark.parametrize('alias', [alias for alias in ALIASES if alias not in ('rl', 'spot', 'beta')])
def test_every_setting_is_named(alias: str) -> None:
    assert f'`{alias}`' in README


def test_every_command_is_named() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name in commands:
        assert f'rlvr {name}' in README, name
