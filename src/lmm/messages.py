"""What is said to a model and what comes back: messages, their parts, and the events of a stream.

One vocabulary for all three packages, from the adapter to the terminal, the page, the log and ``--json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from lmm.errors import LmmError, Place

Role = Literal["system", "developer", "user", "assistant", "tool"]
Task = Literal["answer", "summary", "questions", "keywords", "edit", "extract", "reword"]


class Event:
    """Something that happens: in a stream, a run, a scan, an ingestion. Packages have children of it of their own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """Text that a message is about, kept apart from what is asked of it.

    `label` says what it is to the model (``text``, ``context``, ``source``); `source` where it comes from;
    `number` is what a reply cites it by, if not 0.
    """

    text: str
    label: str = "text"
    source: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its bytes, or the address that the provider fetches it from."""

    data: bytes = b""
    url: str = ""
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A function that a model may ask us to call. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False


def object_schema(required: Iterable[str] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others.

    >>> object_schema(("path",), path={"type": "string"})["required"]
    ['path']
    """
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolCall(Event):
    """A model asks for a call. `arguments` is JSON as the model wrote it, not validated.

    `id` links the call to its result; `item` is the provider's own id of this item, where it has one.
    """

    id: str
    name: str
    arguments: str
    item: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult(Event):
    """What came of the call with id `call` of the function `name`; `failed` if `text` tells of an error.

    `seconds` is how long it took, where that was measured; two results are equal whatever they took.
    """

    call: str
    name: str
    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool returned, before it is linked to a call; `failed` if `text` tells of an error."""

    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Reasoning(Event):
    """What a model thought, as far as its provider tells.

    `id` and `signature` let `provider` (as pydantic-ai names it) recognise it when it is sent back.
    """

    text: str
    id: str = ""
    signature: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: what was said, after the attachments it refers to, before further `content` in order.

    An assistant's message may hold `calls` and the `reasoning` before them; a message with the role
    ``tool`` holds nothing but `results`. `item` is the provider's own id of an assistant's text.
    """

    role: Role
    text: str
    attachments: tuple[Attachment, ...] = ()
    content: tuple[str | Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    item: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked. `task` tells models without a language what is wanted; others ignore it.

    `tools` are offered to it; it may ask for several calls at once. With `schema`, a JSON schema of type object, a
    server that can is told to answer with nothing but such JSON; the messages have to ask for it too.
    """

    messages: tuple[Message, ...]
    task: Task = "answer"
    tools: tuple[ToolDefinition, ...] = ()
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and, where the price is known, US dollars; `estimated` where a server did not count them.

    `cached_tokens` are those of `input_tokens` that the provider had kept from an earlier request.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    requests: int = 0
    estimated: bool = False
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        costs = [c for c in (self.cost, other.cost) if c is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=sum(costs) if costs else None,
            requests=self.requests + other.requests,
            estimated=self.estimated or other.estimated,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of the answer, in order; `item` is the provider's id of the text that begins with it."""

    text: str
    item: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))


@dataclass(frozen=True, slots=True)
class ReasoningDelta(Event):
    """A piece of what the model thinks, in order; a `Reasoning` tells the whole, when it is complete."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """The attempt failed and is made again after `wait` seconds; pieces received so far are void."""

    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Work has to wait: somebody else holds a lock, a model is slow to begin."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reply(Event):
    """The whole answer; the last event of a stream. With `calls`, the model waits for their results."""

    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    cut: bool = False  # the model stopped at its output limit, in the middle
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    item: str = ""
    remembered: bool = False  # by the journal: nobody was asked, and nothing was used

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))

    def as_message(self) -> Message:
        """The reply as a message of the conversation that goes on."""
        return Message("assistant", self.text, calls=self.calls, reasoning=self.reasoning, item=self.item)


def encodable(text: str) -> str:
    """`text` without lone surrogates: JSON may hold them, no UTF-8 file can; pairs become what they mean.

    >>> encodable("a \\ud800 b") == "a \\ufffd b", encodable("\\ud83d\\ude00") == "\U0001f600"
    (True, True)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


