"""Quotations are found in every kind of marks, and what they quote is looked for as people read it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from strategies import texts

from lmm.markdown.quotations import quotations_of, verify_quotations

LEAF = """# Leaves

A leaf is *green* because chlorophyll -- a “pigment” -- absorbs [red light](red.md).
It doesn’t absorb green.

- It falls in autumn, and
- it grows in spring [3].
"""


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("“A leaf is green” and \"it falls in autumn\" and «it grows in spring»", 3),
        ("„Ein Blatt ist grün“, »es fällt im Herbst« und ‚es wächst im Frühling‘", 3),
        ("‘It doesn’t absorb green’", 1),
        ("「葉は緑色である」", 1),
        ("> A leaf is green.\n> It falls.\n", 1),
        ("> A leaf is:\n>\n> ```\n> green\n>\n> ```\n>\n> all year\n\nand “so it is”", 2),
        ("“two words”, “open for ever\n\nand” closed, it's 5\" or 6\" wide", 0),
        ("> [!NOTE]\n> A leaf is green.\n", 0),
        ("```\n\"a leaf is\"\n> a leaf is green\n```\n`\"a leaf is\"` $\"a b c d\"$", 0),
        ("<a title=\"a b c d\"> [x](y \"a b c d\")", 0),
    ],
)  # fmt: skip
def test_a_quotation_has_three_words_between_marks_or_is_a_block(text: str, quoted: int) -> None:
    assert len(list(quotations_of(text))) == quoted


@pytest.mark.parametrize(
    ("quotation", "found"),
    [
        ("a leaf is green because chlorophyll — a 'pigment' — absorbs red light.", "exact"),
        ("Absorbs  red\nlight. It doesn't absorb green,", "exact"),
        ("It falls in autumn, and it grows in spring", "exact"),
        ("A leaf is green […] It falls in autumn", "exact"),
        ("It falls in autumn\n\nA leaf is green", "exact"),
        ("It falls in autumn … A leaf is green", "near"),
        ("A leaf is blue because chlorophyll absorbs red light", "near"),
        ("It doesn’t really absorb any green light", "no"),
        ("Roots take up water and minerals", "no"),
    ],
)
def test_a_quotation_is_compared_as_it_is_read(quotation: str, found: str) -> None:
    (only,) = verify_quotations(f"> {quotation}".replace("\n", "\n> "), {4: "Nothing.", 7: LEAF})
    assert (only.found, only.source) == (found, 7 if found != "no" else None)
    assert bool(only.words) == (found == "near")


@given(texts(), st.data())
def test_what_is_copied_is_found_where_it_was_copied_from(text: str, data: st.DataObject) -> None:
    lines = [line for line in text.splitlines() if line.strip() and "“" not in line and "”" not in line]
    line = data.draw(st.sampled_from(lines or ["A leaf is green."]))
    for each in verify_quotations(f"> {line}", {1: line}):
        assert each.found == "exact"


@given(texts(), texts())
def test_places_are_those_of_the_text(text: str, source: str) -> None:
    found = verify_quotations(text, {1: source})
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
