"""The server: which request of an editor is answered by what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from lmm.disk import trust
from lmm.document import Document
from lmm.errors import LmmError, Place, Untrusted
from lmm.messages import Event, Notice
from lmm_editor import notebook
from lmm_editor.asking import ask
from lmm_editor.diagnostics import problems_of
from lmm_editor.open_document import OpenDocument
from lmm_editor.overlay import without

_QUIET = 0.02  # seconds without a change, before a document is read


class EditorProtocol(LanguageServerProtocol):
    """The protocol, but for the texts: `Buffer` keeps them. pygls ends lines at U+2028 and the like, too, and is slow
    on long documents."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> Iterator[Any]:
        """Hand it on."""
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Iterator[Any]:
        """Hand it on."""
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class EditorServer(LanguageServer):
    """Serves one editor. Each document that it has open is an `OpenDocument`."""

    def __init__(self) -> None:
        super().__init__("lmm", version("lmmarkdown"), protocol_cls=EditorProtocol)
        self.documents: dict[str, OpenDocument] = {}
        self.streams = True
        self._tasks: set[asyncio.Task[None]] = set()
        for method, feature, options in self._features():  # partial: pygls writes attributes on what it registers
            self.feature(method, options)(partial(feature))
        for name, command in self._commands().items():
            self.command(f"lmm.{name}")(partial(command))

    def _features(self) -> list[tuple[str, Callable[..., Any], Any]]:
        actions = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorRewrite])
        return [
            (lsp.INITIALIZE, self.initialize, None),
            (lsp.SHUTDOWN, self.end, None),
            (lsp.TEXT_DOCUMENT_DID_OPEN, self.did_open, None),
            (lsp.TEXT_DOCUMENT_DID_CHANGE, self.did_change, None),
            (lsp.TEXT_DOCUMENT_DID_CLOSE, self.did_close, None),
            (lsp.TEXT_DOCUMENT_CODE_ACTION, self.code_action, actions),
            (lsp.TEXT_DOCUMENT_CODE_LENS, self.code_lens, None),
        ]

    def _commands(self) -> dict[str, Callable[..., Any]]:
        return {
            "ask": self.ask,
            "askWith": self.ask_with,
            "cancel": self.cancel,
            "undo": self.undo,
        }

    # -- the documents -----------------------------------------------------------------------------

    def initialize(self, params: lsp.InitializeParams) -> None:
        """Take what the client says of itself: ``{"stream": false}`` for replies that arrive whole."""
        self._loop = asyncio.get_running_loop()
        options = params.initialization_options
        if isinstance(options, dict):
            self.streams = options.get("stream", True) is not False

    async def end(self, *_: object) -> None:
        """End what goes on; replies that have arrived are remembered."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def did_open(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """Follow a document."""
        opened = OpenDocument(self, params.text_document)
        self.documents[opened.uri] = opened
        self._check(opened)

    def did_change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Take what was typed."""
        if opened := self.documents.get(params.text_document.uri):
            opened.change(params)
            self._check(opened)

    def did_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Follow it no more; what is asked there ends."""
        if opened := self.documents.pop(params.text_document.uri, None):
            for task in opened.running.values():
                task.cancel()
            self._publish(opened, [])

    # -- diagnostics -------------------------------------------------------------------------------

    def _check(self, opened: OpenDocument) -> None:
        if opened.checking is None or opened.checking.done():
            opened.checking = self.start(self._diagnose(opened))

    async def _diagnose(self, opened: OpenDocument) -> None:
        """Report the problems of the newest version, off the loop, until there is no newer one."""
        while True:
            reported = opened.buffer.version
            await asyncio.sleep(_QUIET)
            if reported != opened.buffer.version:
                continue
            found = await asyncio.to_thread(problems_of, opened)
            if reported == opened.buffer.version:
                self._publish(opened, found)
                return

    def _publish(self, opened: OpenDocument, found: list[lsp.Diagnostic]) -> None:
        version = opened.buffer.version
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(opened.uri, found, version))

    async def code_action(self, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        """What can be mended or asked where the cursor is."""
        opened = self.documents.get(params.text_document.uri)
        return await asyncio.to_thread(notebook.code_actions, opened, params.range) if opened else []

    async def code_lens(self, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        """What can be done with prompts, edits, chats."""
        opened = self.documents.get(params.text_document.uri)
        return await asyncio.to_thread(notebook.code_lenses, opened) if opened else []

    # -- commands: they begin something, and return at once, as some editors wait ---------------------------

    def ask(self, uri: str, line: int, *model: str) -> None:  # pygls knows no defaults
        """Answer the prompts of the block on that line, from 1; on line 0, all."""
        if (opened := self.documents.get(uri)) and not (task := opened.running.get(line)):
            task = self.start(self.trusting(opened, lambda: ask(opened, line or None, *model)))
            opened.running[line] = task
            task.add_done_callback(lambda _: self._ended(opened, line))
            self._refresh()

    def _ended(self, opened: OpenDocument, line: int) -> None:
        opened.running.pop(line, None)
        opened.overlays.pop(line, None)
        opened.cancels.pop(line, None)
        self._refresh()

    def _refresh(self) -> None:
        known = self.client_capabilities.workspace
        if known and known.code_lens and known.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def ask_with(self, uri: str, line: int) -> None:
        """Let the author choose a model, and ask that."""
        if opened := self.documents.get(uri):
            self.start(self.trusting(opened, lambda: self._ask_with(opened, line)))

    async def _ask_with(self, opened: OpenDocument, line: int) -> None:
        settings = await asyncio.to_thread(lambda: opened.document().settings)
        names = dict.fromkeys(str(getattr(settings, tier).model) for tier in ("major", "minor", "aux"))
        if chosen := await self.choose("Which model?", *names):
            self.ask(opened.uri, line, chosen)

    def cancel(self, uri: str, line: int) -> None:
        """End what is asked there."""
        if (opened := self.documents.get(uri)) and (task := opened.running.get(line)):
            opened.cancels.get(line, task.cancel)()

    def undo(self, uri: str) -> None:
        """Take back what we changed last; what the author typed meanwhile stays."""
        if opened := self.documents.get(uri):
            self.start(self._undo(opened))

    async def _undo(self, opened: OpenDocument) -> None:
        if not opened.undone:
            raise LmmError("there is nothing to take back in this document")
        last = opened.undone.pop()
        with opened.overlay() as overlay:
            await opened.settle(lambda text: (without(last.author, last.shown, text), ()), overlay, "lmm: undo")
        opened.undone.pop()  # that of this undoing

    def listen(self, event: Event, place: Place) -> None:
        """Say what its author should know, as it is heard in another thread."""
        if isinstance(event, Notice):
            self._loop.call_soon_threadsafe(self.tell, event.text, lsp.MessageType.Info)

    async def put(self, opened: OpenDocument, verb: Callable[[Document], object], label: str) -> None:
        """Do something to the document that the editor has, and put it there."""
        document = opened.document(listener=self.listen)
        with opened.overlay() as overlay:
            await asyncio.to_thread(verb, document)
            for failure in await opened.settle(document.rebased, overlay, label):
                self.tell(str(failure))

    # -- the author --------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let something go on; what goes wrong in it is told."""

        async def watched() -> None:
            try:
                await work
            except LmmError as error:
                self.tell(str(error))

        task = asyncio.get_running_loop().create_task(watched())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def tell(self, text: str, kind: lsp.MessageType = lsp.MessageType.Error) -> None:
        """Say something to the author."""
        self.window_show_message(lsp.ShowMessageParams(kind, text))

    async def choose(self, question: str, *answers: str) -> str:
        """What the author chooses; empty for nothing."""
        actions = [lsp.MessageActionItem(answer) for answer in answers]
        params = lsp.ShowMessageRequestParams(lsp.MessageType.Info, question, actions)
        chosen = await self.window_show_message_request_async(params)
        return chosen.title if chosen else ""

    async def trusting(self, opened: OpenDocument, act: Callable[[], Awaitable[None]]) -> None:
        """Do something; where a config.toml that came with the folder asks for more than the folder, ask first.

        Raises:
            Untrusted: the author did not agree.
        """
        from lmm.config_files import locate_config
        from lmm.permissions import missing_permissions

        try:
            return await act()
        except Untrusted:
            config = locate_config(None, opened.path)
            asked = missing_permissions(config)
            if not asked or config.path is None:
                raise
            wants = "\n".join(map(str, asked))
            question = f"{config.path} reaches beyond its folder (servers, keys, files elsewhere):\n{wants}\nAgree?"
            if await self.choose(question, "Trust", "Do not trust") != "Trust":
                raise
            trust.approve(config.path, config.text)
        await act()


def create_server() -> EditorServer:
    """A server that was not started."""
    return EditorServer()
