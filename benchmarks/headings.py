"""Is the section found that a student names, bare and in an instruction? How often it comes first, by book and form.

``questions/headings.jsonl`` has twenty headings of each book, drawn at random from those that occur once and have text
of their own; ``questions/instructions.toml`` what a student has done about them. Each heading is asked once bare,
once in a form whose words of instruction are in ``lmm_education/search/words``, and once in one that was kept apart;
``--all`` asks each in every form. *The Rust Programming Language* and the German chapters are at hand; other books are
taken from the folders of a folder: ``python -m benchmarks.headings FOLDER``, of github.com/hadley/adv-r and r4ds.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import lmm_education
from benchmarks.documents import SHARED
from benchmarks.measure import Row, show
from benchmarks.retrieval import QUESTIONS, elsewhere, models
from lmm_education.evaluation.experiments import Variant, scratch_courses
from lmm_education.search.search import CourseSearch

AT_HAND = {"rust-book": SHARED / "corpus" / "rust-book", "german": QUESTIONS / "german"}
AIMS = {"bare": 58 / 60, "tuned": 57 / 60, "held_out": 52 / 60}


class Heading(NamedTuple):
    """A heading to ask for, and where its section is."""

    text: str
    document: str
    path: tuple[str, ...]


class Asked(NamedTuple):
    """A question, and the section that came first instead of its own; empty where its own did."""

    kind: str
    question: str
    instead: str


def headings() -> dict[str, list[Heading]]:
    """Those of each book."""
    found: dict[str, list[Heading]] = {}
    for line in (QUESTIONS / "headings.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["book"], []).append(Heading(row["question"], row["document"], tuple(row["section"])))
    return found


def forms() -> dict[str, dict[str, list[str]]]:
    """What is done about a heading, by language and kind."""
    return tomllib.loads((QUESTIONS / "instructions.toml").read_text(encoding="utf-8"))


def questions(
    book: Sequence[Heading], language: Mapping[str, Sequence[str]], *, every: bool
) -> Iterator[tuple[str, str, Heading]]:
    """The kind of each question, its text, and what it asks for."""
    for number, heading in enumerate(book):
        yield "bare", heading.text, heading
        for kind, templates in language.items():
            for form in templates if every else [templates[number % len(templates)]]:
                yield kind, form.replace("{}", heading.text), heading


def asked(name: str, folder: Path, model: str, *, every: bool) -> list[Asked]:
    """What comes first for the questions about a book."""
    language = forms()["de" if name == "german" else "en"]
    with elsewhere(), lmm_education.Course.open(env={}) as opened, scratch_courses(opened, [folder]) as make:
        search = CourseSearch(make(Variant("", opened.settings, model))).search
        return [
            Asked(kind, text, first_instead(search(text).sections, heading))
            for kind, text, heading in questions(headings()[name], language, every=every)
        ]


def first_instead(sections: Sequence[lmm_education.material.Passage], heading: Heading) -> str:
    """The first of the sections found, where it is not the heading's own."""
    if not sections:
        return "nothing"
    place = sections[0].place
    own = Path(place.file).name == heading.document and place.headings == heading.path
    return "" if own else " > ".join((place.file, *place.headings))


def rows(folder: Path | None = None, *, every: bool = False, failures: bool = False) -> Iterator[Row]:
    """For each model, and kind of question, how often the named section came first."""
    books = AT_HAND | ({name: folder / name for name in headings() if name not in AT_HAND} if folder else {})
    for model in models():
        found = {n: asked(n, path, model, every=every) for n, path in books.items() if path.is_dir()}
        for kind, aim in AIMS.items():
            each = {name: [one for one in answers if one.kind == kind] for name, answers in found.items()}
            right = {name: sum(not one.instead for one in ones) for name, ones in each.items()}
            total = sum(map(len, each.values()))
            share = sum(right.values()) / total
            told = ", ".join(f"{name} {right[name]}/{len(ones)}" for name, ones in each.items())
            yield Row(
                f"named section first, {kind}, {model}",
                told,
                f"{sum(right.values())}/{total}",
                "",
                f"≥ {100 * aim:.0f} %",
                share >= aim,
            )
            if failures:
                for one in (one for ones in each.values() for one in ones if one.instead):
                    print(f"{kind}\t{one.question}\t{one.instead}")


def main(given: Sequence[str]) -> None:
    """Measure, with the books of a folder if one is named."""
    folders = [Path(word) for word in given if not word.startswith("--")]
    show(list(rows(folders[0] if folders else None, every="--all" in given, failures="--failures" in given)))


if __name__ == "__main__":
    main(sys.argv[1:])
