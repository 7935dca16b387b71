"""How well is found what is asked in the text's words, and what a student asks in others: by set and embedding model.

``python -m benchmarks.own_words Builtin/wordllama Builtin/minilm`` measures these models; with ``--fit``, what the
legs weigh (`lmm_education.search.ranking.Shares`) is chosen anew by cross-validation over all sets together. The
documents and the questions in other words are in ``../shared``; without it, nothing is measured. *Mixed* is the
questions in other words and as many of SQuAD's. *With recorded words*: of every other question in other words, with
what ``questions/expansions.tsv`` has for it in place of the aux model's reply. A large language model wrote that, which
had seen the questions and the names of the documents, for the Rust book its table of contents, and none of the
passages; but it knows SQuAD's articles and the book from elsewhere, as large models do, so this is what it can bring
at best. *Without names*: without the words with a capital letter or a digit, which say what one has to know.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from benchmarks.documents import SHARED
from benchmarks.measure import Row, show
from benchmarks.retrieval import QUESTIONS, elsewhere
from lmm import loop
from lmm.messages import ChatEvent, ChatRequest, Reply, Usage, render
from lmm.providers import is_static
from lmm.testing import ScriptedModel
from lmm_education import Course
from lmm_education.answer.answer import Answer
from lmm_education.answer.answering import Answering
from lmm_education.answer.extractive import NOTICE
from lmm_education.evaluation.experiments import Variant, evaluate, read_texts, scratch_courses
from lmm_education.evaluation.judge import Level, contains, find_ranks, find_targets, words
from lmm_education.evaluation.questions import Question, read_questions
from lmm_education.evaluation.results import DEPTH, Difference, MeanEstimate, compare, estimate, measure_ranks
from lmm_education.options import SearchOptions
from lmm_education.parts import CourseParts
from lmm_education.search import ranking
from lmm_education.search.ranking import Shares
from lmm_education.search.search import CourseSearch

MODELS = ("Builtin/wordllama", "Builtin/minilm")
EVAL = SHARED / "eval"
SQUAD, BOOK = EVAL / "squad" / "docs", SHARED / "corpus" / "rust-book"


class Asking(NamedTuple):
    """Questions about documents, and the nDCG@10 that is aimed at by model."""

    name: str
    documents: Path
    questions: Path
    targets: Mapping[str, float] = {}


SETS = (
    Asking("SQuAD as asked", SQUAD, EVAL / "squad" / "questions.jsonl", dict(zip(MODELS, (0.895, 0.915), strict=True))),
    Asking("SQuAD reworded", SQUAD, EVAL / "paraphrases.jsonl", dict(zip(MODELS, (0.33, 0.68), strict=True))),
    Asking("Rust book, our questions", BOOK, QUESTIONS / "rust-book.jsonl"),
    Asking("Rust book, what something is", BOOK, QUESTIONS / "definitions.jsonl"),
    Asking(
        "Rust book, own words", BOOK, EVAL / "own-words-textbook.jsonl", dict(zip(MODELS, (0.28, 0.37), strict=True))
    ),
)
AS_ASKED, REWORDED = SETS[0].name, SETS[1].name
HELD = {(AS_ASKED, each): 0.86 for each in MODELS} | dict(
    zip([(REWORDED, each) for each in MODELS], (0.15, 0.35), strict=True)
)
Values = dict[str, list[float]]
"""A measure of each question, by the name of the set."""


def rows(models: Sequence[str] = MODELS) -> list[Row]:
    """A row for each model and set."""
    if not EVAL.is_dir():
        return [Row("nDCG@10 in a student's own words", "skipped: the documents are not here")]
    found = []
    for model in models:
        with stored(model) as courses:
            found += rows_of(model, courses)
    return found


def rows_of(model: str, courses: Mapping[Path, CourseParts]) -> list[Row]:
    """The rows of a model whose courses are stored."""
    passages, sections = measured(courses, "passage"), measured(courses, "section")
    targets = {asking.name: asking.targets.get(model) for asking in SETS}
    found = []
    for name, values in passages.items():
        value, target = mean(values), targets.get(name)
        ours = f"{100 * value:.1f}; of sections {100 * mean(sections[name]):.1f}"
        goal = f"≥ {100 * target:.1f}" if target else ""
        met = round(value, 3) >= target if target else None
        found.append(Row(f"nDCG@10, {name}, {len(values):,} questions, {model}", "", ours, "", goal, met))
    found += [quoted_row(model, asking, courses[asking.documents]) for asking in SETS[3:]]
    found += [held_row(model, asking, courses[asking.documents]) for asking in SETS[:2]]
    for named in (True, False):
        for name, values in recorded(courses, named=named).items():
            what = f"{name} with recorded words{'' if named else ' without names'}"
            aim = 0.55 if name == REWORDED and model == MODELS[0] and named else None
            met = mean(values) >= aim if aim else None
            what = f"nDCG@10, {what}, {len(values)} questions, {model}"
            found.append(Row(what, "", f"{100 * mean(values):.1f}", "", f"≥ {100 * aim:.1f}" if aim else "", met))
    return found


def quoted_row(model: str, asking: Asking, course: CourseParts) -> Row:
    """The share of built-in answers that quote the section that answers the question."""
    targets, _ = find_targets(questions_of(asking), read_texts(course))
    answering = Answering(CourseSearch(course))
    right = 0
    for target in targets:
        answer = loop.run(answered(answering, target.question.text))
        cited = answer.cited
        right += find_ranks(target, cited)["section"] is not None
    share = right / len(targets)
    return Row(f"gold section quoted, {asking.name}, {model}", "", f"{100 * share:.1f} %", "", "≥ 50 %", share >= 0.5)


def held_row(model: str, asking: Asking, course: CourseParts) -> Row:
    """The share of built-in answers in which an accepted answer stands word for word; how long they are."""
    answering, right, characters = Answering(CourseSearch(course)), 0, 0
    asked = [question for question in questions_of(asking) if question.answers]
    for question in asked:
        text = loop.run(answered(answering, question.text)).text.removesuffix(NOTICE).strip()
        right += any(contains(words(text), words(one)) for one in question.answers)
        characters += len(text)
    share, length = right / len(asked), characters / len(asked)
    aim = HELD[asking.name, model]
    what = f"built-in answers that hold the accepted one, {asking.name}, {len(asked):,} questions, {model}"
    return Row(what, "", f"{100 * share:.1f} %, {length:.0f} characters", "", f"≥ {100 * aim:.0f} %", share >= aim)


async def answered(answering: Answering, question: str) -> Answer:
    """The last event of an answer, which is all of it."""
    *_, answer = [event async for event in answering.stream(question)]
    assert isinstance(answer, Answer)
    return answer


class RecordedWords(ScriptedModel):
    """Answers what to look up for a question by what was written down for it."""

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__([], name=f"Recorded/{hash(tuple(words.values()))}")  # what it said is kept by its name
        self.words = words

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """The words for the question at the end of the prompt."""
        prompt = render(request.messages[0])
        found = next(words for question, words in self.words.items() if question in prompt)
        yield Reply(json.dumps({"texts": [found]}), self.name, Usage())


def recorded(courses: Mapping[Path, CourseParts], *, named: bool) -> Values:
    """nDCG@10 of passages for the questions for which words are recorded, asked as for an answer."""
    with (QUESTIONS / "expansions.tsv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    found: Values = {}
    for asking in SETS:
        every = questions_of(asking)
        mine = {int(line["row"]): line["words"] for line in lines if line["set"] == asking.questions.stem}
        words = {every[i].text: text if named else without_names(text) for i, text in mine.items()}
        targets, _ = find_targets([every[i] for i in mine], read_texts(courses[asking.documents]))
        search = CourseSearch(courses[asking.documents], chat=RecordedWords(words)).search
        ranks = []
        for target in targets:
            hits = search(target.question.text, SearchOptions(limit=DEPTH, sections=False, reworded=True)).hits
            ranks.append(find_ranks(target, hits)["passage"])
        if ranks:
            found[asking.name] = measure_ranks(ranks, "ndcg@10")
    return found


def without_names(text: str) -> str:
    """The words that no knowledge of names is needed for."""
    return " ".join(word for word in text.split() if word == word.lower() and not any(map(str.isdigit, word)))


@contextmanager
def stored(model: str) -> Iterator[dict[Path, CourseParts]]:
    """A course of each of the documents, with our defaults and this model, in temporary stores."""
    with ExitStack() as closing:
        closing.enter_context(elsewhere())
        course = closing.enter_context(Course.open(env={}))
        folders = dict.fromkeys(asking.documents for asking in SETS)
        makers = {folder: closing.enter_context(scratch_courses(course, [folder])) for folder in folders}
        yield {folder: make(Variant("", course.settings, model)) for folder, make in makers.items()}


def measured(courses: Mapping[Path, CourseParts], level: Level = "passage", *, step: int = 1) -> Values:
    """nDCG@10 of each question of every set, and of the mixed one; with `step`, of one in so many of SQuAD's."""
    found: Values = {}
    for asking in SETS:
        asked = questions_of(asking)[:: step if asking.name == AS_ASKED else 1]
        evaluation = evaluate(courses[asking.documents], asked)
        found[asking.name] = list(evaluation.values(level, "ndcg@10").values())
    few = len(found[REWORDED])
    found["SQuAD, mixed"] = found[AS_ASKED][:few] + found[REWORDED]
    return found


