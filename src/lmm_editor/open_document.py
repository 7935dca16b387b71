"""A document that an editor has open: its buffer, and the way to change it while its author types: what a reply that is
still arriving shows in it is kept apart from what its author wrote.
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
    """A buffer that shows more than its author wrote: `shown` stands there, without us it would be `author`.

    `sent` is what was sent to the editor and has not been seen in the buffer yet.

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
        """The line, from 1, where it begins to show something; 0 if it shows nothing."""
        before = common_prefix(self.author, self.shown)
        return self.shown.count("\n", 0, before) + 1 if self.author != self.shown else 0

    def typed(self, now: str) -> None:
        """Take the buffer's new text: somebody typed, or what was sent has arrived, or both.

        Raises:
            Changed: what the reply shows was changed itself.
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
    """How many lines differ: of the texts that may have been typed in, it is the nearer one."""
    if shown == now:
        return 0
    changed = hunks(shown.splitlines(keepends=True), now.splitlines(keepends=True))
    return sum(end - start + last - first for start, end, first, last in changed)


def without(author: str, shown: str, now: str) -> str:
    """`now`, which was `shown`, without what `shown` has more than `author`.

    Raises:
        Changed: somebody changed that.
    """
    if now == shown:
        return author
    if author == shown:
        return now
    ours = _line_hunks(author, shown)
    for start, end, text in _typings(shown, now):
        if (place := _place(ours, shown, start, end, text)) is not None:
            return author[: place[0]] + text + author[place[1] :]
    version = ParsedDocument(now)
    return "".join(block.source for block in Rewrite(shown, author)(version).blocks)  # several places at once


def _line_hunks(author: str, shown: str) -> list[tuple[int, int, int, int]]:
    """Which characters of the author's are which of those shown, in whole lines, where they differ."""
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
    """The one change from one text to the other, as it could have been made: as far down as possible, and up."""
    before = common_prefix(shown, now)
    after = common_prefix(shown[before:][::-1], now[before:][::-1])
    low = (before, len(shown) - after, now[before : len(now) - after])
    after = common_prefix(shown[::-1], now[::-1])
    before = common_prefix(shown[: len(shown) - after], now[: len(now) - after])
    return [low, (before, len(shown) - after, now[before : len(now) - after])]


def _place(
    ours: Sequence[tuple[int, int, int, int]], shown: str, start: int, end: int, text: str
) -> tuple[int, int] | None:
    """Where in the author's text something was typed; None if that is in ours."""
    shift = 0  # how much further a character stands in what is shown
    for _, a_end, s_start, s_end in ours:
        whole_lines = text.endswith("\n") or (not text and shown[start - 1 : start] in ("", "\n"))
        if end < s_start or (end == s_start and whole_lines):
            break
        if start < s_end:
            return None
        shift = s_end - a_end
    return start - shift, end - shift


CHATMD = ".chatmd"
_ANSWER = 10.0  # seconds that an editor may take to say whether it made a change
_ECHO = 2.0  # seconds after which a change that was made has been told; some editors gather what they tell
_REFUSED = 0.3  # seconds after which the change of its author is known for which an editor refused ours
_REFUSALS = 2  # as often it is tried again
_TRIES = 100  # of an author who types faster than an editor takes changes

Rebase = Callable[[str], tuple[str, tuple[Failure, ...]]]


class OpenDocument:
    """A buffer with what is going on in it. `path` is None for a text that is in no file yet."""

    def __init__(self, server: EditorServer, item: lsp.TextDocumentItem) -> None:
        self.server, self.uri = server, item.uri
        self.buffer = Buffer(item.text, item.version, server.workspace.position_encoding)
        path = to_fs_path(item.uri) if item.uri.startswith("file:") else None
        self.path = Path(path) if path else None
        self.is_chat = item.language_id == "chatmd" or item.uri.endswith(CHATMD)
        self.running: dict[int, asyncio.Task[Any]] = {}  # by the line that was asked at; 0 for all
        self.overlays: dict[int, Overlay] = {}  # of these, what is shown of their replies
        self.cancels: dict[int, Callable[[], object]] = {}  # and what ends them, with what had been asked and answered
        self.checking: asyncio.Task[None] | None = None
        self.resting: asyncio.Task[None] | None = None  # until all of a long document is read again
        self.analysis: Any = None  # of a long document, what was found in it last (`lmm_editor.diagnostics`)
        self.undone: list[Overlay] = []  # what we changed, the last last
        self.refusals = 0  # how often in a row the editor, or who sits there, took no change though nobody typed
        self._overlays: dict[Overlay, Callable[[], object]] = {}  # and what to do when their own text is changed
        self._changed = asyncio.Event()
        self._applying = asyncio.Lock()

    def document(self, **options: Any) -> Document:
        """The document as the editor has it now."""
        return Document.from_text(self.buffer.text, path=self.path, **options)

    def change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Follow the editor."""
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
        """While this is open, what is put into the buffer is told apart from what its author types.

        `touched` is called, and the overlay follows no more, when the author changes what was put there.
        """
        overlay = Overlay(self.buffer.text, self.buffer.text)
        self._overlays[overlay] = touched
        try:
            yield overlay
        finally:
            self._overlays.pop(overlay, None)

    def follows(self, overlay: Overlay) -> bool:
        """Whether its author has left alone what an overlay shows."""
        return overlay in self._overlays

    async def show(self, text: str, overlay: Overlay, label: str) -> bool:
        """Change the buffer from what the overlay shows to `text`; False if its author was faster."""
        async with self._applying:
            if not self.follows(overlay) or self.buffer.text != overlay.shown or text == overlay.shown:
                return text == overlay.shown
            overlay.sent, version = text, self.buffer.version
            # An editor may not answer, or say that this is not its version any more.
            with contextlib.suppress(Exception):
                await self._hear(overlay, await self._apply(text, label))
            arrived, overlay.sent = overlay.sent is None, None
            self.refusals = self.refusals + 1 if self.buffer.version == version else 0
            return arrived

    async def _hear(self, overlay: Overlay, applied: bool) -> None:
        """Wait until the buffer has what was sent; if it was refused, for what the editor has in its place."""
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
        """Changes of the text as it is now, and of no other."""
        which = lsp.OptionalVersionedTextDocumentIdentifier(uri=self.uri, version=self.buffer.version)
        return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(which, [*edits])])

    async def settle(self, rebase: Rebase, overlay: Overlay, label: str) -> tuple[Failure, ...]:
        """Put into the buffer what `rebase` makes of the author's text, as often as it takes; what found no place.

        Raises:
            DocumentBusy: the editor took no change.
            LmmError: `rebase` cannot.
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
