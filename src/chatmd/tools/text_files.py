"""Files that tools read and change: lines with their ends, excerpts, and changes of several files at once.

A line ends with LF or CRLF; any other character, such as a lone CR or a form feed, is part of it.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from chatmd.errors import NotStorable
from chatmd.tools.roots import LOOK, RootedPath
from lmm.disk.files import decode_document, document_lock
from lmm.disk.opened import make_folders, open_folder, read_errors, remove_folders, write_errors
from lmm.disk.swap import remove_leftovers
from lmm.disk.undo import remember
from lmm.errors import FileReadError, FileWriteError

BOM = "\ufeff"
_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class TextLines:
    """The lines of a text, each with its text and its end (``\\n``, ``\\r\\n``, or nothing at the end of the file).

    >>> TextLines.of("a\\r\\nb")
    TextLines(texts=('a', 'b'), ends=('\\r\\n', ''), bom=False)
    """

    texts: tuple[str, ...]
    ends: tuple[str, ...]
    bom: bool = False

    @classmethod
    def of(cls, text: str) -> TextLines:
        """Split a text into lines; an empty one has none."""
        body = text.removeprefix(BOM)
        pairs = [match.groups() for match in _LINE.finditer(body)]
        if pairs and pairs[-1] == ("", ""):  # after the last line end
            pairs.pop()
        return cls(tuple(line for line, _ in pairs), tuple(end for _, end in pairs), body != text)

    @property
    def text(self) -> str:
        """The exact text."""
        mark = BOM if self.bom else ""
        return mark + "".join(line + end for line, end in zip(self.texts, self.ends, strict=True))

    @property
    def newline(self) -> str:
        """The most frequent line end; LF if there is none.

        >>> TextLines.of("a\\r\\nb\\r\\nc\\n").newline
        '\\r\\n'
        """
        return "\r\n" if self.ends.count("\r\n") > self.ends.count("\n") else "\n"


def with_newline(text: str, newline: str) -> str:
    """Convert all line ends of a text to `newline`.

    >>> with_newline("a\\nb\\r\\n", "\\r\\n")
    'a\\r\\nb\\r\\n'
    """
    return text.replace("\r\n", "\n").replace("\n", newline)


def decode_text(data: bytes, name: str) -> str:
    """Decode the bytes of a text file: UTF-8 without NUL.

    Raises:
        FileReadError: it is not a text file.
    """
    if b"\0" in data and data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise FileReadError("this is not a text file", where=name)
    return decode_document(data, name)


def whole_characters(data: bytes) -> bytes:
    """Remove an incomplete character at the end of UTF-8 data.

    >>> whole_characters("aü".encode()[:-1])
    b'a'
    """
    return data[: codecs.utf_8_decode(data, "surrogateescape", False)[1]]


def encode_text(text: str, name: str) -> bytes:
    """Encode a text for a text file.

    Raises:
        NotStorable: the text contains a NUL or half of a surrogate pair.
    """
    if "\0" in text:
        raise NotStorable("a text file cannot contain a NUL", where=name)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotStorable("the text contains half of a surrogate pair", where=name) from error


def are_numbered(lines: Sequence[str]) -> bool:
    """Return whether all lines begin with a number and a tab, as a model copies them from an excerpt."""
    return any(lines) and all(re.match(r"\s*\d+\t", line) for line in lines if line.strip())


_HEAD = 0.6  # the share of a cut text that is taken from its beginning


def cut(text: str, limit: int) -> str:
    """Cut a text in the middle to `limit` characters, between lines if possible, with a note about what is missing.

    >>> cut("abcdefghij\\n" * 20, 10)
    'abcdef\\n[… 210 characters left out, in lines 1 to 20 …]\\nhij\\n'
    """
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    begin, end = text[:head], text[len(text) - (limit - head) :]
    begin = begin[: begin.rfind("\n")] if "\n" in begin[head // 2 :] else begin
    end = end[end.find("\n") + 1 :] if "\n" in end[: len(end) // 2] else end
    first, last = text.count("\n", 0, len(begin) + 1) + 1, text.count("\n", 0, len(text) - len(end) - 1) + 1
    where = f"lines {first} to {last}" if first < last else f"line {first}"
    return f"{begin}\n[… {len(text) - len(begin) - len(end):,} characters left out, in {where} …]\n{end}"


# -- Excerpts of a file ---------------------------------------------------------------------------------------


READ = 200_000_000
"""The number of bytes that are read of a file."""
_NUMBER = 9  # characters of a line's number and the ends of line and number


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file with `total` lines.

    `exact` is False if the file is so large that the rest of it was not read; `cut` is True if the only line was cut
    off; `crlf` if lines end with CRLF.
    """

    lines: Sequence[str]
    total: int
    exact: bool = True
    cut: bool = False
    crlf: bool = False


