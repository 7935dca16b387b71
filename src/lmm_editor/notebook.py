"""Editor features for markdown documents: lenses, code actions, completion, hover, symbols, definitions, search in the
course; and answering questions in the buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from lsprotocol import types as lsp

from lmm import terminal
from lmm.config import ANNOTATIONS
from lmm.disk.folder import SUFFIXES, Folder
from lmm.document import Document
from lmm.errors import LmmError, Place
from lmm.markdown.blocks import Block, HeadingBlock, MetadataBlock, fenced, serialize
from lmm.markdown.spans import spans
from lmm.markdown.tree import HeadingNode, preorder
from lmm.messages import Asked, Event, Notice, Reply, Retrying, TextDelta, Usage, Waiting, dialogue_text
from lmm.models.tokens import count_tokens, price
from lmm.notebook.answers import AnsweredPrompt, AnswerPlan, AnswerPlanner, Outcomes
from lmm.notebook.chat_log import LOG_KEYS, read_log
from lmm.notebook.edits import EDIT
from lmm.notebook.staleness import State
from lmm.pipeline import ParsedDocument, Report
from lmm.prompts.templates import load_prompts
from lmm_editor.buffer import split_lines
from lmm_editor.open_document import Overlay

if TYPE_CHECKING:
    from lmm_editor.open_document import OpenDocument
    from lmm_education.material import Passage

WORDS = {
    "?: ": "ask about the text below, in a new chat",
    "+: ": "continue the chat",
    "=: ": "ask for another version of the text",
}
KEYS = {
    "title": "of the document",
    "docid": "the name under which the document is stored and cited",
    "lang": "the language, such as de",
    "type": "what kind of material this is, such as exercise",
    "skip": "true: no annotations here",
    "frozen": "true: annotations stay as they are",
    "questions": "that this text answers, for search",
    "keywords": "for search",
    "summary": "for search, and for questions about long texts",
    "model": "the models of this document, by tier",
}
TYPES = ("exercise", "solution", "definition", "example", "summary", "topic")
_MENTION = re.compile(r"@\"?(?P<name>[^\s@\"]*)\Z")
_LINK = re.compile(r"\]\(#?(?P<name>[^\s)]*)\Z")
_LONGEST_HOVER = 4000
_FILES = 200
_MOST = 20
PAUSE = 0.1  # minimum seconds between two changes of the buffer
_SHARE = 4  # a slow change is followed by a pause of so many times its duration


# -- lenses ----------------------------------------------------------------------------------------


def code_lenses(opened: OpenDocument) -> list[lsp.CodeLens]:
    """Return lenses for each prompt, edit, chat and stale annotation, and for undoing our last change."""
    document = opened.document()
    found = [*_prompt_lenses(opened, document), *_edit_lenses(opened, document), *_chat_lenses(opened, document)]
    if opened.undone:
        found.append(lens(opened, opened.undone[-1].line, "Take back", "undo"))
    return [*found, *_stale_lenses(opened, document)]


def lens(opened: OpenDocument, line: int, title: str, command: str, *arguments: object) -> lsp.CodeLens:
    """Return a lens above a line, from 1."""
    at = opened.buffer.whole_line(line - 1)
    return lsp.CodeLens(at, lsp.Command(title, f"lmm.{command}", arguments=[opened.uri, *arguments]))


def _prompt_lenses(opened: OpenDocument, document: Document) -> Iterator[lsp.CodeLens]:
    for asked in opened.running:
        at = opened.overlays[asked].line if asked in opened.overlays else 0
        yield lens(opened, at or asked or 1, "Cancel", "cancel", asked)
    blocks = dict[int, int]()
    for prompt in document.pending:
        first = blocks.setdefault(prompt.block, prompt.line)
        if prompt.line == first and not opened.running.keys() & {0, first}:  # a block is answered as a whole
            yield lens(opened, first, "Ask", "ask", first)
            yield lens(opened, first, "Ask with …", "askWith", first)


def _edit_lenses(opened: OpenDocument, document: Document) -> Iterator[lsp.CodeLens]:
    for edit in document.edits:
        for title, command in (("Accept", "accept"), ("Reject", "reject"), ("Show difference", "difference")):
            yield lens(opened, edit.line, title, command, edit.line)
        for number, hunk in enumerate(edit.hunks if len(edit.hunks) > 1 else (), start=1):
            yield lens(opened, hunk.line, "Accept this change", "accept", edit.line, number)
            yield lens(opened, hunk.line, "Reject this change", "reject", edit.line, number)


def _chat_lenses(opened: OpenDocument, document: Document) -> Iterator[lsp.CodeLens]:
    for block in document.blocks:
        if isinstance(block, MetadataBlock) and _has(block, *LOG_KEYS) and read_log(block.values()):
            yield lens(opened, block.line, "Continue", "continue", block.line)
            if opened.server.folds:  # the protocol has no request for this
                yield lens(opened, block.line, "Fold", "fold", block.line)
            yield lens(opened, block.line, "Clear", "clear", block.line)


def _has(block: Block, *keys: str) -> bool:
    return any(f"{key}:" in block.source for key in keys)


def _stale_lenses(opened: OpenDocument, document: Document) -> Iterator[lsp.CodeLens]:
    if "txthash" not in document.text:
        return
    try:
        found = [status for status in document.stale(*ANNOTATIONS) if status.state is State.CHANGED]
    except LmmError:  # it is reported when something is asked
        return
    for status in found:
        title = f"The text changed: make {status.field} again"
        yield lens(opened, status.place.line, title, "annotate", status.field)


# -- code actions ----------------------------------------------------------------------------------


def code_actions(opened: OpenDocument, selected: lsp.Range) -> list[lsp.CodeAction]:
    """Return actions for the selected lines: corrections of `lmm scan --fix`, asking about them, having them edited."""
    return [*_fixes(opened, selected), *_questions(opened, selected)]


def _fixes(opened: OpenDocument, selected: lsp.Range) -> list[lsp.CodeAction]:
    document = opened.document()
    try:
        document.fix()
    except LmmError:
        return []
    edits = opened.buffer.edits(document.text)
    here = [e for e in edits if selected.start.line <= e.range.end.line and e.range.start.line <= selected.end.line]
    kind = lsp.CodeActionKind.QuickFix
    named = (("Fix this (lmm scan --fix)", here), ("Mend all", edits)) if here else ()
    return [lsp.CodeAction(title, kind, edit=opened.versioned(some)) for title, some in named]


def _questions(opened: OpenDocument, selected: lsp.Range) -> list[lsp.CodeAction]:
    """Return actions that add a prompt to the first selected paragraph, list or heading."""
    lines = range(selected.start.line, selected.end.line + 1)
    chosen = next((b for b in opened.document().blocks if b.line - 1 + b.source.rstrip().count("\n") in lines), None)
    if chosen is None or isinstance(chosen, MetadataBlock) or not chosen.content.strip():
        return []
    line = chosen.line + isinstance(chosen, HeadingBlock)  # below a heading, above a text
    kind = lsp.CodeActionKind.RefactorRewrite
    named = (("Ask about this", "?: "), ("Have this edited", "=: "))
    commands = ((title, lsp.Command(title, "lmm.prompt", arguments=[opened.uri, line, word])) for title, word in named)
    return [lsp.CodeAction(title, kind, command=command) for title, command in commands]


def with_prompt(text: str, line: int, word: str) -> tuple[str, int]:
    """Insert a block for a prompt above a line; return the text, and the line, from 1, of the prompt."""
    lines = split_lines(text)
    above = lines[line - 2].strip() if line > 1 else ""
    apart = "\n" if above and not above.startswith("#") else ""
    lines.insert(line - 1, f"{apart}---\n{word}\n---\n")
    return "".join(lines), line + len(apart) + 1


# -- completion ------------------------------------------------------------------------------------


def complete(opened: OpenDocument, at: lsp.Position) -> list[lsp.CompletionItem]:
    """Complete prompt words, keys, types, files to mention, headings to link to."""
    document = opened.document()
    before = opened.buffer.lines[at.line][: opened.buffer.offset(at) - opened.buffer.starts[at.line]]
    block = _block_at(document, at.line + 1)
    if isinstance(block, MetadataBlock):
        return _in_metadata(opened, document, before)
    if match := _LINK.search(before):
        anchors = [(b.anchor, b.title) for b in document.blocks if isinstance(b, HeadingBlock)]
        hash_mark = "" if before[match.start("name") - 1] == "#" else "#"
        return [_item(hash_mark + anchor, title, lsp.CompletionItemKind.Reference) for anchor, title in anchors]
    return []


def _in_metadata(opened: OpenDocument, document: Document, before: str) -> list[lsp.CompletionItem]:
    mention = _MENTION.search(before)
    if mention and "@course:" in before[: mention.start()]:
        kind = lsp.CompletionItemKind.Reference
        return [_item(docid, title, kind) for docid, title in stored_documents(opened.path).items()]
    if mention:
        course = _item("course: ", "passages of the course about a phrase", lsp.CompletionItemKind.Keyword)
        kind = lsp.CompletionItemKind.File
        return [course, *(_item(name, "goes along with the prompt", kind) for name in files_beside(opened.path))]
    if re.match(r"type:\s*\w*\Z", before):
        own = {str(node.own("type")) for node in preorder(document.tree) if node.own("type")}
        kind = lsp.CompletionItemKind.EnumMember
        return [_item(name, "a type of material", kind) for name in sorted({*TYPES, *own})]
    if re.fullmatch(r"[?+=:\w]*", before):
        words = [_item(word, help, lsp.CompletionItemKind.Keyword) for word, help in WORDS.items()]
        return words + [_item(f"{key}: ", help, lsp.CompletionItemKind.Property) for key, help in KEYS.items()]
    return []


def _item(text: str, help: str, kind: lsp.CompletionItemKind) -> lsp.CompletionItem:
    return lsp.CompletionItem(text.strip(), kind=kind, detail=help, insert_text=text)


def files_beside(path: Path | None, quote: str = '"') -> list[str]:
    """Return the documents in a file's folder; names with spaces are in quotes."""
    if path is None or not path.parent.is_dir():
        return []
    found = sorted(one.name for one in path.parent.iterdir() if one.suffix in (*SUFFIXES, ".pdf") and one != path)
    return [f"{quote}{name}{quote}" if " " in name else name for name in found[:_FILES]]


