"""Problems of a document as editor diagnostics: those of `lmm scan` and `lmm check`, in the same words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lmm.document import Document
from lmm.errors import Finding, LmmError
from lmm_editor.buffer import common_prefix

if TYPE_CHECKING:
    from chatmd.language.nodes import Problem
    from lmm_editor.open_document import OpenDocument

_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}


_LONG = 200_000  # characters: reading more takes too long for every keystroke
_AROUND = 3  # blocks around a change that are read with it
_ABOVE = "Text.\n\n"  # put before a part of a document, so that it is not read as the beginning


@dataclass(frozen=True)
class Analysis:
    """The problems of one version of a long document; `starts` are the lines, from 0, where its blocks begin."""

    lines: list[str]
    starts: list[int]
    problems: list[Finding]


def problems_of(opened: OpenDocument) -> list[lsp.Diagnostic]:
    """Return the problems of the document in the editor."""
    return _of_chat(opened) if opened.is_chat else _of_markdown(opened)


def _of_markdown(opened: OpenDocument) -> list[lsp.Diagnostic]:
    lines, document = [*opened.buffer.lines], opened.document()
    found = [*document.problems()]
    if len(document.text) > _LONG:
        opened.analysis = Analysis(lines, [block.line - 1 for block in document.blocks], found)
    return [_diagnostic(opened, problem, problem.line, problem.column) for problem in found]


def problems_nearby(opened: OpenDocument) -> list[lsp.Diagnostic]:
    """Return the problems of a long document, reading only the blocks around the change again."""
    known, now = opened.analysis, [*opened.buffer.lines]
    assert known is not None
    above = common_prefix(known.lines, now)
    below = common_prefix(known.lines[above:][::-1], now[above:][::-1])
    shift, gone = len(now) - len(known.lines), len(known.lines) - below
    first = known.starts[max(bisect_right(known.starts, above) - 1 - _AROUND, 0)]
    after = bisect_left(known.starts, gone) + _AROUND
    last = known.starts[after] if after < len(known.starts) else len(known.lines)
    part = Document.from_text(_ABOVE * bool(first) + "".join(now[first : last + shift]), path=opened.path)
    down = first - _ABOVE.count("\n") * bool(first)
    found = [p for p in known.problems if p.line <= first]
    found += [replace(p, line=p.line + down) for p in part.problems()]
    found += [replace(p, line=p.line + shift) for p in known.problems if p.line > last]
    return [_diagnostic(opened, problem, problem.line, problem.column) for problem in found]


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
