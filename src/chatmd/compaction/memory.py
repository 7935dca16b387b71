"""What is carried over a compaction by code, whatever the summary leaves out.

The user's words, the decisions of earlier summaries, the files that tools were given, and what was found and named
twice: a line each, the latest ones if there are too many.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from chatmd.compaction.summary import Expanded, cut, is_summary, read_summary, said
from chatmd.language.agent import CallItem, Item, MessageItem, OutputItem

DECIDED, SAID, FOUND, FILE = "decided: ", "the user: ", "found: ", "file: "
_ORDER = (DECIDED, SAID, FOUND, FILE)  # what counts more comes first
_LONGEST = 300  # characters of a line
_BULLETS = re.compile(r"^#{1,6}[ \t]+(?P<title>[^\n]*)\n(?P<body>.*?)(?=^#{1,6}[ \t]|\Z)", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^[-*][ \t]+(\S.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
# What a finding has: a word in code quotes, a number, a name with a dot, a slash or an underscore in it.
_TERM = re.compile(r"`[^`\n]{2,60}`|\b\w*\d[\w.,:/-]*\w|\b\w+[._/]\w[\w./-]*\w")
_PATHS = ("path", "file", "src", "url")


def memory_of(items: Sequence[Item], expanded: Expanded, summary: str, room: int) -> tuple[str, ...]:
    """The lines that are kept of `items`, which a `summary` stands for, in at most `room` characters.

    >>> memory_of([MessageItem("user", ("At most 200 words.",))], {}, "", 100)
    ('the user: At most 200 words.',)
    """
    lines = [line for line in _lines(items, expanded) if line.partition(": ")[2] not in summary]
    revoked = set(bullets(summary, "no longer holds"))
    lines = [line for line in dict.fromkeys(lines) if line.removeprefix(DECIDED) not in revoked]
    chosen: set[str] = set()
    for kind in _ORDER:
        for line in reversed([line for line in lines if line.startswith(kind)]):
            if len(line) > room:
                break
            room -= len(line) + 1
            chosen.add(line)
    return tuple(line for line in lines if line in chosen)


def _lines(items: Sequence[Item], expanded: Expanded) -> Iterator[str]:
    for item in items:
        if is_summary(item):
            summary = read_summary(item)
            yield from summary.kept
            yield from (_line(DECIDED, bullet) for bullet in bullets(summary.text, "decisions"))
        elif isinstance(item, MessageItem) and item.role == "user" and not item.is_blank:
            yield _line(SAID, said((part for part in item.content if isinstance(part, str)), expanded))
        elif isinstance(item, CallItem):
            yield from (_line(FILE, f"{name} ({item.name})") for name in _files(said(item.arguments, expanded)))
    yield from (_line(FOUND, finding) for finding in _findings(items, expanded))


def _line(kind: str, text: str) -> str:
    return kind + " ".join(cut(" ".join(text.split()), _LONGEST).split())


def bullets(text: str, heading: str) -> list[str]:
    """The bullets under a heading, each on one line.

    >>> bullets("## Decisions\\n- In German,\\n  always.\\n## Open\\n- All.", "decisions")
    ['In German, always.']
    """
    found = (part["body"] for part in _BULLETS.finditer(text) if part["title"].strip(" \t#").casefold() == heading)
    return [" ".join(one[1].split()) for body in found for one in _BULLET.finditer(body)]


def _files(arguments: str) -> Iterator[str]:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        values = {}
    if isinstance(values, dict):
        yield from (values[name] for name in _PATHS if isinstance(values.get(name), str))
    yield from re.findall(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", arguments.replace("\\n", "\n"), re.MULTILINE)


def _findings(items: Iterable[Item], expanded: Expanded) -> list[str]:
    """The sentences of the model in which something stands that two messages or results name, in order."""
    named: dict[str, set[int]] = defaultdict(set)
    sentences: dict[str, set[str]] = {}
    for number, item in enumerate(items):
        if isinstance(item, MessageItem | OutputItem) and not is_summary(item):
            text = said(item.content, expanded)[:20_000]
            for term in _TERM.findall(text):
                named[term].add(number)
            if isinstance(item, MessageItem) and item.role == "assistant":
                sentences |= {one.strip(): set(_TERM.findall(one)) for one in _SENTENCE.split(text) if one.strip()}
    twice = {term for term, numbers in named.items() if len(numbers) > 1}
    return [sentence for sentence, terms in sentences.items() if terms & twice]