def _block_at(document: Document, line: int) -> Block | None:
    return next((b for b in document.blocks if b.line <= line < b.line + b.source.count("\n")), None)


# -- hover, folds, symbols -------------------------------------------------------------------------


def hover(opened: OpenDocument, at: lsp.Position) -> lsp.Hover | None:
    """Show the request for the prompt on a line, with its tokens and its price; nothing is fetched."""
    document = opened.document()
    prompt = next((one for one in document.pending if one.line == at.line + 1), None)
    if prompt is None:
        return None
    try:
        settings = document.settings
        asks = [ask for ask in document.requests(at=prompt.line, load=False) if ask.text.endswith(prompt.text)]
    except LmmError as error:
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.PlainText, str(error)))
    sent = dialogue_text(asks[0].request.messages)
    tokens, model = count_tokens(sent), str(settings.major.model)
    cost = price(model, Usage(tokens, 0))
    known = f", ${cost:.4f} and its reply" if cost else ""
    return shown_on_hover(f"**{model}** gets about {tokens:,} tokens{known}", sent, _LONGEST_HOVER)


def shown_on_hover(about: str, text: str, most: int) -> lsp.Hover:
    """Return a hover with a description of a text, and the text, cut to `most` characters."""
    beginning = text if len(text) <= most else f"{text[:most]}\n…"
    value = f"{about}\n\n{fenced(beginning, 'text')}" if text else about
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, value))


