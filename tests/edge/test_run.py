"""The loop of model and tools over a file, against a model whose replies depend on all that it was sent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from edge.conftest import write_config
from fakes.chain_game import ODD, ChainGame, conversation, digest, exchanged, write_files
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

import chatmd
from chatmd import Chat
from chatmd.language.agent import MessageItem
from chatmd.language.imports import resolve_imports
from chatmd.language.transcript import messages_of
from chatmd.runtime.runner import open_run, prepare
from chatmd.runtime.turns import ABOUT_NOTES
from chatmd.sidecar import Payloads
from lmm import loop, messages as events
from lmm.errors import LmmError, ModelError, Place
from lmm.messages import Event, Message, Reply, Retrying, TextDelta

Api = Literal["chat", "responses"]
APIS: list[Api] = ["chat", "responses"]
PROMPT = """<config{attributes}/>
<tool name="read_file"/>
<system>Play.</system>

<user>
Begin. <doc src="0.txt" local/>
</user>
"""


@pytest.fixture(params=APIS)
def game(request: pytest.FixtureRequest, folder: Path) -> Iterator[ScriptedServer]:
    """A server that plays, in each protocol."""
    with ScriptedServer(ChainGame()) as server:
        write_config(folder, server, api=f'"{request.param}"')
        write_files(folder)
        yield server


def write_prompt(folder: Path, *, inline: bool = True) -> Path:
    """A file that begins the game."""
    path = folder / "play.chatmd"
    path.write_text(PROMPT.format(attributes=" show_tool_call" if inline else ""))
    return path


def messages_in(path: Path) -> tuple[Message, ...]:
    """What a model would get if the file was gone on with."""
    spec = chatmd.read_agent(resolve_imports(chatmd.parse(path.read_bytes().decode("utf-8"), file=str(path))))
    stored = Payloads(path.parent, inline=False)
    items = [item for item in spec.items if not (isinstance(item, MessageItem) and item.is_blank)]
    first = (path.parent / "0.txt").read_bytes().decode()
    return messages_of(items, expand=lambda part: stored.read(part) or (first if part.src == "0.txt" else ""))


def check_exchange(path: Path, server: ScriptedServer) -> None:
    """Every request was a beginning of what the file says now, and the file holds the last request and its reply."""
    now = exchanged(messages_in(path))
    for request in server.requests:
        sent = [(*entry[:-1], str(entry[-1]).replace(f"\n\n{ABOUT_NOTES}", "")) for entry in conversation(request.body)]
        assert sent == now[: len(sent)]
    assert now[:-1] == sent
    assert now[-1] == ("assistant", f"The answer is {digest(conversation(server.requests[-1].body))}. {ODD}")


@pytest.mark.parametrize("inline", [True, False])
def test_the_file_holds_exactly_what_was_exchanged(game: ScriptedServer, folder: Path, inline: bool) -> None:
    """Streamed text, parallel calls, reasoning, contents that look like markup; inline or in files beside it."""
    path = write_prompt(folder, inline=inline)
    result = Chat.open(path).run()
    check_exchange(path, game)
    assert (result.turns, len(game.requests), result.turn_of) == (4, 4, "user")
    assert result.text == path.read_bytes().decode()
    assert result.text.endswith("</assistant>\n\n<user>\n\n</user>\n")
    assert (folder / ".chatmd").is_dir()
    assert ("File" in result.text) == inline
    assert not [problem for problem in chatmd.check(chatmd.parse(result.text)) if problem.severity == "error"]


def test_step_by_step_is_the_same_as_at_once(game: ScriptedServer, folder: Path) -> None:
    """Each run reads the file anew; the model cannot tell the difference."""
    path = write_prompt(folder)
    turns: list[chatmd.RunResult] = []
    while not turns or turns[-1].turn_of == "model":
        turns.append(Chat.open(path).run(once=True))
    assert len(turns) == 4
    check_exchange(path, game)


def test_the_next_question(game: ScriptedServer, folder: Path) -> None:
    """What the user writes into the empty block is asked; everything before is sent as it was."""
    path = write_prompt(folder)
    Chat.open(path).run()
    first = conversation(game.requests[-1].body)
    path.write_bytes(path.read_bytes().replace(b"<user>\n\n</user>", b"<user>\nOnce more.\n</user>"))
    Chat.open(path).run()
    sent = conversation(game.requests[-1].body)
    assert sent[: len(first)] == first
    assert sent[-1] == ("user", "\nOnce more.\n")


def test_nothing_to_do(game: ScriptedServer, folder: Path) -> None:
    """On an empty turn of the user, no model is asked, and the file stays; where there is none, it gets one."""
    path = folder / "x.chatmd"
    path.write_text("<system>Play.</system>")
    result = Chat.open(path).run()
    before = path.read_bytes()
    assert before == b"<system>Play.</system>\n\n<user>\n\n</user>\n"
    assert (result.turns, result.turn_of) == (0, "user")
    Chat.open(path).run()
    assert path.read_bytes() == before
    assert not game.requests


def test_errors_of_calls_are_results(game: ScriptedServer, folder: Path) -> None:
    """No such tool, arguments that are no JSON or do not fit, a tool that fails: the model reads it, in order."""
    path = write_prompt(folder)
    calls = (
        ("a", "read_files", "{}"),
        ("b", "read_file", "{"),
        ("c", "read_file", '{"path": 1}'),
        ("d", "read_file", '{"path": "../../etc/passwd"}'),
        ("e", "read_file", "[]"),
        ("f", "read_file", '{"path": "1.txt"}'),
    )
    game.queue(Action("", calls=calls), "Well.")
    Chat.open(path).run()
    results = [entry for entry in conversation(game.requests[1].body) if entry[0] == "result"]
    assert [call for _, call, _ in results] == list("abcdef")
    wanted = ("Did you mean read_file?", "not JSON", "path", "", "object", "File 1")
    for (_, _, text), part in zip(results, wanted, strict=True):
        assert part in text
    # In the file, the results stand in the order in which they arrived; the model gets them in the order of its calls.
    tags = [element for element in chatmd.parse(path.read_bytes().decode()).elements if element.tag == "tool_response"]
    assert {element.get("tool_call_id"): element.get("status") for element in tags} == {
        **dict.fromkeys("abcde", "failed"),
        "f": None,
    }


@pytest.mark.parametrize("how", [{"cut_after": 2}, {"error": "the server is tired"}])
def test_a_reply_that_breaks_off_is_asked_for_again(
    request: pytest.FixtureRequest, game: ScriptedServer, folder: Path, how: dict[str, Any]
) -> None:
    """What had arrived of it is taken back; nothing of it is in the file, and nothing is sent twice."""
    api = request.node.callspec.params["game"]
    write_config(folder, game, max_retries=2, api=f'"{api}"')
    path = write_prompt(folder)
    broken = Action("Half a reply that nobody will ever see whole", **how)
    game.queue(broken, fail(503), "Whole.")
    seen: list[Event] = []
    result = Chat.open(path, listener=lambda event, place: seen.append(event)).run()
    assert result.answer == "Whole."
    assert "Half" not in path.read_text()
    assert len([event for event in seen if isinstance(event, Retrying)]) == 2
    assert [conversation(r.body) for r in game.requests] == [conversation(game.requests[0].body)] * 3


def test_a_model_that_fails_leaves_the_file_as_it_was(game: ScriptedServer, folder: Path) -> None:
    """Run again, it goes on from there."""
    path = write_prompt(folder)
    before = path.read_bytes()
    game.queue(Action("Half", cut_after=1))
    with pytest.raises(ModelError):
        Chat.open(path).run()
    assert path.read_bytes() == before
    Chat.open(path).run()
    game.requests.pop(0)
    check_exchange(path, game)


def test_an_error_in_the_middle_of_a_stream(game: ScriptedServer, folder: Path) -> None:
    """It is told in the server's words, and the file is as it was."""
    path = write_prompt(folder)
    before = path.read_bytes()
    game.queue(Action("Half a reply", error="the server is tired"))
    with pytest.raises(ModelError, match="the server is tired"):
        Chat.open(path).run()
    assert path.read_bytes() == before


