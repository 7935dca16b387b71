"""Convert text to a tree of nodes, and back: `parse` reads, `serialize` restores the source, `write` normalizes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from chatmd.language.nodes import (
    BLANK,
    NOWHERE,
    Attribute,
    Comment,
    Element,
    Node,
    Problem,
    SourceRange,
    SourceText,
    SyntaxTree,
    Text,
)
from chatmd.language.tags import DOCUMENT, TAGS, VOID, means_something

# -- Attributes: the inside of an opening tag to names and values, and back -----------------------------------
#
# A name alone is a flag. A value is in quotes, or ends at the next white space. In quoted values the five entities of
# XML and numeric ones are decoded; a backslash before the quote keeps the value open, and is not part of it. Other
# characters are skipped.


_DOUBLE = r'"((?:[^"\\]++|\\"?+)*+)"'
_SINGLE = r"'((?:[^'\\]++|\\'?+)*+)'"
# A name with a value in double quotes, in single quotes, or bare; or stray quoted text (without a name: ignored).
_ATTRIBUTE = re.compile(
    rf"([A-Za-z0-9_:-]+)(?:[ \t\r\n]*=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE}|([^ \t\r\n\"'][^ \t\r\n]*))?)?"
    rf"|=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE})"
)
_VALUE = re.compile(rf"=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE}|(?P<open>[\"']))")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_NAME_MARKS = str.maketrans("", "", "_:-")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def read_attributes(inside: str) -> tuple[Attribute, ...]:
    """Return the attributes of a tag, in order; `inside` is what follows its name, without ``/>`` or ``>``.

    >>> read_attributes(" src='a &amp; b' local n=1")
    (Attribute(name='src', value='a & b'), Attribute(name='local', value=None), Attribute(name='n', value='1'))
    """
    if not inside or inside.isspace():
        return ()
    found = []
    for match in _ATTRIBUTE.finditer(inside):
        name, double, single, bare, *_ = match.groups()
        if name is not None:
            quoted, quote = (single, "'") if double is None else (double, '"')
            found.append(Attribute(name, bare if quoted is None else _decode(quoted, quote)))
    return tuple(found)


def attribute_offsets(inside: str) -> dict[str, int]:
    """Return the offset of each attribute in the inside of a tag; the last one, if a name occurs twice.

    >>> attribute_offsets(" src='a' local")
    {'src': 1, 'local': 9}
    """
    return {match[1]: match.start() for match in _ATTRIBUTE.finditer(inside) if match[1]}


def passed_over(inside: str) -> str:
    """Return the characters in a tag that are not part of an attribute.

    >>> passed_over(" src='a', local; x")
    ',;'
    """
    rest = _ATTRIBUTE.sub(lambda match: "" if match[1] else match[0], inside)
    return "".join(c for c in rest if c not in BLANK)


def _decode(value: str, quote: str) -> str:
    value = value.replace("\\" + quote, quote)
    return _ENTITY.sub(_character, value) if "&" in value else value


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def write_attributes(attributes: Iterable[Attribute]) -> str:
    """Write attributes as the inside of a tag, so that it reads as them whatever their values contain.

    Raises:
        ValueError: a name is not a valid attribute name.

    >>> write_attributes([Attribute("src", 'a"b\\\\'), Attribute("local")])
    ' src="a&quot;b&#92;" local'
    """
    written = []
    for name, value in attributes:
        if not name.isascii() or not (name.translate(_NAME_MARKS) or "x").isalnum() or not name:
            raise ValueError(f"{name!r} is not a valid attribute name")
        quoted = (value or "").translate(_ESCAPES)
        if quoted.endswith("\\"):  # before the closing quote, it would keep the value open
            quoted = f"{quoted[:-1]}&#92;"
        written.append(f" {name}" if value is None else f' {name}="{quoted}"')
    return "".join(written)


MAX_PROBLEMS = 1000
"""The limit of reported errors, and of reported warnings, of a document."""
OPEN_RAW, CLOSE_RAW = "RAW|", "|RAW"
_NAMES = "|".join(TAGS)
_QUOTED = r'"(?:[^"\\]++|\\"?+)*+"' + "|" + r"'(?:[^'\\]++|\\'?+)*+'"

# -- Text to tree: lossless, linear in the text, and never raising --------------------------------------------
#
# An element that is not closed ends with its parent, or with the text; a closing tag that closes nothing is text. Both
# are errors of the document. The slash of an element without content may be missing (``<doc src="a" local>``).


MAX_DEPTH = 64
"""The limit of nested elements; a tag below it is text, and an error."""
# RAW| counts at the start of a word, and directly after another RAW block.
_STOP = re.compile(rf"<(?:!--|/?(?:{_NAMES})(?=[ \t\r\n]|/?>))|R(?:(?<![A-Za-z0-9_]R)|(?<=\|RAWR))AW\|")
_OPEN = re.compile(rf"<({_NAMES})(?=[ \t\r\n]|/?>)((?:[^<>\"'=]++|=[ \t\r\n]*+(?:{_QUOTED})?+)*+)>")
_CLOSE = re.compile(rf"</({_NAMES})[ \t\r\n]*+>")
_MARKUP_END = re.compile(r"</?[A-Za-z_][^>]*>\Z")


def parse(text: str, *, file: str = "") -> SyntaxTree:
    """Parse a document. This never raises: errors are in the `problems` of the tree.

    `file` is its name in messages.

    >>> document = parse("<user>Is 1 < 2? RAW|</user>|RAW</user>", file="a.chatmd")
    >>> document.children
    (Element(tag='user', attributes=(), children=(Text(value='Is 1 < 2? </user>', raw=True),)),)
    >>> [f"{p.span.where}: {p.message}" for p in parse("<user>\\n<doc>\\n", file="a.md").problems]
    ['a.md:1:1: <user> is never closed', 'a.md:2:1: <doc> is not closed']
    """
    return _Builder(SourceText(text, file)).build()


def parse_body(text: str, *, file: str = "") -> SyntaxTree:
    """Parse the inside of a message, such as an imported file.

    >>> parse_body("Be brief.").children
    (Text(value='Be brief.', raw=False),)
    """
    return _Builder(SourceText(text, file), "user").build()


@dataclass(slots=True)
class _Frame:
    """An open element: its children so far, the text that is still growing, and open tags in it that are text."""

    tag: str
    start: int
    end: int
    attributes: tuple[Attribute, ...]
    children: list[Node] = field(default_factory=list)
    literal: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    plain: list[tuple[int, int]] = field(default_factory=list)
    text_start: int = 0
    raw: bool = False


@dataclass(slots=True)
class _Builder:
    """Builds the tree in one pass over the text, with the open elements on a stack."""

    source: SourceText
    root: str = DOCUMENT
    problems: list[Problem] = field(default_factory=list)
    counts: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # errors, warnings
    stack: list[_Frame] = field(default_factory=lambda: [_Frame(DOCUMENT, 0, 0, ())])

    def build(self) -> SyntaxTree:
        text = self.source.text
        begin = at = 0  # of the literal text, and of the search in it
        last_comment = text.rfind("-->")
        while (stop := _STOP.search(text, at)) is not None:
            start, mark = stop.start(), stop[0]
            if mark == OPEN_RAW:
                begin = at = self._raw(begin, start)
                continue
            tag, end = None, -1
            if mark != "<!--":
                tag = (_CLOSE if mark[1] == "/" else _OPEN).match(text, start)
                end = tag.end() if tag else -1
            elif start + 4 <= last_comment:
                end = text.index("-->", start + 4) + 3
            if end < 0:
                self._flaw(start, mark)
                at = stop.end()
                continue
            self._literal(begin, start)
            begin = at = end
            if tag is None:
                self._end_text(self.stack[-1], start)
                comment = Comment(text[start + 4 : end - 3], SourceRange(self.source, start, end))
                self.stack[-1].children.append(comment)
            elif mark[1] == "/":
                self._close(start, end, tag[1])
            else:
                self._open(start, end, *tag.groups())
        self._literal(begin, len(text))
        while len(self.stack) > 1:
            self._end_unclosed(len(text), "is never closed")
        root = self.stack[0]
        self._end_text(root, len(text))
        self.problems.sort(key=lambda problem: problem.span.start)
        return SyntaxTree(tuple(root.children), self.source, tuple(self.problems), self.root != DOCUMENT)

    def _literal(self, start: int, end: int) -> None:
        """Add text that is no token, in which names in double braces count."""
        if start < end:
            text, frame = self.source.text[start:end], self.stack[-1]
            if "{{" in text:
                before = sum(map(len, frame.texts))
                frame.plain.append((before, before + len(text)))
            self._add_text(start, text)

    def _raw(self, begin: int, start: int) -> int:
        """Add the RAW block at `start`, after plain text that starts at `begin`; return its end.

        White space before it is ignored at the beginning of the text, and after ``|``, ``<`` or a tag.
        """
        text = self.source.text
        literal = text[begin:start].rstrip(BLANK)
        # ">" only at the end of a tag of another vocabulary, such as <b>
        eats = not literal or literal[-1] in "|<" or bool(_MARKUP_END.match(literal, max(literal.rfind("<"), 0)))
        first, content = begin + len(literal) if eats else start, start + len(OPEN_RAW)
        self._literal(begin, first)
        end = text.find(CLOSE_RAW, content)
        self._add_text(first, text[content:] if end < 0 else text[content:end])
        self.stack[-1].raw = True
        if end >= 0:
            return end + len(CLOSE_RAW)
        self._problem(start, len(text), "this RAW block never ends", "end it with |RAW")
        return len(text)

    def _flaw(self, start: int, mark: str) -> None:
        """Report text that was probably meant as a tag or a comment, but is none."""
        if mark == "<!--":
            self._problem(start, start + 1, "this comment never ends", "end it with -->; until then it is text")
            return
        if self.counts[False] >= MAX_PROBLEMS:
            return
        # Enough of it to find the cause; a quote that is open for longer counts as never closed.
        inside = self.source.text[start + len(mark) : start + 1000].split("<")[0]
        hint = "end it with >"
        if any(value["open"] for value in _VALUE.finditer(inside)):
            escapes = re.search(r"\\[\"']", inside)
            hint = (
                "a backslash before a quote keeps the value open: write / or &#92;" if escapes else "close its quotes"
            )
        message = f"'{mark}' begins no complete tag, and is read as text"
        self._problem(start, start + 1, message, f"{hint}, or put it in RAW|…|RAW", error=False)

    def _open(self, start: int, end: int, tag: str, inside: str) -> None:
        empty = inside.endswith("/")
        attributes = read_attributes(inside[:-1] if empty else inside)
        host = self._host()
        role = next((value for name, value in reversed(host.attributes) if name == "role"), None)
        if not means_something(tag, host.tag or self.root, role):
            self._add_text(start, self.source.text[start:end])
            host.literal += () if empty else (tag,)
            if tag not in ("import", "input", "output"):  # the latter two are also elements of HTML
                self._problem(start, end, f"<{tag}> means nothing here, and is text", right_place(tag), error=False)
        elif len(self.stack) > MAX_DEPTH:
            self._add_text(start, self.source.text[start:end])
            self._problem(start, end, f"elements are nested more than {MAX_DEPTH} deep", "close some of them")
        else:
            self._end_text(self.stack[-1], start)
            if empty:
                element = Element(tag, attributes, (), SourceRange(self.source, start, end))
                self.stack[-1].children.append(element)
            else:
                self.stack.append(_Frame(tag, start, end, attributes))

    def _host(self) -> _Frame:
        """Return the innermost open element that can have content; void ones may be open for lack of a slash."""
        return next(frame for frame in reversed(self.stack) if frame.tag not in VOID)

    def _close(self, start: int, end: int, tag: str) -> None:
        if tag in (literal := self._host().literal):
            literal.remove(tag)
            self._add_text(start, self.source.text[start:end])
            return
        if all(open_.tag != tag for open_ in self.stack):
            inside = self.stack[-1].tag
            self._add_text(start, self.source.text[start:end])
            where = f"; this is inside <{inside}>" if inside else ""
            hint = f"open it with <{tag}>, or put the tag in RAW|…|RAW if it is text{where}"
            self._problem(start, end, f"</{tag}> closes nothing", hint)
            return
        while self.stack[-1].tag != tag:
            self._end_unclosed(start, f"is not closed before </{tag}>")
        done = self.stack.pop()
        self._end_text(done, start)
        opening, closing = SourceRange(self.source, done.start, done.end), SourceRange(self.source, start, end)
        self.stack[-1].children.append(Element(tag, done.attributes, tuple(done.children), opening, closing))

    def _end_unclosed(self, at: int, how: str) -> None:
        """End the innermost element at `at`, without a closing tag."""
        done = self.stack.pop()
        self._end_text(done, at)
        parent, tag = self.stack[-1], done.tag
        opening = SourceRange(self.source, done.start, done.end)
        if tag in VOID:  # the nodes after it are not its content
            parent.children += [Element(tag, done.attributes, (), opening), *done.children]
            self._problem(done.start, done.end, f"<{tag}> is not closed", f"write <{tag} …/>", error=False)
        else:
            parent.children.append(Element(tag, done.attributes, tuple(done.children), opening))
            self._problem(done.start, done.end, f"<{tag}> {how}", f"write </{tag}> where it ends")

    def _add_text(self, start: int, value: str) -> None:
        frame = self.stack[-1]
        if not frame.texts:
            frame.text_start = start
        frame.texts.append(value)

    def _end_text(self, frame: _Frame, end: int) -> None:
        """Add the text collected up to `end` as a node."""
        if frame.texts:
            span = SourceRange(self.source, frame.text_start, end)
            frame.children.append(Text("".join(frame.texts), frame.raw, span, tuple(frame.plain)))
            frame.texts.clear()
            frame.plain.clear()
            frame.raw = False

    def _problem(self, start: int, end: int, message: str, hint: str, *, error: bool = True) -> None:
        if self.counts[error] < MAX_PROBLEMS:
            span = SourceRange(self.source, start, end)
            self.problems.append(Problem(span, message, hint, "error" if error else "warning"))
        self.counts[error] += 1


def right_place(tag: str) -> str:
    """Return a hint that says where an element belongs."""
    parents = TAGS[tag].parents
    if parents == (DOCUMENT,):
        return "it belongs outside of all other elements; as text, put it in RAW|…|RAW"
    return "put it into <reasoning>" if parents == ("reasoning",) else "put it into a message"


def errors_of(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems that keep a document from being run."""
    return tuple(problem for problem in problems if problem.severity == "error")


