"""A question about an entry gets the part that answers it, where all entries are alike and say their name once."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from fakes.courses import Course
from memory import temporary_folder

import lmm_education
from lmm.models.tokens import count_tokens
from lmm.testing import ScriptedModel
from lmm_education.answer.answer import AnswerEvent, Found, Prompted
from lmm_education.answer.sources import shown
from lmm_education.errors import SearchError
from lmm_education.material import Passage

NAMES = ("Pavlova", "Lemon Tart", "Tiramisu", "Baklava", "Brownies", "Madeleines", "Scones", "Focaccia", "Strudel")


def parts_of(name: str, size: int = 0) -> dict[str, str]:
    """The parts of a recipe: like those of all others; with `size`, they have so many characters more."""
    draw = random.Random(name)
    things = ("flour", "butter", "sugar", "honey", "almonds", "ricotta", "cocoa", "eggs")
    more = "".join(f"\n* a {word} of salt" for word in draw.choices(("pinch", "spoon", "cup"), k=size // 18))
    return {
        "Ingredients": "\n".join(f"* {draw.randint(1, 300)} g {thing}" for thing in draw.sample(things, 5)) + more,
        "Instructions": f"1. Whisk everything until pale.\n2. Bake for {draw.randint(10, 99)} minutes until golden."
        + more,
    }


def recipe(said: str, parts: Mapping[str, str], level: int = 2) -> str:
    """An entry of a book, or a note."""
    head = "#" * level
    return f"{said}\n\n" + "\n\n".join(f"{head} {title}\n\n{part}" for title, part in parts.items()) + "\n\n"


@contextmanager
def asked(
    files: Mapping[str, str], model: str | ScriptedModel = "Builtin/extractive"
) -> Iterator[lmm_education.Course]:
    """A course of these files."""
    with temporary_folder() as folder:
        course = Course(folder)
        for name, text in files.items():
            course.write(name, text)
        course.config.write_text('[embedding]\nmodel = "Builtin/wordllama"\n')
        with lmm_education.Course.open(config=course.config, model=model) as opened:
            assert not opened.ingest(folder).failed
            yield opened


def sources(course: lmm_education.Course, question: str, tokens: int = 400) -> Sequence[Passage]:
    """What the model is shown."""
    events = list[AnswerEvent]()
    course.ask(question, context_tokens=tokens, listener=events.append)
    return next((event.sources for event in events if isinstance(event, Found)), ())


def sent(course: lmm_education.Course, question: str, tokens: int = 400) -> str:
    """The same as text."""
    return "\n".join(map(shown, sources(course, question, tokens)))


QUESTIONS = {"Ingredients": "What are the ingredients of {}?", "Instructions": "How long does {} bake?"}
BOOK = "# Recipes\n\n" + "".join(
    f"## Recipe {number}\n\n{recipe(f'Name: {name}', parts_of(name, 300), 3)}" for number, name in enumerate(NAMES, 1)
)


def notes(header: str) -> dict[str, str]:
    """A file for each recipe, which does not say its name."""
    return {
        f"{name if not header else f'note-{at}'}.md": (f"---\n{header.format(name)}---\n" if header else "")
        + recipe("", parts_of(name, 300)).lstrip()
        for at, name in enumerate(NAMES)
    }


@pytest.mark.parametrize(
    "files",
    [{"book.md": BOOK}, notes(""), notes("tags: [baking, {}]\n"), notes("aliases: {}\n"), notes("title: {}\n")],
    ids=["book", "file", "tags", "aliases", "title"],
)
def test_the_part_that_answers_is_shown(files: dict[str, str]) -> None:
    """The name is in the entry, in the file's name or in the header; the budget holds a few entries."""
    with asked(files) as course:
        for name in NAMES:
            for head, question in QUESTIONS.items():
                assert parts_of(name, 300)[head] in sent(course, question.format(name), 1_000)


