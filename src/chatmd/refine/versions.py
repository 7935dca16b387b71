"""The instructions in a file, as a place where other versions can stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chatmd.errors import RefineError
from chatmd.language.nodes import BLANK, Comment, Element, Node, SyntaxTree, Text
from chatmd.language.syntax import errors_of, parse_body, write
from chatmd.language.transcript import storable

ROLES = ("system", "developer")
_VERSION = re.compile(r"<version(?:\s[^>]*)?>(.*?)</version>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Instructions:
    """The inside of a file's system or developer message: `start` up to `end` of its text.

    `text` is what a model is shown of it, without comments and the white space around it. With `parts`, documents
    and imports stand in it, and it is spelled as ChatMD; else it is plain text.
    """

    role: str
    text: str
    start: int
    end: int
    before: str
    after: str
    raw: bool
    parts: tuple[Element, ...] = ()


def find_instructions(document: SyntaxTree, role: str = "") -> Instructions:
    """The first system message of a file, else its first developer message; or the first with `role`.

    Raises:
        RefineError: there is none, or it is empty.

    >>> from chatmd.language.syntax import parse
    >>> find_instructions(parse("<system>\\nBe brief.\\n</system><user/>")).text
    'Be brief.'
    """
    found = [element for wanted in ROLES for element in document.elements if _role(element) == wanted]
    fits = next((element for element in found if not role or _role(element) == role), None)
    if fits is None or fits.opening is None or fits.closing is None:
        what = f"<{role}>" if role else "<system> or <developer>"
        raise RefineError(
            f"there is no {what} message in this file", where=document.file or "the file",
            hint="its instructions must stand in the file itself, not in an import at its top",
        )  # fmt: skip
    children = tuple(node for node in fits.children if not isinstance(node, Comment))
    parts = tuple(node for node in children if isinstance(node, Element))
    shown = write(_joined(children)) if parts else "".join(node.value for node in children if isinstance(node, Text))
    text = shown.strip(BLANK)
    if not text:
        raise RefineError("the message is empty", where=fits.span.where, hint="write a first version of it")
    at = shown.index(text)
    raw = any(isinstance(node, Text) and node.raw for node in children)
    return Instructions(
        _role(fits), text, fits.opening.end, fits.closing.start, shown[:at], shown[at + len(text) :], raw, parts
    )


def _role(element: Element) -> str:
    return (element.get("role") or "").strip().lower() if element.tag == "msg" else element.tag


def _joined(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Nodes with texts side by side as one: a comment stood between them."""
    waiting: list[Text] = []
    for node in nodes:
        if isinstance(node, Text):
            waiting.append(node)
            continue
        if waiting:
            yield Text("".join(text.value for text in waiting), any(text.raw for text in waiting))
            waiting = []
        yield node
    if waiting:
        yield Text("".join(text.value for text in waiting), any(text.raw for text in waiting))


def with_instructions(source: str, old: Instructions, text: str) -> str:
    """The file's text with other instructions; nothing else of it changes.

    Raises:
        ValueError: the new ones cannot stand there: they lack a part that the old ones have, or add one.

    >>> from chatmd.language.syntax import parse
    >>> source = "<system>\\nBe brief.\\n</system>"
    >>> with_instructions(source, find_instructions(parse(source)), "Close with </system>.")
    '<system>RAW|\\nClose with </system>.\\n|RAW</system>'
    """
    return source[: old.start] + _inside(old, storable(text).strip(BLANK)) + source[old.end :]


def _inside(old: Instructions, text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    whole = f"{old.before}{text}{old.after}"
    if not old.parts:
        return write([Text(whole, old.raw)])
    body = parse_body(whole)
    if errors_of(body.problems):
        raise ValueError(body.problems[0].message)
    parts = [write([node]) for node in body.children if isinstance(node, Element)]
    expected = [write([part]) for part in old.parts]
    if sorted(parts) != sorted(expected):
        raise ValueError(f"it must keep {', '.join(expected)}, once each, and add no other")
    return whole


def read_versions(reply: str) -> list[str]:
    """The versions in a model's reply, each once.

    >>> read_versions("<version>\\nBe brief.\\n</version>\\n<version>Be brief.</version><version>Be kind.</version>")
    ['Be brief.', 'Be kind.']
    """
    texts = (match[1].strip(BLANK) for match in _VERSION.finditer(reply))
    return list(dict.fromkeys(text for text in texts if text))
