"""Problems of a document as an editor shows them: those of `lmm scan` and `lmm check`, in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lmm.errors import LmmError

if TYPE_CHECKING:
    from lmm_editor.open_document import OpenDocument

_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}


def problems_of(opened: OpenDocument) -> list[lsp.Diagnostic]:
    """The problems of the document as the editor has it."""
    return _of_chat(opened) if opened.is_chat else _of_markdown(opened)


def _of_markdown(opened: OpenDocument) -> list[lsp.Diagnostic]:
    found = opened.document().problems()
    return [_diagnostic(opened, p.line, p.column, p.message, p.hint, p.severity) for p in found]


def _of_chat(opened: OpenDocument) -> list[lsp.Diagnostic]:
    from chatmd.checking import check_text
    from chatmd.errors import InvalidDocument
    from chatmd.runtime.prepare import prepare

    path = opened.path
    assert path is not None
    try:
        found = check_text(opened.buffer.text, path, prepare(path))
    except InvalidDocument as error:
        found = [*error.problems]
    except LmmError as error:  # config.toml, or nobody agreed to it
        return [_diagnostic(opened, 1, 1, error.message, error.hint, "error")]
    return [
        _diagnostic(opened, p.span.line, p.span.column, p.message, p.hint, p.severity)
        for p in found
        if p.span.file in ("", str(path))
    ]


def _diagnostic(opened: OpenDocument, line: int, column: int, message: str, hint: str, severity: str) -> lsp.Diagnostic:
    at = opened.buffer.whole_line(line - 1, column - 1)
    text = f"{message} ({hint})" if hint else message
    return lsp.Diagnostic(at, text, severity=_SEVERITIES[severity], source="lmm")
