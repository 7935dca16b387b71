"""Convert items of a conversation to messages of a model's protocol, and messages to text.

The two are inverse: whatever a model wrote or a tool returned, the text that is appended to the file parses to
the same messages. Only NUL and halves of surrogate pairs cannot be stored: they are refused, and `storable`
replaces them before anything is sent or written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from chatmd.errors import ChatmdError, NotStorable
from chatmd.language.agent import (
    WRITING,
    AgentSpec,
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
    interpret,
    read_agent,
    text_of,
)
from chatmd.language.nodes import BLANK, Attribute, Element, Node, SyntaxTree, Text, joined
from chatmd.language.syntax import errors_of, parse, write, write_attributes
from lmm import terminal
from lmm.messages import ChatEvent, Image, Message, Reasoning, Reply, TextDelta, ToolCall, ToolResult

Expand = Callable[[Expandable], str | Image]
"""Return the content of a document, a local image or an agent. The runtime provides it."""

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


# -- Items to messages ---------------------------------------------------------------------------


def refuse(part: Expandable) -> str | Image:
    """Raise an error: an `Expand` for callers that fetch nothing."""
    raise ChatmdError(f"what <{part.tag}> stands for is not recorded here", where=part.span.where)


def messages_of(items: Iterable[Item], *, expand: Expand = refuse) -> tuple[Message, ...]:
    """Return the messages for a model. Reasoning, text and calls of one reply are one message, as received.

    `expand` is called for everything that is not inline; images at a URL are left to the provider.

    Raises:
        ChatmdError: from `expand`, or for an inline image that cannot be read.
    """
    conversation = _Conversation(expand)
    for item in items:
        conversation.add(item)
    return tuple(conversation.messages)


@dataclass(slots=True)
class _Conversation:
    """Collects messages; `stage` is the kind of item that was last added to the last one."""

    expand: Expand
    stage: str = ""
    messages: list[Message] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        """Add an item as a new message, or to the last one if both belong to one reply."""
        if isinstance(item, ReasoningItem):
            last = self._last("reasoning", {"reasoning"}, Message("assistant", ""))
            signed, *others = item.summaries or ("",)  # the first one has the signature, as providers send it
            thoughts = [Reasoning(signed, item.id, item.signature, item.provider)]
            thoughts += [Reasoning(summary, item.id, "", item.provider) for summary in others]
            self.messages[-1] = replace(last, reasoning=(*last.reasoning, *thoughts))
        elif isinstance(item, CallItem):
            last = self._last("calls", {"reasoning", "text", "calls"}, Message("assistant", ""))
            call = ToolCall(item.call, item.name, self._joined(item.arguments), item.id, item.signature, item.provider)
            self.names[item.call] = item.name
            self.messages[-1] = replace(last, calls=(*last.calls, call))
        elif isinstance(item, OutputItem):
            last = self._last("results", {"results"}, Message("tool", ""))
            calls = [call.id for call in self.messages[-2].calls] if len(self.messages) > 1 else []
            in_order = {call: number for number, call in enumerate(calls)}  # they are written as they arrive
            expanded = [self._expanded(part) for part in item.content]
            text = "\n".join(part for part in expanded if isinstance(part, str))
            images = tuple(part for part in expanded if isinstance(part, Image))
            result = ToolResult(item.call, item.name or self.names.get(item.call, ""), text, images, item.failed)
            results = sorted((*last.results, result), key=lambda one: in_order.get(one.call, len(calls)))
            self.messages[-1] = replace(last, results=tuple(results))
        elif item.role == "assistant":
            last = self._last("text", {"reasoning"}, Message("assistant", ""))
            self.messages[-1] = replace(last, text=self._joined(item.content), item=item.id)
        else:
            parts = tuple(self._expanded(part) for part in item.content)
            first = parts[0] if parts and isinstance(parts[0], str) else None
            self.stage = ""
            self.messages.append(Message(item.role, first or "", content=parts if first is None else parts[1:]))

    def _last(self, stage: str, joins: set[str], new: Message) -> Message:
        """Return the message to extend: the last one, if its stage is one of `joins`, otherwise a new one."""
        if self.stage not in joins:
            self.messages.append(new)
        self.stage = stage
        return self.messages[-1]

    def _joined(self, content: Content) -> str:
        """Join parts to one text, as providers accept no more from an assistant; an image becomes its tag."""
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


def _img_element(img: Img) -> Element:
    return Element("img", (Attribute("src", img.src), *([Attribute("local")] if img.local else [])))


# -- Messages to text ----------------------------------------------------------------------------


def element_text(element: Element, newline: str = "\n") -> str:
    """Return the text of an element in a transcript: RAW blocks and summaries begin on a line of their own.

    The layout uses `newline`; the content stays as it is.

    Raises:
        NotStorable: it contains a NUL or half of a surrogate pair.
    """
    children, opening = element.children, f"<{element.tag}{write_attributes(element.attributes)}>"
    if not children:
        text = write([element])
    elif element.tag == "reasoning":
        inside = "".join(f"{newline}{element_text(child, newline)}" for child in children if isinstance(child, Element))
        text = f"{opening}{inside}{newline}</reasoning>"
    else:  # white space before RAW| is ignored
        inside = newline * (isinstance(children[0], Text) and children[0].raw) + write(children)
        text = f"{opening}{inside}</{element.tag}>"
    found = _UNSTORABLE.search(text)
    if found:
        what = "NUL" if found[0] == "\0" else f"half a character (U+{ord(found[0]):04X})"
        raise NotStorable(f"a text with {what} cannot be written to a file", hint="replace it: `storable`")
    return text


def storable(text: str) -> str:
    """Replace characters that a transcript cannot store by U+FFFD; do this before a tool's output is sent.

    >>> storable("a\\x00b")
    'a\\ufffdb'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def call_element(call: ToolCall, *, stored_at: str = "") -> Element:
    """Return the element of a call; `stored_at` is the file with its arguments, relative to the transcript."""
    more = _attributes(id=call.item, signature=call.signature, provider=call.provider)
    attributes = (Attribute("tool_call_id", call.id), Attribute("function_name", call.name), *more)
    return Element("tool_call", attributes, _body(call.arguments, stored_at))