def read_excerpt(file: BinaryIO, name: str, *, offset: int = 0, count: int | None = None, budget: int) -> Excerpt:
    """Read at most `count` lines after the first `offset`, in at most `budget` characters.

    >>> from io import BytesIO
    >>> read_excerpt(BytesIO(b"a\\nb\\nc"), "f", offset=1, count=1, budget=100).lines
    ('b',)

    Raises:
        FileReadError: the excerpt would not be text.
    """
    data, room = file.read(READ), 4 * budget + 4  # no character has more bytes
    if b"\0" in data[:8192]:
        decode_text(data[:8192], name)  # raises the error
    ends = (match.end() for match in re.finditer(b"\n", data))
    start = next(islice(ends, min(offset, len(data) + 1) - 1, None), len(data)) if offset else 0
    total = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    excerpt = whole_characters(data[start : start + room])
    try:
        text = excerpt.decode("utf-8")
    except UnicodeDecodeError:
        text = decode_text(data[: start + room], name)  # raises the error with its place
    lines = TextLines.of(text)
    complete = lines.texts if start + room >= len(data) else lines.texts[:-1]
    shown, cut = fitting((complete or lines.texts)[:count], budget)
    crlf = replace(lines, ends=lines.ends[: len(shown)]).newline == "\r\n"
    return Excerpt(shown, total, exact=len(data) < READ, cut=cut, crlf=crlf)


def fitting(lines: Sequence[str], budget: int) -> tuple[Sequence[str], bool]:
    """Return the first lines that fit into `budget` characters; if none does, the beginning of the first, and True.

    With each line, its number takes room.

    >>> fitting(["one", "two", "three"], 25), fitting(["one", "two"], 2)
    ((['one', 'two'], False), (['on'], True))
    """
    size = count = 0
    for line in lines:
        size += len(line) + _NUMBER
        if size > budget:
            break
        count += 1
    return (lines[:count], False) if count or not lines else ([lines[0][:budget]], True)


# -- Change several files at once ------------------------------------------------------------------------------
#
# Everything that can fail is done first: new contents are written beside the files, under temporary names. Then the
# files are renamed, one after the other, which needs no space. If that is interrupted, some files have their old
# content and others the new one, each of them complete. `lmm undo` reverts the changes.


MAX_EDITED = 50_000_000
"""The largest file that can be changed, in bytes: it is held in memory."""
_PATIENCE = 20.0  # seconds to wait for another change of the same file


@dataclass(slots=True)
class Change:
    """The change of one file: its content before and after, None for no file. A new one gets the mode of `like`.

    `mode` is the old file's; the new content is first written beside it, under a `temporary` name.
    """

    target: RootedPath
    old: bytes | None
    new: bytes | None
    like: RootedPath | None = None
    mode: int | None = None
    temporary: str = field(default_factory=lambda: f".lmm-{secrets.token_hex(8)}.tmp")


def read_content(target: RootedPath) -> bytes | None:
    """Return the content of a file that is to be changed; None if there is no file.

    Raises:
        FileReadError: it cannot be read.
        FileWriteError: it is too large to be edited.
    """
    with read_errors(target.name, look=LOOK):
        try:
            with open_folder(target.real.parent) as folder, folder.open(target.real.name) as file:
                data = file.read(MAX_EDITED + 1)
        except FileNotFoundError:
            return None
    if len(data) > MAX_EDITED:
        raise FileWriteError(f"files of more than {MAX_EDITED // 1_000_000} MB are not edited", where=target.name)
    return data


@contextlib.contextmanager
def lock_files(targets: Sequence[RootedPath]) -> Iterator[None]:
    """Hold the locks of all these files.

    Raises:
        DocumentBusy: another process holds one of them for too long.
    """
    with contextlib.ExitStack() as locks:
        for path, name in sorted({target.real: target.name for target in targets}.items()):
            with write_errors(name):
                locks.enter_context(document_lock(path, timeout=_PATIENCE))
        yield


def apply_changes(changes: Sequence[Change]) -> None:
    """Apply changes to files whose locks the caller holds.

    Raises:
        FileWriteError: a file cannot be written, is read-only, or changed since it was read. Nothing was changed,
            except for files that the message names.
    """
    for change in changes:
        if read_content(change.target) != change.old:
            problem = "another program has just changed this file; nothing was written"
            raise FileWriteError(problem, where=change.target.name, hint="read it again")
    made: list[Path] = []
    done: list[str] = []
    try:
        for change in changes:
            with write_errors(change.target.name, look=LOOK):
                if change.new is not None:
                    made += make_folders(change.target.real.parent)
                _prepare(change)
        # Files are removed last, as they may have been moved.
        for change in sorted(changes, key=lambda change: change.new is None):
            with write_errors(change.target.name, look=LOOK):
                source = change.like.real if change.old is None and change.like is not None else None
                # If this fails, nothing changes.
                remember(change.target.real, change.old, change.new, mode=change.mode, moved_from=source)
                _exchange(change)
            done.append(change.target.name)
    except FileWriteError as error:
        if done:
            error.message += f", after these files had been changed: {', '.join(done)}"
        raise
    finally:
        for change in changes:
            with contextlib.suppress(OSError), open_folder(change.target.real.parent) as folder:
                folder.remove(change.temporary, missing_ok=True)
        remove_folders(made)


def _prepare(change: Change) -> None:
    """Write the new content beside the file, after a check that the old one may be changed."""
    name = change.target.real.name
    with open_folder(change.target.real.parent) as folder:
        like = folder.stat(name)
        folder.check_changeable(like, name)
        change.mode = like and like.st_mode & 0o777
        if like is None and change.like is not None:
            with open_folder(change.like.real.parent) as other:
                like = other.stat(change.like.real.name)
        if change.new is not None:
            folder.write_new(change.temporary, change.new, like)
    remove_leftovers(change.target.real.parent)


def _exchange(change: Change) -> None:
    with open_folder(change.target.real.parent) as folder:
        if change.new is not None:
            folder.rename(change.temporary, change.target.real.name)
        else:
            folder.remove(change.target.real.name)
        folder.sync()
