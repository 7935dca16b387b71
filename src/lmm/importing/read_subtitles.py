"""Reading subtitles (WebVTT and SubRip): paragraphs of up to a minute, each with the time at which it is said."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from lmm.errors import FileReadError
from lmm.importing.imported import Context, Imported
from lmm.importing.markdown_text import defused, escaped, plain
from lmm.importing.pandoc import as_utf8
from lmm.markdown.page_marks import Pages

_SPAN, _LONGEST, _PAUSE = 30, 60, 4  # seconds
_ROLLING = 9  # lines
_ENDS = (".", "?", "!", "…", "。", "？", "！")
_CLOCK = r"(?:(\d{1,3}):)?(\d{1,3}):(\d\d)(?:[.,]\d{1,3})?"
_TIMING = re.compile(rf"\s*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}(?:\s|\Z)")
NO_CUE = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?:\s|\Z)")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?[ \t]([^<>\n]*)>|</v>")
MARKUP = re.compile(r"</?(?:[bciusv]|ruby|rt|lang|font)(?:[.\s][^<>\n]*)?>|<[\d:.]+>|\{\\[^{}\n]*\}", re.IGNORECASE)
REPEATED = "repeated lines of rolling captions"


class Cue(NamedTuple):
    """What is said from one second to another; `lines` have the inline markup of the file."""

    start: int
    end: int
    lines: list[str]


def read(data: bytes, context: Context) -> Imported:
    """Convert subtitles to paragraphs with marks of their times, and the names of speakers in front.

    A paragraph ends where another speaks, at a pause, or with the first sentence after half a minute, after a minute at
    the latest. Captions that roll repeat the lines before them; these are written once.

    Raises:
        FileReadError: there are no subtitles in it.
    """
    text = plain(as_utf8(data).decode("utf-8", "replace"))
    cues, repeated = _without_repeated(list(cues_of(text)))
    blocks = [f"{pages.mark}\n\n{paragraph}" for pages, paragraph in _paragraphs(cues)]
    if not blocks:
        raise FileReadError("there are no subtitles in this file", hint="a line such as 00:01:02.000 --> 00:01:04.000")
    language = re.match(r"WEBVTT[^\n]*\n(?:[^\n]+\n)*?Language:[ \t]*(\S+)", text)
    return Imported(defused("\n\n".join(blocks)) + "\n", language=language[1] if language else "",
                    left_out={REPEATED: "\n".join(repeated)} if repeated else {})  # fmt: skip


def cues_of(text: str) -> Iterator[Cue]:
    """Iterate over the cues of a file, without their ids and settings, notes and styles.

    >>> list(cues_of("1\\n00:01,000 --> 00:02,000\\n- Hello.\\n\\n2\\n1:00:03,5 --> 1:00:04,5 line:0\\nBye.\\n"))
    [Cue(start=1, end=2, lines=['- Hello.']), Cue(start=3603, end=3604, lines=['Bye.'])]
    """
    cue, skipped, last = None, False, ["", ""]  # the two lines before
    for line in map(str.strip, text.split("\n")):
        if timing := _TIMING.match(line):
            if cue is not None:
                if cue.lines[-1:] == last[1:] and (not last[0] or last[1].isdecimal()):
                    cue.lines.pop()  # the id of the next one
                yield cue
            hours, minutes, seconds, *until = (int(part or 0) for part in timing.groups())
            end = until[0] * 3600 + until[1] * 60 + until[2]
            cue, skipped, line = Cue(hours * 3600 + minutes * 60 + seconds, end, []), False, "-->"
        elif (skipped := bool(line) and (skipped or (not last[1] and bool(NO_CUE.match(line))))) or not line:
            pass
        elif cue is not None:
            cue.lines.append(line)
        last = [last[1], line]
    if cue is not None:
        yield cue


def _shown(line: str) -> str:
    return " ".join(html.unescape(MARKUP.sub("", line)).split())


def _without_repeated(cues: list[Cue]) -> tuple[list[Cue], list[str]]:
    """Return cues without the lines that a rolling caption repeats, and these lines.

    Where no cue adds lines to repeated ones, a cue that repeats another is said twice.
    """
    shown = [[_shown(line) for line in cue.lines] for cue in cues]
    counts = [next((n for n in range(min(len(now), _ROLLING), 0, -1) if before[-n:] == now[:n]), 0)
              for before, now in pairwise([[], *shown])]  # fmt: skip
    if not any(0 < count < len(lines) for count, lines in zip(counts, shown, strict=True)):
        return cues, []
    repeated = [line for count, lines in zip(counts, shown, strict=True) for line in lines[:count]]
    return [cue._replace(lines=cue.lines[count:]) for count, cue in zip(counts, cues, strict=True)], repeated


def _said(cues: list[Cue]) -> Iterator[tuple[str, Cue]]:
    """Iterate over what is said without markup, with the name of its speaker, as far as tags give one."""
    for cue in cues:
        parts = _VOICE.split("\n".join(cue.lines))
        for speaker, text in zip(["", *parts[1::2]], parts[::2], strict=True):
            if lines := [shown for line in text.split("\n") if (shown := _shown(line))]:
                yield _shown(speaker or ""), Cue(cue.start, cue.end, lines)


def _paragraphs(cues: list[Cue]) -> Iterator[tuple[Pages, str]]:
    speaker, held = "", list[Cue]()

    def written() -> tuple[Pages, str]:
        name = f"**{escaped(speaker)}:** " if speaker else ""
        words = " ".join(line for cue in held for line in cue.lines)
        text = re.sub(r"\A(\d*)([-+.)])(?=\s)", r"\1\\\2", escaped(words))  # no item of a list
        return Pages("", held[0].start, max(cue.end for cue in held)), name + text

    for name, cue in _said(cues):
        if held:
            length, pause = cue.end - held[0].start, cue.start - held[-1].end
            ends = held[-1].lines[-1].endswith(_ENDS)
            if name != speaker or length > _LONGEST or pause >= _PAUSE or (length > _SPAN and ends):
                yield written()
                held = []
        speaker = name
        held.append(cue)
    if held:
        yield written()
