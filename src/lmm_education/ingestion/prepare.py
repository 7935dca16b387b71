"""Prepare a markdown document in three steps: pool its texts, divide it into sections, and cut these into chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from lmm.errors import ConfigError
from lmm.markdown.page_marks import pages_of
from lmm.markdown.spans import link_addresses
from lmm.models.builtin import STOP_WORDS, stem_of
from lmm.notebook.outputs import code_apart
from lmm.type_names import types_in
from lmm_education.audience import DEFAULT, EVERYONE, TEACHER, Withholding
from lmm_education.books.chapters import NO_BOOK, BookChapter
from lmm_education.books.rendered_text import rendered_text
from lmm_education.config import AnnotationModel, Preparation, for_document
from lmm_education.ingestion.outline import (
    Heading,
    Item,
    Outline,
    TextItem,
    item_values,
    properties,
    read_outline,
    with_inherited,
)
from lmm_education.ingestion.packing import Limits
from lmm_education.ingestion.source_files import own_stem, sort_key
from lmm_education.ingestion.steps import ChunkDraft, Part, divide, own_words, passages_of, pool, whole_blocks
from lmm_education.material import Chunk, Inner, Lines, Location, PreparedDocument, Section, Withheld, distinct_titles
from lmm_education.payloads import Ids, plain, texts_of

# -- annotations -----------------------------------------------------------------------------------

# A summary is searchable text rather than an annotation of the content: it becomes a chunk of its own.
_NOT_ANNOTATIONS = frozenset({"summary"})


def annotate(model: AnnotationModel, own: Mapping[str, Any], heading: Heading) -> tuple[str, ...]:
    """Return the annotations of a text with the properties `own` under `heading`, one per item, without repetitions.

    First come the model's own properties (of the text, or of its heading), then the inherited ones (the nearest of the
    text, its heading, the headings above, the header), then the generated ones (likewise), each in the order of the
    model. A list yields one annotation per item.

    >>> heading = Heading("Leaves", 1, ("Leaves",), 1, own={"topic": "review"}, all={"topic": "review", "part": 2})
    >>> annotate(AnnotationModel(("topic",), ("part",), ("questions",)), {"questions": ["Why?", "How?"]}, heading)
    ('review', '2', 'Why?', 'How?')
    """
    inherited_values, own_values = {**heading.all, **own}, {**heading.own, **own}
    generated = [name for name in model.generated if name not in _NOT_ANNOTATIONS]
    values = [own_values.get(name) for name in model.own_properties]
    values += [inherited_values.get(name) for name in (*model.inherited_properties, *generated)]
    return tuple(dict.fromkeys(text for value in values for text in texts_of(value)))


# -- documents -------------------------------------------------------------------------------------

PREPARED_FORMAT = 5
"""The version of what is made of a document: 2 cuts texts as readers see them, 4 knows the pages of originals,
5 leaves out what gives a withheld text away."""
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Steps:
    """The results of the steps for a document: `pooled` texts, and `parts` to retrieve with their `passages`.

    `settings` are those for this document.
    """

    docid: str
    file: str
    settings: Preparation
    outline: Outline
    pooled: tuple[Item, ...]
    parts: tuple[tuple[Part, tuple[ChunkDraft, ...]], ...] = ()
    chapter: BookChapter = NO_BOOK
    withholding: Withholding = DEFAULT
    original: str = ""

    def place_of(self, heading: Heading, lines: Lines, inner: tuple[Inner, ...]) -> Location:
        """Return the place of the text in some lines below a heading."""
        pages = pages_of(*lines, self.outline.pages)
        where = (str(pages), self.original) if pages else ()
        return Location(self.docid, self.file, lines, heading.path, heading.numbers, inner, *where)

    @property
    def document(self) -> PreparedDocument:
        """The document with the ids, metadata and annotations of its sections and chunks."""
        return _document(self)


def prepare_document(text: str, **how: Any) -> PreparedDocument:
    """Return the document prepared by `prepare_steps`, which takes the same arguments.

    >>> text = "# Leaves\\n\\n---\\n~questions_: [Why green?]\\n---\\n## Colour\\n\\nLeaves are green.\\n"
    >>> document = prepare_document(text, docid="botany", file="botany.md", settings=Preparation())
    >>> [(chunk.place.headings, str(chunk.place), chunk.annotations) for chunk in document.chunks]
    [(('Leaves', 'Colour'), 'botany.md:8', ('Why green?',))]
    >>> [section.place.headings for section in document.sections]
    [('Leaves',)]
    """
    return prepare_steps(text, **how).document


def prepare_steps(
    text: str,
    *,
    docid: str,
    file: str,
    settings: Preparation,
    title: str = "",
    count: Count | None = None,
    withholding: Withholding = DEFAULT,
    chapter: BookChapter = NO_BOOK,
    original: str = "",
) -> Steps:
    """Prepare a markdown document; return the results of all steps.

    Args:
        docid: the document's id.
        file: its path in the course, with ``/``.
        settings: the course's; the document's header overrides them under ``RAG:`` and ``lang:``.
        title: for a document that has neither a title nor a heading; by default, the file's name.
        count: counts tokens; required if the settings' unit is ``tokens``.
        withholding: which texts are withheld from students.
        chapter: the document's chapter in its book.
        original: the file that it was imported from, as in `Location`.

    Raises:
        ConfigError: the header's ``RAG:`` contains an invalid value, or tokens cannot be counted.
    """
    text, docid, file = plain(text), plain(docid), plain(file)
    chapter = replace(chapter, addresses=link_addresses(text))
    outline = read_outline(text, title=title or own_stem(file), kinds=withholding)
    settings = for_document(settings, outline.root.values, where=f"{file}:1")
    if settings.unit == "characters":
        limits = Limits(settings.min_size, settings.max_size)
    elif count is not None:
        limits = Limits(settings.min_size, settings.max_size, count, joint=0)
    else:
        raise ConfigError("chunks are measured in tokens, but no tokenizer is installed", where=file)
    public = unrevealing(replace(outline, items=tuple(whole_blocks(outline.items, limits))), withholding)
    rendered = readable(public, public.items, chapter, withholding)
    outline, generated = replace(outline, root=rendered.root), settings.annotation_model.generated
    pooled = tuple(pool(rendered.items, limits, shorter_than=settings.pool_size)) if settings.pool else rendered.items
    how: dict[str, Any] = {"whole": settings.splitter == "none", "overlap": settings.overlap, "generated": generated}
    parts = divide(outline, pooled, settings, limits)
    cut = tuple((part, tuple(passages_of(part, limits, **how))) for part in parts)
    return Steps(docid, file, settings, outline, pooled, cut, chapter, withholding, original)


def _document(steps: Steps) -> PreparedDocument:
    ids, chapter, root, withholding = Ids(steps.docid), steps.chapter, steps.outline.root, steps.withholding
    title = plain(rendered_text(chapter.title or steps.outline.title, chapter))
    words, names = own_words(root, steps.pooled), _names(steps)
    sections: list[Section] = []
    chunks: list[Chunk] = []
    parents: dict[tuple[str, ...], str] = {}  # the section that each path of headings begins with
    for part, passages in steps.parts:
        section, path = _section(steps, part, ids, len(sections)), part.heading.path
        parent = next((parents[path[:end]] for end in range(len(path) - 1, 0, -1) if path[:end] in parents), "")
        if not sections or sections[-1].place.headings != path:  # otherwise it goes on with what is cut by size
            parents[path] = section.id
        section = replace(section, parent=parent, above=_above(words[id(part.heading)], section, withholding))
        sections.append(section)
        for passage in passages:
            chunk = _chunk(steps, passage, section.id, ids, len(chunks))
            own_texts = [each for each in words[id(passage.text.heading)] if each.heading is not passage.text.heading]
            above = _above(own_texts, chunk, withholding)
            chunks.append(replace(chunk, title=title, above=above, names=names))
    items = (replace(root, title=title, line=1), *steps.pooled)
    outline = [item_values(item) for item in items]
    shown = values_for_students(items, withholding)
    readable = withholding.of_metadata(root.own) == EVERYONE or any(c.audience == EVERYONE for c in chunks)
    return PreparedDocument(
        id=steps.docid,
        file=steps.file,
        title=title,
        language=plain(steps.settings.language),
        sections=() if steps.settings.documents == "none" else tuple(sections),
        chunks=tuple(chunks),
        metadata=root.own,
        outline=outline,
        sort_key=sort_key(steps.file, chapter.book, chapter.position),
        part=plain(chapter.numbers.part),
        book=plain(chapter.book_title),
        withheld=tuple(_withheld(steps)),
        withhold=withholding.withheld,
        audience=EVERYONE if readable else TEACHER,
        for_students=_changed(metadata=(root.own, withholding.shown(root.own)), outline=(outline, shown)),
    )


def values_for_students(items: Sequence[Item], withholding: Withholding) -> list[dict[str, Any]]:
    """Return the `item_values` of items as students may see them."""
    return [{**item_values(item), "own": withholding.shown(item.own)} for item in _for_students(items, withholding)]


def _changed(**values: tuple[Any, Any]) -> dict[str, Any]:
    """Return the values for students that differ from those for teachers."""
    return {name: shown for name, (written, shown) in values.items() if shown != written}


def _types(item: Item) -> tuple[str, ...]:
    """Return the types of a text, or those that a heading gives."""
    return types_in(item.all) if isinstance(item, Heading) else types_in(item.own) or types_in(item.heading.all)


def _withheld(steps: Steps) -> Iterator[Withheld]:
    """Iterate over the ranges that are withheld from students, and the generated fields that would give them away."""
    items = [item for item in steps.pooled if not isinstance(item, Heading) or item.level]
    for (owner, audience), run in groupby(items, key=lambda i: (i.owner, steps.withholding.of(_types(i)))):
        texts = list(run)
        if owner and audience == TEACHER:
            yield Withheld(_types(texts[0]), Lines(texts[0].lines.first, texts[-1].lines.last))
    every = (steps.outline.root, *steps.outline.items)
    for at, fields in revealing(steps.outline, steps.withholding).items():
        if isinstance(heading := every[at], Heading):
            yield Withheld(tuple(fields), Lines(heading.metadata_line, heading.metadata_line))


# -- texts as readers see them ---------------------------------------------------------------------


def readable(outline: Outline, items: Iterable[Item], chapter: BookChapter, withholding: Withholding) -> Outline:
    """Return an outline with these of its items as readers see them, each with its number in the book and with the
    footnotes that its readers may read; without blocks that are empty for them."""
    root = replace(outline.root, numbers=tuple(filter(None, [chapter.numbers.number])))
    headings, seen = {id(outline.root): root}, list[Item]()
    numbers: dict[tuple[str, ...], str] = {(): chapter.numbers.number}
    for item in items:
        if isinstance(item, TextItem):
            text, heading = rendered_text(item.text, chapter), headings[id(item.heading)]
            seen.append(replace(item, text=text, heading=heading, blocks=()))
            continue
        numbers[item.path] = chapter.numbers.headings.get(item.line, "")
        own = tuple(numbers.get(item.path[:end], "") for end in range(len(item.path) + 1))
        path = tuple(rendered_text(title, chapter) for title in item.path)
        headings[id(item)] = replace(item, title=path[-1], path=path, numbers=own if any(own) else ())
        seen.append(headings[id(item)])
    texts = [item for item in seen if isinstance(item, TextItem)]
    public = [item for item in texts if withholding.of(_types(item)) == EVERYONE]
    withheld = [item for item in texts if withholding.of(_types(item)) == TEACHER]
    notes = {EVERYONE: footnotes(public, public), TEACHER: footnotes(texts, withheld)}
    visible_items = list[Item]()
    for item in seen:
        if isinstance(item, TextItem):
            text = with_notes(item.text, *notes[withholding.of(_types(item))]) if "[^" in item.text else item.text
            moved = item.lines.first + text.count("\n") != item.lines.last
            item = replace(item, text=text, moved=moved) if moved or text != item.text else item
        if isinstance(item, Heading) or item.text.strip():
            visible_items.append(item)
    return replace(outline, root=root, items=tuple(visible_items))


def revealing(outline: Outline, withholding: Withholding) -> dict[int, dict[str, Any]]:
    """Return the generated fields that give a withheld text away, with what is left of them, None for nothing; by the
    place of their heading, counted from 1, with 0 for the document.

    A field, or an item of a list, gives it away if a word of it is in a withheld text of the section and not in what
    students may read of the section, or if a number is not in the latter.
    """
    found = dict[int, dict[str, Any]]()
    items = outline.items
    shown = {id(item) for item in items if withholding.of(_types(item)) == EVERYONE}
    for at, heading in enumerate((outline.root, *items) if len(shown) < len(items) else ()):
        values = heading.values.items() if isinstance(heading, Heading) else ()
        generated = {key: each for key, each in values if key.startswith("~") and properties({key: each})}
        if isinstance(heading, TextItem) or not generated:
            continue
        depth, names = len(heading.path), [outline.title, *heading.path]
        texts: tuple[list[str], list[str]] = ([], [])  # withheld, and shown
        for item in items[at:]:
            if isinstance(item, TextItem) and len(item.heading.path) >= depth:
                texts[id(item) in shown].append(item.text)
            elif isinstance(item, Heading) and len(item.path) <= depth:
                break
            elif isinstance(item, Heading) and id(item) in shown:
                names.append(item.title)
        if texts[False] and (texts[True] or withholding.of(_types(heading)) == EVERYONE):
            withheld_words, visible = _words_of("\n".join(texts[False])), _words_of("\n".join([*names, *texts[True]]))
            remaining = {key: _without(value, withheld_words, visible) for key, value in generated.items()}
            if changed := {key: value for key, value in remaining.items() if value != generated[key]}:
                found[at] = changed
    return found


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


def unrevealing(outline: Outline, withholding: Withholding) -> Outline:
    """Return the outline without generated fields that give a withheld text away."""
    every = [outline.root, *outline.items]
    found = revealing(outline, withholding)
    if not found:
        return outline
    new, above = dict[int, Heading](), list[Heading]()
    made = list[Item]()
    for at, item in enumerate(every):
        if isinstance(item, TextItem):
            made.append(replace(item, heading=new[id(item.heading)]))
            continue
        above = above[: len(item.path)]
        own = item.own
        if changed := found.get(at):
            own = properties({k: v for k, v in {**item.values, **changed}.items() if v is not None or k not in changed})
        heading = replace(item, own=own, all=with_inherited(above[-1] if above else None, own))
        new[id(item)] = heading
        above.append(heading)
        made.append(heading)
    return replace(outline, root=new[id(outline.root)], items=tuple(made[1:]))


# The first paragraph of a footnote, and references to one.
_FOOTNOTE = re.compile(
    r"^\[\^(?P<name>[^\]\s]{1,100})\]:[ \t]*(?P<note>[^\n]+(?:\n[ \t]*[^\s\[][^\n]*)*)", re.MULTILINE
)
_NOTE_MARK = re.compile(r"\[\^([^\]\s]{1,100})\](:[ \t]*)?")


def footnotes(texts: Iterable[TextItem], readers: Iterable[TextItem]) -> tuple[Mapping[str, str], frozenset[str]]:
    """Return the footnotes in texts, by name, and the names of those to which other texts refer."""
    found = (match for piece in _with_marks(texts) for match in _FOOTNOTE.finditer(piece))
    marks = (mark for piece in _with_marks(readers) for mark in _NOTE_MARK.finditer(piece))
    notes = {match["name"]: " ".join(match["note"].split()) for match in found}
    return notes, frozenset(mark[1] for mark in marks if not mark[2])


def _with_marks(texts: Iterable[TextItem]) -> Iterator[str]:
    marked = (item.text for item in texts if "[^" in item.text)
    return (piece for text in marked for is_code, piece in code_apart(text) if not is_code)


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


_NAMES = ("subtitle", "aliases", "tags", "keywords")
_PART_OF_A_NAME = re.compile(r"[^\W_]+?(?=[\W_]|\Z|(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ]))")


def _names(steps: Steps) -> tuple[str, ...]:
    """Return the names of a document besides its title: what its file's name adds to it, and what its header gives."""
    name = own_stem(steps.file)
    name = PurePosixPath(steps.file).parent.name if name.casefold() in ("index", "readme") else name
    title, header = steps.outline.title, steps.withholding.shown(steps.outline.root.own)
    known = set(map(str.casefold, _PART_OF_A_NAME.findall(title)))
    own = " ".join(word for word in _PART_OF_A_NAME.findall(name) if word.casefold() not in known)
    given = (text for field in _NAMES for text in texts_of(header.get(field)))
    return tuple(filter(None, distinct_titles((title, own, *given))[1:]))