def result_element(result: ToolResult, *, stored_at: str = "") -> Element:
    """Return the element of a result; `stored_at` is the file with its text, relative to the transcript."""
    more = _attributes(name=result.name, status="failed" if result.failed else "")
    children = (*_body(result.text, stored_at), *(image_element(image) for image in result.images))
    return Element("tool_response", (Attribute("tool_call_id", result.call), *more), children)


def image_element(image: Image) -> Element:
    """Return the element of an image, inline unless it has a URL."""
    return _img_element(Img(image.url or data_uri(image)))


def data_uri(image: Image) -> str:
    """Return an image as a data URI."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"


def _body(text: str, stored_at: str = "") -> tuple[Node, ...]:
    """Return the body of a model's or tool's text: always RAW."""
    if stored_at:
        return (Element("doc", (Attribute("src", stored_at), Attribute("local"))),)
    return (Text(text, raw=True),) if text else ()


def _attributes(**values: str) -> tuple[Attribute, ...]:
    """Return the values as attributes, without the empty ones."""
    return tuple(Attribute(name, value) for name, value in values.items() if value)


# -- The next turn of a conversation, and the text that a reply adds; this only makes text, others write it


USER_TURN = "<user>\n\n</user>\n"
"""The blank message in which the user is to write."""

INCOMPLETE = "incomplete"
"""The status of a reply that was cut off."""


@lru_cache(maxsize=2)
def parse_cached(text: str, file: str) -> SyntaxTree:
    """`parse` with a cache: the start of a run reads the same text several times."""
    return parse(text, file=file)


def items_of(text: str) -> tuple[Item, ...]:
    """Return the items of a piece of a transcript that we wrote."""
    return read_agent(parse(text)).items


def gap(before: str, newline: str = "\n") -> str:
    """Return the line ends between `before` and the next message, so that one blank line separates them.

    >>> gap("<user>Why?</user>"), gap("</user>\\n"), gap("</user>\\n\\n"), gap("")
    ('\\n\\n', '\\n', '', '')
    """
    if not before or before.endswith(("\n\n", "\n\r\n")):
        return ""
    return newline if before.endswith("\n") else 2 * newline


def lines_of(elements: Sequence[Element], newline: str = "\n") -> str:
    """Return the text of elements in a transcript, each ending its line."""
    return "".join(f"{element_text(element, newline)}{newline}" for element in elements)


def user_element_text(content: Content) -> str:
    """Return a user message as text. Images must be inline or at a URL; documents and agents are left out.

    >>> user_element_text(("See ", Img("data:image/png;base64,AA=="), " here"))
    '<user>See <img src="data:image/png;base64,AA=="/> here</user>\\n'
    """
    parts = (Text(storable(part)) if isinstance(part, str) else _img_element(Img(part.src))
             for part in content if isinstance(part, str | Img))  # fmt: skip
    return lines_of([Element("user", (), joined(parts))])


def user_text(text: str) -> str:
    """Return a user message whose content is exactly `text`.

    >>> user_text("Close it with </user>.")
    '<user>RAW|Close it with </user>.|RAW</user>\\n'
    """
    return user_element_text((text,))


def answer_of(items: Sequence[Item]) -> str:
    """Return the model's last answer: its texts after the last user message or result.

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
class ReceivedReply:
    r"""The thoughts and texts of a reply, in the order in which they arrive.

    >>> received = ReceivedReply()
    >>> received.add(TextDelta("Beca"))
    >>> received.add(TextDelta("use."))
    >>> lines_of(received.elements(Reply("Because.", "m")))
    '<assistant>\nRAW|Because.|RAW</assistant>\n'
    """

    parts: list[Reasoning | TextDelta] = field(default_factory=list)

    def add(self, event: ChatEvent) -> None:
        """Take a part from the stream; texts of the same item become one."""
        if isinstance(event, Reasoning):
            self.parts.append(event)
        elif isinstance(event, TextDelta) and (event.text or event.item):
            last = self.parts[-1] if self.parts else None
            if isinstance(last, TextDelta) and event.item in ("", last.item):
                self.parts[-1] = TextDelta(last.text + event.text, last.item)
            else:
                self.parts.append(event)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(part.text for part in self.parts if isinstance(part, TextDelta))

    def elements(self, reply: Reply) -> tuple[Element, ...]:
        """Return the elements of the complete reply, without its calls: as it arrived, if that is what it says."""
        thoughts = tuple(part for part in self.parts if isinstance(part, Reasoning))
        if self.text and thoughts == reply.reasoning and _letters(self.text) == _letters(reply.text):
            # Some servers complete their thoughts after the text; they belong before it.
            is_late = isinstance(self.parts[0], TextDelta)
            parts = sorted(self.parts, key=lambda part: is_late and isinstance(part, TextDelta))
            return tuple(reply_elements(parts))
        texts = [TextDelta(reply.text, reply.item)] if reply.text or reply.item or not reply.calls else []
        return tuple(reply_elements([*reply.reasoning, *texts]))

    def incomplete(self) -> tuple[Element, ...]:
        """Return the elements of a reply that was cut off, marked as incomplete; none if it has no text yet."""
        if not self.text.strip():
            return ()
        last = max(number for number, part in enumerate(self.parts) if isinstance(part, TextDelta))
        thoughts = [part for part in self.parts[:last] if isinstance(part, Reasoning)]
        cut_off = Element("assistant", (Attribute("status", INCOMPLETE),), _body(storable(self.text)))
        return (*reply_elements(thoughts), cut_off)


