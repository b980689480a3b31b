"""What the editor holds: the draft as typed, saved by itself a moment after the last key, never over somebody else's.

``view`` is what the store had when we last agreed with it, ``stored`` what it has now. A save that meets another one
stops and asks, unless both say the same.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from typing import Any, Final, Literal
from weakref import WeakSet

from nicegui import background_tasks, run

from studio.documents.service import Conflict, Documents, DocumentView, NotFound
from studio.ui.pages.editor_merge import changed_parts, merge
from trainer.errors import RlvrError, StoreError
from trainer.task import Solution

SAVE_AFTER_S: Final = 0.8
SAVE_AT_LATEST_S: Final = 4.0
"""Who types without a rest is saved all the same."""
RETRY_AFTER_S: Final = 5.0
JUST_NOW_S: Final = 60.0
State = Literal['saved', 'dirty', 'saving', 'failed', 'conflict', 'gone']

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
        self.kept: dict[str, dict[str, Any]] = {}
        """Settings of checker types that are not picked now, so that they are there when one comes back."""
        self._edited_at = self._dirty_since = 0.0
        self._retry_at: float | None = None
        self._left = False
        self._saving = asyncio.Lock()
        self.take(view)
        _drafts.add(self)

    def take(self, view: DocumentView) -> None:
        """Work on what is stored; what was typed and not saved is dropped."""
        self.view = view
        self.stored = view
        self._hold(_parts_of(view))
        self._touched = False
        self._set('saved')

    def edited(self) -> None:
        """Something was typed: save it a moment later."""
        self._edited_at = time.monotonic()
        self._touched = True
        if self.state == 'saved':
            self._dirty_since = self._edited_at
        if self.state not in ('conflict', 'gone'):
            self._set('dirty')
        if self._left:
            background_tasks.create(self.save(), name=f'late save of {self.view.id}')

    def hold(self) -> None:
        """Something was typed that cannot be saved yet: from now on a change elsewhere is asked about."""
        self._touched = True

    def put(self, raw: dict[str, Any]) -> None:
        """Replace the whole spec, as a restored version or an undo does, and draw it."""
        self.raw = copy.deepcopy(raw)
        self.edited()
        self._on_refresh()

    @property
    def is_dirty(self) -> bool:
        """Whether there is something that the store does not have."""
        return self.state in ('dirty', 'failed', 'conflict', 'gone')

    @property
    def saved_just_now(self) -> bool:
        """Whether the last save of this tab is less than a minute old."""
        return self.saved_at is not None and time.monotonic() - self.saved_at < JUST_NOW_S

    async def tick(self) -> None:
        """Save when the keys have rested; called a few times a second."""
        now = time.monotonic()
        rested = now - self._edited_at >= SAVE_AFTER_S or now - self._dirty_since >= SAVE_AT_LATEST_S
        again = self.state == 'failed' and self._retry_at is not None and now >= self._retry_at
        if again or (self.state == 'dirty' and rested):
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
            if _parts_of(self.stored) == self._parts():
                self.view = self.stored
                self._set('saved')
            else:
                self._set('conflict')
            return
        except NotFound:
            self._set('gone')
            return
        except RlvrError as error:
            # What the store refuses now it may take later; what is wrong with the text it never will.
            self._retry_at = time.monotonic() + RETRY_AFTER_S if isinstance(error, StoreError) else None
            self._set('failed', f'{error.message}. {error.hint}' if error.hint else error.message)
            return
        if view is not None:
            self.view = self.stored = view
            self.saved_at = self._dirty_since = time.monotonic()
            self._set('saved' if self._edited_at == began else 'dirty')

    @property
    def changed_here(self) -> tuple[str, ...]:
        """Parts that were changed in this tab since it last agreed with the store."""
        return changed_parts(_parts_of(self.view), self._parts())

    @property
    def changed_there(self) -> tuple[str, ...]:
        """Parts that were changed elsewhere since this tab last agreed with the store."""
        return changed_parts(_parts_of(self.view), _parts_of(self.stored))

    @property
    def clashes(self) -> tuple[str, ...]:
        """Parts that were changed both here and elsewhere, differently."""
        return merge(_parts_of(self.view), self._parts(), _parts_of(self.stored))[1]

    async def keep_both(self) -> None:
        """Take over what was changed elsewhere, and keep what was changed here; where both did, mine."""
        merged, _ = merge(_parts_of(self.view), self._parts(), _parts_of(self.stored))
        self._hold(merged)
        await self.keep_mine()
        self._on_refresh()

    async def keep_mine(self) -> None:
        """Put this tab's draft over what another tab stored; its versions stay in the history."""
        self.view = self.stored
        self._set('dirty')
        await self.save()

    async def bring_back(self) -> None:
        """Restore the document that was deleted elsewhere, with what is typed here."""
        restored = await run.io_bound(self._documents.restore, self.view.id)
        if restored is not None:
            self.view = self.stored = restored
            self._set('dirty')
            await self.save()

    def take_theirs(self) -> Callable[[], None]:
        """Show what another tab stored instead of mine; returns what brings mine back."""
        undo = self.snapshot()
        self.take(self.stored)
        self._on_refresh()
        return undo

    def snapshot(self) -> Callable[[], None]:
        """Remember everything as it is typed now; returns what brings it back."""
        parts = self._parts()

        def undo() -> None:
            self._hold(parts)
            self.edited()
            self._on_refresh()

        return undo

    async def look(self) -> None:
        """Notice that the document was changed elsewhere: follow it while nothing was typed here, else ask."""
        if self.state != 'saved':
            return
        seen = self.view.revision
        try:
            stored = await run.io_bound(self._documents.get, self.view.id)
        except NotFound:
            self._set('gone')
            return
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
        self._on_state = self._on_refresh = lambda: None
        self._left = True
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

    def _parts(self) -> dict[str, Any]:
        return copy.deepcopy(
            {
                'title': self.title,
                'topics': self.topics,
                'notes': self.notes,
                'solutions': self.solutions,
                'task_spec': self.raw,
            }
        )

    def _hold(self, parts: dict[str, Any]) -> None:
        held = copy.deepcopy(parts)
        self.title: str = held['title']
        self.topics: tuple[str, ...] = held['topics']
        self.notes: str = held['notes']
        self.solutions: tuple[Solution, ...] = held['solutions']
        self.raw = held['task_spec']

    def _set(self, state: State, message: str = '') -> None:
        self.state, self.message = state, message
        self._on_state()


def _parts_of(view: DocumentView) -> dict[str, Any]:
    return {
        'title': view.title,
        'topics': tuple(view.topics),
        'notes': view.notes,
        'solutions': view.solutions,
        'task_spec': view.draft,
    }


async def save_open_drafts(document_id: str) -> None:
    """Store what other tabs hold of a document, so that a reload shows the last key."""
    for draft in list(_drafts):
        if draft.view.id == document_id and draft.state == 'dirty':
            await draft.save()
