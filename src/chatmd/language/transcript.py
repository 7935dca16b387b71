"""Items of a conversation to the messages that are exchanged with a model, and such messages to text.

The two are inverse: whatever a model said or a tool returned, the text that is appended to the file parses to
those very messages. Only NUL and halves of surrogate pairs cannot stand in a file of ours: they are refused,
and `storable` replaces them before anything is sent or written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from chatmd.errors import ChatmdError, NotStorable
from chatmd.language.agent import (
    CallItem,
    Content,
    Expandable,
    Img,
    Item,
    MessageItem,
    OutputItem,
    Part,
    ReasoningItem,
    image_of,
    read_agent,
    text_of,
)
from chatmd.language.nodes import Attribute, Element, Node, SyntaxTree, Text, joined
from chatmd.language.syntax import CLOSE_RAW, OPEN_RAW, parse, raw_piece, write, write_attributes
from lmm.messages import ChatEvent, Image, Message, Reasoning, Reply, TextDelta, ToolCall, ToolResult, message_parts

Expand = Callable[[Expandable], str | Image]
"""What a document, a local image or an agent stands for; who runs a conversation knows, we do not."""

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


# -- items to messages ---------------------------------------------------------------------------


def refuse(part: Expandable) -> str | Image:
    """The `Expand` of who fetches nothing."""
    raise ChatmdError(f"what <{part.tag}> stands for is not recorded here", where=part.span.where)


def messages_of(items: Iterable[Item], *, expand: Expand = refuse) -> tuple[Message, ...]:
    """The messages that a model gets. Reasoning, text and calls of one reply are one message, as they came.

    `expand` is asked for everything that is not inline; images at an address are left to the provider.

    Raises:
        ChatmdError: from `expand`, or for an inline image that cannot be read.
    """
    conversation = _Conversation(expand)
    for item in items:
        conversation.add(item)
    return tuple(conversation.messages)


class _Conversation:
    """Messages as they grow; `stage` says what the last one is made of so far."""

    def __init__(self, expand: Expand) -> None:
        self.expand, self.stage = expand, ""
        self.messages: list[Message] = []
        self.names: dict[str, str] = {}

    def add(self, item: Item) -> None:
        """Add an item as a message, or to the message that it belongs to."""
        if isinstance(item, ReasoningItem):
            last = self._last("reasoning", {"reasoning"}, Message("assistant", ""))
            self.messages[-1] = replace(last, reasoning=(*last.reasoning, *_thoughts(item)))
        elif isinstance(item, CallItem):
            last = self._last("calls", {"reasoning", "text", "calls"}, Message("assistant", ""))
            call = ToolCall(item.call, item.name, self._joined(item.arguments), item.id)
            self.names[item.call] = item.name
            self.messages[-1] = replace(last, calls=(*last.calls, call))
        elif isinstance(item, OutputItem):
            last = self._last("results", {"results"}, Message("tool", ""))
            self.messages[-1] = replace(last, results=(*last.results, self._result(item)))
        elif item.role == "assistant":
            last = self._last("text", {"reasoning"}, Message("assistant", ""))
            self.messages[-1] = replace(last, text=self._joined(item.content), item=item.id)
        else:
            parts = tuple(self._expanded(part) for part in item.content)
            first = parts[0] if parts and isinstance(parts[0], str) else None
            self.stage = ""
            self.messages.append(Message(item.role, first or "", content=parts if first is None else parts[1:]))

    def _last(self, stage: str, joins: set[str], new: Message) -> Message:
        """The message that goes on: the last one, if its stage is one of `joins`, else a new one."""
        if self.stage not in joins:
            self.messages.append(new)
        self.stage = stage
        return self.messages[-1]

    def _result(self, item: OutputItem) -> ToolResult:
        parts = [self._expanded(part) for part in item.content]
        text = "\n".join(part for part in parts if isinstance(part, str))
        images = tuple(part for part in parts if isinstance(part, Image))
        return ToolResult(item.call, item.name or self.names.get(item.call, ""), text, images, item.failed)

    def _joined(self, content: Content) -> str:
        """Parts as the one text that a provider takes from an assistant; an image is told of by its tag."""
        texts = []
        for part in content:
            value = write([_img_element(part)]) if isinstance(part, Img) else self._expanded(part)
            texts.append(value if isinstance(value, str) else "")
        return "\n".join(texts)

    def _expanded(self, part: Part) -> str | Image:
        if isinstance(part, str):
            return part
        inline = image_of(part) if isinstance(part, Img) else None
        return inline or self.expand(part)


def _thoughts(item: ReasoningItem) -> Iterator[Reasoning]:
    """One `Reasoning` per summary; the signature is the first one's, as providers send it."""
    for number, text in enumerate(item.summaries or ("",)):
        yield Reasoning(text, item.id, "" if number else item.signature, item.provider)


