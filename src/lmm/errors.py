"""Errors with a place, a cause and a next step.

::

    LmmError                    anything we raise on purpose
    ├── DocumentError           a document on disk cannot be read or written
    │   ├── FileReadError
    │   │   └── FileMissing     there is nothing at a path that was named
    │   ├── FileWriteError
    │   ├── Changed             the file was changed since we read it
    │   ├── DocumentBusy        another process holds the document's lock
    │   └── LinkOutside         a link leads out of the folder that contains it
    ├── MetadataError           a metadata block cannot be read or edited safely
    ├── EditError               accepting an edit would lose text
    ├── ConfigError             config.toml, the environment or a header has an unknown or invalid setting
    ├── NotAgreed               a file asks for something that the user has not agreed to
    │   └── Untrusted           a config.toml requests something beyond its folder; a ConfigError, too
    ├── FetchFailed             a document at a URL cannot be fetched
    ├── LimitReached            a limit is reached: tokens, money, requests, time
    └── ModelError              a model did not answer
        ├── ModelNotInstalled   the package for this provider is missing
        ├── ModelKeyMissing     no API key, or one that the provider refuses
        ├── ModelNotFound       the provider has no such model
        ├── ModelBusy           429: too many requests, or no quota left
        ├── ModelUnavailable    5xx, refused or broken connection
        ├── ModelTimeout        nothing arrived within the configured time
        ├── ModelRejected       any other refusal (a bad parameter, a filter)
        │   └── TooLong         the request does not fit into the model's window
        ├── EmptyReply          the model returned no text
        ├── NoEdit              the model proposed no new text: it refused, or sees nothing to change
        ├── NoValidReply        no reply was valid: not JSON, or not according to the schema
        └── Interrupted         the call was ended from outside: Ctrl-C, a cancelled task
    PartlyFailed                some places got no reply; `report` has the other replies
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Place:
    """A position: file, line (from 1; 0: no line), and the path of headings (or agents), outermost first.

    >>> print(Place("notes.md", 12, 3)), print(Place(line=4))
    notes.md:12:3
    text:4
    (None, None)
    """

    file: str = ""
    line: int = 0
    column: int = 0
    end: int = 0
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        numbers = [str(n) for n in (self.line, self.column) if n]
        return ":".join([_on_one_line(self.file) or "text", *numbers]) if self.file or numbers else ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a document; `line` and `column` count from 1. An ``error`` makes `lmm scan` exit with 1.

    `fix` is the correct line, if that is certain.
    """

    line: int
    column: int
    message: str
    hint: str
    severity: Literal["error", "warning"] = "error"
    fix: str | None = None


def _on_one_line(name: str) -> str:
    """Escape line ends, which a file's name may have: a second line would look like another error."""
    return name.replace("\n", "\\x0a")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown `word`: the most similar known word, else all known ones.

    >>> nearest("mayor", ["major", "minor"]), nearest("x", ["major", "minor"]), nearest("rag", ["storage", "RAG"])
    ("did you mean 'major'?", 'known: major, minor', "did you mean 'RAG'?")
    >>> nearest("doc", ["types", "documents"])
    "did you mean 'documents'?"
    """
    import difflib  # 3 ms, and every command imports this module

    known = list(known)
    close = difflib.get_close_matches(word.lower(), alike := {one.lower(): one for one in known}, n=1)
    close = close or [one for one in alike if len(word) > 2 and one.startswith(word.lower())]
    return f"did you mean '{alike[close[0]]}'?" if close else "known: " + ", ".join(known)


class LmmError(Exception):
    """Base of our errors: what happened, where, and what to do next, in a shell and in Python.

    >>> print(LmmError("the file is not UTF-8", where="notes.md:3:7", hint="convert it with iconv"))
    notes.md:3:7: the file is not UTF-8 (convert it with iconv)
    """

    is_usage = False
    """Whether the command was called in a wrong way, so that it ends with exit code 2."""

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __str__(self) -> str:
        return self._with(self.hint + _in_python(self.hint))

    @property
    def at_prompt(self) -> str:
        """The error for someone who types commands: its hint does not say what to write in Python."""
        return self._with(self.hint)

    def _with(self, hint: str) -> str:
        place = f"{_on_one_line(self.where)}: " if self.where else ""
        return f"{place}{self.message}{f' ({hint})' if hint else ''}"


IN_PYTHON: dict[str, str] = {}
"""What to write in Python for ``lmm COMMAND`` and ``--option`` in hints: classes add what their methods do."""


def _in_python(hint: str) -> str:
    """Return what to write in Python for the commands and options in a hint.

    >>> from lmm import Document
    >>> _in_python("lmm annotate --again FILE, or change the setting back")
    '; in Python document.annotate(), again=True'
    """
    words = re.findall(r"\blmm \w+(?: \w+)?|(?<![\w-])--[a-z]+\b(?!-)", hint)
    found = [call for word in words if (call := IN_PYTHON.get(word) or IN_PYTHON.get(word.rpartition(" ")[0]))]
    return f"; in Python {', '.join(dict.fromkeys(found))}" if found and "in Python" not in hint else ""


class DocumentError(LmmError):
    """A document cannot be read or written."""


class FileReadError(DocumentError):
    """The file is missing, a directory, not readable, or not UTF-8."""


class FileMissing(FileReadError):
    """There is nothing at a path that was named."""

    is_usage = True


class FileWriteError(DocumentError):
    """The file could not be replaced; its old contents are intact."""


class Changed(DocumentError):
    """The file was changed since we read it; `theirs` is its present content, None if it is gone."""

    def __init__(self, theirs: bytes | None, path: Path, *, line: int = 0) -> None:
        where = f"{path}:{line}" if line else str(path)
        super().__init__("the file was changed meanwhile", where=where, hint="run again")
        self.theirs = theirs


class DocumentBusy(DocumentError):
    """Another process is working on this document."""


class LinkOutside(DocumentError):
    """A link leads out of its folder, or is where links are not allowed; its target was not touched."""


class MetadataError(LmmError):
    """A metadata block cannot be read, or cannot be edited without changing other bytes.

    `line` and `column` count from 1 within the block's body.
    """

    def __init__(self, message: str, *, line: int = 1, column: int = 1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line, self.column = line, column


class EditError(LmmError):
    """Edits were not accepted, because text would be lost; `accepted` others were.

    `losses` lists the line of each edit's block and the text of the loss.
    """

    def __init__(
        self, losses: Sequence[tuple[int, str]], *, where: str = "", hint: str = "", accepted: int = 0
    ) -> None:
        line, first = losses[0]
        more = f" (and {len(losses) - 1} more)" if len(losses) > 1 else ""
        super().__init__(f"accepting the edit at line {line} would lose text: {first}{more}", where=where, hint=hint)
        self.losses, self.accepted = tuple(losses), accepted


class ConfigError(LmmError):
    """A setting is unknown, missing or of the wrong type."""

    is_usage = True


class NotAgreed(LmmError):
    """A file, which may be a stranger's, asks for something that the user has not agreed to; nothing was done."""

    is_usage = True


