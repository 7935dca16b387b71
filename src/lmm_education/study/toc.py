"""The table of contents of documents: their headings as a tree, with lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lmm.markdown.blocks import HeadingBlock
from lmm_education.catalogue import Entry as Entry
from lmm_education.ingestion.outline import Heading
from lmm_education.study.study_documents import StudyDocument, type_of


def table_of_contents(documents: Iterable[StudyDocument], *, depth: int = 6) -> list[Entry]:
    """The documents and their headings down to level `depth`, in order.

    >>> from lmm_education.study.study_documents import study_document
    >>> entries = table_of_contents([study_document("# Leaves\\n\\n## Colour\\n", file="leaves.md")])
    >>> [(entry.level, entry.title, entry.line) for entry in entries]
    [(0, 'Leaves', 1), (1, 'Leaves', 1), (2, 'Colour', 3)]
    """
    return [entry for document in documents for entry in _of(document) if entry.level <= depth]


def _of(document: StudyDocument) -> Iterator[Entry]:
    root = document.outline.root
    yield Entry(document.title, 0, document.file, 1, kind=type_of(root), number=document.number(root))
    taken: dict[str, int] = {}
    for item in document.outline.items:
        if isinstance(item, Heading):
            anchor = _unique(anchor_of(item), taken)
            yield Entry(
                title=item.title,
                level=item.level,
                file=document.file,
                line=item.line,
                headings=item.path,
                kind=type_of(item),
                anchor=anchor,
                number=document.number(item),
            )


def anchor_of(heading: Heading) -> str:
    """The id that Pandoc gives a heading, or that is written after it.

    >>> anchor_of(Heading("What is `R`, really?", 1, (), 1)), anchor_of(Heading("B", 1, (), 1, "# B {#b .x}"))
    ('what-is-r-really', 'b')
    """
    return HeadingBlock(heading.source or f"# {heading.title}", 1).anchor


def _unique(anchor: str, taken: dict[str, int]) -> str:
    """The anchor, with the next number if it is taken; `taken` has the last number of each."""
    chosen = anchor
    while chosen in taken:
        taken[anchor] += 1
        chosen = f"{anchor}-{taken[anchor]}"
    taken[chosen] = 0
    return chosen


# -- ways to write it ------------------------------------------------------------------------------


def toc_as_text(entries: Iterable[Entry]) -> str:
    """For a terminal: lines of the file, titles indented by level.

    >>> print(toc_as_text([Entry("Leaves", 0, "leaves.md", 1), Entry("Colour", 1, "leaves.md", 3)]), end="")
    leaves.md: Leaves
        3  Colour
    """
    lines = []
    for entry in entries:
        if entry.level == 0:
            lines.append(f"{entry.file}: {entry.name}")
        else:
            kind = f" [{entry.kind}]" if entry.kind != "text" else ""
            lines.append(f"{entry.line:>5}  {'  ' * (entry.level - 1)}{entry.name}{kind}")
    return "".join(f"{line}\n" for line in lines)


def toc_as_markdown(entries: Iterable[Entry]) -> str:
    """A nested list with links to the sections of the rendered documents.

    >>> print(toc_as_markdown([Entry("A", 0, "a.md", 1), Entry("B", 1, "a.md", 3, anchor="b")]), end="")
    - [A](a.md)
      - [B](a.md#b)
    """
    lines = []
    for entry in entries:
        target = entry.file.replace(" ", "%20") + (f"#{entry.anchor}" if entry.level else "")
        lines.append(f"{'  ' * entry.level}- [{entry.name}]({target})")
    return "".join(f"{line}\n" for line in lines)


def toc_as_values(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """As JSON holds it: each document, each heading with those under it."""
    found: list[dict[str, Any]] = []
    above: list[tuple[int, dict[str, Any]]] = []
    for entry in entries:
        value: dict[str, Any] = {"title": entry.title, "number": entry.number, "level": entry.level}
        value |= {"file": entry.file, "line": entry.line}
        value |= {"type": entry.kind, "anchor": entry.anchor, "sections": []}
        while above and above[-1][0] >= entry.level:
            above.pop()
        (above[-1][1]["sections"] if above else found).append(value)
        above.append((entry.level, value))
    return found
