"""What documents, local images and agents in messages stand for: read, fetched, asked, or taken from the record.

What a model has seen is not read again: it comes from the record, if there is one. A question that still waits for
its answer is read anew each time, so that a file may be mended before one tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chatmd.content.documents import SourceDocument, as_markdown, plain_text, strip_markup
from chatmd.content.images import image_from
from chatmd.context import AgentRequest, Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Content, Doc, Img, Item, SubAgent
from chatmd.language.transcript import data_uri, image_of
from chatmd.sidecar import PICTURES, Expandable, ExpansionRecord, Occurrence, Payloads, check_came_along, occurrences
from lmm.config import Settings
from lmm.disk.files import decode_document
from lmm.disk.opened import open_folder, read_errors
from lmm.errors import DocumentError, FetchFailed, LmmError
from lmm.fetch import fetch
from lmm.importing.formats import CONVERTED, suffix_of
from lmm.messages import Image
from lmm.terminal import megabytes
from lmm.urls import github_file, shown

# -- Files that a document names: below the prompt's folder, or the folders that were allowed besides


MOST_CONVERTED = 100_000_000
"""How many bytes a file may have that is turned into markdown: in PDF and the like, most of them are no text."""


def locate(src: str, run: Run) -> Path:
    """The real path of the file that `src` means, relative to the prompt's folder. It need not exist.

    Raises:
        ChatmdError: it lies outside of what may be read, by whatever way it leads there, or is no path.
    """
    name = src.strip()
    if not name or "\0" in name:
        raise ChatmdError("no file is named here", hint='write src="…"')
    if name.lower().startswith(("http://", "https://")):
        raise ChatmdError("this is a URL, not a file on disk", hint="leave 'local' out")
    path = run.folder / name
    try:
        real = path.resolve()
        allowed = [folder.resolve() for folder in (run.folder, *run.rules.roots)]
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links
        raise ChatmdError("this path cannot be followed", hint="check the path") from error
    if (other := in_working_folder(src, run)) is not None:
        return other
    if not any(real.is_relative_to(folder) for folder in allowed):
        raise ChatmdError(f"'{src}' is outside of {allowed[0]}", hint=f"allow its folder: --root {path.parent}")
    return real


def in_working_folder(src: str, run: Run) -> Path | None:
    """The real path of a file in the working folder, if the prompt's folder has none of that name, as in ochat."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        name = src.strip()
        if run.working is not None and not (run.folder / name).exists():
            working = run.working.resolve()
            real = (working / name).resolve()
            if real.is_file() and real.is_relative_to(working):
                return real
    return None


def read_local(path: Path, *, limit: int) -> bytes:
    """The bytes of an ordinary file at a real path.

    Raises:
        FileReadError: it is missing, something else than a file, or not readable.
        ChatmdError: it has more than `limit` bytes.
    """
    where = f"the path is {path}"
    with read_errors(str(path), look=where), open_folder(path.parent) as folder, folder.open(path.name) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        hint = "fetch_limit under [chatmd] in config.toml allows more"
        raise ChatmdError(f"this file has more than {megabytes(limit)}", hint=hint)
    return data


Value = str | Image


class Expansions(Mapping[Expandable, Value]):
    """What each part stands for. Parts that say the same at two places need not stand for the same."""

    def __init__(self, pairs: Iterable[tuple[Expandable, Value]] = ()) -> None:
        self._values = {id(part): (part, value) for part, value in pairs}  # which keeps the parts, and their ids

    def __getitem__(self, part: Expandable) -> Value:
        return self._values[id(part)][1]

    def __iter__(self) -> Iterator[Expandable]:
        return (part for part, _ in self._values.values())

    def __len__(self) -> int:
        return len(self._values)


async def expansions(
    items: Iterable[Item],
    run: Run,
    recorded: ExpansionRecord | None = None,
    payloads: Payloads | None = None,
    known: Mapping[Expandable, Value] = Expansions(),
) -> Expansions:
    """What all parts of `items` stand for that `messages_of` asks for: ``expand=result.__getitem__``.

    The result is by identity: ask it for parts of these `items`, and hand it over as `known` when the same items come
    again, with more behind them. What is neither known nor one of the `payloads` is read side by side, the same part
    once; agents are asked when everything else is there.

    Raises:
        ChatmdError: something cannot be had; of several, the first.
    """
    found: dict[int, tuple[Expandable, Value]] = {}
    open_: list[Occurrence] = []
    for one in occurrences(items):
        value = known.get(one.part)
        if value is None and payloads is not None:
            value = payloads.read(one.part)
        if value is None and recorded is not None and one.key and (one.answered or recorded.only):
            value = _from_record(one, recorded)
        if value is None:
            open_.append(one)
        else:
            found[id(one.part)] = (one.part, value)
    work = _Work(run, recorded)
    for wave in ([one for one in open_ if not _is_agent(one)], [one for one in open_ if _is_agent(one)]):
        for one, value in zip(wave, await work.values(wave), strict=True):
            found[id(one.part)] = (one.part, value)
    return Expansions(found.values())


def _is_agent(one: Occurrence) -> bool:
    return isinstance(one.part, SubAgent)


def _from_record(one: Occurrence, recorded: ExpansionRecord) -> Value | None:
    value = recorded.find(one.key)
    if value is None and recorded.only:
        raise ChatmdError(
            f"what {shown_part(one.part)} stood for was not recorded",
            where=one.part.span.where,
            hint="run it without --replay, and it is",
        )
    return value


def shown_part(part: Expandable) -> str:
    """What a part refers to, for messages."""
    return shown(part.src) if "://" in part.src and not part.local else f"'{part.src}'"


def _same(one: Occurrence) -> tuple[Expandable, bool]:
    return one.part, bool(one.key)


