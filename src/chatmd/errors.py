"""The errors of ChatMD, each with a place, a cause and a next step.

::

    LmmError
    ├── LimitReached          a run used up its requests, tokens, money or time, or agents ask agents too deep
    ├── FetchFailed           a document at a URL cannot be fetched
    └── ChatmdError           anything that is raised on purpose here
        ├── InvalidDocument   a document has errors, so that it cannot be interpreted
        ├── NotStorable       a text cannot be stored exactly in a transcript
        ├── ToolNotAvailable  a tool of ochat is not available here
        ├── FileRefused       a file tool may not touch this path
        ├── PatchError        a patch cannot be read, or does not fit
        ├── AnswerRejected    the model's replies do not fit the schema, or do not pass the check
        ├── ConsentNeeded     a file's tools need permissions that were not granted
        ├── StoppedByUser     the user ended the run when asked about a call
        ├── NothingToCompact  a conversation cannot be made shorter
        └── RefineError       a prompt cannot be refined, or its cases cannot be measured
            └── InvalidCases  a file of cases is not valid
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmm.errors import LimitReached as LimitReached, LmmError, NotAgreed

if TYPE_CHECKING:
    from chatmd.language.nodes import Problem


WITHOUT = "the run continues without the tool "
"""How the notice begins that names a tool which is not there."""


class ChatmdError(LmmError):
    """Base of the errors of ChatMD."""


class InvalidDocument(ChatmdError):
    """A document has errors; `problems` are all of them, the message is the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first, more = problems[0], len(problems) - 1
        also = f" (and {more} more: lmm check lists them)" if more else ""
        super().__init__(f"{first.message}{also}", where=first.span.where, hint=first.hint)
        self.problems = problems


class NotStorable(ChatmdError):
    """A text contains a NUL or half of a surrogate pair; `chatmd.language.transcript.storable` replaces them."""


class ToolNotAvailable(ChatmdError):
    """A tool of ochat is not available here; a run goes on without it."""


class FileRefused(ChatmdError):
    """A file tool may not touch a path, or cannot use it."""


class PatchError(ChatmdError):
    """A patch cannot be read, or does not fit the files; nothing was changed."""


class AnswerRejected(ChatmdError):
    """The last reply does not fit the schema or pass the check, and neither did those before."""


class ConsentNeeded(ChatmdError, NotAgreed):
    """A file's tools need permissions that were not granted; nothing was run."""


class StoppedByUser(ChatmdError):
    """The user ended the run when asked about a call, which was not made."""


class NothingToCompact(ChatmdError):
    """A conversation cannot be made shorter; it was not changed."""


class RefineError(ChatmdError):
    """A prompt cannot be refined, or its cases cannot be measured."""


class InvalidCases(RefineError):
    """A file of cases cannot be used as it is."""