def test_an_entrys_own_words_go_with_its_parts() -> None:
    """Where it does not fit into a chunk: they are searched and sent with each part, but for what is withheld."""
    long = {name: parts_of(name, 1_500) for name in NAMES}
    entries = [
        f"## Entry {at}\n\n{recipe(f'Sold as {name} since 1990.', parts, 3)}"
        for at, (name, parts) in enumerate(long.items())
    ]
    secret = "---\ntype: solution\n---\n## Answer\n\nIt is 42.\n\n---\ntype: text\n---\n### Way\n\n" + "Think. " * 300
    with asked({"book.md": "# Catalogue\n\n" + "".join(entries) + secret}) as course:
        for name in NAMES:
            found = sources(course, QUESTIONS["Instructions"].format(name), 1_000)
            assert any(
                each.above == (f"Sold as {name} since 1990.",) and each.text in each.with_above for each in found
            )
        chunks = course.prepare(course.root / "book.md")[0].chunks
        assert {chunk.above for chunk in chunks if chunk.place.headings[-1] == "Way"} == {()}


def test_headings_inside_an_entry_can_be_named() -> None:
    """They are in the contents, and a condition on headings finds what they are in."""
    with asked({"book.md": BOOK}) as course:
        assert [entry.title for entry in course.toc()].count("Ingredients") == len(NAMES)
        for path in ("Recipe 3", "recipe 3 > ingredients", "Recipes > Recipe 3"):
            assert {hit.place.headings for hit in course.search("eggs", where={"headings": path}).hits} == {
                ("Recipes", "Recipe 3")
            }
        with pytest.raises(SearchError, match="no passage is below"):
            course.search("eggs", where={"headings": "Recipe 3 > Recipe 4"})


def test_what_fits_is_sent_whole() -> None:
    """In its order; a course, or the document that holds most of what was found; never what is withheld."""
    long = "# Other\n\n" + "Nothing of it. " * 3_000
    answer = "---\ntype: solution\n---\n## Solution\n\nIt is a secret.\n"
    with asked({"book.md": BOOK + answer}) as course:
        events = list[AnswerEvent]()
        model = ScriptedModel(["baking time", "54 minutes [1]."])
        course.ask("How long does Scones bake?", model=model, listener=events.append)
        (messages,) = (str(event.messages) for event in events if isinstance(event, Prompted))
        places = [messages.index(f"Name: {name}") for name in NAMES]
        assert places == sorted(places)
        found = sources(course, "How long does Scones bake?", 4_000)
        assert [each.number for each in found] == list(range(1, len(found) + 1))
        assert "Scones" in found[0].text
        shown_to_students = sent(course.for_students(), "How long does Scones bake?", 4_000)
        assert "Focaccia" in shown_to_students
        assert "secret" not in shown_to_students
    with asked({"book.md": BOOK, "other.md": long}) as course:
        text = sent(course, "How long does Scones bake?", 5_000)
        assert all(name in text for name in NAMES)
        assert count_tokens(text) <= 5_000


def test_without_a_model_the_list_or_the_sentence_is_quoted() -> None:
    """All ingredients that are asked for and nothing else; of how long it bakes, that sentence."""
    with asked({"book.md": BOOK}) as course:
        parts = parts_of("Tiramisu", 300)
        quoted = course.ask("What are the ingredients of Tiramisu?").text.replace("> ", "")
        assert parts["Ingredients"] in quoted
        assert "Whisk" not in quoted
        quoted = course.ask("How long does Tiramisu bake?").text
        assert parts["Instructions"].splitlines()[1] in quoted
        assert "**Recipe 3**" in quoted


def test_a_document_that_is_named_stays_in_the_sentence_and_binds_the_tools() -> None:
    """The model reads the whole question; and finds nothing of other documents."""
    model = ScriptedModel(["sugar", "It is in all [1]."])
    with asked({"Lemon Tart.md": BOOK, "law.md": "# Tax\n\nSugar is taxed.\n"}, model) as course:
        events = list[AnswerEvent]()
        course.ask('Where is sugar used in @"Lemon Tart"?', listener=events.append)
        (messages,) = (event.messages for event in events if isinstance(event, Prompted))
        assert 'Where is sugar used in @"Lemon Tart"?' in str(messages)
        assert "taxed" not in str(messages)


def test_a_type_is_asked_for_in_words() -> None:
    """As between asterisks."""
    text = "# Joins\n\nA join joins.\n\n# More\n\n---\ntype: proof\n---\nA join is associative.\n"
    with asked({"joins.md": text}) as course:
        for question, types in (("Give me a proof of joins", ("proof",)), ("two proofs about joins", ("proof",)),
                                ("Is a join proof against errors?", ())):  # fmt: skip
            found = course.search(question)
            assert found.types == types
            assert not types or found.hits[0].type == "proof"
