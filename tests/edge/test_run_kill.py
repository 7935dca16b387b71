"""A run that is killed, at any moment, leaves a file that the next run goes on from, with nothing made up or lost."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from edge.kills import killed, time_to_answer
from edge.support import MANY, lmm, start
from edge.test_run import messages_in, write_prompt
from fakes.chain_game import ODD, ChainGame, conversation, digest, exchanged, write_files
from fakes.openai_server import Action, Recorded, ScriptedServer

import chatmd
from chatmd.language.transcript import INTERRUPTED, NOT_STARTED, repair

HELPER = '<tool name="read_file"/>\n<system>You help.</system>\n'


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["inline", "beside", "agent"])
def test_killed_at_any_moment(server: ScriptedServer, folder: Path, kind: str) -> None:
    """Killed, then run to its end.

    The file parses at once after it was repaired. In the end each request was a beginning of what the file holds, but
    for a reply that was cut off and asked for again; each call has one response; what was interrupted says so.
    """
    write_files(folder)
    server.answer = _play(kind)
    path = _fresh(folder, kind)
    asking = time_to_answer(server, "run", path.name)
    seen, chance = Counter[str](), random.Random(20261121)
    while seen["killed"] < 6 * MANY:
        path = _fresh(folder, kind)
        server.requests.clear()
        process = start("run", path.name)
        server.wait_for(1)
        seen["killed" if killed(process, asking * chance.random()).code == -signal.SIGKILL else "ended before"] += 1
        before = _complete(repair(_text(path.read_bytes())).text)
        ran = lmm("run", path.name)
        assert ran.code == 0, ran
        _check(path, server, before, seen)


def _play(kind: str) -> Callable[[Recorded], Action]:
    game = ChainGame(rounds=2, parallel=2)

    def answer(request: Recorded) -> Action:
        entries = conversation(request.body)
        if kind != "agent" or entries[0] == ("system", "You help."):
            return game(request)
        if entries[-1][0] == "result":
            return Action(f"The answer is {digest(entries)}. {ODD}")
        return Action("", calls=(("h1", "helper", '{"input":"Play."}'), ("h2", "helper", '{"input":"Play too."}')))

    return answer


def _fresh(folder: Path, kind: str) -> Path:
    """The file as before a run."""
    path = write_prompt(folder, inline=kind != "beside")
    if kind == "agent":
        (folder / "helper.chatmd").write_text(HELPER)
        path.write_text(path.read_text().replace('name="read_file"', 'name="helper" agent="helper.chatmd" local'))
    return path


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="ignore")


def _complete(text: str) -> list[str]:
    """What is complete in a file: the elements with their contents."""
    spec = chatmd.read_agent(chatmd.parse(text))
    assert not spec.unanswered()
    # Of an agent, only the next run can see that it was not started.
    return [repr(item).replace(NOT_STARTED, INTERRUPTED) for item in spec.items if "\\n\\n" not in repr(item)]


def _check(path: Path, server: ScriptedServer, before: list[str], seen: Counter[str]) -> None:
    text = path.read_bytes().decode("utf-8")
    assert not [*path.parent.glob(".chatmd/agents/*.unfinished.*")]
    assert [item for item in _complete(text) if item in before] == before
    now = exchanged(messages_in(path))
    own = [request for request in server.requests if ("system", "You help.") not in conversation(request.body)]
    for request in own:
        sent = conversation(request.body)
        assert sent == now[: len(sent)]
    assert now[:-1] == conversation(own[-1].body)
    assert now[-1] == ("assistant", f"The answer is {digest(now[:-1])}. {ODD}")
    calls = [entry[1] for entry in now if entry[0] == "call"]
    assert [entry[1] for entry in now if entry[0] == "result"] == calls
    seen["interrupted calls"] += text.count(INTERRUPTED)
    seen["replies asked for again"] += len(own) > len({len(conversation(request.body)) for request in own})


@pytest.mark.parametrize("torn", ["<assistant>\nRAW|Because", "<reasoning>\nRAW|They ask", "<assistant>\nBecause"])
def test_a_message_written_behind_a_torn_reply_is_not_taken_for_a_part_of_it(folder: Path, torn: str) -> None:
    """The reply has to be closed or deleted first: nothing is asked, and the file stays."""
    text = f"<user>Why?</user>\n\n{torn}\n<user>And how?</user>\n"
    (folder / "a.chatmd").write_text(text)
    ran = lmm("run", "a.chatmd")
    assert (ran.code, "a.chatmd:3:1: <" in ran.err, "is never closed" in ran.err) == (1, True, True), ran
    assert (folder / "a.chatmd").read_text() == text
