"""Parse the inline elements of a paragraph: code, formulas, links, citations, tags and the rest.

Use `spans` in `lmm.markdown.spans`, which parses blocks, and the words of each with this module.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple


class Attributes(NamedTuple):
    """A parsed attribute group ``{#id .class key=value}``."""

    id: str = ""
    classes: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()


class Span(NamedTuple):
    """A part of a text that is more than words: its `kind`, its place and its content.

    | kind | text | target | attributes |
    |---|---|---|---|
    | ``code`` | the code | | as written after it |
    | ``code_block`` | the code, without indentation | ``indented``, without a fence | the words after the opening one |
    | ``math`` | the formula | ``display`` or ``inline`` | a label of Quarto's after it |
    | ``link``, ``image`` | what is in the brackets, as written | the address, references resolved | as written |
    | ``citation`` | as written | the keys, separated by ``;`` | |
    | ``footnote`` | an inline note's text | the label of another note | |
    | ``definition`` | the label | the address; ``^`` where a note begins | |
    | ``html`` | the tag; ``<pre>``, ``<script>``, ``<style>`` with their content | the tag's name | |
    | ``comment`` | what is between ``<!--`` and ``-->`` | | |
    | ``attributes`` | the words that they are about: a heading's, or in brackets | | as written |
    | ``reference`` | ``\\@ref(label)`` of bookdown, as written | the label | |
    | ``shortcode`` | what is between its marks, of mdBook's too | its name | |
    | ``role`` | of MyST: the text in backticks | its name | |
    | ``raw`` | as written, without a fence | ``tex``, or the format named | the words after the fence |
    | ``div`` | | | as written after the opening fence |
    """

    kind: str
    start: int
    end: int
    text: str
    target: str = ""
    attributes: str = ""

    @property
    def language(self) -> str:
        """The language that a code block names, or the empty string."""
        match = _LANGUAGE.match(self.attributes)
        return (match[1] or "") if match else ""

    @property
    def runs(self) -> bool:
        """Whether this is a code block that knitr, Quarto or MyST would run."""
        return self.kind == "code_block" and self.attributes.startswith("{") and self.attributes[1:2].isalpha()

    @property
    def group(self) -> Attributes:
        """The parsed attribute group; a word after the fence of a div is a class."""
        classes = (self.attributes.strip("{} "),) if self.kind == "div" else ()
        return read_attributes(self.attributes) or Attributes(classes=classes)

    @property
    def expression(self) -> str:
        """The expression of inline code whose value knitr or Quarto shows; else the empty string."""
        engine, _, code = self.text.partition(" ")
        return code.strip() if self.kind == "code" and engine in _ENGINES else ""

    @property
    def values(self) -> dict[str, str]:
        """The values of a tag's attributes, by their names.

        >>> Span("html", 0, 0, '<img src="a.png" width=50>', "img").values
        {'src': 'a.png', 'width': '50'}
        """
        return {key: " ".join((a or b or c).split()) for key, a, b, c in _TAG_VALUE.findall(self.text)}


_LANGUAGE = re.compile(r"\{*[ \t]*\.?([\w+#-]+(?:\.\w+)?)?")
_ENGINES = ("r", "{r}", "{python}", "{julia}", "{ojs}")
_TAG_VALUE = re.compile(r"""(?<![\w:@-])([\w:@-]++)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=`]+))""")

_QUOTED = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
_GROUP = re.compile(rf"\{{(?:[^{{}}\"'\n]|\n(?![ \t]*\r?\n)|{_QUOTED})*+\}}", re.DOTALL)
_ATTRIBUTE = re.compile(
    rf"\s*(?:(?P<unnumbered>-)(?=[\s}}#])|\#(?P<id>[^\s{{}}\#=]+)|\.(?P<class>[^\s{{}}\#=.][^\s{{}}\#=]*)"
    rf"|(?P<key>[\w:.-]+)=(?P<value>{_QUOTED}|[^\s{{}}]*))",
    re.DOTALL,
)


def read_attributes(text: str) -> Attributes | None:
    """Parse `text` as an attribute group; return None if it is none.

    >>> read_attributes('{#fig-leaf .wide width="50%"}')
    Attributes(id='fig-leaf', classes=('wide',), values=(('width', '50%'),))
    >>> read_attributes("{r, echo=FALSE}") is None
    True
    """
    if not text.startswith("{") or not text.endswith("}"):
        return None
    at, end = 1, len(text) - 1
    name, classes, values = "", [], []
    while match := _ATTRIBUTE.match(text, at):
        at = match.end()
        if match["key"]:
            value = match["value"]
            values.append((match["key"], value[1:-1] if value[:1] in ("'", '"') else value))
        elif match["id"]:
            name = match["id"]
        else:
            classes.append(match["class"] or "unnumbered")
    return Attributes(name, tuple(classes), tuple(values)) if not text[at:end].strip() else None


SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
"""What an address begins with that is no path, nor a drive of Windows."""
_SPECIAL = re.compile(r"[`$\\<@\[\]{]")
BLANK_LINES = re.compile(r"\n(?:[ \t\r]*\n)+")
_QUOTE_MARKS = re.compile(r"\n(?: {0,3}> ?)+")
_TAG = re.compile(
    r"""<(?:(?P<address>[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[\w.!\#$%&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)+)
    |(?P<name>/?(?:[A-Z]\w*(?:\.\w+)+|[A-Za-z][\w:-]*))
    (?:\s+[\w:@.*-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\}|[^\s"'=<>`]+))?)*+\s*/?
    |(?P<declaration>[!?])[A-Za-z][^<>]*)>""",
    re.VERBOSE,
)
_VERBATIM = ("pre", "script", "style", "textarea")
_CITED = re.compile(r"@(?:\{([^{}\s]+)\}|([\w*](?:\w|[:.#$%&\-+?<>~/](?=\w))*))")
_TEX = re.compile(
    r"""\\@ref\((?P<label>[^()\s]+)\)|\\begin\{(?P<environment>[A-Za-z]+\*?)\}
    |\\[A-Za-z]+\*?
    (?:\[[^\[\]\n]*\]|\{(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*+\})*+\})*+\})*""",
    re.VERBOSE,
)
_ROLE_MARKS = str.maketrans("", "", "_:+.-")
_SHORTCODE = re.compile(r"\{\{(?:[<%]-?(?P<words>.*?)-?[>%]|(?P<include>#.*?))\}\}", re.DOTALL)
# What follows a link's text: an address, which may hold spaces and balanced parentheses, and a title.
_DESTINATION = re.compile(
    r"""\([ \t]*\n?[ \t]*
    (<[^<>\n]*>
    |(?:[^()\\\s]|\\.|[ \t]+(?!["'(\s)])|\n(?![ \t]*(?:\n|["']))|\((?:[^()\\\n]|\\.|\((?:[^()\\\n]|\\.)*+\))*+\))*+)
    (?:\s+(?:"(?:[^"\\]|\\.|"(?!\s*\)))*+"|'(?:[^'\\]|\\.|'(?!\s*\)))*+'|\((?:[^()\\]|\\.)*+\)))?
    \s*\)""",
    re.VERBOSE,
)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.)*+)\]")


