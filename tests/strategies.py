"""Hypothesis strategies: nasty markdown documents, metadata values, and metadata bodies that are valid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

# -- text ----------------------------------------------------------------------------------------

# Characters that some reader, somewhere, takes for a line end, for nothing, or for an instruction.
ODD_CHARACTERS = "\x00\t\x0b\x0c\r\x1c\x7f\x85\xa0\u2003\u2028\u2029\ufeff\ufffe\U0001f600é"
ODD_TEXTS = [
    *ODD_CHARACTERS, "", " ", "  ", "\n", "\r\n", "\n\n", " \n", "\t\n", "---", "...", "--- # c", "```", "~~~",
    "```{r}", "```{r, echo=FALSE}\n1+1\n```", "`r 1+1`", "`r", "`{r} x`", "<<a>>=", "{r}", "\t{r}", "> ```", "`{r} 1`",
    "\\Sexpr{1}", "<!-- rinline 1 -->", "$$", "<!--", "-->", "# x", "## y {#id}", "- item", "1. item", "> quote",
    "| a | b |\n|---|---|", "?: why", "+: more", "=: shorter", "query: what", "message: hm", "edit: this", "a: b",
    "a : b", "a:", ": b", "a #b", "#b", "key: [", "{", "}", "[", "]", "&a", "*a", "!t", "|", ">", "|-", "%", "@", "'",
    '"', "''", '"x" y', "\\", "\\n", "\\x60", "yes", "no", "on", "~", "null", "true", "017", "1.10", "0x1F", "0b11",
    "1_000", "12:30", "2025-05-21", "1e3", ".inf", "-", "- ", "?", "? ", "=", "<<", "x ", " x", "x\t", "\tx", "x:",
    "x #", "a\n\nb", "a\n  b", "  a\nb", "a\n\n", "a\n \nb", "a\n\tb", "a  \nb", "a" * 90, "a b " * 40,
]  # fmt: skip


def texts() -> st.SearchStrategy[str]:
    """Any text that UTF-8 can hold: Hypothesis' own, and pieces that mean something to YAML, knitr or us."""
    pieces = st.lists(st.sampled_from(ODD_TEXTS) | st.text(max_size=5), max_size=6).map("".join)
    lines = st.lists(st.sampled_from(ODD_TEXTS) | st.text(max_size=8), max_size=6).map("\n".join)
    return st.one_of(pieces, lines, st.text())


# -- documents -----------------------------------------------------------------------------------

_HEADINGS = [
    "# A", "## A ##", "### A {#id .c k=v}", "# A {-}", "# Set {1, 2}", "#", "## ", "######", "####### 7", "#hashtag",
    "#\tA", "   # A", "    # code", "# `f {x}` {y}", "# A #\t", "## ##", "# {#id}", "#\rA", "Setext\n===",
    "Setext\n---",
]  # fmt: skip
_RULES = ["---", "--- ", "----", "***", "* * *", "___", "...", "--- # c", "---# c", "---x", " ---", "---\r"]
_BODIES = [
    "title: x", "a: 1\nb:\n  - x\n  - y", "a: b: c", "key: [", "just prose", "# comment", "", "- a: 1\n- b: 2", "- x",
    "a: |\n  one\n\n  # two\n\n  ---", "?: why: not # really", "?:\n  a\n\n  b", "+: x\n+: y\nquery: z", "=:x",
    "query:", 'message: "say: hi"', "edit: |\n  do\n    this", "?: 'open", "{a: 1}", "a: &x 1\nb: *x", "? a\n: b",
    "a: 'x\n\ny'", "  a: 1\n  b: 2", "date: 2025-05-21", "a:\n  b:\n    c: 1", "a\tb: c", "a: @x", "%TAG ! x",
    "# c\n# d\na: b: c", "~", "query: a\n# x\nb: {", "a: 1\u2028b: 2", "a: 1\x85---\nb", "a: \x00", "k: *k",
    "a: &a [*a]", "!!map {}", "<<: {a: 1}",
]  # fmt: skip
_FENCED = ["x", "# x", "---", "---\na: b\n---", "", "```", "~~~", "$$", "<!--", "    indented", "x\n\n\ny", "...", "\t"]
_PLAIN = [
    "text", "two\nlines", "- item", "1. item\n\n   # in item", "> quote\n> # x", "| a |\n|---|\n| b |",
    "% title\n% author", "Term\n: definition", "[a]: b", "`r 1`", "a\\", "text  ", "\ttab", "$$ x", "a $$ b", "<!-- x",
    "a --> b", "```", "~~~ x", "<div>", ":::", "\\begin{x}",
]  # fmt: skip
_NEWLINES = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n \n", "\r\n\r\n", "", "\n\t\n"]