def folding_ranges(opened: OpenDocument) -> list[lsp.FoldingRange]:
    """Return the metadata blocks as folding ranges; those with a log or an edit are of the kind comment."""
    found = []
    for block in opened.document().blocks:
        height = block.content.rstrip("\r\n").count("\n")
        if isinstance(block, MetadataBlock) and height > 1:
            kind = lsp.FoldingRangeKind.Comment if _has(block, *LOG_KEYS, EDIT) else lsp.FoldingRangeKind.Region
            found.append(lsp.FoldingRange(block.line - 1, block.line - 1 + height, kind=kind))
    return found


def symbols(opened: OpenDocument) -> list[lsp.DocumentSymbol]:
    """Return the headings as a tree."""
    return _symbols(opened, opened.document().tree, len(opened.buffer.lines))


def _symbols(opened: OpenDocument, node: HeadingNode, end: int) -> list[lsp.DocumentSymbol]:
    found, below = [], [child for child in node.headings if child.heading is not None]
    for child, after in zip_longest(below, below[1:]):
        last = after.line - 1 if after is not None else end
        assert child.heading is not None
        name = opened.buffer.whole_line(child.heading.line - 1)
        whole = lsp.Range(name.start, opened.buffer.whole_line(max(last - 1, child.heading.line - 1)).end)
        inside = _symbols(opened, child, last)
        kind = lsp.SymbolKind.String
        found.append(lsp.DocumentSymbol(child.title or "#", kind, whole, name, children=inside))
    return found


