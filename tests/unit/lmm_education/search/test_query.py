"""Marks in questions, names of documents, conditions."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from lmm_education.catalogue import StoredName
from lmm_education.errors import SearchError
from lmm_education.search.query import (
    conditions,
    named_documents,
    read_question,
    read_where,
)


class Read(NamedTuple):
    """What is read in a question."""

    text: str
    types: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


TYPES = ("text", "exercise", "study topic")
DOCUMENTS = (
    StoredName("w3", "notes/week 3.md"),
    StoredName("w4", "notes/week-4.Rmd"),
    StoredName("old-4", "old/week-4.md"),
)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("*exercise* on loops", Read("on loops", ("exercise",))),
        ("loops *EXERCISE*", Read("loops", ("exercise",))),
        ("an *exercise*, please", Read("an, please", ("exercise",))),
        ("*exercise* *exercise* loops *study topic*", Read("loops", ("exercise", "study topic"))),
        ("**exercise** on 2*exercise*3", Read("**exercise** on 2*exercise*3")),
        ("a * b *exercise* c", Read("a * b c", ("exercise",))),
        ("* exercise * loops", Read("* exercise * loops")),
        ("loops in @week-4?", Read("loops in?", (), ("w4", "old-4"))),
        ("loops in @week-4.Rmd.", Read("loops in.", (), ("w4",))),
        ('@"week 3" loops', Read("loops", (), ("w3",))),
        ("(@w3) loops", Read("() loops", (), ("w3",))),
        ("me@w3 loops", Read("me@w3 loops")),
        (
            "@week-5 loops",
            Read("@week-5 loops", notices=("no document is named 'week-5'; did you mean '@week-4'?",)),
        ),
        (
            "@nosuch loops",
            Read("@nosuch loops", notices=("no document is named 'nosuch'; it was searched as a word",)),
        ),
        (
            "*exercize* loops",
            Read(
                "*exercize* loops", notices=("there is no material of the type 'exercize'; did you mean '*exercise*'?",)
            ),
        ),
        ("@w3", Read("", (), ("w3",))),
    ],
)
def test_marks_are_read_and_taken_out(question: str, asked: Read) -> None:
    """Those that name something in the store; everything else stays as it was typed."""
    found = read_question(question, TYPES, DOCUMENTS)
    assert (found.text, found.types, found.documents, found.notices) == asked


def test_a_document_is_named_by_id_file_or_file_name() -> None:
    """And a name may mean several."""
    assert named_documents(["WEEK-4", "w4"], DOCUMENTS) == ("w4", "old-4")
    with pytest.raises(SearchError, match="week 3"):
        named_documents(["week_3"], DOCUMENTS)
    with pytest.raises(SearchError, match="the store is empty"):
        named_documents(["w"], ())


def test_conditions_of_one_key_are_alternatives() -> None:
    """Types, documents, metadata; values as YAML may have read them."""
    where = conditions(["exercise"], ["w3"], {"week": ["3"], "done": ["true"], "lang": ["de"], "metadata.a b": ["x"]})
    assert [(m.key, m.values) for m in where] == [
        ("type", ("exercise",)),
        ("document", ("w3",)),
        ("metadata.week", ("3", 3)),
        ("metadata.done", ("true", True)),
        ("language", ("de",)),
        ("metadata.a b", ("x",)),
    ]


def test_conditions_are_key_and_value() -> None:
    """The value may contain an equals sign; without one there is no condition."""
    assert read_where(["a=b=c", "a= d "]) == {"a": ["b=c", "d"]}
    for wrong in ("topic", "=x"):
        with pytest.raises(SearchError, match="key=value"):
            read_where([wrong])
