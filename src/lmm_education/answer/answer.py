"""Answers, the requests for them to the model, and the events on the way."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from lmm.disk.files import document_lock
from lmm.disk.folder import check_named
from lmm.errors import FileReadError, FileWriteError
from lmm.markdown import prose_of
from lmm.markdown.quotations import Quotation
from lmm.markdown.sentences import sentences_of
from lmm.messages import Attachment, ChatRequest, Message, Retrying, TextDelta, ToolCall, Usage, tagged
from lmm.prompts.templates import Prompts
from lmm_education.answer.citations import citations
from lmm_education.answer.history import LABEL as CONVERSATION, Exchange, Understood
from lmm_education.answer.languages import any_of
from lmm_education.answer.sources import Sources, as_document
from lmm_education.answer.verification import Verification, mark_of, marked
from lmm_education.material import SOURCE, Passage, as_json
from lmm_education.search.query import SearchNotice

Basis = Literal["course", "general", "nothing"]
_SHOWN = 90  # characters of an answer


@dataclass(frozen=True, slots=True)
class Attempted:
    """A student's attempt at an exercise; `solution` is empty if he may not see it, or there is none.

    `is_right` is None where a model has to judge.
    """

    exercise: str
    answer: str
    solution: str = ""
    is_right: bool | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer to a question.

    `searched` is what was looked up; `offered` are the sources that the model was shown, `cited` those that its text
    cites, by their numbers. `found` is false if nothing relevant was found and no model was asked; then `offered` are
    the closest sources. `cut`: the model reached its output limit; `stopped`: agent mode reached its limit of turns;
    `refused`: question or answer are not about the allowed content, which the text says. `verification`: the comparison
    with its sources; `general`: if it cites nothing, it may come from the model's own knowledge.
    """

    question: str
    text: str
    searched: str = ""
    offered: tuple[Passage, ...] = ()
    cited: tuple[Passage, ...] = ()
    types: tuple[str, ...] = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    found: bool = True
    cut: bool = False
    stopped: bool = False
    refused: bool = False
    notices: tuple[str, ...] = ()
    verification: Verification = field(default_factory=Verification)
    general: bool = False

    @property
    def rests_on(self) -> Basis:
        """What the answer is based on: the course if it is cited, the model's knowledge if the teacher allows that, or
        nothing that a reader could check."""
        if self.answers and self.cited:
            return "course"
        return "general" if self.found and self.general else "nothing"

    @property
    def answers(self) -> bool:
        """Whether it answers the question, and does not say that the sources do not."""
        return self.found and not declines(self.text)

    @property
    def sources(self) -> tuple[Passage, ...]:
        """The sources to show below the text: those cited, then others that a mark of the verification names; or the
        closest ones if nothing relevant was found."""
        if not self.found:
            return self.offered
        marks = map(mark_of, self.verification.failures)
        named = {mark.values["number"] for mark in marks if mark.code in ("claim_elsewhere", "quote_differs")}
        others = (each for each in self.offered if str(each.number) in named and each not in self.cited)
        return (*self.cited, *others)

    def _repr_markdown_(self) -> str:
        """Return the text with its failed claims marked, the notices and the sources, as a notebook shows them."""
        return "\n\n".join(
            (
                marked(self.text, self.verification.failures, lambda failure: f"*[{mark_of(failure)}]*"),
                *map("*{}*".format, self.notices),
                *(f"\\[{one.number}\\] {one.place} {one.path}" for one in self.sources),
            )
        )

    def __repr__(self) -> str:
        cited = ", ".join(str(source.place) for source in self.cited) or "nothing"
        notices = "".join(f"; {notice}" for notice in self.notices)
        return f"Answer({textwrap.shorten(self.text, _SHOWN, placeholder=' …')!r}, cites {cited}{notices})"

    def as_json(self) -> dict[str, Any]:
        """Return the answer for programs: what ``lmm ask --json`` prints."""
        return {
            "question": self.question,
            "searched": self.searched,
            "answer": self.text,
            "found": self.answers,
            "rests_on": self.rests_on,
            "sources": [as_json(source, SOURCE) for source in self.cited],
            "offered": [as_json(source, SOURCE) for source in self.offered],
            **self.verification.as_json(),
            "types": list(self.types),
            "model": self.model,
            "tokens": {"input": self.usage.input_tokens, "output": self.usage.output_tokens},
            "cost": self.usage.cost,
            "cut": self.cut,
            "stopped": self.stopped,
            "notices": list(self.notices),
        }


