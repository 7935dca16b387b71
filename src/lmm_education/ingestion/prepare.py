"""Prepare a markdown document in three steps: pool its texts, divide it into sections, and cut these into chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import PurePosixPath
from typing import Any

from lmm.errors import ConfigError
from lmm.markdown.page_marks import Pages, pages_of
from lmm.markdown.spans import link_addresses
from lmm_education.audience import DEFAULT, EVERYONE, TEACHER, Withholding
from lmm_education.books.chapters import NO_BOOK, BookChapter
from lmm_education.books.rendered_text import rendered_text
from lmm_education.config import AnnotationModel, Preparation, for_document
from lmm_education.ingestion.outline import Heading, Item, Outline, TextItem, item_values, read_outline
from lmm_education.ingestion.packing import Limits
from lmm_education.ingestion.readers import for_students, readable, unrevealing, values_for_students
from lmm_education.ingestion.source_files import own_stem, sort_key
from lmm_education.ingestion.steps import Part, divide, own_words, passages_of, pool, whole_blocks
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


def prepare_document(
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
) -> PreparedDocument:
    """Prepare a markdown document.

    Its blocks are read once, and made readable once; sections and chunks are ranges of them.

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

    >>> text = "# Leaves\\n\\n---\\n~questions_: [Why green?]\\n---\\n## Colour\\n\\nLeaves are green.\\n"
    >>> document = prepare_document(text, docid="botany", file="botany.md", settings=Preparation())
    >>> [(chunk.place.headings, str(chunk.place), chunk.annotations) for chunk in document.chunks]
    [(('Leaves', 'Colour'), 'botany.md:8', ('Why green?',))]
    >>> [section.place.headings for section in document.sections]
    [('Leaves',)]
    """
    text, docid, file = plain(text), plain(docid), plain(file)
    chapter = replace(chapter, addresses=link_addresses(text))
    written = read_outline(text, title=title or own_stem(file), kinds=withholding)
    settings = for_document(settings, written.root.values, where=f"{file}:1")
    limits = _limits(settings, count, file)
    public, revealing = unrevealing(whole_blocks(written, limits), withholding)
    blocks = readable(public, chapter, withholding)
    items = tuple(pool(blocks.items, limits, shorter_than=settings.pool_size)) if settings.pool else blocks.items

    root, title = blocks.root, plain(rendered_text(chapter.title or blocks.title, chapter))
    words, names = own_words(root, items), _names(blocks, file, withholding)
    context = _Context(docid, file, settings, withholding, original, blocks.pages, Ids(docid))
    sections, chunks = list[Section](), list[Chunk]()
    parents: dict[tuple[str, ...], str] = {}  # the section that each path of headings begins with
    for part in divide(root, items, settings, limits):
        section, path = context.section(part, len(sections)), part.heading.path
        parent = next((parents[path[:end]] for end in range(len(path) - 1, 0, -1) if path[:end] in parents), "")
        if not sections or sections[-1].place.headings != path:  # otherwise it goes on with what is cut by size
            parents[path] = section.id
        section = replace(section, parent=parent, above=_above(words[id(part.heading)], section, withholding))
        sections.append(section)
        for passage in passages_of(part, limits, settings):
            chunk = context.chunk(passage, section.id, len(chunks))
            own_texts = [each for each in words[id(passage.heading)] if each.heading is not passage.heading]
            above = _above(own_texts, chunk, withholding)
            chunks.append(replace(chunk, title=title, above=above, names=names))
    every = (replace(root, title=title, line=1), *items)
    outline = [item_values(item) for item in every]
    readable_by_all = withholding.of(root.types) == EVERYONE or any(c.audience == EVERYONE for c in chunks)
    return PreparedDocument(
        id=docid,
        file=file,
        title=title,
        language=plain(settings.language),
        sections=() if settings.documents == "none" else tuple(sections),
        chunks=tuple(chunks),
        metadata=root.own,
        outline=outline,
        sort_key=sort_key(file, chapter.book, chapter.position),
        part=plain(chapter.numbers.part),
        book=plain(chapter.book_title),
        withheld=(*_withheld(items, withholding), *revealing),
        withhold=withholding.withheld,
        audience=EVERYONE if readable_by_all else TEACHER,
        for_students=_changed(
            metadata=(root.own, withholding.shown(root.own)),
            outline=(outline, values_for_students(every, withholding)),
        ),
    )


def _limits(settings: Preparation, count: Count | None, file: str) -> Limits:
    if settings.unit == "characters":
        return Limits(settings.min_size, settings.max_size)
    if count is None:
        raise ConfigError("chunks are measured in tokens, but no tokenizer is installed", where=file)
    return Limits(settings.min_size, settings.max_size, count, joint=0)


def _withheld(items: Iterable[Item], withholding: Withholding) -> Iterator[Withheld]:
    """Iterate over the ranges that are withheld from students."""
    below = (item for item in items if isinstance(item, TextItem) or item.level)
    for (owner, audience), run in groupby(below, key=lambda item: (item.owner, withholding.of(item.types))):
        texts = list(run)
        if owner and audience == TEACHER:
            yield Withheld(texts[0].types, Lines(texts[0].lines.first, texts[-1].lines.last))


# -- the parts of a prepared document ---------------------------------------------------------------


_NAMES = ("subtitle", "aliases", "tags", "keywords")
_PART_OF_A_NAME = re.compile(r"[^\W_]+?(?=[\W_]|\Z|(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ]))")


def _names(outline: Outline, file: str, withholding: Withholding) -> tuple[str, ...]:
    """Return the names of a document besides its title: what its file's name adds to it, and what its header gives."""
    name = own_stem(file)
    name = PurePosixPath(file).parent.name if name.casefold() in ("index", "readme") else name
    title, header = outline.title, withholding.shown(outline.root.own)
    known = set(map(str.casefold, _PART_OF_A_NAME.findall(title)))
    own = " ".join(word for word in _PART_OF_A_NAME.findall(name) if word.casefold() not in known)
    given = (text for field in _NAMES for text in texts_of(header.get(field)))
    return tuple(filter(None, distinct_titles((title, own, *given))[1:]))


