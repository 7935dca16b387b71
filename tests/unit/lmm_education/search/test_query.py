"""Marks in questions, names of documents, conditions."""

from __future__ import annotations

import pytest

from lmm_education.catalogue import StoredName
from lmm_education.errors import SearchError
from lmm_education.search.query import (
    ReadQuestion,
    conditions,
    has_marks,
    named_documents,
    read_question,
    read_where,
)

TYPES = ("text", "exercise", "study topic")
DOCUMENTS = (
    StoredName("w3", "notes/week 3.md"),
    StoredName("w4", "notes/week-4.Rmd"),
    StoredName("old-4", "old/week-4.md"),
)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("*exercise* on loops", ReadQuestion("on loops", ("exercise",))),
        ("loops *EXERCISE*", ReadQuestion("loops", ("exercise",))),
        ("an *exercise*, please", ReadQuestion("an, please", ("exercise",))),
        ("*exercise* *exercise* loops *study topic*", ReadQuestion("loops", ("exercise", "study topic"))),
        ("**exercise** on 2*exercise*3", ReadQuestion("**exercise** on 2*exercise*3")),
        ("a * b *exercise* c", ReadQuestion("a * b c", ("exercise",))),
        ("* exercise * loops", ReadQuestion("* exercise * loops")),
        ("loops in @week-4?", ReadQuestion("loops in?", (), ("w4", "old-4"))),
        ("loops in @week-4.Rmd.", ReadQuestion("loops in.", (), ("w4",))),
        ('@"week 3" loops', ReadQuestion("loops", (), ("w3",))),
        ("(@w3) loops", ReadQuestion("() loops", (), ("w3",))),
        ("me@w3 loops", ReadQuestion("me@w3 loops")),
        (
            "@week-5 loops",
            ReadQuestion("@week-5 loops", notices=("no document is named 'week-5'; did you mean '@week-4'?",)),
        ),
        (
            "@nosuch loops",
            ReadQuestion("@nosuch loops", notices=("no document is named 'nosuch'; it was searched as a word",)),
        ),
        (
            "*exercize* loops",
            ReadQuestion(
                "*exercize* loops", notices=("there is no material of the type 'exercize'; did you mean '*exercise*'?",)
            ),
        ),
        ("@w3", ReadQuestion("", (), ("w3",))),
    ],
)
def test_marks_are_read_and_taken_out(question: str, asked: ReadQuestion) -> None:
    """Those that name something in the store; everything else stays as it was typed."""
    assert read_question(question, TYPES, DOCUMENTS) == asked


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


def test_most_questions_have_no_marks() -> None:
    """Then no names are read from the store."""
    assert not has_marks("Why is 2 * 3 = 6, and is a@b.org right?")
    assert has_marks("@w3 why?")
