"""What waits for an answer in a document, what the model sees of it, and where the replies go."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from lmm import Document
from lmm.errors import LmmError, ModelError, PartlyFailed
from lmm.markdown import parse_markdown_text
from lmm.notebook.pending_prompts import Subject, plan
from lmm.prompts.templates import Prompts
from lmm.testing import ScriptedModel

PROMPTS = Prompts({"edit": "Edit: {prompt}", "write": "Write: {prompt}"})
LECTURE = """\
---
title: Botany
---
# Leaves

A leaf is green.

---
?: why?
---
It holds chlorophyll.

Light feeds it.

## Autumn

---
?: which?
---
In autumn other colours show.

# Roots

Roots are brown.
"""


def subject(text: str) -> Subject:
    """The subject of the only question of `text`."""
    (thread,) = plan(parse_markdown_text(text), title="notes")
    (ask,) = thread.prompts
    return ask.subject


# -- what "the text" is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "---\ntitle: T\n---\n# A\n\n---\n?: q\n---\nOne.\n",
            Subject("paragraph", ("T", "A"), "One.", level=1),
        ),
        (
            "# A\n\nOne.\n\n---\n?: q\n---\nTwo,\nof two lines.\n\nThree.\n\n## B\n\nFour.\n",
            Subject("paragraph", ("A",), "Two,\nof two lines.", level=1),
        ),
        (
            "# A\n\n---\n?: q\n---\n## B {#b}\n\nOne.\n\n---\nkey: x\n---\nTwo.\n\n### C\n\nThree.\n\n## D\n\nFour.\n",
            Subject("section", ("A", "B"), "## B {#b}\n\nOne.\n\nTwo.\n\n### C\n\nThree.", level=2),
        ),
        (
            "---\n?: q\n---\n# A\n\nOne.\n\n---\nkey: x\n---\n## B\n",
            Subject("document", ("A",), "# A\n\nOne.\n\n## B"),
        ),
        (
            "# A\n\nOne.\n\n---\n?: q\n---\n",
            Subject("nothing", ("A",), "", level=1),
        ),
        (
            "# A\n\n---\n?: q\n---\n",
            Subject("nothing", ("A",), "", level=1),
        ),
        (
            "Text.\n\n---\n?: q\n---\nMore.\n",
            Subject("paragraph", ("notes",), "More."),
        ),
        (
            "# A\n\n---\n?: q\n---\n```r\nx <- 1\n\n# comment\n```\n",
            Subject("paragraph", ("A",), "```r\nx <- 1\n\n# comment\n```", level=1),
        ),
        (
            "---\n?: q\n---\n",
            Subject("document", ("notes",), ""),
        ),
        (
            "# A\r\n\r\n---\r\n?: q\r\n---\r\nOne,\r\ntwo.\r\n\r\nThree.\r\n",
            Subject("paragraph", ("A",), "One,\r\ntwo.", level=1),
        ),
    ],
    ids=["alone", "paragraph", "section", "document", "end", "only a heading", "no title", "code", "empty", "CRLF"],
)
def test_subject(text: str, expected: Subject) -> None:
    """A paragraph; a heading with all under it; for the header, the document. No metadata."""
    assert subject(text) == expected


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        ("document", ("T",), "the document 'T'"),
        ("section", ("T", "A"), "the section 'T > A'"),
        ("paragraph", ("T", "A"), "a paragraph of 'T > A'"),
        ("nothing", ("T",), "an empty place in 'T'"),
    ],
)
def test_a_subject_names_its_place(kind: str, path: tuple[str, ...], name: str) -> None:
    """What is shown while the model is asked."""
    assert str(Subject(kind, path, "")) == name


def test_plan_is_in_document_order_with_lines() -> None:
    """One thread per block, its prompts in order, each with the line on which it stands."""
    text = LECTURE.replace("?: which?", "n: 1\n+: and?\nquery: |\n  who\n?:\n")
    threads = plan(parse_markdown_text(text))
    found = [[(ask.line, ask.prompt.word, ask.prompt.text) for ask in thread.prompts] for thread in threads]
    assert found == [[(9, "query", "why?")], [(19, "message", "and?"), (20, "query", "who")]]
    lines = text.split("\n")
    assert [lines[ask.line - 1] for thread in threads for ask in thread.prompts] == ["?: why?", "+: and?", "query: |"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (7, []),
        (8, ["why?"]),
        (9, ["why?"]),
        (10, ["why?"]),
        (11, []),
        (17, ["which?"]),
        (18, ["which?"]),
        (99, []),
        (0, []),
    ],
)
def test_the_prompts_at_a_line(line: int, found: list[str]) -> None:
    """A line in a metadata block, its markers included, names that block's questions; another line is an error."""
    document = Document.from_text(LECTURE)
    with nullcontext() if found else pytest.raises(LmmError, match="prompts are pending at 9, 18"):
        assert [ask.text for ask in document.requests(at=line)] == [f"?: {prompt}" for prompt in found]


