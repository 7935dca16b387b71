"""The adapter's traps, each seen on the wire: what goes out, what comes back, and on which loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest
import talking
from edge.conftest import write_config
from edge.support import exchanges_of, wait_until
from fakes.openai_server import Action, ScriptedServer, hang

from lmm import loop
from lmm.config import ModelSettings, Secret
from lmm.config_tables import Parameters
from lmm.errors import ModelRejected
from lmm.messages import Attachment, ChatRequest, Message, Reply, TextDelta, Usage
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel, ask
from lmm.providers import ModelName

QUESTION = ChatRequest((Message("system", "Be brief."), Message("user", "Why?")))
DOCUMENT = "---\n?: q\n---\nText.\n"


def model_for(server: ScriptedServer, provider: str = "OpenAICompatible") -> ChatModel:
    """The adapter on the server."""
    return open_chat(
        ModelSettings(ModelName(provider, "test"), base_url=server.url, api_key=Secret("k", "KEY"), max_retries=0)
    )


@pytest.mark.parametrize("provider", ["Ollama", "LMStudio", "vLLM", "llama.cpp", "OpenAICompatible"])
def test_options_go_out_under_names_that_local_servers_know(
    server: ScriptedServer, folder: Path, provider: str
) -> None:
    """`max_tokens`, not `max_completion_tokens`, which Ollama ignores; the temperature; usage is asked for."""
    config = folder / "config.toml"
    config.write_text(
        f'[major]\nmodel = "{provider}/qwen3:0.6b"\nbase_url = "{server.url}"\nmax_tokens = 77\ntemperature = 0.25\n'
    )
    talking.answered(DOCUMENT)
    body = server.requests[0].body
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("qwen3:0.6b", 77, 0.25)
    assert "max_completion_tokens" not in body
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_parameters_go_out_as_they_are(server: ScriptedServer, folder: Path) -> None:
    """Those of the file and of the header, whatever their names; the header's count more."""
    (folder / "config.toml").write_text(
        f'[major]\nmodel = "OpenAICompatible/m"\nbase_url = "{server.url}"\n'
        "[major.parameters]\ntop_p = 0.5\nnum_ctx = 8192\nmirostat = {tau = 5.0}\n"
    )
    header = "---\nmodel: {major: {temperature: 0.1, parameters: {top_p: 0.9, seed: 7}}}\n---\n\n"
    talking.answered(header + DOCUMENT)
    body = server.requests[0].body
    assert [body[key] for key in ("top_p", "num_ctx", "seed", "temperature")] == [0.9, 8192, 7, 0.1]
    assert (body["mirostat"], body["model"]) == ({"tau": 5.0}, "m")


def test_parameters_of_a_provider_whose_library_sends_only_some() -> None:
    """The others are refused before anything is sent."""
    with pytest.raises(ModelRejected, match=r"takes no parameter 'top_o' .did you mean 'top_p'"):
        open_chat(
            ModelSettings(
                ModelName("Google", "gemini"), api_key=Secret("k", "KEY"), max_retries=0, parameters=Parameters(top_o=1)
            )
        )


def test_options_that_are_not_set_are_not_sent(server: ScriptedServer) -> None:
    """The server's own defaults hold."""
    talking.answered(DOCUMENT)
    assert not {"max_tokens", "max_completion_tokens", "temperature", "tools"} & set(server.requests[0].body)


@pytest.mark.parametrize("provider", ["OpenAI", "Ollama", "OpenAICompatible"])
def test_there_is_one_system_message(server: ScriptedServer, provider: str) -> None:
    """The first message, whatever the number of exchanges."""
    messages = (*QUESTION.messages, Message("assistant", "Because."), Message("user", "And?"))
    loop.run(ask(model_for(server, provider), ChatRequest(messages)))
    assert server.requests[0].messages == [
        ("system", "Be brief."),
        ("user", "Why?"),
        ("assistant", "Because."),
        ("user", "And?"),
    ]


