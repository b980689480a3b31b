"""The form of variants: a range or a list for each placeholder of the task, or a table for all; and their titles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from nicegui import events, ui

from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, card, chip, note, spacer
from studio.ui.components.fields import Field
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.uploads import cleared_when_done
from studio.ui.components.wording import plural
from studio.variants.placeholders import Spot
from studio.variants.service import Form
from studio.variants.values import MAX_TABLE_CHARS, MAX_VARIANTS
from trainer.errors import FieldError

RULES: Final = (
    ('{name}', 'is replaced by the value, wherever it stands: title, prompt, names and text of setup files, '
     'setup commands, the checker and the solutions'),
    ('{{name}}', 'stays as the text {name}'),
    ('{{{name}}}', 'is the value in braces'),
    ('${name}', 'belongs to the shell and is never replaced'),
)  # fmt: skip
_EXAMPLES: Final = '1..20  or  red, green, "a, b"'
_PLACES: Final = 3


class VariantsForm:
    """Draws the cards; ``value`` is what is typed now, ``on_change`` is called after every key."""

    def __init__(self, form: Form, found: Mapping[str, Sequence[Spot]], *, on_change: Callable[[], Any]) -> None:
        # What was typed for a name that the task has no longer is forgotten.
        ranges = {name: text for name, text in form.ranges.items() if name in found}
        self.value = form.model_copy(update={'ranges': ranges})
        self._found, self._on_change = found, on_change
        self._fields: dict[str, Field] = {}
        self._columns: tuple[str, ...] = ()
        with card('Values', icon='braces') as head:
            with head:
                spacer()
                choices = [Choice('ranges', 'Ranges and lists'), Choice('table', 'Table')]
                Segmented(choices, form.source, label='Where the values come from', on_change=self._pick_source)
            self._body = ui.element('div').classes('bd vs vs-3')
        with card('Title', icon='tag'), ui.element('div').classes('bd vs vs-3'):
            self._title = Field('Title of each variant', hint='Empty: the title of the task with the values behind it.')
            with self._title:
                self._input(form.title, 'Title of each variant', 'Write {name} where a value belongs', self._set_title)
            switch = ui.switch('Publish those that are certified', value=form.publish)
            switch.on_value_change(lambda event: self._set(publish=bool(event.value)))
            Text('A variant without a certificate stays a draft, with the reason.', classes='hint')
        with ui.element('details').classes('card rules'):
            Text('How braces are read', 'summary')
            with ui.element('dl'):
                for text, meaning in RULES:
                    Text(text, 'dt', 'mono')
                    Text(meaning, 'dd')
            Text('Nothing else is touched: a prompt full of other braces stays byte for byte.', 'p', 't3')
        self._draw()

    def show_problems(self, problems: Sequence[FieldError], columns: Sequence[str]) -> None:
        """Show each problem at its field; those of no field are listed above the values."""
        self._columns = tuple(columns)
        rest = []
        for field in self._fields.values():
            field.show_error('')
        self._title.show_error('')
        for problem in problems:
            name = problem.loc.removeprefix('ranges.').split('.')[0]
            if problem.loc == 'title':
                self._title.show_error(problem.msg)
            elif name in self._fields:
                self._fields[name].show_error(problem.msg)
            elif (without := self._without_values(problem)) is not None:
                without.show_error('Give it values, or keep it as text')
            else:
                rest.append(problem)
        self._problems.clear()
        with self._problems:
            for problem in rest[:8]:
                where = f'{problem.loc}: ' if problem.loc not in ('columns', 'ranges', 'table', '') else ''
                note(f'{where}{problem.msg}', 'bad', icon='circle-alert')
            if len(rest) > 8:
                Text(f'… and {len(rest) - 8} more', classes='hint')
        self._show_names(self._columns)

    def _without_values(self, problem: FieldError) -> Field | None:
        """The field of a name that stands in the task and has no values yet."""
        name = problem.msg[1:].partition('}')[0] if problem.msg.startswith('{') else ''
        return self._fields.get(name)

    # ------------------------------------------------------------------------------------------------- draw

    def _draw(self) -> None:
        self._body.clear()
        self._fields.clear()
        with self._body:
            self._problems = ui.element('div').classes('vs vs-1')
            if not self._found:
                self._draw_none()
            elif self.value.source == 'table':
                self._draw_table()
            else:
                self._draw_ranges()
            self._names = ui.element('div').classes('vs vs-1 names')
        self._show_names(())

    def _draw_none(self) -> None:
        with ui.element('div').classes('none-yet vs'):
            Text('This task has no placeholders yet.', 'b')
            Text(
                'Write {name} in its prompt, files, commands, checker or solutions where variants should differ, '
                'for example {n} or {city}, and come back.',
                'p',
                't2',
            )

    def _draw_ranges(self) -> None:
        for name, places in self._found.items():
            self._draw_range(name, places)
        with ui.element('div').classes('hs'):
            choices = [Choice('product', 'Every combination'), Choice('zip', 'In step')]
            Segmented(choices, self.value.combine, label='How they are combined', on_change=self._pick_combine)
            Text('In step: the first with the first, and so on.', classes='hint')
        Text(f'Also 01..12, 0..100 step 10, a..f. At most {MAX_VARIANTS:,} variants at a time.', classes='hint')

    def _draw_range(self, name: str, places: Sequence[Spot]) -> None:
        field = Field(f'{{{name}}}', hint=_places(places), end=plural(len(places), 'place'))
        with field, ui.element('div').classes('hs hs-1'):
            text = self.value.ranges.get(name, '')
            self._input(text, f'Values of {name}', _EXAMPLES, partial(self._set_range, name))
            keep = Button('Keep as text', kind='gho sm', label=f'Keep {{{name}}} as text')
            keep.on('click', lambda name=name: self._keep(name), args=[])
        field.element.set_visibility(name not in self.value.kept)
        self._fields[name] = field

    def _draw_table(self) -> None:
        hint = f'Names in the first line, as in CSV or TSV, or one JSON object a line. At most {MAX_VARIANTS:,} rows.'
        with Field('Table', hint=hint) as field:
            names = list(self._found)
            example = ','.join(names) + '\n' + ','.join('1' for _ in names)
            box = ui.textarea(value=self.value.table, placeholder=example).props('outlined dense rows=10')
            box.props['aria-label'] = 'Table'
            box.props('spellcheck=false').classes('code-box')
            box.on_value_change(lambda event: self._set(table=event.value or ''))
        self._fields['table'] = field
        with ui.element('div').classes('hs'):
            upload = ui.upload(on_upload=self._uploaded, auto_upload=True, max_file_size=MAX_TABLE_CHARS).classes(
                'hidden'
            )
            upload.props('accept=".csv,.tsv,.txt,.jsonl,.json" aria-hidden=true tabindex=-1')
            upload.on('rejected', lambda: _too_large(), args=[])
            button = Button('Open a file', icon='upload', kind='sm')
            button.on('click', js_handler=f'() => getElement({upload.id}).pickFiles()')
            Text('CSV, TSV or JSONL', classes='hint')
        cleared_when_done(upload)
        self._box = box

    def _show_names(self, columns: Sequence[str]) -> None:
        """In a table: which names of the task it fills in. In both: which are kept as text."""
        self._names.clear()
        with self._names:
            for name, places in self._found.items():
                kept = name in self.value.kept and name not in columns
                if self.value.source == 'ranges' and not kept:
                    continue
                with ui.element('div').classes('hs hs-1 nm'):
                    Icon(*_STATES['column' if name in columns else 'kept' if kept else 'open'])
                    Text(f'{{{name}}}', classes='mono')
                    Text(_places(places), classes='hint ell').props['title'] = _places(places)
                    spacer()
                    if name in columns:
                        chip('a column', 'ok')
                    elif kept:
                        Button('Replace it', kind='gho xs', on_click=lambda name=name: self._replace(name))
                    else:
                        Button('Keep as text', kind='xs', on_click=lambda name=name: self._keep(name))

    def _input(self, text: str, label: str, placeholder: str, on_type: Callable[[str], Any]) -> None:
        box = ui.input(value=text, placeholder=placeholder).props('outlined dense spellcheck=false')
        box.classes('mono-input grow').props['aria-label'] = label
        box.on_value_change(lambda event: on_type(event.value or ''))

    # ----------------------------------------------------------------------------------------------- actions

    def _set(self, **changes: Any) -> None:
        new = self.value.model_copy(update=changes)
        if new != self.value:
            self.value = new
            self._on_change()

    def _set_title(self, text: str) -> None:
        self._set(title=text)

    def _set_range(self, name: str, text: str) -> None:
        self._set(ranges={**self.value.ranges, name: text})

    def _pick_source(self, source: str) -> None:
        self._set(source=source)
        self._draw()

    def _pick_combine(self, combine: str) -> None:
        self._set(combine=combine)

    def _keep(self, name: str) -> None:
        self._set_kept((*self.value.kept, name), name)

    def _replace(self, name: str) -> None:
        self._set_kept(tuple(other for other in self.value.kept if other != name), name)

    def _set_kept(self, kept: tuple[str, ...], name: str) -> None:
        """Hide or show the field of a name in place: a redraw would drop what is being typed in another one."""
        self._set(kept=kept)
        if name in self._fields:
            self._fields[name].element.set_visibility(name not in kept)
        self._show_names(self._columns)

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        data = await event.file.read()
        try:
            self._box.value = data.decode('utf-8-sig')
        except UnicodeDecodeError:
            theme.toast('The file was not read', 'bad', detail='Save it as UTF-8 and open it again.')


_STATES: Final = {
    'column': ('circle-check', 'ic-s c-ok'),
    'kept': ('minus', 'ic-s t3'),
    'open': ('circle-alert', 'ic-s c-bad'),
}


def _places(places: Sequence[Spot]) -> str:
    """Where a name stands: ``prompt, checker.config.command and 2 more``."""
    locs = list(dict.fromkeys(spot.loc for spot in places))
    rest = f' and {len(locs) - _PLACES} more' if len(locs) > _PLACES else ''
    return ', '.join(locs[:_PLACES]) + rest


def _too_large() -> None:
    theme.toast(
        'The file was not taken', 'bad', detail=f'Up to {MAX_TABLE_CHARS // 1_000_000} MB of CSV, TSV or JSONL.'
    )
