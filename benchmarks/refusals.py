"""How often the built-in model says that the course does not answer: without an answer, and with one.

``python -m benchmarks.refusals [MODEL…]``. A question without an answer is one whose section is left out: it is about
the course's own subject. Of SQuAD's questions over all articles, 200 are taken at even distances, of ours and of those
for definitions over the Rust book, 100; every passage that answers a question or has an accepted answer word for word
is left out for it. *In own words* are questions whose words are not the book's; all of them have an answer. The
documents are in ``../shared``; without it, nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Row, show
from benchmarks.own_words import EVAL, MODELS, SETS, Asking, answered, questions_of, stored
from lmm import loop
from lmm_education.answer.answering import Answering
from lmm_education.evaluation.experiments import read_texts
from lmm_education.evaluation.judge import Expected, contains, find_ranks, find_targets, words
from lmm_education.material import Passage
from lmm_education.parts import CourseParts
from lmm_education.search.search import CourseSearch, SearchView

COUNTS = (("SQuAD", SETS[:1], 200), ("Rust book", SETS[2:4], 100))
ANSWERABLE = (*SETS[1:2], *SETS[4:])
"""Sets in own words."""


@dataclass(frozen=True, slots=True)
class LeavingOut(CourseSearch):
    """Searches a course without the passages that answer some questions."""

    targets: Sequence[Expected] = ()

    @contextmanager
    def view(self) -> Iterator[SearchView]:
        """Open a view without these passages."""
        with CourseSearch.view(self) as view:
            ranked = view._ranked

            def left(*how: Any) -> list[Passage]:
                return [hit for hit in ranked(*how) if not any(_answers(hit, t) for t in self.targets)]

            vars(view)["_ranked"] = left
            yield view


def _answers(hit: Passage, target: Expected) -> bool:
    ranks = find_ranks(target, [hit])
    held = (contains(words(hit.text), words(each)) for each in target.question.answers)
    return any(ranks[level] is not None for level in ("passage", "section")) or any(held)


def refused(course: CourseParts, asking: Sequence[Asking], count: int, *, left_out: bool) -> float:
    """Return the share of questions whose answer says that the course does not answer them."""
    every = [question for each in asking for question in questions_of(each)]
    targets, _ = find_targets(every, read_texts(course))
    chosen = [targets[at * len(targets) // count] for at in range(min(count, len(targets)))]
    refusals = 0
    for target in chosen:
        search = LeavingOut(course, targets=[target] if left_out else ())
        answer = loop.run(answered(Answering(search), target.question.text))
        refusals += not answer.answers
    return refusals / len(chosen)


def rows(models: Sequence[str] = MODELS) -> list[Row]:
    """A row for each model, set, and kind of question."""
    if not EVAL.is_dir():
        return [Row("refusals of the built-in model", "skipped: the documents are not here")]
    found = []
    for model in models:
        with stored(model) as courses:
            for name, asking, count in COUNTS:
                for left_out in (True, False):
                    share = refused(courses[asking[0].documents], asking, count, left_out=left_out)
                    what = "without an answer" if left_out else "with one"
                    found.append(Row(f"refused, {name}, {count} questions {what}, {model}", "", f"{100 * share:.1f} %"))
            for each in ANSWERABLE:
                share = refused(courses[each.documents], [each], 60, left_out=False)
                found.append(
                    Row(
                        f"refused, {each.name}, 60 questions with an answer, {model}",
                        "",
                        f"{100 * share:.1f} %",
                    )
                )
    return found


if __name__ == "__main__":
    show(rows(sys.argv[1:] or MODELS))
