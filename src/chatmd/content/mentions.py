"""What an editor's message mentions: text, links to files and lines of them, and parts that cannot be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from chatmd.content.documents import plain_text
from chatmd.content.expand import read_img, read_raw, with_place
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Doc, Img
from chatmd.sidecar import PICTURES
from lmm import loop
from lmm.errors import LmmError
from lmm.importing.formats import suffix_of

_LINES = re.compile(r"L(\d+)(?:[:-]L?(\d+))?")


@dataclass(frozen=True, slots=True)
class EditorMention:
    """A file or address that a message mentions; of a file perhaps only the `lines` from one number to another."""

    src: str
    local: bool = True
    lines: tuple[int, int] | None = None


def read_blocks(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, list[EditorMention]]:
    """Return the text of a message in blocks of the Agent Client Protocol, and what it mentions.

    A mention is a word of the text, where it stood; parts that are not sent are said there.

    >>> link = {"type": "resource_link", "uri": "file:///notes/a%20b.md#L3:5", "name": "a b.md"}
    >>> read_blocks([{"type": "text", "text": "Is "}, link, {"type": "text", "text": " right?"}])
    ('Is @a b.md:3-5 right?', [EditorMention(src='/notes/a b.md', local=True, lines=(3, 5))])
    """
    text, mentions = "", list[EditorMention]()
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            text += block["text"]
        elif kind == "resource_link":
            mention = _mention(block["uri"])
            mentions.append(mention)
            name = block.get("name") or mention.src
            text += f"@{name}" + (f":{mention.lines[0]}-{mention.lines[1]}" if mention.lines else "")
        elif kind == "resource" and isinstance(block["resource"].get("text"), str):
            text += f"\n\n{block['resource']['uri']}:\n{block['resource']['text']}\n\n"
        else:
            about = block.get("resource", block)
            text += f"[{kind} that was not sent: {about.get('mimeType') or about.get('uri') or 'of an unknown type'}]"
    return text, mentions


def _mention(uri: str) -> EditorMention:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return EditorMention(uri, local=False)
    found = _LINES.fullmatch(parts.fragment)
    lines = (int(found[1]), int(found[2] or found[1])) if found else None
    return EditorMention(url2pathname(parts.path), lines=lines)


def read_mentions(mentions: Sequence[EditorMention], run: Run) -> tuple[str, list[str]]:
    """Read what is mentioned before it is written into a conversation, which could not go on with what cannot be read.

    Return the lines that are sent as text, and the files and addresses that are to be sent as documents.

    Raises:
        ChatmdError: a file cannot be read, may not be, or does not have these lines.
    """
    excerpts, files = "", list[str]()
    for mention in mentions:
        doc = Doc(mention.src, local=True)
        try:
            if mention.local and suffix_of(mention.src) in PICTURES:
                loop.run(read_img(Img(mention.src, local=True), run))
            elif mention.local:
                text = plain_text(read_raw(doc, run))
                if mention.lines is not None:
                    excerpts += _excerpt(text, mention.src, *mention.lines)
                    continue
        except LmmError as error:
            raise with_place(error, doc) from error
        files.append(mention.src)
    return excerpts, files


def _excerpt(text: str, name: str, first: int, last: int) -> str:
    lines = text.split("\n")
    if not 1 <= first <= last <= len(lines):
        raise ChatmdError(f"it has {len(lines)} lines, and so no lines {first} to {last}")
    return f"\n\n{name}:{first}-{last}:\n" + "\n".join(lines[first - 1 : last])