def _above(words: Iterable[TextItem], of: Section | Chunk, withholding: Withholding) -> tuple[str, ...]:
    """Return those words of an entry that are not in its part itself, and may be read by all who may read that."""
    readable = (each for each in words if of.audience == TEACHER or withholding.of(_types(each)) == EVERYONE)
    return tuple(each.text for each in readable if each.text not in of.text)


def _section(steps: Steps, part: Part, ids: Ids, order: int) -> Section:
    heading, path = part.heading, part.heading.path
    first = part.items[0] if part.by_size else heading
    begins = "\n".join(first.path) if isinstance(first, Heading) else str(first.key)
    new = ids.of("part", begins) if part.by_size else ids.of("section", *path)
    inner = () if part.by_size else _inner(part.items)
    place = steps.place_of(heading, part.lines, inner)
    withholding = steps.withholding
    shown = replace(part, items=_for_students(part.items, withholding))
    texts = [item for item in part.items if isinstance(item, TextItem)]
    readable = any(isinstance(item, TextItem) for item in shown.items)
    audience = TEACHER if texts and not readable else EVERYONE
    return Section(
        new,
        place,
        depth=heading.level,
        order=order,
        text=part.text,
        goes_on=part.by_size,
        metadata=heading.own,
        audience=audience if texts else withholding.of_metadata(heading.all),
        for_students=_changed(
            text=(part.text, shown.text),
            metadata=(heading.own, withholding.shown(heading.own)),
            inner=(place.inner, _inner(shown.items) if place.inner else ()),
        ),
    )