# -- definitions -----------------------------------------------------------------------------------


def definition(opened: OpenDocument, at: lsp.Position) -> lsp.Location | None:
    """Return the target of a link (heading or file), of an ``@file``, or of a citation (its entry)."""
    document, offset = opened.document(), opened.buffer.offset(at)
    block = _block_at(document, at.line + 1)
    if block is None:
        return None
    if isinstance(block, MetadataBlock):
        line, character = opened.buffer.lines[at.line], offset - opened.buffer.starts[at.line]
        names = re.finditer(r"@(?:\"([^\"]+)\"|([^\s@\"]+))", line)
        found = next((m[1] or m[2].rstrip(".,;:!?)") for m in names if m.start() <= character <= m.end()), None)
        return _location(_file(opened, found)) if found else None
    inside = offset - opened.buffer.starts[block.line - 1]
    for span in reversed(spans(block.source)):
        if span.start <= inside <= span.end and span.kind in ("link", "image", "citation"):
            return _cited(opened, document, span.target) if span.kind == "citation" else _linked(opened, span.target)
    return None


def _linked(opened: OpenDocument, target: str) -> lsp.Location | None:
    name, _, anchor = target.partition("#")
    if name:
        return _location(_file(opened, name)) if "://" not in name else None
    headings = (b for b in opened.document().blocks if isinstance(b, HeadingBlock) and b.anchor == anchor)
    return next((lsp.Location(opened.uri, opened.buffer.whole_line(b.line - 1)) for b in headings), None)


def _cited(opened: OpenDocument, document: Document, keys: str) -> lsp.Location | None:
    named = document.tree.own("bibliography") or ()
    for name in [named] if isinstance(named, str) else named:
        path = _file(opened, str(name))
        text = path.read_text(encoding="utf-8", errors="replace") if path else ""
        if entry := re.search(rf"@\w+\{{\s*{re.escape(keys.split(';')[0])}\s*,", text):
            return _location(path, text.count("\n", 0, entry.start()))
    return None


def _file(opened: OpenDocument, name: str) -> Path | None:
    """Return a file in the document's folder; None for files outside of it."""
    with contextlib.suppress(LmmError, OSError, ValueError):
        path = Folder(opened.path.parent).path(name) if opened.path is not None else None
        return path if path is not None and path.is_file() else None
    return None


def _location(path: Path | None, line: int = 0) -> lsp.Location | None:
    at = lsp.Position(line, 0)
    return lsp.Location(path.as_uri(), lsp.Range(at, at)) if path is not None else None


