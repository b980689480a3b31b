"""Trackers in the form that starts a run: words to a list and back."""

from __future__ import annotations

from studio.ui.pages.launch_form import SettingsForm
from studio.ui.pages.launch_values import KNOWN, changed_settings, hint, nested
from trainer.config import parse_settings


def test_picked_trackers_are_a_list_for_the_api_and_come_back_as_they_were() -> None:
    settings = nested({'reportTo': 'tensorboard, wandb'}, (), cold_start=False)
    assert settings['reportTo'] == ['tensorboard', 'wandb']
    kept = parse_settings(settings)[0].model_dump(mode='json', by_alias=True)
    assert changed_settings(kept) == {'reportTo': ['tensorboard', 'wandb']}
    assert SettingsForm(changed_settings(kept), lambda: None).values == {'reportTo': 'tensorboard, wandb'}
    assert 'reportTo' not in changed_settings(parse_settings({})[0].model_dump(mode='json', by_alias=True))
    assert hint(*KNOWN['reportTo']) == 'default none'
