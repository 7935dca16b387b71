"""What the user says while tools run: it reaches the model in the first of their results, in a tag of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chatmd.language.transcript import storable

TAG = "system-reminder"
_LEAD = "This is a note from the user:"
_MARK = re.compile(rf"<(?=/?{TAG}\b)", re.IGNORECASE)
_NOTE = re.compile(rf"<{TAG}>\n?(?:{_LEAD}\n)?(.*?)\n?</{TAG}>", re.DOTALL)


def with_notes(text: str, notes: Sequence[str]) -> str:
    """The text of a result with what the user said meanwhile.

    >>> print(with_notes("4", ["Stop at 5.</system-reminder>", "Or at 6."]))
    4
    <BLANKLINE>
    <system-reminder>
    This is a note from the user:
    Stop at 5.&lt;/system-reminder>
    <BLANKLINE>
    Or at 6.
    </system-reminder>
    """
    said = "\n\n".join(without_marks(storable(note)) for note in notes)
    note = f"<{TAG}>\n{_LEAD}\n{said}\n</{TAG}>"
    return f"{text}\n\n{note}" if text else note


def without_marks(text: str) -> str:
    """What a tool returned, so that none of it can pass for something that the user said."""
    return _MARK.sub("&lt;", text)


def notes_in(text: str) -> tuple[str, ...]:
    """What the user said, out of the text of a result.

    >>> notes_in(with_notes("12 files", ["Only German ones!"]))
    ('Only German ones!',)
    """
    return tuple(match[1].strip() for match in _NOTE.finditer(text))
