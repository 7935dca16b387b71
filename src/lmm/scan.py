"""Work on whole files: complete and check them, answer what they ask, annotate them, run batch models.

Each function opens an `lmm.Document`, calls one verb, and saves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lmm.document import BatchFailed, Document
from lmm.messages import Listener, ignore
from lmm.models.port import ChatModel
from lmm.notebook.answers import Answered
from lmm.notebook.batch import BatchFunction
from lmm.notebook.fields import Visited
from lmm.notebook.problems import Problem
from lmm.pipeline import Report
from lmm.watcher import watch_documents

T = TypeVar("T")

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

    A failed call leaves its prompt in place and is in the report. The author may
    save it meanwhile.
    """
    return _saved(path, config, listener, lambda document: document.answer(at=at, model=model, again=again))


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
    options: dict[str, Any] = {"model": model, "refresh": refresh, "again": again, "estimate": estimate}
    return _saved(path, config, listener, lambda document: document.annotate(*fields, **options))


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
    """Run a registered batch model (or a function) on a file (see `lmm.Document.batch`)."""
    options: dict[str, Any] = {"model": model, "refresh": refresh, "again": again, "estimate": estimate}
    return _saved(path, config, listener, lambda document: document.batch(name, **options))


def _saved(
    path: str | Path, config: str | Path | None, listener: Listener, verb: Callable[[Document], Report[T]]
) -> Report[T]:
    """What a verb did to a document, which is locked, and saved however the work on it ends."""
    with Document.open(path, config=config, listener=listener) as document:
        try:
            report = verb(document)
        finally:
            saved = document.save()
        return report + Report(failures=saved.failures)
