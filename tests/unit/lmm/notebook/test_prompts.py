"""Requests for edits and texts, and what strong models reply to them (tests/golden/prompts/*.md): before and now."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

import pytest
from golden_files import GOLDEN

from lmm import Document
from lmm.messages import dialogue_text
from lmm.testing import ScriptedModel


@dataclass(frozen=True)
class Reply:
    """A case: the document, the request, and a reply to it; those of before, too."""

    title: str
    document: str
    old_request: str
    old_reply: str
    request: str
    reply: str

    def __str__(self) -> str:
        return self.title


def read(kind: str) -> list[Reply]:
    """The cases of a file."""
    cases = (GOLDEN / "prompts" / f"{kind}.md").read_text(encoding="utf-8").split("\n======== ")[1:]
    parts = (re.split(r"^-------- .+\n", case, flags=re.MULTILINE) for case in cases)
    return [Reply(*first.split("\n", 1), *rest) for first, *rest in parts]


ALL = [*read("edit"), *read("write")]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_request_is_that_of_the_file(case: Reply) -> None:
    """To the letter, system message included; 'briefly' is not said, and the text is sent once."""
    (ask,) = Document.from_text(case.document).requests(model="OpenAI/gpt-4.1-mini")
    assert dialogue_text(ask.request.messages).rstrip() == case.request.rstrip()
    assert "briefly" not in case.request


@dataclass(frozen=True)
class Annotations:
    """A case: a document that lacks annotations of one section; the calls of before and the one of now; replies."""

    title: str
    document: str
    old: tuple[tuple[str, str], ...]
    request: str
    reply: str

    def __str__(self) -> str:
        return self.title


def read_annotations() -> list[Annotations]:
    """The cases of the file."""
    cases = (GOLDEN / "prompts" / "annotate.md").read_text(encoding="utf-8").split("\n======== ")[1:]
    found = []
    for case in cases:
        first, *rest = re.split(r"^-------- .+\n", case, flags=re.MULTILINE)
        title, document = first.split("\n", 1)
        found.append(Annotations(title, document, tuple(zip(rest[:-2:2], rest[1:-2:2], strict=True)), *rest[-2:]))
    return found


ANNOTATED = read_annotations()


@pytest.mark.parametrize("case", ANNOTATED, ids=str)
def test_a_section_is_asked_about_once(case: Annotations) -> None:
    """By the request of the file, eight calls instead of nineteen; all annotations come, as many as were asked for."""
    model = ScriptedModel([case.reply])
    document = Document.from_text(case.document)
    report = document.annotate("summary", "questions", "keywords", model=model)
    assert [dialogue_text(request.messages).rstrip() for request in model.seen] == [case.request.rstrip()]
    made = json.loads(re.sub(r"^```\w*$", "", case.reply, flags=re.MULTILINE))
    assert report.failures == ()
    assert {one.field for one in report.results if one.made} >= made.keys()
    assert len(made.get("questions", [])) <= 5
    assert len(made.get("keywords", [])) <= 10
    assert len(made.get("summary", "").split()) <= 90  # it was asked for 80
    assert not re.search(r"^ *- (?:\d+[.)]|[-*] )", document.text.partition("~questions_")[2], re.MULTILINE)


def outcome(case: Reply, reply: str) -> str:
    """What becomes of a reply: a text, no edit, or a warning of something lost or doubtful."""
    document = Document.from_text(case.document)
    if document.answer(model=ScriptedModel([reply] * 2), again=True).failures:
        return "no edit"
    (edit,) = document.edits
    doubts = [warning for warning in edit.warnings if "drops" in warning or "may be a remark" in warning]
    return "warned" if doubts else "text"


def test_replies_keep_the_tags_and_lose_nothing() -> None:
    """Where there is something to write, it is between the tags; nothing outside of them is taken for text."""
    tagged = [case for case in ALL if re.search(r"^<new>\n(?s:.+)\n</new>", case.reply, re.MULTILINE)]
    assert len(tagged) == 14
    assert Counter(outcome(case, case.reply) for case in ALL) == {"text": 14, "no edit": 2}
    assert Counter(outcome(case, case.old_reply) for case in ALL) == {"text": 12, "no edit": 4}


OLD = "A leaf is green because of the chlorophyll in its cells. In autumn it breaks down, and others\nbecome visible."
NOTHING = (GOLDEN / "prompts" / "nothing.md").read_text(encoding="utf-8").split("\n\n", 1)[1].splitlines()


@pytest.mark.parametrize("tag", ["", "<none>\n", "<none>"], ids=["no tag", "none", "none, on one line"])
@pytest.mark.parametrize("case", NOTHING)
def test_what_says_that_there_is_no_text_is_no_edit(case: str, tag: str) -> None:
    """As strong models say it, in their words; the prompt stays, and its failure quotes them."""
    prompt, reply = case.split(" | ")
    document = Document.from_text(f"---\n=: {prompt}\n---\n{OLD}\n")
    (failure,) = document.answer(model=ScriptedModel([f"{tag}{reply}"])).failures
    assert (document.edits, str(failure.error).startswith(f"the model wrote no new text: {reply}")) == ((), True)
