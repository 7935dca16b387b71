"""All output to the terminal: control and invisible characters in it are spelled out, wherever it came from."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TextIO

from lmm.errors import LmmError, Place
from lmm.messages import Notice, Reply, Usage, Waiting

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes of commands."""
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Controls except tab and newline; zero-width characters; changes of writing direction; tags; surrogates.
# The joiner U+200D stays (emoji), and the non-joiner where Arabic and Indic scripts need it.
_UNSEEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
    "|(?<![\u0600-\u1cff])\u200c|\u200c(?![\u0600-\u1cff])"
)
_IN_TEXT = re.compile(_UNSEEN)
_IN_LINE = re.compile(f"{_UNSEEN}|[^\\S ]")
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links
    r"|[ -/]*[0-~])"  # others, of two or three characters
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
"""Escape sequences for terminals."""
# Our own codes begin with a random secret, so that `say` can tell them from those in other texts.
_OURS = f"\x1b{os.urandom(8).hex()}"
_CODE = re.compile(f"{_OURS}(\r|\\[[0-9;]*[A-Za-z])")
ERASE_LINE = f"{_OURS}\r{_OURS}[K"
"""For `say` on a terminal: erases the current line."""
_BETWEEN_WORDS = re.compile(r"\A(?: |\r?\n)?(?=\S)")  # of a line, or two
_LONG = 2000  # words: in a longer text, frequent words are not used to align the versions


# -- visible text ----------------------------------------------------------------------------------


def visible(text: str, *, line: bool = False) -> str:
    r"""Spell out control characters, invisible characters, and changes of writing direction.

    Tabs and line ends stay; with `line` (names, commands, paths) they are spelled out too, like all other white space
    except the plain space.

    >>> print(visible("a\x1b[31mb\u202ec"), visible("a\nb", line=True))
    a\x1b[31mb\u{202e}c a\x0ab
    """
    if line:
        return _IN_LINE.sub(_spelled, text)
    return _IN_TEXT.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python represents a byte of a file's name that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def path_text(path: object) -> str:
    """Return a path as it is shown: `visible`, on one line."""
    return visible(str(path), line=True)


def clipped(text: str, width: int) -> str:
    """Return `text` on one line, cut to `width` columns; characters that cannot be printed become spaces.

    >>> clipped("a residual", 20), clipped("a residual", 5), clipped("日本語", 5), clipped("a\\nb", 9)
    ('a residual', 'a re…', '日本…', 'a b')
    """
    text = "".join(char if char.isprintable() else " " for char in text)
    if columns(text) <= width:
        return text
    used, shortened = 1, ""  # the ellipsis
    for char in text:
        used += _columns(char)
        if used > width:
            break
        shortened += char
    return shortened + "…"


def megabytes(size: int) -> str:
    """Format a number of bytes for people.

    >>> megabytes(5_000_000), megabytes(1_200), megabytes(10)
    ('5 MB', '1.2 kB', '10 bytes')
    """
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size} bytes"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes; styles take none.

    >>> columns("añb"), columns("日本")
    (3, 4)
    """
    return sum(map(_columns, _CODE.sub("", text)))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> count(1, "reply"), count(2, "reply"), count(3, "set of cards")
    ('1 reply', '2 replies', '3 sets of cards')
    """
    first, *more = noun.split(" of ", 1)
    plural = first[:-1] + "ies" if first.endswith("y") else first + "s"
    return f"{number} {noun if number == 1 else ' of '.join([plural, *more])}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned columns: the first left-aligned, the others right-aligned.

    >>> print(table([("", "n"), ("passage", "8")]), end="")
             n
    passage  8
    """
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    text = ""
    for row in rows:
        cells = [(cell, " " * (width - columns(cell))) for cell, width in zip(row, widths, strict=True)]
        text += "  ".join(gap + cell if i else cell + gap for i, (cell, gap) in enumerate(cells)).rstrip() + "\n"
    return text


# -- printing --------------------------------------------------------------------------------------


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print `text`, made `visible`, on standard output or standard error; styles and codes of this module are kept.

    If the reader of a pipe has gone away (head, less), the output is discarded and the work continues.
    """
    pieces = enumerate(_CODE.split(text + end))
    shown = (visible(piece) if at % 2 == 0 else piece if piece == "\r" else f"\x1b{piece}" for at, piece in pieces)
    _write("".join(shown), _stream(err))


