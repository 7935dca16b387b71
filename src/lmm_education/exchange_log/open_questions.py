"""Questions that were not answered, or badly, in groups, which are written into the nearest sections for the author.

They are stored under ``~~students_``, the program's own key: it is neither ingested nor exported. Pandoc ignores keys
that end in an underscore, whatever students wrote.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmm import Document
from lmm.disk import files
from lmm.errors import LmmError
from lmm.markdown.tree import HeadingNode, annotated_text, preorder
from lmm.notebook.chat_log import ABOUT
from lmm.notebook.staleness import text_hash
from lmm_education.errors import SearchError
from lmm_education.exchange_log.exchanges import AUTHOR, LoggedExchange, LoggedSource, asked
from lmm_education.exchange_log.figures import QuestionGroup, Words, group_questions

KEY = "~~students_"
QUESTIONS = "questions.jsonl"
"""The file in the course's folder that collects wrong answers, for ``lmm eval questions.jsonl``."""
_BY_PEOPLE = ("thumbs down", "marked wrong")
_At = tuple[str, tuple[str, ...]]  # a section: its document's file and the headings


def problem_of(exchange: LoggedExchange, wrong: Collection[str] = ()) -> str:
    """Return why a question was not answered well, or nothing; `wrong` are questions marked as answered wrongly.

    >>> problem_of(LoggedExchange("1", 0.0, "Why?")), problem_of(LoggedExchange("1", 0.0, "Why?", outcome="refused"))
    ('uncited', '')
    """
    failures = {
        "not found": exchange.outcome == "not found",
        "thumbs down": exchange.reaction < 0,
        "marked wrong": exchange.reaction == 0 and asked(exchange) in wrong,
        "uncited": not exchange.is_answered,
        "unverified": exchange.unverified,
    }
    counts = exchange.via != AUTHOR and exchange.outcome in ("answered", "not found")
    return next((name for name, holds in failures.items() if holds), "") if counts else ""


def open_questions(
    exchanges: Iterable[LoggedExchange], words: Words, wrong: Collection[str] = ()
) -> list[QuestionGroup]:
    """Return the questions that failed and were not answered since, grouped, the largest group first.

    A question counts as answered if the same words were answered well later. After thumbs down or a mark by the
    teacher, this needs thumbs up, or a repetition by the author.
    """
    groups = (_open(group, words, wrong) for group in group_questions(exchanges, words))
    return sorted((group for group in groups if group.exchanges), key=lambda group: -len(group.exchanges))


def _open(group: QuestionGroup, words: Words, wrong: Collection[str]) -> QuestionGroup:
    found: list[LoggedExchange] = []
    for exchange in sorted(group.exchanges, key=lambda each: (each.time, each.id)):
        if problem_of(exchange, wrong):
            found.append(exchange)
        elif exchange.is_answered:
            found = [each for each in found if not _answers(exchange, each, problem_of(each, wrong), words)]
    return QuestionGroup(found)


def _answers(later: LoggedExchange, failed: LoggedExchange, why: str, words: Words) -> bool:
    if later.via == AUTHOR:
        return True
    same = asked(later) == asked(failed) or set(words(asked(later))) == set(words(asked(failed)))
    return same and (later.reaction > 0 or why not in _BY_PEOPLE)


def questions_marked_wrong(file: Path) -> frozenset[str]:
    """Return the questions that a question file marks as answered wrongly; empty if there is no such file."""
    text = files.read_bytes(file).decode("utf-8", "replace") if file.is_file() else ""
    return frozenset(str(row.get("question", "")) for row in question_rows(text) if "wrong" in row)