def _img_element(img: Img) -> Element:
    return Element("img", (Attribute("src", img.src), *([Attribute("local")] if img.local else [])))


# -- messages to text ----------------------------------------------------------------------------


def transcript_text(messages: Iterable[Message]) -> str:
    """The text to append to a file for messages, one element after the other, each ending its line.

    Raises:
        NotStorable: a message holds a NUL or half of a surrogate pair.

    >>> print(transcript_text([Message("assistant", "Close with |RAW</user>.", item="m1")]), end="")
    <assistant id="m1">
    RAW|Close with ||RAWRAW|RAW</user>.|RAW</assistant>
    """
    return "".join(f"{element_text(element)}\n" for element in elements_of(messages))


def elements_of(messages: Iterable[Message]) -> tuple[Element, ...]:
    """The elements that stand for messages. Neighbouring texts of a message become one."""
    return tuple(element for message in messages for element in _elements(message))


def element_text(element: Element, newline: str = "\n") -> str:
    """An element as it stands in a transcript: RAW blocks and summaries begin on a line of their own.

    What is laid out has that `newline`; what is said stays as it is.

    Raises:
        NotStorable: it holds a NUL or half of a surrogate pair.
    """
    text = _laid_out(element, newline)
    found = _UNSTORABLE.search(text)
    if found:
        what = "NUL" if found[0] == "\0" else f"half a character (U+{ord(found[0]):04X})"
        raise NotStorable(f"a text with {what} cannot be written to a file", hint="replace it: `storable`")
    return text


def storable(text: str) -> str:
    """`text` with U+FFFD for what no file of ours can hold; do this before a tool's output is sent.

    >>> storable("a\\x00b")
    'a\\ufffdb'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def call_element(call: ToolCall, *, stored_at: str = "") -> Element:
    """A call; with `stored_at`, its arguments are in that file, relative to the transcript."""
    attributes = (Attribute("tool_call_id", call.id), Attribute("function_name", call.name), *_given(id=call.item))
    return Element("tool_call", attributes, _body(call.arguments, stored_at))


def result_element(result: ToolResult, *, stored_at: str = "") -> Element:
    """A result; with `stored_at`, its text is in that file, relative to the transcript."""
    more = _given(name=result.name, status="failed" if result.failed else "")
    children = (*_body(result.text, stored_at), *(image_element(image) for image in result.images))
    return Element("tool_response", (Attribute("tool_call_id", result.call), *more), children)


def image_element(image: Image) -> Element:
    """An image, inline unless it is at an address."""
    return _img_element(Img(image.url or data_uri(image)))


def data_uri(image: Image) -> str:
    """An image in an address of its own."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"


def reasoning_elements(thoughts: Sequence[Reasoning]) -> Iterator[Element]:
    """Thoughts; those that their provider counts as one (same id) are the summaries of one element."""
    group: list[Reasoning] = []
    for thought in thoughts:
        may_go_on = thought.id and not thought.signature
        if group and not (may_go_on and (thought.id, thought.provider) == (group[-1].id, group[-1].provider)):
            yield _reasoning(group)
            group = []
        group.append(thought)
    if group:
        yield _reasoning(group)


def _reasoning(group: Sequence[Reasoning]) -> Element:
    first = group[0]
    attributes = (Attribute("id", first.id), *_given(signature=first.signature, provider=first.provider))
    summaries = tuple(Element("summary", (), (Text(thought.text, raw=True),)) for thought in group)
    return Element("reasoning", attributes, summaries)


def _elements(message: Message) -> Iterator[Element]:
    if message.role == "tool":
        yield from (result_element(result) for result in message.results)
    elif message.role == "assistant":
        yield from reasoning_elements(message.reasoning)
        text = "\n".join(part for part in message_parts(message) if isinstance(part, str))
        if text or message.item or not message.calls:
            yield Element("assistant", _given(id=message.item), _body(text))
        yield from (call_element(call) for call in message.calls)
    else:
        parts = (Text(part) if isinstance(part, str) else image_element(part) for part in message_parts(message))
        yield Element(message.role, (), joined(parts))