class Bracket(NamedTuple):
    """An open bracket: where its text begins, and how many spans were found before."""

    start: int
    first: int


class InlineReader:
    """A parser that reads the words of one paragraph after the other, and collects spans.

    It records what is missing in the rest of the text, such as a closing tag, to search for it only once.
    """

    def __init__(self, text: str) -> None:
        self.text, self.size = text, len(text)
        self.found: list[Span | None] = []
        self.unresolved: list[tuple[int, str]] = []  # which of `found` count only if their label is defined
        self.missing: set[object] = set()  # in the rest of the text
        self.end = 0  # of the paragraph
        self.open: list[Bracket] = []
        self.absent: set[str] = set()  # in the rest of the paragraph
        self.runs: dict[int, list[int]] | None = None  # of backticks in the paragraph: their places by length

    def read_words(self, at: int, end: int) -> int:
        """Parse the words from `at` to `end`; return where parsing ended, since a comment may extend further."""
        self.end, self.open, self.absent, self.runs = end, [], set(), None
        while (special := _SPECIAL.search(self.text, at, self.end)) is not None:
            at = _READERS[special[0]](self, special.start())
        return max(at, self.end)

    def add(self, kind: str, start: int, end: int, text: str, target: str = "", attributes: str = "") -> None:
        """Add a span to those found."""
        self.found.append(Span(kind, start, end, text, target, attributes))

    def _group_after(self, at: int) -> str:
        """Return the attribute group at `at`, or the empty string."""
        group = _GROUP.match(self.text, at, self.end) if self.text.startswith("{", at) else None
        return group[0] if group and (group[0].startswith("{=") or read_attributes(group[0]) is not None) else ""

    def _find(self, mark: str, at: int) -> int:
        """Return where a mark is next, or -1."""
        found = -1 if mark in self.missing else self.text.find(mark, at)
        if found < 0:
            self.missing.add(mark)
        return found

    # -- code and formulas -----------------------------------------------------------------------------

    def _code(self, at: int) -> int:
        text = self.text
        if self.runs is None:
            self.runs = {}
            for run in re.finditer("`+", text[at : self.end]):
                self.runs.setdefault(len(run[0]), []).append(at + run.start())
        last = at
        while last < self.end and text[last] == "`":
            last += 1
        for start in range(at, last):  # where no run of that length closes it, the first backtick is a character
            places = self.runs.get(last - start, [])
            index = bisect_left(places, last)
            if index < len(places):
                break
        else:
            return last
        end = places[index] + last - start
        first, *lines = text[last : places[index]].strip(" \t").replace("\r\n", "\n").split("\n")
        code = " ".join([first, *(line.lstrip(" \t>") for line in lines)]).strip(" \t")
        opening = text.rfind("{", max(0, start - 60), start) if text.endswith("}", 0, start) else start
        role = text[opening + 1 : start - 1]
        if role[:1].isalpha() and role.translate(_ROLE_MARKS).isalnum():
            self.add("role", opening, end, code, role)
            return end
        group = self._group_after(end)
        end += len(group)
        if group.startswith("{="):
            self.add("raw", start, end, code, group[2:-1].strip())
        else:
            self.add("code", start, end, code, "", group)
        return end

    def _math(self, at: int) -> int:
        text = self.text
        if text.startswith("$$", at):
            return self._display(at)
        if "$" in self.absent or text[at + 1 : at + 2] in ("", " ", "\t", "\n", "\r"):
            return at + 1
        closing = text.find("$", at + 1, self.end)
        while closing > 0 and _is_escaped(text, closing):
            closing = text.find("$", closing + 1, self.end)
        if closing < 0:
            self.absent.add("$")
        if closing < 0 or text[closing - 1].isspace() or text[closing + 1 : closing + 2].isdigit():
            return at + 1
        self.add("math", at, closing + 1, text[at + 1 : closing], "inline")
        return closing + 1

    def _display(self, at: int) -> int:
        closing = -1 if "$$" in self.absent else self.text.find("$$", at + 3)
        if closing < 0 or BLANK_LINES.search(self.text, at, closing):
            self.absent.add("$$")
            return at + 2
        end = closing + 2
        opening = self.text.find("{#", end, end + 40)  # of Quarto's label
        label = _GROUP.match(self.text, opening) if opening >= 0 and not self.text[end:opening].strip(" \t") else None
        end = label.end() if label else end
        self.add("math", at, end, unquoted(self.text[at + 2 : closing]), "display", label[0] if label else "")
        return end

    # -- TeX, tags, shortcodes, citations --------------------------------------------------------------

    def _backslash(self, at: int) -> int:
        tex = _TEX.match(self.text, at, self.end)
        if tex is None:
            return at + 2
        place, depth = tex.end(), 1 if tex["environment"] else 0
        begin, closing = f"\\begin{{{tex['environment']}}}", f"\\end{{{tex['environment']}}}"
        while depth:  # to the end that closes it, including blank lines
            if (end := self._find(closing, place)) < 0:
                return tex.end()
            depth += self.text.count(begin, place, end) - 1
            place = end + len(closing)
        kind, target = ("reference", tex["label"]) if tex["label"] else ("raw", "tex")
        self.add(kind, at, place, self.text[at:place], target)
        return place

    def _less_than(self, at: int) -> int:
        text = self.text
        if text.startswith("<!--", at):
            if (closing := self._find("-->", at + 4)) < 0:
                return at + 4
            self.add("comment", at, closing + 3, text[at + 4 : closing])
            return closing + 3
        tag = _TAG.match(text, at)
        if tag is None:
            return at + 1
        if written := tag["address"]:
            return self._add_link("link", at, written, tag.end(), written if ":" in written else f"mailto:{written}")
        name, end = (tag["name"] or tag["declaration"]).lower(), tag.end()
        if name in _VERBATIM and name not in self.missing:  # it contains no markdown
            if element := re.compile(rf"</{name}\s*>", re.IGNORECASE).search(text, end):
                end = element.end()
            else:
                self.missing.add(name)
        self.add("html", at, end, text[at:end], name)
        return end

    def _brace(self, at: int) -> int:
        shortcode = None
        if self.text.startswith(("{{<", "{{%", "{{#"), at) and "}}" not in self.absent:
            shortcode = _SHORTCODE.match(self.text, at, self.end)
            if shortcode is None:
                self.absent.add("}}")
        if shortcode is None:
            return at + 1
        words = (shortcode["words"] or shortcode["include"]).strip()
        self.add("shortcode", at, shortcode.end(), words, words.split(None, 1)[0] if words else "")
        return shortcode.end()

    def _at(self, at: int) -> int:
        text = self.text
        key = _CITED.match(text, at, self.end)
        last = self.found[-1] if self.found else None
        goes_on = last is not None and last.kind == "citation" and last.end == at
        if key is None or (text[max(0, at - 1) : at].isalnum() and not goes_on):
            return at + 1
        start = at - 1 if text.endswith("-", 0, at) and not text[max(0, at - 2) : at - 1].isalnum() else at
        self.add("citation", start, key.end(), text[start : key.end()], key[1] or key[2])
        return key.end()

    # -- brackets --------------------------------------------------------------------------------------

    def _open(self, at: int) -> int:
        self.open.append(Bracket(at + 1, len(self.found)))
        return at + 1

    def _close(self, at: int) -> int:
        if not self.open:
            return at + 1
        bracket = self.open.pop()
        text, start = self.text, bracket.start
        before = text[max(0, start - 2) : start - 1]
        if before == "^" and not text.startswith("^", start):
            self.add("footnote", start - 2, at + 1, text[start:at])
        elif text.startswith("^", start):
            if at > start + 1 and text[start:at].split() == [text[start:at]]:
                self.unresolved.append((len(self.found), text[start + 1 : at]))
                self.add("footnote", start - 1, at + 1, "", text[start + 1 : at])
        else:
            is_image = before == "!" and not _is_escaped(text, start - 2)
            return self._after_brackets("image" if is_image else "link", start - 1 - is_image, bracket, at)
        return at + 1

    def _after_brackets(self, kind: str, opening: int, bracket: Bracket, at: int) -> int:
        """Classify words in brackets by what follows the closing bracket, which is at `at`."""
        text, inner = self.text, self.text[bracket.start : at]
        following = text[at + 1 : at + 2]
        destination = None
        if following == "(" and ")" not in self.absent:
            destination = _DESTINATION.match(text, at + 1, self.end)
            if destination is None and text.find(")", at + 1, self.end) < 0:
                self.absent.add(")")
        if destination is not None and not BLANK_LINES.search(destination[0]):
            for index in range(bracket.first, len(self.found) if kind == "link" else 0):
                span = self.found[index]
                if span is not None and span.kind == "link":  # a link may contain none: the outer one counts
                    self.found[index] = None
            written = destination[1]
            address = written[1:-1] if written.startswith("<") else " ".join(written.split())
            return self._add_link(kind, opening, inner, destination.end(), address)
        if following == "[" and (label := _LABEL.match(text, at + 1, self.end)) is not None:
            self.unresolved.append((len(self.found), label[1] or inner))
            return self._add_link(kind, opening, inner, label.end(), "")
        group = self._group_after(at + 1)
        if group and not group.startswith("{="):
            self.add("attributes", bracket.start - 1, at + 1 + len(group), inner, "", group)
            return at + 1 + len(group)
        if not self._cite(bracket, at + 1, inner):
            self.unresolved.append((len(self.found), inner))
            return self._add_link(kind, opening, inner, at + 1, "")
        return at + 1

    def _add_link(self, kind: str, start: int, inner: str, end: int, target: str) -> int:
        group = self._group_after(end)
        self.add(kind, start, end + len(group), inner, target, group)
        return end + len(group)

    def _cite(self, bracket: Bracket, end: int, inner: str) -> bool:
        """Add the citations in brackets as one, if each part contains one."""
        if "@" not in inner or not all("@" in part for part in inner.split(";")):
            return False
        cited = {i: s for i, s in enumerate(self.found[bracket.first :], bracket.first) if s and s.kind == "citation"}
        for index in cited:
            self.found[index] = None
        if cited:
            start = bracket.start - 1
            self.add("citation", start, end, self.text[start:end], ";".join(span.target for span in cited.values()))
        return bool(cited)


_READERS: dict[str, Callable[[InlineReader, int], int]] = {
    "`": InlineReader._code,
    "$": InlineReader._math,
    "\\": InlineReader._backslash,
    "<": InlineReader._less_than,
    "@": InlineReader._at,
    "{": InlineReader._brace,
    "[": InlineReader._open,
    "]": InlineReader._close,
}


def unquoted(text: str) -> str:
    """Return a text without the quote marks on all lines after the first."""
    return _QUOTE_MARKS.sub("\n", text) if "\n" in text and ">" in text else text


def _is_escaped(text: str, at: int) -> bool:
    """Return whether an odd number of backslashes precedes `at`."""
    before = at
    while before > 0 and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1


@lru_cache(maxsize=128)
def closing_fence(margin: str, char: str, length: int) -> re.Pattern[str]:
    """Return a pattern for a line of at least `length` fence characters after a margin, with the line end before it."""
    return re.compile(rf"\n{margin}{char}{{{length},}}[ \t]*\r?(?=\n|\Z)")
