"""The sources of an answer: passages and sections, numbered so that the answer can cite them.

The model is shown whole sections if they fit into the budget, else their best passages. The budget is in tokens and is
strict: it counts exactly the text that is sent, including tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lmm.messages import Attachment, tagged
from lmm_education.answer.citations import citations
from lmm_education.material import Passage

LABEL = "source"
_JOIN = 4  # tokens that may be added when texts, tags and sources are joined
_ORDINARY = ("text", "summary")
WHOLE = 0.6
"""The largest share of the budget for one section, or a whole document, while others wait."""


def as_document(source: Passage) -> Attachment:
    """Return a source as the model sees it: its text between tags with its place."""
    more = {
        "section": source.path,
        "level": str(source.depth or ""),
        "type": source.type if source.type != "text" else "",
        "before": source.before,
        "after": source.after,
    }
    return Attachment(source.with_above, LABEL, str(source.place), source.number, tuple(more.items()))


@dataclass(slots=True)
class Sources:
    """The sources offered so far; one that is offered again keeps its number."""

    chapter: str = ""
    """The title of the chapter whose sections these are."""
    is_part: bool = False
    """Whether only the beginnings of long sections are shown, which end with an ellipsis."""
    _by_id: dict[str, Passage] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Passage]:
        return iter(sorted(self._by_id.values(), key=lambda source: source.number))

    def __len__(self) -> int:
        return len(self._by_id)

    def offer(self, source: Passage) -> Passage:
        """Offer a source with the number under which it, or its section, was offered before, else the next. What an
        answer says of it is compared with all that was shown of it."""
        held = self._by_id.get(source.id) or self._by_id.get(source.section)
        if held is None:
            return self.add(replace(source, number=len(self) + 1))
        if source.text.strip("… ") not in held.text:
            text = source.text if held.text.strip("… ") in source.text else f"{held.text}\n\n{source.text}"
            self._by_id[held.id] = replace(held, text=text, above=held.above or source.above)
        return replace(source, number=held.number)

    def number_of(self, id: str) -> int | None:
        """Return the number of this chunk or section; None if it was not offered."""
        return self._by_id[id].number if id in self._by_id else None

    def add(self, source: Passage) -> Passage:
        """Offer a source with its own number; if it was offered before, return the earlier one."""
        return self._by_id.setdefault(source.id, source)

    def renumber(self, first: Sequence[int]) -> None:
        """Number the sources from 1: those with the numbers `first` in that order, then the others in theirs.

        >>> from lmm_education.material import Lines, Location
        >>> sources = Sources()
        >>> for id in "abc":
        ...     _ = sources.offer(Passage(id, Location(id, "a.md", Lines(1, 9), ()), ""))
        >>> sources.renumber([3, 2])
        >>> [source.id for source in sources], [source.number for source in sources]
        (['c', 'b', 'a'], [1, 2, 3])
        """
        rank = {number: place for place, number in enumerate(first)}
        for number, source in enumerate(sorted(self, key=lambda each: rank.get(each.number, len(rank))), 1):
            self._by_id[source.id] = replace(source, number=number)

    def cited_in(self, text: str) -> tuple[Passage, ...]:
        """Return the sources that a text cites, in the order of their numbers."""
        found = citations(text, [source.number for source in self])
        numbers = {number for each in found if each.known for number in each.numbers}
        return tuple(source for source in self if source.number in numbers)


# -- choosing sources ------------------------------------------------------------------------------


def choose_sources(
    sections: Sequence[Passage], budget: int, count: Callable[[str], int], whole: Sequence[Passage] = ()
) -> Sources:
    """Choose the sources to show, numbered from 1 in the order in which they are shown: those in `whole`, documents
    that fit, in their order, then others by relevance. `count` returns the tokens of a text.

    >>> from lmm_education.material import Lines, Location
    >>> place = Location("d", "a.md", Lines(1, 9), ("Leaves",))
    >>> hit = Passage("c", place, "Leaves are green.", section="s")
    >>> section = Passage("s", place, "Leaves are green. They fall.", what="section", section="s", hits=[hit])
    >>> [s.what for s in choose_sources([section], 100, lambda text: len(text.split()))]
    ['section']
    >>> [s.what for s in choose_sources([section], 13, lambda text: len(text.split()))]
    ['chunk']
    """
    sources, remaining = Sources(), budget
    for section in whole:
        sources.add(replace(section, number=len(sources) + 1))
        remaining -= cost_of(section, count)
    sections = [section for section in sections if sources.number_of(section.id) is None]
    for index, found in enumerate(sections):
        room = remaining if index == len(sections) - 1 else min(remaining, int(budget * WHOLE))
        # Material of a requested type is shown by itself, not inside a section.
        if found.text and count(found.text) <= room and all(hit.type in _ORDINARY for hit in found.hits):
            source = replace(found, number=len(sources) + 1, hits=())
            if (cost := cost_of(source, count)) <= room:
                sources.add(source)
                remaining -= cost
                continue
        for hit in found.hits:
            if hit.text and count(hit.text) <= remaining and sources.number_of(hit.id) is None:
                passage = _passage(found, hit, len(sources) + 1)
                if (cost := cost_of(passage, count)) <= remaining:
                    sources.add(passage)
                    remaining -= cost
    best = next((_passage(found, hit, 1) for found in sections for hit in found.hits if hit.text), None)
    if not sources and best is not None and (cut := shortened(best, budget, count)) is not None:
        sources.add(cut)
    return sources


def shortened(source: Passage, budget: int, count: Callable[[str], int]) -> Passage | None:
    """Return the beginning of a source that exceeds the budget by itself; None if not even that fits."""
    words = source.text.split(" ")
    while words:
        words = words[: len(words) * 3 // 4]
        shorter = replace(source, text=" ".join(words) + " …")
        if words and cost_of(shorter, count) <= budget:
            return shorter
    return None


def cost_of(source: Passage, count: Callable[[str], int]) -> int:
    """Return the tokens of a source: its text and its tags, counted separately, since texts recur, as do tags with any
    number of two digits."""
    return count(source.text) + count(shown(source.scored(source.score, text="", number=99))) + _JOIN


def shown(source: Passage) -> str:
    """Return the text of a source that the model sees, including tags."""
    return tagged(as_document(source))


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
