"""What is quoted is looked for in the file that is named behind it."""

from __future__ import annotations

import pytest

from lmm import Document
from lmm.errors import FileReadError
from lmm.markdown import parse_markdown_text
from lmm.notebook.quoted_sources import misquotations, quotation_problems
from lmm.testing import ScriptedModel

FILES = {"leaf.md": "# Leaves\n\nA leaf is *green* all year.\n"}


def read(name: str) -> str:
    """One of `FILES`."""
    if name not in FILES:
        raise FileReadError("no such file", where=name)
    return FILES[name]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("“A leaf is green” ([leaf](leaf.md)), see leaf.md:3.", []),
        ("“A leaf is blue all year” ([leaf](leaf.md#leaves)).", ["leaf.md does not say “A leaf is blue all year”"]),
        ("Well.\n\n> A leaf is blue all year\n> — leaf.md:3\n", ["leaf.md does not say “A leaf is blue all year”"]),
        ("“A leaf is green” (leaf.md:1), “a leaf is green” (leaf.md:2-4).",
         ["“A leaf is green” is not on line 1 of leaf.md"]),
        ("As leaf.md:9 has it; but not at 10:30, on a.example:80 or https://a.org/leaf.md:9.",
         ["leaf.md has no line 9"]),
        ("“A leaf is blue” ([leaf](tree.md)).", ["the quotation cannot be compared with tree.md: no such file"]),
        ("“A leaf is blue”, [they say](https://a.org/leaf.md).", []),
        ("---\n~chat_:\n- query: why\n  ~reply: It is “blue all the year” (leaf.md:3).\n---\nText.\n",
         ["leaf.md does not say “blue all the year”"]),
    ],
)  # fmt: skip
def test_a_quotation_that_its_source_does_not_hold_is_a_warning(text: str, messages: list[str]) -> None:
    found = quotation_problems(parse_markdown_text(text), read)
    assert [problem.message for problem in found] == messages
    assert {problem.severity for problem in found} <= {"warning"}


@pytest.mark.parametrize(
    ("reply", "misquoted"),
    [
        ("You write “a leaf is blue all year”, which is wrong.", 1),
        ("You write “A leaf is green”, which is right.", 0),
        ("Better: “a leaf is blue all year”.", 0),
        ("Im Text steht: „a leaf is blue“. In your draft, “trees are always tall” stands.", 2),
    ],
)
def test_a_reply_that_quotes_the_author_is_compared_with_what_was_shown(reply: str, misquoted: int) -> None:
    assert len(misquotations(reply, list(FILES.values()))) == misquoted


def test_the_author_is_told_of_a_misquotation() -> None:
    """While a reply arrives in its document; the reply stays as it is."""
    told: list[str] = []
    text = "---\n?: is it right?\n---\nA leaf is green all year.\n"
    listener = lambda event, place: told.append(str(getattr(event, "text", "")))  # noqa: E731
    document = Document.from_text(text, listener=listener)
    document.answer(model=ScriptedModel(["Your text says “a leaf is blue all year”."]))
    assert "the reply quotes “a leaf is blue all year”: the text has “A leaf is green all year”" in told
    assert "a leaf is blue" in document.text