def _fences() -> st.SearchStrategy[str]:
    def fence(indent: str, mark: str, info: str, inside: list[str], close: str) -> str:
        return "\n".join([f"{indent}{mark}{info}", *inside, close])

    return st.builds(
        fence,
        st.sampled_from(["", " ", "   ", "    ", "\t", "- ", "1.  ", "- - ", "> ", "  - "]),
        st.sampled_from(["```", "````", "~~~", "~~~~~", "$$", "<!--", "``", "$$ x $$", "<!-- x -->"]),
        st.sampled_from(["", "r", " {r}", "{r}", " a`b", "  "]),
        st.lists(st.sampled_from(_FENCED), max_size=4),
        st.sampled_from(["```", "````", "~~~", "$$", "-->", "   ```", "    ```", "``` ", "```x", "  ~~~~~", ""]),
    )


def _metadata_blocks() -> st.SearchStrategy[str]:
    marker = st.sampled_from(["---", "---", "---", "--- ", "---\t", "--- # note", "---#note", "----", " ---"])
    closing = marker | st.sampled_from(["...", "... # end", "....", "", "---\r"])
    body = st.sampled_from(_BODIES) | st.lists(st.sampled_from(_BODIES), max_size=3).map("\n".join)
    return st.builds(lambda a, b, c: "\n".join([a, b, c] if b else [a, c]), marker, body, closing)


def documents() -> st.SearchStrategy[str]:
    """Markdown nobody would write on purpose: every construct, whole and half-open, under every newline."""
    piece = st.one_of(
        _metadata_blocks(),
        _fences(),
        st.sampled_from(_HEADINGS),
        st.sampled_from(_RULES),
        st.sampled_from(_PLAIN),
        st.sampled_from(_BODIES),
        st.sampled_from(ODD_TEXTS),
        st.text(max_size=10),
        st.text(st.characters(codec=None), max_size=3),  # lone surrogates too
    )
    lines = st.lists(st.tuples(piece, st.sampled_from(_NEWLINES)), max_size=10)
    start = st.sampled_from(["", "", "", "\ufeff", "\n", " \n\n", "\ufeff\r\n", "\t", "\x0c\n"])

    def join(start: str, lines: list[tuple[str, str]], windows: bool) -> str:
        text = start + "".join(piece + newline for piece, newline in lines)
        return text.replace("\r\n", "\n").replace("\n", "\r\n") if windows else text

    return st.one_of(st.builds(join, start, lines, st.sampled_from([False, False, True])), st.text())


_REAL = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))

# -- documents such as people write ----------------------------------------------------------------

_ASKING = [
    "?: why?", "?: why?\n+: and then?", "query: |\n  is it: so?\n\n  # really", "type: exercise\n?: why? # honestly",
    "# a note\n~summary_: short\n?: how", "~chat_:\n  - query: old\n    ~reply: |-\n      Yes.\n\n      No.\n+: more",
    "~chat_:\n- query: 1\n  ~reply: 2\n# after\nkey: 1", "a: 1\nb: [x, y]", "?: 'quoted: yes'", "- a: 1\n?: in a list",
    "{a: 1}\n?: beside flow", "~chat: [q, a]\n+: go on", "x: .nan\n?: hm", "?: why?\n?: why?",
    "=: shorter", "a: 1\n=: shorter\n?: why?",
]  # fmt: skip
_WRITTEN = [
    "Text.", "Two lines,\nof one paragraph.", "- item", "***", "```r\nx <- 1\n\n# comment\n---\n```", "$$\nx = y\n$$",
    "<!-- hidden\n\n---\n?: no\n---\n-->", "Word and word again.", "> quoted", "A question: why?", "Setext\n---", "---",
]  # fmt: skip
_WRITTEN_TITLES = ["# A", "## B", "## B {#b}", "### C", "# A"]
_WRITTEN_HEADERS = ["title: T", "title: T\ndocid: t-1", "# only a comment", "lang: de\n?: what is this?", "docid: x"]


