"""Requests for edits and texts, and what strong models reply to them (tests/golden/prompts/*.md): before and now."""

from __future__ import annotations

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
    assert Counter(outcome(case, case.old_reply) for case in ALL) == {"text": 11, "no edit": 2, "warned": 3}
