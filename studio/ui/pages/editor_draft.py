"""What the editor holds: the draft as typed, saved by itself a moment after the last key, never over somebody else's.

``revision`` is what the store had when we last agreed with it. A save that meets another one stops and asks.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from typing import Any, Final, Literal
from weakref import WeakSet

from nicegui import background_tasks, run

from studio.documents import Conflict, Documents, DocumentView
from trainer.errors import RlvrError
from trainer.task import Solution

SAVE_AFTER_S: Final = 0.8
JUST_NOW_S: Final = 60.0
State = Literal['saved', 'dirty', 'saving', 'failed', 'conflict']

_drafts: WeakSet[Draft] = WeakSet()


class Draft:
    """The working copy of one document in one tab."""

    def __init__(
        self,
        documents: Documents,
        view: DocumentView,
        on_state: Callable[[], Any],
        on_refresh: Callable[[], Any] = lambda: None,
    ) -> None:
        self._documents = documents
        self._on_state, self._on_refresh = on_state, on_refresh
        self.state: State = 'saved'
        self.message = ''
        self.saved_at: float | None = None
        self.stored: DocumentView
        self._edited_at = 0.0
        self._saving = asyncio.Lock()
        self.take(view)
        _drafts.add(self)

    def take(self, view: DocumentView) -> None:
        """Work on what is stored; what was typed and not saved is dropped."""
        self.view = view
        self.stored = view
        self.raw: dict[str, Any] = copy.deepcopy(view.draft)
        self.title = view.title
        self.topics = tuple(view.topics)
        self.notes = view.notes
        self.solutions: tuple[Solution, ...] = view.solutions
        self._touched = False
        self._set('saved')

    def edited(self) -> None:
        """Something was typed: save it a moment later."""
        self._edited_at = time.monotonic()
        self._touched = True
        if self.state != 'conflict':
            self._set('dirty')

    @property
    def is_dirty(self) -> bool:
        """Whether there is something that the store does not have."""
        return self.state in ('dirty', 'failed', 'conflict')

    @property
    def saved_just_now(self) -> bool:
        """Whether the last save of this tab is less than a minute old."""
        return self.saved_at is not None and time.monotonic() - self.saved_at < JUST_NOW_S

    async def tick(self) -> None:
        """Save when the keys have rested; called a few times a second."""
        if self.state == 'dirty' and time.monotonic() - self._edited_at >= SAVE_AFTER_S:
            await self.save()

    async def save(self) -> bool:
        """Store what is new, after a save that runs already; say whether the store now has everything."""
        async with self._saving:
            if self.state in ('dirty', 'failed'):
                await self._save()
        return self.state == 'saved'

    async def _save(self) -> None:
        began = self._edited_at
        self._set('saving')
        try:
            view = await run.io_bound(self._store, copy.deepcopy(self.raw))
        except Conflict as conflict:
            self.stored = conflict.stored
            self._set('conflict')
            return
        except RlvrError as error:
            self._set('failed', error.message)
            return
        if view is not None:
            self.view = self.stored = view
            self.saved_at = time.monotonic()
            self._set('saved' if self._edited_at == began else 'dirty')

    async def keep_mine(self) -> None:
        """Put this tab's draft over what another tab stored; its versions stay in the history."""
        self.view = self.stored
        self._set('dirty')
        await self.save()

    async def look(self) -> None:
        """Notice that the document was changed elsewhere: follow it while nothing was typed here, else ask."""
        if self.state != 'saved':
            return
        seen = self.view.revision
        try:
            stored = await run.io_bound(self._documents.get, self.view.id)
        except RlvrError as error:
            self._set('failed', error.message)
            return
        if stored is None:
            raise asyncio.CancelledError  # The studio shuts down, and a timer would sleep on.
        if self.state == 'saved' and stored.revision > seen == self.view.revision:
            self.stored = stored
            if self._touched:
                self._set('conflict')
            else:
                self.take(stored)
                self._on_refresh()

    def leave(self) -> None:
        """The page goes away: store what is left, without anybody to tell."""
        self._on_state = lambda: None
        if self.state == 'dirty':
            background_tasks.create(self.save(), name=f'last save of {self.view.id}')

    def _store(self, raw: dict[str, Any]) -> DocumentView:
        """Write the parts that changed, the spec first: an over-long title never holds it back."""
        view = self.view
        if raw != view.draft:
            view = self.view = self._documents.save_draft(view.id, raw, revision=view.revision)
        changed = (self.title, self.topics, self.notes, self.solutions)
        if changed != (view.title, view.topics, view.notes, view.solutions):
            view = self._documents.update(
                view.id,
                title=self.title,
                topics=self.topics,
                notes=self.notes,
                solutions=self.solutions,
                revision=view.revision,
            )
        return view

    def _set(self, state: State, message: str = '') -> None:
        self.state, self.message = state, message
        self._on_state()


async def save_open_drafts(document_id: str) -> None:
    """Store what other tabs hold of a document, so that a reload shows the last key."""
    for draft in list(_drafts):
        if draft.view.id == document_id and draft.state == 'dirty':
            await draft.save()
