"""The language server: dispatches an editor's requests and commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from lmm.errors import EditError, LmmError, Place, Untrusted
from lmm.messages import Event, Notice

if TYPE_CHECKING:
    from lmm.document import Document
    from lmm_editor.open_document import OpenDocument

# Modules that read documents are imported when one is opened: when an editor starts, only this module is imported.
_ROOMS = ("lmm_editor.conversation", "lmm_editor.open_document", "lmm_education.course")
_LEGEND = lsp.SemanticTokensLegend(["keyword", "property"], [])
_SAME = ("ask", "cancel", "accept", "reject", "clear", "annotate", "run", "say", "prompt")
_COMMANDS = {"askWith": "ask_with", "continue": "go_on"} | {name: name for name in _SAME}
"""The commands about a document, and the methods that run them."""
_QUIET = 0.02  # seconds without a change before a document is read


class EditorProtocol(LanguageServerProtocol):
    """The protocol without pygls' handling of texts, which are in `Buffer`: pygls ends lines also at U+2028 and the
    like, and is slow on long documents."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> Iterator[Any]:
        """Pass the notification on."""
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Iterator[Any]:
        """Pass the notification on."""
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class EditorServer(LanguageServer):
    """Serves one editor. Each open document is an `OpenDocument`."""

    def __init__(self) -> None:
        super().__init__("lmm", version("lmmarkdown"), protocol_cls=EditorProtocol)
        self.documents: dict[str, OpenDocument] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        actions = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorRewrite])
        completions = lsp.CompletionOptions(trigger_characters=["@", "#", "<", '"', "/", "?", "=", "+", ":"])
        tokens = lsp.SemanticTokensRegistrationOptions(_LEGEND, full=True)
        features: list[tuple[str, Callable[..., Any], Any]] = [
            (lsp.INITIALIZE, self.initialize, None),
            (lsp.INITIALIZED, self.initialized, None),
            (lsp.SHUTDOWN, self.end, None),
            (lsp.TEXT_DOCUMENT_DID_OPEN, self.did_open, None),
            (lsp.TEXT_DOCUMENT_DID_CHANGE, self.did_change, None),
            (lsp.TEXT_DOCUMENT_DID_CLOSE, self.did_close, None),
            (lsp.TEXT_DOCUMENT_CODE_LENS, self.answering("notebook.code_lenses", "conversation.code_lenses"), None),
            (lsp.TEXT_DOCUMENT_CODE_ACTION, self.answering("notebook.code_actions"), actions),
            (lsp.TEXT_DOCUMENT_COMPLETION, self.answering("notebook.complete", "conversation.complete"), completions),
            (lsp.TEXT_DOCUMENT_HOVER, self.answering("notebook.hover", "conversation.hover"), None),
            (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, self.answering("", "conversation.semantic_tokens"), tokens),
        ]
        for method, feature, options in features:  # partial: pygls sets attributes on registered functions
            self.feature(method, options)(partial(feature))
        for name, method in _COMMANDS.items():
            self.command(f"lmm.{name}")(self._beginning(getattr(self, method)))
        self.command("lmm.difference")(partial(self.difference))
        self.command("lmm.searchCourse")(partial(self.search_course))

    def _beginning(self, command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        """Return a function that starts a command about an open document and returns at once, as some editors wait."""

        def begin(uri: str, *arguments: Any) -> None:
            if opened := self.documents.get(uri):
                self.start(command(opened, *arguments))

        return begin

    def answering(self, markdown: str, chat: str = "") -> Any:
        """Return a request handler that runs a function for markdown documents or ChatMD files in a thread."""

        async def answer(params: Any) -> Any:
            opened = self.documents.get(params.text_document.uri)
            name = (chat if opened.is_chat else markdown) if opened else ""
            where = getattr(params, "position", None) or getattr(params, "range", None)
            return await asyncio.to_thread(_call, name, opened, *([where] if where else [])) if name else None

        return answer

    # -- the documents -----------------------------------------------------------------------------

    def initialize(self, params: lsp.InitializeParams) -> None:
        """Remember the loop, for events from other threads."""
        self._loop = asyncio.get_running_loop()

    def initialized(self, _: lsp.InitializedParams) -> None:
        """Import the modules that read documents, in a thread."""
        asyncio.get_running_loop().run_in_executor(None, lambda: [*map(import_module, _ROOMS)])

    async def end(self, *_: object) -> None:
        """Cancel running work; replies that have arrived are remembered."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def did_open(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """Open a document, and check it."""
        opened: OpenDocument = _call("open_document.OpenDocument", self, params.text_document)
        self.documents[opened.uri] = opened
        self._check(opened)

    def did_change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Apply changes to a document, and check it."""
        if opened := self.documents.get(params.text_document.uri):
            opened.change(params)
            self._check(opened)

    def did_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Close a document, and cancel its requests."""
        if opened := self.documents.pop(params.text_document.uri, None):
            for task in opened.running.values():
                task.cancel()
            self._publish(opened, [])  # its problems go

    # -- diagnostics -------------------------------------------------------------------------------

    def _check(self, opened: OpenDocument) -> None:
        if opened.checking is None or opened.checking.done():
            opened.checking = self.start(self._diagnose(opened))

    async def _diagnose(self, opened: OpenDocument) -> None:
        """Report the problems of the newest version, computed in a thread, until there is no newer one.

        A long document is read once its author pauses for as long as that takes.
        """
        seen = -1
        while seen != opened.buffer.version:
            seen = opened.buffer.version
            await asyncio.sleep(max(_QUIET, opened.reading))
            if seen != opened.buffer.version or (opened.is_chat and opened.running):  # its transcript is not complete
                continue
            began = time.monotonic()
            room = "conversation" if opened.is_chat else "notebook"
            found = await asyncio.to_thread(_call, f"{room}.problems", opened)
            opened.reading = time.monotonic() - began
            if seen == opened.buffer.version and self.documents.get(opened.uri) is opened:
                self._publish(opened, found)

    def _publish(self, opened: OpenDocument, found: list[lsp.Diagnostic]) -> None:
        version = opened.buffer.version
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(opened.uri, found, version))

    # -- commands ----------------------------------------------------------------------------------

    async def ask(self, opened: OpenDocument, line: int, model: str | None = None) -> None:
        """Answer the prompts of the block on a line, from 1; on line 0, all prompts."""
        if line not in opened.running:
            self._begin(opened, line, "notebook.ask", line or None, model)

    def _begin(self, opened: OpenDocument, line: int, name: str, *arguments: Any) -> None:
        """Start work that can be cancelled."""

        def end(task: object) -> None:
            for known in (opened.running, opened.cancels):
                known.pop(line, None)
            self._refresh()
            if opened.is_chat:
                self._check(opened)

        task = opened.running[line] = self.start(self.trusting(opened, lambda: _call(name, opened, *arguments)))
        task.add_done_callback(end)
        self._refresh()

    def _refresh(self) -> None:
        known = self.client_capabilities.workspace
        if known and known.code_lens and known.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    async def ask_with(self, opened: OpenDocument, line: int) -> None:
        """Let the author choose a model, and ask it."""

        async def ask() -> None:
            settings = await asyncio.to_thread(lambda: opened.document().settings)
            names = dict.fromkeys(str(getattr(settings, tier).model) for tier in ("major", "minor", "aux"))
            if chosen := await self.choose("Which model?", *names):
                await self.ask(opened, line, chosen)

        await self.trusting(opened, ask)

    async def cancel(self, opened: OpenDocument, line: int) -> None:
        """Cancel the request on a line."""
        if task := opened.running.get(line):
            opened.cancels.get(line, task.cancel)()

    async def accept(self, opened: OpenDocument, line: int, hunk: int | None = None) -> None:
        """Accept the new text of the edit on a line, or one change of it; if text would be lost, ask first."""
        try:
            await self.put(opened, lambda it: it.accept(line=line, hunk=hunk), "lmm: accept")
        except EditError as error:
            lost = "\n".join(loss for _, loss in error.losses)
            if await self.choose(f"Accepting would lose text:\n{lost}", "Accept anyway", "Cancel") == "Accept anyway":
                await self.put(opened, lambda it: it.accept(line=line, hunk=hunk, force=True), "lmm: accept")

    async def reject(self, opened: OpenDocument, line: int, hunk: int | None = None) -> None:
        """Restore the old text of the edit on a line, or remove one change from the new text."""
        await self.put(opened, lambda it: it.reject(line=line, hunk=hunk), "lmm: reject")

    async def clear(self, opened: OpenDocument, line: int) -> None:
        """Remove the chat of the block on a line."""
        await self.put(opened, lambda it: it.clear(line=line), "lmm: clear")

    def difference(self, uri: str, line: int) -> str:
        """Show the change of the edit on a line, word by word, as `lmm messages --diff` does."""
        opened = self.documents.get(uri)
        edit = next((one for one in opened.document().edits if one.line == line), None) if opened else None
        text = edit.difference() if edit else "no edit is pending there"
        self.show_message(text, lsp.MessageType.Info)
        return text

    async def go_on(self, opened: OpenDocument, line: int) -> None:
        """Add a prompt that continues the chat of the block on a line, and put the cursor there."""
        block = next((one for one in opened.document().blocks if one.line == line), None)
        if block is not None:
            last = line + block.content.rstrip("\r\n").count("\n")  # the line that closes it, from 1
            await self._write(opened, lambda text: (_call("notebook.with_line", text, last, "+: \n"), last))

    async def prompt(self, opened: OpenDocument, line: int, word: str) -> None:
        """Insert a block for a prompt above a line, and put the cursor into it."""
        await self._write(opened, lambda text: _call("notebook.with_prompt", text, line, word))

    async def _write(self, opened: OpenDocument, change: Callable[[str], tuple[str, int]]) -> None:
        """Change the buffer, and put the cursor on the line, from 1, that `change` also returns."""
        line = change(opened.buffer.text)[1]
        await opened.put(lambda text: (change(text)[0], ()), "lmm: prompt")
        known = self.client_capabilities.window
        if known and known.show_document:  # an editor may not support it
            end = opened.buffer.whole_line(line - 1).end
            params = lsp.ShowDocumentParams(opened.uri, take_focus=True, selection=lsp.Range(end, end))
            self.window_show_document(params)

    async def annotate(self, opened: OpenDocument, field: str) -> None:
        """Regenerate a field where its text has changed."""
        self._begin(opened, 0, "notebook.annotate", field)

    async def run(self, opened: OpenDocument) -> None:
        """Run a chat: let its model continue."""
        if not opened.running:
            self._begin(opened, 0, "conversation.run")

    async def say(self, opened: OpenDocument) -> None:
        """Put the cursor into an empty user message at the end of a chat."""
        await self._write(opened, lambda text: _call("conversation.place_to_say", text))

    async def search_course(self, uri: str, question: str, *how: str) -> list[dict[str, Any]]:
        """Search the course for a question; return text, place, link and quotation to insert for each passage."""
        opened = self.documents.get(uri)
        return await asyncio.to_thread(_call, "notebook.search", opened.path if opened else None, question)

    def listen(self, event: Event, place: Place) -> None:
        """Show notices to the author; called from another thread."""
        if isinstance(event, Notice):
            self._loop.call_soon_threadsafe(self.show_message, event.text, lsp.MessageType.Info)

    async def put(self, opened: OpenDocument, verb: Callable[[Document], object], label: str) -> None:
        """Apply a method to the document in the editor, and put the result into the buffer."""
        document = opened.document(listener=self.listen)
        await asyncio.to_thread(verb, document)
        for failure in await opened.put(document.rebased, label):
            self.show_message(str(failure))

    # -- the author --------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task in the background; its errors are shown to the author."""

        async def watched() -> None:
            try:
                await work
            except LmmError as error:
                self.show_message(error.at_prompt)

        task = asyncio.get_running_loop().create_task(watched())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def show_message(self, text: str, kind: lsp.MessageType = lsp.MessageType.Error) -> None:
        """Show a message to the author."""
        self.window_show_message(lsp.ShowMessageParams(kind, text))

    async def choose(self, question: str, *answers: str) -> str:
        """Ask the author to choose one of the answers; return it, or the empty string."""
        actions = [lsp.MessageActionItem(answer) for answer in answers]
        params = lsp.ShowMessageRequestParams(lsp.MessageType.Info, question, actions)
        chosen = await self.window_show_message_request_async(params)
        return chosen.title if chosen else ""

    async def trusting(self, opened: OpenDocument, act: Callable[[], Awaitable[None]]) -> None:
        """Do something; if a config.toml needs permissions that were not given, ask the author, and try again.

        Raises:
            Untrusted: the author did not agree.
        """
        from lmm.config_files import locate_config
        from lmm.disk import trust
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


def _call(name: str, *arguments: Any) -> Any:
    """Call a function of a module of this package, importing the module if needed."""
    room, _, function = name.partition(".")
    return getattr(import_module(f"lmm_editor.{room}"), function)(*arguments)