# -- Tree to text: `serialize` keeps the spelling that was read, `write` uses a canonical one -----------------
#
# RAW blocks have no escape for the end mark. A text that contains one is split between its ``|`` and its ``RAW`` into
# two blocks, which any reader joins again: ``a|RAWb`` is written ``RAW|a||RAWRAW|RAWb|RAW``.


_SPLIT_END = "||RAWRAW|RAW"  # an end mark as the ends of two blocks
# Anything that some reader could take for a tag, a comment or a mark.
_NEEDS_RAW = re.compile(r"<[A-Za-z_/!?]|<\Z|RAW\||\|RAW")


def serialize(tree: SyntaxTree | Iterable[Node]) -> str:
    """Return the text that a tree was read from, byte for byte; nodes from no text are spelled as by `write`.

    >>> serialize(parse("<user >RAW|x|RAW<!-- y --></user >"))
    '<user >RAW|x|RAW<!-- y --></user >'
    """
    nodes = tree.children if isinstance(tree, SyntaxTree) else tree
    return "".join(_serialized(node) for node in nodes)


def _serialized(node: Node) -> str:
    if not isinstance(node, Element):
        return _written(node) if node.span is NOWHERE else node.span.text
    if node.opening is NOWHERE:
        return _element(node, serialize(node.children))
    closing = node.closing.text if node.closing else ""
    return f"{node.opening.text}{serialize(node.children)}{closing}"


