"""The sources of an answer: passages and sections, numbered so that the answer can cite them.

The model is shown whole sections if they fit into the budget, else their best passages. The budget is in tokens and is
strict: it counts exactly the text that is sent, including tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lmm.markdown.inline import BLANK_LINES
from lmm.messages import Attachment, Message, render
from lmm_education.material import Passage

LABEL = "source"
_JOIN = 4  # tokens that may be added when texts, tags and sources are joined
_ORDINARY = ("text", "summary")
WHOLE = 0.6
"""The largest share of the budget for one section, or a whole document, while others wait."""


def as_document(source: Passage) -> Attachment:
    """Return a source as the model sees it: its text between tags with its place."""
    parts = [str(source.place), source.path, f"level {source.depth}" if source.depth else ""]
    if source.type != "text":
        parts.append(f"type: {source.type}")
    neighbours = (("section before", source.before), ("section after", source.after))
    parts.append("; ".join(f"{name}: {title}" for name, title in neighbours if title))
    return Attachment(source.with_above, LABEL, ", ".join(part for part in parts if part), source.number)


@dataclass(slots=True)
class Sources:
    """The sources offered so far; one that is offered again keeps its number."""

    _by_id: dict[str, Passage] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Passage]:
        return iter(sorted(self._by_id.values(), key=lambda source: source.number))

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def as_sent(self) -> tuple[Passage, ...]:
        """The sources in the order in which the model reads them."""
        return tuple(self._by_id.values())

    @property
    def numbers(self) -> set[int]:
        """The numbers that may be cited."""
        return {source.number for source in self}

    def offer(self, source: Passage) -> Passage:
        """Offer a source in its current form, with its earlier number if it was offered before, else the next."""
        shown = replace(source, number=self.number_of(source.id) or self.next_number)
        self.add(shown)
        return shown

    @property
    def next_number(self) -> int:
        """The number of the next new source."""
        return len(self._by_id) + 1

    def number_of(self, id: str) -> int | None:
        """Return the number of this chunk or section; None if it was not offered."""
        return self._by_id[id].number if id in self._by_id else None

    def add(self, source: Passage) -> Passage:
        """Offer a source with its own number; if it was offered before, return the earlier one."""
        return self._by_id.setdefault(source.id, source)

    def cited(self, numbers: tuple[int, ...]) -> tuple[Passage, ...]:
        """Return the sources with these numbers, in that order."""
        by_number = {source.number: source for source in self}
        return tuple(by_number[number] for number in numbers if number in by_number)


# -- choosing sources ------------------------------------------------------------------------------


def choose_sources(
    sections: Sequence[Passage], budget: int, count: Callable[[str], int], whole: Sequence[Passage] = ()
) -> Sources:
    """Choose the sources to show, numbered from 1 by relevance; `count` returns the tokens of a text. Those in `whole`,
    documents that fit, are sent first, in their order, with the numbers of their relevance.

    >>> from lmm_education.material import Lines, Location
    >>> place = Location("d", "a.md", Lines(1, 9), ("Leaves",))
    >>> hit = Passage("c", place, "Leaves are green.", section="s")
    >>> section = Passage("s", place, "Leaves are green. They fall.", what="section", section="s", hits=[hit])
    >>> [s.what for s in choose_sources([section], 100, lambda text: len(text.split()))]
    ['section']
    >>> [s.what for s in choose_sources([section], 13, lambda text: len(text.split()))]
    ['chunk']
    """
    sources, left = Sources(), budget
    ranks = {section.id: rank for rank, section in enumerate(sections)}
    by_rank = sorted(whole, key=lambda section: ranks.get(section.id, len(ranks)))
    numbers = {section.id: number for number, section in enumerate(by_rank, 1)}
    for section in whole:
        sources.add(replace(section, number=numbers[section.id]))
        left -= cost_of(section, count)
    sections = [section for section in sections if sources.number_of(section.id) is None]
    for index, found in enumerate(sections):
        room = left if index == len(sections) - 1 else min(left, int(budget * WHOLE))
        # Material of a requested type is shown by itself, not inside a section.
        if found.text and count(found.text) <= room and all(hit.type in _ORDINARY for hit in found.hits):
            source = replace(found, number=sources.next_number, hits=())
            if (cost := cost_of(source, count)) <= room:
                sources.add(source)
                left -= cost
                continue
        for hit in found.hits:
            if hit.text and count(hit.text) <= left and sources.number_of(hit.id) is None:
                passage = _passage(found, hit, sources.next_number)
                if (cost := cost_of(passage, count)) <= left:
                    sources.add(passage)
                    left -= cost
    best = next((_passage(found, hit, 1) for found in sections for hit in found.hits if hit.text), None)
    if not sources and best is not None and (cut := _shortened(best, budget, count)) is not None:
        sources.add(cut)
    return sources


def _shortened(source: Passage, budget: int, count: Callable[[str], int]) -> Passage | None:
    """Return the beginning of a source that exceeds the budget by itself; None if not even that fits."""
    words = source.text.split(" ")
    while words:
        words = words[: len(words) * 3 // 4]
        shorter = replace(source, text=" ".join(words) + " …")
        if words and cost_of(shorter, count) <= budget:
            return shorter
    return None


def cost_of(source: Passage, count: Callable[[str], int]) -> int:
    """Return the tokens of a source: its text and its tags, counted separately, since texts recur."""
    return count(source.text) + count(shown(replace(source, text=""))) + _JOIN


def shown(source: Passage) -> str:
    """Return the text of a source that the model sees, including tags."""
    return render(Message("tool", "", (as_document(source),))).rstrip()


def _passage(found: Passage, hit: Passage, number: int) -> Passage:
    return replace(
        hit,
        number=number,
        section=found.id,
        title=hit.title or found.title,
        depth=found.depth,
        before=found.before,
        after=found.after,
    )


# -- citations -------------------------------------------------------------------------------------
# Source numbers in an answer: those that were not offered are removed and reported.
#
# A citation is ``[2]``, ``[1, 3]`` or ``[1-3]`` in the text, except in code, in formulas and in the text of a link.


_SAME = r"(?!\n\s*\n|\n {0,3}(?:```|~~~))"  # inline marks close in their own paragraph, before a fence
_SKIPPED = (
    r"(?P<fence>^ {0,3}(?P<marks>```++|~~~++)[^\n]*\n(?:.*?\n)?? {0,3}(?P=marks)[`~]*[ \t]*(?=\n|\Z))"
    r"|(?P<open_fence>^ {0,3}(?:```|~~~).*\Z)"
    rf"|(?P<code>(?<!`)(?P<ticks>`+)(?!`)(?:{_SAME}.)+?(?<!`)(?P=ticks)(?!`))"
    rf"|(?P<display>\$\$(?:{_SAME}.)+?\$\$)"
    rf"|(?P<math>\$(?=[^\s$])(?:{_SAME}[^$])*?(?<=\S)\$(?!\d))"
)
_CITATION = r"(?P<space>(?<![ \t])[ \t]+)?\[(?P<numbers>\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\](?!\()"
_TOKEN = re.compile(f"{_SKIPPED}|{_CITATION}", re.MULTILINE | re.DOTALL)
# A possible beginning of a citation, or a bracket whose next character decides whether it is one.
_BEGUN = re.compile(r"\[[\d\s,;–-]*\]?\Z")
_SPECIAL = frozenset("[`$~")  # a text without these is plain
_OPENER = re.compile(r"`+|\$|~+")
_FENCE = re.compile(r" {0,3}(```++|~~~++)[^\n]*\n")
_LOOKS = 16  # an undecided end is examined again when it has grown by this fraction of its length


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text, the numbers that it cites in ascending order, and those that were removed."""

    text: str
    cited: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def clean(text: str, offered: Collection[int]) -> Cleaned:
    """Remove the citations of sources that were not offered.

    >>> clean("Leaves are green [1, 7]. They fall [9]. In R, `x[9]` is the ninth.", {1, 2})
    Cleaned(text='Leaves are green [1]. They fall. In R, `x[9]` is the ninth.', cited=(1,), removed=(7, 9))
    """
    return _cleaned(text, 0, len(text), offered)