def question_rows(text: str) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a question file, without an incomplete last line.

    >>> list(question_rows('{"question": "Why?\u2028"}\\n{"ques'))
    [{'question': 'Why?\\u2028'}]
    """
    for line in text.split("\n"):
        with contextlib.suppress(ValueError):
            if isinstance(row := json.loads(line), dict):
                yield row


# -- questions in documents ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotedQuestion:
    """A question, how often it was asked, and the latest outcome.

    It is written into the section at `file` and `headings`, on `line`; these are empty if no section is near. `about`
    is the hash of the section's text when it was last asked; `answered`: it was removed because it is answered now.
    """

    question: str
    asked: int
    answer: str
    file: str = ""
    headings: tuple[str, ...] = ()
    line: int = 0
    about: str = ""
    answered: bool = False

    @property
    def metadata(self) -> dict[str, Any]:
        """The question as it is written into metadata."""
        return {"question": self.question, "asked": self.asked, "answer": self.answer, ABOUT: self.about}


@dataclass(slots=True)
class NotedQuestions:
    """Documents by their file in the course, and the open questions that are written into them.

    `nearest` finds sections for a question; `is_answered` asks the course again, and returns whether the answer is
    good. A question is asked again only if its section's text has changed, and not while its file is among `unread`:
    those that changed since they were ingested.
    """

    documents: dict[str, Document] = field(default_factory=dict)
    nearest: Callable[[str], Iterable[LoggedSource]] = lambda question: ()
    is_answered: Callable[[str], bool] = lambda question: False
    unread: Callable[[], Collection[str]] = lambda: ()
    wrong: Collection[str] = ()
    failures: list[LmmError] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)

    def write(self, groups: Sequence[QuestionGroup]) -> list[NotedQuestion]:
        """Replace the questions in the documents by these, save, and return what became of each.

        Errors are in `failures`; files whose questions wait for ``lmm ingest`` are in `waiting`.
        """
        sections = self._sections()
        before = {str(each.get("question")): str(each.get(ABOUT)) for n in sections.values() for each in _written(n)}
        noted = [self._place(group, sections, before) for group in groups]
        lines: dict[tuple[_At, str], int] = {}
        for file, document in self.documents.items():
            wanted = [each for each in noted if each.file == file and not each.answered]
            try:
                lines |= {((file, path), text): line for path, text, line in self._save(document, wanted)}
            except LmmError as error:
                self.failures.append(error)
        return [replace(each, line=lines.get(((each.file, each.headings), each.question), 0)) for each in noted]

    def _sections(self) -> dict[_At, HeadingNode]:
        return {
            (file, path): node
            for file, document in self.documents.items()
            for path, node in _sections_of(document).items()
        }

    def _place(
        self, group: QuestionGroup, sections: Mapping[_At, HeadingNode], before: Mapping[str, str]
    ) -> NotedQuestion:
        newest = max(group.exchanges, key=lambda exchange: exchange.time)
        noted = NotedQuestion(group.question, len(group.exchanges), problem_of(newest, self.wrong))
        at = next((at for at in self._nearest(group) if at in sections), None)
        if at is None:
            return noted
        now = text_hash(annotated_text(sections[at]))
        about = next((before[text] for text in group.wordings if text in before), now)
        answered = self._ask_again(at[0], group.question) if about != now else None
        about = now if answered is False else about
        return replace(noted, file=at[0], headings=at[1], about=about, answered=bool(answered))

    def _nearest(self, group: QuestionGroup) -> Iterator[_At]:
        """Iterate over nearby sections: those of the latest exchange first, cited ones before others."""
        for exchange in sorted(group.exchanges, key=lambda exchange: -exchange.time):
            for source in sorted(exchange.sources, key=lambda source: not source.cited):
                yield source.file, source.headings
        try:
            yield from ((source.file, source.headings) for source in self.nearest(group.question))
        except SearchError:  # for instance if the question names a document that does not exist
            return

    def _ask_again(self, file: str, question: str) -> bool | None:
        """Return whether the course answers it now; None if that cannot be determined."""
        if file in self.unread():
            self.waiting.add(file)
            return None
        try:
            return self.is_answered(question)
        except LmmError as error:
            self.failures.append(error)
            return None

    def _save(self, document: Document, noted: Sequence[NotedQuestion]) -> list[tuple[tuple[str, ...], str, int]]:
        """Write questions into one document; return those that it then contains, with headings and line."""
        with document:
            document.reload()
            for path, node in _sections_of(document).items():
                try:
                    _set(node, [each.metadata for each in noted if each.headings == path])
                except LmmError as error:
                    where = f"{document.path}:{node.line}"
                    self.failures.append(LmmError(error.message, where=where, hint=error.hint))
            document.save()
        found = _sections_of(Document.from_text(document.text)).items()  # with the new line numbers
        return [
            (path, str(each.get("question")), node.heading.line if node.heading else 1)
            for path, node in found
            for each in _written(node)
        ]


def _sections_of(document: Document) -> dict[tuple[str, ...], HeadingNode]:
    """Return the sections by their headings, the document itself by none; of duplicates, the first."""
    found: dict[tuple[str, ...], HeadingNode] = {}
    for node in preorder(document.tree):
        if isinstance(node, HeadingNode):
            found.setdefault((*node.heading_path, node.title) if node.level else (), node)
    return found


def _written(node: HeadingNode) -> list[dict[str, Any]]:
    held = node.metadata.get(KEY)
    return [each for each in held if isinstance(each, dict)] if isinstance(held, list) else []


def _set(node: HeadingNode, entries: list[dict[str, Any]]) -> None:
    """Set these entries in a section's metadata; without entries, remove a block that contained nothing else."""
    if entries and entries != _written(node):
        node.set_metadata(KEY, entries)
    elif not entries and KEY in node.metadata:
        node.remove_metadata(KEY)
        if node.level and node.metadata_block is not None and not node.metadata_block.body.strip():
            node.metadata_block = None