# -- refusals ----------------------------------------------------------------------------------------


@cache
def _refusing() -> dict[str, re.Pattern[str]]:
    begins, ends = r"(?<![^\W\u3040-\u9fff])", r"(?![^\W\u3040-\u9fff])"  # no blanks separate words in Chinese
    forms = {
        "names": rf"{begins}(?:(?:{any_of('sources')}){ends}(?! code\b)|material)",
        "covers": rf"{begins}(?:{any_of('covers')})",
        "beyond": rf"{begins}(?:{any_of('beyond')}){ends}",
        "denies": rf"{begins}(?:(?:{any_of('negations')}){ends}|n['’]\w+|lack|fail|silent|unable)",
        "clauses": rf"[;:]\s|\s[–—-]\s|,\s(?=(?:{any_of('joints')})\b)",
    }
    return {name: re.compile(form, re.IGNORECASE) for name, form in forms.items()}


_OPENING = 2  # sentences that may refuse; a later one says what an answer leaves open


@lru_cache(maxsize=64)  # one answer is asked about by the page, the log and the API
def declines(text: str) -> bool:
    """Return whether an answer begins with the statement, without a citation, that the sources do not answer, before
    any block that it quotes.

    >>> declines("The sources do not say who won. What comes closest is the chapter on games [2].")
    True
    >>> declines("Leaves are green [1]. The sources do not say why."), declines("The course says they do not fall [1].")
    (False, False)
    """
    forms, said = _refusing(), f"\n{text}".partition("\n>")[0]
    for sentence in islice(sentences_of(prose_of(said)), _OPENING):
        matched = set[str]()
        for clause in forms["clauses"].split(sentence):
            if citations(clause, range(1, 100)):
                return False
            matched |= {name for name, form in forms.items() if form.search(clause)}
            if "names" in matched and ("beyond" in matched or {"denies", "covers"} <= matched):
                return True
    return False


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """Event: these sources are shown to the model for this question."""

    searched: str
    sources: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Called:
    """Event: the model uses a tool (agent mode); the text that it wrote before is void."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Prompted:
    """Event: these messages are sent to the model."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """Event: the pieces of text up to here complete these blocks; their quotations that were not found verbatim. Of a
    block that does not end here, these are finished lines of code, items of a list, or sentences; `is_code`: it is all
    code."""

    text: str
    failures: tuple[Quotation, ...] = ()
    ends: bool = True
    is_code: bool = False


AnswerEvent = Found | Prompted | Called | TextDelta | AnswerBlock | Retrying | Answer
"""The events of an answer: pieces of its text, and the same text in blocks, each as soon as it is complete. After
`Retrying` and `Called`, the text starts again."""
AnswerListener = Callable[[AnswerEvent], None]


def basis_notice(answer: Answer) -> tuple[SearchNotice, ...]:
    """Return the notice for readers if an answer does not cite the course."""
    if answer.rests_on == "course" or (answer.rests_on == "nothing" and not answer.answers):
        return ()
    texts = {
        "general": "the answer cites no source: it may be general knowledge",
        "nothing": "the answer cites no source",
    }
    return (SearchNotice(f"rests_on_{answer.rests_on}", texts[answer.rests_on]),)


# -- requests to the model -------------------------------------------------------------------------


def answer_request(asked: Understood, sources: Sources, types: Sequence[str], system: str) -> ChatRequest:
    """Return the request for an answer: the question with its sources, the relevant part of the conversation, and the
    requested types of material."""
    documents = (*background_of(asked), *map(as_document, sources))
    type_request = (
        f"Material of this type is asked for: {', '.join(types)}. Give what fits, unchanged, from its sources."
    )
    content = tagged(Attachment(asked.question, "question")) + f"\n\n{type_request}" * bool(types)
    if sources.is_part:
        content += (
            f"\n\nOf “{sources.chapter}”, you see only a part: sources that end with … are beginnings of sections."
        )
        content += " Say so in the answer."
    return ChatRequest((Message("system", system), Message("user", content, documents)))


def feedback_request(attempted: Attempted, sources: Sources, system: str) -> ChatRequest:
    """Return the request for feedback: the exercise, the student's answer, and what to judge it by."""
    texts = (("exercise", attempted.exercise), ("solution", attempted.solution), ("answer", attempted.answer))
    documents = [as_document(source) for source in sources]
    documents += [Attachment(text, label) for label, text in texts if text]
    message = Message("user", "What is good in my answer, and what is missing or wrong?", tuple(documents))
    return ChatRequest((Message("system", system), message))


