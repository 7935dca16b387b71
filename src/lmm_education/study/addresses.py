"""The section of a course that a page of its published book shows.

Quarto, mdBook and Pandoc name a page as the document that it was made from, bookdown as the id of its first heading.
Ids of headings are compared without punctuation, of which these programs keep different parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from lmm_education.catalogue import Catalogue
from lmm_education.material import Lines, Location, Passage
from lmm_education.study.study_documents import documents_in
from lmm_education.study.toc import table_of_contents

_SUFFIXES = (".html", ".htm", ".md", ".markdown", ".qmd", ".rmd", ".ipynb")
_FIRST = {"readme": "index", "_index": "index"}
"""Documents that become the first page of their folder."""


@dataclass(frozen=True, slots=True)
class BookPage:
    """A document: its path, the file's name without suffix at its end, and its headings by their ids and titles; under
    the empty id, the document itself."""

    path: tuple[str, ...]
    headings: Mapping[str, Passage]


def section_at(catalogue: Catalogue, address: str) -> Passage | None:
    """The section that a page of the book shows, or a file of the course with the id or title of a heading; None where
    that is nothing of the course. Its text is left out."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if not parts.path:
        return None
    page = _page(catalogue.once("pages of the book", lambda: list(_pages(catalogue))), unquote(parts.path))
    return page.headings.get(_key(unquote(parts.fragment)), page.headings[""]) if page else None


def _page(pages: Sequence[BookPage], path: str) -> BookPage | None:
    """The page at a path: the one that shares most of it, unless several do."""
    named = path_of(path)
    for wanted in (named, (*named, "index")) if path.endswith("/") else (named,):
        ranked = sorted(((_in_common(page.path, wanted), -len(page.path)) for page in pages), reverse=True)
        if ranked and ranked[0][0]:
            same = [page for page in pages if (_in_common(page.path, wanted), -len(page.path)) == ranked[0]]
            return same[0] if len(same) == 1 else None
    first = [(page, found) for page in pages if (found := page.headings.get(_key(named[-1]))) and found.level == 1]
    return BookPage(named, {**first[0][0].headings, "": first[0][1]}) if len(first) == 1 else None


def path_of(path: str) -> tuple[str, ...]:
    """The parts of a path by which a page and its document are called the same.

    >>> path_of("/Book/a%20b/../ch04-01.HTML"), path_of("src/README.md"), path_of("")
    (('book', 'a%20b', 'ch04-01'), ('src', 'index'), ('index',))
    """
    *folders, last = [part for part in path.casefold().split("/") if part not in ("", ".", "..")] or ["index"]
    name = last.rpartition(".")[0] if last.endswith(_SUFFIXES) else last
    return (*folders, _FIRST.get(name, name))


def _in_common(path: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many of their last parts are the same."""
    pairs = zip(reversed(path), reversed(other), strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(path), len(other)))


def _key(id: str) -> str:
    return re.sub(r"[\W_]+", "", id.casefold())


def _pages(catalogue: Catalogue) -> Iterator[BookPage]:
    ids = {(each.file, each.headings): each.section for each in catalogue.contents}
    for document in documents_in(catalogue):
        entries = table_of_contents([document])
        numbers = {entry.headings: entry.number for entry in reversed(entries)}
        titles, anchors = dict[str, Passage](), dict[str, Passage]()
        for entry in reversed(entries):  # of headings called the same, the first counts
            above = tuple(numbers.get(entry.headings[:depth], "") for depth in range(len(entry.headings) + 1))
            place = Location(document.id, document.file, Lines(entry.line, entry.line), entry.headings, above)
            id = ids.get((document.file, entry.headings), "")
            passage = Passage(id, place, what="section", section=id, title=document.title, level=entry.level)
            titles[_key(entry.title)] = anchors[_key(entry.anchor)] = passage
        yield BookPage(path_of(document.file), titles | anchors)
