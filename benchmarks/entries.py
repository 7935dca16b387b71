"""Books of entries: does the model get the part that answers, where all entries are built alike?

In a recipe book, a catalogue, a manual or minutes, the name of an entry stands in it once, and the part that answers is
under a heading that every entry has. How many of the questions of a kind ("How long does Pavlova bake?") have the whole
answer among the sources for 1,000 and 4,000 tokens, with our defaults; and with pieces of 1,000 characters, 200 of them
overlap, nearest by cosine with the same vectors, which is what anybody does in ten lines. The recipe book is in
``../shared``; the others are made up here, and always the same. ``python -m benchmarks.entries minilm`` takes MiniLM.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from benchmarks.documents import SHARED
from benchmarks.measure import Row, show
from benchmarks.retrieval import BUILTIN, elsewhere, nearest
from lmm import loop
from lmm.config import EmbeddingSettings
from lmm.models.tokens import count_tokens
from lmm.providers import parse_name
from lmm_education import Course
from lmm_education.answer.answer import Found
from lmm_education.answer.answering import Answering
from lmm_education.answer.sources import shown
from lmm_education.encode.encoder import open_embedder
from lmm_education.evaluation.experiments import Variant, scratch_courses
from lmm_education.options import AskOptions
from lmm_education.search.search import CourseSearch

RECIPES = SHARED / "trials" / "documents" / "recipes.md"
BUDGETS = (1_000, 4_000)
SIZE, OVERLAP = 1_000, 200


class Book(NamedTuple):
    """Files by name, and questions with their answers, by kind."""

    name: str
    files: Mapping[str, str]
    questions: Mapping[str, Sequence[tuple[str, str]]]


class Entry(NamedTuple):
    """An entry: its name, the sentence that says it, and its parts by heading."""

    name: str
    said: str
    parts: Mapping[str, str]


def rows(model: str = BUILTIN) -> list[Row]:
    """A row per book and budget."""
    return [row for book in books() for row in measured(book, model)]


def measured(book: Book, model: str) -> list[Row]:
    """How many answers are among the sources, ours and the peer's."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in book.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        given = {"ours": list(ours(book, Path(folder), model)), "peer": list(peer(book, model))}
    found = []
    for at, budget in enumerate(BUDGETS):
        counts = {who: found_by_kind(book, [each[at] for each in texts]) for who, texts in given.items()}
        whole, best = (sum(found for found, _ in counts[who]) for who in ("ours", "peer"))
        total = sum(count for _, count in counts["ours"])
        target = "all" if book.name == "recipe book" else ""
        what = f"answers among the sources, {book.name}, {budget:,} tokens, {model}"
        told = {who: f"{', '.join(str(n) for n, _ in each)} of {each[0][1]}" for who, each in counts.items()}
        met = whole == total if target else None
        found.append(Row(what, f"{SIZE}/{OVERLAP}: {told['peer']}", told["ours"], f"{whole} to {best}", target, met))
    return found


def found_by_kind(book: Book, given: Sequence[str]) -> list[tuple[int, int]]:
    """How many questions of each kind have their answer in the text that is given for each, and how many there are."""
    texts, found = iter(given), []
    for kind in book.questions.values():
        found.append((sum(bare(answer) in bare(next(texts)) for _, answer in kind), len(kind)))
    return found


def bare(text: str) -> str:
    """A text without regard to its white space."""
    return " ".join(text.split())


def ours(book: Book, folder: Path, model: str) -> Iterator[tuple[str, ...]]:
    """What the model is sent for each question and budget, with the defaults."""
    with elsewhere(), Course.open(env={}) as opened, scratch_courses(opened, [folder]) as make:
        search = CourseSearch(make(Variant("", opened.settings, model)))
        for question, _ in asked(book):
            yield tuple(sources_for(search, question, budget) for budget in BUDGETS)


def sources_for(search: CourseSearch, question: str, budget: int) -> str:
    """What the model would be sent of the course."""

    async def found() -> str:
        async with aclosing(Answering(search, AskOptions(context_tokens=budget)).stream(question)) as events:
            async for event in events:
                if isinstance(event, Found):
                    return "\n\n".join(map(shown, event.sources))
        return ""

    return loop.run(found())