def questions_of(asking: Asking) -> list[Question]:
    """Those of a set."""
    return list(read_questions([asking.questions])[0])


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


# -- fitting ---------------------------------------------------------------------------------------


def fit(model: str, courses: Mapping[Path, CourseParts]) -> Iterator[str]:
    """What is best on all sets, each counting the same, and what such a choice is worth on questions that it has not
    seen; one in four of SQuAD's questions."""
    name = "STATIC" if is_static(model) else "SENTENCES"
    now: Shares = getattr(ranking, name)
    choices = dict.fromkeys([now, *around(now)])
    found: dict[str, Values] = {}
    for shares in choices:
        with instead(name, shares):
            found[str(tuple(shares))] = measured(courses, step=4)
    present = str(tuple(now))
    sets = [asking.name for asking in SETS]
    groups: list[Hashable] = list(chain.from_iterable(range(len(found[present][each])) for each in sets))
    scores = {
        label: list(chain.from_iterable(weighed(values[each]) for each in sets)) for label, values in found.items()
    }
    tuning = cross_validate(scores, groups, present=present)
    yield f"{model}: present {present} {100 * tuning.now.mean:.1f}, best {tuning.best}, chosen {dict(tuning.chosen)}"
    yield f"  on questions that had no say {100 * tuning.held_out.mean:.1f}; {tuning.gain}"
    yield f"  the best: { ({each: round(100 * mean(found[tuning.best][each]), 1) for each in sets}) }"


