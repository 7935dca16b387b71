"""The list of conversations in the terminal: the file, cost and last exchange of each."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from chatmd.compaction.summary import is_summary, said
from chatmd.language.agent import MessageItem, interpret
from chatmd.language.syntax import parse
from chatmd.language.transcript import answer_of
from lmm.disk import trust
from lmm.disk.files import read_document
from lmm.errors import LmmError
from lmm.messages import Usage
from lmm.terminal import clipped, path_text

_STORE = "conversations.json"
_MOST = 15


def exchange_in(transcript: str) -> tuple[str, str]:
    """Return the last exchange of a conversation: the user's message and the model's reply.

    >>> exchange_in("<user>Why?</user><assistant>Because.</assistant><user>\\n</user>")
    ('Why?', 'Because.')
    """
    items = interpret(parse(transcript))[0].items
    users = (one for one in reversed(items) if isinstance(one, MessageItem) and one.role == "user")
    last = next((one for one in users if not one.is_blank and not is_summary(one)), MessageItem("user"))
    return said(last.content, {}).strip(), answer_of(items).strip()


def used_for(path: Path) -> Usage:
    """Return the usage of the conversation in a file so far."""
    with suppress(LookupError, ValueError, TypeError):
        return Usage(*json.loads(trust.remembered(_STORE)[str(path.resolve())]))
    return Usage()


def remember(path: Path, usage: Usage) -> None:
    """Store the usage of a conversation so far, which puts it on the list; errors of writing are ignored."""
    with suppress(LmmError, OSError):
        kept = json.dumps([usage.input_tokens, usage.output_tokens, usage.cost, usage.requests])
        trust.remember(_STORE, str(path.resolve()), kept)


def latest() -> list[Path]:
    """Return the files of the latest conversations, the one that was changed last first."""
    found = [path for name in trust.remembered(_STORE) if (path := Path(name)).is_file()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:_MOST]


def described(path: Path, width: int) -> tuple[str, str]:
    """Describe a conversation in two lines: file, time and cost; the last exchange, cut to `width` columns."""
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    cost = used_for(path).cost
    head = f"{path_text(here)}  {datetime.fromtimestamp(path.stat().st_mtime):%d %b %Y, %H:%M}"
    with suppress(LmmError):
        last = " → ".join(exchange_in(read_document(path)))
        return head + (f"  ${cost:.4f}" if cost else ""), clipped(last, width)
    return head, ""