class SimilarLines:
    """Prints lines; of those that differ in names and numbers only, the first `most`, and `end` says how many more
    there are: of a `noun`, or else with the words that they begin with.

    >>> lines = SimilarLines()
    >>> for number in range(1, 6):
    ...     lines.say(f"{number}.md:7: there is no file {number}.png")
    1.md:7: there is no file 1.png
    2.md:7: there is no file 2.png
    3.md:7: there is no file 3.png
    >>> lines.end()
    … and 2 more (--verbose shows them): there is no file …
    """

    def __init__(self, *, verbose: bool = False, err: bool = False, most: int = 3, noun: str = "") -> None:
        self.most, self.err, self.noun = (sys.maxsize if verbose else most), err, noun
        self.kinds = dict[str, list[str]]()

    def say(self, line: str) -> None:
        """Print a line, unless there were enough like it."""
        words = (word.strip(",.:;()") for word in line.split())
        similar = self.kinds.setdefault(" ".join(word.removesuffix("s") for word in words if word.isalpha()), [])
        similar.append(line)
        if len(similar) <= self.most:
            say(line, err=self.err)

    def end(self) -> None:
        """Print how many lines were left out."""
        for similar in self.kinds.values():
            if more := [(line.partition(": ")[2] or line).split() for line in similar[self.most :]]:
                alike = takewhile(lambda words: len(set(words)) == 1, zip(*more, strict=False))
                shared = [words[0] for words in alike if not self.noun]
                begins = f": {' '.join(shared)}{'' if shared in more else ' …'}" if shared else ""
                what = count(len(more), f"more {self.noun}") if self.noun else f"{len(more)} more"
                say(clipped(f"… and {what} (--verbose shows them){begins}", 119), err=self.err)
        self.kinds.clear()


def spell_out_unwritable() -> None:
    """Make standard output escape what it cannot encode: a reply may have characters that the terminal lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say_document(text: str) -> None:
    """Write a document or table to standard output: its exact bytes to a file or pipe, `visible` on a terminal."""
    if is_terminal():
        say(text, end="")
        return
    _write(text.encode("utf-8", "surrogatepass"), sys.stdout)


def say_json(value: object, *, line: bool = False) -> None:
    """Print a value as JSON in UTF-8, whatever the locale is: indented, or as one `line` where several values follow.

    Characters that are not `visible` are escaped as in JSON, so that it reads back intact.
    """
    text = json.dumps(value, ensure_ascii=False, indent=None if line else 2, default=str)
    shown = _IN_TEXT.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n"
    _write(shown.encode("utf-8", "backslashreplace"), sys.stdout)


def say_result(text: str, values: object, *, as_json: bool) -> None:
    """Print a result as text (which must end with a newline), or its values as JSON."""
    if as_json:
        say_json(values)
    else:
        say(text, end="")


def note(text: str) -> None:
    """Print a note on standard error, about something other than the result."""
    say(f"{styled('note:', 'yellow', err=True)} {text}", err=True)


def tell_error(error: LmmError) -> None:
    """Print an error as one line on standard error: where, what, and what to do next."""
    say(f"{styled('lmm:', 'red', err=True)} {error.at_prompt}", err=True)


def can_ask() -> bool:
    """Return whether questions can be asked on a terminal."""
    return sys.stdin.isatty() and is_terminal(err=True)


def confirm(question: str) -> bool:
    """Ask on the terminal, and return whether the answer is yes."""
    forget_what_was_typed()
    say(f"{question} [y/N] ", err=True, end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def ask(question: str, default: str = "") -> str:
    """Ask on the terminal, and return the answer; an empty line is `default`.

    Raises:
        LmmError: standard input has ended.
    """
    say(f"{question} [{default}]: " if default else f"{question}: ", err=True, end="")
    line = sys.stdin.readline()
    if not line:
        raise LmmError("there is no answer", where=question)
    return line.strip() or default


def forget_what_was_typed() -> None:
    """Discard input typed before a question was shown: it is not an answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def show_bar(done: int, total: int, *, before: str = "", after: str = "") -> None:
    """Draw a progress bar on the current line of standard error, if that is a terminal."""
    if is_terminal(err=True):
        filled = 30 * min(done, total) // max(total, 1)
        bar = f"{before}[{'█' * filled}{'·' * (30 - filled)}] {done}/{total} {after}".rstrip()
        say(ERASE_LINE + clipped(bar, width() - 1), err=True, end="")


def erase_bar() -> None:
    """Erase the progress bar."""
    if is_terminal(err=True):
        say(ERASE_LINE, err=True, end="")


def styled(text: str, style: str, *, err: bool = False) -> str:
    """Return `text` in a style that `say` keeps, if output goes to a terminal with styles and NO_COLOR is not set."""
    if not has_styles(err=err):
        return text
    return f"{_OURS}[{_STYLES[style]}m{text}{_OURS}[0m"


def has_styles(*, err: bool = False) -> bool:
    """Return whether output goes to a terminal with styles, and NO_COLOR is not set."""
    return is_terminal(err=err) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def with_styles(text: str) -> str:
    """Return a `visible` text whose codes of styles `say` keeps."""
    return text.replace("\x1b[", f"{_OURS}[")


def is_terminal(*, err: bool = False) -> bool:
    """Return whether standard output, or standard error, is a terminal."""
    return _stream(err).isatty()