def peer(book: Book, model: str) -> Iterator[tuple[str, ...]]:
    """The nearest pieces that fit."""
    texts = [piece for text in book.files.values() for piece in pieces(text)]
    questions = [question for question, _ in asked(book)]
    embed = open_embedder(EmbeddingSettings(parse_name(model))).embed
    for order in nearest(embed, texts, questions):
        yield tuple("\n\n".join(fitting([texts[i] for i in order], budget)) for budget in BUDGETS)


def fitting(texts: Iterable[str], budget: int) -> Iterator[str]:
    """The first texts that fit into so many tokens."""
    for text in texts:
        budget -= count_tokens(text)
        if budget < 0:
            return
        yield text


def pieces(text: str) -> list[str]:
    """A text in pieces of at most `SIZE` characters, cut between paragraphs, else between words, each with the end of
    the one before."""
    found, held = list[str](), list[str]()
    paragraphs = re.findall(r".+?(?:\n\n|\Z)", text, re.DOTALL)
    parts = [[each] if len(each) <= SIZE else re.findall(r"\s*\S+", each) for each in paragraphs]
    for part in (part for each in parts for part in each):
        if sum(map(len, held)) + len(part) > SIZE:
            found.append("".join(held))
            while held and (sum(map(len, held)) > OVERLAP or sum(map(len, held)) + len(part) > SIZE):
                del held[0]
        held.append(part)
    return [*found, "".join(held)]


def asked(book: Book) -> Iterator[tuple[str, str]]:
    """All questions with their answers."""
    return (each for kind in book.questions.values() for each in kind)


# -- books -------------------------------------------------------------------------------------------------


def books() -> Iterator[Book]:
    """The recipe book, as it is and in other forms, and other kinds of books."""
    if RECIPES.is_file():
        recipes = list(read_recipes(RECIPES.read_text(encoding="utf-8")))
        lines = RECIPES.with_name("recipes-questions.jsonl").read_text(encoding="utf-8").splitlines()
        told = [json.loads(line) for line in lines]
        pairs = [(each["question"], each["answer"]) for each in told]
        count = len(recipes)
        questions = {str(at): pairs[at : at + count] for at in range(0, len(pairs), count)}
        yield Book("recipe book", {"recipes.md": RECIPES.read_text(encoding="utf-8")}, questions)
        for name, header in (("the file's name", ""), ("tags", "tags: [baking, {}]\n"), ("the title", "title: {}\n")):
            yield Book(f"a file a recipe, called so in {name}", dict(as_files(recipes, header)), questions)
    yield long_parts()
    yield catalogue()
    yield manual()
    yield minutes()


def read_recipes(text: str) -> Iterator[Entry]:
    """The entries of the recipe book."""
    for entry in re.split(r"^## .*\n", text, flags=re.MULTILINE)[1:]:
        said, *parts = re.split(r"^### (.*)\n", entry, flags=re.MULTILINE)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        yield Entry(said.strip().removeprefix("Name: "), said.strip(), {head: part.strip() for head, part in pairs})


def as_files(entries: Iterable[Entry], header: str) -> Iterator[tuple[str, str]]:
    """A file for each entry, called by its name, or in its header; the entry does not say it."""
    for number, entry in enumerate(entries, 1):
        name = f"note-{number}" if header else entry.name
        head = f"---\n{header.format(entry.name)}---\n\n" if header else ""
        yield f"{name}.md", head + "\n\n".join(f"## {title}\n\n{part}" for title, part in entry.parts.items()) + "\n"


def as_book(name: str, title: str, heading: str, entries: Sequence[Entry], kinds: Mapping[str, str]) -> Book:
    """One file with numbered entries; `kinds` has a question for each heading."""
    parts = [f"# {title}"]
    for number, entry in enumerate(entries, 1):
        parts += [f"## {heading} {number}", entry.said]
        parts += [f"### {head}\n\n{part}" for head, part in entry.parts.items()]
    questions = {
        head: [(question.format(entry.name), answer_in(entry.parts[head])) for entry in entries]
        for head, question in kinds.items()
    }
    return Book(name, {"book.md": "\n\n".join(parts) + "\n"}, questions)