def _inner(items: Iterable[Item]) -> tuple[Inner, ...]:
    headings = (item for item in items if isinstance(item, Heading))
    return tuple(Inner(each.line, each.numbers[-1] if each.numbers else "", each.path) for each in headings)


def _for_students(items: Sequence[Item], withholding: Withholding) -> tuple[Item, ...]:
    """Return items without the texts that are withheld from students, and without headings that become empty."""
    if all(withholding.of(_types(item)) == EVERYONE for item in items):
        return tuple(items)
    included, above = set[int](), list[Heading]()
    for item in items:
        readable = withholding.of(_types(item)) == EVERYONE
        if isinstance(item, Heading):
            above = [*(heading for heading in above if heading.level < item.level), item]
        included |= {id(each) for each in (item, *(() if isinstance(item, Heading) else above)) if readable}
    return tuple(item for item in items if id(item) in included)


def _chunk(steps: Steps, passage: ChunkDraft, section: str, ids: Ids, order: int) -> Chunk:
    heading, withholding = passage.text.heading, steps.withholding
    metadata = {**heading.all, **passage.text.own} if passage.text.own else heading.all
    annotations = [
        annotate(steps.settings.annotation_model, passage.text.own, each) for each in (heading, *passage.inner)
    ]
    return Chunk(
        id=ids.of("chunk", passage.type, passage.text.text),
        place=steps.place_of(heading, passage.text.lines, _inner(passage.inner)),
        section=section,
        order=order,
        text=passage.text.text,
        overlap=passage.overlap,
        annotations=tuple(dict.fromkeys(each for some in annotations for each in some)),
        type=passage.type,
        metadata=metadata,
        audience=withholding.of([passage.type, *types_in(metadata)]),
        for_students=_changed(metadata=(metadata, withholding.shown(metadata))),
    )
