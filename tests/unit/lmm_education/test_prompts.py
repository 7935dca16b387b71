"""What an independent reader replied to the prompts of a course, and to those that they replaced: ten questions each.

`tests/golden/prompts/NAME-new.md` has today's prompt, and each question with the reply to it; `NAME-old.md` the earlier
one. A change of a prompt renews them: `python -m benchmarks.prompts`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.checks import passages
from benchmarks.documents import SHARED
from benchmarks.prompts import prompt_of
from lmm_education.answer.citations import citations
from lmm_education.answer.verification import verify
from lmm_education.prompts.templates import course_prompts

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts"
RESULTS = r"25[.,]5|6[.,]9|smok|\brauch|\bfum|moved"  # of the exercises


@dataclass
class Exchange:
    """A question, the sources that were shown for it, and the reply."""

    shown: str
    asked: str
    reply: str


def replies(name: str) -> list[Exchange]:
    text = (GOLDEN / f"{name}.md").read_text("utf-8")
    parts = re.split(r"^<!-- \d+ (.*?) -->\n\n(?:<!-- asked: (.*?) -->\n\n)?", text, flags=re.MULTILINE)[1:]
    return [Exchange(*each) for each in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]


def measures(name: str) -> tuple[int, int, int]:
    """The lines without a citation, the marks, and the words of ten answers."""
    bare = marks = words = 0
    for each in replies(name):
        group, *numbers = re.findall(r"\w+", each.shown.removeprefix("sources: "))
        shown = [passages(group)[int(number) - 1] for number in numbers]
        shown = [replace(passage, number=number) for number, passage in enumerate(shown, 1)]
        marks += len(verify(each.reply, shown, each.asked).failures)
        words += len(each.reply.split())
        lines = [line for line in each.reply.splitlines() if len(re.findall(r"\w{3,}", line)) > 2]
        bare += sum(not citations(line, range(1, 9)) for line in lines)
    return bare, marks, words


@pytest.mark.parametrize("name", ["answer", "hints", "feedback", "cards", "tutor"])
def test_the_replies_are_to_the_prompt_of_today(name: str) -> None:
    assert (GOLDEN / f"{name}-new.md").read_text("utf-8").startswith(prompt_of(f"{name}-new"))


@pytest.mark.skipif(not SHARED.exists(), reason="the sources lie beside the project")
def test_answers_are_cited_and_pass_the_checks_in_fewer_words() -> None:
    old, new = measures("answer-old"), measures("answer-new")
    assert (new[1], old[1]) <= (0, 1)  # all is true; "part of the air was consumed" is compared with "no … increase"
    assert new[0] <= 10
    assert new[2] <= 0.9 * old[2]


def test_hints_give_no_result() -> None:
    for each in replies("hints-new"):
        said = re.sub(re.escape(each.asked), "", each.reply)
        assert not re.search(RESULTS, said, re.IGNORECASE), each
        assert "[1]" in said or "[2]" in said or "Exercise 3" in said, each


def test_a_rewritten_question_asks_for_no_more_than_the_student_did() -> None:
    """Attempts to get a solution are not made complete requests; and who insists is told that there are none."""
    old, new = replies("tutor-old"), replies("tutor-new")
    assert sum(len(each.asked.split()) for each in new) < sum(len(each.asked.split()) for each in old)
    insists = [each for each in new if re.search("Just tell|My teacher|Ignore your|just say", each.shown)]
    assert len(insists) == 4
    assert all("give solutions" in each.reply for each in insists)


def test_feedback_is_in_the_language_of_the_answer() -> None:
    found = [next((w for w in ("Deine Antwort", "Tu respuesta", "Your answer") if w in each.reply), "") for each in
             replies("feedback-new")]  # fmt: skip
    assert (found[3], found[6]) == ("Deine Antwort", "Tu respuesta")
    assert set(found) - {"Deine Antwort", "Tu respuesta"} <= {"Your answer", ""}


def test_students_are_they_and_nothing_is_counted_in_the_singular() -> None:
    texts = course_prompts(None).texts
    assert not [name for name, text in texts.items() if re.search(r"\b(?:he|his|him)\b|\{count\} \w+s\b", text)]
