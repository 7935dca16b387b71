"""What an editor offers in a markdown document: lenses, fixes, folds, symbols, completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lmm.errors import LmmError

if TYPE_CHECKING:
    from lmm_editor.open_document import OpenDocument


def code_lenses(opened: OpenDocument) -> list[lsp.CodeLens]:
    """What can be done with each prompt."""
    found, blocks = list[lsp.CodeLens](), dict[int, int]()
    for asked in opened.running:
        at = opened.overlays[asked].line if asked in opened.overlays else 0
        found.append(lens(opened, at or asked or 1, "Cancel", "cancel", asked))
    for prompt in opened.document().pending:
        first = blocks.setdefault(prompt.block, prompt.line)
        if prompt.line != first:  # all of a block are answered together
            continue
        if not opened.running.keys() & {0, first}:
            found += [lens(opened, first, "Ask", "ask", first), lens(opened, first, "Ask with …", "askWith", first)]
    if opened.undone:
        found.append(lens(opened, opened.undone[-1].line, "Take back", "undo"))
    return found


def lens(opened: OpenDocument, line: int, title: str, command: str, *arguments: object) -> lsp.CodeLens:
    """A lens above a line, from 1."""
    at = opened.buffer.whole_line(line - 1)
    return lsp.CodeLens(at, lsp.Command(title, f"lmm.{command}", arguments=[opened.uri, *arguments]))


def code_actions(opened: OpenDocument, selected: lsp.Range) -> list[lsp.CodeAction]:
    """What `lmm scan --fix` would mend on the lines that are selected."""
    if opened.is_chat:
        return []
    document = opened.document()
    try:
        document.fix()
    except LmmError:
        return []
    edits = opened.buffer.edits(document.text)
    here = [e for e in edits if selected.start.line <= e.range.end.line and e.range.start.line <= selected.end.line]
    return [_fix(opened, "Mend this (lmm scan --fix)", here), _fix(opened, "Mend all", edits)] if here else []


def _fix(opened: OpenDocument, title: str, edits: list[lsp.TextEdit]) -> lsp.CodeAction:
    which = lsp.OptionalVersionedTextDocumentIdentifier(uri=opened.uri, version=opened.buffer.version)
    edit = lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(which, [*edits])])
    return lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, edit=edit)