def _metadata_block(body: str) -> str:
    return f"---\n{body}\n---\n"


PIECES = st.one_of(
    st.sampled_from(_ASKING).map(_metadata_block),
    st.sampled_from(_WRITTEN).map(lambda text: f"{text}\n\n"),
    st.sampled_from(_WRITTEN).map(lambda text: f"{text}\n\n"),
    st.sampled_from(_WRITTEN_TITLES).map(lambda text: f"{text}\n\n"),
)


@st.composite
def written_documents(draw: st.DrawFn) -> str:
    """Documents with headings, paragraphs and questions, under either newline, with or without a header."""
    header = draw(st.sampled_from(["", "", *[_metadata_block(body) for body in _WRITTEN_HEADERS]]))
    text = header + "".join(draw(st.lists(PIECES, max_size=8)))
    text = draw(st.sampled_from(["", "", "", "\ufeff", "\n"])) + text
    text = text.rstrip("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.sampled_from([False, False, True])) else text


@st.composite
def real_documents(draw: st.DrawFn) -> str:
    """Forty lines of a page that people wrote: of this project's documentation, with a question between them."""
    lines = draw(st.sampled_from(_REAL)).read_text(encoding="utf-8").splitlines(keepends=True)
    start = draw(st.integers(0, len(lines) - 1))
    lines = lines[start : start + draw(st.integers(1, 40))]
    at = draw(st.integers(0, len(lines)))
    return "".join([*lines[:at], "\n---\n?: why?\n---\n", *lines[at:]])


# -- metadata values -----------------------------------------------------------------------------

KEYS = [
    "a",
    "query",
    "message",
    "edit",
    "?",
    "+",
    "=",
    "title",
    "~chat_",
    "~~model",
    "questions=",
    "~key",
    "key-1",
    "a.b",
    "Größe",
    "two words",
    "yes",
    "1",
    "~",
    "",
]


def keys() -> st.SearchStrategy[str]:
    """Key names, ordinary and not. YAML limits a key to 1,024 characters; ours stay far below."""
    return st.sampled_from(KEYS) | st.sampled_from(ODD_TEXTS) | st.text(max_size=12)


def metadata_values() -> st.SearchStrategy[Any]:
    """Whatever a metadata key can hold: text, numbers with inf and nan, booleans, None, nested to any shape."""
    leaves = texts() | st.integers() | st.floats() | st.booleans() | st.none()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys(), inner, max_size=4),
        max_leaves=8,
    )


# -- metadata bodies -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A piece of a metadata body: one entry (with its `key`), or a comment, blank line or prompt (key None)."""

    source: str
    key: str | None = None


@dataclass(frozen=True)
class Body:
    """A valid metadata body as the pieces it was assembled from: what may change, and what must not."""

    pieces: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "".join(piece.source for piece in self.pieces)

    @property
    def keys(self) -> list[str]:
        return [piece.key for piece in self.pieces if piece.key is not None]

    def around(self, key: str) -> tuple[str, str]:
        """The text before and after the entry of `key`."""
        at = next(i for i, piece in enumerate(self.pieces) if piece.key == key)
        sources = [piece.source for piece in self.pieces]
        return "".join(sources[:at]), "".join(sources[at + 1 :])


# After "key" and a colon, at margin 0. Every line but the first is indented by two or more, or "- ".
_ENTRY_VALUES = [
    " 1\n", " text\n", "  odd   spacing  \n", " yes   # a note\n", "\n", " # only a note\n", " ''\n", " 'it''s: #1'\n",
    ' "a\\n\\x60b"\n', " [a, 'b, c', {d: e}]\n", " {a: 1, b: [2]}\n", " [a,\n  b\n  ]\n", "\n  - x\n  - y # note\n",
    "\n- x\n- y\n", "\n  - - 1\n    - 2\n  - b: 1\n    c: 2\n", "\n    deep:\n      deeper: 1\n",
    " |\n  one\n\n  # two\n", " |-\n  x\n  ---\n", " >\n  folded\n  text\n\n   more\n", " |2-\n   indented\n",
    " plain\n  over lines\n", " !!str 1\n", " 'open\n\n  close'\n", "\n  # inside\n  - x\n\n  - y\n",
    "\n  text: |\n    a\n    # b\n", " a:b#c\n", " http://x.y/z\n", " 2025-05-21\n",
]  # fmt: skip
_ENTRY_KEYS = [
    "a",
    "b",
    "title",
    "~summary_",
    "~~txthash_",
    "questions=",
    "'quoted'",
    '"double q"',
    "two words",
    "x.y",
    "1",
    "ä",
]
_BETWEEN = ["# comment\n", "#\n", "\n", "  \n", "# key: value\n"]
_PROMPTS = [
    "?: why: yes or no? # honestly\n", "+: more\n", "=: shorten\n", "query:\n  over\n\n  lines\n",
    "message: |\n  x\n   y\n", 'edit: "quoted: yes"\n', "?:\n", "+:x\n",
]  # fmt: skip