# -- the course ------------------------------------------------------------------------------------


def search(path: Path | None, question: str) -> list[dict[str, Any]]:
    """Search the course for a question; return the best passages in a form that can be inserted into the document at
    `path`.

    Raises:
        LmmError: there is no store, or it cannot be searched.
    """
    from lmm_education import Course

    with Course.open(path.parent if path is not None else None) as course:
        found = course.search(question, limit=_MOST)
        folder = path.parent if path is not None else Path.cwd()
        return [_insertable(hit, os.path.relpath(course.root / hit.place.file, folder.resolve())) for hit in found.hits]


def stored_documents(path: Path | None) -> dict[str, str]:
    """Return the titles in the course of the document at `path`, by docid; none if there is no course."""
    from lmm_education import Course

    try:
        with Course.open(path.parent if path is not None else None) as course:
            return {one.id: one.title for one in course.documents()}
    except LmmError:
        return {}


def _insertable(hit: Passage, file: str) -> dict[str, Any]:
    place = hit.place
    title = place.headings[-1] if place.headings else place.file
    anchor = f"#{HeadingBlock.make(1, title).anchor}" if place.headings else ""
    link = f"[{title}]({quote(PurePath(file).as_posix())}{anchor})"
    quotation = "".join(f"> {line}".rstrip() + "\n" for line in hit.text.strip().splitlines())
    return {
        "title": title,
        "place": str(place),
        "text": hit.text,
        "link": link,
        "quotation": f"{quotation}>\n> {link}, lines {place.lines}\n",
    }


# -- answering questions in a buffer ---------------------------------------------------------------


class ArrivingReplies:
    """The parts of replies to a document's prompts that have arrived, and the text with them."""

    def __init__(self, document: Document) -> None:
        self._title, self._file = document._parsed.name, document._parsed.file
        self._settings = document.settings
        self._prompts = {prompt.line: prompt for prompt in document.pending}
        self._replies: dict[int, Reply] = {}
        self._planner = AnswerPlanner(load_prompts(self._settings.prompts.folder))
        self._plan = AnswerPlan(document._parsed, (), self._settings)
        self.words, self.note = 0, ""

    def take(self, event: Event, place: Place) -> None:
        """Process an event."""
        before = self._replies.get(place.line)
        match event:
            case Asked(model=model):
                self._replies[place.line] = Reply("", model)
            case TextDelta(text=text) if before is not None:
                self._replies[place.line] = Reply(before.text + text, before.model)
            case Retrying(reason=reason) if before is not None:
                self._replies[place.line], self.note = Reply("", before.model), reason
            case Reply():
                self._replies[place.line] = event
            case Waiting(reason=reason) | Notice(text=reason):
                self.note = reason
        self.words = sum(len(reply.text.split()) for reply in self._replies.values())

    def draft(self, author: str) -> str:
        """Return the author's text with the parts that have arrived, in the places of the complete replies."""
        version = ParsedDocument(author, self._title, self._file)
        arrived = [(self._prompts.get(line), reply) for line, reply in [*self._replies.items()]]
        found: Outcomes = [AnsweredPrompt(prompt, reply) for prompt, reply in arrived if prompt and reply.text.strip()]
        return serialize(self._planner.apply(version, self._plan, found).blocks)


