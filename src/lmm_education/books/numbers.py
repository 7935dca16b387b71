"""The numbers of chapters, sections, figures, tables and equations, and the texts of references to them.

Numbers are assigned as in Quarto and bookdown: headings are numbered across the files of a book, appendices have
letters, headings marked with ``{-}`` or ``{.unnumbered}`` have none; figures are numbered by chapter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lmm.book_project import BookFile
from lmm.markdown import Attributes, Span, read_attributes, spans, without
from lmm.markdown.blocks import Block, HeaderBlock, HeadingBlock, TextBlock
from lmm.markdown.units import is_opening
from lmm.notebook.outputs import code_apart, read_cell

WORDS = {
    "en": {
        "chapter": "Chapter", "sec": "Section", "appendix": "Appendix", "fig": "Figure", "tbl": "Table", "tab": "Table",
        "eq": "Equation", "lst": "Listing", "thm": "Theorem", "lem": "Lemma", "cor": "Corollary", "prp": "Proposition",
        "cnj": "Conjecture", "def": "Definition", "exm": "Example", "exr": "Exercise", "sol": "Solution",
        "rem": "Remark", "alg": "Algorithm", "nte": "Note", "tip": "Tip", "wrn": "Warning", "imp": "Important",
        "cau": "Caution",
    },
    "de": {
        "chapter": "Kapitel", "sec": "Abschnitt", "appendix": "Anhang", "fig": "Abbildung", "tbl": "Tabelle",
        "tab": "Tabelle", "eq": "Gleichung", "lst": "Listing", "thm": "Satz", "lem": "Lemma", "cor": "Korollar",
        "prp": "Proposition", "cnj": "Vermutung", "def": "Definition", "exm": "Beispiel", "exr": "Aufgabe",
        "sol": "Lösung", "rem": "Bemerkung", "alg": "Algorithmus", "nte": "Anmerkung", "tip": "Tipp",
        "wrn": "Warnung", "imp": "Wichtig", "cau": "Vorsicht",
    },
}  # fmt: skip
"""The names of things in references, by the prefix of their labels."""
_KINDS = tuple(f"{kind}-" for kind in WORDS["en"] if kind not in ("chapter", "sec", "appendix", "tab"))
_GROUP = re.compile(r"\{[^{}\n]*#[^{}\n]*\}")
BOOKDOWN_LABEL = re.compile(r"\(\\#(?P<kind>[a-z]{2,4}):(?P<id>[\w.-]+)\)")
THEOREMS = {
    "theorem": "thm", "lemma": "lem", "corollary": "cor", "proposition": "prp", "conjecture": "cnj",
    "definition": "def", "example": "exm", "exercise": "exr", "hypothesis": "hyp",
}  # fmt: skip
_TITLED, _TITLED_KINDS = "titled", {*THEOREMS.values(), "sol", "rem"}
_TEXT_REFERENCE = re.compile(r"^(\(ref:[\w-]+\)) ([^\n]+)", re.MULTILINE)
_PART = re.compile(r"\((PART\*?|APPENDIX)\)\s*(?P<title>.*)")
_PART_BY_CODE = re.compile(r"""cat\(["']# \((PART|APPENDIX)\) (?P<title>(?!\(ref:)[^"'{]*)""")


@dataclass(frozen=True, slots=True)
class FileNumbers:
    """The numbers in a file: its own, and those of its headings by line; also the part of the book that begins with it,
    and the chapter's title if the part's precedes it."""

    number: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    part: str = ""
    title: str = ""


@dataclass(slots=True)
class Numbering:
    """Numbers the contents of a book's files, one after the other; `labels` collects the texts of references.

    With `chapters`, a file's first heading is a chapter (Quarto); otherwise every heading of level 1 is (bookdown).
    Without `sections`, headings have no numbers; without `book`, a document has only sections.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> numbering = Numbering(chapters=True)
    >>> read = parse_markdown_text("# Leaves {#sec-leaves}\\n\\n## Colour\\n\\n![Green](a.png){#fig-green}\\n")
    >>> numbering.add(BookFile("leaves.qmd"), read)
    FileNumbers(number='1', headings={1: '1', 3: '1.1'}, part='', title='')
    >>> numbering.labels
    {'sec-leaves': 'Chapter 1', 'fig-green': 'Figure 1.1'}
    """

    chapters: bool = False
    sections: bool = True
    book: bool = True
    words: Mapping[str, str] = field(default_factory=lambda: WORDS["en"])
    labels: dict[str, str] = field(default_factory=dict)
    _counters: list[int] = field(default_factory=list)
    _things: Counter[str] = field(default_factory=Counter)
    _anchors: set[str] = field(default_factory=set)
    _appendix: bool = False
    _unnumbered: bool = False  # applies to the whole file
    _begun: str = ""  # the part that begins in this file

    def add(self, file: BookFile, blocks: Iterable[Block]) -> FileNumbers:
        """Number the contents of the next file."""
        if file.is_appendix:
            self._begin_appendix()
        self._unnumbered = self.chapters and file.depth < 0
        headings: dict[int, str] = {}
        self._begun, written_part = "", False
        number, opened, first, title = None, list[str](), True, ""
        for block in blocks:
            if isinstance(block, HeaderBlock) and self.chapters and first and block.get("title"):
                number, first = self._heading(HeadingBlock.make(1, str(block.get("title"))), True), False
            elif isinstance(block, HeadingBlock):
                if _TITLED in opened:
                    continue
                special = _PART.match(block.title)
                if special:
                    self._part(special)
                    written_part = True
                    continue
                if first and written_part:
                    title = block.title
                counted = self._heading(block, first)
                number, first = counted if number is None else number, False
                if counted:
                    headings[block.line] = counted
            elif isinstance(block, TextBlock):
                self._text(block.content, opened)
        return FileNumbers(number or "", headings, self._begun or file.part, title)

    def _part(self, written: re.Match[str]) -> None:
        self._begun = written["title"].strip()
        if written[1] == "APPENDIX":
            self._begin_appendix()

    def _begin_appendix(self) -> None:
        if not self._appendix:
            self._appendix, self._counters = True, []

    def _heading(self, block: HeadingBlock, first: bool) -> str:
        """Count a heading and return its number."""
        off = "unnumbered" in block.group.classes
        if first and self.chapters:
            self._unnumbered = self._unnumbered or off
        if block.level == 1 and self.book:
            self._things.clear()
        number = ""
        if self.sections and not off and not self._unnumbered:
            counters = [*self._counters, *[0] * block.level][: block.level]
            counters[-1] += 1
            self._counters, number = counters, self._shown(counters)
        elif block.level == 1 and not self.chapters:
            self._things["unnumbered"] = 1
        self._label_heading(block, number)
        return number

    def _shown(self, counters: list[int]) -> str:
        first = chr(ord("A") + (counters[0] - 1) % 26) if self._appendix and counters[0] else str(counters[0])
        return ".".join([first, *map(str, counters[1:])])

    def _label_heading(self, block: HeadingBlock, number: str) -> None:
        written, anchor = block.group.id, block.anchor
        if anchor in self._anchors and not written:
            return
        self._anchors.add(anchor)
        if self.chapters:
            top = block.level == 1 and self.sections and self.book
            word = self.words["appendix" if self._appendix else "chapter"] if top else self.words["sec"]
            if anchor.startswith("sec-"):
                self.labels[anchor] = f"{word} {number}" if number else block.title
        else:
            self.labels[anchor] = number or block.title

    # -- figures, tables, … ------------------------------------------------------------------------

    def _text(self, text: str, opened: list[str]) -> None:
        """Count the things in a text; `opened` are the labels of the divs that contain it."""
        if text.startswith(":::"):
            if not is_opening(text):
                opened[-1:] = []
                return
            opened.append(_label_of(text))
        for code, piece in code_apart(text):
            if code is None:
                self._labels(piece, opened)
            else:
                self._code(code, opened)

    def _labels(self, text: str, opened: list[str]) -> None:
        bare = without(text, "code") if "`" in text else text
        found = (read_attributes(match[0]) for match in (_GROUP.finditer(bare) if "#" in bare else ()))
        for group in (group for group in found if group and group.id):
            theorem = next((THEOREMS[name] for name in group.classes if name in THEOREMS), "")
            if self.chapters and group.id.startswith(_KINDS):
                self._count(group.id, opened[:-1] if text.startswith(":::") else opened)
            elif not self.chapters and theorem and text.startswith(":::"):
                self._count(f"{theorem}:{group.id}", ())
        for match in _TEXT_REFERENCE.finditer(text) if "(ref:" in text else ():
            self.labels.setdefault(match[1], match[2])
        for match in BOOKDOWN_LABEL.finditer(bare):
            self._count(f"{match['kind']}:{match['id']}", ())

    def _code(self, code: Span, opened: list[str]) -> None:
        cell = read_cell(code)
        if cell is None:
            group = read_attributes(code.attributes)
            if group and self.chapters and group.id.startswith(_KINDS):
                self._count(group.id, opened)
            return
        label = cell.label
        if self.chapters:
            for each in (label, str(cell.options.get("lst-label", ""))):
                if each.startswith(_KINDS):
                    self._count(each, opened)
        elif written := _PART_BY_CODE.search(cell.code):
            self._part(written)
        elif cell.language in THEOREMS:
            self._count(f"{THEOREMS[cell.language]}:{label}", ())
        elif label and cell.options.get("fig-cap") and cell.options.get("eval") is not False:
            self._count(f"fig:{label}", ())
        elif cell.table_label:
            self._count(f"tab:{cell.table_label}", ())

    def _count(self, label: str, around: Iterable[str]) -> None:
        if label in self.labels:
            return
        kind, separator, _ = re.split("([-:])", label, maxsplit=1)
        whole = next((each for each in around if each.startswith(f"{kind}-") and each in self.labels), "")
        if whole:  # a subfigure
            self._things[whole] += 1
            self.labels[label] = f"{self.labels[whole]} ({chr(ord('a') + self._things[whole] - 1)})"
            return
        self._things[kind] += 1
        numbered = self.sections and self.book and not self._unnumbered and not self._things["unnumbered"]
        chapter = f"{self._shown(self._counters[:1])}." if numbered and self._counters else ""
        number = f"{chapter}{self._things[kind]}"
        self.labels[label] = number if separator == ":" else f"{self.words.get(kind, kind)} {number}"


def _label_of(fence: str) -> str:
    """Return the label of a div, or a marker that headings in it are titles of a callout or of tabs."""
    group = next((span.group for span in spans(fence) if span.kind == "div"), Attributes())
    titled = any(name == "panel-tabset" or name.startswith("callout-") for name in group.classes)
    return _TITLED if titled or group.id.partition("-")[0] in _TITLED_KINDS else group.id
