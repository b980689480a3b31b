"""``/finetuning/rollouts``: the attempts of a job, found by words, outcome, task and reward, and one of them whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from studio.api.access import KeyedRoute, StudioOf, needs
from studio.api.fields import Id
from studio.runs.rollout_search import Hits, SearchQuery
from trainer.recording import Rollout

router = APIRouter(prefix='/finetuning', tags=['Rollouts'], route_class=KeyedRoute)


class RolloutQuery(SearchQuery):
    """Which rollouts to find. Empty means any; ``text`` has words that all must be there, or "phrases"."""

    task: str = Field(default='', max_length=100)
    stage: str = Field(default='', max_length=100)
    page: int = Field(default=1, ge=1, le=1_000_000)


@router.get('/rollouts/{id}', **needs('read', 404))
def list_rollouts(id: Id, query: Annotated[RolloutQuery, Query()], studio: StudioOf) -> Hits:
    """A page of the attempts of a job, the newest step first; ``indexed`` of ``recorded`` were looked through."""
    studio.runs.get(id)
    return studio.search.find(id, query, studio.runs.titles(id))


@router.get('/rollouts/{id}/{rollout}', **needs('read', 404, 409))
def rollout(id: Id, rollout: Annotated[int, Path(ge=1, le=2**53)], studio: StudioOf) -> Rollout:
    """One attempt whole: prompt, every turn with its tool calls and their answers, verdict, changed files."""
    studio.runs.get(id)
    return studio.runs.rollout(id, rollout)