ChatEvent = TextDelta | ReasoningDelta | Reasoning | ToolCall | Retrying | Waiting | Reply


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """A model, or the journal, is asked; `text` is the prompt in the user's words, `about` what it is about."""

    request: ChatRequest
    model: str
    text: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """There is no reply for this place; the rest goes on. `what` names what was to be made there."""

    error: LmmError
    what: str = ""


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """So many of what can be counted are done: sections, files, chunks. `note` names the one that was done last."""

    what: str
    done: int
    total: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something that a person should know."""

    text: str


Listener = Callable[[Event, Place], None]
"""Is told what happens, and where: on which line, in which section, in which agent."""


def ignore(event: Event, place: Place) -> None:
    """A listener that does nothing."""


def render(message: Message) -> str:
    """A message as one text, its attachments fenced by tags that do not occur in them.

    >>> print(render(Message("user", "Is this clear?", (Attachment("A leaf is green."),))))
    <text>
    A leaf is green.
    </text>
    <BLANKLINE>
    Is this clear?
    """
    parts = [_fenced(attachment) for attachment in message.attachments]
    return "\n\n".join([*parts, message.text])


def _fenced(attachment: Attachment) -> str:
    tag, tried = attachment.label, 1
    while f"<{tag}" in attachment.text or f"</{tag}" in attachment.text:
        tried += 1
        tag = f"{attachment.label}-{tried}"
    number = f' number="{attachment.number}"' if attachment.number else ""
    # Where a text comes from is text too: it must not end the attribute or the tag.
    origin = " ".join(attachment.source.replace('"', "'").replace("<", "‹").split())
    source = f' from="{origin}"' if origin else ""
    return f"<{tag}{number}{source}>\n{attachment.text}\n</{tag}>"


def message_texts(message: Message) -> Iterator[str]:
    """The texts of a message, those of its calls and results too: what its tokens are counted of.

    >>> list(message_texts(Message("user", "See", content=(Image(url="https://e.org/a.png"), "this."))))
    ['See', 'this.']
    """
    yield from (part for part in message_parts(message) if isinstance(part, str))
    for call in message.calls:
        yield f"{call.name} {call.arguments}"
    for result in message.results:
        yield result.text


def dialogue_text(messages: Iterable[Message]) -> str:
    """Messages as a reader looks at them: each role above what it says.

    >>> print(dialogue_text([Message("system", "Be brief."), Message("user", "Why?")]))
    [system]
    Be brief.
    <BLANKLINE>
    [user]
    Why?
    """
    return "\n\n".join(f"[{message.role}]\n" + "\n\n".join(message_texts(message)) for message in messages)


def message_parts(message: Message) -> Iterator[str | Image]:
    """Texts and images of a message, in order."""
    yield from (part for part in (render(message), *message.content) if part)


# -- what pictures bytes are, whatever they are called ---------------------------------------------


class PictureType(NamedTuple):
    """A kind of picture: its media type, the ending of its files, and how it begins."""

    media_type: str
    suffix: str
    start: bytes


# What was read of an SVG is not read in another way when the rest does not fit: it may be made so that it never fits.
_TYPES = (
    PictureType("image/png", ".png", rb"\x89PNG\r\n\x1a\n"),
    PictureType("image/jpeg", ".jpg", rb"\xff\xd8\xff"),
    PictureType("image/gif", ".gif", rb"GIF8[79]a"),
    PictureType("image/webp", ".webp", rb"RIFF....WEBP"),
    PictureType("image/avif", ".avif", rb"....ftypavi[fs]"),
    PictureType("image/heic", ".heic", rb"....ftyp(?:hei[cx]|mif1)"),
    PictureType("image/bmp", ".bmp", rb"BM....\0\0\0\0"),
    PictureType("image/tiff", ".tiff", rb"II\*\0|MM\0\*"),
    PictureType("image/emf", ".emf", rb"\x01\0\0\0.{36} EMF"),
    PictureType("image/wmf", ".wmf", rb"\xd7\xcd\xc6\x9a|[\x01\x02]\0\x09\0\0[\x01\x03]"),
    PictureType(
        "image/svg+xml",
        ".svg",
        rb"(?:\xef\xbb\xbf)?+\s*+(?>(?:<\?xml[^>]*+>|<!--.*?-->|<!DOCTYPE svg[^>]*+>)\s*+)*+<svg[\s>]",
    ),
)
BEGINNING = 1024
"""Bytes of a file that tell its kind."""


def picture_type(data: bytes) -> PictureType | None:
    """The kind of a picture, by its first bytes; None if it is none.

    >>> [kind and kind.suffix for kind in map(picture_type, (b"GIF89a", b"<?xml?> <svg>", b"<html><svg>"))]
    ['.gif', '.svg', None]
    """
    return next((kind for kind in _TYPES if re.match(kind.start, data[:BEGINNING], re.DOTALL)), None)
