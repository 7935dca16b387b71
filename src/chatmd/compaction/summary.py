"""The message that stands for a part of a conversation: what is in it, and what a later summary must not lose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chatmd.language import notes
from chatmd.language.agent import (
    CallItem,
    Doc,
    Img,
    Item,
    MessageItem,
    OutputItem,
    Part,
    ReasoningItem,
    SubAgent,
    content_of,
)
from lmm.messages import Attachment, Image, Message

LABEL, NOTE, SHOWN, KEPT = "conversation-summary", notes.TAG, "shown", "kept"
NOTICE = (
    "The conversation up to here was longer than can be kept. This is a summary of it, for your information. "
    "It asks nothing: do not answer it, go on with what follows."
)
MOST_SHOWN = 50

_OPENING = re.compile(rf'<(?P<label>{LABEL}|{NOTE}|{SHOWN}|{KEPT})(?P<more>-\d+)?(?: from="(?P<source>[^"]*)")?>\n')
_HEADING = re.compile(r"^#{1,6}[ \t](.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Summary:
    """`text` in markdown; `notes` that the user sent while tools ran, as they were; names of what was `shown`.

    `kept` are the lines that were carried over by code (`chatmd.compaction.memory`). `source` is where the whole
    conversation can be read.
    """

    text: str
    notes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    source: str = ""
    kept: tuple[str, ...] = ()

    def as_message(self) -> Message:
        """The user's message that stands in the conversation; `read_summary` reads it back."""
        documents = [Attachment(self.text, LABEL, self.source), *(Attachment(note, NOTE) for note in self.notes)]
        documents += [Attachment("\n".join(self.kept), KEPT)] if self.kept else []
        documents += [Attachment("\n".join(self.shown[-MOST_SHOWN:]), SHOWN)] if self.shown else []
        return Message("user", NOTICE, tuple(documents))


def is_summary(item: Item) -> bool:
    """Whether an item is a message that stands for others.

    >>> is_summary(MessageItem("user", ("<conversation-summary>\\nShort.\\n</conversation-summary>\\n",)))
    True
    """
    if not isinstance(item, MessageItem) or item.role != "user":
        return False
    opening = _OPENING.match(_text(item))
    return opening is not None and opening["label"] == LABEL


def read_summary(item: Item) -> Summary:
    """What is in a message that `is_summary`."""
    text, at = _text(item), 0
    found: dict[str, list[str]] = {LABEL: [], NOTE: [], SHOWN: [], KEPT: []}
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
    kept = tuple(line for lines in found[KEPT] for line in lines.splitlines())
    return Summary("\n\n".join(found[LABEL]) if found[LABEL] else text, tuple(found[NOTE]), shown, source, kept)


def _text(item: Item) -> str:
    parts = item.content if isinstance(item, MessageItem) else ()
    return "".join(part for part in parts if isinstance(part, str)).lstrip()


def headings_of(text: str) -> frozenset[str]:
    """The headings of a summary, or of the prompt that asks for one.

    >>> sorted(headings_of("## Goal\\nTidy files.\\n## Open ##"))
    ['goal', 'open']
    """
    return frozenset(title.strip(" \t#").casefold() for title in _HEADING.findall(text))


# -- Items of a conversation as what a model is given to summarise, in parts that fit its window --------------


Expanded = Mapping[Doc | Img | SubAgent, str | Image]
"""What documents and agents stand for, as far as it is known; the others are named."""
IMAGE_TOKENS = 1000
_SHORTEST = 80  # characters to which a text is cut
_HEAD = 0.6  # of a text that is cut: the part that is taken from its beginning


