"""Which sections data is taken from."""

from __future__ import annotations

import pytest

from lmm.extraction import choose
from lmm.markdown import load_text

TEXT = """\
---
title: Garden
course: botany
---

Before all headings.

# Trees

---
kind: exercise
---
Count the rings.

## Oak

Tall.

---
kind: [shrub, Hedge]
done: true
---
## Box

Small.

### How old?

Very.

# Empty

---
skip: true
---
# Notes

Not for readers.
"""


def chosen(select: str | None, text: str = TEXT) -> list[tuple[int, str]]:
    """Line and text of what is chosen, the text on one line."""
    return [(section.line, " ".join(section.text.split())) for section in choose([load_text(text)], select)[0]]


def test_by_default_every_section_with_text_of_its_own() -> None:
    """Each with its own text; those marked `skip`, and those without text, are left out."""
    assert chosen(None) == [
        (8, "# Trees Count the rings."),
        (15, "## Oak Tall."),
        (23, "## Box Small."),
        (27, "### How old? Very."),
    ]


def test_what_is_under_a_skipped_heading_is_skipped() -> None:
    """`skip` holds for the subsections, but not against being named."""
    text = "---\nskip: true\n---\n# A\n\na\n\n## B\n\nb\n"
    assert chosen(None, text) == []
    assert chosen("b", text) == [(8, "## B b")]


@pytest.mark.parametrize(
    "text", ["One.\n\nTwo.\n", "---\ntitle: T\n---\nOne.\n\nTwo.\n", "---\na: 1\n---\nOne.\n\n---\nb: 1\n---\nTwo.\n"]
)
def test_a_document_without_headings_is_one_section(text: str) -> None:
    """Its text is the whole; it has no headings."""
    (section,) = choose([load_text(text)])[0]
    assert (section.line, section.headings, section.text.split()) == (1, (), ["One.", "Two."])


@pytest.mark.parametrize("text", ["", "\n", "# A\n", "---\ntitle: T\n---\n", "# A\n\n---\nkind: x\n---\n"])
def test_nothing_is_chosen_where_there_is_no_text(text: str) -> None:
    """Headings and metadata alone are nothing to read."""
    assert chosen(None, text) == chosen("a", text) == chosen("kind=", text) == []


@pytest.mark.parametrize("select", ["box", "BOX", "b?x", "*ox", " Box "])
def test_by_title(select: str) -> None:
    """A part of the title or a pattern, in any case; the section comes with its subsections."""
    assert chosen(select) == [(23, "## Box Small. ### How old? Very.")]


def test_a_question_mark_in_a_title_is_found() -> None:
    """What looks like a pattern is also taken as it is."""
    assert chosen("how old?") == [(27, "### How old? Very.")]


def test_nothing_is_read_twice() -> None:
    """A chosen section leaves out the chosen ones under it; one without text of its own is no record."""
    assert chosen("*o*") == [(15, "## Oak Tall."), (23, "## Box Small."), (27, "### How old? Very."),
                             (36, "# Notes Not for readers.")]  # fmt: skip
    assert chosen("[te]*", "# T1\n\n## T2\n\nb\n") == [(3, "## T2 b")]


@pytest.mark.parametrize("select", ["kind=hedge", "kind=shrub", "kind = x", "done=true", "done=", "done"])
def test_by_metadata(select: str) -> None:
    """A value, an element of a list, or any value; subsections inherit it and are chosen themselves."""
    expected = [(23, "## Box Small."), (27, "### How old? Very.")]
    assert chosen(select) == ([] if select == "kind = x" else expected)


def test_paragraphs_are_chosen_by_their_own_metadata() -> None:
    """And their headings are those above them."""
    (section,) = choose([load_text(TEXT)], "kind=exercise")[0]
    assert (section.line, section.headings, section.text) == (13, ("Trees",), "Count the rings.")
    assert section.source == "Garden > Trees"


def test_metadata_of_the_header_is_inherited_by_all() -> None:
    """What the document says of itself holds for its sections."""
    assert [line for line, _ in chosen("course=Botany")] == [8, 15, 23, 27, 36]


def test_what_generated_keys_and_locked_keys_say() -> None:
    """`key=` and `~key` are spellings of `key`."""
    assert chosen("kind=a", "---\nkind=: a\n---\n# A\n\na\n\n---\n~kind: a\n---\n# B\n\nb\n") == [
        (4, "# A a"),
        (11, "# B b"),
    ]


def test_a_title_in_any_document_makes_a_word_a_title() -> None:
    """A bare word means the same in all documents of a run."""
    trees = [load_text("# Box\n\na\n"), load_text("---\nbox: 1\n---\n# B\n\nb\n")]
    assert [len(sections) for sections in choose(trees, "box")] == [1, 0]
    assert [len(sections) for sections in choose(trees[1:], "box")] == [1]


def test_a_subtree() -> None:
    """Of a part of a document, only that part is read, with the headings above it."""
    tree = load_text(TEXT).headings[0].headings[1]
    assert [section.headings for section in choose([tree])[0]] == [("Trees", "Box"), ("Trees", "Box", "How old?")]