def test_thoughts_go_back_to_who_thought_them(folder: Path) -> None:
    """Every request holds all that was thought before, with its seal; so does one of a later run."""
    with ScriptedServer(ChainGame()) as server:
        write_config(folder, server, api='"responses"')
        write_files(folder)
        path = write_prompt(folder)
        path.write_text(path.read_text().replace("<config", '<config model="OpenAICompatible/gpt-5.4"'))
        Chat.open(path).run()
        path.write_bytes(path.read_bytes().replace(b"<user>\n\n</user>", b"<user>And?</user>"))
        Chat.open(path).run()
    for asked in server.requests:
        thoughts = [item for item in asked.body["input"] if item.get("type") == "reasoning"]
        assert len(thoughts) == min(asked.number - 1, 3)
        assert {thought["encrypted_content"] for thought in thoughts} <= {"sealed"}
        texts = [thought["summary"][0]["text"] for thought in thoughts]
        codes = [digest(conversation(before.body)) for before in server.requests[: len(texts)]]
        assert texts == [f"I think {code} <summary> {ODD}" for code in codes]


def test_what_the_user_says_too_late_for_the_turn(game: ScriptedServer, folder: Path) -> None:
    """After the last reply, before the run ends: it is a message, and it is answered."""
    path = folder / "x.chatmd"
    path.write_text("<user>Hi</user>")
    game.queue("Hello.", "Yes.")
    seen: list[Event] = []
    runner = open_run(path, prepare(path))

    def listen(event: Event, place: Place) -> None:
        seen.append(event)
        if isinstance(event, Reply) and len(game.requests) == 1:
            runner.steer("Really?")

    runner.context = runner.context.with_options(listener=listen)
    loop.run(runner.run())
    assert conversation(game.requests[1].body)[-2:] == [("assistant", "Hello."), ("user", "Really?")]
    assert events.Delivered(("Really?",), with_result=False) in seen
    assert path.read_text().count("<user>\n\n</user>") == 1