def _above(words: Iterable[TextItem], of: Section | Chunk, withholding: Withholding) -> tuple[str, ...]:
    """Return those words of an entry that are not in its part itself, and may be read by all who may read that."""
    readable = (each for each in words if of.audience == TEACHER or withholding.of(each.types) == EVERYONE)
    return tuple(each.text for each in readable if each.text not in of.text)


@dataclass(frozen=True, slots=True)
class _Context:
    """What the sections and chunks of a document have in common; makes them."""

    docid: str
    file: str
    settings: Preparation
    withholding: Withholding
    original: str
    pages: tuple[tuple[int, Pages], ...]
    ids: Ids

    def place(self, heading: Heading, lines: Lines, inner: tuple[Inner, ...]) -> Location:
        """Return the place of the text in some lines below a heading."""
        pages = pages_of(*lines, self.pages)
        where = (str(pages), self.original) if pages else ()
        return Location(self.docid, self.file, lines, heading.path, heading.numbers, inner, *where)

    def section(self, part: Part, order: int) -> Section:
        """Make a section; the texts of the headings above it are not known yet."""
        heading, withholding = part.heading, self.withholding
        first = part.items[0] if part.by_size else heading
        begins = "\n".join(first.path) if isinstance(first, Heading) else str(first.key)
        new = self.ids.of("part", begins) if part.by_size else self.ids.of("section", *heading.path)
        place = self.place(heading, part.lines, () if part.by_size else _inner(part.items))
        shown = replace(part, items=for_students(part.items, withholding))
        has_texts, has_readable = (any(isinstance(i, TextItem) for i in of.items) for of in (part, shown))
        audience = EVERYONE if has_readable else TEACHER if has_texts else withholding.of(heading.types)
        return Section(
            new,
            place,
            depth=heading.level,
            order=order,
            text=part.text,
            goes_on=part.by_size,
            metadata=heading.own,
            audience=audience,
            for_students=_changed(
                text=(part.text, shown.text),
                metadata=(heading.own, withholding.shown(heading.own)),
                inner=(place.inner, _inner(shown.items) if place.inner else ()),
            ),
        )

    def chunk(self, text: TextItem, section: str, order: int) -> Chunk:
        """Make a chunk of a section."""
        heading, model = text.heading, self.settings.annotation_model
        metadata = {**heading.all, **text.own} if text.own else heading.all
        annotations = chain.from_iterable(annotate(model, text.own, each) for each in (heading, *text.inner))
        return Chunk(
            id=self.ids.of("chunk", text.type, text.text),
            place=self.place(heading, text.lines, _inner(text.inner)),
            section=section,
            order=order,
            text=text.text,
            overlap=text.overlap,
            annotations=tuple(dict.fromkeys(annotations)),
            type=text.type,
            metadata=metadata,
            audience=self.withholding.of(text.types),
            for_students=_changed(metadata=(metadata, self.withholding.shown(metadata))),
        )


def _inner(items: Iterable[Item]) -> tuple[Inner, ...]:
    headings = (item for item in items if isinstance(item, Heading))
    return tuple(Inner(each.line, each.numbers[-1] if each.numbers else "", each.path) for each in headings)


def _changed(**values: tuple[Any, Any]) -> dict[str, Any]:
    """Return the values for students that differ from those for teachers."""
    return {name: shown for name, (written, shown) in values.items() if shown != written}
