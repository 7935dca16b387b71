"""Problems of a document as editor diagnostics: those of `lmm scan` and `lmm check`, in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lmm.errors import Finding, LmmError

if TYPE_CHECKING:
    from chatmd.language.nodes import Problem
    from lmm_editor.open_document import OpenDocument

_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}


def problems_of(opened: OpenDocument) -> list[lsp.Diagnostic]:
    """Return the problems of the document in the editor."""
    if opened.is_chat:
        return _of_chat(opened)
    problems = opened.document().problems(results=True)
    return [_diagnostic(opened, problem, problem.line, problem.column) for problem in problems]


def _of_chat(opened: OpenDocument) -> list[lsp.Diagnostic]:
    from chatmd.checking import check_text
    from chatmd.errors import InvalidDocument
    from chatmd.runtime.runner import prepare

    path = opened.path or Path.cwd() / "new.chatmd"
    try:
        found = check_text(opened.buffer.text, path, prepare(path))
    except InvalidDocument as error:
        found = [*error.problems]
    except LmmError as error:  # about config.toml, or it was not approved
        return [_diagnostic(opened, Finding(1, 1, error.message, error.hint), 1, 1)]
    return [_diagnostic(opened, p, p.span.line, p.span.column) for p in found if p.span.file in ("", str(path))]


def _diagnostic(opened: OpenDocument, problem: Finding | Problem, line: int, column: int) -> lsp.Diagnostic:
    at = opened.buffer.whole_line(line - 1, column - 1)
    text = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    return lsp.Diagnostic(at, text, severity=_SEVERITIES[problem.severity], source="lmm")
