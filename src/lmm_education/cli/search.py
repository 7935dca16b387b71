"""`lmm search`: find passages in the ingested documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.terminal import DONE, FAILED
from lmm_education.cli import course_options
from lmm_education.options import SearchOptions

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.material import Location, Passage
    from lmm_education.search.query import SearchResult

WIDTH = 400
"""Characters of a passage that are shown."""
_INDENT = "    "
_PIECES = re.compile(r"\s*\S+\s?|\s+")  # words, each followed by a space


@options.command()
@options.argument(
    "question",
    "[QUESTION]",
    "Your question; *type* prefers that material, @document searches only that document.",
    required=False,
    default="",
)
@course_options.of(SearchOptions, "types", "documents", "where", "here")
@click.option(
    "--fields", metavar="A,B", multiple=True, help="Show these fields of each passage: metadata keys, file, …"
)
@click.option("--id", "ids", metavar="ID", multiple=True, help="Fetch the passage or section with this id.")
@course_options.of(SearchOptions, "limit", "companion")
@options.flag("--sections", help="Also rank the sections of the results.")
@options.flag("--full", help="Show whole passages.")
@options.as_json
@course_options.of(SearchOptions, "expand", "reranker")
@course_options.opened
def search(
    course: Course,
    *,
    fields: tuple[str, ...],
    ids: tuple[str, ...],
    sections: bool,
    full: bool,
    as_json: bool,
    **asked: Any,
) -> int:
    """Find passages: score, file:lines, headings, and the words that match.

    Without a question, --type, --doc and --where list passages in the order of the documents. Exit code 1:
    nothing was found, or nothing fits.
    """
    wanted = tuple(name.strip() for some in fields for name in some.split(",") if name.strip())
    if ids:
        result = course.fetch(*ids, fields=wanted)
    else:
        result = course.search(fields=wanted, sections=sections or as_json, **asked)
    notices = [*course.encoder.notices, *result.notices]
    threshold = course.settings.search.threshold
    fits = threshold is None or result.relevance is None or result.relevance >= threshold
    if not fits:
        notices.append(f"nothing fits well: relevance {result.relevance:.2f}, the threshold is {threshold:g}")
    for notice in notices:
        terminal.note(notice)
    if as_json:
        terminal.say_json(result.as_json())
    else:
        terminal.say(shown(result, sections=sections, full=full or bool(ids)), end="")
    return DONE if result.hits and fits else FAILED


def shown(result: SearchResult, *, sections: bool = False, full: bool = False) -> str:
    """Return results as the terminal shows them; with `sections`, also their ranking, with `full`, whole passages."""
    return "".join(_parts(result, sections=sections, full=full))


def _parts(result: SearchResult, *, sections: bool, full: bool) -> Iterator[str]:
    if result.questions:
        yield "also asked:\n" + "".join(f"  {q}\n" for q in result.questions) + "\n"
    if not result.hits:
        yield "nothing was found\n"
        return
    for rank, hit in enumerate(result.hits, 1):
        yield _hit(rank, hit, result, full=full)
    if sections:
        yield terminal.styled("sections", "bold") + "\n"
        yield from (_section(rank, section) for rank, section in enumerate(result.sections, 1))


def _hit(rank: int, hit: Passage, result: SearchResult, *, full: bool) -> str:
    from lmm_education.search.highlight import excerpt, marked, matching_words

    score = f"  {hit.score:.3f}" if result.text else ""
    kind = f"  [{hit.type}]" if hit.type != "text" else ""
    head = f"{rank:>2}{terminal.styled(score, 'green')}  {_place(hit.place, hit.title)}{kind}\n"
    languages = (hit.language,) if hit.language else result.languages
    spans = matching_words(hit.text, result.text, languages) if result.text else []
    part = (0, len(hit.text)) if full else excerpt(hit.text, spans, WIDTH)
    if _mark("*") != terminal.styled("*", "yellow"):  # adjacent emphasis marks would cancel out
        spans = [(at, until) for at, until in spans if "*" not in hit.text[max(at - 1, 0) : until + 1]]
    text = marked(hit.text, spans, part, _mark, terminal.visible)
    fields = "".join(f"    {terminal.styled(name, 'cyan')}: {_value(v)}\n" for name, v in hit.payload.items())
    return f"{head}{_indented(text)}{fields}\n"


def _section(rank: int, section: Passage) -> str:
    passages = terminal.count(len(section.hits), "passage")
    beside = [f"{word} “{title}”" for word, title in (("after", section.before), ("before", section.after)) if title]
    more = f"; {', '.join(beside)}" if beside else ""
    return f"{rank:>2}  {_place(section.place, section.title)}  ({passages}{more})\n"


def _place(place: Location, title: str) -> str:
    path = " > ".join(place.path("") or place.path(title))
    return f"{terminal.styled(str(place), 'cyan')}  {terminal.styled(path, 'bold')}  {place.link}".rstrip()


def _mark(word: str) -> str:
    """Return a matching word: yellow on a terminal, otherwise emphasized in markdown."""
    styled = terminal.styled(word, "yellow")
    return styled if styled != word else f"**{word}**"


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(text.split())


def _indented(text: str) -> str:
    """Return an indented text, wrapped to the width of a terminal."""
    width = terminal.width() - len(_INDENT) if terminal.is_terminal() else 0
    lines = [part for line in text.split("\n") for part in (wrapped(line, width) if width > 0 else [line])]
    return "".join(f"{_INDENT}{line}".rstrip() + "\n" for line in lines)


def wrapped(line: str, width: int) -> list[str]:
    """Wrap a line at spaces to `width` columns; styles take no space, longer words are kept whole.

    >>> wrapped("one two three four", 8)
    ['one two', 'three', 'four']
    >>> wrapped("    x <- 1", 80)
    ['    x <- 1']
    """
    lines, used = [""], 0
    for piece in _PIECES.findall(line):
        room = terminal.columns(piece)
        if used and lines[-1].strip() and used + terminal.columns(piece.rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            used = 0
        lines[-1] += piece
        used += room
    lines[-1] = lines[-1].rstrip()
    return lines
