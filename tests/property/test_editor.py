"""What an author types while a reply streams into the buffer: all of it stays, and so does the whole reply."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import talking
from hypothesis import given, strategies as st

from lmm import Document
from lmm.errors import Changed, Place
from lmm.messages import Asked, ChatRequest, Reply, TextDelta
from lmm.testing import ScriptedModel
from lmm_editor.notebook import ArrivingReplies
from lmm_editor.open_document import Overlay

TEXT = st.text("ab é😀\u2028\n", max_size=6)
PIECES = st.lists(st.text("wört \n---#`x:", min_size=1, max_size=12), min_size=1, max_size=6)


@dataclass
class Author:
    """What an author has above and below a block of prompts, as it would be if nobody else wrote."""

    above: str = "# Leaves\n\nThey fall.\n\n"
    below: str = "\nA leaf is green.\n\n## More\n\nSome are red.\n"
    block: str = "---\ntype: note\n?: which colour?\n---\n"
    buffer: str = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = self.text

    @property
    def text(self) -> str:
        """The author's own."""
        return self.above + self.block + self.below

    def type(self, up: bool, start: int, length: int, text: str) -> None:
        """Replace something above or below, there and in the buffer; not the blank lines beside the block."""
        part = self.above if up else self.below
        low, high = (0, len(part) - 2) if up else (1, len(part))
        start = low + start % (high - low)
        end = min(start + length, high)
        if up and start == 0:
            text = text.lstrip()  # what is indented is no heading, and the block would be below a line of text
        at = start if up else len(self.buffer) - len(part) + start
        self.buffer = self.buffer[:at] + text + self.buffer[at + end - start :]
        changed = part[:start] + text + part[end:]
        self.above, self.below = (changed, self.below) if up else (self.above, changed)


TYPING = st.tuples(st.booleans(), st.integers(0, 60), st.integers(0, 3), TEXT)


@given(PIECES, st.lists(st.tuples(st.lists(TYPING, max_size=3), st.lists(TYPING, max_size=2), st.booleans())))
def test_what_is_typed_and_what_arrives_are_both_there(pieces: list[str], steps: list) -> None:  # type: ignore[type-arg]
    """A change that the editor refuses since somebody typed, and one told late with typing in it, lose nothing."""
    author = Author()
    document = Document.from_text(author.text)
    reading, overlay = ArrivingReplies(document), Overlay(author.text, author.text)
    place = Place(line=document.pending[0].line)
    reading.take(Asked(ChatRequest(()), "M/m"), place)
    moments = [*steps[: len(pieces)], *[([], [], True)] * (len(pieces) - len(steps))]
    for piece, (before, after, together) in zip(pieces, moments, strict=True):
        reading.take(TextDelta(piece), place)
        overlay.sent = reading.draft(overlay.author)
        for typed in before:
            author.type(*typed)
            overlay.typed(author.buffer)
        if overlay.sent is not None and not before:  # else the editor refuses it: it is for another version
            author.buffer = overlay.sent
            if not together:
                overlay.typed(author.buffer)
            for typed in after:
                author.type(*typed)
                if not together:
                    overlay.typed(author.buffer)
            overlay.typed(author.buffer)
        overlay.sent = None
        assert overlay.author == author.text
        assert overlay.shown == author.buffer
    reading.take(Reply("".join(pieces), "M/m"), place)
    whole = talking.answered(author.text, model=ScriptedModel(["".join(pieces)], name="M/m"))
    if "".join(pieces).strip():
        drafted = reading.draft(overlay.author)  # which knows the text that was asked about
        one, two = (re.sub(r" +~~text: .*\n", "", text) for text in (drafted or "", whole.text))
        assert one == two


@given(st.integers(0, 200), TEXT.filter(bool))
def test_who_changes_the_reply_is_noticed(at: int, text: str) -> None:
    """It is never taken for the author's own text elsewhere."""
    author = Author()
    reading, overlay = ArrivingReplies(Document.from_text(author.text)), Overlay(author.text, author.text)
    place = Place(line=7)
    reading.take(Asked(ChatRequest(()), "M/m"), place)
    reading.take(TextDelta("Green as grass, and as frogs."), place)
    overlay.sent = reading.draft(overlay.author)
    overlay.typed(overlay.sent)
    start = overlay.shown.index("~chat_") + 1
    at = start + at % (overlay.shown.index("~~model") - start)
    try:
        overlay.typed(overlay.shown[:at] + text + overlay.shown[at:])
    except Changed:
        return
    raise AssertionError(overlay)
