"""The settings page: keys of the API are made, shown once, revoked and removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nicegui.testing import User

from studio.services import Studio


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    return open_studio(watch=False)


async def test_a_key_is_made_shown_once_and_revoked(user: User, studio: Studio) -> None:
    await user.open('/settings')
    await user.should_see('While there is no key')
    user.find(marker='new-key').click()
    await user.should_see('Give each program a key of its own')
    user.find(marker='make-key').click()
    await user.should_see('Give the key a name')
    assert not studio.keys.exist()
    user.find(marker='key-name').type('Nightly script')
    user.find(marker='make-key').click()
    await user.should_see('Copy the key now')
    [view] = studio.keys.list()
    assert (view.name, view.scopes) == ('Nightly script', ('read',))
    shown = next(iter(user.find(marker='new-key-text').elements)).value  # type: ignore[attr-defined]
    assert studio.keys.check(shown) is not None
    await user.open('/settings')
    await user.should_see(view.shown)
    await user.should_not_see(shown)
    studio.keys.revoke(view.id)
    await user.open('/settings')
    await user.should_see('Revoked')
    await user.should_not_see('While there is no key')
