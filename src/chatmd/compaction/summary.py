"""The message with the summary of a conversation, and what the model that writes it gets to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chatmd.language.agent import (
    CallItem,
    Doc,
    Expandable,
    Img,
    Item,
    MessageItem,
    OutputItem,
    Part,
    ReasoningItem,
    SubAgent,
    content_of,
    text_of,
)
from chatmd.language.transcript import NOTE_TAG, notes_in
from lmm.messages import Attachment, Image, Message
from lmm.models.tokens import count_tokens

LABEL, NOTE, SHOWN = "conversation-summary", NOTE_TAG, "shown"
NOTICE = (
    "The conversation up to here was longer than can be kept. This is a summary of it, for your information. "
    "It asks nothing: do not answer it, go on with what follows."
)
SHOWN_NOTICE = " <shown> names documents that you saw; read them again if you need them."
NOTES_NOTICE = f" <{NOTE}> has what the user said while tools ran."
MOST_SHOWN = 50

_OPENING = re.compile(rf'<(?P<label>{LABEL}|{NOTE}|{SHOWN})(?P<more>-\d+)?(?: from="(?P<source>[^"]*)")?>\n')


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary: its `text` in markdown; `notes` that the user sent while tools ran; names of `shown` documents.

    `source` is the file with the whole conversation.
    """

    text: str
    notes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    source: str = ""

    def as_message(self) -> Message:
        """Return the summary as a user message for the conversation; `read_summary` parses it."""
        documents = [Attachment(self.text, LABEL, self.source), *(Attachment(note, NOTE) for note in self.notes)]
        documents += [Attachment("\n".join(self.shown[-MOST_SHOWN:]), SHOWN)] if self.shown else []
        return Message(
            "user", NOTICE + NOTES_NOTICE * bool(self.notes) + SHOWN_NOTICE * bool(self.shown), tuple(documents)
        )


def is_summary(item: Item) -> bool:
    """Return whether an item is a message with a summary.

    >>> is_summary(MessageItem("user", ("<conversation-summary>\\nShort.\\n</conversation-summary>\\n",)))
    True
    """
    if not isinstance(item, MessageItem) or item.role != "user":
        return False
    opening = _OPENING.match(_text(item))
    return opening is not None and opening["label"] == LABEL


def read_summary(item: Item) -> Summary:
    """Parse a message for which `is_summary` is true."""
    text, at = _text(item), 0
    found: dict[str, list[str]] = {LABEL: [], NOTE: [], SHOWN: []}
    source = ""
    while opening := _OPENING.match(text, at):
        end = text.find(f"\n</{opening['label']}{opening['more'] or ''}>", opening.end())
        if end < 0:
            break
        found[opening["label"]].append(text[opening.end() : end])
        source = source or opening["source"] or ""
        at = text.find(">", end) + 1
        at += len(text[at:]) - len(text[at:].lstrip("\n"))
    shown = tuple(line for names in found[SHOWN] for line in names.splitlines())
    return Summary("\n\n".join(found[LABEL]) if found[LABEL] else text, tuple(found[NOTE]), shown, source)


def _text(item: Item) -> str:
    return text_of(item.content).lstrip() if isinstance(item, MessageItem) else ""


# -- Items of a conversation as attachments for the model that summarises, cut to fit its window --------------


Expanded = Mapping[Expandable, str | Image]
"""The contents of documents and agents, as far as they are known; for others, only the name is given."""
IMAGE_TOKENS = 1000
_SHORTEST = 80  # characters: texts are not cut below this length
_HEAD = 0.6  # the share of a cut text that is taken from its beginning


def attachment_of(item: Item, expanded: Expanded, limit: int) -> Attachment | None:
    """Return an item for the model, with its text cut in the middle to `limit` characters; None if it is empty.

    >>> attachment_of(CallItem("c1", "read_file", ('{"file": "a.md"}',)), {}, 100)
    Attachment(text='{"file": "a.md"}', label='call', source='read_file', number=0, more=())
    """
    if is_summary(item):
        return Attachment(read_summary(item).text, LABEL)
    text = "\n".join(item.summaries) if isinstance(item, ReasoningItem) else said(content_of(item), expanded)
    label, source = "thought", ""
    if isinstance(item, MessageItem):
        label, source = item.role, item.name
    elif isinstance(item, CallItem):
        label, source = "call", item.name
    elif isinstance(item, OutputItem):
        label, source = "result", f"{item.name}{' (failed)' * item.failed}"
    return Attachment(cut(text.strip(), limit), label, source) if text.strip() else None


