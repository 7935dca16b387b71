"""A document open in an editor: its buffer, and changing it while its author types: the text of an arriving reply is
kept apart from what the author wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from lmm.disk.diff import hunks
from lmm.document import Document
from lmm.errors import Changed, DocumentBusy, Failure
from lmm.pipeline import ParsedDocument, Rewrite
from lmm_editor.buffer import Buffer, common_prefix

if TYPE_CHECKING:
    from lmm_editor.server import EditorServer


@dataclass(eq=False)
class Overlay:
    """A buffer that shows more than its author wrote: `shown` is its text, `author` the text without our additions.

    `sent` is a text that was sent to the editor and has not yet arrived in the buffer.

    >>> overlay = Overlay("?: why\\n\\nGreen.\\n", "?: why\\n~reply: Be\\n\\nGreen.\\n")
    >>> overlay.typed("?: why\\n~reply: Be\\n\\nGreen leaves.\\n")
    >>> overlay.author
    '?: why\\n\\nGreen leaves.\\n'
    """

    author: str
    shown: str
    sent: str | None = None

    @property
    def line(self) -> int:
        """The line, from 1, where our additions begin; 0 if there are none."""
        before = common_prefix(self.author, self.shown)
        return self.shown.count("\n", 0, before) + 1 if self.author != self.shown else 0

    def typed(self, now: str) -> None:
        """Process the buffer's new text: the author typed, or the sent text has arrived, or both.

        Raises:
            Changed: our additions were changed.
        """
        possible = [self.shown] if self.sent is None else [self.sent, self.shown]
        for shown in sorted(possible, key=lambda text: _distance(text, now)):
            try:
                self.author = without(self.author, shown, now)
            except Changed as error:
                last = error
            else:
                self.sent = None if shown == self.sent else self.sent
                self.shown = now
                return
        raise last


def _distance(shown: str, now: str) -> int:
    """Return how many lines differ, to find the text in which the author typed: the nearer one."""
    if shown == now:
        return 0
    changed = hunks(shown.splitlines(keepends=True), now.splitlines(keepends=True))
    return sum(end - start + last - first for start, end, first, last in changed)


def without(author: str, shown: str, now: str) -> str:
    """Return `now`, which was `shown`, without the additions in `shown` to `author`, unless the author removed them.

    Raises:
        Changed: the additions were changed.
    """
    if now == shown:
        return author
    if author == shown:
        return now
    ours = _line_hunks(author, shown)
    if all(author[a:b] in now and (c == d or shown[c:d] not in now) for a, b, c, d in ours):
        return now  # the author has undone it in the editor
    for start, end, text in _typings(shown, now):
        if (place := _place(ours, shown, start, end, text)) is not None:
            return author[: place[0]] + text + author[place[1] :]
    version = ParsedDocument(now)
    return "".join(block.source for block in Rewrite(shown, author)(version).blocks)  # several places at once


def _line_hunks(author: str, shown: str) -> list[tuple[int, int, int, int]]:
    """Return where the two texts differ, in whole lines: start and end in `author`, then in `shown`, in characters."""
    old, new = author.splitlines(keepends=True), shown.splitlines(keepends=True)
    found, a, s, line, line_shown = [], 0, 0, 0, 0
    for first, last, begin, end in hunks(old, new):
        a += sum(map(len, old[line:first]))
        s += sum(map(len, new[line_shown:begin]))
        a_end, s_end = a + sum(map(len, old[first:last])), s + sum(map(len, new[begin:end]))
        found.append((a, a_end, s, s_end))
        a, s, line, line_shown = a_end, s_end, last, end
    return found


def _typings(shown: str, now: str) -> list[tuple[int, int, str]]:
    """Return the single change from one text to the other, in its lowest and its highest possible place."""
    before = common_prefix(shown, now)
    after = common_prefix(shown[before:][::-1], now[before:][::-1])
    low = (before, len(shown) - after, now[before : len(now) - after])
    after = common_prefix(shown[::-1], now[::-1])
    before = common_prefix(shown[: len(shown) - after], now[: len(now) - after])
    return [low, (before, len(shown) - after, now[before : len(now) - after])]


def _place(
    ours: Sequence[tuple[int, int, int, int]], shown: str, start: int, end: int, text: str
) -> tuple[int, int] | None:
    """Return where in the author's text something was typed; None if it is in our additions."""
    shift = 0  # offset of characters in the shown text
    for _, a_end, s_start, s_end in ours:
        whole_lines = text.endswith("\n") or (not text and shown[start - 1 : start] in ("", "\n"))
        if end < s_start or (end == s_start and whole_lines):
            break
        if start < s_end:
            return None
        shift = s_end - a_end
    return start - shift, end - shift


CHATMD = ".chatmd"
_ANSWER = 10.0  # seconds within which an editor must answer whether it applied a change
_ECHO = 2.0  # seconds within which an applied change is reported; some editors collect notifications
_REFUSED = 0.3  # seconds within which the author's change arrives because of which an editor refused ours
_REFUSALS = 2  # refusals in a row that are tolerated
_TRIES = 100  # in case the author types faster than the editor applies changes

Rebase = Callable[[str], tuple[str, tuple[Failure, ...]]]