def write(tree: SyntaxTree | Iterable[Node]) -> str:
    """Return a text that parses to equal nodes.

    Raises:
        ValueError: there is no such text, because of an unknown or misplaced tag, an invalid attribute name, two
            adjacent texts, a comment that contains ``-->``, or more than `MAX_DEPTH` levels.

    >>> write([Element("user", (), (Text("Close with </user>"), Element("doc")))])
    '<user>RAW|Close with </user>|RAW<doc/></user>'
    """
    if isinstance(tree, SyntaxTree):
        return _inside(tree.children, ("user" if tree.is_body else DOCUMENT, None), 0)
    return _inside(tuple(tree), (DOCUMENT, None), 0)


def _inside(nodes: tuple[Node, ...], host: tuple[str, str | None], depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"elements are nested more than {MAX_DEPTH} deep")
    for before, node in pairwise(nodes):
        if isinstance(before, Text) and isinstance(node, Text):
            raise ValueError("two adjacent texts are one text")
    written = []
    for node in nodes:
        if isinstance(node, Element):
            if node.tag not in TAGS or not means_something(node.tag, *host):
                raise ValueError(f"<{node.tag}> is not read as an element here")
            inside = _inside(node.children, host if node.tag in VOID else (node.tag, node.get("role")), depth + 1)
            written.append(_element(node, inside))
        else:
            written.append(_written(node))
    return "".join(written)


def _element(element: Element, inside: str) -> str:
    opening = f"<{element.tag}{write_attributes(element.attributes)}"
    return f"{opening}>{inside}</{element.tag}>" if element.children else f"{opening}/>"


def _written(node: Text | Comment) -> str:
    if isinstance(node, Text):
        braces = "{{" in node.value and not node.plain
        return raw(node.value) if node.raw or not node.value or braces or _NEEDS_RAW.search(node.value) else node.value
    if "-->" in node.value:
        raise ValueError("a comment cannot contain '-->'")
    return f"<!--{node.value}-->"


# -- RAW -----------------------------------------------------------------------------------------


def raw(text: str) -> str:
    """Encode a text as RAW blocks that read as exactly that text.

    >>> raw("a|RAWb")
    'RAW|a||RAWRAW|RAWb|RAW'
    """
    return f"{OPEN_RAW}{text.replace(CLOSE_RAW, _SPLIT_END)}{CLOSE_RAW}"
