"""An editor in a few lines: it starts `lmm lsp`, keeps buffers, makes the changes that the server sends, and types.

Like a careful editor it refuses a change that was made for another version. pytest-lsp's client checks that the server
asks for nothing that the editor did not say it can do.
"""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from edge.support import wait_until
from fakes.forked import forking
from lsprotocol import types as lsp
from pytest_lsp import client_capabilities, make_test_lsp_client

from lmm_editor.buffer import Buffer

T = TypeVar("T")
LANGUAGES = {".md": "markdown", ".Rmd": "rmd", ".qmd": "quarto", ".chatmd": "chatmd"}


class FakeEditor:
    """An editor with a server of its own; a context manager. `buffers` are by the files' names."""

    def __init__(self, folder: Path, *, kind: str = "visual-studio-code", options: object = None) -> None:
        self.folder, self.kind, self.options = folder, kind, options
        self.buffers: dict[str, Buffer] = {}
        self.choices: list[str] = []  # what is chosen when the server asks
        self.questions: list[str] = []
        self.changes: list[str] = []  # the labels of the changes that were made
        self.ends_lines = False  # whether a last line without an end gets one, as in Neovim
        self.before_change: Callable[[], object] = lambda: None  # what is done when a change arrives
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._lock = threading.RLock()

    # -- the session -------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something of the client's."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return done.result(30)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    async def _start(self) -> None:
        self.client = make_test_lsp_client()
        self.client.feature(lsp.WORKSPACE_APPLY_EDIT)(partial(self._apply))
        self.client.feature(lsp.WINDOW_SHOW_MESSAGE_REQUEST)(partial(self._choose))
        self.client.feature(lsp.WORKSPACE_CODE_LENS_REFRESH)(lambda params: None)
        with forking():
            await self.client.start_io(sys.executable, "-m", "lmm", "lsp", cwd=str(self.folder))
        capabilities = client_capabilities(self.kind)
        params = lsp.InitializeParams(capabilities, root_uri=self.folder.as_uri(), initialization_options=self.options)
        self.server = (await self.client.initialize_session(params)).capabilities

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    async def _stop(self) -> None:
        await asyncio.wait_for(self.client.shutdown_session(), 20)
        server = self.client._server
        assert server is not None
        await asyncio.wait_for(server.wait(), 20)
        await self.client.stop()  # type: ignore[no-untyped-call]

    # -- documents ---------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        """The URI of a file of the folder."""
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        """Open a document, which need not be on the disk."""
        self.buffers[name] = Buffer(text, 1, self.server.position_encoding)
        item = lsp.TextDocumentItem(self.uri(name), LANGUAGES[Path(name).suffix], 1, text)
        self.notify(lambda: self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item)))

    def close(self, name: str) -> None:
        """Close it."""
        which = lsp.TextDocumentIdentifier(self.uri(name))
        self.notify(lambda: self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(which)))

    def notify(self, send: Callable[[], None]) -> None:
        """Send a notification of the client's."""

        async def sending() -> None:
            send()

        self.run(sending())

    def text(self, name: str) -> str:
        """What stands in a buffer."""
        with self._lock:
            return self.buffers[name].text

    def type(self, name: str, start: int, end: int, text: str) -> None:
        """Replace a range of a buffer, as somebody who types does."""
        with self._lock:
            buffer = self.buffers[name]
            self._changed(name, [lsp.TextEdit(lsp.Range(buffer.position(start), buffer.position(end)), text)])

    def type_after(self, name: str, mark: str, text: str) -> None:
        """Type behind a word."""
        with self._lock:
            at = self.text(name).index(mark) + len(mark)
            self.type(name, at, at, text)

    def _changed(self, name: str, edits: list[lsp.TextEdit]) -> None:
        """Make changes, whose places are those before any of them, and tell the server."""
        buffer = self.buffers[name]
        ordered = sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True)
        changes = [lsp.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text) for edit in ordered]
        buffer.change(changes, buffer.version + 1)
        if self.ends_lines and not buffer.text.endswith("\n"):
            end = buffer.position(len(buffer.text))
            changes.append(lsp.TextDocumentContentChangePartial(range=lsp.Range(end, end), text="\n"))
            buffer.change(changes[-1:], buffer.version)
        which = lsp.VersionedTextDocumentIdentifier(uri=self.uri(name), version=buffer.version)
        params = lsp.DidChangeTextDocumentParams(which, [*changes])
        self.loop.call_soon_threadsafe(self.client.text_document_did_change, params)

    def _apply(self, params: lsp.ApplyWorkspaceEditParams) -> lsp.ApplyWorkspaceEditResult:
        self.before_change()
        with self._lock:
            for change in params.edit.document_changes or []:
                assert isinstance(change, lsp.TextDocumentEdit)
                name = next(name for name in self.buffers if self.uri(name) == change.text_document.uri)
                if change.text_document.version != self.buffers[name].version:
                    return lsp.ApplyWorkspaceEditResult(applied=False)
                self._changed(name, [edit for edit in change.edits if isinstance(edit, lsp.TextEdit)])
            self.changes.append(params.label or "")
        return lsp.ApplyWorkspaceEditResult(applied=True)

    def _choose(self, params: lsp.ShowMessageRequestParams) -> lsp.MessageActionItem | None:
        self.questions.append(params.message)
        chosen = self.choices.pop(0) if self.choices else ""
        return next((action for action in params.actions or [] if action.title.startswith(chosen)), None)

    # -- what the server says ----------------------------------------------------------------------

    def problems(self, name: str) -> list[lsp.Diagnostic]:
        """What it reports of a document at last, of this version."""
        return list(self.client.diagnostics.get(self.uri(name), []))

    def wait_for_problem(self, name: str, words: str) -> lsp.Diagnostic:
        """The first report with these words."""
        wait_until(lambda: any(words in one.message for one in self.problems(name)))
        return next(one for one in self.problems(name) if words in one.message)

    def which(self, name: str) -> lsp.TextDocumentIdentifier:
        """A document as requests name it."""
        return lsp.TextDocumentIdentifier(self.uri(name))

    def lenses(self, name: str) -> list[lsp.CodeLens]:
        """All lenses of a document."""
        params = lsp.CodeLensParams(self.which(name))
        return [*(self.run(self.client.text_document_code_lens_async(params)) or [])]

    def titles(self, name: str) -> list[tuple[int, str]]:
        """The lines of the lenses, from 1, and what they say."""
        return [(lens.range.start.line + 1, lens.command.title) for lens in self.lenses(name) if lens.command]

    def press(self, name: str, title: str, line: int = 0) -> None:
        """Press a lens: the first of that title, or that on a line."""
        found = [one for one in self.lenses(name) if one.command and one.command.title == title]
        command = next(one.command for one in found if line in (0, one.range.start.line + 1))
        assert command is not None
        self.execute(command.command, *(command.arguments or []))

    def execute(self, command: str, *arguments: Any) -> Any:
        """Run a command of the server's."""
        params = lsp.ExecuteCommandParams(command, arguments=[*arguments])
        return self.run(self.client.workspace_execute_command_async(params))

    def actions(self, name: str, start: int, end: int = 0) -> dict[str, Any]:
        """The code actions for lines, from 1: by their titles the edit, or the command."""
        at = lsp.Range(lsp.Position(start - 1, 0), lsp.Position((end or start) - 1, 0))
        params = lsp.CodeActionParams(self.which(name), at, lsp.CodeActionContext([]))
        found = self.run(self.client.text_document_code_action_async(params)) or []
        # lsprotocol takes an action with a command for the command itself, and this for a text.
        return {one.title: one.command if isinstance(one, lsp.Command) else one.edit for one in found}

    def act(self, name: str, title: str, start: int, end: int = 0) -> None:
        """Choose a code action."""
        chosen: Any = self.actions(name, start, end)[title]
        if isinstance(chosen, lsp.WorkspaceEdit):
            self._apply(lsp.ApplyWorkspaceEditParams(chosen))
        else:
            command = ast.literal_eval(chosen)
            self.execute(command["command"], *command["arguments"])

    def _at(self, name: str, mark: str) -> lsp.Position:
        """The place behind a mark, of several the last."""
        text = self.text(name)
        return self.buffers[name].position(text.rindex(mark) + len(mark))

    def complete(self, name: str, mark: str) -> list[str]:
        """What is offered behind a mark."""
        params = lsp.CompletionParams(self.which(name), self._at(name, mark))
        found = self.run(self.client.text_document_completion_async(params))
        return [item.label for item in (found.items if isinstance(found, lsp.CompletionList) else found or [])]

    def completed(self, name: str, mark: str, label: str) -> str:
        """What becomes of the text up to a mark when an item is chosen there: its last word is replaced, as editors do
        where the item does not say what it replaces."""
        at = self._at(name, mark)
        found = self.run(self.client.text_document_completion_async(lsp.CompletionParams(self.which(name), at)))
        items = found.items if isinstance(found, lsp.CompletionList) else found or []
        item = next(item for item in items if item.label == label)
        buffer = self.buffers[name]
        before = buffer.text[: buffer.offset(at)]
        if isinstance(item.text_edit, lsp.TextEdit):
            return before[: buffer.offset(item.text_edit.range.start)] + item.text_edit.new_text
        return re.sub(r"\w*\Z", "", before) + (item.insert_text or item.label)

    def hover(self, name: str, mark: str) -> str:
        """What is shown behind a mark."""
        found = self.run(self.client.text_document_hover_async(lsp.HoverParams(self.which(name), self._at(name, mark))))
        return found.contents.value if found and isinstance(found.contents, lsp.MarkupContent) else ""

    def tokens(self, name: str) -> list[int]:
        """The semantic tokens, as they are sent."""
        params = lsp.SemanticTokensParams(self.which(name))
        found = self.run(self.client.text_document_semantic_tokens_full_async(params))
        return [*found.data] if found else []

    @property
    def messages(self) -> list[str]:
        """What was said to the author."""
        return [message.message for message in self.client.messages]
