"""The extractive model: it quotes what fits, says what it is, and is the same every time."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest
from hypothesis import given, strategies as st
from strategies import documents, texts

from lmm.errors import ModelRejected
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, Task, TextDelta
from lmm.models.builtin import (
    MAX_QUOTES,
    NAME,
    NOTICE,
    ExtractiveModel,
    answer,
    best_sentences,
    central_sentences,
    key_terms,
    split_sentences,
)
from lmm.models.port import ask

LECTURE = """\
# Leaves

A leaf is green because it holds chlorophyll. Chlorophyll takes up red and blue light.

## Autumn

In autumn the tree takes its chlorophyll back. Then yellow and red colours show.

# Roots

A root takes up water. Roots also hold the tree in the ground:

$$
F = p A
$$

```r
water <- 1  # Water is never quoted from code.
```
"""


def asked(question: str, *, text: str = LECTURE, context: str = "", earlier: tuple[tuple[str, str], ...] = ()) -> str:
    """The reply to a question about `text`, after earlier questions and replies."""
    documents = (Attachment(text), *([Attachment(context, "context")] if context else []))
    messages = [Message("system", "Be kind.")]
    for prompt, reply in earlier:
        messages += [Message("user", prompt), Message("assistant", reply)]
    messages.append(Message("user", question, documents))
    return answer(messages)


def quotes(reply: str) -> list[str]:
    """The quoted lines of a reply."""
    return [line.removeprefix("> ") for line in reply.split("\n") if line.startswith("> ")]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Why is a leaf green?", ["A leaf is green because it holds chlorophyll. (*Leaves*)"]),
        ("What do roots take up?", ["A root takes up water. (*Roots*)"]),
        ("Which colours does autumn show?", ["Then yellow and red colours show. (*Autumn*)"]),
        (
            "What holds the tree in the ground?",
            ["Roots also hold the tree in the ground: (*Roots*)", "$$", "F = p A", "$$"],
        ),
    ],
)
def test_it_quotes_what_fits(question: str, expected: list[str]) -> None:
    """The best sentence is among the quotes, with its heading, and with the equation that it leads to."""
    reply = asked(question)
    found = quotes(reply)
    assert [line for line in found if line in expected] == expected
    assert reply.endswith(NOTICE)
    assert not any("never quoted" in line for line in found)


def test_quotes_stand_in_the_order_of_the_text() -> None:
    """Up to three, each once."""
    found = quotes(asked("chlorophyll, light, water, autumn, colours"))
    assert len(found) == len(set(found)) <= MAX_QUOTES
    places = [LECTURE.index(line.rsplit(" (*", 1)[0]) for line in found]
    assert places == sorted(places)


def test_a_continuation_says_something_new() -> None:
    """What was quoted in this chat is not quoted again."""
    first = asked("Tell me about chlorophyll")
    second = asked("More about chlorophyll", earlier=(("Tell me about chlorophyll", first),))
    assert not set(quotes(first)) & set(quotes(second))


def test_context_is_asked_where_the_text_says_nothing() -> None:
    """The text comes first, its surroundings second."""
    about_roots = asked("water?", text="Leaves are green.", context="Roots take up water.")
    assert quotes(about_roots) == ["Roots take up water."]
    assert quotes(asked("leaves?", text="Leaves are green.", context="Leaves take up light.")) == ["Leaves are green."]


@pytest.mark.parametrize(
    ("text", "question", "opening"),
    [
        ("A leaf is green.", "Where is Paris?", "No sentence shares a significant word with the question."),
        ("```r\nx <- 1\n```", "What is x?", "There is no prose to quote."),
        ("", "What is this?", "There is no prose to quote."),
    ],
)
def test_it_says_when_it_has_nothing(text: str, question: str, opening: str) -> None:
    """No pretended answer: what is central is quoted as that, or nothing is."""
    reply = asked(question, text=text)
    assert reply.startswith(opening)
    assert reply.endswith(NOTICE)


def test_without_a_document_it_says_what_it_is() -> None:
    """A first agent, without a key: the reply says what answers, and what to set."""
    reply = answer([Message("user", "Hello")])
    assert reply.startswith("No language model is set, so Builtin/extractive answers:")
    assert "nor use tools" in reply
    assert '<config model="…"/>' in reply


def test_when_everything_was_said() -> None:
    """A chat that has quoted the whole text ends."""
    first = asked("leaf?", text="A leaf is green.")
    again = asked("leaf?", text="A leaf is green.", earlier=(("leaf?", first),))
    assert again == f"There is no sentence left to quote.\n\n{NOTICE}"


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        ("summary", ["Chlorophyll takes up red and blue light. In autumn the tree takes its chlorophyll back."]),
        ("keywords", ["root", "chlorophyll"]),
        ("questions", ["What does the text say about Leaves?", "What does the text say about Autumn?"]),
    ],
)
def test_tasks(task: Task, lines: list[str]) -> None:
    """Summaries are central sentences, keywords frequent words, questions ask for headings and key words."""
    request = ChatRequest((Message("user", "…", (Attachment(LECTURE),)),), task)
    reply = asyncio.run(ask(ExtractiveModel(), request)).text
    assert reply.split("\n")[: len(lines)] == lines


@pytest.mark.parametrize(("task", "message"), [("edit", "cannot edit or write"), ("extract", "cannot extract data")])
def test_what_needs_a_language_model_is_refused(task: Task, message: str) -> None:
    """It never pretends; the hint says how to name a model."""
    with pytest.raises(ModelRejected, match=message) as raised:
        asyncio.run(ask(ExtractiveModel(), ChatRequest((Message("user", "…", (Attachment(LECTURE),)),), task)))
    assert "--model" in raised.value.hint
    assert not raised.value.retryable


@given(documents(), texts())
def test_any_text_any_question(text: str, question: str) -> None:
    """It answers whatever it is given; pieces make up the reply; asked again, it says the same."""
    request = ChatRequest((Message("user", question, (Attachment(text),)),))

    async def collect() -> list[ChatEvent]:
        return [event async for event in ExtractiveModel().stream(request)]

    *pieces, reply = asyncio.run(collect())
    assert isinstance(reply, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == reply.text
    assert reply.text.endswith(NOTICE)
    assert (reply.model, reply.usage.cost, reply.usage.requests) == (NAME, 0.0, 1)
    assert asyncio.run(collect())[-1] == reply


_SENTENCES = [
    "A leaf is green.", "**Roots** are brown!", "*Do leaves fall?*", "(They do, e.g. in autumn.)", "$x$ grows.",
    '"So it is," she said.', "It is 3.5 cm (cf. Fig. 2).", "Wurzeln, z.B. Pfahlwurzeln, wachsen.",
    "Österreich hat Wälder.", "[Oaks](o.md) grow too.",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(_SENTENCES), min_size=1), max_size=5), texts())
def test_quotes_are_verbatim(paragraphs: list[list[str]], question: str) -> None:
    """A quoted sentence stands in the text as it is quoted, markup included, and no more than three are quoted."""
    sentences = split_sentences("# A\n\n" + "\n\n".join(map(" ".join, paragraphs)))
    best, central = best_sentences(sentences, question), central_sentences(sentences, 2)
    assert {sentence.text for sentence in [*best, *central]} <= set(_SENTENCES)
    assert len(best) <= MAX_QUOTES
    assert len(central) <= 2


def test_key_terms_prefer_headings() -> None:
    """Words of headings count twice; a word is shown in the form it mostly has."""
    sentences = split_sentences("# Roots\n\nOak leaves and oak roots. A root, an oak.")
    assert key_terms(sentences, 1) == ["roots"] or key_terms(sentences, 1) == ["root"]
    assert key_terms(sentences, 9)[1] == "oak"
    assert key_terms([], 3) == []


def test_every_task_is_known() -> None:
    """A new task of the port is answered or refused, never taken for another one."""
    assert set(get_args(Task)) == {"answer", "annotate", "summary", "questions", "keywords", "edit", "extract"}
