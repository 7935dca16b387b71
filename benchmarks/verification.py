"""How often sentences that are true to their source pass, and how often altered ones are caught: by kind and corpus.

``python -m benchmarks.verification [SENTENCES]`` takes so many sentences of each corpus in ``../shared`` as answers
that cite their section: as they are, in a quotation, and reworded as models do it; then with another number, with a
negation more or less, with another name, and cited from a section that says something else; and quotations with other
words. ``-v`` prints the true ones that fail.
"""

from __future__ import annotations

import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.documents import SHARED
from lmm.markdown import prose_of
from lmm.markdown.sentences import sentences_of
from lmm_education.answer.verification import verify
from lmm_education.material import Lines, Location, Passage

CORPORA = {"SQuAD": "eval/squad/docs", "Rust book": "corpus/rust-book", "Kubernetes": "corpus/k8s-community"}
_SENTENCES = 500
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-z]{3,})\b")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?![\w.,]\d)")
_VERB = re.compile(r"\b(is|are|was|were|can|will|has been|have been|could|should)\b(?! not)")
_NOT = re.compile(r" not\b|n't\b")


def passages(folder: Path) -> list[Passage]:
    """The sections of a folder's documents, each a source."""
    found = []
    for file in sorted(folder.rglob("*.md")):
        for part in re.split(r"^(?=#)", file.read_text("utf-8"), flags=re.MULTILINE):
            title, _, text = part.partition("\n") if part.startswith("#") else ("", "", part)
            if len(text) > 200:
                place = Location(file.name, file.name, Lines(1, 2), (title.strip("# "),))
                found.append(Passage(file.name, place, text, number=1, language="en"))
    return found


def claims(passage: Passage) -> list[str]:
    """Sentences of a source that an answer may repeat."""
    paragraphs = prose_of(passage.text).split("\n\n")
    return [
        sentence.strip()
        for paragraph in paragraphs
        if not paragraph.lstrip().startswith(("#", "|", "-", "*", ">", "<", ":", "{", "`", "    "))
        for sentence in sentences_of(paragraph)
        if 40 < len(sentence) < 400 and sentence.rstrip().endswith(".") and '"' not in sentence and "”" not in sentence
    ]


def true(sentence: str) -> Iterator[tuple[str, str]]:
    """The sentence as an answer may have it."""
    yield "copied", f"{sentence[:-1]} [1]."
    yield "quoted", f"It says: “{sentence}” [1]"
    yield "quoted from", f'It says "{" ".join(sentence.split()[2:-2])}" [1].'
    begin = sentence if re.match(r"I\b|[A-Z]{2}", sentence) else sentence[0].lower() + sentence[1:]
    yield "introduced", f"According to the course, {begin[:-1]} [1]."
    reworded = sentence
    changes = {" is not ": " isn't ", " do not ": " don't ", " cannot ": " can't ", " percent": " %", " very ": " ",
               " also ": " ", " however, ": " ", " for example": " for instance", " because ": " since "}  # fmt: skip
    for old, new in changes.items():
        reworded = reworded.replace(old, new)
    reworded = re.sub(r"(?<=\d),(?=\d{3}\b)", "", re.sub(r" \([^()]*\)", "", reworded))
    yield "reworded", f"{reworded[:-1]} [1]."
    yield "first half", f"{' '.join(sentence.split()[: len(sentence.split()) * 2 // 3])} [1]."


def altered(sentence: str, other: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """The sentence with something in it that its source does not say; `other` is another source's."""
    if numbers := list(_NUMBER.finditer(sentence)):
        match = chance.choice(numbers)
        changed = str(int(match[0].replace(",", "")) + chance.choice([1, 2, 3, 10]))
        yield "another number", f"{sentence[: match.start()]}{changed}{sentence[match.end() : -1]} [1]."
    if _NOT.search(sentence) and "cannot" not in sentence:
        yield "negation left out", f"{_NOT.sub('', sentence, count=1)[:-1]} [1]."
    elif _VERB.search(sentence):
        yield "negation added", _VERB.sub(r"\1 not", sentence, count=1)[:-1] + " [1]."
    names, others = list(_NAME.finditer(sentence)), _NAME.findall(other)
    others = [name for name in others if name not in sentence]
    if names and others:
        match = chance.choice(names)
        yield "another name", f"{sentence[: match.start()]}{chance.choice(others)}{sentence[match.end() : -1]} [1]."
    yield "another source", f"{other[:-1]} [1]."
    yield "invented quotation", f"It says “{other}” [1]"
    words = sentence.split()
    at = chance.randrange(1, len(words) - 1)
    yield "altered quotation", f"It says “{' '.join([*words[:at], 'surely', *words[at + 1 :]])}” [1]"


Failures = dict[tuple[str, str], list[bool]]


def measured(sources: list[Passage], count: int, *, verbose: bool = False) -> Failures:
    """Which answers fail, of `count` sentences, by kind."""
    chance, failed = random.Random(1), defaultdict[tuple[str, str], list[bool]](list)
    while count:
        source, another = chance.sample(sources, 2)
        others = [claim for claim in claims(another) if claim not in source.text]
        if not others or not (sentences := claims(source)):
            continue
        sentence, count = chance.choice(sentences), count - 1
        cases = [("true", *each) for each in true(sentence)]
        cases += [("altered", *each) for each in altered(sentence, chance.choice(others), chance)]
        for truth, kind, answer in cases:
            failures = verify(answer, [source]).failures
            failed[truth, kind].append(bool(failures))
            if verbose and truth == "true" and failures:
                sys.stdout.write(f"{kind}: {answer}\n   {failures}\n")
    return failed


def main(count: int = _SENTENCES) -> None:
    """Print a row for each kind of answer: how many of how many fail, by corpus."""
    rows = [measured(passages(SHARED / folder), count, verbose="-v" in sys.argv) for folder in CORPORA.values()]
    for kind in rows[0]:
        figures = "".join(f"{sum(row[kind]):>7} of {len(row[kind]):<5}" for row in rows)
        every = [each for row in rows for each in row[kind]]
        sys.stdout.write(f"{kind[0]:<8}{kind[1]:<20}{figures}{100 * sum(every) / len(every):6.1f} % fail\n")


if __name__ == "__main__":
    main(*map(int, [each for each in sys.argv[1:] if each.isdigit()]))
