"""An agent as a value: what goes in gives what comes out, and the agent that goes on from there."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.transcript import gap, user_text
from chatmd.runtime.agents import Hooks, RunOptions, agreed, tree_for
from chatmd.runtime.live_text import TextTranscript, without_blank_turn
from chatmd.runtime.turns import Conversation
from lmm import loop
from lmm.disk.files import read_document


@dataclass(frozen=True, slots=True)
class Agent:
    """A ChatMD text and how it is run. What it names is relative to `folder`; nothing is written anywhere.

    Called, it answers, and forgets: ``Agent.read("translate.chatmd")("Blatt")``.
    """

    text: str
    folder: Path = Path()
    options: RunOptions = field(default=RunOptions(), repr=False)
    hooks: Hooks = field(default=Hooks(), repr=False, compare=False)

    @classmethod
    def read(cls, path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> Agent:
        """The agent in a file.

        Raises:
            FileReadError: it cannot be read.
        """
        path = Path(path)
        return cls(read_document(path), path.parent, options, hooks)

    def __call__(self, input: str) -> str:
        """The answer to an input."""
        return run_agent(self, input)[0]


def run_agent(agent: Agent, input: str) -> tuple[str, Agent]:
    """What an agent answers to an input, and the agent that has heard it: its text holds all that was said and done.

    So a conversation is a fold, ``reduce(lambda state, input: run_agent(state[1], input), inputs, ("", agent))``.

    Raises:
        InvalidDocument: the text has errors.
        ConsentNeeded: its tools can do more than read in its folder, and nobody agreed to that.
        ModelError, LimitReached: the model did not answer, or the run has used up what it may.

    >>> from lmm.models.testing import ScriptedModel
    >>> counter = Agent("<system>Count.</system>", hooks=Hooks(ScriptedModel(["One.", "Two."])))
    >>> first, counter = run_agent(counter, "Begin.")
    >>> second, counter = run_agent(counter, "Go on.")
    >>> first, second
    ('One.', 'Two.')
    >>> print(counter.text)
    <system>Count.</system>
    <BLANKLINE>
    <user>Begin.</user>
    <BLANKLINE>
    <assistant>
    RAW|One.|RAW</assistant>
    <BLANKLINE>
    <user>Go on.</user>
    <BLANKLINE>
    <assistant>
    RAW|Two.|RAW</assistant>
    <BLANKLINE>
    """
    return loop.run(_run(agent, input))


async def arun_agent(agent: Agent, input: str) -> tuple[str, Agent]:
    """`run_agent` for callers with an event loop."""
    return await loop.run_async(_run(agent, input))


async def _run(agent: Agent, input: str) -> tuple[str, Agent]:
    folder, options = agent.folder.resolve(), agent.options
    text = without_blank_turn(agent.text)
    text += gap(text) + user_text(input)
    tree = await asyncio.to_thread(tree_for, None, folder, options, agent.hooks)
    tree = await asyncio.to_thread(agreed, tree, text, "", folder, options, agent.hooks)
    transcript = TextTranscript(text)
    conversation = Conversation(tree, transcript, folder, ("",), user_turn="")
    try:
        async with asyncio.timeout(options.timeout) as limit, AsyncExitStack() as stack:
            if not await conversation.open(stack):
                raise ChatmdError("the input is empty", hint="say something")
            await conversation.turn(once=options.once)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise LimitReached(f"it took longer than {options.timeout:g} s", hint="allow more: timeout") from error
    return conversation.answer, replace(agent, text=transcript.text)