@dataclass(slots=True)
class _Work:
    """Reads parts, at most as many at once as the rules say, and records what they are."""

    run: Run
    recorded: ExpansionRecord | None
    _limit: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._limit = asyncio.Semaphore(self.run.rules.max_parallel)

    async def values(self, wanted: list[Occurrence]) -> list[Value]:
        """What these stand for, in order."""
        same: dict[tuple[Expandable, bool], list[Occurrence]] = {}
        for one in wanted:
            same.setdefault(_same(one), []).append(one)
        done = await asyncio.gather(*(self._value(group) for group in same.values()), return_exceptions=True)
        if failed := next((value for value in done if isinstance(value, BaseException)), None):
            raise failed
        values = dict(zip(same, done, strict=True))
        return [values[_same(one)] for one in wanted]  # type: ignore[misc]

    async def _value(self, group: list[Occurrence]) -> Value:
        part = group[0].part
        async with self._limit:
            try:
                value = await self._read(part, exactly=not group[0].key)
            except LmmError as error:
                raise with_place(error, part) from error
            for one in group:
                if self.recorded is not None and one.key:
                    await asyncio.to_thread(self.recorded.keep, one.key, part, value)
            return value

    async def _read(self, part: Expandable, *, exactly: bool = False) -> Value:
        if isinstance(part, Doc) and exactly and part.local:
            return await asyncio.to_thread(read_stored, part, self.run)
        if isinstance(part, Doc):
            return await read_doc(part, self.run)
        if isinstance(part, Img):
            return await read_img(part, self.run)
        if part.local:
            locate(part.src, self.run)
        content = await self._expanded(part.content)
        return await self.run.ask(self.run, AgentRequest(part.src, part.local, self.run.folder, content))

    async def _expanded(self, content: Content) -> Content:
        """What stands inside of an agent as texts and inline images."""
        parts: list[str | Img] = []
        for part in content:
            if isinstance(part, str) or (isinstance(part, Img) and image_of(part) is not None):
                parts.append(part)
                continue
            try:
                value = await self._read(part)
            except LmmError as error:
                raise with_place(error, part) from error
            parts.append(value if isinstance(value, str) else Img(data_uri(value), span=part.span))
        return tuple(parts)


def read_stored(doc: Doc, run: Run) -> str:
    """The text of a local `<doc>` in what a model or a tool said: stored by a run, and taken as it is.

    Raises:
        ChatmdError, FileReadError: it cannot be had, or is not UTF-8.
    """
    check_came_along(run.folder, doc)
    path = locate(doc.src, run)
    return decode_document(read_local(path, limit=MOST_CONVERTED), str(path))


async def read_doc(doc: Doc, run: Run) -> str:
    """The text that a `<doc>` stands for.

    Raises:
        ChatmdError: it cannot be had.
    """
    raw = await asyncio.to_thread(read_raw, doc, run) if doc.local else await _remote(doc, run)
    if doc.strip:
        return await asyncio.to_thread(strip_markup, raw)
    if doc.markdown:
        rules = run.rules
        document = await as_markdown(raw, timeout=rules.tool_timeout, rules=rules.fetching)
        return document.titled if raw.kind.is_page else document.text  # titles of PDF files are often none
    return plain_text(raw)


def is_converted(doc: Doc, name: str) -> bool:
    """Whether a `<doc>` of this name is turned into markdown by what `lmm import` reads with."""
    return doc.markdown and not doc.strip and suffix_of(name) in CONVERTED


def read_raw(doc: Doc, run: Run) -> SourceDocument:
    """The file of a local `<doc>`, as it is.

    Raises:
        ChatmdError: it cannot be had.
    """
    path = locate(doc.src, run)
    limit = MOST_CONVERTED if is_converted(doc, path.name) else run.rules.fetch_limit
    return SourceDocument(read_local(path, limit=limit), path.name)


async def _remote(doc: Doc, run: Run) -> SourceDocument:
    if "://" not in doc.src:
        raise ChatmdError("this is not a URL", hint="write 'local' for a file on disk")
    file = github_file(doc.src) if doc.markdown else None
    return SourceDocument.of(await fetch(file.url if file else doc.src, run.rules.fetching), file.name if file else "")


async def read_img(img: Img, run: Run) -> Image:
    """The image that a local `<img>` stands for.

    Raises:
        ChatmdError: it cannot be read, is too large, or none that models see.
    """
    limit = run.rules.fetch_limit
    data = await asyncio.to_thread(read_local, locate(img.src, run), limit=limit)
    return image_from(data, limit=limit)


async def read_mentioned(src: str, folder: Path, settings: Settings) -> str | Image:
    """What ``@src`` means in a document of `folder`: an image, or a file below it or a web page as text.

    Raises:
        ChatmdError: it cannot be had.
    """
    run = Run(folder.resolve(), settings)
    if suffix_of(src) in PICTURES and "://" not in src:
        return await read_img(Img(src, local=True), run)
    remote = "://" in src
    converted = remote or suffix_of(src) in CONVERTED
    return await read_doc(Doc(src, local=not remote, markdown=converted), run)


# -- what goes wrong ---------------------------------------------------------------------------------------


def with_place(error: LmmError, part: Expandable) -> LmmError:
    """An error with the place of the part. What stops a run, or happened inside of an agent, stays what it is."""
    if type(error) is not ChatmdError and not isinstance(error, FetchFailed | DocumentError):
        return error
    named = shown_part(part)
    told = error.message if error.message.startswith(named) else f"{named}: {error.message}"
    if isinstance(part, SubAgent) and error.where:
        told = f"{named}: {error.where}: {error.message}"
    return ChatmdError(told, where=part.span.where, hint=error.hint)