def reply_elements(parts: Iterable[Reasoning | TextDelta]) -> Iterator[Element]:
    """Iterate over the elements of thoughts and texts; thoughts with the same id are the summaries of one element."""
    group: list[Reasoning] = []
    for part in (*parts, None):
        about = (part.id, part.provider) if isinstance(part, Reasoning) and part.id and not part.signature else None
        if group and about != (group[-1].id, group[-1].provider):
            first = group[0]
            more = _attributes(signature=storable(first.signature), provider=storable(first.provider))
            summaries = tuple(Element("summary", (), (Text(storable(one.text), raw=True),)) for one in group)
            yield Element("reasoning", (Attribute("id", storable(first.id)), *more), summaries)
            group = []
        if isinstance(part, Reasoning):
            group.append(part)
        elif part is not None:
            yield Element("assistant", _attributes(id=storable(part.item)), _body(storable(part.text)))


def _letters(text: str) -> str:
    """Return a text without white space, which joins the texts of several parts."""
    return "".join(storable(text).split())


# -- Notes: messages that the user sends while tools run reach the model in the first of their results ------


NOTE_TAG = "system-reminder"
_NOTE_LEAD = "This is a note from the user:"
_NOTE_MARK = re.compile(rf"<(?=/?{NOTE_TAG}\b)", re.IGNORECASE)
_NOTE = re.compile(rf"<{NOTE_TAG}>\n?(?:{_NOTE_LEAD}\n)?(.*?)\n?</{NOTE_TAG}>", re.DOTALL)


def with_notes(text: str, notes: Sequence[str]) -> str:
    """Add messages that the user sent in the meantime to the text of a result.

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
    text_of_notes = "\n\n".join(without_marks(storable(note)) for note in notes)
    note = f"<{NOTE_TAG}>\n{_NOTE_LEAD}\n{text_of_notes}\n</{NOTE_TAG}>"
    return f"{text}\n\n{note}" if text else note


def without_marks(text: str) -> str:
    """Escape the tags of notes in a tool's output, so that none of it can pass for a message of the user."""
    return _NOTE_MARK.sub("&lt;", text)


def notes_in(text: str) -> tuple[str, ...]:
    """Return the user's messages in the text of a result.

    >>> notes_in(with_notes("12 files", ["Only German ones!"]))
    ('Only German ones!',)
    """
    return tuple(match[1].strip() for match in _NOTE.finditer(text))


# -- Complete a transcript whose run was interrupted -----------------------------------------------------------
#
# Runs add whole elements only. Earlier versions wrote replies piece by piece: `cut_torn` removes what such a run left.


INTERRUPTED = (
    "The run was interrupted before this call returned. Nobody knows whether it had an effect: look, before you "
    "repeat it."
)


