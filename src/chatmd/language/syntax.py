"""Text to a tree of nodes, and back: `parse` reads, `serialize` gives back what was read, `write` writes anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from chatmd.language.lexer import (
    CLOSE_RAW,
    OPEN_RAW,
    CloseToken,
    CommentToken,
    Flaw,
    OpenToken,
    RawToken,
    TextToken,
    Token,
    strict_tokens,
    tokens,
    write_attributes,
)
from chatmd.language.nodes import Attribute, Comment, Element, Node, Problem, SourceText, Span, SyntaxTree, Text
from chatmd.language.tags import DOCUMENT, TAGS, VOID, imports_into

# -- Text to tree: lossless, linear in the text, and never raising --------------------------------------------
#
# The tokens come from `chatmd.language.lexer`, or with ``strict`` from `strict_lexer` beside it. An element that is
# not closed ends where the element around it does, or the text; a closing tag that closes nothing is text. Both are
# errors of the document. An element without content (``<doc src="a" local>``) may do without its slash.


MAX_DEPTH = 64
"""How deep elements may stand in each other; a tag any deeper is text, and an error."""
MAX_PROBLEMS = 1000
"""How many errors, and how many warnings, a document tells of; nobody reads more."""


def parse(text: str, *, file: str = "", strict: bool = False) -> SyntaxTree:
    """The tree of a document. Nothing raises: what is wrong is in its `problems`.

    `file` names it in messages; `strict` reads as the reference does, quirks included.

    >>> document = parse("<user>Is 1 < 2? RAW|</user>|RAW</user>", file="a.chatmd")
    >>> document.children
    (Element(tag='user', attributes=(), children=(Text(value='Is 1 < 2? </user>', raw=True),)),)
    >>> [f"{p.span.where}: {p.message}" for p in parse("<user>\\n<doc>\\n", file="a.md").problems]
    ['a.md:1:1: <user> is never closed', 'a.md:2:1: <doc> is not closed']
    """
    return _Builder(SourceText(text, file), strict).build(imports=not strict)


def parse_body(text: str, *, file: str = "", strict: bool = False) -> SyntaxTree:
    """The same for the inside of a message: what an import puts there.

    >>> parse_body("Be brief.").children
    (Text(value='Be brief.', raw=False),)
    """
    return _Builder(SourceText(text, file), strict).build(imports=True, is_body=True)


class _Frame:
    """An element that is open: what it has so far, and the text that is still growing."""

    __slots__ = ("attributes", "children", "end", "imports", "raw", "start", "tag", "text_start", "texts")

    def __init__(self, tag: str, start: int, end: int, attributes: tuple[Attribute, ...], imports: bool) -> None:
        self.tag, self.start, self.end, self.attributes, self.imports = tag, start, end, attributes, imports
        self.children: list[Node] = []
        self.texts: list[str] = []
        self.text_start, self.raw = 0, False


class _Builder:
    """One pass over the tokens of one text, with the elements that are open on a stack."""

    def __init__(self, source: SourceText, strict: bool) -> None:
        self.source, self.strict = source, strict
        self.problems: list[Problem] = []
        self.counts = {True: 0, False: 0}  # errors, warnings
        self.stack: list[_Frame] = []

    def build(self, *, imports: bool, is_body: bool = False) -> SyntaxTree:
        text = self.source.text
        self.stack.append(_Frame(DOCUMENT, 0, 0, (), imports))
        flaws: list[Flaw] = []
        for token in (strict_tokens if self.strict else tokens)(text, flaws):
            self._take(token)
        while len(self.stack) > 1:
            self._end_unclosed(len(text), "is never closed")
        root = self.stack[0]
        self._end_text(root, len(text))
        for flaw in flaws:
            self._problem(flaw.start, flaw.start + 1, flaw.message, flaw.hint, error=flaw.is_error)
        self.problems.sort(key=lambda problem: problem.span.start)
        return SyntaxTree(tuple(root.children), self.source, tuple(self.problems), self.strict, is_body)

    def _take(self, token: Token) -> None:
        frame = self.stack[-1]
        if isinstance(token, TextToken):
            self._add_text(frame, token.start, self.source.text[token.start : token.end])
        elif isinstance(token, CloseToken):
            self._close(frame, token)
        elif isinstance(token, OpenToken):
            self._open(frame, token)
        elif isinstance(token, RawToken):
            self._add_text(frame, token.start, token.value)
            frame.raw = True
            if not token.closed:
                start = token.end - len(OPEN_RAW) - len(token.value)
                self._problem(start, token.end, "this RAW block never ends", "end it with |RAW")
        elif isinstance(token, CommentToken):
            self._end_text(frame, token.start)
            value = self.source.text[token.start + 4 : token.end - 3]
            frame.children.append(Comment(value, Span(self.source, token.start, token.end)))

    def _open(self, frame: _Frame, token: OpenToken) -> None:
        start, end, tag, attributes, empty = token
        if tag == "import" and not frame.imports:
            self._add_text(frame, start, self.source.text[start:end])
        elif len(self.stack) > MAX_DEPTH:
            self._add_text(frame, start, self.source.text[start:end])
            self._problem(start, end, f"elements stand more than {MAX_DEPTH} deep in each other", "close some of them")
        elif empty:
            self._end_text(frame, start)
            frame.children.append(Element(tag, attributes, (), Span(self.source, start, end)))
        else:
            self._end_text(frame, start)
            role = next((value for name, value in reversed(attributes) if name == "role"), None)
            self.stack.append(_Frame(tag, start, end, attributes, imports_into(tag, role)))

    def _close(self, frame: _Frame, token: CloseToken) -> None:
        start, end, tag = token
        if frame.tag != tag:
            if all(open_.tag != tag for open_ in self.stack):
                self._add_text(frame, start, self.source.text[start:end])
                if tag != "import" or frame.imports:
                    self._problem(start, end, f"</{tag}> closes nothing", _stray_hint(tag, frame.tag))
                return
            while self.stack[-1].tag != tag:
                self._end_unclosed(start, f"is not closed before </{tag}>")
        done = self.stack.pop()
        self._end_text(done, start)
        opening, closing = Span(self.source, done.start, done.end), Span(self.source, start, end)
        self.stack[-1].children.append(Element(tag, done.attributes, tuple(done.children), opening, closing))

    def _end_unclosed(self, at: int, how: str) -> None:
        """End the innermost element at `at`, where no closing tag stands."""
        done = self.stack.pop()
        self._end_text(done, at)
        parent, tag = self.stack[-1], done.tag
        opening = Span(self.source, done.start, done.end)
        if tag in VOID:  # what follows it was not meant as its content
            parent.children.append(Element(tag, done.attributes, (), opening))
            parent.children.extend(done.children)
            self._problem(done.start, done.end, f"<{tag}> is not closed", f"write <{tag} …/>", error=self.strict)
            return
        parent.children.append(Element(tag, done.attributes, tuple(done.children), opening))
        self._problem(done.start, done.end, f"<{tag}> {how}", f"write </{tag}> where it ends")

    def _add_text(self, frame: _Frame, start: int, value: str) -> None:
        if not frame.texts:
            frame.text_start = start
        frame.texts.append(value)

    def _end_text(self, frame: _Frame, end: int) -> None:
        """Make a node of the text that grew up to `end`."""
        if not frame.texts:
            return
        value = frame.texts[0] if len(frame.texts) == 1 else "".join(frame.texts)
        frame.children.append(Text(value, frame.raw, Span(self.source, frame.text_start, end)))
        frame.texts.clear()
        frame.raw = False

    def _problem(self, start: int, end: int, message: str, hint: str, *, error: bool = True) -> None:
        if self.counts[error] < MAX_PROBLEMS:
            self.problems.append(Problem(Span(self.source, start, end), message, hint, "error" if error else "warning"))
        self.counts[error] += 1


def _stray_hint(tag: str, inside: str) -> str:
    where = f"; this is inside <{inside}>" if inside else ""
    return f"open it with <{tag}>, or put the tag in RAW|…|RAW if it is text{where}"


def errors_of(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Those that keep a document from being run."""
    return tuple(problem for problem in problems if problem.severity == "error")


