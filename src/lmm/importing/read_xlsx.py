"""Reading Excel workbooks with openpyxl: each sheet as a section, its values as the sheet shows them."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, local
from lmm.importing.imported import Context, Imported
from lmm.importing.markdown_text import defused, escaped, link_target, plain
from lmm.importing.number_format import shown, stored

if TYPE_CHECKING:
    from openpyxl.cell import Cell
    from openpyxl.workbook import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

_THREADED = re.compile(r"\A\[Threaded comment\].*?\nComment:\n\s*", re.DOTALL)  # what Excel puts before such a comment
_HYPERLINK = re.compile(r'=HYPERLINK\("([^"]+)"(?:[,;]\s*"([^"]*)")?', re.IGNORECASE)
_DRAWN = {"xl/charts/chart": "chart(s)", "xl/media/": "picture(s)", "xl/diagrams/data": "diagram(s)"}
MOST_CELLS = 2_000_000


def read(data: bytes, context: Context) -> Imported:
    """Convert a workbook to markdown: a section for each visible sheet, with its tables, links and comments.

    Raises:
        FileReadError: it cannot be read, or all its sheets are empty or hidden.
    """
    with Archive(data, kind=context.kind) as archive:
        checked = archive.bounded()
        boxes = {title: list(_boxes(archive, name)) for title, _, name in sheets_of(archive)}
        drawn = Counter(what for name in archive.names for start, what in _DRAWN.items() if name.startswith(start))
        has_formulas = any(b"<f" in archive.read(name) for name in archive.names if name.startswith("xl/worksheets/"))
    values = _load(checked, data_only=True)
    formulas = _load(checked, data_only=False) if has_formulas else values
    is_computed = not values.calculation.fullCalcOnLoad  # else a program wrote 0 for what Excel computes on opening
    left_out = _LeftOut(drawings=drawn, is_computed=is_computed)
    sections = list[str]()
    for sheet in values.worksheets:
        if sheet.sheet_state != "visible":
            left_out.sheets.append(sheet.title)
        else:
            cells = _Sheet(sheet, formulas[sheet.title], left_out)
            sections += section_of(cells.title, cells.cells, boxes.get(sheet.title, ()), cells.comments)
    if not any(not section.startswith("#") for section in sections):
        hint = "show its hidden sheets in Excel first" if left_out.sheets else ""
        raise FileReadError("there is no text in this workbook", hint=hint)
    title = plain(str(values.properties.title or ""))
    return Imported(defused("\n\n".join(sections)) + "\n", title=title, notes=tuple(left_out.notes()))


def sheets_of(archive: Archive) -> Iterator[tuple[str, bool, str]]:
    """Iterate over the sheets of a workbook: their titles, whether they are visible, and their members.

    Raises:
        FileReadError: the workbook is damaged.
    """
    targets = archive.targets("xl/workbook.xml")
    for node in archive.xml("xl/workbook.xml").iter():
        if local(node.tag) == "sheet":
            id = next((value for key, value in node.items() if local(key) == "id"), "")
            yield node.get("name", ""), node.get("state", "visible") == "visible", targets.get(id, "")


def _boxes(archive: Archive, sheet: str) -> Iterator[str]:
    """Iterate over the paragraphs in shapes that are drawn on a sheet, which openpyxl leaves out."""
    members = [name for name in archive.targets(sheet).values() if name.startswith("xl/drawings/drawing")]
    for root in (archive.xml(name) for name in members if name in archive.names):
        repeated = {id(node) for part in root.iter() if local(part.tag) == "Fallback" for node in part.iter()}
        for node in root.iter():
            if local(node.tag) == "p" and id(node) not in repeated:
                text = _words("".join(part.text or "" for part in node.iter() if local(part.tag) == "t"))
                yield from [text] if text else []


def _load(data: bytes, *, data_only: bool) -> Workbook:
    from openpyxl import load_workbook

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of features that it would lose on saving
            return load_workbook(BytesIO(data), data_only=data_only, keep_links=False, rich_text=data_only)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # openpyxl raises whatever the file makes it raise
        hint = "open it in Excel or LibreOffice and save it again"
        raise FileReadError(f"this workbook cannot be read: {str(error)[:200]}", hint=hint) from error


@dataclass(slots=True)
class _LeftOut:
    """What was left out, or is not as the sheet shows it."""

    drawings: Mapping[str, int]
    is_computed: bool
    sheets: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    formulas: int = 0

    def notes(self) -> Iterator[str]:
        """Iterate over one note for each kind."""
        if self.sheets:
            yield f"left out: hidden sheet(s) {', '.join(self.sheets)}"
        if self.hidden:
            yield f"left out: hidden rows or columns in {', '.join(self.hidden)}"
        if self.drawings:
            yield f"left out: {', '.join(f'{count} {what}' for what, count in self.drawings.items())}"
        if self.formats:
            codes = ", ".join(f"{code} ({count})" for code, count in self.formats.most_common(5))
            yield f"written as stored, since the number format is not understood: {codes}"
        if self.formulas:
            yield f"written as formulas, since the file contains no result: {self.formulas} cell(s); save it in Excel"


class _Sheet:
    """The cells of a sheet as text, by row and column."""

    def __init__(self, sheet: Worksheet, formulas: Worksheet, left_out: _LeftOut) -> None:
        self.title, self._left_out = sheet.title, left_out
        self.comments: list[str] = []
        self.cells: dict[tuple[int, int], str] = {}
        hidden_rows = {row for row, how in sheet.row_dimensions.items() if how.hidden}
        hidden_columns = {
            column for how in sheet.column_dimensions.values() if how.hidden for column in range(how.min, how.max + 1)
        }
        is_hiding = False
        for cell, source in _filled(sheet, formulas):
            if cell.row in hidden_rows or cell.column in hidden_columns:
                is_hiding = True
                continue
            self.cells[cell.row, cell.column] = self._text(cell, source)
            if cell.comment is not None:
                words = _words(_THREADED.sub("", plain(cell.comment.text)))
                self.comments.append(f"- Comment on {cell.coordinate}: {words}")
        if is_hiding:
            left_out.hidden.append(sheet.title)
        self._repeat_merged(sheet, hidden_rows, hidden_columns)

    def _text(self, cell: Cell, source: str) -> str:
        value = cell.value
        linked = _HYPERLINK.match(source)
        if linked and not value:
            value = linked[2] or linked[1]
        if source and (value is None or value == "" or (value == 0 and not self._left_out.is_computed)):
            self._left_out.formulas += 1
            return f"`{_words(source, escape=False).replace('`', '')}`".replace("|", r"\|")
        if value is None:
            return ""
        text = shown(value, cell.number_format) if cell.number_format != "General" else stored(value)
        if text is None:
            self._left_out.formats[cell.number_format] += 1
            text = stored(value)
        text = _rich(value) if isinstance(value, list) and text else _words(text)
        link = cell.hyperlink.target if cell.hyperlink is not None else None
        target = link or (linked[1] if linked else "")
        return f"[{text}]({link_target(target)})" if target and text else text

    def _repeat_merged(self, sheet: Worksheet, rows: set[int], columns: set[int]) -> None:
        """Put the text of a merged cell into each cell that it covers."""
        last = max((column for _, column in self.cells), default=0)
        lowest = max((row for row, _ in self.cells), default=0)
        for area in sheet.merged_cells.ranges:
            text = self.cells.get((area.min_row, area.min_col), "")
            for row in range(area.min_row, min(area.max_row, lowest) + 1) if text else ():
                for column in range(area.min_col, min(area.max_col, last) + 1):
                    if row not in rows and column not in columns:
                        self.cells[row, column] = text


def _filled(sheet: Worksheet, formulas: Worksheet) -> Iterator[tuple[Cell, str]]:
    """Iterate over the cells with a value, a formula or a comment, row by row, and their formulas.

    Raises:
        FileReadError: there are too many.
    """
    cells: Any = formulas._cells  # formulas.iter_rows would make every cell up to the last: 17 billion
    if len(cells) > MOST_CELLS:
        message = f"the sheet {sheet.title} has {len(cells):,} cells; the limit is {MOST_CELLS:,}"
        raise FileReadError(message, hint="import it in parts")
    for row, column in sorted(cells):
        cell, written = sheet.cell(row, column), cells[row, column]
        source = str(getattr(written.value, "text", written.value) or "") if written.data_type == "f" else ""
        if cell.value is not None or source or getattr(cell, "comment", None) is not None:
            yield cell, source


def _rich(parts: Iterable[Any]) -> str:
    """Write a text of several formats, with raised and lowered parts; `parts` are those of openpyxl."""
    kinds = {"superscript": "^", "subscript": "~"}
    marked = [(kinds.get(str(getattr(getattr(part, "font", None), "vertAlign", "")), ""), str(part)) for part in parts]
    return " ".join("".join(script(escaped(plain(text)), mark) for mark, text in marked).split())


def script(text: str, mark: str) -> str:
    """Write a raised text, whose `mark` is ``^``, or a lowered one, ``~``; other texts have no mark.

    >>> script("6", "^"), script("a b", "~"), script("c", "")
    ('^6^', '~a\\\\ b~', 'c')
    """
    return mark + re.sub(r"\s+", r"\\ ", text) + mark if mark and text.strip() else text


def _words(text: str, *, escape: bool = True) -> str:
    text = " ".join(plain(text).split())
    return escaped(text) if escape else text


def section_of(
    title: str, cells: Mapping[tuple[int, int], str], boxes: Iterable[str], comments: Sequence[str]
) -> Iterator[str]:
    """Iterate over the blocks of a sheet: heading, tables, texts of drawn shapes, comments; a line with one cell is a
    paragraph."""
    yield f"# {_words(title)}"
    for rows in _areas(cells):
        yield _table(rows) if len(rows) > 1 or len(set(rows[0].values())) > 1 else next(iter(rows[0].values()))
    yield from boxes
    if comments:
        yield "\n".join(comments)


def _areas(cells: Mapping[tuple[int, int], str]) -> Iterator[list[dict[int, str]]]:
    """Iterate over the tables of a sheet: lines with a single text stand alone, and a line of texts that follows an
    empty line and lies above a number begins another table."""
    rows: dict[int, dict[int, str]] = {}
    for (at, column), text in cells.items():
        if text:
            rows.setdefault(at, {})[column] = text
    area: list[dict[int, str]] = []
    last = 0
    for number in sorted(rows):
        row, below = rows[number], rows.get(number + 1, {})
        numbers = [any(re.search(r"\d", text) for text in each.values()) for each in (row, below)]
        is_apart = number > last + 1 and ((len(row) > 1 and numbers == [False, True]) or not area)
        is_title = len(set(row.values())) == 1 and (not area or number > last + 1) and len(below) != 1
        if area and (is_apart or is_title):
            yield area
            area = []
        if is_title:
            yield [row]
        else:
            area.append(row)
        last = number
    if area:
        yield area


def _table(rows: Sequence[Mapping[int, str]]) -> str:
    """Write rows as a pipe table; the first is its header."""
    columns = sorted({column for row in rows for column in row})
    lines = [[row.get(column, "") for column in columns] for row in rows]
    lines.insert(1, ["---"] * len(columns))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
