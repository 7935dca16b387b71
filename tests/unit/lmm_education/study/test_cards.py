"""Study cards from metadata."""

from __future__ import annotations

import pytest

from lmm_education.study.cards import Card, cards_as_markdown, study_cards
from lmm_education.study.study_documents import study_document


def cards(text: str, file: str = "a.md") -> list[Card]:
    """The cards of a text."""
    return study_cards([study_document(text, file=file)])


def pairs(block: str, rest: str = "# A\n\nText.\n") -> list[tuple[str, str]]:
    """Questions and answers of a document with a block before its section."""
    return [(card.question, card.answer) for card in cards(f"One.\n\n---\n{block}\n---\n{rest}")]


FORMS = {
    "questions: [Why?, How?]": [("Why?", "Text."), ("How?", "Text.")],
    "~questions_: [Why?]": [("Why?", "Text.")],
    "question: Why?": [("Why?", "Text.")],
    "questions: [Why?, How?]\nanswers: [Because., So.]": [("Why?", "Because."), ("How?", "So.")],
    "question: Why?\nanswer: Because.": [("Why?", "Because.")],
    "questions: [Why?, How?]\nanswers: [Because.]": [("Why?", "Text."), ("How?", "Text.")],
    "cards:\n  - question: Why?\n    answer: Because.\n  - {q: How?, a: 3}": [("Why?", "Because."), ("How?", "3")],
    "cards:\n  Why?: Because.\n  How?: So.": [("Why?", "Because."), ("How?", "So.")],
    "cards:\n  question: Why?\n  answer: Because.": [("Why?", "Because.")],
    "~cards:\n  - {question: Why?, answer: Because.}": [("Why?", "Because.")],
    "cards: nonsense": [],
    "cards:\n  - question: Why?": [],
    "questions: []": [],
    "skip: true\nquestions: [Why?]": [],
}


@pytest.mark.parametrize("block", FORMS)
def test_forms(block: str) -> None:
    """Questions that the text answers, or with answers beside them."""
    assert pairs(block) == FORMS[block]


def test_the_answer_of_a_paragraph_is_the_paragraph() -> None:
    """And of a section its own text, without exercises; else all under it."""
    block = "questions: [Why?]"
    assert pairs(block, "A paragraph.\n\nAnother.\n") == [("Why?", "A paragraph.")]
    exercise = "---\ntype: exercise\n---\nDo it.\n\n"
    assert pairs(block, f"# A\n\nText.\n\n{exercise}More.\n\n## B\n\nb.\n") == [("Why?", "Text.\n\nMore.")]
    assert pairs(block, f"# A\n\n## B\n\nb.\n\n{exercise}### C\n\nc.\n\n# D\n\nd.\n") == [("Why?", "b.\n\nc.")]


def test_a_question_that_the_section_above_repeats_is_one_card() -> None:
    """Its answer is the text of the smaller section."""
    inner = "---\nquestions: [Why?]\n---\n## B\n\nb.\n"
    assert pairs("questions: [Why?, What?]", f"# A\n\na.\n\n{inner}") == [("What?", "a."), ("Why?", "b.")]


def test_ids_stay_when_answers_and_places_change() -> None:
    """A card is known by document and question."""
    first = cards("---\ndocid: x\nquestions: [Why?]\n---\n# A\n\nText.\n", "a.md")
    second = cards("---\ndocid: x\n---\n# New\n\n---\nquestions: ['why? ']\n---\n# B\n\nOther.\n", "b/c.md")
    assert [card.id for card in first] == [card.id for card in second]
    assert first[0].answer != second[0].answer
    assert cards("---\ndocid: y\nquestions: [Why?]\n---\n# A\n\nText.\n")[0].id != first[0].id


def test_an_id_of_its_own_keeps_a_card_through_another_question() -> None:
    """For authors who correct questions."""
    one, two = (cards(f"---\ncards:\n  - {{id: k, q: {q}, a: b}}\n---\nText.\n")[0] for q in ("Why?", "Why so?"))
    assert one.id == two.id
    assert one.question != two.question


def test_equal_questions_have_different_ids() -> None:
    """In one document they are told apart by their order."""
    block = "---\nquestions: [Why?]\n---\n"
    found = cards(f"One.\n\n{block}# A\n\na.\n\n{block}# B\n\nb.\n")
    assert len({card.id for card in found}) == 2


def test_markdown() -> None:
    """By document."""
    text = cards_as_markdown(cards("---\ntitle: T\nquestions: [Why?]\n---\nText.\n"))
    assert text == "# T\n\n## Why?\n\nText.\n"