# -- Tree to text: `serialize` keeps every spelling that was read, `write` spells everything anew -------------
#
# RAW blocks have no escape for the end mark. A text that holds one is split between its ``|`` and its ``RAW`` into
# two blocks, which any reader joins again: ``a|RAWb`` is written ``RAW|a||RAWRAW|RAWb|RAW``.


_SPLIT = "|RAWRAW|"
_END_MARK_PARTS = tuple((CLOSE_RAW[:n], CLOSE_RAW[n:]) for n in (3, 2, 1))
# Anything that some reader takes for a tag, a comment or a mark.
_NEEDS_RAW = re.compile(r"<[A-Za-z_/!?]|<\Z|RAW\||\|RAW")


def serialize(tree: SyntaxTree | Iterable[Node]) -> str:
    """The text that a tree was read from, byte for byte; nodes that were made are spelled as by `write`.

    >>> from chatmd.language.syntax import parse
    >>> serialize(parse("<user >RAW|x|RAW<!-- y --></user >"))
    '<user >RAW|x|RAW<!-- y --></user >'
    """
    nodes = tree.children if isinstance(tree, SyntaxTree) else tree
    return "".join(_serialized(node) for node in nodes)


def _serialized(node: Node) -> str:
    if not isinstance(node, Element):
        return node.span.text if node.span else _written(node)
    if node.opening is None:
        return _element(node, serialize(node.children))
    closing = node.closing.text if node.closing else ""
    return f"{node.opening.text}{serialize(node.children)}{closing}"


