"""Reword questions with the aux model, since questions written with the text at hand repeat its words.

A file of them is an ordinary question file, whose rows also name the original question (``original``). Existing rows
are kept, because the author may have corrected them: only missing questions are reworded and appended.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmm.disk import files
from lmm.errors import ConfigError, Interrupted, LmmError
from lmm.messages import ChatRequest, Message, Usage
from lmm.models.client import Client
from lmm.models.port import Ask
from lmm.models.structured import Schema, object_of, with_schema
from lmm.prompts.templates import Prompts
from lmm_education.errors import SearchError
from lmm_education.evaluation.experiments import Progress
from lmm_education.evaluation.judge import contains, repeated, repeated_words, words
from lmm_education.evaluation.questions import Question, parse_questions
from lmm_education.prompts.templates import course_prompts
from lmm_education.search.expand import can_write

_LONGEST = 400
"""The limit on characters of a question, for models that do not stop by themselves."""
Pair = tuple[Question, Question]
"""A question, and the same question reworded."""


@dataclass(frozen=True, slots=True)
class Rewording:
    """The result of rewording questions.

    `waiting` questions were not in the file; of the replies, `useless` ones were empty, too long, or repeated a
    question of the file; `failures` have the question's place. An estimate has only `waiting` and `usage`.
    """

    pairs: tuple[Pair, ...] = ()
    waiting: int = 0
    useless: int = 0
    failures: tuple[LmmError, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    interrupted: bool = False

    @property
    def before(self) -> float:
        """The share of the original questions' words that occur in the passages (see `repeated`)."""
        return repeated(old for old, _ in self.pairs)

    @property
    def after(self) -> float:
        """The same share of the reworded questions."""
        return repeated(new for _, new in self.pairs)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "reworded": len(self.pairs),
            "useless": self.useless,
            "failures": [str(error) for error in self.failures],
            "repeated": {"before": self.before, "after": self.after},
            "usage": {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens},
            "model": self.model,
            "interrupted": self.interrupted,
        }


async def reword_into(file: Path, questions: Sequence[Question], client: Client, *, progress: Progress) -> Rewording:
    """Reword the questions that a file lacks, and append them to it; if the client only estimates, count them.

    Raises:
        ConfigError: the file is not a ``.jsonl`` file, or contains other questions.
        SearchError: the model is not a language model.
        ModelError: the model cannot be opened.
        FileReadError, FileWriteError: the file cannot be read or written; its content is unchanged.
    """
    if not can_write(client):
        raise SearchError(f"{client.name} cannot write questions", hint="set a model under [aux] in config.toml")
    there = files.read_document(file) if file.exists() else ""
    known = _originals(there, file)
    waiting = [question for question in questions if not question.unanswerable and question.text not in known]
    prompts = course_prompts(client.settings.prompts.folder)
    if client.estimate:
        await client.gather(client.ask(ask_for(each, prompts)) for each in waiting)
        return Rewording(waiting=len(waiting), usage=client.usage, model=client.name)
    found = await _reword(waiting, client, prompts, progress, taken=[each.text for each in questions])
    if found.pairs:
        rows = "".join(f"{json.dumps(row_of(*pair), ensure_ascii=False)}\n" for pair in found.pairs)
        gap = "" if there.endswith("\n") or not there else "\n"
        files.replace(file, there + gap + rows, expected=there.encode() if there else None)
    return found


def _originals(text: str, file: Path) -> set[str]:
    """Return the original questions of a file of reworded ones."""
    if file.suffix.lower() != ".jsonl":
        raise ConfigError(
            "questions in other words are written as .jsonl", where=str(file), hint="choose a name that ends in .jsonl"
        )
    good, bad = parse_questions(text, ".jsonl", name=str(file)) if text.strip() else ([], [])
    if bad:
        raise ConfigError(
            f"a row cannot be used: {bad[0].message}", where=bad[0].where, hint="correct it, or choose another"
        )
    lines = {int(question.where.rpartition(":")[2]) for question in good}
    rows = [json.loads(line) for number, line in enumerate(text.split("\n"), 1) if number in lines]
    if any("original" not in row for row in rows):
        raise ConfigError("this file contains other questions too", where=str(file), hint="choose a new file")
    return {str(row["original"]) for row in rows}


async def _reword(
    questions: Sequence[Question], client: Client, prompts: Prompts, progress: Progress, taken: Collection[str]
) -> Rewording:
    """Reword questions concurrently. If cancelled, return the results so far.

    Results that repeat one of `taken` are dropped; if two questions get the same wording, only the first is kept, since
    each would count the other's answer as wrong.

    Raises:
        ModelError, ConfigError: the model cannot be opened.
    """
    done = 0

    async def one(question: Question) -> str:
        nonlocal done
        try:
            said = await client.value(ask_for(question, prompts), _schema())
        finally:
            done += 1
            progress("questions", done, len(questions))
        return " ".join(said["question"].split())

    client.open()
    outcomes = await client.gather(map(one, questions))
    seen = {words(text) for text in taken} | {()}
    pairs, failures, useless = list[Pair](), list[LmmError](), 0
    for question, said in zip(questions, outcomes, strict=True):
        if isinstance(said, LmmError):
            if not isinstance(said, Interrupted):
                failures.append(LmmError(said.message, where=question.where, hint=said.hint))
        elif (read := words(said)) in seen or len(said) >= _LONGEST or contains(read, words(question.text)):
            useless += 1
        else:
            seen.add(read)
            pairs.append((question, replace(question, text=said)))
    return Rewording(
        tuple(pairs),
        len(questions),
        useless=useless,
        failures=tuple(failures),
        usage=client.usage,
        model=client.name,
        interrupted=client.interrupted,
    )


def ask_for(question: Question, prompts: Prompts) -> Ask:
    """Return the request: the question and the words to avoid, without the passage, whose words might be used."""
    avoided = ", ".join(repeated_words(question)) or "the longer words of the question"
    prompt = prompts.fill("reword", question=question.text, words=avoided)
    return Ask(with_schema(ChatRequest((Message("user", prompt),), task="reword"), _schema()), text=question.text)


def row_of(question: Question, reworded: Question) -> dict[str, Any]:
    """Return the row of a reworded question: with the gold data of the original, and its text."""
    given = {key: value for key, value in question.gold.items() if value}
    return {"question": reworded.text, **given, "kind": "reworded", "original": question.text}


@functools.cache
def _schema() -> Schema:
    return object_of(question={"type": "string", "maxLength": _LONGEST})