def citations(text: str) -> list[tuple[int, int, list[int]]]:
    """Return the citations in a text: start, end, and numbers.

    >>> citations("Green [1, 3]. `x[9]`")
    [(6, 12, [1, 3])]
    """
    found = (match for match in _TOKEN.finditer(text) if match["numbers"] is not None)
    return [(m.start() + len(m["space"] or ""), m.end(), _expanded(m["numbers"])) for m in found]


def _cleaned(text: str, start: int, end: int, offered: Collection[int]) -> Cleaned:
    """Clean a part of a text; the characters before it are only context."""
    cited = set[int]()
    removed: dict[int, None] = {}
    parts, at = list[str](), start
    for match in _TOKEN.finditer(text, start, end):
        if match["numbers"] is None:
            continue
        numbers = _expanded(match["numbers"])
        kept = [n for n in numbers if n in offered]
        cited.update(kept)
        removed.update(dict.fromkeys(n for n in numbers if n not in offered))
        if len(kept) < len(numbers):
            instead = f"{match['space'] or ''}[{', '.join(map(str, kept))}]" if kept else ""
            parts += [text[at : match.start()], instead]
            at = match.end()
    return Cleaned("".join([*parts, text[at:end]]), tuple(sorted(cited)), tuple(removed))


def _expanded(numbers: str) -> list[int]:
    """Return the numbers meant by ``1, 3-5``; a range that is reversed or too large stands for its two ends.

    >>> _expanded("1, 3-5"), _expanded("1-2000")
    ([1, 3, 4, 5], [1, 2000])
    """
    found: list[int] = []
    for part in re.split(r"[,;]", numbers):
        ends = [int(n) for n in re.split(r"[–-]", part)]
        close = len(ends) == 2 and 0 <= ends[1] - ends[0] <= 20
        found += range(ends[0], ends[1] + 1) if close else ends
    return list(dict.fromkeys(found))