async def ask(opened: OpenDocument, line: int | None, model: str | None = None) -> None:
    """Answer the prompts of the block on a line (1-based), or all, in the buffer.

    Raises:
        LmmError: nothing is pending there; the configuration names something unknown; the model cannot be opened.
    """
    loop = asyncio.get_running_loop()
    document, opened.refusals = opened.document(), 0
    reading = await asyncio.to_thread(ArrivingReplies, document)

    def listen(event: Event, place: Place) -> None:
        loop.call_soon_threadsafe(reading.take, event, place)

    document.listener = listen
    name = model or str(document.settings.major.model)
    answering = asyncio.create_task(document.aanswer(at=line, model=model))
    opened.cancels[line or 0] = answering.cancel
    report: Report[AnsweredPrompt] = Report(interrupted=True)
    async with WorkProgress(opened, f"Asking {name}", answering) as progress:
        try:
            with opened.overlay(answering.cancel) as overlay:
                opened.overlays[line or 0] = overlay
                await _stream(opened, overlay, reading, answering, progress)
                if not answering.cancelled():  # else earlier answers are in the document
                    report = answering.result()
                if not opened.follows(overlay):
                    progress.end = "stopped: you changed the reply while it arrived"
                    return
                lost = await opened.settle(document.rebased, overlay, "lmm: reply")
        finally:
            answering.cancel()
        progress.end = "cancelled" if report.interrupted else terminal.usage_text(report.usage)
    for failure in (*report.failures, *lost):
        opened.server.tell(str(failure))
    for hint in report.hints:
        opened.server.tell(hint, lsp.MessageType.Info)


async def annotate(opened: OpenDocument, field: str) -> None:
    """Regenerate a metadata field in the buffer where its text has changed.

    Raises:
        LmmError: as `ask`.
    """
    document = opened.document(listener=opened.server.listen)
    with opened.overlay() as overlay:
        working = asyncio.create_task(document.aannotate(field))
        opened.cancels[0] = working.cancel
        async with WorkProgress(opened, f"Making {field}", working) as progress:
            await asyncio.wait((working,))
            failures = () if working.cancelled() else working.result().failures
            lost = await opened.settle(document.rebased, overlay, "lmm: annotate")
            progress.end = "cancelled" if working.cancelled() else terminal.usage_text(working.result().usage)
    for failure in (*failures, *lost):
        opened.server.tell(str(failure))


async def _stream(
    opened: OpenDocument,
    overlay: Overlay,
    reading: ArrivingReplies,
    answering: asyncio.Task[object],
    progress: WorkProgress,
) -> None:
    """Show replies in the buffer as they arrive, until all are complete."""
    pause, shown = PAUSE, 0
    while True:
        await asyncio.wait((answering,), timeout=pause)
        if answering.done():
            return
        if reading.words == shown or not opened.server.streams or opened.refusals:
            progress.report(reading.note or (f"{reading.words} words" if reading.words else "waiting for the model"))
            continue
        began, shown = time.monotonic(), reading.words
        text = await asyncio.to_thread(reading.draft, overlay.author)
        await opened.show(text, overlay, "lmm: reply")
        progress.report(f"{shown} words")
        pause = max(PAUSE, _SHARE * (time.monotonic() - began))


class WorkProgress:
    """The editor's progress display for running work, with a cancel button; does nothing if the editor has none."""

    def __init__(self, opened: OpenDocument, title: str, work: asyncio.Task[object]) -> None:
        self._server, self._title, self._work = opened.server, title, work
        self._token = str(uuid4())
        window = opened.server.client_capabilities.window
        self._shown = bool(window and window.work_done_progress)
        self._said = ""
        self.end = ""

    async def __aenter__(self) -> WorkProgress:
        if self._shown:
            loop, shown = asyncio.get_running_loop(), self._server.work_done_progress
            try:
                await asyncio.wait_for(shown.create_async(self._token), 5)
            except Exception:  # progress is not essential
                self._shown = False
                return self
            shown.tokens[self._token].add_done_callback(lambda _: loop.call_soon_threadsafe(self._work.cancel))
            shown.begin(self._token, lsp.WorkDoneProgressBegin(self._title, cancellable=True))
        return self

    def report(self, text: str) -> None:
        """Report progress."""
        if self._shown and text != self._said:
            self._said = text
            self._server.work_done_progress.report(self._token, lsp.WorkDoneProgressReport(message=text))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LmmError):
            self.end = error.message
        if self._shown:
            self._server.work_done_progress.end(self._token, lsp.WorkDoneProgressEnd(message=self.end))
            self._server.work_done_progress.tokens.pop(self._token, None)
