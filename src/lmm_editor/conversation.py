"""Editor features for ChatMD files: lenses, completion, hover, semantic tokens; and a run that writes to the buffer."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from chatmd.chat import Chat
from chatmd.checking import check_text
from chatmd.errors import InvalidDocument
from chatmd.language.agent import attribute_spans
from chatmd.language.nodes import Element, walk
from chatmd.language.syntax import parse
from chatmd.language.tags import TAGS
from chatmd.runtime.runner import prepare
from chatmd.runtime.transcript_file import without_blank_turn
from chatmd.sidecar import PICTURES
from chatmd.tools.registry import BUILTINS
from lmm import terminal
from lmm.disk.files import read_document
from lmm.disk.folder import Folder
from lmm.errors import Changed, Failure, Finding, LmmError
from lmm.messages import RunResult
from lmm.models.tokens import published_models
from lmm.providers import PROVIDERS
from lmm_editor.notebook import WorkProgress, diagnostic, files_below, lens, replacing, shown_on_hover

if TYPE_CHECKING:
    from lmm_editor.open_document import OpenDocument

_ATTRIBUTE = re.compile(r"<(?P<tag>\w+)(?:\s+\w+(?:=\"[^\"]*\")?)*\s+\w*\Z")
_VALUE = re.compile(r"<(?P<tag>\w+)\s[^<>]*\b(?P<name>\w+)=\"(?P<typed>[^\"]*)\Z")
_SHOWN = 1500
_SAY = "\n<user>\n\n</user>\n"


def elements(opened: OpenDocument) -> list[Element]:
    """Return the elements of the text, at any depth."""
    return [node for node, _ in walk(parse(opened.buffer.text).children) if isinstance(node, Element)]


def code_lenses(opened: OpenDocument) -> list[lsp.CodeLens]:
    """Return lenses on the last turn: Run and Say, or Stop while it runs."""
    turns = [one for one in elements(opened) if one.tag in ("msg", "user", "assistant", "tool_response")]
    line = turns[-1].span.line if turns else 1
    if opened.running:
        return [lens(opened, line, "Stop", "cancel", 0)]
    return [lens(opened, line, "Run", "run"), lens(opened, line, "Say", "say")]


def complete(opened: OpenDocument, at: lsp.Position) -> list[lsp.CompletionItem]:
    """Complete tags, attributes, built-in tools, models, files."""
    before = opened.buffer.lines[at.line][: opened.buffer.offset(at) - opened.buffer.starts[at.line]]
    if f"_{before.rpartition('<')[2]}".isidentifier() and "<" in before:
        return [lsp.CompletionItem(t.name, kind=lsp.CompletionItemKind.Keyword, detail=t.help) for t in TAGS.values()]
    if (match := _VALUE.search(before)) and match["tag"] in TAGS:
        names = _values(opened, match["tag"], match["name"], match["typed"])
        return replacing(opened, at, match["typed"], names, lsp.CompletionItemKind.Value)
    if (match := _ATTRIBUTE.search(before)) and match["tag"] in TAGS:
        kind = lsp.CompletionItemKind.Property
        return [lsp.CompletionItem(a.name, kind=kind, detail=a.help) for a in TAGS[match["tag"]].attributes]
    return []


def _values(opened: OpenDocument, tag: str, name: str, typed: str) -> list[str]:
    if (tag, name) == ("tool", "name"):
        return sorted(BUILTINS)
    if name == "model" and "/" in typed:
        provider = typed.partition("/")[0]
        return [f"{provider}/{model}" for model in published_models(provider)]
    if name == "model":
        return ["major", "minor", "aux", *(f"{provider.name}/" for provider in PROVIDERS.values() if provider.chats)]
    if name in ("src", "agent"):
        named = {"agent": (".chatmd",), "img": PICTURES}.get(name if name == "agent" else tag)
        return files_below(opened.path, typed, *([named] if named else []))
    return []


def hover(opened: OpenDocument, at: lsp.Position) -> lsp.Hover | None:
    """Describe an element, with the beginning of the file that it names. Nothing is fetched."""
    offset = opened.buffer.offset(at)
    enclosing = [one for one in elements(opened) if one.opening.start <= offset < one.opening.end]
    if not enclosing:
        return None
    element = enclosing[-1]
    src, text = element.get("src") or "", ""
    about = f"`<{element.tag}>`: {TAGS[element.tag].help}"
    if src and element.tag in ("doc", "import", "agent"):
        if "://" in src or opened.path is None:
            message = f"{src} is read when the chat runs"
        else:
            try:
                text = read_document(Folder(opened.path.parent).path(src))
                message = f"{len(text):,} characters"
            except LmmError as error:
                message = error.at_prompt
        about += f"\n\n{message}"
    return shown_on_hover(about, text, _SHOWN)


def semantic_tokens(opened: OpenDocument) -> lsp.SemanticTokens:
    """Return tokens for known tags and attributes."""
    found = []
    for element in elements(opened):
        found.append((element.opening.start + 1, len(element.tag), 0))
        if element.closing is not None:
            found.append((element.closing.start + 2, len(element.tag), 0))
        found += [(span.start, len(name), 1) for name, span in attribute_spans(element).items()]
    data, line, character = list[int](), 0, 0
    for start, length, kind in sorted(found):
        at = opened.buffer.position(start)
        data += [at.line - line, at.character - (character if at.line == line else 0), length, kind, 0]
        line, character = at.line, at.character
    return lsp.SemanticTokens(data)


def problems(opened: OpenDocument) -> list[lsp.Diagnostic]:
    """Return the problems that `lmm check` would report."""
    path = opened.path or Path.cwd() / "new.chatmd"
    try:
        found = check_text(opened.buffer.text, path, prepare(path))
    except InvalidDocument as error:
        found = [*error.problems]
    except LmmError as error:  # about config.toml, or it was not approved
        return [diagnostic(opened, Finding(1, 1, error.message, error.hint), 1, 1)]
    return [diagnostic(opened, p, p.span.line, p.span.column) for p in found if p.span.file in ("", str(path))]


# -- a run -----------------------------------------------------------------------------------------


async def run(opened: OpenDocument) -> None:
    """Run the chat in the buffer; each finished element of the transcript is written there.

    Raises:
        LmmError: it has errors, its tools were not approved, or its model did not answer. The transcript so far stays.
        Changed: its author changed the end of the transcript; the run is cancelled.
    """
    loop, folder = asyncio.get_running_loop(), opened.path.parent if opened.path else Path()
    chat = await asyncio.to_thread(Chat.from_text, opened.buffer.text, folder=folder)
    before, elements, inserted = chat.text, list[str](), ""

    def confirm(question: str) -> bool:
        asked = asyncio.run_coroutine_threadsafe(opened.server.choose(question, "Agree", "Do not agree"), loop)
        return asked.result() == "Agree"

    def written(author: str) -> tuple[str, tuple[Failure, ...]]:
        """Put our elements after those that are there; the first after the text that was sent, else at the end."""
        added = "".join(elements)
        if inserted and author.count(inserted) != 1:
            raise Changed(author.encode(), opened.path or Path(opened.uri))
        above = author.partition(inserted)[0] if inserted else before if author.startswith(before) else author
        below = author[len(above) + len(inserted) :]
        turn = chat.transcript[len(before) + len(added) :]
        return f"{above}{added}{below if below.strip() else turn}".removesuffix("\n") + "\n", ()

    async def watch() -> RunResult | None:
        nonlocal inserted
        result = None
        async with aclosing(chat.stream(confirm=confirm)) as events:
            async for event, _ in events:
                result = event if isinstance(event, RunResult) else result
                transcript = without_blank_turn(chat.transcript)
                if added := transcript[len(before) + sum(map(len, elements)) :]:
                    elements.append(added)
                if added or (result and elements):
                    await opened.put(written, "lmm: run")
                    inserted = "".join(elements)
        return result

    running = asyncio.create_task(watch())
    opened.cancels[0] = chat.cancel
    async with WorkProgress(opened, "Running", running) as progress:
        try:
            await asyncio.wait((running,))
        finally:
            running.cancel()
        result = None if running.cancelled() else running.result()
        progress.end = terminal.usage_text(result.usage) if result and not result.cancelled else "stopped"


def place_to_say(text: str) -> tuple[str, int]:
    """Return the text with an empty user message at its end, and the line, from 1, to write in."""
    match = re.search(r"<user>[ \t]*\n?([ \t]*\n)?[ \t]*</user>\s*\Z", text)
    text = text if match else text.rstrip("\n") + "\n" + _SAY
    at = text.rindex("<user>")
    return text, text.count("\n", 0, at) + 2