def test_openai_uses_chat_completions_at_openai_base_url(
    server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenAI/… speaks Chat Completions (not the Responses API) to OPENAI_BASE_URL, with the key."""
    (folder / "config.toml").unlink()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("LMM_MODEL_MAJOR", "OpenAI/gpt-4o-mini")
    outcome = talking.answered(DOCUMENT)
    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-test")
    assert outcome.answers[0].model == "OpenAI/gpt-4o-mini"


def test_ollama_at_ollama_base_url(server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ollama/… asks OLLAMA_BASE_URL, and needs no key."""
    (folder / "config.toml").unlink()
    monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
    monkeypatch.setenv("LMM_MODEL_MAJOR", "ollama/llama3.2")
    outcome = talking.answered(DOCUMENT)
    assert (server.requests[0].body["model"], outcome.answers[0].model) == ("llama3.2", "Ollama/llama3.2")


def test_reasoning_does_not_leak(server: ScriptedServer) -> None:
    """What a model thinks is neither in the pieces, nor in the reply, nor sent back."""
    server.queue(Action("The answer.", reasoning="Let me think."))

    async def events() -> list[object]:
        return [event async for event in model_for(server).stream(QUESTION)]

    *pieces, reply = loop.run(events())
    assert isinstance(reply, Reply)
    assert reply.text == "The answer."
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "The answer."
    server.queue(Action("The answer.", reasoning="Let me think."))
    talking.answered("---\n?: one\n+: two\n---\nText.\n")
    assert "think" not in str(server.requests[-1].body)


@pytest.mark.parametrize(
    "circling",
    [
        Action(pieces=("Well.", *("\n<text>\n", "\n\n<text>") * 5_000)),
        Action("Yes.", reasoning="Wait, no. " * 999),
        Action(pieces=("Green.", *("<|im_end|>",) * 100), finish="length"),
        Action(pieces=("Green.", *("\n",) * 9_000)),
        Action(pieces=("Well.\n", *("The leaf is green.\n\n",) * 11)),
        Action(pieces=tuple(f"{n}. What is the residual of case {n}?\n" for n in range(1, 51)) * 20),
        Action(pieces=tuple(f'<source number="{n}">\nThe leaf of 2 trees is green.\n</source>' for n in range(900))),
    ],
    ids=["reply", "thoughts", "token of its template", "newlines", "equal lines", "a long list", "counted"],
)
def test_what_goes_in_circles_is_stopped(server: ScriptedServer, circling: Action) -> None:
    """A small model does not come to an end: neither is its reply waited for, nor does it stand in the file."""
    server.queue(circling)
    outcome = talking.answered(DOCUMENT)
    assert outcome.text == DOCUMENT
    assert "repeated itself" in str(outcome.failures)


def test_no_piece_of_a_stream_is_lost(server: ScriptedServer) -> None:
    """The first piece, which arrives in another kind of event, and empty ones among them."""
    server.queue(Action(pieces=("A", "", "b", "\n", " c", "")))

    async def pieces() -> list[str]:
        return [event.text async for event in model_for(server).stream(QUESTION) if isinstance(event, TextDelta)]

    assert "".join(loop.run(pieces())) == "Ab\n c"  # those that arrive together are joined


def test_pieces_arrive_before_the_end(server: ScriptedServer) -> None:
    """Replies stream: a piece is handed on while the server still holds the rest."""
    release = threading.Event()
    server.queue(Action(pieces=("first", " second"), hold=release, hold_after=1))

    async def first_then_all() -> tuple[str, str]:
        first, text = "", ""
        async for event in model_for(server).stream(QUESTION):
            if isinstance(event, TextDelta):
                first = first or event.text
                release.set()
            elif isinstance(event, Reply):
                text = event.text
        return first, text

    assert loop.run(first_then_all()) == ("first", "first second")


def test_halves_of_a_character_become_one(server: ScriptedServer) -> None:
    """A server may cut a character outside the basic plane between two pieces; a lone half is replaced."""
    server.queue(Action(pieces=("smile \ud83d", "\ude00 and \ud800")))
    reply = loop.run(ask(model_for(server), QUESTION))
    assert reply.text == "smile 😀 and \ufffd"


def test_usage_and_the_output_limit(server: ScriptedServer) -> None:
    """Tokens as the server counts them; no price for models that have none; a cut reply says so."""
    server.queue(Action("One, tw", finish="length", usage=(12, 3)))
    reply = loop.run(ask(model_for(server), QUESTION))
    assert (reply.usage, reply.cut) == (Usage(12, 3, None, 1), True)


def test_documents_are_rendered_before_the_prompt(server: ScriptedServer) -> None:
    """Documents of a message are part of its text, in order."""
    message = Message("user", "Same?", (Attachment("One.", "text", "A"), Attachment("Two.", "context")))
    loop.run(ask(model_for(server), ChatRequest((message,))))
    assert server.requests[0].messages == [
        ("user", '<text from="A">\nOne.\n</text>\n\n<context>\nTwo.\n</context>\n\nSame?')
    ]


# -- loops -----------------------------------------------------------------------------------------


def test_one_model_is_used_again_and_again(server: ScriptedServer) -> None:
    """Successive calls of one model object, also from several threads, all work: no "Event loop is closed"."""
    model = model_for(server)
    assert [loop.run(ask(model, QUESTION)).text for _ in range(3)] == ["Reply to: Why?"] * 3
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: loop.run(ask(model, QUESTION)).text, range(8)))
    assert replies == ["Reply to: Why?"] * 8


