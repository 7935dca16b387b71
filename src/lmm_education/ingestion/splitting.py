"""Split a text that is too large: between rows, lines, items or sentences, or else between words.

Each part of a table repeats its header, code its fence line and an equation its ``$$``, so that each is valid markdown.
Where to split is chosen as for paragraphs (see `packing`), so that a new row does not move all later parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from semantic_text_splitter import TextSplitter

from lmm.markdown.sentences import sentence_ends
from lmm_education.ingestion.block_kinds import ITEM, Kind, is_grid, kind_of
from lmm_education.ingestion.packing import Limits, cut, key_of

Ranges = Iterator[tuple[int, int]]
Finder = Callable[[str], Ranges]
_LINE = re.compile(r"[^\n]*(?:\n+|\Z)")
_OPENED = re.compile(
    r"(?:\$\$[ \t]*+\n?)?[ \t]*+(?:\\begin\{(?P<name>\w+\*?)\}(?:\{[^{}\n]*\}|\[[^\[\]\n]*\])*+)?[ \t]*+(?=\n|\S)"
)
_ENVIRONMENT = re.compile(r"\\(begin|end)\{")
_END_OF_ROW = re.compile(r"</tr\s*>(?:\s*</thead\s*>)?(?:\s*<tbody\b[^<>]*>)?\s*", re.IGNORECASE)


def frame(kind: Kind, text: str) -> tuple[str, str]:
    """Return what is repeated at the start and at the end of each part of a text that is cut.

    >>> frame("table", "| a   | b |\\n|-----|---|\\n| 1   | 2 |"), frame("code", "```r\\n1\\n```")
    (('| a   | b |\\n|-----|---|', ''), ('```r', '```'))
    >>> frame("equation", "$$\\n\\\\begin{aligned}\\na &= b\\n\\\\end{aligned}\\n$$ {#eq:x}")
    ('$$\\n\\\\begin{aligned}', '\\\\end{aligned}\\n$$ {#eq:x}')
    """
    if kind == "table":
        return _of_table(text)
    if kind == "code" and text.lstrip().startswith(("`", "~")):
        return text.partition("\n")[0], text.rpartition("\n")[2]
    if kind != "equation":
        return "", ""
    opened = _OPENED.match(text)
    name = opened["name"] if opened else ""
    close = text.rfind(f"\\end{{{name}}}") if name else -1
    if opened and close >= 0 and text.find("\\begin{", opened.end()) < close:
        return opened[0], text[close:]
    return ("$$", text[text.rindex("$$") :]) if text.startswith("$$") else ("", "")


def shortened(head: str) -> str:
    """Return the header of a pipe table without the blanks and dashes that only align it.

    >>> print(shortened("| Drug    | Dose |\\n|:--------|-----:|"))
    | Drug | Dose |
    |:-|-:|
    """
    names, _, rule = head.partition("\n")
    if not rule.strip("|:- \t") and "|" in names:
        return re.sub(r"[ \t]{2,}(?=\|)|(?<=\|)[ \t]{2,}", " ", names) + "\n" + re.sub("-+", "-", rule.replace(" ", ""))
    return head


def _of_table(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if "<table" in text[:200].lower():
        first = _END_OF_ROW.search(text)
        last = max(text.lower().rfind("</tr>"), 0)
        return (
            (text[: first.end()].rstrip("\n"), text[last + 5 :].lstrip("\n"))
            if first and last > first.end()
            else ("", "")
        )
    if is_grid(text):
        head = next((at for at, line in enumerate(lines) if re.match(r"\+[=:+]+\+\s*\Z", line)), 0)
        return "\n".join(lines[: head + 1]), ""
    if lines[0].strip("- \t"):  # of one line, with a rule below
        return ("\n".join(lines[:2]), "") if len(lines) > 2 else ("", "")
    rules = [at for at, line in enumerate(lines) if not line.strip("- \t") and line.strip()]
    last = rules[-1] if len(rules) > 1 else len(lines)
    head = rules[1] if len(rules) > 2 else 0
    return "\n".join(lines[: head + 1]), "\n".join(lines[last:])


def lines(text: str) -> Ranges:
    """Iterate over the lines of a text."""
    return between(text, (match.end() for match in _LINE.finditer(text)))


def formula_lines(text: str) -> Ranges:
    """Iterate over the lines of a formula; an environment within it, such as ``cases``, is one."""
    depth, ends = 0, list[int]()
    for match in _LINE.finditer(text):
        depth += sum(1 if found[1] == "begin" else -1 for found in _ENVIRONMENT.finditer(match[0]))
        if depth <= 0:
            ends.append(match.end())
    return between(text, ends)


def rows(text: str) -> Ranges:
    """Iterate over the rows of a table without its header: lines; those of a grid end with a border."""
    if _END_OF_ROW.search(text):
        return between(text, (match.end() for match in _END_OF_ROW.finditer(text)))
    if re.search(r"^\+[-=:+]+\+[ \t]*$", text, re.MULTILINE):
        return between(text, (match.end() for match in re.finditer(r"^\+[-=:+]+\+[ \t]*(?:\n|\Z)", text, re.MULTILINE)))
    if "\n\n" in text.strip("\n"):
        return between(text, (match.end() for match in re.finditer(r"\n[ \t]*\n", text)))
    return lines(text)


def between(text: str, places: Iterable[int]) -> Ranges:
    """Iterate over the ranges between places."""
    start = 0
    for place in places:
        if place > start:
            yield start, place
            start = place
    if start < len(text):
        yield start, len(text)


# -- splitting -------------------------------------------------------------------------------------

_ITEM_START = re.compile(rf"(?<=\n) {{0,1}}(?={ITEM})")
# The splitter's time grows faster than linearly (an image in base64 is one word of a megabyte).
_WINDOW = 20


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a text: `text` is ``source[start:end]``, with the repeated lines before and after it.

    `repeated` counts the repeated lines before it.
    """

    start: int
    end: int
    text: str
    repeated: int = 0