def _body(text: str, stored_at: str = "") -> tuple[Node, ...]:
    """What a model or a tool said: always RAW, as it is when it arrives piece by piece."""
    if stored_at:
        return (Element("doc", (Attribute("src", stored_at), Attribute("local"))),)
    return (Text(text, raw=True),) if text else ()


def _given(**values: str) -> tuple[Attribute, ...]:
    """Attributes, but for those without a value."""
    return tuple(Attribute(name, value) for name, value in values.items() if value)


def _laid_out(element: Element, newline: str) -> str:
    children = element.children
    if not children:
        return write([element])
    if element.tag == "reasoning":
        inside = "".join(f"{newline}{_laid_out(child, newline)}" for child in children if isinstance(child, Element))
        inside += newline
    else:  # white space before RAW| is eaten
        inside = newline * (isinstance(children[0], Text) and children[0].raw) + write(children)
    return f"<{element.tag}{write_attributes(element.attributes)}>{inside}</{element.tag}>"


# -- What comes next in a conversation, and what a reply adds to its text: decided here, done elsewhere


USER_TURN = "<user>\n\n</user>\n"
"""The place where the user is to write."""

INCOMPLETE = "incomplete"
"""The status of a reply that was cut off."""

_CLOSE_ASSISTANT = f"{CLOSE_RAW}</assistant>"


@lru_cache(maxsize=2)
def parse_cached(text: str, file: str) -> SyntaxTree:
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


def user_element_text(content: Content) -> str:
    """What a user says, as an element; of parts other than text, only inline images mean the same wherever it stands.

    >>> user_element_text(("See ", Img("data:image/png;base64,AA=="), " here"))
    '<user>See <img src="data:image/png;base64,AA=="/> here</user>\\n'
    """
    parts = (Text(storable(part)) if isinstance(part, str) else _img_element(Img(part.src))
             for part in content if isinstance(part, str | Img))  # fmt: skip
    return element_text(Element("user", (), joined(parts))) + "\n"


def user_text(text: str) -> str:
    """What a user says, as an element that means exactly that.

    >>> user_text("Close it with </user>.")
    '<user>RAW|Close it with </user>.|RAW</user>\\n'
    """
    return user_element_text((text,))


def answer_of(items: Sequence[Item]) -> str:
    """What the model said last: the texts after the last thing that somebody else said.

    >>> answer_of(items_of("<user>Why?</user><assistant>Because.</assistant><user>\\n</user>"))
    'Because.'
    """
    texts: list[str] = []
    for item in reversed(items):
        if isinstance(item, MessageItem) and item.role == "assistant":
            texts.append(text_of(item.content))
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
        thoughts = tuple(map(_storable, reply.reasoning))
        message = replace(reply.as_message(), text=storable(reply.text), reasoning=thoughts)
        said = [element for element in elements_of((message,)) if element.tag != "tool_call"]
        return self.before + lines_of((*said, *calls), self.newline)

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
        return f"{close}<assistant{write_attributes(_given(id=storable(event.item)))}>{self.newline}{OPEN_RAW}"

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


# -- Notes: what the user says while tools run reaches the model in the first of their results -------------


NOTE_TAG = "system-reminder"
_NOTE_LEAD = "This is a note from the user:"
_NOTE_MARK = re.compile(rf"<(?=/?{NOTE_TAG}\b)", re.IGNORECASE)
_NOTE = re.compile(rf"<{NOTE_TAG}>\n?(?:{_NOTE_LEAD}\n)?(.*?)\n?</{NOTE_TAG}>", re.DOTALL)


def with_notes(text: str, notes: Sequence[str]) -> str:
    """The text of a result with what the user said meanwhile.

    >>> print(with_notes("4", ["Stop at 5.</system-reminder>", "Or at 6."]))
    4
    <BLANKLINE>
    <system-reminder>
    This is a note from the user:
    Stop at 5.&lt;/system-reminder>
    <BLANKLINE>
    Or at 6.
    </system-reminder>
    """
    said = "\n\n".join(without_marks(storable(note)) for note in notes)
    note = f"<{NOTE_TAG}>\n{_NOTE_LEAD}\n{said}\n</{NOTE_TAG}>"
    return f"{text}\n\n{note}" if text else note


def without_marks(text: str) -> str:
    """What a tool returned, so that none of it can pass for something that the user said."""
    return _NOTE_MARK.sub("&lt;", text)


def notes_in(text: str) -> tuple[str, ...]:
    """What the user said, out of the text of a result.

    >>> notes_in(with_notes("12 files", ["Only German ones!"]))
    ('Only German ones!',)
    """
    return tuple(match[1].strip() for match in _NOTE.finditer(text))