def width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def log_to_stderr(layout: str) -> None:
    """Send warnings of libraries to standard error, made `visible`."""
    import logging  # only servers need it, and every command starts here

    class Visible(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return visible(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Visible(layout))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _stream(err: bool) -> TextIO:
    return sys.stderr if err else sys.stdout


def _write(text: str | bytes, stream: TextIO) -> None:
    """Write text, or bytes after what was written before. If that fails, further output to `stream` is discarded."""
    try:
        if isinstance(text, bytes) and hasattr(stream, "buffer"):
            stream.flush()
            stream.buffer.write(text)
        else:
            stream.write(text if isinstance(text, str) else text.decode("utf-8", "surrogateescape"))
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if error.errno not in (errno.EPIPE, errno.EIO):  # the reader went away; the terminal's window was closed
            _unwritten.append(error)
            tell_error(LmmError(f"the output cannot be written: {error.strerror}"))


_unwritten: list[OSError] = []


def open_closed_streams() -> None:
    """Open standard streams that the caller closed, so that no file takes their place; writing to the output fails."""
    _unwritten.clear()
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def is_output_lost() -> bool:
    """Return whether some output could not be written."""
    return bool(_unwritten)


# -- events, as they happen ------------------------------------------------------------------------


def tell_notice(event: Waiting | Notice, place: Place, *, err: bool = False) -> None:
    """Print a notice; the reason for waiting goes to standard error."""
    text = event.reason if isinstance(event, Waiting) else event.text
    say(f"{place}: {text}" if str(place) else text, err=err or isinstance(event, Waiting))


def reply_note(reply: Reply) -> str:
    """Return the model that answered and its usage, in words."""
    cut = "; cut off at the model's output limit" if reply.cut else ""
    if reply.remembered:
        return f"{reply.model}, remembered from an earlier run; --again asks again{cut}"
    return f"{reply.model}, {usage_text(reply.usage)}{cut}"


def tell_failed(error: LmmError, what: str, place: Place) -> None:
    """Print a failure as one line on standard error: where, what was to be generated, and the error."""
    where = "" if error.where and error.where.startswith(str(place)) else f"{place}: "
    say(f"{styled('lmm:', 'red', err=True)} {where}{f'{what}: ' if what else ''}{error.at_prompt}", err=True)


def usage_text(usage: Usage) -> str:
    """Return tokens and cost in words.

    >>> usage_text(Usage(1200, 34, 0.00012, 1))
    '1,200 tokens in, 34 out, $0.0001'
    >>> usage_text(Usage(1200, 34, cached_tokens=1024))
    '1,200 tokens in (1,024 from the cache), 34 out'
    >>> usage_text(Usage(1200, 34, estimated=True))
    'about 1,200 tokens in, 34 out (estimated: not all were counted by the server)'
    """
    cost = f", ${usage.cost:.4f}" if usage.cost else ""
    cached = f" ({usage.cached_tokens:,} from the cache)" if usage.cached_tokens else ""
    text = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{cost}"
    return f"about {text} (estimated: not all were counted by the server)" if usage.estimated else text


# -- differences -----------------------------------------------------------------------------------


def word_diff(old: str, new: str, *, err: bool = False) -> str:
    """Return `new` with deletions and insertions marked in place: ``[-old-]{+new+}`` without colour.

    >>> word_diff("A long green leaf.", "A green leaf falls.")
    'A [-long-] green [-leaf.-]{+leaf falls.+}'
    >>> word_diff("A leaf that\\nis green.", "A leaf\\nthat is dry.")  # a line that breaks elsewhere is no change
    'A leaf\\nthat is [-green.-]{+dry.+}'
    """
    pieces, after = (re.findall(r"\s*\S+|\s+\Z", text) for text in (old, new))
    code = re.search(r"^[ \t]*(?:```|~~~)", f"{old}\n{new}", re.MULTILINE)
    before, now = ([one if code else _BETWEEN_WORDS.sub(" ", one) for one in some] for some in (pieces, after))
    parts = list[str]()
    # In a long text, frequent words do not help to align the versions, and would take quadratic time.
    matcher = SequenceMatcher(None, before, now, autojunk=len(after) > _LONG)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        gone, come = "".join(pieces[i1:i2]), "".join(after[j1:j2])
        gaps = {_gap(keys[at]) for keys, at, text in ((before, i1, gone), (now, j1, come)) if text.strip()}
        if len(gaps) == 1:  # the white space before both is the same, and outside of the marks
            parts.append(_gap(come or gone) if j1 or tag != "equal" else _gap(gone) * bool(parts))
            gone, come = gone.lstrip(), come.lstrip()
        marked = _shown(gone, "[-{}-]", "red", err) + _shown(come, "{{+{}+}}", "green", err)
        parts.append(come if tag == "equal" else marked)
    return "".join(parts)


def _gap(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _shown(text: str, marks: str, colour: str, err: bool) -> str:
    if not text:
        return ""
    coloured = styled(text, colour, err=err)
    return coloured if coloured != text else marks.format(text)
