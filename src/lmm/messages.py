"""Requests to models and their replies: messages, their parts, and the events of a stream.

All three packages use these types, from the adapter to the terminal, the page, the log and ``--json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lmm.errors import LmmError, Place

Role = Literal["system", "developer", "user", "assistant", "tool"]
Task = Literal["answer", "annotate", "summary", "questions", "keywords", "edit", "extract"]


class Event:
    """Base class of events: of a stream, a run, a scan, an ingestion. Packages define their own subclasses."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """Text that a message is about, separate from the request itself.

    `label` is its role (``text``, ``context``, ``source``); `source` is its origin;
    `number` is the number by which a reply cites it, if not 0; `more` are further attributes.
    """

    text: str
    label: str = "text"
    source: str = ""
    number: int = 0
    more: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its bytes, or the URL from which the provider fetches it."""

    data: bytes = b""
    url: str = ""
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A function that a model may call. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False


def object_schema(required: Iterable[str] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties and no others.

    >>> object_schema(("path",), path={"type": "string"})["required"]
    ['path']
    """
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolCall(Event):
    """A model requests a tool call. `arguments` is JSON as the model wrote it, not validated.

    `id` links the call to its result; `item` is the provider's own id of this item, if it has one. `signature` is what
    `provider` wants back with the call (see `Reasoning`).
    """

    id: str
    name: str
    arguments: str
    item: str = ""
    signature: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult(Event):
    """The result of the call with id `call` of the function `name`; `failed` if `text` describes an error.

    `seconds` is its duration, if it was measured; it does not count when results are compared.
    """

    call: str
    name: str
    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool, before it is linked to a call; `failed` if `text` describes an error."""

    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolProgress(Event):
    """The call with id `call` of `name` is at work; `text` are the last lines that its program has printed."""

    call: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning(Event):
    """A model's reasoning, as far as its provider discloses it.

    It is sent back to `provider` alone, by which each adapter recognises what its own model wrote, in the field ``id``
    of Chat Completions (``reasoning_content``, …), or with the provider's own `id` and `signature`. Without `provider`,
    it never is: it came between tags.
    """

    text: str
    id: str = ""
    signature: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its attachments, then its text, then further `content`, in this order.

    An assistant's message may contain `calls` and the `reasoning` before them; a message with the role
    ``tool`` contains only `results`. `item` is the provider's own id of an assistant's text.
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
    """A request to a model. `task` is for the built-in model, which cannot follow instructions; others ignore it.

    `tools` are offered to the model, which may request several calls at once. With `schema`, a JSON schema of type
    object, servers that support it must answer with such JSON only; the messages have to ask for it too.
    """

    messages: tuple[Message, ...]
    task: Task = "answer"
    tools: tuple[ToolDefinition, ...] = ()
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and, if the price is known, US dollars; `estimated` if a server did not count them.

    `cached_tokens` are those of `input_tokens` that the provider had cached from an earlier request.
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
    """A piece of the model's reasoning, in order; a `Reasoning` with the whole follows when it is complete."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """The attempt failed and is repeated after `wait` seconds; pieces received so far are void.

    Without `wait`, nothing is asked again: the pieces were no part of the answer, which follows.
    """

    reason: str
    wait: float | None

    def __str__(self) -> str:
        return f"{self.reason}; again in {self.wait:.1f} s" if self.wait is not None else self.reason


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Work has to wait: another process holds a lock."""

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
    remembered: bool = False  # by the journal: no model was asked, and nothing was used
    stray_call: str = ""  # the tool that the text calls, in a form that its server did not turn into a call

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))

    def as_message(self) -> Message:
        """Return the reply as a message, to continue the conversation."""
        return Message("assistant", self.text, calls=self.calls, reasoning=self.reasoning, item=self.item)


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON may contain but UTF-8 cannot; pairs become the character they encode.

    >>> encodable("a \\ud800 b") == "a \\ufffd b", encodable("\\ud83d\\ude00") == "\U0001f600"
    (True, True)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """A model, or the journal, is asked; `text` is the prompt in the user's words, `about` its subject."""

    request: ChatRequest
    model: str
    text: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """There is no reply for this place; the rest continues. `what` names what was to be generated there."""

    error: LmmError
    what: str = ""


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """Progress in countable items: sections, files, chunks. `note` names the item that was finished last."""

    what: str
    done: int
    total: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """A message for the user."""

    text: str


# -- Events that only runs of ChatMD files have; the path of their place names the agents down to the one that is meant


@dataclass(frozen=True, slots=True)
class Ready(Event):
    """The file is read and its tools are open; `tools` are those that the model is offered."""

    model: str
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """Notes sent with `steer` are in the transcript: with the result of a tool, or as messages of their own."""

    texts: tuple[str, ...]
    with_result: bool


@dataclass(frozen=True, slots=True)
class RunStopped(Event):
    """The turn was cancelled; the transcript is valid and can be continued."""