FOLDS = 5


@dataclass(frozen=True)
class Tuning:
    """The result of cross-validation. `best` is best on all questions; `chosen` counts how often each was best on the
    other folds; `held_out` estimates the score after choosing, and `gain` compares it with the present settings."""

    present: str
    best: str
    chosen: Mapping[str, int]
    means: Mapping[str, float]
    now: MeanEstimate
    held_out: MeanEstimate
    gain: Difference


def cross_validate(scores: Mapping[str, Sequence[float]], groups: Sequence[Hashable], *, present: str) -> Tuning:
    """Cross-validate settings; `scores` has a score per question for every setting, including `present`.

    Of several equally good ones, the present setting is chosen, or else the first.
    """
    order = [present, *(name for name in scores if name != present)]
    number: dict[Hashable, int] = {}
    folds = [number.setdefault(group, len(number)) % FOLDS for group in groups]
    held_out = [0.0] * len(groups)
    chosen: Counter[str] = Counter()
    for fold in sorted(set(folds)):
        others = [i for i, part in enumerate(folds) if part != fold]
        best = _best(scores, order, others) if others else present
        chosen[best] += 1
        for i, part in enumerate(folds):
            if part == fold:
                held_out[i] = scores[best][i]
    now, best = list(scores[present]), _best(scores, order, range(len(groups)))
    gain = compare(now, held_out, groups)
    return Tuning(
        present=present,
        best=best,
        chosen=dict(chosen.most_common()),
        means={name: _mean(values, range(len(groups))) for name, values in scores.items()},
        now=estimate(now, groups),
        held_out=estimate(held_out, groups),
        gain=gain,
    )


def _best(scores: Mapping[str, Sequence[float]], order: Sequence[str], which: Sequence[int]) -> str:
    return max(order, key=lambda name: _mean(scores[name], which))


def _mean(values: Sequence[float], which: Sequence[int]) -> float:
    return sum(values[i] for i in which) / max(len(which), 1)


def weighed(values: Sequence[float]) -> list[float]:
    """Values of a set that counts as much as any other."""
    return [value * 100 / len(values) for value in values]


def around(shares: Shares) -> Iterator[Shares]:
    """Shares a step up or down in each of the three."""
    for u, c, e in product((-0.05, 0, 0.05), (-0.1, 0, 0.1), (-0.1, 0, 0.1)):
        yield Shares(
            min(1.0, round(shares.uncovered + u, 2)), round(shares.covered + c, 2), round(shares.enough + e, 2)
        )


@contextmanager
def instead(name: str, shares: Shares) -> Iterator[None]:
    """Weigh with these."""
    before = getattr(ranking, name)
    setattr(ranking, name, shares)
    try:
        yield
    finally:
        setattr(ranking, name, before)


def main(given: Sequence[str]) -> None:
    """Measure the models that are named, or fit them."""
    models = [word for word in given if word != "--fit"] or MODELS
    if "--fit" not in given:
        show(rows(models))
        return
    for model in models:
        with stored(model) as courses:
            print(*fit(model, courses), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
