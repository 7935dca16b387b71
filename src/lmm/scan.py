"""Work on whole files: complete and check them, answer what they ask, annotate them, run batch models.

Each function opens an `lmm.Document`, calls one verb, and saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmm.document import BatchFailed, Document
from lmm.messages import Listener, ignore
from lmm.models.port import ChatModel
from lmm.notebook.answers import Answered
from lmm.notebook.batch import BatchFunction
from lmm.notebook.fields import Visited
from lmm.notebook.problems import Problem
from lmm.pipeline import Report
from lmm.watcher import watch_documents

__all__ = [
    "BatchFailed",
    "Problem",
    "scan",
    "scan_batch",
    "scan_messages",
    "scan_rag",
    "watch_documents",
]


def scan(path: str | Path, *, check: bool = False) -> tuple[Problem, ...]:
    """Complete a file's header where ``title`` or ``docid`` is missing, and report its problems.

    With `check`, nothing is written, and what is missing is reported.

    Raises:
        DocumentError: the file cannot be read or written.
    """
    document = Document.open(path)
    if not check and document.complete():
        document.save()
    return document.problems(gaps=check)


def scan_messages(
    path: str | Path,
    *,
    at: int | None = None,
    model: str | ChatModel | None = None,
    again: bool = False,
    config: str | Path | None = None,
    listener: Listener = ignore,
) -> Report[Answered]:
    """Answer the pending prompts of a file and save it; nothing else in it changes (see `lmm.Document.answer`).

    A failed call leaves its prompt in place and is in the report. What the author saved meanwhile is merged.
    """
    with _saved(path, config, listener) as document:
        return document.answer(at=at, model=model, again=again)


def scan_rag(
    path: str | Path,
    *fields: str,
    model: str | ChatModel | None = None,
    refresh: bool = False,
    again: bool = False,
    estimate: bool = False,
    config: str | Path | None = None,
    listener: Listener = ignore,
) -> Report[Visited]:
    """Add annotations to a file: those named, or as configured (see `lmm.Document.annotate`)."""
    with _saved(path, config, listener) as document:
        return document.annotate(*fields, model=model, refresh=refresh, again=again, estimate=estimate)


def scan_batch(
    name: str | BatchFunction,
    path: str | Path,
    *,
    model: str | ChatModel | None = None,
    refresh: bool = False,
    again: bool = False,
    estimate: bool = False,
    config: str | Path | None = None,
    listener: Listener = ignore,
) -> Report[Visited]:
    """Run a registered batch model (or a function) on a file (see `lmm.Document.run`)."""
    with _saved(path, config, listener) as document:
        return document.run(name, model=model, refresh=refresh, again=again, estimate=estimate)


@contextmanager
def _saved(path: str | Path, config: str | Path | None, listener: Listener) -> Iterator[Document]:
    """A document, locked; it is saved however the work on it ends."""
    with Document.open(path, config=config, listener=listener) as document:
        try:
            yield document
        finally:
            document.save()