def write(tree: SyntaxTree | Iterable[Node]) -> str:
    """A text that parses to equal nodes.

    Raises:
        ValueError: no text does: an unknown tag, a name that is none, two texts side by side, a comment that
            holds ``-->``, an import where none is read, or more than `MAX_DEPTH` levels.

    >>> write([Element("user", (), (Text("Close with </user>"), Element("doc")))])
    '<user>RAW|Close with </user>|RAW<doc/></user>'
    """
    if isinstance(tree, SyntaxTree):
        return _inside(tree.children, tree.is_body or not tree.strict, 0)
    return _inside(tuple(tree), True, 0)


def _inside(nodes: tuple[Node, ...], imports: bool, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"elements stand more than {MAX_DEPTH} deep in each other")
    for before, node in pairwise(nodes):
        if isinstance(before, Text) and isinstance(node, Text):
            raise ValueError("two texts side by side are one text")
    written = []
    for node in nodes:
        if isinstance(node, Element):
            if node.tag not in TAGS or (node.tag == "import" and not imports):
                raise ValueError(f"<{node.tag}> is not read as an element here")
            inside = _inside(node.children, imports_into(node.tag, node.get("role")), depth + 1)
            written.append(_element(node, inside))
        else:
            written.append(_written(node))
    return "".join(written)


def _element(element: Element, inside: str) -> str:
    opening = f"<{element.tag}{write_attributes(element.attributes)}"
    return f"{opening}>{inside}</{element.tag}>" if element.children else f"{opening}/>"


def _written(node: Text | Comment) -> str:
    if isinstance(node, Text):
        return raw(node.value) if node.raw or not node.value or _NEEDS_RAW.search(node.value) else node.value
    if "-->" in node.value:
        raise ValueError("a comment cannot hold '-->'")
    return f"<!--{node.value}-->"


# -- RAW -----------------------------------------------------------------------------------------


def raw(text: str) -> str:
    """A text as RAW blocks that read as exactly that text.

    >>> raw("a|RAWb")
    'RAW|a||RAWRAW|RAWb|RAW'
    """
    return f"{OPEN_RAW}{raw_piece('', text)}{CLOSE_RAW}"


def raw_piece(before: str, piece: str) -> str:
    """A piece of text that goes on inside an open RAW block, as a stream brings it.

    `before` is what was written of the text so far, unencoded (its last three characters are enough).

    >>> "RAW|" + raw_piece("", "a|R") + raw_piece("a|R", "AWb") + "|RAW"
    'RAW|a|R|RAWRAW|AWb|RAW'
    """
    encoded = piece.replace(CLOSE_RAW, f"|{_SPLIT}RAW")
    for done, rest in _END_MARK_PARTS:
        if before.endswith(done) and piece.startswith(rest):
            return _SPLIT + encoded
    return encoded
