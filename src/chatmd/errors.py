"""What goes wrong with ChatMD, as errors with a place, a cause and a next step.

::

    LmmError
    ├── LimitReached          a run used up its requests, tokens, money or time, or agents ask agents too deep
    ├── FetchFailed           a document at a URL cannot be had
    └── ChatmdError           anything that is raised on purpose here
        ├── InvalidDocument   a document has errors, and something asked for what it means
        ├── NotStorable       a text that no file of ours can hold exactly
        ├── ToolNotAvailable  ochat has this tool, and we have another
        ├── FileRefused       a file tool may not touch this path
        ├── PatchError        a patch cannot be read, or does not fit
        ├── AnswerRejected    the model's replies do not fit the schema, or do not pass the check
        ├── ConsentNeeded     a file's tools could do what nobody has agreed to
        ├── StoppedByUser     asked about a call, the user ended the run
        ├── NothingToCompact  a conversation is as short as it can be made
        └── RefineError       a prompt cannot be refined, or its cases not be measured
            └── InvalidCases  a file of cases is none
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmm.errors import LimitReached as LimitReached, LmmError

if TYPE_CHECKING:
    from chatmd.language.nodes import Problem


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
    """A text holds a NUL or half of a surrogate pair; `chatmd.language.transcript.storable` gives one that does not."""


class ToolNotAvailable(ChatmdError):
    """A tool of ochat that does not exist here; a run goes on without it."""


class FileRefused(ChatmdError):
    """A path that a file tool may not touch, or that names nothing it could."""


class PatchError(ChatmdError):
    """A patch cannot be read, or does not fit the files; nothing was changed."""


class AnswerRejected(ChatmdError):
    """The last reply is not what was asked for, and neither were those before."""


class ConsentNeeded(ChatmdError):
    """A file's tools could do what nobody has agreed to; nothing was run."""


class StoppedByUser(ChatmdError):
    """Asked about a call, the user ended the run; the call was not made."""


class NothingToCompact(ChatmdError):
    """Nothing of a conversation can be told in fewer words; it is as it was."""


class RefineError(ChatmdError):
    """A prompt cannot be refined, or its cases not be measured."""


class InvalidCases(RefineError):
    """A file of cases cannot be used as it is."""
