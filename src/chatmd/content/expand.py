"""Expand documents, local images and agents in messages: read, fetch or ask them, or take them from the record.

Contents that a model has seen are taken from the record, if there is one. Those of an unanswered message are read again
each time, so that a file can be corrected before another attempt; an agent is asked again after its file has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from chatmd.content.documents import SourceDocument, as_markdown, image_from, plain_text, strip_markup, titled
from chatmd.context import AgentRequest, Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Doc, Expandable, Img, Item, SubAgent
from chatmd.language.imports import name_inside
from chatmd.language.transcript import data_uri
from chatmd.sidecar import (
    PICTURES,
    ExpansionRecord,
    Occurrence,
    Payloads,
    check_came_along,
    json_of,
    occurrences,
    places,
)
from lmm.config import Settings
from lmm.disk import digest
from lmm.disk.files import decode_document
from lmm.disk.opened import open_folder, read_errors
from lmm.errors import DocumentError, FetchFailed, LmmError
from lmm.fetch import fetch, github_file, shown
from lmm.importing.formats import CONVERTED, suffix_of
from lmm.messages import Image, Notice
from lmm.terminal import megabytes

# -- Files that a document names: below the prompt's folder, or in other allowed folders


MOST_CONVERTED = 100_000_000
"""The largest file that is converted to markdown, in bytes; most bytes of PDF files and the like are not text."""


def locate(src: str, run: Run) -> Path:
    """Return the real path of `src`, which is relative to the prompt's folder and need not exist.

    Raises:
        ChatmdError: it is outside of the allowed folders, also by a link, or is not a path.
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
    name_inside(real, allowed, src)
    return real


def in_working_folder(src: str, run: Run) -> Path | None:
    """Return the real path of a file in the working folder if the prompt's folder does not have it, as in ochat."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        name = src.strip()
        if run.working is not None and not (run.folder / name).exists():
            working = run.working.resolve()
            real = (working / name).resolve()
            if real.is_file() and real.is_relative_to(working):
                return real
    return None


def read_local(path: Path, *, limit: int) -> bytes:
    """Read the bytes of an ordinary file at a real path.

    Raises:
        FileReadError: it is missing, not an ordinary file, or not readable.
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
    """The contents of parts, by the identity of the part: equal parts at two places may have different contents."""

    def __init__(self, pairs: Iterable[tuple[Expandable, Value]] = ()) -> None:
        self._values = {id(part): (part, value) for part, value in pairs}  # keeps the parts, so that ids are unique

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
    """Return the contents of all parts of `items`, for `messages_of(…, expand=result.__getitem__)`.

    The result is by identity: use it for parts of these `items`, and pass it as `known` for the same items with more
    after them. Parts that are neither known nor in `payloads` are read in parallel, equal parts once; agents are asked
    after everything else was read.

    Raises:
        ChatmdError: a part cannot be read; the first one, if there are several.
    """
    found: list[tuple[Expandable, Value]] = []
    unread: list[Occurrence] = []
    for one in occurrences(items):
        if (value := _known(one, recorded, payloads, known)) is None:
            unread.append(one)
        else:
            found.append((one.part, value))
    limit = asyncio.Semaphore(run.rules.max_parallel)

    async def read(group: list[Occurrence]) -> Value:
        keys = [one.key for one in group if one.key]
        async with limit:
            return await _value(group[0].part, keys, run, recorded, exactly=not keys)

    for is_agent in (False, True):
        same: dict[tuple[Expandable, bool], list[Occurrence]] = {}
        for one in unread:
            if isinstance(one.part, SubAgent) == is_agent:
                same.setdefault((one.part, bool(one.key)), []).append(one)
        values = await asyncio.gather(*map(read, same.values()), return_exceptions=True)
        for group, came in zip(same.values(), values, strict=True):
            if isinstance(came, BaseException):
                raise came
            found += [(one.part, came) for one in group]
    return Expansions(found)


def _known(
    one: Occurrence, recorded: ExpansionRecord | None, payloads: Payloads | None, known: Mapping[Expandable, Value]
) -> Value | None:
    """Return the content of a part if it need not be read, otherwise None."""
    value = known.get(one.part)
    if value is None and payloads is not None:
        value = payloads.read(one.part)
    if value is None and recorded is not None and one.key and (one.answered or recorded.only):
        value = recorded.find(one.key)
        if value is None and recorded.only:
            message = f"what {shown_part(one.part)} stood for was not recorded"
            raise ChatmdError(message, where=one.part.span.where, hint="run it without --replay, and it is")
    return value


def shown_part(part: Expandable) -> str:
    """Return the name of a part's file or URL, for messages."""
    return shown(part.src) if "://" in part.src and not part.local else f"'{part.src}'"


async def _value(
    part: Expandable, keys: Sequence[str], run: Run, recorded: ExpansionRecord | None, *, exactly: bool = False
) -> Value:
    """Read the content of a part, and record it for each of the places `keys`."""
    try:
        value = await _read(part, run, recorded, key="".join(keys[:1]), exactly=exactly)
    except LmmError as error:
        raise with_place(error, part) from error
    if recorded is not None:
        for key in keys:
            await asyncio.to_thread(recorded.record, key, part, value)
    return value


