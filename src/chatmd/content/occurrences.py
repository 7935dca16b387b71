"""Where in a conversation documents, images and agents stand, and by what each is known again on a later run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from chatmd.language.items import CallItem, Content, Doc, Img, Item, MessageItem, OutputItem, Part, SubAgent
from chatmd.language.transcript import image_of

Expandable = Doc | Img | SubAgent


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One part that has to be expanded. `answered` if a model has seen it: something follows that a model said.

    `key` is that of its place: what the message says, how many with the same words come before, and which part of
    it this is. So it holds wherever the file lies, and whatever changes in other messages. It is empty in what a
    model or a tool said: what is stored there does not change.
    """

    part: Expandable
    key: str
    answered: bool


def occurrences(items: Iterable[Item]) -> tuple[Occurrence, ...]:
    """All parts of a conversation that are not inline, in order.

    >>> doc = Doc("a.md", local=True)
    >>> user, assistant = MessageItem("user", (doc,)), MessageItem("assistant", ("Yes.",))
    >>> both = occurrences((user, assistant, user))
    >>> [place.answered for place in both], both[0].key == both[1].key
    ([True, False], False)
    """
    conversation = tuple(items)
    said = [number for number, item in enumerate(conversation) if not _is_input(item)]
    last = said[-1] if said else -1
    return tuple(_in_items(conversation, last))


def _is_input(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role != "assistant"


def _in_items(items: tuple[Item, ...], last_said: int) -> Iterator[Occurrence]:
    seen: Counter[str] = Counter()
    for number, item in enumerate(items):
        content = _content(item)
        if all(isinstance(part, str) for part in content):
            continue
        message = ""
        if isinstance(item, MessageItem) and _is_input(item):
            message = digest(item.role, [described(part) for part in content])
            seen[message] += 1
        for index, part in enumerate(content):
            if not isinstance(part, str) and not (isinstance(part, Img) and _is_inline(part)):
                key = digest(message, seen[message], index) if message else ""
                yield Occurrence(part, key, number < last_said)


def _content(item: Item) -> Content:
    if isinstance(item, MessageItem | OutputItem):
        return item.content
    return item.arguments if isinstance(item, CallItem) else ()


def _is_inline(img: Img) -> bool:
    return image_of(img) is not None


def described(part: Part) -> Any:
    """A part as JSON: all that it says, not where it stands."""
    if isinstance(part, str):
        return part
    if isinstance(part, Doc):
        return ["doc", part.src, part.local, part.strip, part.markdown]
    if isinstance(part, Img):
        return ["img", part.src, part.local]
    return ["agent", part.src, part.local, [described(child) for child in part.content]]


def digest(*values: Any) -> str:
    """A hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(values, ensure_ascii=True).encode("ascii")).hexdigest()[:32]
