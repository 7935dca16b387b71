"""Find code, formulas, links, images, citations and other elements of a text in one linear scan.

The dialect is Pandoc's markdown, with what Quarto, bookdown, MyST and MDX write into it. Whoever wants to know what
stands where in a text asks `spans`; nobody else needs a pattern for a fence, a formula or a link. The judge is
Pandoc's own tree of real books (tests/edge/test_spans_pandoc.py).
"""

from __future__ import annotations

import functools
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from types import MappingProxyType

from lmm.markdown.inline import InlineReader, Span, closing_fence, read_attributes, unquoted

NO_ADDRESSES: Mapping[str, str] = MappingProxyType({})
_LARGE = 5_000  # characters: a document rather than a block


def spans(text: str, *, in_list: bool = False, addresses: Mapping[str, str] = NO_ADDRESSES) -> list[Span]:
    """Return all spans of a text, in order of their starts; one that is inside another comes after it.

    A text that may come out of a list (`in_list`) is no code because its first line is indented. `addresses` are those
    that the rest of its document defines for links (see `link_addresses`).

    >>> for span in spans("An *oak* [@darwin] has `leaves`, see [below](#l) and $x^2$."):
    ...     print(span.start, span.kind, span.text, span.target or "-")
    9 citation [@darwin] darwin
    23 code leaves -
    37 link below #l
    53 math x^2 inline
    >>> [(block.language, block.runs) for block in spans("```{r oak, echo=FALSE}\\n1\\n```\\n")]
    [('r', True)]
    """
    if len(text) > _LARGE and in_list and not addresses:
        return list(_read_whole(text)[0])
    return _Scanner(text, in_list, addresses).scan()


@functools.lru_cache(maxsize=2)
def _read_whole(text: str) -> tuple[tuple[Span, ...], Mapping[str, str]]:
    """Return the spans and the addresses in a document; cached for the last ones, because several functions ask."""
    scanner = _Scanner(text, in_list=True)
    return tuple(scanner.scan()), scanner.labels


def link_addresses(text: str) -> Mapping[str, str]:
    """Return the addresses that a document defines for links, by their labels.

    >>> link_addresses("A [leaf].\\n\\n[Leaf]: leaf.html\\n")
    {'leaf': 'leaf.html'}
    """
    return _read_whole(text)[1] if "]:" in text else NO_ADDRESSES


WORDS = "\0words"
"""A value for `replace_spans`: keep the words of a span, without its marks."""


def replace_spans(text: str, show: Callable[[Span], str | None]) -> str:
    """Replace the spans of a text by what `show` returns; `None` keeps a span, and looks at those inside it.

    `WORDS` keeps the words of a span, such as the text in the brackets of a link.

    >>> replace_spans("[A *leaf*](b.png), `x`, $y$", lambda span: {"link": WORDS, "code": "…"}.get(span.kind))
    'A *leaf*, …, $y$'
    """
    cuts: list[tuple[int, int, str]] = []
    for span in spans(text, in_list=True):
        replacement = show(span)
        if replacement is WORDS:
            begin = text.index(span.text, span.start + 1) if span.text else span.end
            cuts += [(span.start, begin, ""), (begin + len(span.text), span.end, "")]
        elif replacement is not None:
            cuts.append((span.start, span.end, replacement))
    parts, at = [], 0
    for start, end, replacement in sorted(cuts, key=lambda cut: cut[:2]):
        if start >= at:
            parts += [text[at:start], replacement]
            at = end
    return "".join([*parts, text[at:]])


def without(text: str, *kinds: str) -> str:
    """Return a text without its spans of these kinds.

    >>> without("See `x` <!-- later -->and $y$.", "code", "comment")
    'See  and $y$.'
    """
    return replace_spans(text, lambda span: "" if span.kind in kinds else None)


def prose_of(text: str) -> str:
    """Return the prose of a text, without code blocks, comments, tags, index marks and link addresses.

    >>> " ".join(prose_of("The mean.\\n\\n```r\\nmean(x)\\n```\\n\\nOf [all](x.html) values.").split())
    'The mean. Of all values.'
    """
    return replace_spans(text, _as_prose)


