"""Counting the words of a file and of the markdown made from it, so that no import loses words in silence.

The words of the file are taken from the package's XML, the page's HTML, or the text that PDFium sees on a page, not
through the reader of the format. Both sides are compared as multisets: order and markup do not matter. What a reader
leaves out on purpose, such as running heads, is counted apart.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from xml.etree.ElementTree import Element

from lmm.importing.archive import Archive, local
from lmm.importing.markdown_text import plain
from lmm.importing.pandoc import as_utf8
from lmm.importing.pdf_page import BESIDE, comments_of, flattened
from lmm.importing.read_html import decode_html
from lmm.importing.read_pdf import open_document
from lmm.importing.read_subtitles import MARKUP, NO_CUE
from lmm.importing.read_xlsx import sheets_of
from lmm.markdown.page_marks import PAGE_MARK
from lmm.terminal import ESCAPES

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
# Without markup; PDFium reads the ß of LaTeX's fonts as ÿ.
_MARKS = str.maketrans({**dict.fromkeys("*^~\\`\xad"), "_": " ", "ÿ": "ß"})
_COMMENTS, _HEADS, _ALTERNATIVES = "comments", "headers and footers", "alternative texts"
_CONTENTS = "the table of contents"
_APART = (_COMMENTS, _HEADS, _ALTERNATIVES, _CONTENTS)  # what no reader reads
_SHARE = 0.02  # words of a text format that may be markup
_TELLING = 12  # letters of a line that is recognized by them


_Text = tuple[str, str]
"""A part of a file: what it is (``a text box``, ``slide3.xml``), and its text."""


@dataclass(frozen=True, slots=True)
class WordCount:
    """The number of words of a file, and a note for each place of which words were not read."""

    words: int
    not_read: int = 0
    notes: tuple[str, ...] = ()


def count_words(data: bytes, suffix: str, markdown: str, left_out: Mapping[str, str] = {}) -> WordCount:
    """Compare the words of a file, given its suffix, with those of the markdown made from it; `left_out` are texts that
    were left out on purpose, by kind.

    >>> count_words(b"<p>One two</p><aside>three</aside>", ".html", "One")
    WordCount(words=2, not_read=1, notes=('not read: 1 word in the page: two',))
    """
    read = _READERS.get(suffix)
    every = [(place, text, Counter(words_of(text))) for place, text in (read(data) if read is not None else ())]
    aside = {kind: "\n".join(text for place, text, _ in every if place == kind) for kind in _APART}
    counts = {kind: [*words_of(text)] for kind, text in {**left_out, **aside}.items()}
    notes = [f"left out: {_count(words)} in {kind}" for kind, words in counts.items() if words]
    parts = [part for part in every if part[0] not in _APART]
    total = sum((words for _, _, words in parts), Counter[str]())
    written = re.sub(rf"(?m)^{PAGE_MARK.pattern}", "", markdown)
    there = Counter(words_of(written))
    if suffix == ".pdf":  # where a raised number may stand apart
        there |= Counter(words_of(re.sub(r"[\^~]", " ", written)))
    there += Counter(words_of("\n".join(left_out.values())))
    missing = total - there
    if suffix in _TEXTS and missing.total() <= _SHARE * total.total():
        missing.clear()
    if suffix == ".pdf":
        # Lines that are there, but with other spaces, as around formulas.
        squeezed = "".join(words_of(written))
        lines = Counter("".join(words_of(text)) for _, text, words in parts if words & missing)
        for _, text, words in parts:
            line = "".join(words_of(text))
            if len(line) > _TELLING and line in lines and squeezed.count(line) >= lines[line]:
                missing -= words
        added = there - total
        missing -= Counter(re.sub("ff[il]?|f[il]", "", word) for word in added.elements())  # ligatures of bitmap fonts
        missing -= _turned(missing, added)
    number, places = missing.total(), dict[str, list[str]]()
    # Parts that are missing as a whole come first: a common word may be missing elsewhere.
    for place, _, words in sorted(parts, key=lambda part: -(part[2] & missing).total() / (part[2].total() or 1)):
        if lost := words & missing:
            missing -= lost
            places.setdefault(place, []).extend(lost.elements())
    for place, named in places.items():
        notes.append(f"not read: {_count(named)} in {place}: {' '.join(named[:8])}{' …' * (len(named) > 8)}")
    return WordCount(total.total(), number, tuple(notes))


def _turned(missing: Counter[str], added: Counter[str]) -> Counter[str]:
    """Return the missing words of Arabic and Hebrew that were added in another order of letters: PDFium does not always
    turn them around."""
    there = Counter(letters for word, times in added.items() for letters in ["".join(sorted(word))] * times)
    turned = Counter[str]()
    for word in missing.elements():
        letters = "".join(sorted(word))
        if there[letters] and any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in word):
            there[letters] -= 1
            turned[word] += 1
    return turned


def words_of(text: str) -> Iterator[str]:
    """Iterate over the words of a text, without markup, case and compatibility forms; each letter of Chinese and
    Japanese.

    >>> list(words_of("The ﬁrst-born, 3.5 mg 漢字"))
    ['the', 'first', 'born', '3', '5', 'mg', '漢', '字']
    """
    for match in _WORD.finditer(unicodedata.normalize("NFKC", plain(text).translate(_MARKS)).casefold()):
        yield from _CJK.findall(match[0])


def _lines(place: str, text: str) -> Iterator[_Text]:
    return ((place, line) for line in text.splitlines() if line.strip())


def _count(words: Sequence[str]) -> str:
    return f"{len(words):,} word{'s' * (len(words) != 1)}"


# -- Office packages -------------------------------------------------------------------------------------


def _word(data: bytes) -> Iterator[_Text]:
    """Iterate over the paragraphs of a Word file, without what is hidden or deleted."""
    with Archive(data, kind="Word") as archive:
        for name in sorted(archive.names):
            if re.fullmatch(r"word/(?:document\d*|footnotes|endnotes)\.xml", name):
                note, root = "a footnote" if "notes" in name else "the text", archive.xml(name)
                for box in (node for node in root.iter() if local(node.tag) == "sdt"):
                    kinds = {
                        value
                        for part in box.iter()
                        if local(part.tag) == "docPartGallery"
                        for value in part.attrib.values()
                    }
                    box.tag = "contents" if "Table of Contents" in kinds else box.tag
                yield from _paragraphs(root, note, ("p",), _WORD_TEXTS, _WORD_PLACES, _is_unseen)
            elif match := re.fullmatch(r"word/(?:(comments)|header\d*|footer\d*)\.xml", name):
                place = _COMMENTS if match[1] else _HEADS
                yield from _paragraphs(archive.xml(name), place, ("p",), _WORD_TEXTS, {}, _is_unseen)
            elif re.fullmatch(r"word/diagrams/data\d*\.xml", name):
                yield from _paragraphs(archive.xml(name), "a diagram", ("pt",), ("t",), {})


_WORD_VALUE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}val"
_WORD_TEXTS = ("t", "tab", "br", "cr", "noBreakHyphen")
_WORD_PLACES = {"txbxContent": "a text box", "tbl": "a table", "fldSimple": "a field", "ruby": "furigana",
                "contents": _CONTENTS}  # fmt: skip


def _is_unseen(node: Element) -> bool:
    children = {
        local(child.tag) for properties in node if local(properties.tag) in ("rPr", "trPr") for child in properties
    }
    colors = (child.get(_WORD_VALUE, "") for properties in node for child in properties if local(child.tag) == "color")
    is_hidden = local(node.tag) in ("r", "tr") and (
        bool(children & {"vanish", "del"}) or "FFFFFF" in map(str.upper, colors)
    )
    return is_hidden or local(node.tag) in ("Fallback", "moveFrom", "oMath", "del", "instrText")


def _slides(data: bytes) -> Iterator[_Text]:
    """Iterate over the paragraphs of visible slides, their notes and comments, diagrams and charts."""
    with Archive(data, kind="PowerPoint") as archive:
        found = (re.fullmatch(r"ppt/slides/(slide(\d+)\.xml)", name) for name in archive.names)
        for match in sorted(filter(None, found), key=lambda match: int(match[2])):
            root = archive.xml(match[0])
            if root.get("show") == "0":
                continue
            yield from _paragraphs(root, match[1], ("p",), ("t", "br"), {}, _is_on_all_slides)
            for target in archive.targets(match[0]).values():
                kind = _BESIDE.match(target) if target in archive.names else None
                if kind and kind[1] == "comments":
                    yield from _paragraphs(archive.xml(target), _COMMENTS, ("cm",), ("t", "text"), {})
                elif kind:
                    parts = ("p",) if kind[1] == "notesSlides" else ("pt",)
                    texts = ("t", "v") if kind[1] == "charts" else ("t",)
                    lines = _paragraphs(archive.xml(target), match[1], parts, texts, {}, _is_on_all_slides)
                    yield from dict.fromkeys(lines) if kind[1] == "charts" else lines  # each series repeats the names


_BESIDE = re.compile(r"ppt/(comments|notesSlides|diagrams(?=/data)|charts(?=/chart))/")


def _is_on_all_slides(node: Element) -> bool:
    kinds = [each.get("type") for each in node.iter() if local(each.tag) == "ph"] if local(node.tag) == "sp" else []
    is_number = local(node.tag) in ("numRef", "numLit", "xVal", "yVal")  # written with other digits
    return bool({"dt", "ftr", "hdr", "sldNum"} & {*kinds}) or is_number or local(node.tag) in ("Fallback", "oMath")


def _sheets(data: bytes) -> Iterator[_Text]:
    """Iterate over the texts in visible sheets; numbers are not compared, since they are written as shown."""
    with Archive(data, kind="Excel") as archive:
        strings = list[str]()
        if "xl/sharedStrings.xml" in archive.names:
            strings = ["".join(t.text or "" for t in item.iter() if local(t.tag) == "t")
                       for item in archive.xml("xl/sharedStrings.xml")]  # fmt: skip
        for title, is_visible, name in sheets_of(archive):
            if is_visible and name in archive.names:
                yield from ((f"the sheet {title}", text) for text in _cells(archive.xml(name), strings))
                for drawing in {target for target in archive.targets(name).values() if "/drawings/drawing" in target}:
                    place = f"a drawing on the sheet {title}"
                    yield from _paragraphs(archive.xml(drawing), place, ("p",), ("t", "br"), {}, _is_on_all_slides)


def _cells(sheet: Element, strings: list[str]) -> Iterator[str]:
    columns = [node for node in sheet.iter() if local(node.tag) == "col" and node.get("hidden") in ("1", "true")]
    hidden = {column for node in columns for column in range(int(node.get("min", 1)), int(node.get("max", 1)) + 1)}
    for row in (node for node in sheet.iter() if local(node.tag) == "row" and node.get("hidden") not in ("1", "true")):
        for cell in row:
            texts = [node.text or "" for node in cell.iter() if local(node.tag) in ("v", "t")]
            column = 0
            for letter in re.sub(r"\d", "", cell.get("r", ""))[:4].upper():  # the last column is XFD
                column = column * 26 + ord(letter) - 64
            if column not in hidden and texts and (kind := cell.get("t")) in ("s", "inlineStr", "str", "e"):
                yield strings[int(texts[0])] if kind == "s" and int(texts[0]) < len(strings) else " ".join(texts)


def _open_document(data: bytes) -> Iterator[_Text]:
    with Archive(data, kind="OpenDocument") as archive:
        kind = archive.read("mimetype").rpartition(b".")[2] if "mimetype" in archive.names else b""
        is_sheet = kind == b"spreadsheet"
        unseen = ("tracked-changes", "math", "page-number", "note-citation")
        places = {"text-box": "a text box", "table": "a table", "note": "a footnote", "page": "a slide",
                  "table-of-content": _CONTENTS}  # fmt: skip
        places |= {} if is_sheet else {"annotation": _COMMENTS}
        places |= dict.fromkeys(("title", "desc"), _ALTERNATIVES) if kind == b"text" else {}
        for node in archive.xml("styles.xml").iter() if kind == b"text" and "styles.xml" in archive.names else ():
            if local(node.tag) in ("header", "footer"):
                yield from _paragraphs(node, _HEADS, ("p", "h"), (), {}, lambda node: local(node.tag) in unseen)
        charts = () if is_sheet else sorted(filter(re.compile(r"Object[^/]*/content\.xml").fullmatch, archive.names))
        for name in ("content.xml", *charts):
            place = "an object" if "/" in name else "the text"
            yield from _paragraphs(archive.xml(name), place, ("p", "h"), (), places,
                                   lambda node: local(node.tag) in unseen or "/dc/elements/" in node.tag)  # fmt: skip


_BLANK = ("br", "tab", "line-break", "s", "cr", "noBreakHyphen")


def _paragraphs(
    root: Element,
    place: str,
    paragraphs: tuple[str, ...],
    texts: tuple[str, ...],
    places: dict[str, str],
    is_unseen: Callable[[Element], bool] = lambda node: False,
) -> Iterator[_Text]:
    """Iterate over the paragraphs below an element, each with its place; `texts` are the elements with text, by default
    all of them."""
    found: list[_Text] = []

    def walk(node: Element, place: str, into: list[str]) -> None:
        name = local(node.tag)
        if is_unseen(node):
            return
        place = places.get(name, place)
        if name in paragraphs or name in places:
            into = []
        if not texts or name in texts:
            into.append((node.text or "") if name not in _BLANK else " ")
        for child in node:
            walk(child, place, into)
            if not texts:
                into.append(child.tail or "")
        if (name in paragraphs or name in places) and into:
            found.append((place, "".join(into)))

    walk(root, place, [])
    return iter(found)


# -- pages -----------------------------------------------------------------------------------------------


class _PageText(HTMLParser):
    """Collects the text of a page; what stands around the main part is not counted."""

    IN_BOOK = ("head", "title", "script", "style", "template", "svg", "math")
    AROUND = ("head", "title", "script", "style", "template", "noscript", "nav", "header", "footer", "aside", "form",
              "svg", "math", "button", "select", "iframe")  # fmt: skip
    ROLES = ("navigation", "search", "banner", "contentinfo", "dialog", "alertdialog", "menu")
    INLINE = ("a", "b", "i", "em", "strong", "span", "sub", "sup", "code", "u", "s", "small", "mark", "abbr", "cite",
              "q", "kbd", "samp", "var", "ins", "del", "font", "strike", "tt", "wbr", "bdi", "bdo", "ruby",
              "rb")  # fmt: skip

    def __init__(self, around: Sequence[str] = AROUND) -> None:
        super().__init__()
        self._unread = around
        self.texts: list[str] = []
        self._around: list[str] = []
        self._is_mark = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        is_beside = given.get("role") in self.ROLES or _BESIDE_CODE.search(given.get("class", ""))
        if self._around[-1:] == [tag] if self._around else tag in self._unread or is_beside:
            self._around.append(tag)
        self._is_mark = tag == "a" and "#" in given.get("href", "")  # of a note
        self._divide("" if self._is_mark else tag)

    def handle_endtag(self, tag: str) -> None:
        if self._around[-1:] == [tag]:
            self._around.pop()
        self._divide("" if tag == "a" and self._is_mark else tag)

    def _divide(self, tag: str) -> None:
        if tag not in self.INLINE:
            self.texts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._around:
            self.texts.append(data)


_BESIDE_CODE = re.compile(r"(?:^|\s)(?:linenos?|line-numbers?(?:-wrapper)?|katex-html|table-of-contents)(?:\s|$)")


def _page(data: bytes, around: Sequence[str] = _PageText.AROUND) -> Iterator[_Text]:
    page = _PageText(around)
    page.feed(decode_html(data))
    page.close()
    yield from _lines("the page", "".join(page.texts))


def _book(data: bytes) -> Iterator[_Text]:
    with Archive(data, kind="EPUB") as archive:
        for name in sorted(archive.names):
            data = archive.read(name) if name.endswith((".xhtml", ".html", ".htm")) else b""
            if data and not re.search(rb"(?:epub:type|id)=[\"']toc[\"']", data):
                yield from ((name.rpartition("/")[2], text) for _, text in _page(data, _PageText.IN_BOOK))


# -- PDF ---------------------------------------------------------------------------------------------------


def _pages(data: bytes) -> Iterator[_Text]:
    """Iterate over the lines of the pages, in the order in which PDFium finds them, with the values of form fields."""
    document = open_document(data)
    try:
        for number in range(len(document)):
            page = document[number]
            comments = comments_of(page)
            page = document[number] if flattened(document, page) else page
            width, height = page.get_size()
            text = page.get_textpage().get_text_bounded(-BESIDE, -BESIDE, width + BESIDE, height + BESIDE)
            text = re.sub("[-\x02\xad\u2010\ufffe]\r?\n", "", text)
            yield from _lines(f"page {number + 1}", text)
            yield from ((_COMMENTS, text) for text in comments)
    finally:
        document.close()


# -- notebooks and RTF -------------------------------------------------------------------------------------


def _notebook(data: bytes) -> Iterator[_Text]:
    """Iterate over the texts of the cells, and over those of their outputs that have no better form."""
    for number, cell in enumerate(json.loads(data).get("cells", ()), 1):
        yield (f"cell {number}", re.sub(r"\]\(attachment:[^()]*\)", "]", "".join(cell.get("source", ""))))
        for output in cell.get("outputs", ()):
            forms = output.get("data", {})
            text = output.get("text") or ([output["evalue"]] if "evalue" in output else forms.get("text/plain", ""))
            if forms.keys() <= {"text/plain"}:
                yield (f"the output of cell {number}", ESCAPES.sub("", "".join(text)))


def _subtitles(data: bytes) -> Iterator[_Text]:
    """Iterate over the texts of cues, without ids, times, notes and styles."""
    for block in re.split(r"\n[ \t]*\n", plain(as_utf8(data).decode("utf-8", "replace"))):
        text = "" if NO_CUE.match(block) else re.sub(r"(?m)(?:(?:\A.*|^\d+)\n)?^.*-->.*$", "", block)
        yield ("the captions", html.unescape(MARKUP.sub("", text)))


_RTF = re.compile(
    rb"(?P<open>\{(?:\\\*(?!\\(?:footnote|shpinst)\b)|\\(?:fonttbl|colortbl|stylesheet|info|pict|sp|header[lrf]?|footer[lrf]?"
    rb"|field\\\*)\b)?)|(?P<close>\})"
    rb"|\\'(?P<hex>[0-9a-fA-F]{2})|\\u(?P<code>-?\d+) ?(?:\\'[0-9a-fA-F]{2}|[^\\{}])?"
    rb"|\\(?P<word>[a-z]+)(?P<number>-?\d*) ?|\\(?P<sign>.)|[\r\n]+|(?P<text>[^\\{}\r\n]+)",
    re.DOTALL,
)


def _rich_text(data: bytes) -> Iterator[_Text]:
    """Iterate over the paragraphs of RTF, without the groups that are no text."""
    codepage = re.search(rb"\\ansicpg(\d+)", data[:500])
    charset = f"cp{codepage[1].decode()}" if codepage else "cp1252"
    texts, skipped = list[str](), [False]
    for match in re.finditer(rb"\{\\sn gtextUNICODE\}\{\\sv ([^{}]*)\}", data):
        yield ("a shape", match[1].decode(charset, "replace"))
    for match in _RTF.finditer(data):
        if match["open"]:
            skipped.append(skipped[-1] or len(match["open"]) > 1)
        elif match["close"]:
            skipped = skipped[:-1] or [False]
        elif match["word"] in (b"v", b"deleted") and match["number"] != b"0":
            skipped[-1] = True
        elif skipped[-1]:
            continue
        elif match["hex"]:
            texts.append(bytes.fromhex(match["hex"].decode()).decode(charset, "replace"))
        elif match["code"]:
            texts.append(chr(int(match["code"]) % 65_536))
        elif match["word"]:
            texts += ["\n"] * (
                match["word"] in (b"par", b"line", b"cell", b"row", b"sect", b"page", b"tab", b"footnote")
            )
        else:
            texts.append((match["text"] or match["sign"] or b"").decode(charset, "replace").replace("~", " "))
    yield from _lines("the text", "".join(texts))


# -- texts with markup -----------------------------------------------------------------------------------


_TEX_MARKUP = re.compile(
    r"""(?<!\\)%.*|\$\$?[^$]*\$\$?
    |\\begin\{(?:tabular\w?|longtable|array|columns?|minipage|multicols|thebibliography)\*?\}(?:\[[^\]\n]{0,99}\]|\{[^}\n]{0,99}\})*
    |\\(?:begin|end|label|ref|cite\w*|includegraphics|usepackage)\*?(?:\[[^\]]*\]|<[^>]*>)*\{[^}]*\}(?:<[^>]*>|\[[^\]]*\])*
    |\\[A-Za-z]+\*?(?:\[[^\]]*\]|<[^>]*>)*|\\.|<[\d,-]*>""",
    re.VERBOSE,
)


def _tex(data: bytes) -> Iterator[_Text]:
    text = data.decode("utf-8", "replace")
    text = text.partition(r"\begin{document}")[2] or text
    yield from _lines("the text", _TEX_MARKUP.sub(lambda match: " " * (match[0][0] == "$" or match[0] == "\\\\"), text))


def _markup(data: bytes) -> Iterator[_Text]:
    """Iterate over the lines of Org and reStructuredText that are no directives, fields or targets."""
    for line in data.decode("utf-8", "replace").splitlines():
        if not re.match(r"\s*(?:\.\. |:[\w -]+:|#\+|\*{3,}$|[-=~^\"#*+.]{3,}$)", line):
            line = re.sub(r"(?<=\w)[_^]\{(\w+)\}", r"\1", line)
            yield ("the text", re.sub(r"<[^>]*>|:\w+:|\[\[[^\]]*\]\[?|\[fn:\w+\]", " ", line))


_ROWS: dict[str, Callable[[bytes], Iterator[_Text]]] = {
    ".docx": _word,
    ".pptx": _slides,
    ".xlsx .xlsm": _sheets,
    ".odt .ods .odp": _open_document,
    ".html .htm .xhtml": _page,
    ".epub": _book,
    ".pdf": _pages,
    ".ipynb": _notebook,
    ".vtt .srt": _subtitles,
    ".rtf": _rich_text,
    ".tex .latex": _tex,
    ".org .rst": _markup,
}
_READERS = {suffix: read for suffixes, read in _ROWS.items() for suffix in suffixes.split()}
_TEXTS = (".tex", ".latex", ".org", ".rst")
