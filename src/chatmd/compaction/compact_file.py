"""Compact the conversation in a file: the original stays beside it, and the file is replaced in one step."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from chatmd.compaction.compact import Compaction, compacted
from chatmd.compaction.plan import CompactOptions, Plan, plan_compaction
from chatmd.compaction.rewriting import foreign_items, rewritten
from chatmd.compaction.telling import Expanded, tokens_of
from chatmd.content.recorded import Recorded
from chatmd.language.agent import read_agent
from chatmd.language.imports import resolve_imports
from chatmd.language.items import CallItem, Content, Doc, Img, Item, ReasoningItem, SubAgent
from chatmd.language.mend import mend
from chatmd.language.nodes import SyntaxTree
from chatmd.language.parser import errors_of, parse
from chatmd.language.transcript import transcript_text
from chatmd.prompts.templates import SLOTS
from chatmd.workplace import FOLDER
from lmm.config import Settings
from lmm.disk.files import check_writable, document_lock, read_document, replace
from lmm.disk.folder import Folder
from lmm.disk.opened import write_errors
from lmm.disk.secrets import is_secret_file
from lmm.errors import Changed, DocumentBusy, LmmError
from lmm.loop import background, blocking
from lmm.messages import Image
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.models.tokens import count_tokens
from lmm.prompts.load import load_prompts

_LARGEST = 10_000_000  # bytes of a document that is read to count its tokens


@dataclass(frozen=True, slots=True)
class Compacted:
    """What came of it: the new `text`, and where the `original` is, which is None if the text is no file's."""

    text: str
    original: Path | None
    compaction: Compaction


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be done: the items of a file with their tokens, and which of them would stay."""

    items: tuple[Item, ...]
    sizes: tuple[int, ...]
    plan: Plan


@background
async def acompact(
    path: Path,
    settings: Settings,
    options: CompactOptions = CompactOptions(),
    *,
    model: ChatModel | None = None,
    roots: Sequence[Path] = (),
    locked: bool = False,
) -> Compacted:
    """Compact the conversation in a file by `model`, else the aux model, under the file's lock (or it is `locked`).

    Raises:
        NothingToCompact: it is as short as it can be made; the file is as it was, as after all other errors.
        InvalidDocument: the file has errors.
        ChatmdError, ModelError: no summary came.
        DocumentError: the file cannot be read or written, or somebody changed it meanwhile.
    """
    with contextlib.nullcontext() if locked else document_lock(path, timeout=0):
        check_writable(path)
        text = read_document(path)
        done = await _compacted(text, settings, options, path, roots, model)
        await asyncio.to_thread(_replace, path, text, done)
        return done


compact = blocking(acompact)


async def compact_text(
    text: str,
    settings: Settings,
    options: CompactOptions = CompactOptions(),
    *,
    model: ChatModel | None = None,
    path: Path | None = None,
    roots: Sequence[Path] = (),
) -> Compacted:
    """The compacted text of a conversation that somebody holds, as a run does; `path` is where it is on disk.

    `model` summarises, else the aux model.
    With a path, the original is written beside it, and the caller replaces the file, and carries over what documents
    stood for (`chatmd.content.recorded.Recorded.carry_over`). Raises what `compact` does.
    """
    done = await _compacted(text, settings, options, path, roots, model)
    if done.original is not None:
        await asyncio.to_thread(keep, text, done.original)
    return done


async def _compacted(
    text: str,
    settings: Settings,
    options: CompactOptions,
    path: Path | None,
    roots: Sequence[Path],
    model: ChatModel | None = None,
) -> Compacted:
    """The new text; nothing is written."""
    document, items = _read(text, path, roots)
    folder = path.resolve().parent if path else None
    original = free_name(folder / FOLDER, path, datetime.now()) if folder and path else None
    compaction = await compacted(
        items,
        model or shared_chat(settings.aux),
        load_prompts(settings.prompts_folder, package="chatmd.prompts", slots=SLOTS),
        window=settings.aux.context_window,
        options=options,
        expanded=local_texts(items, folder) if folder else {},
        fixed=foreign_items(document, items),
        source=f"{FOLDER}/{original.name}" if original else "",
    )
    gone = [items[index].span.start for index in compaction.plan.gone]
    return Compacted(rewritten(document, gone, transcript_text([compaction.message])), original, compaction)


def plan_file(path: Path, options: CompactOptions = CompactOptions(), *, roots: Sequence[Path] = ()) -> Planned:
    """What `compact` would do with a file, without a model.

    Raises:
        InvalidDocument: the file has errors.
        FileReadError: it cannot be read.
    """
    return plan_text(read_document(path), path, options, roots=roots)


def plan_text(
    text: str, path: Path, options: CompactOptions = CompactOptions(), *, roots: Sequence[Path] = ()
) -> Planned:
    """`plan_file` for a text that stands, or could stand, in `path`."""
    document, items = _read(text, path, roots)
    contents = local_texts(items, path.resolve().parent)
    sizes = tuple(tokens_of(item, contents, count_tokens) for item in items)
    return Planned(items, sizes, plan_compaction(items, sizes, options, foreign_items(document, items)))


def _read(text: str, path: Path | None, roots: Sequence[Path]) -> tuple[SyntaxTree, tuple[Item, ...]]:
    """The document, without its imports, and the items that it means with them. What a crash tore is mended."""
    file = str(path or "")
    document = parse(text, file=file)
    if errors_of(document.problems):
        document = parse(mend(text).apply(text), file=file)
    return document, read_agent(resolve_imports(document, roots=roots)).items


def local_texts(items: Iterable[Item], folder: Path) -> Expanded:
    """The texts of documents below `folder`, such as results that are kept beside the transcript; none with keys."""
    found: dict[Doc | Img | SubAgent, str | Image] = {}
    for part in dict.fromkeys(_docs(items)):
        with contextlib.suppress(OSError, ValueError, LmmError):
            path = (folder / part.src).resolve()
            secret = is_secret_file(path.relative_to(folder))  # or ValueError: it lies outside
            if not secret and path.is_file() and path.stat().st_size <= _LARGEST:
                found[part] = read_document(path)
    return found


def _docs(items: Iterable[Item]) -> Iterator[Doc]:
    for item in items:
        content: Content = ()
        if not isinstance(item, ReasoningItem):
            content = item.arguments if isinstance(item, CallItem) else item.content
        yield from (part for part in content if isinstance(part, Doc) and part.local)


# -- writing -------------------------------------------------------------------------------------


def free_name(folder: Path, path: Path, now: datetime) -> Path:
    """Where the original goes: a name with the time, that nothing in `folder` has yet."""
    stem = f"{path.stem}.{now:%Y-%m-%dT%H-%M-%S}"
    names = (f"{stem}{more}{path.suffix}" for more in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(file for name in names if not (file := folder / name).exists())


def _replace(path: Path, old: str, done: Compacted) -> None:
    """Keep what the file was, then replace it, unless somebody else has changed it.

    What was appended meanwhile stays at the end.
    """
    now = read_document(path)
    if not now.startswith(old) or done.original is None:
        raise DocumentBusy(
            "the file was changed while its summary was made; nothing was written", where=str(path),
            hint="run it again: the summary is remembered, as long as what it is made of is the same",
        )  # fmt: skip
    keep(now, done.original)
    try:
        replace(path, done.text + now[len(old) :], expected=now.encode("utf-8"))
    except Changed:
        _replace(path, old, done)
        return
    Recorded(path).carry_over(done.compaction.was, done.compaction.items)


def keep(text: str, path: Path) -> None:
    """Write a file that must not be there yet."""
    below = Folder(path.parent)
    below.make(private=True)
    with below.open(path.name, "xb", private=True) as file, write_errors(str(path)):
        try:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            below.remove(path.name)
            raise
