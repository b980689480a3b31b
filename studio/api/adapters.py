"""``/adapter``: what jobs leave, as versions under a name that outlives them."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import FileResponse
from pydantic import ConfigDict, Field

from studio.adapters.service import MAX_NOTES_CHARS
from studio.adapters.views import AdapterVersionView, NamedAdapter
from studio.api.access import KeyedRoute, StudioOf, needs
from studio.api.fields import Id
from studio.api.files import zip_answer, zip_file
from studio.api.jobs import Freed
from trainer.validation import Document

router = APIRouter(prefix='/adapter', tags=['Adapters'], route_class=KeyedRoute)


class AdapterList(Document):
    """Every adapter with its versions, the one with the newest version first."""

    data: tuple[NamedAdapter, ...]


class AdapterIn(Document):
    """What to change: ``name`` is that of all versions, ``notes`` are of this one."""

    model_config = ConfigDict(json_schema_extra={'examples': [{'notes': 'Better at renaming files.'}]})

    name: str | None = None
    notes: str | None = Field(default=None, max_length=MAX_NOTES_CHARS)


@router.get('/list', **needs('read'))
def list_adapters(studio: StudioOf) -> AdapterList:
    """Every adapter with its versions: lineage, checksums, held-out success before and after."""
    return AdapterList(data=tuple(studio.adapters.list()))


@router.get('/get/{id}', **needs('read', 404))
def get(id: Id, studio: StudioOf) -> AdapterVersionView:
    """One version of an adapter."""
    return studio.adapters.get(id)


@router.post('/update/{id}', **needs('write', 404, 413, 415))
def update(id: Id, body: AdapterIn, studio: StudioOf) -> AdapterVersionView:
    """Rename an adapter, or write notes to one of its versions."""
    version = studio.adapters.get(id)
    if body.name is not None:
        studio.adapters.rename(version.adapter_id, body.name)
    if body.notes is not None:
        studio.adapters.annotate(id, body.notes)
    return studio.adapters.get(id)


@router.get('/download/{id}', response_class=FileResponse, **zip_answer(needs('read', 404)))
def download(id: Id, studio: StudioOf) -> FileResponse:
    """A version as a zip in PEFT layout."""
    return zip_file(studio.adapters.zip(id), f'{studio.adapters.get(id).file_name}.zip')


@router.delete('/delete/{id}', **needs('write', 404, 409))
def delete(id: Id, studio: StudioOf) -> Freed:
    """Delete a version with its files."""
    return Freed(id=id, freed_bytes=studio.adapters.delete(id))