def background_of(asked: Understood) -> tuple[Attachment, ...]:
    """Return the relevant part of the conversation as an attachment."""
    return (Attachment(asked.background, CONVERSATION),) if asked.background else ()


_GENERAL = """- The teacher allows one exception: if the sources do not answer the question, say in the first sentence
that what follows is general knowledge and not from the course, and answer from what you know, without a number."""


def system_text(
    own: str,
    prompts: Prompts,
    prompt: str = "answer",
    *,
    general: bool = False,
    explain: bool = False,
    language: str = "the language of the question",
) -> str:
    """Return the system prompt: the course's own text before the built-in one. `general`: the answer may go beyond the
    course; `explain`: the model answers as a tutor."""
    text = prompts.fill(prompt, language=language) + f"\n{_GENERAL}" * general
    text += f"\n\n{prompts.fill('explain', language=language)}" * explain
    return f"{own}\n\n{text}" if own else text


# -- conversation files ----------------------------------------------------------------------------
# One JSON object per line, with ``question``, ``answer`` and the ``sources`` that it cites.


def read_history(path: Path) -> list[Exchange]:
    """Return the exchanges in a conversation file; empty if there is no file yet.

    Raises:
        FileReadError: a line is not an exchange.
        LinkOutside: the file is a link that leads out of its folder.
    """
    try:
        check_named(path)
        lines = path.read_text(encoding="utf-8").split("\n")  # not splitlines: a text may contain other separators
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise FileReadError(f"this conversation cannot be read: {error}", where=str(path)) from error
    return [_exchange(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _exchange(line: str, where: str) -> Exchange:
    try:
        record = json.loads(line)
        return Exchange(str(record["question"]), str(record["answer"]))
    except (ValueError, TypeError, KeyError) as error:
        raise FileReadError(
            "this is not an exchange of a conversation",
            where=where,
            hint='a line is {"question": "…", "answer": "…"}; choose another file',
        ) from error


def append_history(path: Path, answer: Answer) -> None:
    """Append an answer to a conversation file.

    Raises:
        FileWriteError: the file cannot be written.
        LinkOutside: it is a link that leads out of its folder.
    """
    check_named(path)
    record = {
        "question": answer.question,
        "answer": answer.text,
        "sources": [as_json(source, SOURCE) for source in answer.cited],
    }
    try:
        with document_lock(path):
            whole = not path.exists() or not (text := path.read_bytes()) or text.endswith(b"\n")
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(("" if whole else "\n") + json.dumps(record, ensure_ascii=False) + "\n")
    except OSError as error:
        raise FileWriteError(
            f"the conversation cannot be saved: {error}", where=str(path), hint="the answer is above"
        ) from error