_IN_SENTENCES = {
    *("a", "abbr", "b", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp", "small", "span", "strong"),
    *("u", "var"),
}
_SCRIPTS = {"sup": "^", "sub": "~"}  # as Pandoc writes them: 10<sup>6</sup> is not 106


def _as_prose(span: Span) -> str | None:
    if span.kind in ("code_block", "definition"):
        return " "
    if span.kind == "html" and (mark := _SCRIPTS.get(span.target.removeprefix("/"))):
        return mark
    if span.kind in ("comment", "html"):
        return "" if span.kind == "comment" or span.target.removeprefix("/") in _IN_SENTENCES else " "
    if span.kind == "raw":
        return " " if span.target != "tex" or span.text.startswith(("\\index", "\\label")) else None
    if span.kind == "attributes" and span.end - span.start == len(span.attributes):
        return ""
    return WORDS if span.kind in ("link", "image", "attributes") and span.text != span.target else None


_GRAPHICS = re.compile(r"""include_graphics\(\s*(?:path\s*=\s*)?(c\()?((?:[^()"']|"[^"\n]*"|'[^'\n]*')*)\)""")


def included_pictures(code: str) -> list[str]:
    """Return the paths of the images that R code includes.

    >>> included_pictures("include_graphics('a.png'); include_graphics(c('b.png', 'c.png'))")
    ['a.png', 'b.png', 'c.png']
    """
    paths = []
    for match in _GRAPHICS.finditer(code):
        quoted = [name or other for name, other in re.findall(r"\"([^\"\n]+)\"|'([^'\n]+)'", match[2])]
        paths += quoted if match[1] else quoted[:1]
    return paths


_MARGIN = re.compile(r"((?: {0,3}>[ ]?)*)[ \t]*")  # of a quote, and the indentation in it
_REST = re.compile(r"[ \t]*\r?(?:\n|\Z)")
_BLANKS = re.compile(r"(?:[ \t>]*\r?\n)+")
_ITEM = re.compile(r"(?:[-*+]|\(?(?:\d{1,9}|[A-Za-z#]|[ivxlIVXL]{2,5}|@\w*)[.)]|[:~])[ \t]+(?=\S)")
_DEFINITION = re.compile(
    r"""\[\^(?P<note>[^\]\s]+)\]:[ \t]*
    |\[(?![\^@])(?P<label>(?:[^\[\]\\\n]|\\.)++)\]:[ \t]*(?:\n[ \t]*)?
    (?P<target><[^>\n]*>|(?![<\[("'])\S++(?:[ \t]+(?![\["'({])\S++)*+)
    (?:[ \t]*(?:\n[ \t]*)?(?:"(?:[^"\n]|"(?![ \t]*(?:\n|\Z)))*+"|'[^'\n]*+'|\([^()\n]*+\)))?
    (?:[ \t]*\{[^{}\n]*+\})?[ \t]*\r?(?:\n|\Z)""",
    re.VERBOSE,
)
_FENCE = re.compile(
    r"(?:(?P<code>`{3,}|~{3,})[ \t]*(?P<words>[^\n]*?)|:{3,}[ \t]*(?:(?P<div>\{[^\n]*\}|[^\s:{}]+)[ \t]*:*)?)"
    r"[ \t]*\r?(?:\n|\Z)"
)
_HASHES = re.compile(r"#{1,6}(?:[ \t\r\n]|\Z)")
_GRID = re.compile(r"\+(?:[-=:]+\+)+[ \t]*\r?\n")
# A paragraph ends before a blank line, a fence, the line that closes a div; in a list, before the next item; after tags
# and TeX, before a heading and a line that opens a div.
_STOPS = r"\r?\n|\Z|`{3,}[^`\n]*(?:\n|\Z)|~{3,}|:{3,}[ \t]*\r?(?:\n|\Z)"
_MARK = r"(?:[-*+]|\(?(?:\d{1,9}|[A-Za-z#])[.)]|:)[ \t]|\[\^[^\]\s]+\]:"
_END = re.compile(rf"\n(?=[ \t>]*(?:{_STOPS}|(?P<item>{_MARK})|(?P<raw>:::|#{{1,6}}[ \t])))")


class _Scanner(InlineReader):
    """One pass over one text, block by block."""

    def __init__(self, text: str, in_list: bool = False, addresses: Mapping[str, str] = NO_ADDRESSES) -> None:
        super().__init__(text)
        self.labels = {**addresses}  # addresses that are defined
        self.headings: dict[str, str] = {}  # what a title in brackets links to
        self.notes: set[str] = set()
        self.columns = [_indentation(text)] if in_list else []  # where the texts of the list items begin that we are in
        self.divs: list[int] = []  # which of `found` are divs that are open

    def scan(self) -> list[Span]:
        """Return all spans, in order of their starts."""
        self.read()
        for index, label in self.unresolved:
            span = self.found[index]
            if span is not None and span.kind == "footnote":
                self.found[index] = span if label in self.notes else None
            elif span is not None:
                key = _normal(label)
                target = self.labels.get(key, self.headings.get(key))
                self.found[index] = None if target is None else span._replace(target=target)
        return sorted((span for span in self.found if span is not None), key=lambda span: (span.start, -span.end))

    def read(self) -> None:
        """Find the spans; whether a label leads somewhere is known at the end."""
        at, fresh, last = 0, True, len(self.text.rstrip())
        while at < last:
            blanks = _BLANKS.match(self.text, at)
            if blanks is not None:
                at, fresh = blanks.end(), True
            at, fresh = self._block(at, fresh)
        while self.divs:
            self._close_div(self.size)

    def _margin(self, at: int) -> tuple[int, int]:
        """Where the marks of quotes that stand at `at` end, and the indentation after them."""
        margin = _MARGIN.match(self.text, at)
        return (margin.end(1), margin.end()) if margin else (at, at)

    # -- blocks ----------------------------------------------------------------------------------------

    def _block(self, at: int, fresh: bool) -> tuple[int, bool]:
        """Parse the block at `at`; return its end, and whether another block begins there."""
        text = self.text
        if at and text[at - 1] != "\n":
            rest = _REST.match(text, at)
            return (rest.end(), True) if rest else (self._paragraph(at), False)
        margin, place = self._margin(at)
        column = _width(text[margin:place])
        while self.columns and column < self.columns[-1] and (fresh or text[place : place + 1] in "-*+:"):
            self.columns.pop()
        while True:
            base = self.columns[-1] if self.columns else 0
            if fresh and column >= base + 4:
                return self._indented_code(at, margin, base + 4), True
            fence = _FENCE.match(text, place) if text.startswith(("`", "~", ":"), place) else None
            if fence is not None:
                end = self._fenced_code(fence, at, column, base) if fence["code"] else self._div(fence)
                if end:
                    return end, True
            item = _ITEM.match(text, place)
            if item is None or not (fresh or self.columns or item[0][0] in "-*+:"):
                break
            column += _width(item[0])
            place = item.end()
            self.columns.append(column)
        return self._unfenced(place, column - base)

    def _unfenced(self, place: int, indent: int) -> tuple[int, bool]:
        """A heading, comment, table, definition or paragraph: its end, and whether another block begins there."""
        text, char = self.text, self.text[place : place + 1]
        if char == "#" and _HASHES.match(text, place):
            return self._heading(place), True
        if text.startswith("<!--", place):
            return self.read_words(place, place + 1), False
        if char == "+" and _GRID.match(text, place):
            return self._grid_table(place), True
        if char == "[" and (end := self._definition(place, indent)):
            return end, True
        return self._paragraph(place), False

    def _paragraph(self, place: int) -> int:
        kind = "raw" if self.text.startswith(("<", "\\"), place) else "item" if self.columns else None
        stop = _END.search(self.text, place)
        while stop is not None and stop.lastgroup and stop.lastgroup != kind:
            stop = _END.search(self.text, stop.end())
        return self.read_words(place, stop.end() if stop else self.size)

    def _indented_code(self, at: int, margin: int, column: int) -> int:
        """Code that is indented, up to the next line that is indented less, or is in another quote: its end."""
        lines, place, stop, quoted = [], at, margin, self.text[at:margin].count(">")
        while place < self.size:
            end = self.text.find("\n", place) + 1 or self.size
            inner = self._margin(place)[0] if quoted else place
            line = self.text[inner:end]
            if self.text.count(">", place, inner) != quoted or (line.strip() and _indentation(line) < column):
                break
            lines.append(line)
            stop = place + len(self.text[place:end].rstrip()) if line.strip() else stop
            place = end
        if stop > margin:
            self.add("code_block", margin, stop, _outdented("".join(lines).rstrip(), column), "indented")
        return place

    def _fenced_code(self, fence: re.Match[str], at: int, column: int, base: int) -> int:
        """Code between fences: its end, or 0 where no fence closes it."""
        text, place, words = self.text, fence.start(), fence["words"]
        char, length, quoted = fence["code"][0], len(fence["code"]), ">" in text[at:place]
        if char == "`" and "`" in words:
            return 0
        if any((char, n, base, quoted) in self.missing for n in range(3, length + 1)):
            return 0
        margin = r"(?: {0,3}> ?)+[ \t]*" if quoted else rf"(?: {{0,{base + 3}}}|\t*)"
        closing = closing_fence(margin, char, length).search(text, fence.end() - 1)
        if closing is None:
            self.missing.add((char, length, base, quoted))
            return 0
        code = "\n" + text[fence.end() : closing.start()]
        code = _outdented((unquoted(code) if quoted else code)[1:], column)
        if words.startswith("{="):
            self.add("raw", place, closing.end(), code, words.strip("{=} \t"), words)
        else:
            self.add("code_block", place, closing.end(), code, "", words)
        return min(closing.end() + 1, self.size)

    def _div(self, line: re.Match[str]) -> int:
        """A line that opens or closes a div: its end, or 0."""
        if line["div"]:
            self.divs.append(len(self.found))
            self.add("div", line.start(), line.end(), "", "", line["div"])
        elif self.divs:
            self._close_div(line.end())
        else:
            return 0
        return line.end()

    def _close_div(self, end: int) -> None:
        index = self.divs.pop()
        div = self.found[index]
        self.found[index] = div and div._replace(end=end)

    def _heading(self, place: int) -> int:
        end = self.text.find("\n", place) + 1 or self.size
        line = self.text[place:end].rstrip()
        group = line.rfind("{") if line.endswith("}") else -1
        if group > 0 and read_attributes(line[group:]) is not None:
            self.add("attributes", place + group, place + len(line), line[:group].strip("# \t"), "", line[group:])
            line = line[:group]
        self.read_words(place, place + len(line))
        title = line.strip("# \t")
        if title and "[" not in title:
            self.headings.setdefault(_normal(title), f"#{title}")
        return end

    def _definition(self, place: int, indent: int) -> int:
        """The definition of a link's address, or the beginning of a note: its end, or 0."""
        match = _DEFINITION.match(self.text, place)
        if match is None or (indent >= 4 and not match["note"]):
            return 0
        if match["note"]:
            target = "^"
            self.notes.add(match["note"])
            self.columns = [4]
        else:
            target = match["target"].strip("<>") if match["target"].startswith("<") else match["target"]
            self.labels.setdefault(_normal(match["label"]), target)
        self.add("definition", place, match.end(), match["note"] or match["label"], target)
        return match.end()

    # -- tables that are drawn -------------------------------------------------------------------------

    def _grid_table(self, place: int) -> int:
        """A table drawn with ``+---+`` and ``|``, whose cells hold blocks of their own: its end."""
        text, at = self.text, place
        indent = text[text.rfind("\n", 0, place) + 1 : place]
        edges = [index for index, char in enumerate(text[place : text.find("\n", place)]) if char == "+"]
        row: list[int] = []
        while text.startswith(("+", "|"), at):
            if text[at] == "|":
                row.append(at)
            else:
                self._row(row, edges)
                row = []
            at = text.find("\n", at) + 1 or self.size
            if not text.startswith(indent, at):
                break
            at += len(indent)
        self._row(row, edges)
        return at

    def _row(self, lines: list[int], edges: list[int]) -> None:
        """The cells of a row, of which the lines begin at `lines`; each is a text of its own."""
        text = self.text
        drawn = [edge for edge in edges[1:-1] if all(text.startswith("|", at + edge) for at in lines)]
        for left, right in itertools.pairwise([0, *drawn, edges[-1]] if lines else ()):
            starts, parts, size = [], [], 0
            for at in lines:
                part = text[at + left + 1 : at + right].partition("\n")[0].rstrip(" \t\r")
                bare = part.removeprefix(" ")
                starts.append((size, at + left + 1 + len(part) - len(bare)))
                parts.append(bare)
                size += len(bare) + 1
            self._cell("\n".join(parts), starts)

    def _cell(self, text: str, starts: list[tuple[int, int]]) -> None:
        """Take over what is in a cell; `starts` are the offsets of its lines in it, and in the whole text."""
        cell = _Scanner(text)
        cell.read()

        def placed(at: int) -> int:
            offset, start = starts[bisect_right(starts, (at, self.size)) - 1]
            return start + at - offset

        self.unresolved += [(index + len(self.found), label) for index, label in cell.unresolved]
        self.found += [s and s._replace(start=placed(s.start), end=placed(s.end - 1) + 1) for s in cell.found]
        self.labels |= cell.labels
        self.notes |= cell.notes


def _normal(label: str) -> str:
    return " ".join(label.split()).casefold()


def _width(indent: str) -> int:
    return len(indent.expandtabs(4)) if "\t" in indent else len(indent)


def _indentation(text: str) -> int:
    return _width(text[: len(text) - len(text.lstrip(" \t"))])


def _outdented(code: str, column: int) -> str:
    """Code without the first `column` columns of each line's indentation."""
    if not column:
        return code
    lines = []
    for line in code.split("\n"):
        bare = line.lstrip(" \t")
        lines.append(line[: len(line) - len(bare)].expandtabs(4)[column:] + bare)
    return "\n".join(lines)
