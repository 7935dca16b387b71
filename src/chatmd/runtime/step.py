"""What comes next in a conversation, and what a reply adds to its text: decided here, done elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from chatmd.language.agent import read_agent
from chatmd.language.attributes import write_attributes
from chatmd.language.items import Content, Img, Item, MessageItem, OutputItem
from chatmd.language.lexer import CLOSE_RAW, OPEN_RAW
from chatmd.language.nodes import Attribute, Element, SyntaxTree, Text, body
from chatmd.language.parser import parse
from chatmd.language.transcript import element_text, elements_of, reasoning_elements, storable
from chatmd.language.writer import raw_piece
from lmm.messages import ChatEvent, Reasoning, Reply, TextDelta

USER_TURN = "<user>\n\n</user>\n"
"""The place where the user is to write."""

INCOMPLETE = "incomplete"
"""The status of a reply that was cut off."""

_CLOSE_ASSISTANT = f"{CLOSE_RAW}</assistant>"


@lru_cache(maxsize=2)
def parsed(text: str, file: str) -> SyntaxTree:
    """`parse`, once for a text that is read again and again at the start of a run."""
    return parse(text, file=file)


def items_of(text: str) -> tuple[Item, ...]:
    """The items that a piece of a transcript stands for; `text` is one that we wrote."""
    return read_agent(parse(text)).items


def gap(before: str, newline: str = "\n") -> str:
    """What parts a message from the text before it: one blank line.

    >>> gap("<user>Why?</user>"), gap("</user>\\n"), gap("</user>\\n\\n"), gap("")
    ('\\n\\n', '\\n', '', '')
    """
    if not before or before.endswith(("\n\n", "\n\r\n")):
        return ""
    return newline if before.endswith("\n") else 2 * newline


def lines_of(elements: Sequence[Element], newline: str = "\n") -> str:
    """Elements as they stand in a transcript, each ending its line."""
    return "".join(f"{element_text(element, newline)}{newline}" for element in elements)


def said(content: Content) -> str:
    """What a user says, as an element; of parts other than text, only inline images mean the same wherever it stands.

    >>> said(("See ", Img("data:image/png;base64,AA=="), " here"))
    '<user>See <img src="data:image/png;base64,AA=="/> here</user>\\n'
    """
    parts = body(Text(part) if isinstance(part, str) else Element("img", (Attribute("src", part.src),))
                 for part in content if isinstance(part, str | Img))  # fmt: skip
    children = tuple(Text(storable(part)) if isinstance(part, str) else part for part in parts)
    return element_text(Element("user", (), children)) + "\n"


def user_text(text: str) -> str:
    """What a user says, as an element that means exactly that.

    >>> user_text("Close it with </user>.")
    '<user>RAW|Close it with </user>.|RAW</user>\\n'
    """
    return said((text,))


def answer_of(items: Sequence[Item]) -> str:
    """What the model said last: the texts after the last thing that somebody else said.

    >>> answer_of(items_of("<user>Why?</user><assistant>Because.</assistant><user>\\n</user>"))
    'Because.'
    """
    texts: list[str] = []
    for item in reversed(items):
        if isinstance(item, MessageItem) and item.role == "assistant":
            texts.append("".join(part for part in item.content if isinstance(part, str)))
        elif isinstance(item, OutputItem) or (isinstance(item, MessageItem) and not item.is_blank):
            break
    return "\n".join(reversed(texts))


@dataclass(slots=True)
class ReplyWriter:
    """A reply as it arrives, as text that is appended to a transcript; thoughts, then text, then calls.

    What is appended is open until `end`: the last closing tag and all calls come together, so that a transcript
    that stops before them shows it. `before` parts it from what stands there.

    >>> writer = ReplyWriter()
    >>> writer.feed(TextDelta("Beca")) + writer.feed(TextDelta("use.")) + writer.end(Reply("Because.", "m"))
    '<assistant>\\nRAW|Because.|RAW</assistant>\\n'
    """

    before: str = ""
    newline: str = "\n"
    written: bool = False
    text: str = ""
    thoughts: list[Reasoning] = field(default_factory=list)
    _open: bool = False
    _item: str = ""
    _tail: str = ""
    _waiting: list[Reasoning] = field(default_factory=list)

    def feed(self, event: ChatEvent) -> str:
        """What to append now."""
        if isinstance(event, Reasoning):
            self._waiting.append(event)
            return ""
        if isinstance(event, TextDelta) and (event.text or event.item):
            begin = self._thoughts() + self._begin(event)
            piece = storable(event.text)
            encoded = raw_piece(self._tail, piece)
            self._tail, self.text = (self._tail + piece)[-3:], self.text + piece
            return self._wrote(begin + encoded)
        return ""

    def end(self, reply: Reply, calls: Sequence[Element] = ()) -> str | None:
        """The rest of it; None if what was appended is not the reply, which is to be taken back (see `whole`)."""
        if not self.written:
            return self.whole(reply, calls)
        if not self._is(reply):
            return None
        return self._wrote(self._thoughts() + self._close() + lines_of(calls, self.newline))

    def whole(self, reply: Reply, calls: Sequence[Element] = ()) -> str:
        """A reply of which nothing was appended."""
        thoughts = [_storable(thought) for thought in reply.reasoning]
        said = [element for element in elements_of((reply.as_message(),)) if element.tag == "assistant"]
        said = [_storable_text(element) for element in said]
        return self.before + lines_of((*reasoning_elements(thoughts), *said, *calls), self.newline)

    def cut(self) -> str:
        """All of it in place of what was appended, if nothing more comes: it says that it is incomplete."""
        element = Element("assistant", (Attribute("status", INCOMPLETE),), (Text(self.text, raw=True),))
        return self.before + lines_of((*reasoning_elements(self.thoughts), element), self.newline)

    def _is(self, reply: Reply) -> bool:
        """Whether what came in pieces is the reply. Texts of several parts are joined with white space."""
        told = tuple(self.thoughts + self._waiting)
        same = bool(self.text) == bool(reply.text) and _letters(self.text) == _letters(reply.text)
        return same and told == reply.reasoning

    def _begin(self, event: TextDelta) -> str:
        if self._open and event.item in ("", self._item):
            return ""
        close = self._close()
        self._open, self._item, self._tail = True, event.item, ""
        attributes = (Attribute("id", storable(event.item)),) if event.item else ()
        return f"{close}<assistant{write_attributes(attributes)}>{self.newline}{OPEN_RAW}"

    def _close(self) -> str:
        closing, self._open = f"{_CLOSE_ASSISTANT}{self.newline}" if self._open else "", False
        return closing

    def _thoughts(self) -> str:
        if not self._waiting:
            return ""
        elements = reasoning_elements([_storable(thought) for thought in self._waiting])
        text = self._close() + lines_of(tuple(elements), self.newline)
        self.thoughts, self._waiting = self.thoughts + self._waiting, []
        return text

    def _wrote(self, text: str) -> str:
        if text and not self.written:
            self.written, text = True, self.before + text
        return text


def _letters(text: str) -> str:
    return "".join(storable(text).split())


def _storable(thought: Reasoning) -> Reasoning:
    return Reasoning(*map(storable, (thought.text, thought.id, thought.signature, thought.provider)))


def _storable_text(element: Element) -> Element:
    children = [Text(storable(node.value), node.raw) if isinstance(node, Text) else node for node in element.children]
    return Element(element.tag, element.attributes, tuple(children))