def attachment_of(item: Item, expanded: Expanded, limit: int) -> Attachment | None:
    """An item as the model reads it, its text cut to `limit` characters in the middle; None if it says nothing.

    >>> attachment_of(CallItem("c1", "read_file", ('{"file": "a.md"}',)), {}, 100)
    Attachment(text='{"file": "a.md"}', label='call', source='read_file', number=0)
    """
    if is_summary(item):
        return Attachment(read_summary(item).text, LABEL)
    text = "\n".join(item.summaries) if isinstance(item, ReasoningItem) else said(content_of(item), expanded)
    label: str
    if isinstance(item, MessageItem):
        label, source = item.role, item.name
    elif isinstance(item, CallItem):
        label, source = "call", item.name
    elif isinstance(item, OutputItem):
        label, source = "result", f"{item.name}{' (failed)' * item.failed}"
    else:
        label, source = "thought", ""
    return Attachment(cut(text.strip(), limit), label, source) if text.strip() else None


def said(content: Iterable[Part], expanded: Expanded) -> str:
    """The texts of a content, documents in place as far as they are known."""
    return "\n".join(_part(part, expanded) for part in content)


def _part(part: Part, expanded: Expanded) -> str:
    if isinstance(part, str):
        return part
    value = expanded.get(part)
    return value if isinstance(value, str) else f"[{name_of(part)}]"


def name_of(part: Doc | Img | SubAgent) -> str:
    """What a document, an image or an agent is called.

    >>> name_of(Doc("notes.md", local=True)), name_of(Img("data:image/png;base64,AAAA"))
    ('document notes.md', 'image, inline')
    """
    what = {Doc: "document", Img: "image", SubAgent: "agent"}[type(part)]
    return f"{what}, inline" if part.src.startswith("data:") else f"{what} {part.src}"


def cut(text: str, limit: int) -> str:
    """`text`, or its beginning and end with a note between them that says how much is missing.

    >>> cut("abcdefghij" * 20, 10)
    'abcdef\\n[… 190 characters left out …]\\nghij'
    """
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    end = text[len(text) - tail :]
    return f"{text[:head]}\n[… {len(text) - limit:,} characters left out …]\n{end}"


def shown_in(items: Iterable[Item]) -> tuple[str, ...]:
    """The names of all documents and images of a conversation, each once, the last ones last.

    What a tool got or returned is no document of the conversation, wherever it is kept.
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
    """The notes that a user sent while tools ran, those of earlier summaries first."""
    found: list[str] = []
    for item in items:
        if is_summary(item):
            found += read_summary(item).notes
        elif isinstance(item, OutputItem):
            found += notes.notes_in(said(item.content, expanded))
    return tuple(dict.fromkeys(found))


def tokens_of(item: Item, expanded: Expanded, count: Callable[[str], int]) -> int:
    """How many tokens an item takes, as far as its contents are known."""
    if isinstance(item, ReasoningItem):
        return sum(map(count, item.summaries))
    total = count(item.name) if isinstance(item, CallItem) else 0
    for part in content_of(item):
        value = part if isinstance(part, str) else expanded.get(part)
        total += count(value) if isinstance(value, str) else IMAGE_TOKENS if isinstance(part, Img) else 0
    return total


def fitting(
    items: Sequence[Item], expanded: Expanded, room: int, count: Callable[[str], int]
) -> tuple[Attachment, ...]:
    """The items as documents that have at most `room` tokens together.

    Long texts are cut in the middle, as little as can be; if there are too many all the same, the last ones are left.
    Earlier summaries stay whole.
    """
    limit = room * 4  # characters
    while True:
        documents = [d for item in items if (d := attachment_of(item, expanded, limit)) is not None]
        if limit == _SHORTEST or _size(documents, count) <= room:
            break
        limit = max(limit * 3 // 4, _SHORTEST)
    kept: list[Attachment] = []
    room -= _size((document for document in documents if document.label == LABEL), count)
    for document in reversed(documents):
        room -= 0 if document.label == LABEL else _size((document,), count)
        kept += [document] if room >= 0 or document.label == LABEL else []
    return tuple(reversed(kept))


def _size(documents: Iterable[Attachment], count: Callable[[str], int]) -> int:
    return sum(count(document.text) + 12 for document in documents)  # and its tags