def _named(spelling: str) -> str:
    return spelling.strip("'\"")


@st.composite
def block_bodies(draw: st.DrawFn, *, prompts: bool = True) -> Body:
    """Ordinary bodies: a block mapping at any margin, comments, blank lines and prompts between its entries."""
    margin = draw(st.sampled_from(["", "", "", "  "]))
    spellings = draw(st.lists(st.sampled_from(_ENTRY_KEYS), unique=True, max_size=5))
    between = st.lists(st.sampled_from(_BETWEEN + (_PROMPTS if prompts and not margin else [])), max_size=2)
    pieces = [Line(source) for source in draw(between)]
    for spelling in spellings:
        source = f"{spelling}:{draw(st.sampled_from(_ENTRY_VALUES))}"
        pieces.append(Line(_indented(source, margin), _named(spelling)))
        pieces += [Line(_indented(source, margin)) for source in draw(between)]
    return _finished(draw, pieces)


@st.composite
def list_bodies(draw: st.DrawFn) -> Body:
    """Bodies in list form: ``- key: value``, one entry per item."""
    margin = draw(st.sampled_from(["", "", "  "]))
    between = st.lists(st.sampled_from(_BETWEEN + ([] if margin else _PROMPTS)), max_size=1)
    spellings = draw(st.lists(st.sampled_from(_ENTRY_KEYS), unique=True, min_size=1, max_size=4))
    pieces = []
    for spelling in spellings:
        first, _, rest = f"{spelling}:{draw(st.sampled_from(_ENTRY_VALUES))}".partition("\n")
        pieces.append(Line(f"{margin}- {first}\n{_indented(rest, margin + '  ')}", _named(spelling)))
        pieces += [Line(source) for source in draw(between)]
    return _finished(draw, pieces)


def _indented(source: str, margin: str) -> str:
    return "".join(margin + line if line.strip() else line for line in source.splitlines(keepends=True))


def _finished(draw: st.DrawFn, pieces: list[Line]) -> Body:
    if draw(st.sampled_from([False, False, True])):
        pieces = [Line(piece.source.replace("\n", "\r\n"), piece.key) for piece in pieces]
    return Body(tuple(pieces))


_ODD_BODIES = [
    "{a: 1, b: [2, 3]}\n", "{}\n", "{ 'a': x, \"b\" : y }  # note\n", "{a: 1,\n b: 2,\n}\n", "a: &x [1, 2]\nb: *x\n",
    "a: &x\n  - 1\nb:\n  - *x\n", "? a\n: 1\n? b\n: 2\n", "- a: 1\n  b: 2\n- c: 3\n", "-\n  a: 1\n-   b: 2\n",
    "a: 1\na: 2\n", "!!map\na: 1\n", "&r\na: 1\n", "<<: {a: 1}\nb: 2\n", "a: [1,\n?: prompt\n2]\nb: 1\n",
    "a: |+\n  x\n\n\nb: 1\n", "- {a: 1}\n- b: 2\n", "a:\n  - |+\n    x\n\n\nb: 1\n", "&k a: 1\n*k : 2\n",
    "a: 1\n  # inside?\nb: 2\n", "a: 1\u2028b: 2\n", "a: 1", "a: x\n\n\n", "# only\n", "", "\n",
    "- model:\n  -system: x\n", "a: |\n  x\n # odd\nb: 1\n", "  a: 1\n?: prompt\n",
]  # fmt: skip


def metadata_bodies() -> st.SearchStrategy[str]:
    """Bodies that are valid metadata: ordinary ones, list form, and forms that are hard to edit."""
    return st.one_of(
        block_bodies().map(lambda body: body.text),
        list_bodies().map(lambda body: body.text),
        st.sampled_from(_ODD_BODIES),
    )
