"""Work on whole files: complete and check them, answer what they ask, annotate them, run batch models.

Each function opens an `lmm.Document`, calls one verb, and saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from lmm.document import BatchFailed as BatchFailed, Document, ModelOptions, saved
from lmm.messages import Listener, ignore
from lmm.notebook.answers import AnsweredPrompt
from lmm.notebook.batch import BatchFunction
from lmm.notebook.generated_fields import FieldStatus
from lmm.notebook.problem import Finding as Finding
from lmm.pipeline import Report
from lmm.watcher import watch_documents as watch_documents


def scan(path: str | Path, *, check: bool = False) -> tuple[Finding, ...]:
    """Complete a file's header where ``title`` or ``docid`` is missing, and report its problems.

    With `check`, nothing is written, and what is missing is reported.

    Raises:
        DocumentError: the file cannot be read or written.
    """
    document = Document.open(path)
    if not check and document.complete():
        document.save()
    return document.problems(gaps=check)


class Options(ModelOptions, total=False):
    """What each of these takes: `config` and `listener` as `lmm.Document.open`."""

    config: str | Path | None
    listener: Listener


class FieldOptions(Options, total=False):
    """What `lmm.Document.annotate` and `batch` take besides."""

    refresh: bool
    estimate: bool


def scan_messages(path: str | Path, *, at: int | None = None, **options: Unpack[Options]) -> Report[AnsweredPrompt]:
    """Answer the pending prompts of a file and save it; nothing else in it changes (see `lmm.Document.answer`).

    A failed call leaves its prompt in place and is in the report. The author may
    save it meanwhile.
    """
    document, how = _opened(path, options)
    return saved(document, lambda it: it.answer(at=at, **how))


def scan_rag(path: str | Path, *fields: str, **options: Unpack[FieldOptions]) -> Report[FieldStatus]:
    """Add annotations to a file: those named, or as configured (see `lmm.Document.annotate`)."""
    document, how = _opened(path, options)
    return saved(document, lambda it: it.annotate(*fields, **how))


def scan_batch(name: str | BatchFunction, path: str | Path, **options: Unpack[FieldOptions]) -> Report[FieldStatus]:
    """Run a registered batch model (or a function) on a file (see `lmm.Document.batch`)."""
    document, how = _opened(path, options)
    return saved(document, lambda it: it.batch(name, **how))


def _opened(path: str | Path, options: Mapping[str, Any]) -> tuple[Document, dict[str, Any]]:
    """The document, and the options that are its verbs'."""
    how = dict(options)
    return Document.open(path, config=how.pop("config", None), listener=how.pop("listener", ignore)), how