class OpenDocument:
    """A buffer, and the work running in it. `path` is None for a text without a file."""

    def __init__(self, server: EditorServer, item: lsp.TextDocumentItem) -> None:
        self.server, self.uri = server, item.uri
        self.buffer = Buffer(item.text, item.version, server.workspace.position_encoding)
        path = to_fs_path(item.uri) if item.uri.startswith("file:") else None
        self.path = Path(path) if path else None
        self.is_chat = item.language_id == "chatmd" or item.uri.endswith(CHATMD)
        self.running: dict[int, asyncio.Task[Any]] = {}  # by the line of the prompt; 0 for all
        self.overlays: dict[int, Overlay] = {}  # their overlays, with the shown parts of replies
        self.cancels: dict[int, Callable[[], object]] = {}  # functions that end them, keeping answers that have arrived
        self.checking: asyncio.Task[None] | None = None
        self.resting: asyncio.Task[None] | None = None  # before a long document is read as a whole again
        self.analysis: Any = None  # the last analysis of a long document (`lmm_editor.diagnostics`)
        self.undone: list[Overlay] = []  # our changes, the last one last
        self.undoing = asyncio.Lock()
        self.refusals = 0  # how often in a row the editor or its user refused a change although nobody typed
        self._overlays: dict[Overlay, Callable[[], object]] = {}  # with functions to call when their text is changed
        self._changed = asyncio.Event()
        self._applying = asyncio.Lock()

    def document(self, **options: Any) -> Document:
        """Return the document with the present text of the buffer."""
        return Document.from_text(self.buffer.text, path=self.path, **options)

    def change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Apply changes of the editor."""
        self.buffer.change(params.content_changes, params.text_document.version)
        for overlay, touched in [*self._overlays.items()]:
            try:
                overlay.typed(self.buffer.text)
            except Changed:
                del self._overlays[overlay]
                touched()
        self._changed.set()

    @contextlib.contextmanager
    def overlay(self, touched: Callable[[], object] = lambda: None) -> Iterator[Overlay]:
        """Open an overlay, which distinguishes our additions to the buffer from what its author types.

        When the author changes our additions, `touched` is called, and the overlay is no longer updated.
        """
        overlay = Overlay(self.buffer.text, self.buffer.text)
        self._overlays[overlay] = touched
        try:
            yield overlay
        finally:
            self._overlays.pop(overlay, None)

    def follows(self, overlay: Overlay) -> bool:
        """Return whether the author has not changed the additions of an overlay."""
        return overlay in self._overlays

    async def show(self, text: str, overlay: Overlay, label: str) -> bool:
        """Change the buffer from the overlay's shown text to `text`; return False if its author was faster."""
        async with self._applying:
            if not self.follows(overlay) or self.buffer.text != overlay.shown or text == overlay.shown:
                return text == overlay.shown
            overlay.sent, version = text, self.buffer.version
            # An editor may not answer, or answer that this is no longer its version.
            with contextlib.suppress(Exception):
                await self._hear(overlay, await self._apply(text, label))
            arrived, overlay.sent = overlay.sent is None, None
            self.refusals = self.refusals + 1 if self.buffer.version == version else 0
            return arrived

    async def _hear(self, overlay: Overlay, applied: bool) -> None:
        """Wait until the buffer has the sent text; if it was refused, wait for the editor's own change."""
        self._changed.clear()
        while overlay.sent is not None and self.follows(overlay):
            await asyncio.wait_for(self._changed.wait(), _ECHO if applied else _REFUSED)
            if not applied:
                return
            self._changed.clear()

    async def _apply(self, text: str, label: str) -> bool:
        edits, known = self.buffer.edits(text), self.server.client_capabilities.workspace
        has_versions = known and known.workspace_edit and known.workspace_edit.document_changes
        edit = self.versioned(edits) if has_versions else lsp.WorkspaceEdit(changes={self.uri: edits})
        params = lsp.ApplyWorkspaceEditParams(edit, label)
        return (await asyncio.wait_for(self.server.workspace_apply_edit_async(params), _ANSWER)).applied

    def versioned(self, edits: Sequence[lsp.TextEdit]) -> lsp.WorkspaceEdit:
        """Return changes that apply to the present version of the text only."""
        which = lsp.OptionalVersionedTextDocumentIdentifier(uri=self.uri, version=self.buffer.version)
        return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(which, [*edits])])

    async def settle(self, rebase: Rebase, overlay: Overlay, label: str) -> tuple[Failure, ...]:
        """Put the result of `rebase` for the author's text into the buffer, retrying as needed; return failures.

        Raises:
            DocumentBusy: the editor refused all changes.
            LmmError: `rebase` failed.
        """
        self.refusals = 0
        for _ in range(_TRIES):
            author = overlay.author
            text, failures = await asyncio.to_thread(rebase, author)
            if overlay.author == author and await self.show(text, overlay, label):
                if overlay.author != overlay.shown:
                    self.undone.append(overlay)
                return failures
            if not self.follows(overlay) or self.refusals > _REFUSALS:
                break
        raise DocumentBusy("the editor took no change", hint="replies are remembered: ask again")
