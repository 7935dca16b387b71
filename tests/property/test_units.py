"""Fenced divs, lists, tables: a question or an edit is about all of one, and Pandoc reads all else as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import talking
from hypothesis import Phase, example, given, settings, strategies as st
from pandoc_trees import trees

from lmm.markdown import parse_markdown_text, serialize
from lmm.markdown.blocks import TextBlock
from lmm.markdown.units import div_ends, texts_of
from lmm.testing import ScriptedModel
from lmm_education.config import Preparation
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.study.notes import clean_notes

CHUNK = "```{r fit}\n::: not a div\n\nx\n```"
LEAVES = (
    "A paragraph.",
    "Two\nlines of one.",
    "- a\n- b",
    "- a\n\n- b\n\n  more of b\n\n    - deeper\n\n- c",
    "1. one\n\n    ```\n    code\n    ```\n\n2. two\n\n   ::: {.note}\n   inside\n\n   an item\n   :::\n\n3. three",
    "(@) an example\n\n(@good) another",
    "| a line\n| block",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n: A caption {#tbl-a}",
    "Table: Above\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    "+---+---+\n| a | b |\n+---+---+\n\nTable: A grid",
    "-------------\n One   Two\n----- -------\n  1     2\n\n  3     4\n-------------\n\n: Several lines",
    "term\n\n:   what it means\n\n    more of it\n\nother\n\n:   and this",
    "[^n]: A note\n\n    of two paragraphs.",
    CHUNK,
    "> quoted\n> :::",
    "    code\n\n    with a gap",
    "$$\nx\n\n:::\n$$",
    "<!-- ::: hidden\n\n::: -->",
    "![A picture](a.png){#fig-a}",
)
OPENERS = ("::: {.callout-note}", "::: columns", ":::: {#thm-a .theorem} ::::", "::: {.panel-tabset}", ":::{.a b=c}")
REPLIES = ("EDITED", "::: {.note}\nEDITED\n:::", "- EDITED\n\n- twice", "EDITED\n\n::: {.open}\nleft open")


@dataclass(frozen=True)
class Unit:
    """A piece of a document: text, or with `level` a heading, or with an opening fence a div of `children`."""

    text: str
    level: int = 0
    children: tuple[Unit, ...] = ()
    tight: bool = False
    is_div: bool = field(default=False)

    @property
    def levels(self) -> Iterator[int]:
        """The levels of the headings in it."""
        yield from [self.level] if self.level else []
        for child in self.children:
            yield from child.levels


def leaves() -> st.SearchStrategy[Unit]:
    """Texts and headings."""
    return st.sampled_from(LEAVES).map(Unit) | st.integers(1, 3).map(lambda n: Unit(f"{'#' * n} Heading", n))


def divs(children: st.SearchStrategy[Unit]) -> st.SearchStrategy[Unit]:
    """A div of units."""
    inside = st.lists(children, min_size=1, max_size=4).map(apart)
    return st.tuples(st.sampled_from(OPENERS), inside, st.booleans()).map(
        lambda made: Unit(made[0], 0, made[1], made[2], True)
    )


def apart(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Units with a paragraph after each that could go on in the next."""
    return tuple(part for unit in units for part in ([unit] if unit.level or unit.is_div else [unit, Unit("Then.")]))


def documents() -> st.SearchStrategy[tuple[Unit, ...]]:
    """Documents of all that, divs in divs."""
    return st.lists(st.recursive(leaves(), divs, max_leaves=6), min_size=1, max_size=5).map(apart)


def written(
    units: Sequence[Unit], at: Unit | None = None, above: str = "", body: str | None = None, below: str = ""
) -> str:
    """The text of units; `at` stands between `above` and `below`, and in its place, or its section's, `body`."""
    parts, skipping = [], 0
    for unit in units:
        if skipping and not 0 < unit.level <= skipping:
            continue
        skipping = 0
        here, after = (above, below) if unit is at else ("", "")
        if unit is at and unit.level and body is not None:
            skipping = unit.level
            parts.append(f"{here}{unit.text}\n\n{body}" if body else f"{here}{unit.text}")
        elif unit is at and body is not None:
            parts.append(f"{here}{body}")
        elif unit.is_div:
            inside, gap = written(unit.children, at, above, body, below), "\n" if unit.tight else "\n\n"
            fence = ":" * (len(unit.text) - len(unit.text.lstrip(":")))
            # A fence right below a list would go on in its last item, so nobody writes one there.
            end = "\n\n" if inside.endswith("- twice") else gap
            parts.append(f"{here}{unit.text}{gap}{inside}{end}{fence}{after}")
        else:
            parts.append(here + unit.text + after)
    return "\n\n".join(parts)


