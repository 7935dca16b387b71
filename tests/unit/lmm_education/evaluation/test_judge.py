"""The rule by which retrieval is judged: properties that no way of cutting documents can get around."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lmm_education.evaluation.judge import (
    ENOUGH,
    PAGE,
    Expected,
    Level,
    contains,
    enough,
    find_ranks,
    find_targets,
    shown,
    words,
)
from lmm_education.evaluation.questions import Question
from lmm_education.material import Lines, Location, Passage

# Distinct words, so that no run of words of one text occurs in another.
VOCABULARY = tuple(f"w{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz")


def text(content: str, *, document: str = "d", headings: tuple[str, ...] = ("H",), title: str = "T") -> Passage:
    """A text of a store."""
    return Passage("", Location(document, f"{document}.md", Lines(1, 1), headings), content, title=title)


def ranks(question: Question, store: list[Passage], found: list[Passage]) -> dict[Level, int | None]:
    """Where the answer was found."""
    (target,), _ = find_targets([question], store)
    return find_ranks(target, found)


def cut(content: tuple[str, ...], size: int) -> list[Passage]:
    """Words as chunks of `size` words."""
    return [text(" ".join(content[i : i + size])) for i in range(0, len(content), size)]


passages = st.integers(12, 200).map(lambda n: VOCABULARY[:n])


@given(passages, st.integers(0, 100), st.integers(0, 100))
def test_a_chunk_that_contains_the_passage_finds_it(passage: tuple[str, ...], before: int, after: int) -> None:
    content = VOCABULARY[300 : 300 + before] + passage + VOCABULARY[450 : 450 + after]
    chunk = text("*" + " ".join(content[:5]) + "*\n\n" + " ".join(content[5:]))
    other = text(" ".join(VOCABULARY[250:290]))
    if len(chunk.text) <= PAGE:
        question = Question("?", document="d", passages=(" ".join(passage),))
        assert ranks(question, [chunk, other], [other, chunk])["passage"] == 2


@given(passages, st.integers(5, 60))
def test_parts_of_a_passage_add_up_and_are_found_when_half_is_shown(passage: tuple[str, ...], size: int) -> None:
    chunks = cut(passage, size)
    question = Question("?", document="d", passages=(" ".join(passage),))
    rank = ranks(question, chunks, chunks)["passage"]
    needed = enough(passage)
    whole = next(i for i in range(1, len(chunks) + 1) if min(i * size, len(passage)) >= needed)
    # A remainder shorter than a run of words cannot be recognised, so it may take one chunk more.
    assert rank is None or whole <= rank <= whole + 1
    assert rank is not None or len(passage) - size * (len(passage) // size) < 5


@given(passages, st.integers(1, 5))
def test_showing_the_same_words_again_brings_nothing(passage: tuple[str, ...], times: int) -> None:
    third = text(" ".join(passage[: len(passage) // 3]))
    question = Question("?", document="d", passages=(" ".join(passage),))
    store = [text(" ".join(passage))]
    found = ranks(question, store, [third] * times)["passage"]
    assert (found is None) == (len(passage) // 3 < enough(passage))


@given(st.integers(0, 5), passages)
def test_a_long_text_takes_a_rank_for_every_page(number: int, passage: tuple[str, ...]) -> None:
    filler = "x" * (PAGE - 1) + "\n"
    chunk = text(filler * number + " ".join(passage[:40]))
    question = Question("?", document="d", passages=(" ".join(passage[:40]),))
    assert ranks(question, [chunk], [chunk])["passage"] == number + 1


def test_of_a_very_long_passage_half_a_page_is_enough() -> None:
    passage = VOCABULARY[:600]
    assert enough(passage) == ENOUGH
    chunks = cut(passage, 160)
    assert ranks(Question("?", passages=(" ".join(passage),)), chunks, chunks[2:])["passage"] == 1


def test_the_passage_of_another_document_does_not_count() -> None:
    passage = " ".join(VOCABULARY[:20])
    here, there = text(passage), text(passage, document="e")
    question = Question("?", document="d.md", passages=(passage,))
    assert ranks(question, [here, there], [there, here]) == {"passage": 2, "section": 2, "document": 2}


def test_markup_case_and_line_breaks_do_not_count() -> None:
    passage = "The `String` type, defined in **Chapter 4**, is growable."
    chunk = text("the [String](ch04.html) type,\ndefined in <b>chapter</b> 4, is *growable*")
    assert ranks(Question("?", passages=(passage,)), [chunk], [chunk])["passage"] == 1


def test_an_answer_counts_within_the_named_section_only() -> None:
    store = [
        text("In 1984 it began.", headings=("Start",)),
        text("It was 19840 or 1984.", headings=("End", "Last")),
    ]
    question = Question("When?", document="T", section=("End",), answers=("1984",))
    assert ranks(question, store, store) == {"passage": 2, "section": 2, "document": 1}


def test_sections_are_ranked_as_sections() -> None:
    store = [text(f"{VOCABULARY[i]} " * 3, headings=("A",)) for i in range(4)]
    right = text(" ".join(VOCABULARY[50:70]), headings=("B",))
    question = Question("?", document="d", passages=(right.text,))
    assert ranks(question, [*store, right], [*store, right]) == {"passage": 5, "section": 2, "document": 1}


def test_levels_depend_on_what_the_question_says_alone() -> None:
    assert Expected(Question("?", document="d")).levels == ("document",)
    assert Expected(Question("?", section=("A",))).levels == ("section",)
    lost = Question("?", document="d", passages=("not in the store, whatever is looked for there",))
    (target,), missing = find_targets([lost], [text("something else")])
    assert target.levels == ("passage", "section", "document")
    assert missing == [(lost, "the passage is not in the store")]
    assert find_ranks(target, [text("something else")]) == {"passage": None, "section": None, "document": 1}


def test_what_the_store_lacks_is_told() -> None:
    store = [text("Leaves are green.")]
    questions = [
        Question("1", document="x.md"),
        Question("2", document="d", section=("Roots",)),
        Question("3", document="d", answers=("red",)),
        Question("4", document="d", section=("H",), answers=("green",)),
        Question("5", unanswerable=True),
    ]
    targets, missing = find_targets(questions, store)
    assert len(targets) == 4
    assert [problem for _, problem in missing] == [
        "there is no document 'x.md' in the store",
        "there is no section 'Roots' in the store",
        "none of the answers is in the store",
    ]


@given(st.text(), st.text())
def test_what_is_shown_lies_in_both_texts(a: str, b: str) -> None:
    passage, content = words(a), words(b)
    assert all(passage[i] in content for i in shown(passage, content))
    assert shown(passage, passage) == frozenset(range(len(passage)))
    assert not contains(content, ()) or not content