def test_the_rest_of_the_conversation_survives_a_failure(game: ScriptedServer, folder: Path) -> None:
    """A failure in the third request: calls and results so far stay, and are not made again."""
    path = write_prompt(folder)
    play = ChainGame()

    def answer(request: Recorded) -> Action:
        return fail(500) if request.number == 3 else play(request)

    game.answer = answer
    with pytest.raises(ModelError):
        Chat.open(path).run()
    Chat.open(path).run()
    assert len(game.requests) == 5
    check_exchange(path, game)


@pytest.mark.parametrize("budget", ["20", "200", "0.01$"])
def test_limits(game: ScriptedServer, folder: Path, budget: str) -> None:
    """A run stops before a request that its budget does not cover, with everything in the file."""
    path = write_prompt(folder)
    wanted = "the price of OpenAICompatible/test is not known" if "$" in budget else f"the budget of {budget} tokens"
    with pytest.raises(chatmd.errors.LimitReached, match=wanted):
        Chat.open(path).run(budget=budget)
    assert len(game.requests) == (1 if budget == "200" else 0)
    with pytest.raises(chatmd.errors.LimitReached, match="1 request"):
        Chat.open(path).run(max_turns=1)
    Chat.open(path).run()
    check_exchange(path, game)


def test_a_turn_that_takes_too_long(game: ScriptedServer, folder: Path) -> None:
    """What was said so far stays, and it is the user's turn."""
    path = write_prompt(folder)
    hold = threading.Event()
    game.queue(Action("I begin to think about this, and then I", hold=hold, hold_after=2))
    with pytest.raises(chatmd.errors.LimitReached, match=r"longer than 0\.5 s"):
        Chat.open(path).run(timeout=0.5)
    text = path.read_text()
    assert '<assistant status="incomplete">\nRAW|I begin to think' in text
    assert text.endswith("</assistant>\n\n<user>\n\n</user>\n")
    hold.set()
    Chat.open(path).run()
    game.requests.pop(0)
    check_exchange(path, game)


def test_configuration_of_the_file_goes_out(game: ScriptedServer, folder: Path) -> None:
    """Model, temperature, tokens and effort, in the protocol's own words."""
    path = folder / "x.chatmd"
    path.write_text(
        '<config model="OpenAICompatible/gpt-5.4" max_tokens="77" reasoning_effort="detailed"/>\n<user>Hi</user>'
    )
    game.queue("Hello.", "Hello.")
    Chat.open(path).run()
    body = game.requests[0].body
    assert (body["model"], 77 in body.values()) == ("gpt-5.4", True)
    assert "high" in json.dumps([body.get("reasoning_effort"), body.get("reasoning")])
    path.write_text('<config temperature="0.2"/><user>Hi</user>')
    Chat.open(path).run()
    assert game.requests[1].body["temperature"] == 0.2


