"""What the checks of answers catch and what they mark wrongly, in sentences written by hand over real passages.

``python -m benchmarks.checks`` reads ``tests/fixtures/checks``: ``planted.txt`` has errors, ``true.txt`` sentences that
are true in a way that a comparison of words finds hard; the checks were made with them. For those in
``planted-held.txt`` and ``true-held.txt`` nothing was changed until they had been measured. ``-v`` prints what went
wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from benchmarks.documents import SHARED
from lmm_education.answer.verification import mark_of, verify
from lmm_education.material import Lines, Location, Passage

CASES = Path(__file__).parents[1] / "tests/fixtures/checks"
_SQUAD, _RUST, _COURSE = SHARED / "eval/squad/docs", SHARED / "corpus/rust-book", Path(str(files("lmm"))) / "example"
_TYPES, _OWNS, _REFS = "ch03-02-data-types.md", "ch04-01-what-is-ownership.md", "ch04-02-references-and-borrowing.md"
_LINEAR, _GLM = "course/01-linear-models.md", "course/03-generalized.md"
_GERMAN = Path(__file__).parent / "questions/german"
_RC, _THREADS, _MAPS = "ch15-04-rc.md", "ch16-01-threads.md", "ch08-03-hash-maps.md"
PASSAGES = {  # file and beginning of the heading of each source, numbered from 1
    "oxygen": (_SQUAD, [("Oxygen.md", "The common allotrope"), ("Oxygen.md", "Highly concentrated"),
                        ("Oxygen.md", "Oxygen is a chemical"), ("Oxygen.md", "In this dioxygen"),
                        ("Victoria_Australia.md", "The economy")]),
    "rust": (_RUST, [(_TYPES, "Integer Types"), (_TYPES, "Floating"), (_TYPES, "The Character"), (_TYPES, "The Array"),
                     (_OWNS, "What Is Ownership"), (_OWNS, "Stack-Only"), (_OWNS, "Memory and"),
                     ("ch03-01-variables-and-mutability.md", "Variables and"),
                     ("ch03-01-variables-and-mutability.md", "Declaring"), (_REFS, "Mutable Ref"), (_REFS, "Dangling"),
                     (_OWNS, "Ownership Rules")]),
    "stats": (_COURSE, [(_LINEAR, "What a linear"), (_LINEAR, "Least squares"), (_LINEAR, "How well"),
                        (_LINEAR, "A worked"), (_LINEAR, "Confounding"), (_LINEAR, "Categorical"),
                        (_LINEAR, "The matrix"), (_LINEAR, "Linear models")]),
    "cities": (_SQUAD, [("Jacksonville_Florida.md", "Much of"), ("Super_Bowl_50.md", "There would"),
                        ("Immune_system.md", "Immunodeficiencies"), ("Immune_system.md", "When suffering")]),
    "pharmacy": (_SQUAD, [("Pharmacy.md", heading) for heading in
                          ("Of particular", "In some rural", "The clinical", "In Europe")]),
    "tesla": (_SQUAD, [("Nikola_Tesla.md", heading) for heading in
                       ("In 1898", "While experimenting", "Tesla later", "Near the end", "In 1952")]),
    "memory": (_RUST, [(_RC, "`Rc<T>`"), (_RC, "Sharing"), (_RC, "Cloning"),
                       ("ch14-01-release-profiles.md", "Customizing"), (_THREADS, "Using Threads"),
                       (_THREADS, "Creating a New"), ("ch16-02-message-passing.md", "Transfer Data"),
                       (_MAPS, "Storing Keys"), (_MAPS, "Creating a New"), (_MAPS, "Accessing")]),
    "statistik": (_GERMAN, [("02-lage-und-streuung.md", "Varianz"), ("02-lage-und-streuung.md", "Median"),
                            *(("05-schaetzen-und-testen.md", heading) for heading in
                              ("Standardfehler", "Konfidenz", "Hypothesen", "Fehler", "Mehrfaches")),
                            ("07-versuche-und-umfragen.md", "Geschichtete")]),
    "glm": (_COURSE, [(_GLM, heading) for heading in
                      ("Why", "Maximum", "Odds", "Example:", "Rates", "Overdispersion", "Comparing", "Poisson",
                       "The three")]),
    "law": (_SQUAD, [("European_Union_law.md", heading) for heading in
                     ("The European Commission", "While the", "The concept", "European Union law is", "The Social")]),
    "nature": (_SQUAD, [("Victoria_Australia.md", "Victoria abbr"), ("Victoria_Australia.md", "Victorian schools"),
                        ("Jacksonville_Florida.md", "Like much"), ("Black_Death.md", "Gasquet")]),
    "vectors": (_RUST, [("ch08-01-vectors.md", "Creating"), ("ch08-01-vectors.md", "Reading"), (_MAPS, "Adding"),
                        (_MAPS, "Overwriting"), (_MAPS, "Updating a Value"), (_MAPS, "Managing"),
                        (_MAPS, "Updating a Hash"), (_MAPS, "Hashing"), ("ch08-02-strings.md", "Defining")]),
    "zufall": (_GERMAN, [*(("03-wahrscheinlichkeit.md", heading) for heading in
                           ("Satz von Bayes", "Rechenregeln", "Unabh")),
                         ("06-zusammenhang-und-regression.md", "Lineare"),
                         ("06-zusammenhang-und-regression.md", "Ursache"), ("08-diagramme.md", "Achsen"),
                         ("01-daten-und-merkmale.md", "Skalen"), ("01-daten-und-merkmale.md", "Fehlende"),
                         ("03-wahrscheinlichkeit.md", "Zufallsexp"), ("03-wahrscheinlichkeit.md", "Gesetz")]),
}  # fmt: skip


def passages(name: str) -> list[Passage]:
    """The sources of a group of sentences."""
    folder, places = PASSAGES[name]
    return [_passage(folder / file, heading, number) for number, (file, heading) in enumerate(places, 1)]


def _passage(file: Path, heading: str, number: int) -> Passage:
    parts = re.split(r"^(?=#+ )", file.read_text("utf-8"), flags=re.MULTILINE)
    title, _, text = next(part for part in parts if part.lstrip("# ").startswith(heading)).partition("\n")
    text = re.sub(r"^---\n.*?^---\n", "", text, flags=re.MULTILINE | re.DOTALL)
    place = Location(file.name, file.name, Lines(1, 2), (title.strip("# "),))
    language = "de" if file.is_relative_to(_GERMAN) else "en"
    return Passage(f"{file.name}#{heading}", place, text.strip(), number=number, language=language)


def cases(name: str) -> Iterator[tuple[str, str, str]]:
    """Iterate over the group, kind and text of the sentences in a file."""
    group = ""
    for line in (CASES / name).read_text("utf-8").splitlines():
        if line.startswith("## "):
            group = line[3:]
        else:
            kind, _, text = line.partition(": ")
            yield group, kind, text.replace("\\n", "\n")


def failing(name: str) -> dict[str, list[tuple[str, list[str]]]]:
    """The sentences of a file by kind, each with its marks."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    shown = {group: passages(group) for group in PASSAGES}
    for group, kind, text in cases(name):
        found.setdefault(kind, []).append((text, [str(mark_of(each)) for each in verify(text, shown[group]).failures]))
    return found


def main() -> None:
    """Print how many sentences of each kind are marked."""
    for name, wrong in (
        ("planted.txt", False),
        ("true.txt", True),
        ("planted-held.txt", False),
        ("true-held.txt", True),
    ):
        found = failing(name)
        for kind, rows in found.items():
            sys.stdout.write(f"{name:<18}{kind:<10}{sum(bool(marks) for _, marks in rows):>4} of {len(rows)} marked\n")
            for text, marks in rows:
                if "-v" in sys.argv and (bool(marks) == wrong or "-vv" in sys.argv):
                    sys.stdout.write(f"    {text!r}\n        {marks}\n")
        every = [marks for rows in found.values() for _, marks in rows]
        sys.stdout.write(f"{name:<18}{'all':<10}{sum(map(bool, every)):>4} of {len(every)} marked\n\n")


if __name__ == "__main__":
    main()
