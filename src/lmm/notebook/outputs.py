"""Code cells that knitr, Quarto and Jupyter run: their options, and what they printed. Nothing is run here."""

from __future__ import annotations

import html.parser
import json
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from lmm.book_project import book_of, text_in
from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.markdown import Span, replace_spans, spans, yaml_core
from lmm.markdown.blocks import MetadataBlock, fenced
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.units import is_opening

_HEADER = re.compile(r"\{(?P<head>[A-Za-z](?:[^{}\n]|\{[^{}\n]*\})*)\}[ \t]*(?P<argument>[^\n`]*)")
_OPTION_LINE = re.compile(r"[ \t]*(?:(?:#|//|--|%%?)\|[ \t]?|:(?=[\w-]+: ))(.*)")
_HEAD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\((?:[^()]|\([^()]*\))*\)|[^,"'()])+""")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")
_WORDS = {"TRUE": True, "T": True, "true": True, "FALSE": False, "F": False, "false": False}


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A code cell: its language, label (if any), options (``fig.cap`` becomes ``fig-cap``), and code.

    MyST's directives have the same form: the language is their name, the label their argument.
    """

    language: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    def caption(self, of: str = "fig") -> str:
        """Return the caption of its figure, or of its table (``tbl``); empty if there is none."""
        value = self.options.get(f"{of}-cap", "")
        return " ".join(str(value[0] if isinstance(value, list) and value else value).split())

    @property
    def children(self) -> list[str]:
        """The documents that it includes: a list in YAML, R's ``c("a", "b")``, or a single name."""
        child = self.options.get("child", [])
        return [str(name) for name in child] if isinstance(child, list) else _QUOTED.findall(str(child)) or [str(child)]

    @property
    def table_label(self) -> str:
        """The label of the captioned table that it makes: the one passed to `kable()`, or else the cell's."""
        if self.argument("caption") is None and not self.options.get("tab-cap"):
            return ""
        return self.argument("label") or self.label

    def argument(self, name: str) -> str | None:
        """Return a string argument of a function in its code, empty if it is computed; None if there is none."""
        match = re.search(rf"""\b{name}\s*=\s*(?:paste0?\(\s*)?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')?""", self.code)
        return None if match is None else str(_value(match[1] or ""))


def code_apart(text: str) -> Iterator[tuple[Span | None, str]]:
    """Iterate over the pieces of a text: the span of fenced code, possibly in a list, or None, and the piece's text.

    >>> [(code and code.text, lines) for code, lines in code_apart("A:\\n```r\\n1\\n```\\nB")]
    [(None, 'A:\\n'), ('1', '```r\\n1\\n```\\n'), (None, 'B')]
    >>> [code for code, _ in code_apart("`<br>`{=html}\\n\\n    indented\\n")]
    [None]
    """
    at = 0
    for code in spans(text, in_list=True):
        is_fenced = code.target != "indented" if code.kind == "code_block" else code.kind == "raw" and code.attributes
        if not is_fenced:
            continue
        start, end = text.rfind("\n", 0, code.start) + 1, text.find("\n", code.end) + 1 or len(text)
        if start > at:
            yield None, text[at:start]
        yield code, text[start:end]
        at = end
    if at < len(text):
        yield None, text[at:]


def read_cell(code: Span | None) -> CodeCell | None:
    """Return the cell that a code block is; None if the block is not run.

    >>> [code] = spans('```{r leaf, fig.cap="A leaf, green"}\\n#| echo: false\\nplot(1)\\n```')
    >>> cell = read_cell(code)
    >>> cell.label, cell.options, cell.code
    ('leaf', {'fig-cap': 'A leaf, green', 'echo': False}, 'plot(1)')
    """
    header = _HEADER.fullmatch(code.attributes) if code else None
    if code is None or header is None:
        return None
    language, _, head = header["head"].partition(",")
    language, _, label = language.strip().partition(" ")
    options = {"label": label.strip()} if label.strip() and "=" not in label else {}
    options |= _in_head(f"{label},{head}" if "=" in label else head)
    lines = code.text.split("\n")
    count = next((i for i, line in enumerate(lines) if not _OPTION_LINE.match(line)), len(lines))
    options |= _in_lines(lines[:count])
    label = str(options.pop("label", "")) or header["argument"].strip()
    return CodeCell(language, label, options, "\n".join(lines[count:]).strip("\n"))


