"""Tables of contents."""

from __future__ import annotations

import pytest
from edge.knit_tools import need, pandoc

from lmm_education.ingestion.outline import Heading
from lmm_education.study.study_documents import (
    anchor_of,
    study_document,
    table_of_contents,
    toc_as_markdown,
    toc_as_text,
    toc_as_values,
)

TEXT = "---\ntitle: Botany\n---\n# A\n\nText.\n\n### Deep\n\n---\ntype: exercise\n---\n## A\n\n# C {#c-1 .x}\n"


def test_text() -> None:
    """Lines, titles by level, types other than text."""
    text = toc_as_text(table_of_contents([study_document(TEXT, file="notes/a b.md")]))
    assert text == "notes/a b.md: Botany\n    4  A\n    8      Deep\n   13    A [exercise]\n   15  C\n"


def test_markdown_links_to_sections() -> None:
    """By the anchors of Pandoc's pages, each of them once."""
    text = toc_as_markdown(table_of_contents([study_document(TEXT, file="a b.md")], depth=2))
    assert text == "- [Botany](a%20b.md)\n  - [A](a%20b.md#a)\n    - [A](a%20b.md#a-1)\n  - [C](a%20b.md#c-1)\n"


def test_json_is_a_tree() -> None:
    """A level that is left out does no harm."""
    (document,) = toc_as_values(table_of_contents([study_document(TEXT, file="a.md")]))
    assert [section["title"] for section in document["sections"]] == ["A", "C"]
    assert [section["title"] for section in document["sections"][0]["sections"]] == ["Deep", "A"]
    assert document["sections"][0]["sections"][1]["type"] == "exercise"


TITLES = ["Ünïcode and Ωmega", "What is `R`, really?", "3. A *very* odd_title - yes", "[Link](x.html) here", "1 2 3",
          "C++ & C#", "Tests and p-values", "$R^2$ explained", "Größe: über", "葉"]  # fmt: skip


@pytest.mark.knit
@pytest.mark.parametrize("title", TITLES)
def test_anchors_are_those_of_pandoc(title: str) -> None:
    """For each heading of a page that Pandoc makes."""
    need("pandoc")
    assert f'id="{anchor_of(Heading(title, 1, (), 1))}"' in pandoc(f"# {title}\n", "html").text
