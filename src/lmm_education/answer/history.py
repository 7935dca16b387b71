"""Interpret a question in its conversation, in one of four ways, as the course is configured.

- ``none``: the question is used as it is.
- ``rewrite``: a model rewrites it so that it can be understood alone; the result is searched and answered.
- ``summary``: a model summarises the conversation; the summary is searched and given with the question.
- ``extraction``: a model copies what the question needs from the conversation, to be used in the same way.

In each case, the answering model also sees the last exchange, so that "explain that again, simpler" works, and of a
conversation about an exercise the last four, so that hints do not add up to its solution. Earlier
answers are text by a model about course material: they are passed as a document, never as instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmm.errors import NoValidReply
from lmm.messages import Attachment, ChatRequest, Message
from lmm.models.port import Ask, Flow
from lmm.models.structured import object_of, structured
from lmm.prompts.templates import Prompts
from lmm_education.answer.citations import without_citations

LABEL = "conversation"
_MOST = 8000  # characters of the conversation that are sent, the latest
_LAST = 2000  # characters of an earlier answer that the answering model sees
_SUMMARY_WORDS = 120
_AS_ASKED = "The question, as it was asked:"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Understood:
    """An interpreted question: `search` is looked up, `question` answered, with `background` from the conversation."""

    question: str
    search: str
    background: str = ""


def understanding(mode: str, question: str, history: Sequence[Exchange], prompts: Prompts) -> Flow[Understood]:
    """Ask the aux model for the meaning of the question, in any mode but ``none``."""
    if mode == "summary":
        prompt = prompts.fill("history_summary", words=str(_SUMMARY_WORDS))
    else:
        prompt = prompts.fill(f"history_{mode}", question=question)
    ask = Ask(ChatRequest((Message("user", prompt, (Attachment(conversation_text(history), LABEL),)),)))
    if mode != "rewrite":
        return understood(mode, question, (yield ask).text)
    try:
        (reply,) = yield from structured(ask, object_of(question={"type": "string"}), tier="aux", retries=1)
    except NoValidReply:  # the question cannot be rewritten, and is looked up as it is
        return Understood(question, question)
    return understood(mode, question, reply["question"])


def understood(mode: str, question: str, reply: str) -> Understood:
    """Interpret the aux model's reply.

    A rewritten question is accompanied by the original, and a single word is rejected: small models make such mistakes,
    and nobody sees the rewritten question.

    >>> understood("rewrite", "And why is it green?", "Why is a leaf green?").search
    'Why is a leaf green?'
    >>> understood("rewrite", "And why is it green?", "yes")
    Understood(question='And why is it green?', search='And why is it green?', background='')
    >>> understood("extraction", "And why?", "nothing").background
    ''
    """
    reply = without_citations(reply.strip())  # their numbers now mean other sources
    if not reply:
        return Understood(question, question)
    if mode == "rewrite":
        first = reply.splitlines()[0].strip()
        if len(first.split()) < 2 or first == question:
            return Understood(question, question)
        return Understood(first, first, f"{_AS_ASKED} {question}")
    if mode == "extraction" and reply.lower().strip(' ".') == "nothing":
        return Understood(question, question)
    return Understood(question, f"{question}\n{reply}", reply)


def with_latest(asked: Understood, history: Sequence[Exchange]) -> Understood:
    """Add exchanges to the background. Their source numbers are removed, because they would now mean other sources.

    >>> asked = Understood("Simpler?", "Simpler?")
    >>> print(with_latest(asked, [Exchange("Which colour is a leaf?", "Green [1].")]).background)
    Question: Which colour is a leaf?
    <BLANKLINE>
    Answer: Green.
    """
    answers = (without_citations(each.answer) for each in history)
    excerpts = [answer if len(answer) <= _LAST else f"{answer[:_LAST]} …" for answer in answers]
    text = conversation_text([Exchange(each.question, answer) for each, answer in zip(history, excerpts, strict=True)])
    parts = (text, asked.background) if asked.background.startswith(_AS_ASKED) else (asked.background, text)
    return replace(asked, background="\n\n".join(filter(None, parts)))


def conversation_text(history: Sequence[Exchange]) -> str:
    """Return the conversation as text, the latest part of it.

    >>> print(conversation_text([Exchange("Which colour is a leaf?", "Green [1].")]))
    Question: Which colour is a leaf?
    <BLANKLINE>
    Answer: Green [1].
    """
    return "\n\n".join(map(_in_words, latest(history)))[-_MOST:]


def latest(history: Sequence[Exchange]) -> Sequence[Exchange]:
    """Return the latest part of a conversation, up to the length that a model reads; at least one exchange."""
    length = 0
    for count, exchange in enumerate(reversed(history)):
        length += len(_in_words(exchange))
        if count and length > _MOST:
            return history[-count:]
    return history


def _in_words(exchange: Exchange) -> str:
    return f"Question: {exchange.question}\n\nAnswer: {exchange.answer}"
