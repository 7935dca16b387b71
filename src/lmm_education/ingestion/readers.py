"""Texts as readers see them: rendered, with their footnotes, without what gives a withheld text away."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmm.models.builtin import STOP_WORDS, stem_of
from lmm.notebook.outputs import code_apart
from lmm_education.audience import EVERYONE, TEACHER, Withholding
from lmm_education.books.chapters import BookChapter
from lmm_education.books.rendered_text import rendered_text
from lmm_education.ingestion.outline import Heading, Item, Outline, TextItem, item_values, properties, with_inherited
from lmm_education.material import Lines, Withheld
from lmm_education.payloads import texts_of


def readable(outline: Outline, chapter: BookChapter, withholding: Withholding) -> Outline:
    """Return an outline with its items as readers see them, each with its number in the book and with the footnotes
    that its readers may read; without blocks that are empty for them."""
    root = outline.root
    if chapter.numbers.number:
        root = replace(root, numbers=(chapter.numbers.number,))
    headings, items = {id(outline.root): root}, list[Item]()
    numbers: dict[tuple[str, ...], str] = {(): chapter.numbers.number}
    for item in outline.items:
        if isinstance(item, TextItem):
            text, heading = rendered_text(item.text, chapter), headings[id(item.heading)]
            items.append(_with_text(item, text, heading))
            continue
        numbers[item.path] = chapter.numbers.headings.get(item.line, "")
        own = tuple(numbers.get(item.path[:end], "") for end in range(len(item.path) + 1))
        path = tuple(rendered_text(title, chapter) for title in item.path)
        headings[id(item)] = item
        if any(own) or path != item.path:
            headings[id(item)] = replace(item, title=path[-1], path=path, numbers=own if any(own) else ())
        items.append(headings[id(item)])
    if any("[^" in item.text for item in items):
        texts = [item for item in items if isinstance(item, TextItem)]
        public = [item for item in texts if withholding.of(item.types) == EVERYONE]
        withheld = [item for item in texts if withholding.of(item.types) == TEACHER]
        notes = {EVERYONE: footnotes(public, public), TEACHER: footnotes(texts, withheld)}
        for at, item in enumerate(items):
            if isinstance(item, TextItem) and "[^" in item.text:
                items[at] = _with_text(item, with_notes(item.text, *notes[withholding.of(item.types)]), item.heading)
    return replace(outline, root=root, items=tuple(i for i in items if isinstance(i, Heading) or i.text.strip()))


def _with_text(item: TextItem, text: str, heading: Heading) -> TextItem:
    moved = item.lines.first + text.count("\n") != item.lines.last
    if text == item.text and moved == item.moved and heading is item.heading and not item.blocks:
        return item
    return replace(item, text=text, moved=moved, heading=heading, blocks=())


def for_students(items: Sequence[Item], withholding: Withholding) -> tuple[Item, ...]:
    """Return items without the texts that are withheld from students, and without headings that become empty."""
    if all(withholding.of(item.types) == EVERYONE for item in items):
        return tuple(items)
    included, above = set[int](), list[Heading]()
    for item in items:
        if isinstance(item, Heading):
            above = [*(heading for heading in above if heading.level < item.level), item]
        if withholding.of(item.types) == EVERYONE:
            included |= {id(item), *(() if isinstance(item, Heading) else map(id, above))}
    return tuple(item for item in items if id(item) in included)


def values_for_students(items: Sequence[Item], withholding: Withholding) -> list[dict[str, Any]]:
    """Return the `item_values` of items as students may see them."""
    return [{**item_values(item), "own": withholding.shown(item.own)} for item in for_students(items, withholding)]


def unrevealing(outline: Outline, withholding: Withholding) -> tuple[Outline, list[Withheld]]:
    """Return the outline without generated fields that give a withheld text away, and these fields with their lines.

    A field, or an item of a list, gives it away if a word of it is in a withheld text of the section and not in what
    students may read of the section, or if a number is not in the latter.
    """
    if all(withholding.of(item.types) == EVERYONE for item in outline.items):
        return outline, []
    items, found = list[Item](), list[Withheld]()
    new = dict[int, Heading]()
    above: list[Heading] = []
    for at, item in enumerate((outline.root, *outline.items)):
        if isinstance(item, TextItem):
            items.append(replace(item, heading=new[id(item.heading)]))
            continue
        changed = _revealing(item, outline, outline.items[at:], withholding)
        own = properties({k: v for k, v in {**item.values, **changed}.items() if v is not None or k not in changed})
        above = above[: len(item.path)]
        new[id(item)] = replace(item, own=own, all=with_inherited(above[-1] if above else None, own))
        above.append(new[id(item)])
        items.append(above[-1])
        if changed:
            found.append(Withheld(tuple(changed), Lines(item.metadata_line, item.metadata_line)))
    return replace(outline, root=new[id(outline.root)], items=tuple(items[1:])), found


def _revealing(heading: Heading, outline: Outline, below: Sequence[Item], withholding: Withholding) -> dict[str, Any]:
    """Return the generated fields of a heading that give a withheld text away, with what is left of them, None for
    nothing; `below` are the items after the heading."""
    generated = {
        key: value for key, value in heading.values.items() if key.startswith("~") and properties({key: value})
    }
    names, withheld, shown = [outline.title, *heading.path], list[str](), list[str]()
    for item in below if generated else ():
        is_shown = withholding.of(item.types) == EVERYONE
        if isinstance(item, TextItem) and len(item.heading.path) >= len(heading.path):
            (shown if is_shown else withheld).append(item.text)
        elif isinstance(item, Heading) and len(item.path) <= len(heading.path):
            break
        elif isinstance(item, Heading) and is_shown:
            names.append(item.title)
    if not withheld or not (shown or withholding.of(heading.types) == EVERYONE):
        return {}
    secrets, visible = _words_of("\n".join(withheld)), _words_of("\n".join([*names, *shown]))
    remaining = {key: _without(value, secrets, visible) for key, value in generated.items()}
    return {key: value for key, value in remaining.items() if value != generated[key]}


def _without(value: Any, withheld_words: set[str], visible: set[str]) -> Any:
    """Return what is left of a generated value without what gives a withheld text away; None if nothing is."""
    if isinstance(value, list):
        return [item for item in value if _without(item, withheld_words, visible) is not None] or None
    words = _words_of("\n".join(texts_of(value))) - visible
    return None if any(word in withheld_words or word.isdigit() for word in words) else value


def _words_of(text: str) -> set[str]:
    """Return the words of a text by their stems, and its numbers, in formulas and code too."""
    words = map(str.casefold, re.findall(r"[^\W\d_]+|\d+", text))
    return {stem_of(word) for word in words if word not in STOP_WORDS}


# The first paragraph of a footnote, and references to one.
_FOOTNOTE = re.compile(
    r"^\[\^(?P<name>[^\]\s]{1,100})\]:[ \t]*(?P<note>[^\n]+(?:\n[ \t]*[^\s\[][^\n]*)*)", re.MULTILINE
)
_NOTE_MARK = re.compile(r"\[\^([^\]\s]{1,100})\](:[ \t]*)?")


def footnotes(texts: Iterable[TextItem], readers: Iterable[TextItem]) -> tuple[Mapping[str, str], frozenset[str]]:
    """Return the footnotes in texts, by name, and the names of those to which other texts refer."""

    def pieces(of: Iterable[TextItem]) -> Iterator[str]:
        marked = (item.text for item in of if "[^" in item.text)
        return (piece for text in marked for is_code, piece in code_apart(text) if not is_code)

    found = (match for piece in pieces(texts) for match in _FOOTNOTE.finditer(piece))
    marks = (mark for piece in pieces(readers) for mark in _NOTE_MARK.finditer(piece))
    notes = {match["name"]: " ".join(match["note"].split()) for match in found}
    return notes, frozenset(mark[1] for mark in marks if not mark[2])


def with_notes(text: str, notes: Mapping[str, str], used: Collection[str]) -> str:
    """Return a text with its footnotes inserted, and without those that are inserted where they are `used`.

    >>> notes = {"why": "They hold chlorophyll."}
    >>> with_notes("Leaves are green[^why] and [^odd].", notes, {"why"})
    'Leaves are green (They hold chlorophyll.) and [^odd].'
    >>> with_notes("[^why]: They hold chlorophyll.", notes, {"why"}), with_notes("[^why]: They hold.", notes, ())
    ('', 'They hold.')
    """

    def note_text(mark: re.Match[str]) -> str:
        return mark[0] if mark[1] not in notes else "" if mark[2] else f" ({notes[mark[1]]})"

    def without_used(piece: str) -> str:
        return _FOOTNOTE.sub(lambda match: "" if match["name"] in used else match[0], piece)

    pieces = code_apart(text)
    return "".join(
        piece if is_code else _NOTE_MARK.sub(note_text, without_used(piece)) for is_code, piece in pieces
    ).strip("\n")