NOT_STARTED = "The run was interrupted before this call was started. It had no effect."


class RepairedText(NamedTuple):
    """A repaired text, notes on what was changed, for people, and the results of calls that were `interrupted`."""

    text: str
    notes: tuple[str, ...]
    interrupted: tuple[ToolResult, ...] = ()


@lru_cache(maxsize=2)  # called before and after the file is locked
def repair(text: str, file: str = "", *, goes_on: bool = False) -> RepairedText:
    """Add a result to each interrupted call, and remove a reply at the end that was cancelled, to ask for it again.

    The cancelled reply stays if the user `goes_on` after it. A text with other errors stays as it is. `file` is the
    file of the text, so that a complete one is parsed only once, with later readers (`parse_cached`).

    >>> repair('<user>2+2?</user>\\n<tool_call tool_call_id="c1" function_name="add">{}</tool_call>\\n').notes
    ('1 call was interrupted',)
    """
    if errors_of(parse_cached(text, file).problems):
        return RepairedText(text, ())
    complete = text if goes_on else _without_incomplete(text)
    notes = ("a reply that was cut off is asked for again",) if complete != text else ()
    if "tool_call" not in complete:
        return RepairedText(complete, notes)
    spec = interpret(parse_cached(complete, file))[0]
    items, ends = spec.items, dict[int, int]()
    for _, group in groupby(items, lambda item: isinstance(item, CallItem | OutputItem)):
        reply = list(group)
        ends |= {id(item): reply[-1].span.end for item in reply}
    unanswered = AgentSpec(items=items).unanswered()
    kinds = {tool.name: tool.kind for tool in spec.tools}
    begun, texts = dict[int, list[bool]](), dict[int, str]()  # by the end of its reply: may each unanswered call write?
    for call in unanswered:  # one that may write waits for all before it, others for those that may
        kind, others = kinds.get(call.name, "mcp"), begun.setdefault(ends[id(call)], [])
        writes = kind in ("command", "mcp") or (kind == "builtin" and call.name in WRITING)
        texts[id(call)] = NOT_STARTED if others and (writes or any(others)) else INTERRUPTED
        others.append(writes)
    interrupted = list[ToolResult]()
    for call in reversed(unanswered):  # the result goes after the last call or result of the same reply
        end, result = ends[id(call)], ToolResult(call.call, call.name, texts[id(call)], failed=True)
        interrupted.append(result)
        complete = f"{complete[:end]}\n{element_text(result_element(result))}{complete[end:] or chr(10)}"
    if unanswered:
        calls = terminal.count(len(unanswered), "call")
        notes = (*notes, f"{calls} {'were' if len(unanswered) > 1 else 'was'} interrupted")
    return RepairedText(complete, notes, tuple(interrupted))


_BLANK_TURN = re.compile(r"<user>\s*(?:</?[user]*)?\Z")
_WRITTEN = ("<assistant", "<reasoning", "<tool_call", "<tool_response", "<user>")


def cut_torn(text: str) -> str:
    r"""Return a text without the reply, call, result or blank message that is not complete at its end.

    If a message of the user follows it, the text stays as it is.

    >>> cut_torn("<user>Why?</user>\n<reasoning>Hm</reasoning>\n<assistant>\nRAW|Beca")
    '<user>Why?</user>\n'
    """
    nodes = reversed(parse(text).children)
    last = next((node for node in nodes if not (isinstance(node, Text) and node.is_blank)), None)
    if last is None or (isinstance(last, Element) and last.is_closed):
        return text
    start = last.span.start
    torn = text[start:].strip(BLANK)
    start = text.rindex(torn) if torn else start
    begins = torn.startswith(_WRITTEN[:-1]) or any(tag.startswith(torn) for tag in _WRITTEN) or _BLANK_TURN.match(torn)
    if not begins or "</user>" in torn:
        return text
    for item in reversed(interpret(parse(text[:start]))[0].items):  # thoughts belong to the reply after them
        if not isinstance(item, ReasoningItem):
            break
        start = item.span.start
    return text[:start]


def _without_incomplete(text: str) -> str:
    """Remove a reply at the end that a run has marked as incomplete, and the blank user message after it."""
    if f'<assistant status="{INCOMPLETE}">' not in text:
        return text
    items = list(interpret(parse(text))[0].items)
    while items and isinstance(items[-1], MessageItem) and items[-1].role == "user" and items[-1].is_blank:
        items.pop()
    start = len(text)
    cut_off = ("assistant", INCOMPLETE)
    while items and isinstance(last := items[-1], MessageItem) and (last.role, last.status) == cut_off:
        start = items.pop().span.start
        while items and isinstance(items[-1], ReasoningItem):
            start = items.pop().span.start
    return text[:start].rstrip(BLANK) + "\n" if start < len(text) and items else text
