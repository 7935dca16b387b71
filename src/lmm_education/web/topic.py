"""Whether questions and answers are about what the course is for, in its author's words; the aux model judges.

The question is judged while its answer is being made; the beginning of the answer when there is enough of it. Nothing
is shown before both are through: a student who reads a text that then disappears has been told something wrong, and
the API cannot take anything back. The rest streams as always.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import NamedTuple

from lmm.errors import LmmError
from lmm.messages import Attachment, ChatRequest, Message, Retrying, TextDelta, Usage
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import Schema, object_of
from lmm.prompts.templates import Prompts
from lmm_education.answer.answers import Answer, AnswerEvent, Called
from lmm_education.answer.history import LABEL, Exchange, conversation_text

BEGINNING = 400  # characters of an answer by which it is judged
logger = logging.getLogger("lmm.serve")


class Verdict(NamedTuple):
    """What a model thinks, and what it took to ask it."""

    good: bool
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """Checks what is said. `allowed` is the author's text, `refusal` what a student reads instead of an answer.

    `strict`: what cannot be checked is not answered, and the error goes on; else it is answered, and the log told.
    """

    allowed: str
    refusal: str
    strict: bool
    model: Callable[[], ChatModel]
    prompts: Callable[[], Prompts]

    async def stream(
        self, events: AsyncGenerator[AnswerEvent], question: str, history: Sequence[Exchange]
    ) -> AsyncGenerator[AnswerEvent]:
        """The events of an answer, held back until they are through; or an `Answer` that was refused.

        Raises:
            ModelError: it cannot be checked, and the check is strict.
        """
        asked = asyncio.create_task(self._judge("topic_question", _about(question, history)))
        held, through, used = "", False, Usage()
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Answer) and not event.found:  # no model was asked: these are our words
                        yield event
                        return
                    if isinstance(event, Retrying | Called):
                        held, through = "", False
                    if isinstance(event, TextDelta) and not through:
                        held += event.text
                        if len(held) < BEGINNING and not _is_refused(asked):
                            continue
                    if not through and isinstance(event, TextDelta | Answer):
                        beginning = event.text if isinstance(event, Answer) else held
                        through, usage = await self._judge_both(asked, question, beginning)
                        used += usage
                        if not through:
                            yield Answer(question, self.refusal, usage=used, found=False, refused=True)
                            return
                        event = TextDelta(held) if isinstance(event, TextDelta) else event
                    yield replace(event, usage=event.usage + used) if isinstance(event, Answer) else event
        finally:
            asked.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asked

    async def _judge_both(self, asked: asyncio.Task[Verdict], question: str, beginning: str) -> Verdict:
        """The verdict on the question and, if that is good, on the beginning of the answer."""
        first = await asked
        if not first.good:
            return first
        documents = (Attachment(question, "question"), Attachment(beginning[: 2 * BEGINNING], "answer"))
        second = await self._judge("topic_answer", documents)
        return Verdict(second.good, first.usage + second.usage)

    async def _judge(self, prompt: str, documents: tuple[Attachment, ...]) -> Verdict:
        try:
            message = Message("user", self.prompts().fill(prompt, allowed=self.allowed), documents)
            client = Client.of(self.model())
            said = await client.value(Ask(ChatRequest((message,))), _verdict())
            return Verdict(said["allowed"], client.usage)
        except LmmError as error:
            if self.strict:
                raise
            logger.warning("a question is answered without a check: %s: %s", type(error).__name__, error)
            return Verdict(True)


@functools.cache
def _verdict() -> Schema:
    return object_of(allowed={"type": "boolean"})


def _about(question: str, history: Sequence[Exchange]) -> tuple[Attachment, ...]:
    earlier = (Attachment(conversation_text(history), LABEL),) if history else ()
    return (*earlier, Attachment(question, "question"))


def _is_refused(asked: asyncio.Task[Verdict]) -> bool:
    """Whether the question is known to be refused, or could not be judged: then there is nothing to wait for."""
    return asked.done() and (asked.exception() is not None or not asked.result().good)