def split(text: str, limits: Limits) -> list[Slice]:
    """Return the parts of a text, in order, none larger than `limits.high`, separated only by white space.

    >>> rows = "\\n".join(f"| {n} | {n * n} |" for n in range(40))
    >>> [part.text[:16] for part in split(f"| n | nn |\\n|---|----|\\n{rows}", Limits(100, 300))][1]
    '| n | nn |\\n|---|'
    """
    if limits.measure(text) <= limits.high:
        return [Slice(0, len(text), text)]
    kind = kind_of(text)
    head, foot = frame(kind, text)
    repeated = head if limits.measure(head) <= limits.high // 2 else shortened(head)
    room = limits.high - sum(limits.measure(part) + limits.joint for part in (repeated, foot) if part)
    if room < limits.high // 2:  # too little room to repeat anything
        head, foot, repeated, room = "", "", "", limits.high
    start, end = len(head) if repeated == head else 0, len(text) - len(foot)
    inner = replace(limits, low=min(limits.low, room // 2), high=room)
    parts = [(start + a, start + b) for a, b in _parts(text[start:end], _FINDERS[kind], inner)]
    slices = list[Slice]()
    for number, (start, end) in enumerate(parts):
        start, end = start if number else 0, end if number < len(parts) - 1 else len(text)
        before = f"{repeated}\n" if number and repeated else ""
        after = f"\n{foot}" if foot and end < len(text) else ""
        slices.append(Slice(start, end, f"{before}{text[start:end]}{after}", before.count("\n")))
    return slices


def _parts(text: str, finders: Sequence[Finder], limits: Limits) -> list[tuple[int, int]]:
    """Return the ranges of parts within the limits, without white space at their ends."""
    atoms = [atom for atom in _atoms(text, 0, finders, limits) if text[atom[0] : atom[1]].strip()]
    sizes = [limits.measure(text[start:end]) for start, end in atoms]
    # The best place is after a blank line.
    keys = [key_of(text[start:end]) + ((text[max(start - 2, 0) : start] == "\n\n") << 64) for start, end in atoms]
    parts = []
    for first, last in cut(sizes, keys, limits.low, limits.high):
        start, end = atoms[first][0], atoms[last - 1][1]
        indented = text[start:end].lstrip("\n")  # keeps the first line's indentation, which matters in code
        parts.append((end - len(indented), start + len(text[start:end].rstrip())))
    return parts


def _atoms(text: str, offset: int, finders: Sequence[Finder], limits: Limits) -> Ranges:
    """Iterate over the smallest ranges: the first finder's results, which the other finders split if too large."""
    for start, end in finders[0](text) if finders else _words(text, limits):
        piece = text[start:end]
        if finders and limits.measure(piece) > limits.high:
            yield from _atoms(piece, offset + start, finders[1:], limits)
        else:
            yield offset + start, offset + end


def _words(text: str, limits: Limits) -> Ranges:
    """Iterate over parts of a sentence or line that is too long, split between words, or within one too long."""
    if limits.measure is len:
        splitter = TextSplitter(limits.high, trim=False)
    else:
        splitter = TextSplitter.from_callback(limits.measure, limits.high, trim=False)
    at = 0
    while at < len(text):
        end = at + _WINDOW * limits.high
        last = text[at:end].split()[-1:] if end < len(text) else []  # white space ends a window, if possible
        if last and text.endswith(last[0], at, end) and end - len(last[0]) > at:
            end -= len(last[0])
        for start, piece in splitter.chunk_indices(text[at:end]):
            yield at + start, at + start + len(piece)
        at = end


def _items(text: str) -> Ranges:
    return between(text, (match.end() for match in _ITEM_START.finditer(text)))


def _sentences(text: str) -> Ranges:
    return between(text, (begin for _, begin in sentence_ends(text)))


_FINDERS: dict[Kind, tuple[Finder, ...]] = {
    "code": (lines,),
    "equation": (formula_lines, lines),
    "table": (rows, lines),
    "list": (_items, _sentences),
    "quote": (lines, _sentences),
    "html": (lines, _sentences),
    "prose": (_sentences,),
}