# -- what is sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("prompt", "count"), [("?: new", 0), ("+: more", 2), ("query: new", 0), ("message: more", 2)])
def test_what_a_prompt_continues(prompt: str, count: int) -> None:
    """A query starts anew; a message goes on from the last query."""
    log = "~chat_:\n  - query: a\n    ~reply: b\n  - query: c\n    ~reply: d\n  - message: e\n    ~reply: f\n"
    (ask,) = Document.from_text(f"---\n{log}{prompt}\n---\nText.\n").requests()
    said = [message.text for message in ask.request.messages[1:-1]]
    assert said == ["c", "d", "e", "f"][4 - 2 * count :]


# -- where replies go ------------------------------------------------------------------------------


def test_one_of_equal_questions_is_answered() -> None:
    """Where it is asked alone, and where the other one fails."""
    question = "---\n?: why?\n---\nThe same text.\n\n"
    document = Document.from_text(question * 2)
    document.answer(at=6, model=ScriptedModel(["Because."])).check()
    assert document.text.startswith(question)
    assert document.chats[0].reply == "Because."
    document = Document.from_text("---\n?: why?\n?: why?\n---\nText.\n")
    report = document.answer(model=ScriptedModel(["Because.", ModelError("it is down")]))
    assert (len(document.chats), len(document.pending), len(report.failures)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("opened", "reply"),
    [
        ("$$\nx = ", "It is\n\n$$ x = y $$"),
        ("<!-- to do", "A comment ends with `-->`."),
        ("1.  - ```r\n      x", "Write\n\n```r\ny\n```\n"),
    ],
)
def test_a_reply_must_not_close_what_is_open(opened: str, reply: str) -> None:
    """A reply that would end an open construct above, and so vanish in it, is refused with its line."""
    text = f"# A\n\n{opened}\n\n---\n?: help\n---\nText.\n"
    document = Document.from_text(text)
    (failure,) = document.answer(model=ScriptedModel([reply])).failures
    assert "on line 3, which is open" in str(failure.error)
    assert document.text == text
    document.answer(model=ScriptedModel(["Harmless."])).check()
    assert document.pending == ()


# -- replies that are out of date ------------------------------------------------------------------


def told(text: str) -> list[tuple[int, str]]:
    """What is said of the replies in a document."""
    return [(p.line, p.message) for p in Document.from_text(text).problems() if "before the text changed" in p.message]


@pytest.mark.parametrize("before", ["", "# A\n\nB.\n\n", "---\ntitle: T\n---\n\n# A\n\nB.\n\n"])
def test_a_reply_is_out_of_date_when_its_text_has_changed(before: str) -> None:
    """Not by white space, nor by what stands elsewhere; asked anew, it is not any more, and the old reply stays."""
    document = Document.from_text(f"{before}---\n?: why?\n+: and how?\n---\n# Green\n\nA leaf is green.\n")
    document.answer(model=ScriptedModel(["So.", "Thus."]))
    for same in (document.text, document.text.replace("leaf is", "leaf\nis")):
        assert told(same) == []
    changed = Document.from_text(document.text.replace("is green", "is red"))
    first = before.count("\n") + 3
    assert told(changed.text) == [
        (first, "answered before the text changed: 'why?'"),
        (first + 4, "answered before the text changed: 'and how?'"),
    ]
    report = changed.answer(model=ScriptedModel(["Red.", "Redly."]), stale=True)
    assert [result.text for result in report.results] == ["Red.", "Redly."]
    assert [(chat.prompt, chat.reply) for chat in changed.chats] == [
        ("why?", "So."), ("and how?", "Thus."), ("why?", "Red."), ("and how?", "Redly."),
    ]  # fmt: skip
    assert told(changed.text) == []
    assert changed.answer(model=ScriptedModel([]), stale=True).results == ()


def test_an_old_log_without_a_hash_is_silent() -> None:
    """What it was about is not known."""
    assert told("---\n~chat_:\n  - query: why?\n    ~reply: So.\n---\nA leaf.\n") == []


def test_a_dry_run_names_a_prompt_that_could_take_no_reply() -> None:
    """As the run does, which does not ask it."""
    document = Document.from_text("---\n=: shorten\n---\nText\n\n```r\nx\n")
    with pytest.raises(PartlyFailed, match="never closed"):
        document.requests()
    (failure,) = document.answer(model=ScriptedModel([])).failures
    assert "never closed" in str(failure)
