"""Render a text as the reader of the finished document sees it.

Pandoc, knitr, Quarto, bookdown, MyST and mdBook replace some of what the author writes: a reference by a number, a
citation by a name and a year, code that draws by a picture and a caption, an index entry by nothing. This module does
the same for the text that is embedded, shown and given to models; the author's file is not changed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from lmm.markdown import Attributes, Span, read_attributes, spans
from lmm.markdown.blocks import fenced
from lmm.markdown.spans import included_pictures
from lmm.notebook.outputs import CodeCell, read_cell
from lmm_education.books.chapters import INCLUDED_LINE, NO_BOOK, BookChapter
from lmm_education.books.numbers import BOOKDOWN_LABEL, THEOREMS

# A text without any of these is unchanged; inline code alone needs no processing.
_SPECIAL = re.compile(r"[@<{\\]|`r[ ]|-->|!\[|:::|```|~~~|^\(ref:|\)=[ \t]*$|\[\]\(|\]:|8<-", re.MULTILINE)
# Marks that are not spans: labels before captions and named texts (bookdown), targets (MyST), captions of tables
# (Quarto), lines of a div or comment whose other end is in another text, and what MkDocs includes.
_MARK = re.compile(
    r"""\(\\\#(?P<label>[a-z]{2,4}:[\w.-]+)\)[ ]?
    |^(?P<text_reference>\(ref:[\w-]+\)[ ][^\n]*)
    |^(?P<target>\([^()\s][^()\n]{0,200}\)=[ \t]*$)
    |^(?P<caption>(?:Table)?:[ ]+[^\n{]*\{[^{}\n]*\#tbl-[^{}\n]*\}[ \t]*$)
    |^(?P<stray>[ \t]*(?::{3,}|-->)[ \t]*$)
    |(?P<inclusion>(?<![;\w`-])-+8<-+[ \t]+['"][^'"\n]+['"])[ \t]*$""",
    re.VERBOSE | re.MULTILINE,
)
_DEEPEST = 20  # nested divs
NOT_COMPUTED = "…"
"""What stands for inline code whose value is not known."""


def rendered_text(text: str, chapter: BookChapter = NO_BOOK) -> str:
    """Return the text as readers see it; what is unknown is left as it is written.

    >>> chapter = BookChapter(labels={"fig-leaf": "Figure 2.1"}, citations={"darwin": ("Darwin", "1859")})
    >>> rendered_text("See @fig-leaf\\\\index{leaf} and [@darwin, p. 3], not @Unknown.", chapter)
    'See Figure 2.1 and (Darwin 1859, p. 3), not @Unknown.'
    >>> rendered_text("See [leaves][1].\\n\\n[1]: https://a.org", chapter)
    'See [leaves](https://a.org).'
    >>> rendered_text("```{r, echo=FALSE}\\nknitr::include_graphics('leaf.png')\\n```")
    '![](leaf.png)'
    """
    shown = _read(text, chapter)
    return shown if shown == text else re.sub(r"\n{3,}", "\n\n", shown).strip("\n")


def _read(text: str, chapter: BookChapter) -> str:
    refers = bool(chapter.addresses) and "[" in text
    if not (refers or _SPECIAL.search(text)):
        return text
    return _Reader(text, chapter).between(0, len(text))


class _Reader:
    """Processes one text once, and replaces each span by what a reader sees."""

    def __init__(self, text: str, chapter: BookChapter) -> None:
        self.text, self.chapter = text, chapter
        read = spans(text, in_list=True, addresses=chapter.addresses)
        found = [part for span in read for part in _parts(span, text)]
        found += [Span(m.lastgroup or "", m.start(), m.end(), m[m.lastgroup or 0]) for m in _MARK.finditer(text)]
        self.spans = sorted(found, key=lambda span: (span.start, -span.end))
        self.closed = {span.target[1:] for span in found if span.kind == "html" and span.target.startswith("/")}
        self.next = 0  # index of the next span
        self.depth = 0  # of nested divs

    def between(self, start: int, end: int) -> str:
        """Return what a reader sees of the text from `start` to `end`."""
        parts, at = list[str](), start
        while self.next < len(self.spans) and self.spans[self.next].start < end:
            span = self.spans[self.next]
            self.next += 1
            show = _SHOWN.get(span.kind)
            if span.start >= at and show is not None:
                parts += [self.text[at : span.start], show(span, self)]
                at = span.end
        return "".join([*parts, self.text[at:end]])

    def read(self, text: str) -> str:
        """Return another text, processed in the same way."""
        return _read(text, self.chapter)


_LOCATOR = re.compile(r"[ ]\[([^\[\]@]{1,100})\](?!\()")


def _parts(span: Span, text: str) -> Iterator[Span]:
    """Split a span into the parts to be replaced: the whole, with what belongs to it, or only its marks."""
    end = span.start + 1 + len(span.text)  # of the words of a link, whose address may be defined elsewhere
    is_whole = text.startswith("[", span.start) and text.startswith("]", end)  # not over the lines of a table's cell
    if span.kind == "attributes" and text.startswith("{", span.start):
        line_end = text.find("\n", span.end)
        yield Span("stray", len(text[: span.start].rstrip(" \t")), line_end if line_end >= 0 else len(text), "")
    elif span.kind == "attributes":
        yield Span("stray", span.start, span.start + 1, "")
        yield Span("stray", span.end - len(span.attributes) - 1, span.end, "")
    elif span.kind == "link" and span.text and is_whole and not text.startswith("(", end + 1):
        if "://" in span.target:
            yield Span("address", end + 1, span.end, span.target)
        else:  # it leads to a page that readers do not have here
            yield Span("stray", span.start, span.start + 1, "")
            yield Span("stray", end, span.end, "")
    elif span.kind == "link" and span.text and span.attributes:
        yield Span("stray", span.end - len(span.attributes), span.end, "")
    elif span.kind == "link" and not span.text:
        yield span._replace(kind="empty_link")
    elif span.kind == "definition":
        yield span._replace(kind="stray" if span.target != "^" and " " not in span.target else "definition")
    elif span.kind == "code_block":
        begin = text.rfind("\n", 0, span.start) + 1
        yield span._replace(start=begin) if not text[begin : span.start].strip() else span
    else:
        follows = _LOCATOR if span.kind == "citation" and not span.text.startswith("[") else None
        after = follows.match(text, span.end) if follows else None
        yield span._replace(end=after.end(), attributes=after[1]) if after else span


# -- code ------------------------------------------------------------------------------------------

_LANGUAGES = {"code-cell": "python", "ipython3": "python", "ojs": "js"}
_TEXT_ENGINES = ("asis", "block", "block2")
_ADMONITIONS = (
    *("note", "info", "tip", "warning", "important", "caution", "hint", "attention", "danger", "error", "seealso"),
)
_CONTAINERS = {
    *("table", "list-table", "glossary", "dropdown", "card", "grid", "margin", "sidebar", "topic", "aside"),
    *("epigraph", "pull-quote", "toggle", "div", "container", "tab"),
}
_NO_TEXT = ("tableofcontents", "toctree", "bibliography", "include")


def _code_block(span: Span, reader: _Reader) -> str:
    """Return what a reader sees of code: the code, its output, its picture, or nothing."""
    source = reader.text[span.start : span.end]
    cell = read_cell(span)
    if cell is None:
        return _attributed(span, source, reader.chapter)
    indent = source[: len(source) - len(source.lstrip(" \t"))]
    shown = _cell(cell, reader.chapter)
    lines = (f"{indent}{line}".rstrip(" \t") for line in shown.split("\n"))
    return "\n" + "\n".join(lines) + "\n" if shown else ""


def _cell(cell: CodeCell, chapter: BookChapter) -> str:
    name = cell.language.partition(" ")[0].lower()
    if cell.options.get("include") is False or name in _NO_TEXT:
        return ""
    if cell.children:
        return "\n\n".join(filter(None, (_document(name, chapter) for name in cell.children)))
    if name in _TEXT_ENGINES:
        return rendered_text(cell.code, chapter)
    if name in _THEOREMS:
        group = Attributes(cell.label, (name,), (("name", str(cell.options.get("name", ""))),))
        return _rendered_div(group, rendered_text(cell.code, chapter), chapter)
    if name in _ADMONITIONS or name == "admonition":
        word = _word(chapter, "nte" if name == "admonition" else name)
        return _quoted(word, cell.label, rendered_text(cell.code, chapter))
    if name in _CONTAINERS or name.endswith(("-set", "-item", "-card")):
        return _rendered_div(Attributes(values=(("title", cell.label),)), rendered_text(cell.code, chapter), chapter)
    if name == "math":
        return f"$$\n{cell.code}\n$$"
    if name == "figure":
        return _picture(_read(cell.code.strip(), chapter), cell.label)
    ran = chapter.ran.cells.get(cell.label or cell.code, chapter.ran.cells.get(cell.code))
    echo = chapter.echo if "echo" not in cell.options else cell.options["echo"] not in (False, "0")
    if ran is not None and "![" in ran:
        return _read(ran, chapter)
    code = fenced(cell.code, _LANGUAGES.get(name, name)) if echo and cell.code else ""
    included = [path if "://" in path else f"{chapter.up}{path}" for path in included_pictures(cell.code)]
    pictures = list(chapter.ran.pictures.get(cell.label, ())) or included
    captions = _captioned(cell, pictures, chapter)
    if ran is not None:  # it has a caption that knitr writes; where it is empty, it belongs to the cell before
        captions = [each for each in captions if each.startswith("![") or (ran and each.partition(": ")[2] not in ran)]
    return "\n\n".join(filter(None, [code if ran is None else _read(ran, chapter), *captions]))


def _document(name: str, chapter: BookChapter) -> str:
    """Return an included document as readers see it, without inclusions of itself."""
    without = {each: text for each, text in chapter.included.items() if each != name}
    return rendered_text(chapter.included.get(name, ""), replace(chapter, included=without)).strip("\n")


def _captioned(cell: CodeCell, pictures: list[str], chapter: BookChapter) -> list[str]:
    """Return a cell's pictures with their caption, and the caption of its table."""
    caption = cell.caption()
    caption = _read(chapter.labels.get(caption, caption), chapter)  # bookdown's (ref:label) is defined elsewhere
    if caption or pictures:
        caption = _numbered_caption(cell.label, caption, chapter)
    if len(pictures) == 1:
        return [_picture(caption, pictures[0])]
    table = _read(cell.caption("tbl") or cell.caption("tab") or cell.argument("caption") or "", chapter)
    of_table = _numbered_caption(cell.table_label or cell.label, table, chapter) if table else ""
    return [*(_picture("", path) for path in pictures), caption, of_table if of_table != caption else ""]


def _numbered_caption(label: str, caption: str, chapter: BookChapter) -> str:
    """Return a caption with the name and number of the label in front."""
    keys = (label, f"fig:{label}", f"tab:{label}") if label else ()
    name = next((chapter.labels[key] for key in keys if key in chapter.labels), "")
    if not re.search(r"\d", name):
        return caption
    kind = "tab" if f"tab:{label}" in chapter.labels else "fig"
    name = name if " " in name else f"{_word(chapter, kind)} {name}"
    return f"{name}: {caption}" if caption else name


def _picture(caption: str, path: str) -> str:
    return f"![{caption}]{_address(path)}"


def _address(path: str) -> str:
    return f"(<{path}>)" if " " in path else f"({path})"


def _attributed(span: Span, source: str, chapter: BookChapter) -> str:
    """Return code with Pandoc's attributes: with its language, and its name if it is a listing."""
    group = read_attributes(span.attributes)
    if group is None:
        return _with_inclusions(source, chapter)
    source = _with_inclusions(source, chapter)
    values = dict(group.values)
    caption = _read(values.get("lst-cap") or values.get("filename") or "", chapter)
    name = _numbered_caption(group.id, caption, chapter)
    language = next((each for each in group.classes if each not in ("cell-code", "numberLines")), "")
    first, _, rest = source.partition("\n")
    fence = first[: first.index(span.attributes)].rstrip(" \t")
    return (f"{name}\n\n" if name else "") + f"{fence}{language}\n{rest}"


def _with_inclusions(piece: str, chapter: BookChapter) -> str:
    """Return code with the files that it includes; in an mdBook, without lines of Rust that begin with ``#``, which
    pages hide."""
    first, _, body = piece.partition("\n")
    shown = INCLUDED_LINE.sub(lambda m: chapter.included.get(m["written"], ""), body)
    if "rust" in first and chapter.book is not None and chapter.book.file == "SUMMARY.md":
        shown = "".join(line for line in shown.splitlines(keepends=True) if not f"{line.strip()} ".startswith("# "))
    return "" if shown != body and not shown.replace(first.strip()[:1], "").strip() else f"{first}\n{shown}"


# -- formulas, TeX, values of code -----------------------------------------------------------------

_DROPPED_TEX = {"index", "label", "nocite", "vspace", "hspace", "thispagestyle", "newpage", "clearpage",
                "cleardoublepage", "noindent", "appendix"}  # fmt: skip
_FOR_HTML = re.compile(
    r"""ifelse\(\s*!?(?:knitr::)?is_(?P<kind>latex|html)_output\(\),"""
    r"""\s*(?P<yes>"[^"]*"|'[^']*'),\s*(?P<no>"[^"]*"|'[^']*')\)"""
)


def _math(span: Span, reader: _Reader) -> str:
    """Return a formula with its number at the end, if it has a label."""
    label = span.group.id
    text = reader.text[span.start : span.end - len(span.attributes)].rstrip(" \t")
    if label in reader.chapter.labels:
        numbered = f"{text[:-2].rstrip()} \\qquad ({_number(reader.chapter.labels[label])})"
        text = f"{numbered}\n$$" if "\n" in text else f"{numbered}$$"
    return _with_numbers(text, reader.chapter)


def _with_numbers(formula: str, chapter: BookChapter) -> str:
    """Return a formula with the values of inline code, or dots, and its number."""

    def numbered(found: re.Match[str]) -> str:
        number = chapter.labels.get(found[0][3:-1], "")
        return (f"\\qquad ({number})" if number else "") if found["kind"] == "eq" else found[0]

    shown = re.sub(r"`r ([^`\n]+)`", lambda code: chapter.ran.values.get(code[1].strip(), r"\ldots{}"), formula)
    return BOOKDOWN_LABEL.sub(numbered, shown)


def _raw(span: Span, reader: _Reader) -> str:
    """Return raw TeX if it is a formula environment, but no index entries or page breaks; nothing of other formats."""
    if span.target != "tex":
        return ""
    name = span.text[1:].partition("{")[0].partition("[")[0].rstrip("*")
    return "" if name in _DROPPED_TEX else _with_numbers(span.text, reader.chapter)


def _number(label: str) -> str:
    """Return only the number of a reference: 2.1 of Figure 2.1."""
    return label.rpartition(" ")[2] if re.search(r"\d|[A-Z]$", label) else label


def _code(span: Span, reader: _Reader) -> str:
    """Return inline code, or its value: a known output, the branch for HTML, a literal; otherwise dots."""
    expression = span.expression
    if not expression:
        return reader.text[span.start : span.end - len(span.attributes)]
    if expression in reader.chapter.ran.values:
        return reader.chapter.ran.values[expression]
    choice = _FOR_HTML.fullmatch(expression)
    if choice:
        html = (choice["kind"] == "html") != ("!" in expression[: choice.start("yes")])
        return choice["yes" if html else "no"][1:-1]
    literal = re.fullmatch(r"""(["'])([^"']*)\1|(\d[\d.]*)""", expression)
    return (literal[2] or literal[3] or "") if literal else NOT_COMPUTED


# -- references and citations ----------------------------------------------------------------------


def _role(span: Span, reader: _Reader) -> str:
    """Return the text of a MyST role: a reference's text or label, or a formula."""
    if mark := {"math": "$", "sub": "~", "subscript": "~", "sup": "^", "superscript": "^"}.get(span.target):
        return f"{mark}{span.text}{mark}"
    if span.target.startswith("cite"):
        keys = [key.strip() for key in span.text.split(",")]
        return _cited([("", False, key, "") for key in keys], reader.chapter) or reader.text[span.start : span.end]
    titled = re.fullmatch(r"(.*?)\s*<([^<>]*)>", span.text)
    return titled[1] if titled else reader.chapter.labels.get(span.text, span.text)


def _image(span: Span, reader: _Reader) -> str:
    caption = _numbered_caption(span.group.id, reader.read(span.text), reader.chapter)
    return _picture(caption, span.target) if not span.target.startswith("data:") else caption


def _link(span: Span, reader: _Reader) -> str:
    """Return a link; one without text, as in MyST, gets the title of its target."""
    path, _, target = span.target.partition("#")
    title = reader.chapter.labels.get(target) or reader.chapter.labels.get(posixpath.normpath(path))
    return f"[{title}]({span.target})" if title else reader.text[span.start : span.end]


_PART = re.compile(
    r"(?P<before>[^@]*?)(?P<minus>-?)@(?:\{(?P<braced>[^{}]*)\}|(?P<key>\w(?:[\w:.#$%&+?<>~/-]*\w)?))(?P<after>[^@]*)"
)


def _citation(span: Span, reader: _Reader) -> str:
    written = reader.text[span.start : span.end]
    if not span.text.startswith("["):
        return _mentioned(span, reader.chapter) or written
    parts = [_PART.fullmatch(part.strip().replace("\n", " ")) for part in span.text[1:-1].split(";")]
    found = [(p["before"], bool(p["minus"]), p["braced"] or p["key"], p["after"]) for p in parts if p]
    if len(found) < len(parts):
        return written
    if all(key in reader.chapter.labels for _, _, key, _ in found):
        shown = (f"{before}{_label(key, minus, reader.chapter)}{after}" for before, minus, key, after in found)
        return ", ".join(shown)
    return _cited(found, reader.chapter) or written


def _mentioned(span: Span, chapter: BookChapter) -> str:
    """Return the text of a key in a sentence, with a locator after it; empty if the key is unknown."""
    key, minus = span.target, span.text.startswith("-")
    locator = f" [{span.attributes}]" if span.attributes else ""
    if label := _label(key, minus, chapter):
        return label + locator
    if key in chapter.citations:
        who, year = chapter.citations[key]
        inside = f"{year}, {span.attributes}" if span.attributes else year
        return f"({inside})" if minus else f"{who} ({inside})"
    # Characters after a key may seem to be part of it: "@fig-a/b".
    shorter = re.match(r"[\w-]+", key)
    label = _label(shorter[0], minus, chapter) if shorter and shorter[0] != key else ""
    return label + key[len(shorter[0]) :] + locator if shorter and label else ""


def _label(key: str, minus: bool, chapter: BookChapter) -> str:
    """Return the text of a reference; empty if it is not a label. A label may begin with a capital letter."""
    name = chapter.labels.get(key) or chapter.labels.get(key[:1].lower() + key[1:], "")
    return _number(name) if minus else name


def _cited(parts: Iterable[tuple[str, bool, str, str]], chapter: BookChapter) -> str:
    """Return citations in parentheses: ``(see Darwin 1859, p. 3; Mendel 1866)``; empty if one is unknown."""
    shown = []
    for before, minus, key, after in parts:
        if key not in chapter.citations:
            return ""
        who, year = chapter.citations[key]
        shown.append(f"{before}{year if minus else f'{who} {year}'}{after}")
    return f"({'; '.join(shown)})"


def _shortcode(span: Span, reader: _Reader) -> str:
    name, rest = span.target, span.text.removeprefix(span.target).strip()
    written = reader.text[span.start : span.end]
    if name in ("#include", "#rustdoc_include"):  # in an mdBook; a file that is not there is left out
        return _document(written, reader.chapter)
    if name == "include" and (path := rest.strip(" \"'")) in reader.chapter.included:
        return _document(path, reader.chapter)
    if name == "video" and rest:
        return f"<{rest.split()[0]}>" if rest.startswith("http") else rest.split()[0]
    return rest if name == "kbd" else "" if name in ("pagebreak", "lipsum", "fa") else written


def _labelled(span: Span, reader: _Reader) -> str:
    """Replace bookdown's label before a caption by the name and number."""
    label, chapter = span.text, reader.chapter
    if label not in chapter.labels:
        return ""
    kind = label.partition(":")[0]
    return f"({chapter.labels[label]})" if kind == "eq" else f"{_word(chapter, kind)} {chapter.labels[label]}: "


def _table_caption(span: Span, reader: _Reader) -> str:
    words, _, group = span.text.strip().partition("{")
    attributes = read_attributes(f"{{{group}") or Attributes()
    text = reader.read(re.sub(r"\A(?:Table)?:[ ]+", "", words).rstrip())
    return _numbered_caption(attributes.id, text, reader.chapter)


# -- tags ------------------------------------------------------------------------------------------

_TAGS = frozenset(
    re.findall(
        r"\w+",
        "a abbr address article aside audio b big blockquote br button caption center cite code col colgroup dd del "
        "details dfn div dl dt em embed figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i iframe img input "
        "ins kbd label li main mark nav ol p picture pre q s samp section small source span strong sub summary sup svg "
        "table tbody td tfoot th thead time tr tt u ul var video wbr path g rect circle line text option",
    )
)
_INSTEAD = {"br": " ", "td": " | ", "th": " | ", "hr": "\n\n", "dt": ": ", "figcaption": "\n", "option": " "}
_LINES = ("dd", "div", "li", "p", "section", "tr", *(f"h{level}" for level in range(1, 7)))


def _html(span: Span, reader: _Reader) -> str:
    """Return the text and the pictures of HTML."""
    name, values = span.target.removeprefix("/"), span.values
    if name in ("script", "style"):
        return ""
    if name == "img" and values.get("src"):
        return _picture(values.get("alt", ""), values["src"])
    closes = span.target.startswith("/")
    if name in _TAGS:
        inner = span.text.partition(">")[2].rpartition("</")[0] if name in ("pre", "textarea") else ""
        if closes and name in _LINES and not reader.text.startswith("\n", span.end):
            return "\n"
        is_between = closes != (name == "figcaption") or name in ("br", "hr")
        return re.sub(r"<[^<>]*>", "", inner) or (_INSTEAD.get(name, "") if is_between else "")
    if closes:
        return ""
    if values.get("caption") or values.get("number"):  # a custom element of the book
        label = f"{span.text[1:].split(None, 1)[0]} {values.get('number', '')}".strip()
        file = f" ({values['file-name']})" if values.get("file-name") else ""
        return f"{label}: {values.get('caption', '')}{file}"
    return "" if values or name in reader.closed or span.text.endswith("/>") else span.text


# -- divs ------------------------------------------------------------------------------------------

_CALLOUTS = {"note": "nte", "tip": "tip", "warning": "wrn", "important": "imp", "caution": "cau"}
_THEOREMS = {**THEOREMS, "solution": "sol", "remark": "rem"}
_PRINTED = ("pdf", "latex", "docx", "epub", "typst", "odt")


def _div(span: Span, reader: _Reader) -> str:
    """Return a div without its fences: a callout becomes a block quote, a theorem begins with its name, and content for
    formats other than HTML is removed."""
    text = reader.text
    start, end = text.find("\n", span.start) + 1 or span.end, span.end
    last = text.rfind("\n", start, end - 1) + 1 or start
    if re.match(r"[ \t>]*:{3,}[ \t]*\r?\n?\Z", text[last:end]):
        end = last
    if reader.depth == _DEEPEST:
        return text[span.start : span.end]
    reader.depth += 1
    inner = reader.between(start, end).strip("\n") if start < end else ""
    reader.depth -= 1
    shown = _rendered_div(span.group, inner, reader.chapter)
    return f"\n{shown}\n\n" if shown else "\n"


def _rendered_div(group: Attributes, inner: str, chapter: BookChapter) -> str:
    label, classes, values = group.id, set(group.classes), dict(group.values)
    if _is_for_others(classes, values):
        return ""
    callouts = (name.removeprefix("callout-") for name in classes if name.startswith("callout-"))
    callout = next(callouts, "") or next((name for name in _ADMONITIONS if name in classes), "")
    if callout:
        title, inner = _titled(values.get("title", ""), inner)
        return _quoted(_word(chapter, callout), title, inner)
    if label.startswith(("fig-", "tbl-")) and label in chapter.labels:
        above, _, last = inner.rpartition("\n\n")
        is_caption = bool(above) and not last.startswith(("![", "```", "|"))
        return f"{above}\n\n{_numbered_caption(label, last, chapter)}" if is_caption else inner
    theorem = next((kind for name, kind in _THEOREMS.items() if name in classes), "")
    if label.partition("-")[0] in _THEOREMS.values():
        theorem = theorem or label.partition("-")[0]
    if theorem:
        number = chapter.labels.get(f"{theorem}:{label}", "")
        name = chapter.labels.get(label) or f"{_word(chapter, theorem)} {number}"
        title, inner = _titled(values.get("name", ""), inner)
        return f"**{name.strip()}{f' ({title})' if title else ''}.** {inner}".rstrip()
    return f"**{values['title']}**\n\n{inner}".rstrip() if values.get("title") else inner


def _is_for_others(classes: set[str], values: Mapping[str, str]) -> bool:
    """Return whether a div is hidden in HTML."""
    when, unless = values.get("when-format", ""), values.get("unless-format", "")
    if "content-hidden" in classes:
        return when.startswith("html") or unless.startswith(_PRINTED) or not (when or unless)
    if "content-visible" in classes:
        return when.startswith(_PRINTED) or unless.startswith("html")
    return "hidden" in classes


def _titled(title: str, inner: str) -> tuple[str, str]:
    """Return a title, which may be the first heading inside, and the rest."""
    first, _, rest = inner.partition("\n")
    heading = re.match(r"#{1,6}[ \t]+(.*)", first)
    return (heading[1].strip(), rest.strip("\n")) if heading and not title else (title, inner)


def _quoted(word: str, title: str, inner: str) -> str:
    lines = [f"**{word}{f': {title}' if title else ''}**", *(["", *inner.split("\n")] if inner else ())]
    return "\n".join(f"> {line}" if line else ">" for line in lines).replace("> \n", ">\n")


def _word(chapter: BookChapter, kind: str) -> str:
    """Return the name of things of a kind."""
    return chapter.words.get(_CALLOUTS.get(kind, kind)) or kind.capitalize()


_SHOWN: Mapping[str, Callable[[Span, _Reader], str]] = {
    "math": _math,
    "raw": _raw,
    "code": _code,
    "code_block": _code_block,
    "role": _role,
    "reference": lambda span, reader: reader.chapter.labels.get(span.target, span.text),
    "image": _image,
    "citation": _citation,
    "shortcode": _shortcode,
    "inclusion": lambda span, reader: _document(span.text, reader.chapter),
    "html": _html,
    "div": _div,
    "empty_link": _link,
    "address": lambda span, reader: _address(span.text),
    "label": _labelled,
    "caption": _table_caption,
    **dict.fromkeys(("comment", "text_reference", "target", "stray"), lambda span, reader: ""),
}
