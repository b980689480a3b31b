"""``/certificate``: what is proven of a task's checker, and proving it."""

from __future__ import annotations

import threading
from typing import Annotated, Final

from fastapi import APIRouter, Body
from pydantic import Field

from studio.api.access import KeyedRoute, StudioOf, needs
from studio.api.errors import Refused
from studio.api.fields import Id
from studio.documents.views import CertificateState
from trainer.certify import REPEATS, Certificate
from trainer.validation import Document

AT_ONCE: Final = 2
"""Proofs that the API makes side by side; each starts sandboxes by the dozen."""
_places = threading.BoundedSemaphore(AT_ONCE)

router = APIRouter(prefix='/certificate', tags=['Certificates'], route_class=KeyedRoute)


class CertificateOut(Document):
    """What is proven of a document's latest version: ``stale`` is of a version or of solutions before it."""

    document_id: str
    state: CertificateState
    certificate: Certificate | None


class ProveIn(Document):
    """How to prove."""

    repeats: int = Field(
        default=REPEATS, strict=True, ge=1, le=20, description='How often the reference solution is graded.'
    )


@router.get('/get/{document_id}', **needs('read', 404))
def get(document_id: Id, studio: StudioOf) -> CertificateOut:
    """The last certificate of a document, and whether it still holds."""
    return CertificateOut(
        document_id=document_id,
        state=studio.certificates.state(document_id),
        certificate=studio.certificates.get(document_id),
    )


@router.post('/create/{document_id}', **needs('run', 404, 413, 415))
def create(document_id: Id, studio: StudioOf, body: Annotated[ProveIn, Body()] = ProveIn()) -> CertificateOut:  # noqa: B008
    """Prove the latest version of a document in sandboxes; answers when that is done, which takes some seconds."""
    studio.documents.get(document_id)
    if not _places.acquire(blocking=False):
        raise Refused(503, 'busy', f'{AT_ONCE} proofs are being made. Try again in a moment.', {'Retry-After': '5'})
    try:
        studio.certificates.run(document_id, repeats=body.repeats)
    finally:
        _places.release()
    return get(document_id, studio)
