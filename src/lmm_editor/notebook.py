"""Editor features for markdown documents: lenses, code actions, completion, hover, search in the course, problems; and
answering questions in the buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Collection, Coroutine, Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from lsprotocol import types as lsp

from lmm import terminal
from lmm.config import ANNOTATIONS
from lmm.disk.folder import SUFFIXES, Folder
from lmm.document import Document
from lmm.errors import Finding, LmmError, Place
from lmm.markdown.blocks import HeadingBlock, MetadataBlock, fenced
from lmm.markdown.tree import preorder
from lmm.messages import Asked, Event, Notice, Retrying, TextDelta, Usage, dialogue_text
from lmm.models.tokens import count_tokens, price
from lmm.notebook.chat_log import read_log
from lmm.notebook.staleness import State
from lmm.pipeline import Report
from lmm_editor.buffer import split_lines

if TYPE_CHECKING:
    from chatmd.language.nodes import Problem
    from lmm_editor.open_document import OpenDocument

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
_MENTION = re.compile(r"@(?:\"(?P<quoted>[^\"\n]*)|(?P<name>[^\s@\"]*))\Z")
_LINK = re.compile(r"\]\(#?(?P<name>[^\s)]*)\Z")
_LONGEST_HOVER = 100_000
_FILES = 200
_MOST = 20
_TICK = 0.5  # seconds between two reports of progress
_TAIL = 60  # characters of a reply that arrives, shown with its progress


# -- lenses ----------------------------------------------------------------------------------------


def code_lenses(opened: OpenDocument) -> list[lsp.CodeLens]:
    """Return lenses for each prompt, edit, chat and stale annotation."""
    document = opened.document()
    found = [lens(opened, asked or 1, "Cancel", "cancel", asked) for asked in opened.running]
    blocks = dict[int, int]()
    for prompt in document.pending:
        first = blocks.setdefault(prompt.block, prompt.line)
        if prompt.line == first and not opened.running.keys() & {0, first}:  # a block is answered as a whole
            found += [lens(opened, first, "Ask", "ask", first), lens(opened, first, "Ask with …", "askWith", first)]
    for edit in document.edits:
        for title, command in (("Accept", "accept"), ("Reject", "reject"), ("Show difference", "difference")):
            found.append(lens(opened, edit.line, title, command, edit.line))
        for number, hunk in enumerate(edit.hunks if len(edit.hunks) > 1 else (), start=1):
            found.append(lens(opened, hunk.line, "Accept this change", "accept", edit.line, number))
            found.append(lens(opened, hunk.line, "Reject this change", "reject", edit.line, number))
    for block in document.blocks:
        if isinstance(block, MetadataBlock) and "~chat" in block.source and read_log(block.values()):
            found.append(lens(opened, block.line, "Continue", "continue", block.line))
            found.append(lens(opened, block.line, "Clear", "clear", block.line))
    with contextlib.suppress(LmmError):  # it is reported when something is asked
        for status in document.stale(*ANNOTATIONS) if "txthash" in document.text else ():
            if status.state in (State.CHANGED, State.OLD_HASH):
                title = f"The text changed: make {status.field} again"
                found.append(lens(opened, status.place.line, title, "annotate", status.field))
    return found


def lens(opened: OpenDocument, line: int, title: str, command: str, *arguments: object) -> lsp.CodeLens:
    """Return a lens above a line, from 1."""
    at = opened.buffer.whole_line(line - 1)
    return lsp.CodeLens(at, lsp.Command(title, f"lmm.{command}", arguments=[opened.uri, *arguments]))


# -- code actions ----------------------------------------------------------------------------------


def code_actions(opened: OpenDocument, selected: lsp.Range) -> list[lsp.CodeAction]:
    """Return actions for the selected lines: corrections of `lmm scan --fix`, and for the first paragraph, list or
    heading in them a question or an edit."""
    document, found = opened.document(), list[lsp.CodeAction]()
    lines, kinds = range(selected.start.line, selected.end.line + 1), lsp.CodeActionKind
    chosen = next((b for b in document.blocks if b.line - 1 + b.source.rstrip().count("\n") in lines), None)
    with contextlib.suppress(LmmError):
        document.fix()
        edits = opened.buffer.edits(document.text)
        selected_edits = [e for e in edits if lines.start <= e.range.end.line and e.range.start.line < lines.stop]
        for title, some in (
            (("Fix this (lmm scan --fix)", selected_edits), ("Mend all", edits)) if selected_edits else ()
        ):
            found.append(lsp.CodeAction(title, kinds.QuickFix, edit=opened.versioned(some)))
    if chosen is not None and not isinstance(chosen, MetadataBlock) and chosen.content.strip():
        line = chosen.line + isinstance(chosen, HeadingBlock)  # below a heading, above a text
        for title, word in (("Ask about this", "?: "), ("Have this edited", "=: ")):
            command = lsp.Command(title, "lmm.prompt", arguments=[opened.uri, line, word])
            found.append(lsp.CodeAction(title, kinds.RefactorRewrite, command=command))
    return found


def with_prompt(text: str, line: int, word: str) -> tuple[str, int]:
    """Insert a block for a prompt above a line; return the text, and the line, from 1, of the prompt."""
    lines = split_lines(text)
    above = lines[line - 2].strip() if line > 1 else ""
    apart = "\n" if above and not above.startswith("#") else ""
    return with_line(text, line, f"{apart}---\n{word}\n---\n"), line + len(apart) + 1


def with_line(text: str, line: int, new: str) -> str:
    """Insert lines above a line, from 1."""
    lines = split_lines(text)
    return "".join([*lines[: line - 1], new, *lines[line - 1 :]])


# -- completion ------------------------------------------------------------------------------------


def complete(opened: OpenDocument, at: lsp.Position) -> list[lsp.CompletionItem]:
    """Complete prompt words, keys, types, files to mention, headings to link to."""
    document = opened.document()
    before = opened.buffer.lines[at.line][: opened.buffer.offset(at) - opened.buffer.starts[at.line]]
    block = next((b for b in document.blocks if 0 <= at.line + 1 - b.line < b.source.count("\n")), None)
    if isinstance(block, MetadataBlock):
        return _in_metadata(opened, document, before, at)
    if match := _LINK.search(before):
        anchors = [(b.anchor, b.title) for b in document.blocks if isinstance(b, HeadingBlock)]
        hash_mark = "" if before[match.start("name") - 1] == "#" else "#"
        return [_item(hash_mark + anchor, title, lsp.CompletionItemKind.Reference) for anchor, title in anchors]
    return []


def _in_metadata(opened: OpenDocument, document: Document, before: str, at: lsp.Position) -> list[lsp.CompletionItem]:
    mention = _MENTION.search(before)
    if mention and "@course:" in before[: mention.start()]:
        from lmm_education import Course

        kind = lsp.CompletionItemKind.Reference
        with contextlib.suppress(LmmError), Course.open(opened.path.parent if opened.path else None) as opened_course:
            return [_item(one.id, one.title, kind) for one in opened_course.documents()]
        return []  # there is no course
    if mention:
        course = _item("course: ", "passages of the course about a phrase", lsp.CompletionItemKind.Keyword)
        typed, quote = (mention["name"], "") if mention["quoted"] is None else (mention["quoted"], '"')
        names = files_below(opened.path, typed)
        names = [f'"{name}"' if quote or " " in name else name for name in names]
        return [course, *replacing(opened, at, quote + typed, names, lsp.CompletionItemKind.File)]
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


def files_below(path: Path | None, typed: str, suffixes: Collection[str] = (*SUFFIXES, ".pdf")) -> list[str]:
    """Return the paths that a typed one may become: files, and folders with a ``/``, in the folder that it names, which
    is below that of the file at `path`.
    """
    folder, slash, stem = typed.rpartition("/")
    try:
        entries = sorted(Folder(path.parent).path(folder or ".").iterdir()) if path is not None else []
    except (LmmError, OSError):
        return []
    visible = [one for one in entries if one != path and (stem.startswith(".") or not one.name.startswith("."))]
    names = [f"{one.name}/" if one.is_dir() else one.name for one in visible if one.is_dir() or one.suffix in suffixes]
    return [folder + slash + name for name in names[:_FILES]]


def replacing(
    opened: OpenDocument, at: lsp.Position, typed: str, names: Iterable[str], kind: lsp.CompletionItemKind
) -> list[lsp.CompletionItem]:
    """Return items that replace all of what was typed before a position; an editor would replace its last word."""
    replaced = lsp.Range(opened.buffer.position(opened.buffer.offset(at) - len(typed)), at)
    return [lsp.CompletionItem(name, kind=kind, text_edit=lsp.TextEdit(replaced, name)) for name in names]


# -- hover -------------------------------------------------------------------------


def hover(opened: OpenDocument, at: lsp.Position) -> lsp.Hover | None:
    """Show the request for the prompt on a line, with its tokens and its price; nothing is fetched."""
    document = opened.document()
    prompt = next((one for one in document.pending if one.line == at.line + 1), None)
    if prompt is None:
        return None
    try:
        settings = document.settings
        requests = [ask for ask in document.requests(at=prompt.line, load=False) if ask.text.endswith(prompt.text)]
    except LmmError as error:
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.PlainText, error.at_prompt))
    sent = dialogue_text(requests[0].request.messages)
    tokens, model = count_tokens(sent), str(settings.major.model)
    cost = price(model, Usage(tokens, 0))
    known = f", ${cost:.4f} and its reply" if cost else ""
    return shown_on_hover(f"**{model}** gets about {tokens:,} tokens{known}", sent, _LONGEST_HOVER)


def shown_on_hover(about: str, text: str, most: int) -> lsp.Hover:
    """Return a hover with a description of a text, and the text, cut to `most` characters."""
    beginning = text if len(text) <= most else f"{text[:most]}\n…"
    value = f"{about}\n\n{fenced(beginning, 'text')}" if text else about
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, value))


# -- problems --------------------------------------------------------------------------------------


def problems(opened: OpenDocument) -> list[lsp.Diagnostic]:
    """Return the problems that `lmm scan` would report."""
    found = opened.document().problems(results=True)
    return [diagnostic(opened, problem, problem.line, problem.column) for problem in found]


def diagnostic(opened: OpenDocument, problem: Finding | Problem, line: int, column: int) -> lsp.Diagnostic:
    """Return a problem at a place, from 1, in the form of the protocol."""
    at = opened.buffer.whole_line(line - 1, column - 1)
    text = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    return lsp.Diagnostic(at, text, severity=lsp.DiagnosticSeverity[problem.severity.capitalize()], source="lmm")


# -- the course ------------------------------------------------------------------------------------


def search(path: Path | None, question: str) -> list[dict[str, Any]]:
    """Search the course for a question; return the best passages in a form that can be inserted into the document at
    `path`.

    Raises:
        LmmError: there is no store, or it cannot be searched.
    """
    from lmm_education import Course

    with Course.open(path.parent if path is not None else None) as course:
        folder, found = path.parent if path is not None else Path.cwd(), list[dict[str, Any]]()
        for hit in course.search(question, limit=_MOST).hits:
            place, file = hit.place, os.path.relpath(course.root / hit.place.file, folder.resolve())
            title = place.headings[-1] if place.headings else place.file
            anchor = f"#{HeadingBlock.make(1, title).anchor}" if place.headings else ""
            link = f"[{title}]({quote(PurePath(file).as_posix())}{anchor})"
            lines = [f"> {line}".rstrip() for line in hit.text.strip().splitlines()]
            quotation = "\n".join([*lines, ">", f"> {link}, {place.page or f'lines {place.lines}'}\n"])
            known = {"title": title, "place": str(place), "text": hit.text, "link": link, "quotation": quotation}
            found.append(known)
        return found


# -- answering questions in a buffer ---------------------------------------------------------------


async def ask(opened: OpenDocument, line: int | None, model: str | None = None) -> None:
    """Answer the prompts of the block on a line (1-based), or all, in the buffer, when all replies have arrived.

    Raises:
        LmmError: nothing is pending there; the configuration names something unknown; the model cannot be opened.
    """
    document = opened.document()
    title = f"Asking {model or document.settings.major.model}"
    await _put(opened, document, document.aanswer(at=line, model=model), title, "lmm: reply", line or 0)


async def annotate(opened: OpenDocument, field: str) -> None:
    """Regenerate a metadata field in the buffer where its text has changed.

    Raises:
        LmmError: as `ask`.
    """
    document = opened.document()
    await _put(opened, document, document.aannotate(field), f"Making {field}", "lmm: annotate", 0)


async def _put(
    opened: OpenDocument, document: Document, work: Coroutine[Any, Any, Report[Any]], title: str, label: str, line: int
) -> None:
    """Do work on a document, showing its progress, and put the result into the buffer."""
    loop, arrived = asyncio.get_running_loop(), list[str]()

    def listen(event: Event, place: Place) -> None:
        match event:
            case TextDelta(text=text):
                loop.call_soon_threadsafe(arrived.append, text)
            case Asked() | Retrying():
                loop.call_soon_threadsafe(arrived.clear)
            case Notice():
                opened.server.listen(event, place)

    document.listener = listen
    working = asyncio.create_task(work)
    opened.cancels[line] = working.cancel
    report: Report[Any] = Report(interrupted=True)
    async with WorkProgress(opened, title, working) as progress:
        try:
            began = loop.time()
            while not working.done():
                await asyncio.wait((working,), timeout=_TICK)
                tail = " ".join("".join(arrived)[-_TAIL:].split()) or "waiting for the model"
                progress.report(f"{loop.time() - began:.0f} s · {tail}")
            if not working.cancelled():  # else earlier answers are in the document
                report = working.result()
            lost = await opened.put(document.rebased, label)
        finally:
            working.cancel()
        progress.end = "cancelled" if report.interrupted else terminal.usage_text(report.usage)
    for failure in (*report.failures, *lost):
        opened.server.show_message(str(failure))
    for hint in report.hints:
        opened.server.show_message(hint, lsp.MessageType.Info)


class WorkProgress:
    """The editor's progress display for running work, with a cancel button; does nothing if the editor has none."""

    def __init__(self, opened: OpenDocument, title: str, work: asyncio.Task[object]) -> None:
        self._server, self._title, self._work = opened.server, title, work
        self._token = str(uuid4())
        window = opened.server.client_capabilities.window
        self._is_shown = bool(window and window.work_done_progress)
        self._last_text = ""
        self.end = ""

    async def __aenter__(self) -> WorkProgress:
        if self._is_shown:
            loop, progress = asyncio.get_running_loop(), self._server.work_done_progress
            try:
                await asyncio.wait_for(progress.create_async(self._token), 5)
            except Exception:  # progress is not essential
                self._is_shown = False
                return self
            progress.tokens[self._token].add_done_callback(lambda _: loop.call_soon_threadsafe(self._work.cancel))
            progress.begin(self._token, lsp.WorkDoneProgressBegin(self._title, cancellable=True))
        return self

    def report(self, text: str) -> None:
        """Report progress."""
        if self._is_shown and text != self._last_text:
            self._last_text = text
            self._server.work_done_progress.report(self._token, lsp.WorkDoneProgressReport(message=text))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LmmError):
            self.end = error.message
        if self._is_shown:
            self._server.work_done_progress.end(self._token, lsp.WorkDoneProgressEnd(message=self.end))
            self._server.work_done_progress.tokens.pop(self._token, None)
