"""Whether questions and answers are about what the course is for, in its author's words; the aux model judges.

The question is judged while its answer is being made; the beginning of the answer when there is enough of it. Nothing
is shown before both are through: a student who reads a text that then disappears has been told something wrong, and
the API cannot take anything back. The rest streams as always.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lmm.errors import LmmError
from lmm.loop import ended
from lmm.markdown.quotations import Quotation
from lmm.messages import Attachment, ChatRequest, Message, Retrying, TextDelta, Usage
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import Schema, object_of
from lmm.prompts.templates import Prompts
from lmm_education.answer.answer import Answer, AnswerEvent, Called
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

    def moderate(self, question: str, history: Sequence[Exchange]) -> ModerationStream:
        """Begin to judge a question; its answer's events go through what comes back."""
        return ModerationStream(self, question, history)

    async def judge(self, prompt: str, documents: tuple[Attachment, ...]) -> Verdict:
        """What the model says to a prompt on some texts.

        Raises:
            ModelError: it cannot be asked, and the check is strict.
        """
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


class ModerationStream:
    """The judging of one answer. `refused` when nothing more is to be said."""

    def __init__(self, check: TopicCheck, question: str, history: Sequence[Exchange]) -> None:
        self.refused = False
        self._check, self._question = check, question
        earlier = (Attachment(conversation_text(history), LABEL),) if history else ()
        documents = (*earlier, Attachment(question, "question"))
        self._asked = asyncio.create_task(check.judge("topic_question", documents))
        self._held, self._through, self._used = "", False, Usage()

    async def checked(self, event: AnswerEvent) -> AnswerEvent | None:
        """What may be told of an event: nothing while its text is held back, a refusal in its place, or all held back.

        Raises:
            ModelError: it cannot be checked, and the check is strict.
        """
        if isinstance(event, Answer) and not event.found:  # no model was asked: these are our words
            return event
        if isinstance(event, Retrying | Called):
            self._held, self._through = "", False
        if not self._through and isinstance(event, Quotation):  # its text is held back; the answer has it
            return None
        if not self._through and isinstance(event, TextDelta):
            self._held += event.text
            # Where the question is refused, or could not be judged, there is nothing to wait for.
            asked = self._asked
            if len(self._held) < BEGINNING and (not asked.done() or (not asked.exception() and asked.result().good)):
                return None
            event = TextDelta(self._held)
        if not self._through and isinstance(event, TextDelta | Answer):
            self._through = await self._judge_both(event.text)
            if not self._through:
                self.refused = True
                return Answer(self._question, self._check.refusal, usage=self._used, found=False, refused=True)
        return replace(event, usage=event.usage + self._used) if isinstance(event, Answer) else event

    async def _judge_both(self, beginning: str) -> bool:
        """Whether the question is good, and the beginning of the answer."""
        first = await self._asked
        self._used += first.usage
        if not first.good:
            return False
        documents = (Attachment(self._question, "question"), Attachment(beginning[: 2 * BEGINNING], "answer"))
        second = await self._check.judge("topic_answer", documents)
        self._used += second.usage
        return second.good

    async def close(self) -> None:
        """Ask no more."""
        self._asked.cancel()
        await ended(self._asked)
