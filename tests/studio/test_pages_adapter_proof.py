"""The card of a proof, without a browser: what it offers where a proof could not be made, by what stood in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nicegui.testing import User
from test_adapters import trained

from studio.services import Studio
from studio.store.tables import AdapterVersionTable
from studio.ui.components.elements import Text
from trainer import side_work
from trainer.errors import BaseUnavailable, PackagesFailed


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    return open_studio(watch=False)


@pytest.mark.parametrize(
    ('proof', 'offers'),
    [
        ({'reason': 'The base model is not here', 'error': 'BaseUnavailable'}, ['Name the base…', 'Prove again']),
        ({'reason': 'There is no bubblewrap', 'error': 'SandboxUnavailable'}, ['Settings', 'Prove again']),
        ({'reason': 'parity.json cannot be read', 'error': 'RunFolderError'}, ['Train again', 'Prove again']),
        ({'reason': 'pip could not install foo', 'error': 'PackagesFailed'}, ['Prove again']),
        ({'reason': 'There is not enough memory', 'error': 'MemoryError'}, ['Prove again']),
        ({'reason': 'It was killed', 'error': 'ended'}, ['Prove again']),
        ({'reason': 'KeyError: 3', 'error': 'KeyError'}, ['Prove again']),
        ({'reason': 'A record from before errors had classes'}, ['Name the base…', 'Prove again']),
    ],
)
async def test_a_proof_that_could_not_be_made_offers_what_helps(
    user: User, studio: Studio, proof: dict[str, Any], offers: list[str]
) -> None:
    trained(studio)
    studio.adapters.keep_up()
    id = studio.adapters.list()[0].versions[0].id
    with studio.database.write() as session:
        row = session.get(AdapterVersionTable, id)
        assert row is not None
        row.proof_state, row.proof = 'error', proof
    await user.open(f'/adapters/{id}')
    await user.should_see(proof['reason'], retries=60)
    words = ('Name the base…', 'Settings', 'Train again', 'Prove again')
    captions = [one.text for one in user.find(kind=Text).elements if 'cap' in one.classes and one.text in words]
    assert sorted(captions) == sorted(offers)


@pytest.mark.parametrize(
    ('error', 'name'),
    [
        (BaseUnavailable('gone'), 'BaseUnavailable'),
        (PackagesFailed('no'), 'PackagesFailed'),
        (MemoryError(), 'MemoryError'),
        (RuntimeError('CUDA out of memory. Tried to allocate 2 GiB'), 'MemoryError'),
        (FileNotFoundError(2, 'No such file', 'x'), 'FileNotFoundError'),
        (KeyError(3), 'KeyError'),
    ],
)
def test_a_process_at_the_side_tells_the_class_of_its_error(error: Exception, name: str) -> None:
    assert side_work.failure(error).error == name