def places(units: Sequence[Unit]) -> Iterator[Unit]:
    """All units, those in divs too."""
    for unit in units:
        yield unit
        yield from places(unit.children)


def knitted(texts: Sequence[str]) -> list[str]:
    """The texts as knitr hands them to Pandoc, to which `{r fit}` begins no code: what is between two chunks would."""
    return [text.replace("```{r fit}", "```{.r #fit}") for text in texts]


# Each failing example costs a process.
@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@example((Unit(CHUNK), Unit("Then."), Unit(CHUNK)), "EDITED")
@given(documents(), st.sampled_from(REPLIES))
def test_pandoc_reads_everything_else_as_it_was(units: tuple[Unit, ...], reply: str) -> None:
    """At every place: a question that was answered, an edit that waits, that was accepted, that was rejected."""
    ours, expected = [], []
    closed = reply + "\n:::" * ("open" in reply)
    for unit in places(units):
        above = "---\nx: y\n---\n"
        plain = f"Start.\n\n{written(units, unit, above)}\n"
        edited = f"Start.\n\n{written(units, unit, above, closed)}\n"
        over = re.search(r"(#+) Heading\s*\Z", plain.partition(above)[0])
        if over is not None and 0 < unit.level <= len(over[1]):
            continue  # a prompt there is about the empty section above it
        asked = talking.answered(plain.replace("x: y", "x: y\n?: why?"), model=ScriptedModel(["Because."]))
        ours.append(asked.text)
        expected.append(plain)
        # The journal knows replies by what was asked.
        editing = talking.answered(
            plain.replace("x: y", f"x: y\n=: dissolve the div {REPLIES.index(reply)}"), model=ScriptedModel([reply])
        )
        assert not editing.failures
        assert talking.rejected(editing.text) == plain
        ours.append(talking.accepted(editing.text, force=True))
        expected.append(edited)
        assert serialize(parse_markdown_text(plain)) == plain
    for number, (found, wanted) in enumerate(zip(trees(knitted(ours)), trees(knitted(expected)), strict=True)):
        assert found == wanted, f"{ours[number]}\n=== instead of ===\n{expected[number]}"


def fences(text: str) -> tuple[int, int]:
    """How many lines of divs a text has, and how many of them belong together."""
    blocks = parse_markdown_text(text)
    lines = [block for block in blocks if isinstance(block, TextBlock) and block.source.lstrip().startswith(":::")]
    return len(lines), 2 * len(div_ends(texts_of(blocks)))


@given(documents(), st.sampled_from([60, 150, 2000]))
def test_no_chunk_has_half_a_div(units: tuple[Unit, ...], size: int) -> None:
    """A div is whole in a chunk, or its lines are not there; its text always is."""
    text = f"Start.\n\n{written(units)}\n"
    chunks = prepare_document(
        text, docid="d", file="a.md", settings=Preparation(min_size=size // 2, max_size=size)
    ).chunks
    for chunk in chunks:
        found, paired = fences(chunk.text)
        assert found == paired, chunk.text
    everything = "\n".join(chunk.text for chunk in chunks)
    assert everything.count("Then.") == text.count("Then.")


@given(documents(), st.data())
def test_what_is_kept_back_is_all_of_a_unit(units: tuple[Unit, ...], data: st.DataObject) -> None:
    """Of a solution nothing is in the notes, and the divs around it stay whole."""
    unit = data.draw(st.sampled_from([unit for unit in [*places(units), Unit("None.")] if not unit.level]))
    before = "Before.\n\n"  # right below a heading, a solution would be all of the section
    solution, end = "---\ntype: solution\n---\n", "\n\n---\nlevel: easy\n---"
    text = f"Start.\n\n{written(units, unit, before + solution, below=end)}\n"
    clean = clean_notes(text).text
    found, paired = fences(clean)
    assert found == paired, clean
    wanted = f"Start.\n\n{written(units, unit, before, '')}\n"
    assert clean.split() == wanted.split()