def test_a_model_on_loops_of_the_callers_own(server: ScriptedServer) -> None:
    """Even a model that moves from one asyncio.run to the next answers."""
    model = model_for(server)
    assert [asyncio.run(ask(model, QUESTION)).text for _ in range(3)] == ["Reply to: Why?"] * 3


def test_calls_from_inside_a_running_loop(server: ScriptedServer) -> None:
    """The synchronous functions work where a loop runs already, as in Jupyter."""

    async def cell() -> list[str]:
        return [talking.answered(DOCUMENT.replace("q", str(n))).answers[0].text for n in range(2)]

    assert asyncio.run(cell()) == ["Reply to: 0", "Reply to: 1"]


def test_coroutines_on_the_callers_loop(server: ScriptedServer, folder: Path) -> None:
    """`aanswer` and `asave` under asyncio.run, several side by side."""
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"---\n?: {name}\n---\nText.\n")

    async def main() -> list[str]:
        outcomes = await asyncio.gather(
            talking.scanned("a.md"), talking.scanned(folder / "b.md"), talking.asked("---\n?: c\n---\nText.\n")
        )
        return [outcome.results[0].reply.text for outcome in outcomes]

    assert asyncio.run(main()) == ["Reply to: a", "Reply to: b", "Reply to: c"]
    assert exchanges_of(folder / "b.md") == [("b", "Reply to: b")]


def test_the_callers_loop_goes_on_while_a_reply_is_awaited(server: ScriptedServer) -> None:
    """Awaiting a scan blocks nothing else on the caller's loop."""
    release = threading.Event()
    server.queue(hang(release, text="Late."))

    async def main() -> str:
        scanning = asyncio.create_task(talking.asked(DOCUMENT))
        while not server.requests:
            await asyncio.sleep(0.01)
        release.set()
        return str((await scanning).results[0].reply.text)

    assert asyncio.run(main()) == "Late."


def test_a_cancelled_scan_saves_what_had_arrived(server: ScriptedServer, folder: Path) -> None:
    """Cancelling `aanswer` is the coroutine's Ctrl-C: when it is over, the file has the first reply."""
    path = folder / "d.md"
    path.write_text("---\n?: one\n+: two\n---\nText.\n")
    server.queue("Here.", hang())

    async def main() -> None:
        scanning = asyncio.create_task(talking.scanned(path))
        while len(server.requests) < 2:
            await asyncio.sleep(0.01)
        scanning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scanning
        assert exchanges_of(path) == [("one", "Here.")]

    asyncio.run(main())


def test_two_scans_of_one_file_in_one_process(server: ScriptedServer, folder: Path) -> None:
    """The second waits for the first and finds nothing to do; the loop that both share is not blocked."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    release = threading.Event()
    server.queue(hang(release, text="Once."))

    async def main() -> list[int]:
        first = asyncio.create_task(talking.scanned(path))
        while not server.requests:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(talking.scanned(path))
        other = await talking.asked(DOCUMENT.replace("q", "other"))
        release.set()
        return [len(outcome.results) for outcome in (await first, await second, other)]

    assert asyncio.run(main()) == [1, 0, 1]
    assert server.prompts == ["q", "other"]


def test_no_connection_stays_open(server: ScriptedServer, folder: Path) -> None:
    """Between calls no connection is held: a program that ends, or is collected, leaves none unclosed."""
    write_config(folder, server)
    before = threading.active_count()
    talking.answered("---\n?: one\n---\nText.\n\n---\n?: two\n---\nMore.\n")
    wait_until(lambda: threading.active_count() <= before)  # the server's threads live as long as their connections
    assert len(server.requests) == 2


def test_a_host_that_cannot_be_found_is_named(
    server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a typing error, or without a network."""
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("127.0.0.1", "localhost"))

    def fail(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    outcome = talking.answered(DOCUMENT)
    assert "there is no host 'localhost'" in str(outcome.failures[0].error)
