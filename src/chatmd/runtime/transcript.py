"""A transcript that grows, and one that does so in memory (`chatmd.runtime.transcript_file` has that of a file)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

_BLANK_TURN = re.compile(r"(?:\A|(?<=>))\s*<user>\s*</user>\s*\Z")
_LONGEST_TURN = 1000


class Mark(NamedTuple):
    """A place in a transcript that one can go back to."""

    pieces: int
    size: int


class Transcript(Protocol):
    """A text that is appended to. `folder` is where its payloads go; None keeps them in the text.

    `path` is the file, if there is one.
    """

    @property
    def path(self) -> Path | None: ...

    @property
    def text(self) -> str:
        """All of it, as it is now."""
        ...

    @property
    def folder(self) -> Path | None: ...

    @property
    def newline(self) -> str:
        """What a line of it ends with, as the first one does."""
        ...

    @property
    def end(self) -> str:
        """The last characters of what stands before the next piece."""
        ...

    @property
    def tail(self) -> str:
        """What others wrote behind what we wrote."""
        ...

    def append(self, text: str) -> None:
        """Add to the end of what we wrote."""
        ...

    def since(self, mark: Mark) -> str:
        """What was appended since."""
        ...

    def drop_blank_turn(self) -> None:
        """Remove a ``<user>`` without content from the end, if there is one."""
        ...

    def mark(self) -> Mark:
        """The present end of what we wrote."""
        ...

    def take_back(self, mark: Mark) -> None:
        """Remove what was appended since."""
        ...

    def is_still(self) -> bool:
        """Whether nobody else is in the middle of writing."""
        ...

    @property
    def changed(self) -> bool:
        """Whether others changed the text since `settle` was last asked."""
        ...

    def settle(self) -> bool:
        """What was appended is to stay, and what others wrote behind it: the next piece comes after that.

        Whether others changed the text since this was last asked.
        """
        ...

    def hand_over(self) -> None:
        """It is others' turn to write: what they do to what we wrote is meant, and marks are void."""
        ...

    def restart(self, was: str, text: str) -> bool:
        """Put `text` in the place of all there is, and make marks void; False if it is not `was` any more."""
        ...


@dataclass(slots=True)
class TextTranscript:
    """A transcript in memory; `listener` is told of each piece."""

    begin: str = ""
    folder: Path | None = None
    path: Path | None = None
    _pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return self.begin + "".join(self._pieces)

    @property
    def newline(self) -> str:
        """What its first line ends with."""
        return newline_of(self.begin)

    @property
    def end(self) -> str:
        """Its last characters."""
        return last_of(self.begin, self._pieces)

    @property
    def tail(self) -> str:
        """Nobody else writes."""
        return ""

    def append(self, text: str) -> None:
        """Add to the end."""
        if text:
            self._pieces.append(text)

    def since(self, mark: Mark) -> str:
        """What was appended since."""
        return "".join(self._pieces[mark.pieces :])

    def drop_blank_turn(self) -> None:
        """Remove a ``<user>`` without content from the end."""
        self.begin, self._pieces = without_blank_turn(self.text), []

    def mark(self) -> Mark:
        """The present end."""
        return Mark(len(self._pieces), 0)

    def take_back(self, mark: Mark) -> None:
        """Remove what was appended since."""
        del self._pieces[mark.pieces :]

    def is_still(self) -> bool:
        """Nobody else writes."""
        return True

    @property
    def changed(self) -> bool:
        """Nobody else can change it."""
        return False

    def settle(self) -> bool:
        """Nobody else can change it."""
        return False

    def hand_over(self) -> None:
        """Nobody else can write."""

    def restart(self, was: str, text: str) -> bool:
        """Put `text` in the place of all there is."""
        self.begin, self._pieces = text, []
        return True


def last_of(begin: str, pieces: list[str]) -> str:
    """The last four characters of a text and the pieces behind it."""
    return (begin[-4:] + "".join(pieces[-4:]))[-4:]


def newline_of(text: str) -> str:
    """What the first line of a text ends with.

    >>> newline_of("one\\r\\ntwo\\n"), newline_of("one")
    ('\\r\\n', '\\n')
    """
    return "\r\n" if text.partition("\n")[0].endswith("\r") and "\n" in text else "\n"


def without_blank_turn(text: str) -> str:
    """A text without the ``<user>`` at its end in which nothing is said.

    >>> without_blank_turn("<user>Why?</user>\\n\\n<user>\\n\\n</user>\\n")
    '<user>Why?</user>'
    """
    found = _BLANK_TURN.search(text, max(0, len(text) - _LONGEST_TURN))
    return text[: found.start()] if found else text