def decided(text: str, start: int = 0) -> int:
    """Return the end of the part of a text, from `start`, whose meaning does not depend on what follows.

    >>> decided("They are green [1"), decided("They are `gre"), decided("They are green, ")
    (14, 8, 15)
    """
    bracket = text.rfind("[", start)
    end = bracket if bracket >= 0 and _BEGUN.match(text, bracket) else len(text)
    # Blanks belong to the citation or the fence that may follow.
    return start + len(text[start : min(end, _open_mark(text, start))].rstrip(" \t"))


def _open_mark(text: str, start: int) -> int:
    """Return the start of code, a formula or a fence that may continue, or turn out to be none."""
    spans = [match.span() for match in _TOKEN.finditer(text, start) if match["numbers"] is None]
    paragraph = max((match.end() for match in BLANK_LINES.finditer(text, start)), default=start)
    around = 0  # the first span that ends after the opener
    for match in _OPENER.finditer(text, paragraph):
        while around < len(spans) and spans[around][1] <= match.start():
            around += 1
        inside = spans[around] if around < len(spans) and spans[around][0] <= match.start() else None
        # It is certainly closed only if followed by a character that cannot extend the closing mark.
        if inside is None or inside[1] == len(text):
            return match.start() if inside is None else inside[0]
    return spans[-1][0] if spans and spans[-1][1] == len(text) else len(text)


@dataclass(slots=True)
class CitationStream:
    """Cleans an answer while it arrives: what `feed` and `finish` return is the cleaned text, piece by piece.

    Final text is not examined again, and the rest less often the longer it becomes, so that the work is proportional to
    the length of a text, however it is written and split.
    """

    offered: Collection[int]
    _raw: list[str] = field(default_factory=list)
    _open: str = "\n"  # text not returned yet, after the character before it
    _looked: int = 0  # its length when it was last examined
    _fence: str = ""  # the marks of the fence that it is in

    def feed(self, piece: str) -> str:
        """Add a piece; return the cleaned text that has become final."""
        self._raw.append(piece)
        self._open += piece
        if len(self._open) - self._looked < self._looked // _LOOKS:
            return ""
        given = []
        while text := self._lines_of_code() if self._fence else self._certain():
            given.append(text)
        self._looked = len(self._open)
        return "".join(given)

    def finish(self) -> tuple[str, Cleaned]:
        """Return the rest of the text, and the whole."""
        rest = self._open[1:] if self._fence else _cleaned(self._open, 1, len(self._open), self.offered).text
        return rest, clean("".join(self._raw), self.offered)

    def _certain(self) -> str:
        """Return the final part of text outside of fences, including the first line of the next fence."""
        if _SPECIAL.isdisjoint(self._open[1:]):  # plain words; trailing blanks may precede a citation
            return self._given(len(self._open.rstrip(" \t")))
        end = decided(self._open, 1)
        cleaned = _cleaned(self._open, 1, end, self.offered).text
        fence = _FENCE.match(self._open, end) if self._open[end - 1] == "\n" else None
        self._fence = fence[1] if fence else ""
        opening = fence[0] if fence else ""
        self._given(end + len(opening))
        return cleaned + opening

    def _lines_of_code(self) -> str:
        """Return whole lines of code, up to the closing fence."""
        last = self._open.rfind("\n", 1) + 1
        closing = re.compile(rf"^ {{0,3}}{self._fence}[`~]*[ \t]*\n", re.MULTILINE).search(self._open, 1, max(last, 1))
        if closing is None:
            return self._given(last)
        self._fence = ""
        return self._given(closing.end() - 1)

    def _given(self, end: int) -> str:
        """Return the open text up to `end` unchanged, and drop it."""
        end = max(end, 1)
        given, self._open = self._open[1:end], self._open[end - 1 :]
        return given
