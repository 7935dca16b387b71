"""The instructions in a file: where they stand, and the file with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from chatmd.errors import RefineError
from chatmd.language.nodes import BLANK, Comment, Element, Node, SyntaxTree, Text
from chatmd.language.syntax import errors_of, parse_body, write
from chatmd.language.transcript import storable

ROLES = ("system", "developer")


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

    def put(self, text: str, source: str) -> str:
        """The text of their file with other instructions; nothing else of it changes.

        Raises:
            ValueError: the new ones cannot stand there: they lack a part that the old ones have, or add one.

        >>> from chatmd.language.syntax import parse
        >>> source = "<system>\\nBe brief.\\n</system>"
        >>> find_instructions(parse(source)).put("Close with </system>.", source)
        '<system>RAW|\\nClose with </system>.\\n|RAW</system>'
        """
        return source if text == self.text else source[: self.start] + self._written(text) + source[self.end :]

    def _written(self, text: str) -> str:
        text = storable(text).strip(BLANK)
        if not text:
            raise ValueError("it is empty")
        whole = f"{self.before}{text}{self.after}"
        if not self.parts:
            return write([Text(whole, self.raw)])
        body = parse_body(whole)
        if errors_of(body.problems):
            raise ValueError(body.problems[0].message)
        expected = [write([part]) for part in self.parts]
        if sorted(write([node]) for node in body.children if isinstance(node, Element)) != sorted(expected):
            raise ValueError(f"it must keep {', '.join(expected)}, once each, and add no other")
        return whole


def find_instructions(document: SyntaxTree) -> Instructions:
    """The first system message of a file, else its first developer message.

    Raises:
        RefineError: there is none, or it is empty.

    >>> from chatmd.language.syntax import parse
    >>> find_instructions(parse("<system>\\nBe brief.\\n</system><user/>")).text
    'Be brief.'
    """
    fits = next((element for role in ROLES for element in document.elements if _role(element) == role), None)
    if fits is None or fits.opening is None or fits.closing is None:
        raise RefineError(
            "there is no <system> or <developer> message in this file", where=document.file or "the file",
            hint="its instructions must be in the file itself, not in an import at its top",
        )  # fmt: skip
    children = [node for node in fits.children if not isinstance(node, Comment)]
    parts = tuple(node for node in children if isinstance(node, Element))
    texts = [node for node in children if isinstance(node, Text)]
    shown = write(_joined(children)) if parts else "".join(node.value for node in texts)
    text = shown.strip(BLANK)
    if not text:
        raise RefineError("the message is empty", where=fits.span.where, hint="write a first version of it")
    before, _, after = shown.partition(text)
    return Instructions(
        _role(fits), text, start=fits.opening.end, end=fits.closing.start, before=before, after=after,
        raw=any(node.raw for node in texts), parts=parts,
    )  # fmt: skip


def _role(element: Element) -> str:
    return (element.get("role") or "").strip().lower() if element.tag == "msg" else element.tag


def _joined(nodes: Sequence[Node]) -> list[Node]:
    """Nodes with texts side by side as one: a comment stood between them."""
    made: list[Node] = []
    for is_text, some in groupby(nodes, lambda node: isinstance(node, Text)):
        group = list(some)
        texts = [node for node in group if isinstance(node, Text)]
        made += [Text("".join(t.value for t in texts), any(t.raw for t in texts))] if is_text else group
    return made