async def _read(part: Expandable, run: Run, recorded: ExpansionRecord | None, *, key: str, exactly: bool) -> Value:
    """Read a part, or ask its agent, unless the record has its answer at the place `key` and nothing has changed."""
    if isinstance(part, Doc):
        return await asyncio.to_thread(read_stored, part, run) if exactly and part.local else await read_doc(part, run)
    if isinstance(part, Img):
        return await read_img(part, run)
    path = locate(part.src, run) if part.local else None
    inside = {id(one): place for one, place in places(part, key)} if key else {}
    content = list[str | Img]()  # of images, those inline
    for one in part.content:
        if isinstance(one, str) or (isinstance(one, Img) and not one.local):
            content.append(one)
        else:
            value = await _value(one, [place] if (place := inside.get(id(one), "")) else [], run, recorded)
            content.append(value if isinstance(value, str) else Img(data_uri(value), span=one.span))
    paid = ""
    with contextlib.suppress(LmmError):  # asking the agent reports the error
        if recorded is not None and key and path is not None:
            text = await asyncio.to_thread(read_local, path, limit=MOST_CONVERTED)
            paid = digest(json.dumps([key, digest(text), *map(json_of, content)]))
    if recorded and paid and (known := recorded.find(paid)) is not None:
        run.emit(Notice(f"{shown_part(part)} answered this already: the answer is taken from the record"))
        return known
    answer = await run.ask(run, AgentRequest(part.src, part.local, run.folder, tuple(content)))
    if recorded and paid:
        await asyncio.to_thread(recorded.record, paid, part, answer)
    return answer


def read_stored(doc: Doc, run: Run) -> str:
    """Read a local `<doc>` that a run stored for the text of a model or tool, unchanged.

    Raises:
        ChatmdError, FileReadError: it cannot be read, or is not UTF-8.
    """
    check_came_along(run.folder, doc)
    path = locate(doc.src, run)
    return decode_document(read_local(path, limit=MOST_CONVERTED), str(path))


async def read_doc(doc: Doc, run: Run) -> str:
    """Read or fetch the text of a `<doc>`.

    Raises:
        ChatmdError: it is not available.
    """
    if doc.local:
        raw = await asyncio.to_thread(read_raw, doc, run)
    elif "://" in doc.src:
        file = github_file(doc.src) if doc.markdown else None
        came = await fetch(file.url if file else doc.src, run.rules.fetching)
        raw = SourceDocument.of(came, file.name if file else "")
    else:
        raise ChatmdError("this is not a URL", hint="write 'local' for a file on disk")
    if doc.strip:
        return await asyncio.to_thread(strip_markup, raw)
    if doc.markdown:
        rules = run.rules
        document = await as_markdown(raw, timeout=rules.tool_timeout, rules=rules.fetching)
        return titled(document) if raw.kind.is_page else document.body  # titles in PDF files are often useless
    return plain_text(raw)


def read_raw(doc: Doc, run: Run) -> SourceDocument:
    """Read the file of a local `<doc>`, unconverted.

    Raises:
        ChatmdError: it cannot be read.
    """
    path = locate(doc.src, run)
    is_converted = doc.markdown and not doc.strip and suffix_of(path.name) in CONVERTED
    limit = MOST_CONVERTED if is_converted else run.rules.fetch_limit
    return SourceDocument(read_local(path, limit=limit), path.name)


async def read_img(img: Img, run: Run) -> Image:
    """Read the image of a local `<img>`.

    Raises:
        ChatmdError: it cannot be read, is too large, or in a format that models do not support.
    """
    limit = run.rules.fetch_limit
    data = await asyncio.to_thread(read_local, locate(img.src, run), limit=limit)
    return image_from(data, limit=limit)


async def read_mentioned(src: str, folder: Path, settings: Settings) -> str | Image:
    """Read what ``@src`` mentions in a document in `folder`: an image, or a file below it or a web page as text.

    Raises:
        ChatmdError: it is not available.
    """
    run = Run(folder.resolve(), settings)
    if suffix_of(src) in PICTURES and "://" not in src:
        return await read_img(Img(src, local=True), run)
    remote = "://" in src
    converted = remote or suffix_of(src) in CONVERTED
    return await read_doc(Doc(src, local=not remote, markdown=converted), run)


# -- errors ------------------------------------------------------------------------------------------------


def with_place(error: LmmError, part: Expandable) -> LmmError:
    """Add the place of the part to an error. Errors that stop a run, or come from inside an agent, stay unchanged."""
    if type(error) is not ChatmdError and not isinstance(error, FetchFailed | DocumentError):
        return error
    named = shown_part(part)
    message = error.message if error.message.startswith(named) else f"{named}: {error.message}"
    if isinstance(part, SubAgent) and error.where and not isinstance(error, FetchFailed):
        message = f"{named}: {error.where}: {error.message}"
    return ChatmdError(message, where=part.span.where, hint=error.hint)
