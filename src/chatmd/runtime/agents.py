"""Ask another agent: read its file, run it to its end in memory, and return its answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from chatmd.content.documents import SourceDocument, plain_text
from chatmd.content.expand import locate
from chatmd.context import AgentRequest, Run
from chatmd.errors import LimitReached
from chatmd.language.agent import interpret
from chatmd.language.inputs import set_inputs
from chatmd.language.syntax import parse
from chatmd.language.transcript import gap, user_element_text
from chatmd.runtime.transcript_file import Transcript
from chatmd.runtime.turns import Conversation
from chatmd.sidecar import ExpansionRecord, keep_record
from lmm.disk.files import read_document
from lmm.fetch import fetch
from lmm.urls import name_of


async def ask_agent(run: Run, request: AgentRequest) -> str:
    """The answer of the agent that is asked for; nothing is written to its file, and all is kept in one of its own.

    Raises:
        LimitReached: agents ask agents too deep, or the whole run has used up what it may.
        LmmError: its file cannot be read or has errors, its tools were not agreed to, its model does not answer.
    """
    if request.local:
        path = locate(request.src, replace(run, folder=request.folder))
        text, name, folder = await asyncio.to_thread(read_document, path), str(path), path.parent
    else:
        came = await fetch(request.src, run.rules.fetching)
        text, name, folder = plain_text(SourceDocument.of(came)), request.src, request.folder
    below = replace(run, folder=folder, chain=(*run.chain, name), ask=ask_agent, functions=(), expects=None)
    check_depth(below.chain, run.rules.max_depth)
    if request.values:
        declared = interpret(run.rules.imported(parse(text, file=name)))[0].inputs
        text = set_inputs(text, request.values, declared, file=name)
    if any(not isinstance(part, str) or part.strip() for part in request.input):
        text += gap(text) + user_element_text(request.input)
    transcript = Transcript(text)
    recorded = ExpansionRecord(Path(name), only=True) if run.replay and request.local else None
    conversation = Conversation(below, transcript, recorded=recorded, remote=not request.local, user_turn="")
    try:
        return await conversation.answered()
    finally:  # also what came before an error
        if run.records is not None and transcript.text != text:
            request.kept(keep_record(run.records, name_of(name), transcript.text))


def check_depth(chain: tuple[str, ...], most: int) -> None:
    """See to it that agents do not ask agents without end; the first file counts as none.

    >>> check_depth(("/notes/a.md", "/notes/b.md", "/notes/a.md"), 1)
    Traceback (most recent call last):
    lmm.errors.LimitReached: agents ask each other in a circle: a.md → b.md → a.md (at most 1: max_depth in [chatmd])
    """
    if len(chain) - 1 <= most:
        return
    names = " → ".join(file if "://" in file else Path(file).name for file in chain)
    what = "in a circle" if len(set(chain)) < len(chain) else "too deep"
    raise LimitReached(f"agents ask each other {what}: {names}", hint=f"at most {most}: max_depth in [chatmd]")