@dataclass(frozen=True, slots=True)
class YourTurn(Event):
    """It is the user's turn. With `pending`, the model still has something to do, which an empty message starts."""

    pending: bool = False


@dataclass(frozen=True, slots=True)
class RunResult(Event):
    """The result of a run; also the last event of a stream.

    `answer` is what the model said last, empty if it was not asked. `turns` counts the requests of the whole tree,
    `usage` is what they used.
    `cut` says that the answer was cut off at the model's output limit.
    `turn_of` says whose turn it is: ``user``, or ``model`` if the run stopped before the model was done (`once`).
    """

    answer: str
    text: str = field(repr=False)
    path: Path | None = None
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    turn_of: str = "user"
    cancelled: bool = False
    cut: bool = False

    def _repr_markdown_(self) -> str:
        """Return the answer, for a notebook."""
        return self.answer


ChatEvent = TextDelta | ReasoningDelta | Reasoning | ToolCall | Retrying | Notice | Reply


Listener = Callable[[Event, Place], None]
"""A function called with each event and its place: line, section, or agent."""


def ignore(event: Event, place: Place) -> None:
    """Ignore the event: a listener that does nothing."""


def render(message: Message) -> str:
    """Return a message as one text, its attachments fenced by tags that do not occur in them.

    >>> print(render(Message("user", "Is this clear?", (Attachment("A leaf is green."),))))
    <text>
    A leaf is green.
    </text>
    <BLANKLINE>
    Is this clear?
    """
    parts = [tagged(attachment) for attachment in message.attachments]
    return "\n\n".join([*parts, message.text])


def tagged(attachment: Attachment) -> str:
    """Return an attachment between tags that do not occur in it."""
    tag, tried = attachment.label, 1
    while f"<{tag}" in attachment.text or f"</{tag}" in attachment.text:
        tried += 1
        tag = f"{attachment.label}-{tried}"
    number = f' number="{attachment.number}"' if attachment.number else ""
    attributes = "".join(
        # They are untrusted text, too, which must not end the attribute or the tag.
        f' {name}="{" ".join(value.replace(chr(34), chr(39)).replace("<", "‹").split())}"'
        for name, value in (("from", attachment.source), *attachment.more)
        if value
    )
    return f"<{tag}{number}{attributes}>\n{attachment.text}\n</{tag}>"


_PROMPT_TAG = re.compile(r"""^</?(?:text|context|source number="\d+")(?: from=[^<>\n]*)?>""", re.MULTILINE)


def prompt_tag(text: str) -> str:
    """Return the first tag of `render` that a reply repeats, or an empty text.

    >>> prompt_tag('Green.\\n<source number="7" from="a.md:3">'), prompt_tag("`<text>`")
    ('<source number="7" from="a.md:3">', '')
    """
    match = _PROMPT_TAG.search(text)
    return match[0] if match else ""


def message_texts(message: Message) -> Iterator[str]:
    """Iterate over the texts of a message, with those of its calls and results, for counting tokens.

    >>> list(message_texts(Message("user", "See", content=(Image(url="https://e.org/a.png"), "this."))))
    ['See', 'this.']
    """
    yield from (part for part in message_parts(message) if isinstance(part, str))
    for call in message.calls:
        yield f"{call.name} {call.arguments}"
    for result in message.results:
        yield result.text


def dialogue_text(messages: Iterable[Message]) -> str:
    """Return messages as readable text, each role above its message, pictures by type and size.

    >>> print(dialogue_text([Message("system", "Be brief."), Message("user", "Why?")]))
    [system]
    Be brief.
    <BLANKLINE>
    [user]
    Why?
    """
    return "\n\n".join(f"[{message.role}]\n" + "\n\n".join(_lines(message)) for message in messages)


def _lines(message: Message) -> Iterator[str]:
    yield from message_texts(message)
    for part in message.content:
        if isinstance(part, Image):
            yield f"[a picture, {part.url or f'{part.media_type}, {len(part.data):,} bytes'}]"


def message_parts(message: Message) -> Iterator[str | Image]:
    """Iterate over the texts and images of a message, in order."""
    yield from (part for part in (render(message), *message.content) if part)


# -- types of pictures, determined by their bytes --------------------------------------------------


class PictureType(NamedTuple):
    """A type of picture: its media type, the suffix of its files, and a pattern of its first bytes."""

    media_type: str
    suffix: str
    start: bytes


# The pattern of SVG is possessive, without backtracking: a file may be made so that it never matches.
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
"""Number of bytes of a file that are read to determine its type."""


def picture_type(data: bytes) -> PictureType | None:
    """Return the type of a picture, by its first bytes; None if it is not a picture.

    >>> [kind and kind.suffix for kind in map(picture_type, (b"GIF89a", b"<?xml?> <svg>", b"<html><svg>"))]
    ['.gif', '.svg', None]
    """
    return next((kind for kind in _TYPES if re.match(kind.start, data[:BEGINNING], re.DOTALL)), None)
