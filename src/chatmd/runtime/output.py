"""Checks of the last reply: a schema, a program, a function; if one fails, the model is asked again."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from chatmd.content.expand import locate
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import AgentSpec
from chatmd.language.transcript import NOTE_TAG, notes_in
from chatmd.tools.command import open_command
from lmm.errors import LmmError
from lmm.messages import Message
from lmm.models.port import RunnableTool
from lmm.models.structured import Mismatch, NoJson, Schema, load_schema, make_schema, shown_schema, valid_records

AGAIN = "This reply is not what was asked for:\n\n{}\n\nReply again, with nothing but the corrected reply."
"""The message sent to the model about a reply that has a problem."""
_RETRIES = 2  # how often the model is asked again, by default


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """Checks replies; `retries` is how often the model is asked again."""

    schema: Schema | None
    check: Callable[[str], object] | None
    program: RunnableTool | None
    retries: int

    async def problem(self, answer: str) -> str:
        """Return what is wrong with a reply, in words for the model; empty if it is accepted."""
        try:
            if self.schema is not None:
                value_in(answer, self.schema)
        except (Mismatch, NoJson) as error:
            return str(error)
        if self.program is not None:
            output = await self.program.call({"arguments": [], "stdin": answer})
            if not output.text.startswith("exit code 0"):
                return output.text
        if self.check is None:
            return ""
        try:
            verdict = await asyncio.to_thread(self.check, answer)
            verdict = await verdict if inspect.isawaitable(verdict) else verdict
        except (ValueError, AssertionError) as error:
            return str(error) or f"{type(error).__name__} in the check"
        return "" if verdict in (None, True, "") else "The check failed." if verdict is False else str(verdict)


def value_in(answer: str, schema: Schema) -> Any:
    """Return the data in a reply.

    Raises:
        Mismatch, NoJson: no data in it fits the schema.
    """
    records = valid_records(answer, schema)
    return records if schema.many else records[0]


async def open_judge(spec: AgentSpec, run: Run, stack: AsyncExitStack) -> AnswerJudge:
    """Return the judge of an agent's replies, with the checks of its file and its caller.

    Raises:
        LmmError: the schema or the check cannot be used.
    """
    options, declared = run.options, spec.output
    schema = schema_of(spec, run)
    retries = options.retries if options.retries is not None else declared.retries if declared else _RETRIES
    program: RunnableTool | None = None
    if declared is not None and declared.check:
        (program,) = await stack.enter_async_context(open_command(declared.tool, run))
    return AnswerJudge(schema, options.check, program, retries)


def schema_of(spec: AgentSpec, run: Run) -> Schema | None:
    """Return the schema that replies must fit: the caller's, else the file's.

    Raises:
        LmmError: the schema is not a JSON file, or cannot be read.
    """
    if run.options.schema is not None:
        return make_schema(run.options.schema)
    if spec.output is None or not spec.output.schema:
        return None
    where = spec.output.span.where
    if not spec.output.schema.lower().endswith(".json"):
        raise ChatmdError(f'schema="{spec.output.schema}" is not a JSON file', where=where, hint="use a JSON schema")
    try:
        return load_schema(str(locate(spec.output.schema, run)))
    except LmmError as error:
        raise ChatmdError(error.message, where=where, hint=error.hint) from error


ABOUT_NOTES = (
    f"A tool's result may end in <{NOTE_TAG}>: the user sent that message while you were at work, and it counts like "
    "any other message of the user."
)


def with_shown(messages: Sequence[Message], schema: Schema | None) -> tuple[Message, ...]:
    """Return messages with the schema after the first instructions, and with what notes in results are, if there are.

    They stay there in every request.
    """
    more = [shown_schema(schema)] if schema is not None else []
    more += [ABOUT_NOTES] if any(notes_in(result.text) for one in messages for result in one.results) else []
    first = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    return (*messages[:first], *(Message("system", text) for text in more), *messages[first:])
