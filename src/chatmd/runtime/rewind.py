"""Messages of the user, as typed and as elements of a file; rewind, fork and compact transcripts."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chatmd.compaction.compact import Compaction, CompactOptions, compact_text
from chatmd.compaction.summary import is_summary
from chatmd.content.expand import locate
from chatmd.context import Run
from chatmd.errors import ChatmdError, InvalidDocument
from chatmd.language.agent import MessageItem, interpret
from chatmd.language.nodes import Attribute, Element, Node, Text
from chatmd.language.syntax import errors_of, parse, parse_body, serialize
from chatmd.language.transcript import USER_TURN, gap, storable
from chatmd.runtime.transcript_file import Transcript
from chatmd.sidecar import PICTURES, ExpansionRecord, free_name, keep
from lmm.errors import DocumentBusy
from lmm.models.port import ModelLike

_PUNCTUATION = ".,;:!?)]}'\""
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')
_KEPT = ("config", "tool", "input", "output", "import")  # what a file declares stays, wherever it stands


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is being written; with `markup`, its tags have their meaning, else it is literal text."""

    text: str
    markup: bool = False


@dataclass(frozen=True, slots=True)
class RewindResult:
    """The `text` before the user's last message, that message as a `draft`, and the path of the kept `original`."""

    text: str
    draft: Draft
    original: Path = Path()


def attached_files(text: str, run: Run) -> tuple[str, ...]:
    """Return the files named after ``@`` in a message, relative to the folder; a name without a file is just text.

    Raises:
        ChatmdError: one of them is outside of the allowed folders.
    """
    found: dict[str, None] = {}
    for match in _MENTION.finditer(text):
        name = match[1] or match[2]
        for stem in dict.fromkeys((name, name.rstrip(_PUNCTUATION))):
            with contextlib.suppress(OSError, ValueError, RuntimeError):  # of a name that no file can have
                path = run.folder / Path(stem).expanduser()
                if stem and path.is_file():
                    locate(stem if path.is_relative_to(run.folder) else str(path), run)
                    found[os.path.relpath(path, run.folder)] = None
                    break
    return tuple(found)


def message_element(draft: Draft, files: Sequence[str] = ()) -> Element:
    """Return the ``<user>`` element of a message, followed by `files`: paths relative to the transcript, or URLs.

    Raises:
        InvalidDocument: the markup has errors.
    """
    if not draft.markup:
        text, nodes = storable(draft.text), list[Node]()
        for name in files:
            tag = "img" if name.lower().endswith(PICTURES) else "doc"
            local = () if name.lower().startswith(("http://", "https://")) else (Attribute("local"),)
            nodes += [Text(text + _label(name)), Element(tag, (Attribute("src", name), *local))]
            text = ""
        return Element("user", (), tuple(nodes) or (Text(text),))
    body = parse_body(draft.text, file="the message")
    if errors := errors_of(body.problems):
        raise InvalidDocument(errors)
    return Element("user", (), body.children)


def _label(name: str) -> str:
    return f"\n\n{name}:\n"


def draft_of(element: Element) -> Draft:
    """Return what was typed for an element; if it contains elements that were written by hand, as markup.

    >>> draft_of(message_element(Draft("Is @a.md right?"), ["a.md"]))
    Draft(text='Is @a.md right?', markup=False)
    """
    if all(isinstance(node, Text) for node in element.children):
        return Draft("".join(node.value for node in element.children if isinstance(node, Text)).strip("\n"))
    names = [node.get("src") or "" for node in element.children if isinstance(node, Element)]
    first = element.children[0]
    text = first.value.removesuffix(_label(names[0])) if isinstance(first, Text) else ""
    if message_element(Draft(text), names).children == element.children:
        return Draft(text)
    return Draft(serialize(element.children).strip("\n"), markup=True)


def rewind_text(text: str, file: str = "") -> RewindResult | None:
    """Return a file as it was before the user's last message; None without one that the user wrote.

    >>> rewind_text("<user>A?</user><assistant>B.</assistant><user>C?</user><assistant>D.</assistant>").draft.text
    'C?'
    """
    return next(_rewinds(text, file), None)


def forks(text: str, file: str = "") -> list[RewindResult]:
    """Return the conversation before each message of the user that can be taken back, oldest first.

    >>> [fork.draft.text for fork in forks("<user>A?</user><assistant>B.</assistant><user>C?</user>")]
    ['A?', 'C?']
    """
    return [*_rewinds(text, file)][::-1]


def _rewinds(text: str, file: str) -> Iterator[RewindResult]:
    """Yield the same, newest first; each is made on demand, as it contains nearly all of the text."""
    document = parse(text, file=file)
    elements = {node.span.start: node for node in document.elements}
    for item in reversed(interpret(document)[0].items):
        if not isinstance(item, MessageItem) or item.role != "user" or item.is_blank:
            continue
        start = item.span.start
        if is_summary(item) or start not in elements:
            break
        behind = [node.span.text for at, node in elements.items() if at > start and node.tag in _KEPT]
        kept = text[:start].rstrip() + "".join(f"\n{source}" for source in behind)
        kept = kept + "\n" if kept else ""
        yield RewindResult(kept + gap(kept) + USER_TURN, draft_of(elements[start]))


def fork(text: str, number: int, file: str = "") -> RewindResult:
    """Cut a conversation before the user's message with this number, from 1, to continue it differently.

    Raises:
        ChatmdError: there is no such message, or it is a summary, or in another file.

    >>> fork("<user>A?</user><assistant>B.</assistant><user>C?</user>", 2).text
    '<user>A?</user><assistant>B.</assistant>\\n\\n<user>\\n\\n</user>\\n'
    """
    found = forks(text, file)
    if not 1 <= number <= len(found):
        count = f"it has {len(found)} that can be taken back"
        raise ChatmdError(f"there is no message {number} of the user", where=file, hint=count)
    return found[number - 1]


# -- Changes of a whole transcript; the original of a file is kept beside it ------------------------------------


def rewind_transcript(transcript: Transcript) -> RewindResult | None:
    """Cut a transcript before its last message of the user, atomically; return None if it has none.

    Raises:
        DocumentBusy: the file was changed in the meantime.
        FileWriteError: the file cannot be written.
    """
    text, path = transcript.text, transcript.path
    done = rewind_text(text, str(path or ""))
    if done is None:
        return None
    if path is not None:
        done = dataclasses.replace(done, original=free_name(path))
        keep(text, done.original)
    _restart(transcript, text, done.text)
    return done


async def compact_transcript(
    transcript: Transcript, run: Run, options: CompactOptions = CompactOptions(), *, model: ModelLike = ""
) -> Compaction:
    """Compact a conversation with `model`, else the aux model; text that is appended in the meantime stays.

    Raises: as `compact_text` and `rewind_transcript`.
    """
    text, path = transcript.text, transcript.path
    done = await compact_text(text, run, options, model=model, path=path)
    await asyncio.to_thread(_restart, transcript, text, done.text)
    if path is not None:
        ExpansionRecord(path).carry_over(done.was, done.items)
    return done


def _restart(transcript: Transcript, was: str, text: str) -> None:
    if not transcript.restart(was, text):
        hint = "try again: a summary is remembered, as long as what it is made of is the same"
        raise DocumentBusy("the file was changed meanwhile; it stays unchanged", where=str(transcript.path), hint=hint)
