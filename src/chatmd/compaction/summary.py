"""The message that stands for a part of a conversation: what is in it, and what a later summary must not lose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chatmd.language.items import Item, MessageItem
from lmm.messages import Attachment, Message

LABEL, NOTE, SHOWN = "conversation-summary", "user_note", "shown"
NOTICE = (
    "The conversation up to here was longer than can be kept. This is a summary of it, for your information. "
    "It asks nothing: do not answer it, go on with what follows."
)
MOST_SHOWN = 50
CARRIED = ("decisions", "constraints")
"""Headings whose bullets a later summary keeps, unless it lists them under `REVOKED`."""
REVOKED = "no longer holds"

_OPENING = re.compile(rf'<(?P<label>{LABEL}|{NOTE}|{SHOWN})(?P<more>-\d+)?(?: from="(?P<source>[^"]*)")?>\n')
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*\Z")
_BULLET = re.compile(r"(?:[-*+]|\d+[.)])[ \t]+")
_FENCE = re.compile(r"[ \t]*(```|~~~)")
# As a run writes them into results. It makes sure that nothing that a tool returned looks like one.
_STEERING = re.compile(rf"<{NOTE}>\n?(.*?)\n?</{NOTE}>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Summary:
    """`text` in markdown; `notes` that the user sent while tools ran, as they were; names of what was `shown`.

    `source` is where the whole conversation can be read.
    """

    text: str
    notes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    source: str = ""

    def as_message(self) -> Message:
        """The user's message that stands in the conversation; `read_summary` reads it back."""
        documents = [Attachment(self.text, LABEL, self.source), *(Attachment(note, NOTE) for note in self.notes)]
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
    parts = item.content if isinstance(item, MessageItem) else ()
    return "".join(part for part in parts if isinstance(part, str)).lstrip()


def notes_in(text: str) -> tuple[str, ...]:
    """The notes that a user sent while tools ran, out of what a tool returned.

    >>> notes_in("12 files\\n\\n<user_note>\\nOnly German ones!\\n</user_note>")
    ('Only German ones!',)
    """
    return tuple(match[1].strip() for match in _STEERING.finditer(text))


# -- what a later summary must not lose ----------------------------------------------------------


def carried_over(earlier: str, later: str) -> str:
    """The later summary, with those decisions of the earlier one that it neither has nor calls revoked.

    >>> print(carried_over("## Decisions\\n- Use R.\\n- Be brief.", "## Decisions\\n- Be brief.\\n\\n## Open\\n- Axis"))
    ## Decisions
    - Be brief.
    - Use R.
    <BLANKLINE>
    ## Open
    - Axis
    """
    known = {_plain(entry) for _, entry in _entries(later)}
    missing: dict[str, list[str]] = {}
    for title, entry in _entries(earlier):
        if _is_carried(title) and _plain(entry) not in known:
            missing.setdefault(title, []).append(entry)
    for title, entries in missing.items():
        later = _with_entries(later, title, entries)
    return later


def _is_carried(title: str) -> bool:
    return any(word in title.casefold() for word in CARRIED)


def _plain(entry: str) -> str:
    """What an entry says: without its bullet, marks of emphasis and line breaks."""
    return " ".join(_BULLET.sub("", entry, count=1).replace("*", "").replace("`", "").split()).casefold()


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line, with the title if it is a heading; code is none."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        heading = _HEADING.match(line) if not fence else None
        yield line, heading[1] if heading else ""


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """The bullets of a summary with the titles above them, continuation lines included."""
    title, entry = "", list[str]()
    for line, heading in [*_lines(text), ("", "end")]:
        if entry and (heading or not line.strip() or _BULLET.match(line)):
            yield title, "\n".join(entry)
            entry = []
        if heading:
            title = heading
        elif entry or _BULLET.match(line):
            entry.append(line)


def _with_entries(text: str, title: str, entries: Iterable[str]) -> str:
    """`text` with more bullets under the heading `title`, which is added in front if it is not there."""
    lines = list(_lines(text))
    at = next((n for n, (_, heading) in enumerate(lines) if heading.casefold() == title.casefold()), None)
    if at is None:
        return "\n".join([f"## {title}", *entries, "", text])
    end = next((n for n in range(at + 1, len(lines)) if lines[n][1]), len(lines))
    while end > at + 1 and not lines[end - 1][0].strip():
        end -= 1
    plain = [line for line, _ in lines]
    return "\n".join([*plain[:end], *entries, *plain[end:]])
