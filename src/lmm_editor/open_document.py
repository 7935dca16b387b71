"""A document open in an editor: its buffer, and changes to it, each one versioned edit, while its author types."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from lmm.document import Document
from lmm.errors import DocumentBusy, Failure
from lmm_editor.buffer import Buffer

if TYPE_CHECKING:
    from lmm_editor.server import EditorServer

CHATMD = ".chatmd"
_ANSWER = 10.0  # seconds within which an editor must answer whether it applied a change
_ECHO = 2.0  # seconds within which an applied change is reported; some editors collect notifications
_REFUSED = 0.3  # seconds within which the author's change arrives because of which an editor refused ours
_REFUSALS = 2  # refusals in a row that are tolerated
_TRIES = 100  # in case the author types faster than the editor applies changes

Change = Callable[[str], tuple[str, tuple[Failure, ...]]]
"""A function that returns the author's present text with our change, and what could not be applied."""


class OpenDocument:
    """A buffer, and the work running in it. `path` is None for a text without a file."""

    def __init__(self, server: EditorServer, item: lsp.TextDocumentItem) -> None:
        self.server, self.uri = server, item.uri
        self.buffer = Buffer(item.text, item.version, server.workspace.position_encoding)
        path = to_fs_path(item.uri) if item.uri.startswith("file:") else None
        self.path = Path(path) if path else None
        self.is_chat = item.language_id == "chatmd" or item.uri.endswith(CHATMD)
        self.running: dict[int, asyncio.Task[Any]] = {}  # by the line of the prompt; 0 for all
        self.cancels: dict[int, Callable[[], object]] = {}  # functions that end them, keeping answers that have arrived
        self.checking: asyncio.Task[None] | None = None
        self.reading = 0.0  # seconds that the last check took
        self._changed = asyncio.Event()
        self._applying = asyncio.Lock()

    def document(self, **options: Any) -> Document:
        """Return the document with the present text of the buffer."""
        return Document.from_text(self.buffer.text, path=self.path, **options)

    def change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Apply changes of the editor."""
        self.buffer.change(params.content_changes, params.text_document.version)
        self._changed.set()

    async def put(self, change: Change, label: str) -> tuple[Failure, ...]:
        """Put the result of `change` for the present text into the buffer; if its author types meanwhile, again.

        Return what could not be applied.

        Raises:
            DocumentBusy: the editor refused all changes.
            LmmError: `change` failed.
        """
        refusals = 0
        async with self._applying:
            for _ in range(_TRIES):
                text, version = self.buffer.text, self.buffer.version
                new, failures = await asyncio.to_thread(change, text)
                if new == text:
                    return failures
                if self.buffer.version == version:
                    if await self._apply(new, label):
                        return failures
                    refusals = 0 if self.buffer.version != version else refusals + 1
                if refusals > _REFUSALS:
                    break
        raise DocumentBusy("the editor took no change", hint="replies are remembered: ask again")

    async def _apply(self, text: str, label: str) -> bool:
        """Send the changes to a text, and wait until they are in the buffer; return whether the editor made them."""
        edits, known = self.buffer.edits(text), self.server.client_capabilities.workspace
        has_versions = known and known.workspace_edit and known.workspace_edit.document_changes
        edit = self.versioned(edits) if has_versions else lsp.WorkspaceEdit(changes={self.uri: edits})
        self._changed.clear()
        applied = False
        # An editor may not answer, or answer that this is no longer its version.
        with contextlib.suppress(Exception):
            request = self.server.workspace_apply_edit_async(lsp.ApplyWorkspaceEditParams(edit, label))
            applied = (await asyncio.wait_for(request, _ANSWER)).applied
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), _ECHO if applied else _REFUSED)
        return applied or self.buffer.text == text

    def versioned(self, edits: Sequence[lsp.TextEdit]) -> lsp.WorkspaceEdit:
        """Return changes that apply to the present version of the text only."""
        which = lsp.OptionalVersionedTextDocumentIdentifier(uri=self.uri, version=self.buffer.version)
        return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(which, [*edits])])
