"""Variants of a task: rows of values put in place of its placeholders, looked at first, then made and certified.

A variant is an ordinary document with the topic ``variants of …``. It is published only with a certificate; one that
fails stays a draft with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from pydantic import Field
from sqlmodel import col, select

from studio.documents.certificates import Certificates
from studio.documents.rows import VARIANTS
from studio.documents.service import Documents
from studio.documents.views import MAX_TOPIC_CHARS, DocumentView, check_solutions, check_title
from studio.store.database import Database
from studio.store.tables import DocumentTable
from studio.variants.job import JobView, VariantJob
from studio.variants.placeholders import Template, filled, spots, unknown
from studio.variants.values import Combine, Row, Table, combined, read_table
from trainer.errors import FieldError, TaskError
from trainer.task import TaskFile, parse_task_spec
from trainer.validation import Document

_BATCH: Final = 500
MAX_FORMS: Final = 50


class Recipe(Document):
    """How variants are made: a title pattern (empty: the task's own, with the values), a table, names kept as text."""

    title: str = ''
    table: Table = Field(default_factory=Table)
    kept: tuple[str, ...] = ()


class Form(Document):
    """What a user types to make variants: ranges for the names of the task, or a table; kept while the studio runs."""

    source: Literal['ranges', 'table'] = 'ranges'
    ranges: dict[str, str] = Field(default_factory=dict)
    combine: Combine = 'product'
    table: str = ''
    title: str = ''
    kept: tuple[str, ...] = ()
    publish: bool = True

    def recipe(self) -> Recipe:
        """What it asks for. Raises ``TaskError`` at ``ranges.NAME`` or ``table``."""
        if self.source == 'table':
            table = read_table(self.table)
        else:
            typed = {name: text for name, text in self.ranges.items() if text.strip() and name not in self.kept}
            table = combined(typed, self.combine)
        return Recipe(
            title=self.title, table=table, kept=tuple(name for name in self.kept if name not in table.columns)
        )


class Variant(Document):
    """One variant before it is made: its task, or what is wrong with its row."""

    number: int
    line: int
    values: dict[str, str] = Field(default_factory=dict)
    title: str = ''
    task: TaskFile | None = None
    problems: tuple[FieldError, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it can be made."""
        return self.task is not None and not self.problems


class Preview(Document):
    """Every variant of a recipe. ``problems`` are those of the recipe itself and must be solved first."""

    columns: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    problems: tuple[FieldError, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def good(self) -> tuple[Variant, ...]:
        """Those that can be made."""
        return () if self.problems else tuple(variant for variant in self.variants if variant.ok)


class Variants:
    """Looks at variants and makes them, one task at a time. Thread-safe. Raises ``NotFound``, ``TaskError``."""

    def __init__(self, database: Database, documents: Documents, certificates: Certificates) -> None:
        self._database, self._documents, self._certificates = database, documents, certificates
        self._jobs: dict[str, VariantJob] = {}
        self._forms: dict[str, Form] = {}

    def form(self, document_id: str) -> Form:
        """What was typed for a task last, so that a reload loses nothing."""
        return self._forms.get(document_id, Form())

    def keep_form(self, document_id: str, form: Form) -> None:
        """Keep what is typed."""
        self._forms.pop(document_id, None)
        self._forms[document_id] = form
        while len(self._forms) > MAX_FORMS:
            self._forms.pop(next(iter(self._forms)))

    def preview(self, document_id: str, recipe: Recipe) -> Preview:
        """Fill in every row and say what is wrong with it; nothing is stored."""
        found = preview(template_of(self._documents.get(document_id)), recipe)
        return self._marked_known(found)

    def make(self, document_id: str, recipe: Recipe, *, publish: bool = True) -> JobView:
        """Begin to make and certify every good variant, in the background; ``job`` says how far it is.

        Raises ``TaskError`` where there is nothing to make, or while others are being made.
        """
        view = self._documents.get(document_id)
        found = self._marked_known(preview(template_of(view), recipe))
        if found.problems:
            raise TaskError(found.problems[0].msg, found.problems)
        if not found.good:
            raise TaskError('There is no variant to make', hint='Solve the problems of the rows first.')
        running = next((job for job in self._jobs.values() if job.view.is_active), None)
        if running is not None:
            raise TaskError(
                'Variants of a task are being made already', hint='Wait until they are done, or cancel them.'
            )
        tasks = [variant.task for variant in found.good if variant.task is not None]
        topics = (*view.topics, topic_of(view.title))
        job = VariantJob(self._documents, self._certificates, tasks, topics=topics, publish=publish)
        self._jobs[document_id] = job
        job.start()
        return job.view

    def job(self, document_id: str) -> JobView | None:
        """The last variants made of a task since the studio was started."""
        job = self._jobs.get(document_id)
        return job.view if job is not None else None

    def topic(self, document_id: str) -> str:
        """The topic of the variants that were made of a task last; empty where there are none."""
        job = self._jobs.get(document_id)
        return job.topics[-1] if job is not None else ''

    def cancel(self, document_id: str) -> None:
        """Stop making variants of a task; those that are made stay, what runs is ended."""
        job = self._jobs.get(document_id)
        if job is not None:
            job.cancel()

    def undo(self, document_id: str) -> int:
        """Delete the variants that were made last; return how many. ``redo`` brings them back."""
        job = self._jobs.get(document_id)
        return job.undo() if job is not None else 0

    def redo(self, document_id: str) -> int:
        """Bring back what ``undo`` deleted; return how many."""
        job = self._jobs.get(document_id)
        return job.redo() if job is not None else 0

    def close(self) -> None:
        """End the work in the background; called when the studio stops."""
        for job in self._jobs.values():
            job.cancel()
        for job in self._jobs.values():
            job.join()

    def _marked_known(self, found: Preview) -> Preview:
        """Mark the variants that are in the store already."""
        hashes = [variant.task.task_spec.hash for variant in found.variants if variant.task]
        here: dict[str, str] = {}
        with self._database.read() as session:
            for start in range(0, len(hashes), _BATCH):
                query = select(DocumentTable.hash, DocumentTable.title).where(
                    col(DocumentTable.hash).in_(hashes[start : start + _BATCH]), col(DocumentTable.deleted_at).is_(None)
                )
                here |= dict(session.exec(query).all())
        marked = tuple(
            _with(variant, f'the same task is here already: {here[variant.task.task_spec.hash] or "Untitled task"}')
            if variant.task and not variant.problems and variant.task.task_spec.hash in here
            else variant
            for variant in found.variants
        )
        return found.model_copy(update={'variants': marked})


def template_of(document: DocumentView | TaskFile) -> Template:
    """A task as a template: a document as it was typed last, or a task of a file."""
    spec = document.draft if isinstance(document, DocumentView) else document.task_spec.to_json()
    return Template(
        title=document.title,
        task_spec=dict(spec),
        solutions=tuple(solution.model_dump(mode='json') for solution in document.solutions),
    )


def topic_of(title: str) -> str:
    """The topic that holds the variants of a task together."""
    return f'{VARIANTS}{title.strip() or "Untitled task"}'[:MAX_TOPIC_CHARS].strip()


def title_pattern(title: str, names: Collection[str]) -> str:
    """A title that tells variants apart: the task's own where it has a placeholder, else with the values behind it."""
    used = {spot.name for spot in spots(Template(title=title, task_spec={}))}
    if used & set(names) or not names:
        return title
    return f'{title} ({", ".join(f"{{{name}}}" for name in names)})'


def preview(template: Template, recipe: Recipe) -> Preview:
    """Fill in every row of a recipe and say what is wrong with it, or with the recipe as a whole."""
    names = recipe.table.columns
    title = recipe.title if recipe.title.strip() else template.title
    written = {spot.name for spot in spots(template.model_copy(update={'title': title})) if not spot.is_shell}
    pattern = recipe.title if recipe.title.strip() else title_pattern(template.title, names)
    template = template.model_copy(update={'title': pattern})
    used = {spot.name for spot in spots(template) if not spot.is_shell}
    problems = list(unknown(template, names, recipe.kept)) if names else []
    if names and not written & set(names):  # the title that is made up for variants is nobody's placeholder
        problems.append(FieldError(loc='columns', msg=f'The task has no {{{names[0]}}} to be replaced'))
    if not problems and names and not {spot.name for spot in spots(template) if spot.loc != 'title'} & set(names):
        problems.append(FieldError(loc='columns', msg='Only the title has placeholders: all variants are one task'))
    variants = []
    seen: dict[str, int] = {}
    for number, row in enumerate(recipe.table.rows, 1):
        variant = _variant(template, row, number)
        if variant.task is not None:
            first = seen.setdefault(variant.task.task_spec.hash, number)
            if first != number:
                variant = _with(variant, f'the same task as row {first}')
        variants.append(variant)
    return Preview(
        columns=names, variants=tuple(variants), problems=tuple(problems), remarks=_remarks(template, names, used)
    )


def _variant(template: Template, row: Row, number: int) -> Variant:
    made = Variant(number=number, line=row.line, values=row.values)
    if row.problem:
        return _with(made, row.problem, f'line {row.line}')
    try:
        one = filled(template, row.values)
    except TaskError as error:
        return made.model_copy(update={'problems': error.fields})
    made = made.model_copy(update={'title': one.title})
    problems: list[FieldError] = []
    task = None
    try:
        spec, _ = parse_task_spec(one.task_spec, root='')
    except TaskError as error:
        problems += error.fields
    try:
        title, solutions = check_title(one.title, needed=True), check_solutions(one.solutions)
    except TaskError as error:
        problems += error.fields
    if not problems:
        task = TaskFile(title=title, task_spec=spec, solutions=solutions)
    return made.model_copy(update={'task': task, 'problems': tuple(problems)})


def _with(variant: Variant, message: str, loc: str = 'task_spec') -> Variant:
    return variant.model_copy(update={'problems': (*variant.problems, FieldError(loc=loc, msg=message))})


def _remarks(template: Template, names: Collection[str], used: Collection[str]) -> tuple[str, ...]:
    remarks = [f'{name} is a column, but nowhere in the task' for name in names if name not in used]
    remarks += [
        f'${{{spot.name}}} in {spot.where} is left as it is: it belongs to the shell'
        for spot in spots(template)
        if spot.is_shell and spot.name in names
    ]
    if names and not any(_kind(one) == 'reference' for one in template.solutions):
        remarks.append('The task has no reference solution, so no variant can be certified')
    return tuple(remarks)


def _kind(solution: Mapping[str, object]) -> object:
    return solution.get('kind')
