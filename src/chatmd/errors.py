"""What goes wrong with ChatMD, as errors with a place, a cause and a next step.

::

    LmmError
    └── ChatmdError           anything that is raised on purpose here
        ├── InvalidDocument   a document has errors, and something asked for what it means
        └── NotStorable       a text that no file of ours can hold exactly
"""

from __future__ import annotations

from chatmd.language.nodes import Problem
from lmm.errors import LmmError


class ChatmdError(LmmError):
    """Base of the errors of ChatMD."""


class InvalidDocument(ChatmdError):
    """A document has errors; `problems` are all of them, the message tells the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first, more = problems[0], len(problems) - 1
        also = f" (and {more} more: lmm check lists them)" if more else ""
        super().__init__(f"{first.message}{also}", where=first.span.where, hint=first.hint)
        self.problems = problems


class NotStorable(ChatmdError):
    """A text holds a NUL or half of a surrogate pair; `chatmd.language.transcript.storable` gives one that does not."""