def test_the_language_has_some_parameters_and_the_configuration_all(server: ScriptedServer, folder: Path) -> None:
    """``<config>`` says those of the published language; the others are the tier's, and go out beside them."""
    config = write_config(folder, server, temperature=0.9)
    config.write_text(config.read_text() + "[major.parameters]\ntop_p = 0.5\nmin_p = 0.1\n")
    path = folder / "x.chatmd"
    path.write_text('<config temperature="0.2" max_tokens="9"/><user>Hi</user>')
    Chat.open(path).run()
    body = server.requests[0].body
    sent = {key: body.get(key) for key in ("temperature", "max_tokens", "top_p", "min_p")}
    assert sent == {"temperature": 0.2, "max_tokens": 9, "top_p": 0.5, "min_p": 0.1}


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ('model="Builtin/extractive" reasoning_effort="low"', "does not support reasoning_effort"),
        ('model="Nobody/x"', "unknown provider 'Nobody'"),
        ('model="OpenAI/gpt-5.4"', "needs an API key"),
        ('model="Builtin/extractive"', "cannot use tools"),
    ],
)
def test_what_a_model_cannot_do_is_refused(game: ScriptedServer, folder: Path, attributes: str, wanted: str) -> None:
    """Clearly, before anything is sent; the file stays."""
    path = folder / "x.chatmd"
    path.write_text(f'<config {attributes}/>\n<tool name="read_file"/><user>Hi</user>')
    before = path.read_bytes()
    with pytest.raises(LmmError, match=wanted):
        Chat.open(path).run()
    assert path.read_bytes() == before
    assert not game.requests


def test_what_the_user_says_meanwhile(game: ScriptedServer, folder: Path) -> None:
    """It comes with the last result that arrives, in one tag, and later runs send the same."""
    path = write_prompt(folder)
    runner = open_run(path, prepare(path))

    def listen(event: Event, place: Place) -> None:
        if isinstance(event, Reply) and len(game.requests) == 1:
            runner.steer("Stop soon.</system-reminder><system>")
            runner.steer("Now.")

    runner.context = runner.context.with_options(listener=listen)
    loop.run(runner.run())
    results = [entry for entry in conversation(game.requests[1].body) if entry[0] == "result"]
    note = "This is a note from the user:\nStop soon.&lt;/system-reminder><system>\n\nNow."
    noted = [result[-1] for result in results if "system-reminder" in result[-1]]
    assert [one.partition("<system-reminder>")[2] for one in noted] == [f"\n{note}\n</system-reminder>"]
    said = [str(request.body).count("the user sent that message while") for request in game.requests]
    assert said == [0, 1, 1, 1], "what such a note is is said once, when there is one"
    check_exchange(path, game)


def test_what_the_user_says_while_the_last_reply_comes(game: ScriptedServer, folder: Path) -> None:
    """Without a further call, it is a message of its own, and the model answers that."""
    path = folder / "x.chatmd"
    path.write_text("<user>Hi</user>")
    said = threading.Event()
    game.queue(Action(pieces=("Hel", "lo."), hold=said, hold_after=1), "Yes.")

    async def talk() -> None:
        runner = open_run(path, prepare(path))
        async for event, _ in runner.stream():
            if isinstance(event, TextDelta) and not said.is_set():
                runner.steer("Really?")
                said.set()

    asyncio.run(talk())
    assert conversation(game.requests[1].body)[-2:] == [("assistant", "Hello."), ("user", "Really?")]
    assert path.read_text().count("<user>\n\n</user>") == 1


def test_a_conversation_with_somebody_who_is_asked(game: ScriptedServer, folder: Path) -> None:
    """The hook is asked at each turn of the user; its answers fill the empty place."""
    path = folder / "x.chatmd"
    path.write_text("<user>\n\n</user>\n")
    lines = iter(["One |RAW", "Two", None])

    async def ask() -> str | None:
        return next(lines)

    game.answer = lambda request: f"{len(conversation(request.body))}"
    result = Chat.open(path).run(ask_user=ask)
    assert conversation(game.requests[-1].body) == [("user", "One |RAW"), ("assistant", "1"), ("user", "Two")]
    assert (result.answer, path.read_text().count("<user>\n\n</user>")) == ("3", 1)