class Untrusted(ConfigError, NotAgreed):
    """A config.toml that may be a stranger's requests something beyond its folder that the user has not approved."""


class ModelError(LmmError):
    """A model did not answer. `retry_after` is in seconds, if the server named a time."""

    retryable = False

    def __init__(self, message: str, *, where: str = "", hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.retry_after = retry_after


class ModelNotInstalled(ModelError):
    """The package that talks to the provider is not installed."""


class ModelKeyMissing(ModelError):
    """No key was found for the provider, or the provider refused it (401, 403)."""


class ModelNotFound(ModelError):
    """The provider has no such model (404)."""


class ModelBusy(ModelError):
    """Too many requests (429)."""

    retryable = True


class ModelUnavailable(ModelError):
    """The server failed (5xx), or the connection was refused or cut."""

    retryable = True


class ModelTimeout(ModelError):
    """Nothing arrived within the configured time."""

    retryable = True


class ModelRejected(ModelError):
    """The provider refused the request for another reason (400, 413, 422)."""


class TooLong(ModelRejected):
    """The request is longer than the model's `window`, in tokens if the server reports it, else 0."""

    def __init__(self, message: str, *, where: str = "", hint: str = "", window: int = 0) -> None:
        super().__init__(message, where=where, hint=hint)
        self.window = window


class EmptyReply(ModelError):
    """The model returned no text."""

    retryable = True


class NoEdit(ModelError):
    """The model was asked for an edit and proposed no new text: it refused, changed nothing, or sent something else."""


class NoValidReply(ModelError):
    """No reply was valid, although the error was sent back to the model."""


class Interrupted(ModelError):
    """The call was cancelled before its reply had arrived."""


class FetchFailed(LmmError):
    """A document at a URL cannot or must not be fetched; no message contains a password or the query of a URL.

    `status` is the HTTP status code, 0 if the server did not answer.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "", status: int = 0) -> None:
        super().__init__(message, where=where, hint=hint)
        self.status = status


class LimitReached(LmmError):
    """A limit on tokens, money, requests or time is reached; the results so far are kept."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A place that got no reply, and the error; `what` names what was to be generated there.

    `unsaved` is set if there is a reply, which could not be put into the document.
    """

    place: Place
    error: LmmError
    what: str = ""
    unsaved: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {f'{self.what}: ' if self.what else ''}{self.error}"


class PartlyFailed(LmmError):
    """Some places got no reply; `report` has the others."""

    def __init__(self, report: Any) -> None:
        first, *others = report.failures
        more = f", and {len(others)} more" if others else ""
        super().__init__(f"{first}{more}", hint="the other results: error.report.results")
        self.report = report