def said(content: Iterable[Part], expanded: Expanded) -> str:
    """Join the texts of a content, with the contents of documents as far as they are known."""
    return "\n".join(_part(part, expanded) for part in content)


def _part(part: Part, expanded: Expanded) -> str:
    if isinstance(part, str):
        return part
    value = expanded.get(part)
    return value if isinstance(value, str) else f"[{name_of(part)}]"


def name_of(part: Expandable) -> str:
    """Return the name of a document, an image or an agent.

    >>> name_of(Doc("notes.md", local=True)), name_of(Img("data:image/png;base64,AAAA"))
    ('document notes.md', 'image, inline')
    """
    what = {Doc: "document", Img: "image", SubAgent: "agent"}[type(part)]
    return f"{what}, inline" if part.src.startswith("data:") else f"{what} {part.src}"


def cut(text: str, limit: int) -> str:
    """Cut a text in the middle to `limit` characters, with a note about what is missing.

    >>> cut("abcdefghij\\n" * 20, 10)
    'abcdef\\n[… 210 characters left out, in lines 1 to 20 …]\\nhij\\n'
    """
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    begin, end = text[:head], text[len(text) - (limit - head) :]
    first, last = begin.count("\n") + 1, text.count("\n", 0, len(text) - len(end)) + 1
    where = f"lines {first} to {last}" if first < last else f"line {first}"
    return f"{begin}\n[… {len(text) - limit:,} characters left out, in {where} …]\n{end}"


def cut_to_tokens(text: str, limit: int) -> str:
    """Cut a text in the middle to about `limit` tokens, with a note about how much is missing."""
    if len(text) <= limit or (tokens := count_tokens(text)) <= limit:  # a token has one character or more
        return text
    return cut(text, len(text) * limit // tokens)


def shown_in(items: Iterable[Item]) -> tuple[str, ...]:
    """Return the names of all documents and images of a conversation, each once, in the order of their last use.

    Stored arguments and results of tools are not included.
    """
    names: dict[str, None] = {}
    for item in items:
        parts = item.content if isinstance(item, MessageItem) else ()
        named = (name_of(part) for part in parts if not isinstance(part, str))
        for name in read_summary(item).shown if is_summary(item) else named:
            names.pop(name, None)
            names[name] = None
    return tuple(names)


def notes_of(items: Iterable[Item], expanded: Expanded) -> tuple[str, ...]:
    """Return the notes that a user sent while tools ran, including those of earlier summaries."""
    found: list[str] = []
    for item in items:
        if is_summary(item):
            found += read_summary(item).notes
        elif isinstance(item, OutputItem):
            found += notes_in(said(item.content, expanded))
    return tuple(dict.fromkeys(found))


def tokens_of(item: Item, expanded: Expanded) -> int:
    """Return the number of tokens of an item, as far as its contents are known."""
    if isinstance(item, ReasoningItem):
        return sum(map(count_tokens, item.summaries))
    total = count_tokens(item.name) if isinstance(item, CallItem) else 0
    for part in content_of(item):
        value = part if isinstance(part, str) else expanded.get(part)
        total += count_tokens(value) if isinstance(value, str) else IMAGE_TOKENS if isinstance(part, Img) else 0
    return total


def fitting(items: Sequence[Item], expanded: Expanded, room: int) -> tuple[Attachment, ...]:
    """Return the items as attachments with at most `room` tokens together.

    Long texts are cut in the middle, as little as possible; if that is not enough, only the last ones are kept.
    Earlier summaries are not cut.
    """
    limit = room * 4  # characters
    while True:
        documents = [d for item in items if (d := attachment_of(item, expanded, limit)) is not None]
        if limit == _SHORTEST or _size(documents) <= room:
            break
        limit = max(limit * 3 // 4, _SHORTEST)
    kept: list[Attachment] = []
    room -= _size(document for document in documents if document.label == LABEL)
    for document in reversed(documents):
        room -= 0 if document.label == LABEL else _size((document,))
        kept += [document] if room >= 0 or document.label == LABEL else []
    return tuple(reversed(kept))


def _size(documents: Iterable[Attachment]) -> int:
    return sum(count_tokens(document.text) + 12 for document in documents)  # and its tags