def answer_in(part: str) -> str:
    """What has to be found of a part: all of it, or a sentence in the middle of a long one."""
    sentences = part.split(". ")
    return part if len(part) < SIZE else sentences[len(sentences) // 2]


_FIRST = ("Aurora", "Borealis", "Cascade", "Delphi", "Ember", "Falcon", "Granite", "Horizon", "Indigo", "Juniper")
_LAST = ("", " Plus", " Mini")
_WORDS = re.findall(
    r"\w+",
    "the unit is delivered with a cover and two keys each part can be cleaned under running water please keep this "
    "sheet for later use wait until light turns green before you open it again then press button on its left side "
    "and hold it for some seconds we recommend a dry place away from sun",
)


def names() -> list[str]:
    """Thirty names of things."""
    return [first + last for last in _LAST for first in _FIRST]


def prose(draw: random.Random, characters: int) -> str:
    """Sentences that say nothing of the name of a thing."""
    sentences = list[str]()
    while sum(map(len, sentences)) < characters:
        sentences.append(f"{' '.join(draw.choices(_WORDS, k=12)).capitalize()} {draw.randint(10, 99)}.")
    return " ".join(sentences)


def long_parts() -> Book:
    """Parts of 1,500 characters, so that no entry fits into a chunk."""
    draw = random.Random(1)
    heads = {"Installation": "How do I install the {}?", "Care": "What care does the {} need?",
             "Warranty": "What warranty does the {} have?"}  # fmt: skip
    entries = [Entry(name, f"Name: {name}", {head: prose(draw, 1_400) for head in heads}) for name in names()]
    return as_book("parts of 1,500 characters", "Products", "Product", entries, heads)


def catalogue() -> Book:
    """Products with a table, a price and a text."""
    draw = random.Random(2)
    heads = {"Dimensions": "What are the dimensions of the {}?", "Price": "How much does the {} cost?",
             "Delivery": "How is the {} delivered?"}  # fmt: skip
    entries = [
        Entry(name, f"Sold as the {name} since {draw.randint(1990, 2024)}.", {
            "Dimensions": "| side | cm |\n|---|---|\n" + "\n".join(
                f"| {side} | {draw.randint(10, 300)} |" for side in ("width", "height", "depth")
            ),
            "Price": f"{draw.randint(20, 900)} euros, {draw.randint(10, 19)} of them as a deposit.",
            "Delivery": prose(draw, 500),
        })
        for name in names()
    ]  # fmt: skip
    return as_book("a catalogue", "Catalogue", "Article", entries, heads)


def manual() -> Book:
    """Commands with their options and an example, and a longer description."""
    draw = random.Random(3)
    heads = {"Options": "Which options does {} have?", "Example": "Show an example of {}.",
             "Errors": "Which errors does {} report?"}  # fmt: skip
    entries = [
        Entry(name, f"The command `{name}` works on one file.", {
            "Description": prose(draw, 900),
            "Options": "\n".join(f"- `-{draw.choice('abcdefgh')}{n}`: {prose(draw, 60)}" for n in range(4)),
            "Example": f"```sh\nrun --file data-{draw.randint(100, 999)}.txt --level {draw.randint(1, 99)}\n```",
            "Errors": "\n".join(f"{n}. {prose(draw, 60)}" for n in range(1, 5)),
        })
        for name in (f"{first.lower()}-{verb}" for first in _FIRST for verb in ("pack", "send", "list"))
    ]  # fmt: skip
    return as_book("a manual", "Reference", "Command", entries, heads)


def minutes() -> Book:
    """Ten meetings about a project each, in 1,900 tokens."""
    draw = random.Random(4)
    heads = {
        "Budget": "What was said about the budget of the {} project?",
        "Vote": "How did the vote on the {} project end?",
        "Next steps": "What are the next steps of {}?",
    }
    entries = [
        Entry(name, f"Topic of the day: the {name} project.", {
            "Budget": f"{prose(draw, 150)} The budget is {draw.randint(100, 999)} thousand.",
            "Vote": f"{draw.randint(4, 9)} in favour, {draw.randint(0, 3)} against. {prose(draw, 100)}",
            "Next steps": prose(draw, 200),
        })
        for name in _FIRST
    ]  # fmt: skip
    return as_book("minutes", "Minutes", "Meeting of March", entries, heads)


if __name__ == "__main__":
    show(rows(f"Builtin/{sys.argv[1]}" if sys.argv[1:] else BUILTIN))