def _in_head(head: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _HEAD.findall(head):
        name, equals, value = part.partition("=")
        if equals:
            found[name.strip().replace(".", "-").replace("_", "-")] = _value(value.strip())
        elif part.strip() and not found:
            found["label"] = part.strip()
    return found


def _value(text: str) -> Any:
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if is_quoted else _WORDS.get(text, text)


def _in_lines(lines: list[str]) -> dict[str, Any]:
    """Return the options in lines that begin with ``#|``: YAML, or knitr's older form, as after the language."""
    source = "\n".join(match[1] for line in lines if (match := _OPTION_LINE.match(line)))
    first = next(iter(source.split(None, 1)), "")
    if len(first) < 2 or source[0].isspace() or first.find(":") != len(first) - 1 or "=" in first:  # knitr's rule
        return _in_head(source)
    try:
        values = yaml_core.to_value(yaml_core.compose(source)) if source else {}
    except LmmError:
        return {}
    return {str(name).replace(".", "-"): value for name, value in values.items()} if isinstance(values, dict) else {}


_NO_ECHO = re.compile(r"\bopts_chunk\$set\((?:[^()]|\([^()]*\))*\becho\s*=\s*F(?:ALSE)?\b")


def shows_code(header: Mapping[str, Any], text: str = "") -> bool:
    """Return whether a page shows the code of cells that do not say so themselves, by its header and its `text`.

    >>> shows_code({"format": {"html": {"echo": False}}}), shows_code({}, "```{r}\\nopts_chunk$set(echo = FALSE)\\n```")
    (False, False)
    """
    knitr, forms = header.get("knitr"), header.get("format")
    places = [header, header.get("execute"), knitr.get("opts_chunk") if isinstance(knitr, Mapping) else None]
    for form in forms.values() if isinstance(forms, Mapping) else ():
        places += [form, form.get("execute")] if isinstance(form, Mapping) else []
    hidden = any(isinstance(place, Mapping) and place.get("echo") is False for place in places)
    return not hidden and not ("opts_chunk" in text and _NO_ECHO.search(text))


# -- environments ------------------------------------------------------------------------------------


# Labels by which Quarto identifies them, and names of bookdown's chunks.
_BY_LABEL = {"exr": "exercise", "sol": "solution"}


def environments(text: str) -> tuple[str, ...]:
    """Return the types of the environment that a text opens: a div's classes, Quarto's labels, or a chunk's name.

    >>> environments("::: {#exr-leaf .big}"), environments("::: solution"), environments("```{exercise}\\nWhy?\\n```")
    (('exercise', 'big'), ('solution',), ('exercise',))
    """
    bare = text.lstrip()
    if not bare.startswith(("`", "~")) and not is_opening(text):
        return ()
    # An argument of MyST's directives is no part of a div's fence.
    opened = next(iter(spans(re.sub(r"\A(:{3,}[ \t]*\{[\w-]+\})[^\n]*", r"\1", bare))), None)
    if opened is None or opened.start:
        return ()
    if opened.runs:
        cell = read_cell(opened)
        if cell is not None and re.split("[-_]", cell.label)[-1] == "solution":  # learnr's
            return ("solution",)
        return (opened.language,) if opened.language in _BY_LABEL.values() else ()
    if opened.kind == "code_block":
        return opened.group.classes or (opened.language,)
    kind = _BY_LABEL.get(opened.group.id.partition("-")[0])
    return ((kind,) if kind else ()) + opened.group.classes if opened.kind == "div" else ()


# -- outputs of cells ------------------------------------------------------------------------------
# Outputs are read from Quarto's ``_freeze``, knitr's markdown and figures, and pages. Nothing is run here, and no link
# that leads out of the folder is followed.

_MOST = 20_000_000  # bytes of a document's outputs
_COMMENTED = re.compile(r"(?:##|#>)(?: |$)")
_PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")


@dataclass(frozen=True, slots=True)
class CellOutputs:
    """The outputs of cells as markdown, by label or code; the pictures that they drew; the values of inline code; the
    `file` that they are from, if it is one."""

    cells: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    file: str = ""


def cell_outputs(path: Path, top: Path, settings: Mapping[str, Any]) -> CellOutputs:
    """Return the outputs of a document's code; `top` is the folder of its book, `settings` are the book's."""
    if path.suffix.lower() not in (".qmd", ".rmd"):
        return CellOutputs()
    inside = path.relative_to(top)
    source = text_in(top, inside.as_posix(), most=_MOST)
    cells = [cell for code, _ in code_apart(source) if (cell := read_cell(code))]
    up = "../" * (len(inside.parts) - 1)
    stem = inside.with_suffix("")
    frozen = text_in(top, f"_freeze/{stem.as_posix()}/execute-results/html.json", most=_MOST)
    if frozen:
        try:
            markdown = str(json.loads(frozen)["result"]["markdown"])
        except (ValueError, KeyError, TypeError):
            markdown = ""
        output = _of_frozen(markdown, cells)
        moved = f"{up}_freeze/{stem.as_posix()}/"
        found = {key: _moved(text, f"{stem.name}_files/", moved) for key, text in output.items()}
        return CellOutputs(found, values=values_in(source, markdown), file=f"_freeze/{stem.as_posix()}")
    name = inside.with_suffix(".md").as_posix()
    knitted = text_in(top, name, most=_MOST)
    output = dict(_of_knitted(source, _without_metadata(knitted))) if knitted else _of_pages(path, top, settings, cells)
    pictures = _drawn(top, inside, up, settings)
    return CellOutputs(output, pictures, values_in(source, knitted), name if knitted else "the rendered page")


def printed(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    """Iterate over what the cells in a text of a document printed: for each its name, its output as markdown without
    the code, and the file that the output is from. Outputs of older code, and those that the page hides, are left out.
    """
    cells = [cell for code, _ in code_apart(text) if (cell := read_cell(code)) is not None]
    if not cells:
        return
    book = book_of(path.absolute())
    top = book.folder if book is not None else path.absolute().parent
    ran = cell_outputs(path.absolute(), top, book.settings if book is not None else {})
    for cell in cells:
        output = ran.cells.get(cell.label or cell.code, "")
        hides = cell.options.get("include") is False or cell.options.get("output") is False
        if hides or not output or not _same_code(cell, output):
            continue
        own = _without_code(cell, output)
        own += "".join(f"\n\n![]({each})" for each in ran.pictures.get(cell.label, ()) if each not in own)
        if own.strip():
            yield cell.label or cell.code.partition("\n")[0], own.strip("\n"), ran.file


def _without_code(cell: CodeCell, output: str) -> str:
    def own(span: Span) -> str | None:
        if span.kind != "code_block" or not _is_of(cell, span):
            return None
        lines = [line for line in span.text.splitlines() if _COMMENTED.match(line) and line.strip() not in cell.code]
        return fenced("\n".join(lines)) if lines else ""  # knitr's option `collapse`

    return replace_spans(output, own)


def _is_of(cell: CodeCell, span: Span) -> bool:
    """Return whether a code block of the output is the cell's own code."""
    return span.language == cell.language.lower() or "cell-code" in span.group.classes


# -- inline code -----------------------------------------------------------------------------------

INLINE_CODE = re.compile(r"`(?:r|\{(?:r|python|julia|ojs)\})[ ]([^`\n]{1,1000})`")
_IN_AN_ITEM = re.compile(r"[ \t\n]+(?:```|~~~)")
_TELLING_LINES = 5
_TELLING = 12  # characters next to code by which a line is recognized


def values_in(source: str, output: str) -> dict[str, str]:
    """Return the values of inline code in a `source`, from the markdown `output` in which they appear.

    >>> values_in("There are `r nrow(d)` rows, `r 100 * p` % of them new.", "There are 32 rows, 12.5 % of them new.")
    {'nrow(d)': '32', '100 * p': '12.5'}
    """
    source, output = (
        _without_metadata(text) if "`" in source and "\n---" in text else text for text in (source, output)
    )
    lines = (line for is_code, piece in code_apart(source) if output and not is_code for line in piece.splitlines())
    split = map(INLINE_CODE.split, lines)
    pairs = (pair for texts in split for pair in zip(texts[1::2], _between(texts[::2], output), strict=False))
    return unambiguous((code.strip(), value) for code, value in pairs)


def _without_metadata(text: str) -> str:
    """Return a text without questions, which may have come after it was knitted, and replies, which may quote it."""
    return "".join(block.source for block in parse_markdown_text(text) if not isinstance(block, MetadataBlock))


def _between(texts: Sequence[str], output: str) -> Sequence[str]:
    """Return what is between texts in a line of `output`; empty if that is ambiguous."""
    longest = max(texts, key=len)
    if len(texts) < 2 or len(longest) < _TELLING or not all(texts[1:-1]) or output.count(longest) != 1:
        return ()  # the same words occur twice, so that the line is ambiguous
    first, *inner, last = map(re.escape, texts)
    between = "".join(f"(?>(.*?){text})" for text in inner)  # atomic groups keep this linear in time
    found = re.search(rf"^{first}{between}([^\r\n]*){last}\r?$", output, re.MULTILINE)
    return found.groups() if found else ()


# -- Quarto ----------------------------------------------------------------------------------------


def _of_frozen(markdown: str, cells: Sequence[CodeCell]) -> dict[str, str]:
    """Return the outputs of a Quarto document's cells from its frozen results."""
    run = [cell for cell in cells if cell.language in ("r", "python", "julia", "bash", "sql")]
    divs = (span for span in spans(markdown) if span.kind == "div" and "cell" in span.group.classes)
    texts = (markdown[span.start : span.end].rstrip() for span in divs)
    output = [text.partition("\n")[2].rpartition("\n")[0] for text in texts]
    if len(output) != len(run):
        return {}  # the document has changed since then
    same = all(_same_code(cell, text) for cell, text in zip(run, output, strict=True))
    keys = (cell.label or cell.code for cell in run)
    return unambiguous(zip(keys, output, strict=True)) if same else {}


def _same_code(cell: CodeCell, output: str) -> bool:
    """Return whether an output belongs to this cell: if its code is shown, too, its first line must match."""
    if not any(_is_of(cell, span) for span in spans(output) if span.kind == "code_block"):
        return True
    first = cell.code.strip().partition("\n")[0].strip()
    return not first or first in output


def _moved(text: str, old: str, new: str) -> str:
    """Return a text with the paths of its pictures moved from one folder to another."""

    def moved(span: Span) -> str | None:
        if span.kind != "image" or not span.target.startswith(old):
            return None
        return text[span.start : span.end].replace(f"]({old}", f"]({new}", 1)

    return replace_spans(text, moved)


# -- knitr -----------------------------------------------------------------------------------------


def _of_knitted(source: str, knitted: str) -> Iterator[tuple[str, str]]:
    """Iterate over the outputs of cells in knitr's markdown, found between the texts around them."""
    group, at, is_known = list[CodeCell](), 0, True
    for code, piece in (*code_apart(_without_metadata(source)), (None, "")):
        lines = [line for line in piece.splitlines() if line.strip()]
        if (cell := read_cell(code)) is not None:
            group.append(cell)
        elif lines or not piece:
            begin = _place(knitted, lines[0], at) if lines else (len(knitted), len(knitted))
            if group and begin and is_known:
                yield from _of_group(group, knitted[at : begin[0]])
            at, end = (begin or (at, at))[0], None
            for line in lines[-_TELLING_LINES:]:  # the last one alone may be found too early
                end = _place(knitted, line, at)
                at = end[1] if end else at
            group, is_known = [], end is not None  # after a text that was changed, others' outputs may follow


def _of_group(cells: Sequence[CodeCell], output: str) -> Iterator[tuple[str, str]]:
    """Iterate over the outputs of cells without a text between them: each begins with its code, or, where that is not
    shown, with its picture. Another output of a cell whose code is not shown belongs to the one before it."""
    begins = [0]
    for cell in cells[1:]:
        first = cell.code.strip().partition("\n")[0].strip()
        code = rf"(?:```|~~~)[^\n]*\n[ \t]*{re.escape(first)}[ \t]*$" if first else r"(?!)"
        picture = rf"[^\n]*(?:!\[|<img )[^\n]*/{re.escape(cell.label)}-\d+\.\w+" if cell.label else r"(?!)"
        found = re.compile(rf"^(?:{code}|{picture})", re.MULTILINE).search(output, begins[-1])
        begins.append(found.start() if found else begins[-1])
    for number, cell in enumerate(cells):
        end = next((begin for begin in begins if begin > begins[number]), len(output))
        is_own = number == 0 or begins[number] > begins[number - 1]
        own = output[begins[number] : end].strip("\n") if is_own else ""
        yield cell.label or cell.code, textwrap.dedent(own) if _IN_AN_ITEM.match(own) else own


def _place(knitted: str, line: str, at: int) -> tuple[int, int] | None:
    """Return where a line begins and ends in knitr's markdown, whatever the values of its inline code are."""
    pattern = r"[^\n]*?".join(map(re.escape, INLINE_CODE.split(line.strip())[::2]))
    found = re.compile(rf"^[ \t]*{pattern}[ \t]*\r?$", re.MULTILINE).search(knitted, at)
    return found.span() if found else None


# -- rendered pages --------------------------------------------------------------------------------


def _of_pages(path: Path, top: Path, settings: Mapping[str, Any], cells: Sequence[CodeCell]) -> dict[str, str]:
    """Return the outputs of cells from rendered pages of the document, or of the book that it belongs to."""
    if not cells:
        return {}
    languages = {cell.code: cell.language.partition(" ")[0].lower() for cell in cells}
    own = path.relative_to(top).with_suffix(".html").as_posix()
    names = [own]
    for folder in filter(None, (_output(settings), "_site" if path.suffix.lower() == ".qmd" else "")):
        # bookdown names its pages after their headings
        names += [f"{folder}/{own}"] if path.suffix.lower() == ".qmd" else _files(top, folder)
    pages = [name for name in names if name.endswith(".html")]
    try:
        found = in_pages(top, pages, path.stat().st_mtime_ns, languages)
    except OSError:
        return {}
    return {cell.label or cell.code: found[cell.code] for cell in cells if cell.code in found}


# -- pictures --------------------------------------------------------------------------------------


def _drawn(top: Path, inside: Path, up: str, settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the pictures in the folders into which knitr, bookdown and Quarto draw."""
    stem, name = inside.with_suffix("").as_posix(), str(settings.get("book_filename") or "_main")
    kinds = ("html", "gfm", "markdown_github", "markdown_strict", "commonmark")
    folders = [f"{stem}_files/figure-{kind}" for kind in kinds]
    for place in ("_bookdown_files", _output(settings)):
        folders += [f"{place}/{base}_files/figure-html" for base in (stem, name)]
    found: dict[str, list[str]] = {}
    for folder in folders:
        files_by_label: dict[str, list[str]] = {}
        for file in _files(top, folder):
            label, _, number = PurePosixPath(file).stem.rpartition("-")
            if label and number.isdecimal() and file.lower().endswith(_PICTURES):
                files_by_label.setdefault(label, []).append(f"{up}{file}")
        found = files_by_label | found  # files in an earlier folder take precedence
    return {label: tuple(files) for label, files in found.items()}


def _output(settings: Mapping[str, Any]) -> str:
    """Return the folder that a book is rendered into."""
    project = settings.get("project")
    folder = project.get("output-dir") if isinstance(project, Mapping) else ""
    return str(settings.get("output_dir") or folder or "_book")


def _files(top: Path, folder: str) -> list[str]:
    try:
        if Folder(top).stat(folder) is None:
            return []
        return sorted(f"{folder}/{entry.name}" for entry in Folder(top).entries(folder) if entry.kind == "file")
    except LmmError:
        return []


# -- in rendered pages -------------------------------------------------------------------------------


_MOST_OF_A_PAGE = 5_000_000  # bytes of a page
_MOST_PAGES = 500
_MOST_PIECES = 20  # into which knitr splits the code of one cell
_SILENT = ("summary", "button", "script", "style")
Piece = tuple[str, str]  # code, or a part of it, and its output
_State = tuple[int, int]


def unambiguous(output: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the output of each code; code with two different outputs is left out."""
    found: dict[str, str] = {}
    doubtful = set[str]()
    for code, text in output:
        if found.setdefault(code, text) != text:
            doubtful.add(code)
    return {code: text for code, text in found.items() if code not in doubtful}


def in_pages(top: Path, names: Iterable[str], since: int, codes: Mapping[str, str]) -> Mapping[str, str]:
    """Return the outputs of code, given with its language, in pages that are no older than a time (`st_mtime_ns`).

    They are markdown, including the code. Code with two different outputs is left out.
    """
    codes_by_lines = {_lines(code): code for code in codes if code.strip()}
    runs = _runs(top, names, since) if codes_by_lines else ()
    found = ((codes_by_lines[lines], pieces) for run in runs for lines, pieces in _in_run(run, codes_by_lines))
    return unambiguous(
        (code, "\n\n".join(_as_markdown(*piece, codes[code]) for piece in pieces)) for code, pieces in found
    )


def _runs(top: Path, names: Iterable[str], since: int) -> Iterator[tuple[Piece, ...]]:
    for name in list(names)[:_MOST_PAGES]:
        try:
            found = Folder(top).stat(name)
            if found is not None and found.st_mtime_ns >= since:
                yield from _runs_of(top, name, (found.st_mtime_ns, found.st_size))
        except LmmError:
            continue


def _in_run(run: tuple[Piece, ...], codes: Collection[str]) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    """Iterate over the code of cells with output, among consecutive pieces, and the pieces of each."""
    at = 0
    while at < len(run):
        joined = accumulate((_lines(code) for code, _ in run[at : at + _MOST_PIECES]), lambda a, b: f"{a}\n{b}")
        size, lines = next(((n, lines) for n, lines in enumerate(joined, 1) if lines in codes), (1, ""))
        pieces = run[at : at + size]
        if lines and any(output for _, output in pieces):
            yield lines, pieces
        at += size


def _as_markdown(code: str, output: str, language: str) -> str:
    return f"{fenced(code, language)}\n\n{fenced(output)}" if output else fenced(code, language)


def _lines(code: str) -> str:
    """Return code without blank lines and trailing blanks, which knitr removes where it splits code."""
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


@lru_cache(maxsize=_MOST_PAGES)
def _runs_of(top: Path, name: str, state: _State) -> tuple[tuple[Piece, ...], ...]:
    page = _Page()
    page.feed(Folder(top).read(name, most=_MOST_OF_A_PAGE).decode("utf-8", "replace"))
    return tuple(map(tuple, filter(None, page.runs)))


class _Page(html.parser.HTMLParser):
    """Code and its output on a page, in `runs` that other content separates."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[Piece]] = [[]]
        self._divs: list[bool] = []  # for each open div: whether it is a cell's output
        self._silent = 0
        self._pre: list[str] | None = None
        self._is_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "div":
            self._divs.append(any(name.startswith("cell-output") for name in classes))
        elif tag == "pre":
            self._pre, self._is_code = [], bool(classes)
        elif tag in _SILENT:
            self._silent += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._divs:
            self._divs.pop()
        elif tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "pre" and self._pre is not None:
            text, self._pre = "".join(self._pre).strip("\n"), None
            self._take(text)

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._pre is not None:
            self._pre.append(data)
        elif data.strip() and not any(self._divs):
            self.runs.append([])

    def _take(self, text: str) -> None:
        run = self.runs[-1]
        if self._is_code and not any(self._divs):
            run.append((text, ""))
        elif run and (any(self._divs) or f"{text}\n".startswith(("## ", "##\n"))):
            code, output = run.pop()
            run.append((code, f"{output}\n{text}".strip("\n")))
        else:
            self.runs.append([])
