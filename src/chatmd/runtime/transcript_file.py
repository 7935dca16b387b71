"""A transcript that grows by whole elements, in memory or in a file that other programs may change at the same time.

Each element is saved by `SharedFile`: it is placed again (`find_place`) in what the author has saved since, and the
file is exchanged atomically. If the place was changed, the file stays as the author wrote it, and our text is written
to a second file, which the error names.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chatmd.compaction.compact import Compaction, CompactOptions, compact_text, is_summary
from chatmd.content.expand import locate
from chatmd.context import Run
from chatmd.errors import ChatmdError, InvalidDocument
from chatmd.language.agent import MessageItem, interpret, text_of
from chatmd.language.nodes import Attribute, Element, Node, Text
from chatmd.language.syntax import errors_of, parse, parse_body, serialize
from chatmd.language.transcript import USER_TURN, cut_torn, gap, parse_cached, repair, storable
from chatmd.sidecar import FOLDER, PICTURES, ExpansionRecord, free_name, link_records, write_private
from chatmd.tools.text_files import whole_characters
from lmm.disk import files
from lmm.disk.files import check_writable, document_lock
from lmm.disk.folder import Folder
from lmm.disk.shared import SharedFile
from lmm.disk.undo import changed_files, remember
from lmm.errors import Changed, DocumentBusy, Failure, FileReadError, FileWriteError
from lmm.models.port import ModelLike

# -- The text without an empty user message at its end --------------------------------------------------------

_BLANK_TURN = re.compile(r"(?:\A|(?<=>))\s*<user>\s*</user>\s*\Z")
_LONGEST_TURN = 1000


def without_blank_turn(text: str) -> str:
    """Return a text without an empty ``<user>`` at its end.

    >>> without_blank_turn("<user>Why?</user>\\n\\n<user>\\n\\n</user>\\n")
    '<user>Why?</user>'
    """
    found = _BLANK_TURN.search(text, max(0, len(text) - _LONGEST_TURN))
    return text[: found.start()] if found else text


# -- The place of our text in a transcript that another program changed while we wrote -------------------------

_END = 100  # characters before ours that show that the file still ends as before


def find_place(before: str, pieces: Sequence[str], theirs: str) -> tuple[str, str] | None:
    """Return the text before and after `pieces` in `theirs`, a changed version of `before` with all or some pieces.

    Return None if their place is uncertain, because the text near them was changed, and not only long before or after.

    >>> find_place("<user>Why?</user>", ["<assistant>Because"], "<user>Why?</user><user>And?</user>")
    ('<user>Why?</user>', '<user>And?</user>')
    >>> find_place("<user>Why?</user>", ["<assistant>Because"], "<user>But why?</user>") is None
    True
    """
    if not theirs.startswith(before):
        end = before[-_END:]
        endings = ("".join(pieces), "") if len(end) == _END else ()
        ours = next((ours for ours in endings if theirs.endswith(end + ours)), None)
        return None if ours is None else (theirs.removesuffix(ours), "")
    behind, remaining = theirs[len(before) :], "".join(pieces)
    for piece in pieces:
        if not behind.startswith(piece):
            break
        behind, remaining = behind[len(piece) :], remaining[len(piece) :]
    if remaining.startswith(behind) or not behind.strip():
        return before, ""
    remaining, begins = remaining.lstrip(), behind.lstrip()
    # What begins with our tag, or continues in the middle of our text, is our text, changed by them.
    tag = remaining.partition(">")[0]
    is_ours = begins.startswith(tag) if tag.startswith("<") else not begins.startswith("<")
    return None if remaining and is_ours else (before, behind)


@dataclass(frozen=True, slots=True)
class Growth:
    """A text that grows: how it began, the elements that we added, and what others wrote after them (`tail`).

    `turn` is the blank message for the user, which ends the text unless somebody has written something. Until we add
    an element, all changes by others are accepted.
    """

    begin: str
    ours: tuple[str, ...] = ()
    tail: str = ""
    turn: str = ""

    @property
    def written(self) -> str:
        """The text up to the end of our elements."""
        return self.begin + "".join(self.ours)

    @property
    def text(self) -> str:
        """The whole text."""
        return self.written + (self.tail or self.turn)

    @property
    def newline(self) -> str:
        """The line ending of the text, as in its first line."""
        first, ended, _ = self.begin.partition("\n")
        return "\r\n" if ended and first.endswith("\r") else "\n"

    def add(self, text: str, turn: str = "", *, apart: bool = True) -> Growth:
        """Add an element after ours, if it stands `apart` after a blank line."""
        before = gap(self.written[-4:], self.newline) if apart else ""
        return replace(self, ours=(*self.ours, before + text), turn=turn)

    def settle(self) -> Growth:
        """Put the next element after what others have written; they have answered what came before."""
        return replace(self, ours=(*self.ours, self.tail), tail="", turn="") if self.tail else self

    def rebase(self, theirs: str) -> Growth | None:
        """Place our elements in a text that others have changed; None if their place is uncertain."""
        if not self.ours:
            return Growth(theirs)
        for first in range(len(self.ours) + 1):  # an edit in one of ours is accepted if those after it are certain
            begin, ours = self.begin + "".join(self.ours[:first]), self.ours[first:]
            if (found := find_place(begin, ours, theirs)) is not None:
                new, tail = replace(self, begin=found[0], ours=ours), found[1]
                if not without_blank_turn(tail).strip():
                    tail = ""
                elif new.written + tail != theirs:  # it stands after our elements for the first time
                    tail = gap(new.written[-4:], new.newline) + tail.lstrip("\r\n")
                return replace(new, tail=tail)
        return None


_ROOM = 1_000_000  # bytes: the longest reply of most models
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Transcript:
    """A text to which elements are added: in memory, or in a `file` that is locked (`open_transcript`).

    `notes` are for the user; payloads are stored in `folder`, or kept in the text if it is None. `changed` says that
    others have changed the text, until the reader sets it back. `saved` is called with each state of a text in memory.
    """

    def __init__(
        self, text: str, file: SharedFile | None = None, saved: Callable[[str], object] = lambda text: None
    ) -> None:
        self._saved = saved
        self.path = file.path if file is not None else None
        self.folder = self.path.resolve().parent if self.path is not None else None
        self.notes: list[str] = []
        self.changed = False
        self._file, self._growth = file, Growth(text)

    @property
    def text(self) -> str:
        """The whole text: what was there, what we added, what others wrote after that."""
        return self._growth.text

    @property
    def newline(self) -> str:
        """The line ending of the text."""
        return self._growth.newline

    def append(self, text: str, *, turn: str = "", apart: bool = True) -> None:
        """Save an element after ours, and the blank message `turn` at the end, unless others have written something.

        It stands `apart` from the text before it, after a blank line.

        Raises:
            FileReadError: others changed the text at this place, or emptied the file; ours is kept beside it.
            FileWriteError: it cannot be written; the file stays as it is.
        """
        self._save(self._growth.add(text, turn, apart=apart))

    def say(self, text: str) -> None:
        """Save a message of the user at the end, in place of a blank one. Raises the same errors as `append`."""
        self.refresh()
        growth = replace(self._growth.settle(), turn="")
        if not growth.ours:
            growth = Growth(without_blank_turn(growth.begin))
        elif (last := without_blank_turn(growth.ours[-1])) != growth.ours[-1]:
            growth = replace(growth, ours=(*growth.ours[:-1], last))
        self._save(growth.add(text))

    def refresh(self) -> None:
        """Read what others have written. Raises the same errors as `append`."""
        if self._file is not None and (self._file.changed() or self._file.base != self.text):
            self._save(self._growth)

    def settle(self) -> None:
        """Let the next element come after what others have written."""
        self._growth = self._growth.settle()

    def accept_changes(self) -> None:
        """Accept from now on all changes by others, to our elements too, as it is their turn to write."""
        self.refresh()
        self._growth = Growth(self.text)

    def restart(self, was: str, text: str) -> bool:
        """Replace `was`, with which the transcript begins, by `text`; return False if it does not begin so.

        What others have appended in the meantime stays.
        """
        self.refresh()
        if not self.text.startswith(was):
            return False
        rest = self.text[len(was) :]
        if (file := self._file) is not None:

            def replaced(theirs: str) -> tuple[str, tuple[Failure, ...]]:
                if not theirs.startswith(was):
                    raise Changed(None, file.path)
                return text + theirs[len(was) :], ()

            try:
                rest = file.save(replaced).text[len(text) :]
            except Changed:
                return False
        self._growth = Growth(text + rest)
        return True

    def check_room(self) -> None:
        """Check that a reply can be stored, before one is paid for.

        Raises:
            FileWriteError: the disk is full.
        """
        if self.path is None:
            return
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(bytes(_ROOM))
        except OSError as error:
            if error.errno in _FULL:
                raise FileWriteError(
                    f"no model was asked, because its reply could not be saved: {error.strerror}", where=str(self.path),
                    hint=f"free some space, {_ROOM // 1_000_000} MB at least, then run again",
                ) from error  # fmt: skip

    def _save(self, target: Growth) -> None:
        """Save a new state, or what becomes of it in the text that others have written since."""
        self._growth, file = target, self._file
        if file is None:
            self._saved(self.text)
            return
        base = file.base

        def rebase(theirs: str) -> tuple[str, tuple[Failure, ...]]:
            if base.strip() and not theirs.strip():
                raise FileReadError("the file was emptied during the run")
            found = target if theirs == base else target.rebase(theirs)
            if found is None:
                raise FileReadError("the file was changed where the run was writing")
            self._growth = found
            return found.text, ()

        try:
            saved = file.save(rebase)
        except FileReadError as error:
            self._growth = target
            if os.path.lexists(file.path):
                backup = backup_path(file.path)
                Folder(backup.parent).write(backup.name, target.text.encode("utf-8"), private=True)
                hint = f"everything is in {backup}: copy it back, if this was a mistake"
                raise FileReadError(error.message, where=str(file.path), hint=hint) from error
            files.replace(file.path, target.text)  # it was deleted
            self._file = SharedFile.open(file.path, undoable=False)
            return
        self.changed = self.changed or saved.rebased
        self.notes += [f"{path} contains what was saved here when a run was killed" for path in saved.recovered]


def backup_path(path: Path) -> Path:
    """Return the path for a transcript that cannot be written to its own file."""
    return path.resolve().parent / FOLDER / f"{path.stem}.aside{path.suffix}"


def fix_torn(path: Path) -> bool:
    """Cut off what a run of an earlier version left incomplete at the end of a file; return whether there was any.

    Raises:
        DocumentBusy: another process is running it.
        FileReadError, FileWriteError: the file is missing, not UTF-8, or write-protected.
    """
    with document_lock(path, timeout=0):
        data = files.read_bytes(path)
        whole = cut_torn(files.decode_document(whole_characters(data), str(path))).encode("utf-8")
        if whole != data:
            files.replace(path, whole, expected=data)
            remember(path, data, whole)
    return whole != data


@contextlib.contextmanager
def open_transcript(path: Path, *, goes_on: bool = False) -> Iterator[Transcript]:
    """Open a transcript, with a result for each interrupted call, and lock it until the context ends.

    If the user `goes_on`, a cancelled reply stays in it.

    Raises:
        DocumentBusy: another process is running it.
        FileReadError, FileWriteError: the file is missing, not UTF-8, or write-protected.
    """
    with document_lock(path, timeout=0):
        file = SharedFile.open(path, undoable=False)
        check_writable(path)
        repaired = repair(file.base, str(path), goes_on=goes_on)
        transcript = Transcript(file.base, file)
        if repaired.interrupted:
            repaired = link_records(path.resolve().parent, path.name, repaired)
        if repaired.text != file.base and transcript.restart(file.base, repaired.text):
            transcript.notes += repaired.notes
        if (backup := backup_path(path)).exists():
            what = "contains what an earlier run could not write here; delete it when you have read it"
            transcript.notes.append(f"{backup} {what}")
        try:
            yield transcript
        finally:
            transcript.refresh()


# -- Messages of the user, as typed and as elements of a file; rewind and fork -----------------------------------


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
    """The `text` before the user's last message, that message as a `draft`, and the path of the kept `original`.

    `changed` are the files that the turn of the message changed.
    """

    text: str
    draft: Draft
    original: Path = Path()
    changed: tuple[Path, ...] = ()


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


def last_message(text: str, file: str = "") -> str:
    """Return the user's last message with its number in the conversation, which identifies its turn; "" without one.

    >>> last_message("<user>A?</user><assistant>B.</assistant><user>C?</user><assistant>D.</assistant>")
    '2 C?'
    """
    items = interpret(parse_cached(text, file))[0].items
    found = [item for item in items if isinstance(item, MessageItem) and item.role == "user" and not item.is_blank]
    return f"{len(found)} {text_of(found[-1].content).strip()}" if found else ""


def rewind_text(text: str, file: str = "") -> RewindResult | None:
    """Return a file as it was before the user's last message; None without one that the user wrote.

    >>> rewind_text("<user>A?</user><assistant>B.</assistant><user>C?</user><assistant>D.</assistant>").draft.text
    'C?'
    """
    return next(_rewinds(text, file), None)


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
        text_before = text[:start].rstrip() + "".join(f"\n{source}" for source in behind)
        text_before = text_before + "\n" if text_before else ""
        yield RewindResult(text_before + gap(text_before) + USER_TURN, draft_of(elements[start]))


def fork(text: str, number: int, file: str = "") -> RewindResult:
    """Cut a conversation before the user's message with this number, from 1, to continue it differently.

    Raises:
        ChatmdError: there is no such message, or it is a summary, or in another file.

    >>> fork("<user>A?</user><assistant>B.</assistant><user>C?</user>", 2).text
    '<user>A?</user><assistant>B.</assistant>\\n\\n<user>\\n\\n</user>\\n'
    """
    found = [*_rewinds(text, file)][::-1]
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
        done = dataclasses.replace(
            done, original=free_name(path), changed=changed_files(path, last_message(text, str(path)))
        )
        write_private(text, done.original)
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
