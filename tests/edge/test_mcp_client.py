"""MCP servers as tools: real servers, as processes and over HTTP, well-behaved and not."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fakes.mcp_processes import PLAIN, SDK, command, declared, http_server, workplace
from fakes.openai_server import Action, ScriptedServer

import chatmd
from chatmd.config import ChatmdSettings
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.mcp import open_server
from lmm.errors import FetchFailed
from lmm.fetch import CheckedTransport
from lmm.messages import ToolOutput
from lmm.models.port import RunnableTool


def named(tools: Sequence[RunnableTool], name: str) -> RunnableTool:
    return next(tool for tool in tools if tool.definition.name == name)


def names(tools: Sequence[RunnableTool]) -> list[str]:
    return [tool.definition.name for tool in tools]


def called(tool: Tool, place: Run, *calls: tuple[str, dict[str, Any]]) -> list[ToolOutput | str]:
    """What calls return, one after the other; of an error its text."""

    async def run() -> list[ToolOutput | str]:
        results: list[ToolOutput | str] = []
        async with open_server(tool, place) as tools:
            for name, arguments in calls:
                try:
                    results.append(await named(tools, name).call(arguments))
                except ChatmdError as error:
                    results.append(str(error))
        return results

    return asyncio.run(run())


def opening(tool: Tool, place: Run) -> str:
    """What opening a server that cannot be opened says."""
    with pytest.raises(ChatmdError) as caught:
        called(tool, place)
    return str(caught.value)


# -- programs --------------------------------------------------------------------------------------


def test_all_pages_of_a_catalogue_are_read(tmp_path: Path) -> None:
    """The server shows two tools at a time."""

    async def run() -> list[str]:
        async with open_server(declared(command(PLAIN)), workplace(tmp_path)) as tools:
            return names(tools)

    assert asyncio.run(run()) == ["echo", "where", "fail", "sleep"]


def test_a_program_sees_its_folder_and_no_key(tmp_path: Path) -> None:
    """Only what programs need, and what the declaration names; its words reach it as they were quoted."""
    (tmp_path / "inside").mkdir()
    environment = {"WIKI_USER": "me", "WIKI_TOKEN": "tok-12345", "OPENAI_API_KEY": "sk-12345"}
    tool = declared(command(PLAIN, "two words", '"'), env=("WIKI_USER", "WIKI_TOKEN"), cwd="inside")
    (output,) = called(tool, workplace(tmp_path, environment=environment), ("where", {}))
    assert isinstance(output, ToolOutput)
    seen = json.loads(output.text)
    assert Path(seen["cwd"]) == (tmp_path / "inside").resolve()
    assert seen["env"]["WIKI_USER"] == "me"
    assert seen["env"]["WIKI_TOKEN"] == "tok-12345"  # a run takes it out of what the model gets
    assert "OPENAI_API_KEY" not in seen["env"]
    assert seen["argv"] == ["two words", '"']


@pytest.mark.parametrize("server", [command(PLAIN), "https://example.org/mcp"])
@pytest.mark.parametrize("attribute", ["env", "client_id_env", "client_secret_env"])
def test_keys_of_model_providers_are_handed_to_nobody(tmp_path: Path, server: str, attribute: str) -> None:
    """Neither to a program nor to a server behind a URL, by whichever attribute they are named."""
    name = "ANTHROPIC_API_KEY"
    tool = declared(server, **{attribute: (name,) if attribute == "env" else name})
    told = opening(tool, workplace(tmp_path, environment={name: "sk-12345", "S": "s"}))
    assert f'{attribute}="{name}": a key of a model provider is not given to programs or servers' in told
    assert "sk-12345" not in told


def test_the_attribute_that_names_a_key_is_the_one_that_is_told(tmp_path: Path) -> None:
    """Not another one whose name contains it."""
    tool = declared(command(PLAIN), client_id_env="MY_OPENAI_API_KEY", client_secret_env="OPENAI_API_KEY")
    environment = {"OPENAI_API_KEY": "sk-12345", "MY_OPENAI_API_KEY": "x"}
    assert 'client_secret_env="OPENAI_API_KEY": a key' in opening(tool, workplace(tmp_path, environment=environment))


def test_a_failure_is_told_as_one(tmp_path: Path) -> None:
    """The model reads what the server said."""
    (output,) = called(declared(command(PLAIN)), workplace(tmp_path), ("fail", {"why": "no such page"}))
    assert output == ToolOutput("no such page", failed=True)


def test_garbage_on_standard_output_does_no_harm(tmp_path: Path) -> None:
    """Many servers greet there."""
    (output,) = called(declared(command(PLAIN, "garbage")), workplace(tmp_path), ("echo", {"text": "hi"}))
    assert output == ToolOutput("hi")


def test_a_server_that_dies_is_told_of_and_started_anew(tmp_path: Path) -> None:
    """With what it wrote to its standard error, but not with the secret in there; the next call reaches a new one."""
    environment = {"WIKI_TOKEN": "tok-12345"}
    tool = declared(command(PLAIN, "dies"), env=("WIKI_TOKEN",))
    first, second = called(tool, workplace(tmp_path, environment=environment), *[("echo", {"text": "hi"})] * 2)
    for error in (first, second):
        assert "'echo': the server ended before it answered" in str(error)
        assert "cannot go on: …" in str(error)
        assert "tok-12345" not in str(error)


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """After its time; what it wrote helps to see why."""
    error = opening(declared(command(PLAIN, "silent"), timeout=0.5), workplace(tmp_path))
    assert "did not answer within 0.5 seconds" in error
    assert "plain server started" in error


def test_a_catalogue_without_end_is_refused(tmp_path: Path) -> None:
    """Its pages are counted."""
    assert "does not end" in opening(declared(command(PLAIN, "endless")), workplace(tmp_path))


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    """The program, the folder, or a variable is missing."""
    assert "No such file" in opening(declared("stdio:no-such-program-x"), workplace(tmp_path))
    ended = opening(declared("stdio:sh -c 'echo no module >&2'"), workplace(tmp_path))
    assert "it ended before it answered; its standard error:\nno module" in ended
    assert 'cwd="gone" is not a folder' in opening(declared(command(PLAIN), cwd="gone"), workplace(tmp_path))
    assert "variable NOPE is not set" in opening(declared(command(PLAIN), env=("NOPE",)), workplace(tmp_path))


def test_a_slow_call_is_given_up_and_the_server_told(tmp_path: Path) -> None:
    """It hears that nobody waits any more, and goes on answering others."""
    tool = declared(command(PLAIN), timeout=1.0)
    slow, after = called(tool, workplace(tmp_path), ("sleep", {"seconds": 1.5}), ("where", {}))
    assert "'sleep': no answer within 1 seconds" in str(slow)
    assert isinstance(after, ToolOutput)
    assert len(json.loads(after.text)["cancelled"]) == 1


def test_a_cancelled_call_reaches_the_server(tmp_path: Path) -> None:
    """The user pressed Ctrl-C: the connection stays fit for the next call."""

    async def run() -> str:
        async with open_server(declared(command(PLAIN)), workplace(tmp_path)) as tools:
            call = asyncio.create_task(_text(named(tools, "sleep"), {"seconds": 1.0}))
            await asyncio.sleep(0.3)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            return await _text(named(tools, "where"), {})

    assert len(json.loads(asyncio.run(run()))["cancelled"]) == 1


async def _text(tool: RunnableTool, arguments: dict[str, Any]) -> str:
    return (await tool.call(arguments)).text


def test_calls_may_run_side_by_side_and_from_any_task(tmp_path: Path) -> None:
    """As a reply with several calls makes them."""

    async def run() -> list[str]:
        async with open_server(declared(command(SDK)), workplace(tmp_path)) as tools:
            echo = named(tools, "echo")
            return await asyncio.gather(*(_text(echo, {"text": str(number)}) for number in range(20)))

    assert asyncio.run(run()) == [str(number) for number in range(20)]


def test_odd_tools_are_made_fit_for_providers(tmp_path: Path) -> None:
    """Names, missing descriptions, schemas without properties; and nothing is fetched that a schema refers to."""

    async def run() -> dict[str, Any]:
        async with open_server(declared(command(PLAIN, "dirty")), workplace(tmp_path)) as tools:
            assert (await named(tools, "docs_search_all_pages").call({})).text == "{}"
            return {tool.definition.name: tool.definition.parameters for tool in tools}

    offered = asyncio.run(run())
    assert offered["docs_search_all_pages"] == {"type": "object", "properties": {}}
    assert offered["either"]["properties"] == {"a": {"type": "string"}, "b": {}}


def test_a_result_of_all_kinds(tmp_path: Path) -> None:
    """And one against the server's own schema, which is the server's affair."""
    rich, structured, broken = called(
        declared(command(SDK)), workplace(tmp_path), ("rich", {}), ("structured", {}), ("broken", {})
    )
    assert isinstance(rich, ToolOutput)
    assert len(rich.images) == 1
    assert "A <resource> leaf." in rich.text
    assert structured == ToolOutput('{"found": ["ä"]}')
    assert isinstance(broken, ToolOutput)


# -- HTTP ------------------------------------------------------------------------------------------

SECRETS = {"CLIENT": "my-client", "SECRET": "very-secret-123", "TOKEN": "token-very-long-1"}


def test_a_server_behind_a_url(tmp_path: Path) -> None:
    """On this machine, since the author of the prompt says so."""
    with http_server() as url:
        (output,) = called(declared(url), workplace(tmp_path), ("echo", {"text": "hi"}))
    assert output == ToolOutput("hi")
    assert "attempts failed" in opening(declared(url), workplace(tmp_path))


def test_credentials_are_sent_as_credentials_and_written_nowhere(tmp_path: Path) -> None:
    """A token; a client with its secret, which gets a token. Neither is in a URL, a log, a result or an error."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    said: list[ToolOutput | str] = []
    place = workplace(tmp_path, environment=SECRETS)
    try:
        with http_server("--token", SECRETS["TOKEN"]) as url:
            said.append(opening(declared(url), place))
            said += called(declared(url, client_secret_env="TOKEN"), place, ("echo", {"text": "in"}))
        with http_server("--client", SECRETS["CLIENT"], SECRETS["SECRET"]) as url:
            both = {"client_id_env": "CLIENT", "client_secret_env": "SECRET"}
            said += called(declared(url, **both), place, ("echo", {"text": "in"}))
            said.append(opening(declared(url, **{**both, "client_secret_env": "TOKEN"}), place))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    outside, token, client, wrong = said
    assert token == client == ToolOutput("in")
    assert "requires credentials" in str(outside)
    assert "TOKEN may be wrong" in str(wrong)
    written = log.getvalue() + repr(said)
    assert log.getvalue()
    assert not [secret for secret in (SECRETS["SECRET"], SECRETS["TOKEN"], "issued-token-xyz") if secret in written]


def test_a_secret_goes_to_who_issued_it(tmp_path: Path) -> None:
    """A server that sends us elsewhere to log in does not get it there, unless the author says that it may."""
    place = workplace(tmp_path, environment=SECRETS)
    client = {"client_id_env": "CLIENT", "client_secret_env": "SECRET"}
    with http_server("--client", SECRETS["CLIENT"], SECRETS["SECRET"]) as other:
        issuer = other.removesuffix("/mcp")
        with http_server("--client", SECRETS["CLIENT"], SECRETS["SECRET"], "--elsewhere", issuer) as url:
            assert "issuer" in opening(declared(url, **client), place)
            assert called(declared(url, issuer=issuer, **client), place, ("echo", {"text": "in"})) == [ToolOutput("in")]


def test_a_secret_is_never_sent_in_the_clear(tmp_path: Path) -> None:
    """Nor a half of credentials."""
    place = workplace(tmp_path, environment=SECRETS)
    assert "unencrypted" in opening(declared("http://93.184.216.34/mcp", client_secret_env="TOKEN"), place)
    assert "needs a secret" in opening(declared("https://example.org/mcp", client_id_env="CLIENT"), place)
    assert "GONE is not set" in opening(declared("https://example.org/mcp", client_secret_env="GONE"), place)


@pytest.mark.parametrize("url", ["http://169.254.169.254/mcp", "http://10.0.0.1/mcp", "http://[fe80::1]/mcp"])
def test_addresses_that_are_not_public_are_refused(url: str, tmp_path: Path) -> None:
    """A cloud's metadata, a router: whoever wrote the prompt."""
    assert "is not a public address" in opening(declared(url), workplace(tmp_path))


def test_a_name_that_means_this_machine_is_not_this_machine() -> None:
    """What a name leads to is checked when it is used, also if the first server was on this machine."""

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def get(loopback: bool, url: str) -> int:
        import httpx2

        transport = CheckedTransport(ChatmdSettings().fetching, None, loopback=loopback, resolve=rebinding)
        async with httpx2.AsyncClient(transport=transport) as client:
            return (await client.get(url)).status_code

    with http_server() as url:
        elsewhere = url.replace("127.0.0.1", "rebound.example.org")
        for loopback in (True, False):
            with pytest.raises(FetchFailed, match="not a public address"):
                asyncio.run(get(loopback, elsewhere))
        with pytest.raises(FetchFailed, match="not a public address"):
            asyncio.run(get(False, url))
        assert asyncio.run(get(True, url)) in (400, 405, 406)


def test_no_proxy_of_the_environment_sees_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could read what we send."""
    monkeypatch.setitem(os.environ, "HTTP_PROXY", "http://127.0.0.1:9")
    with http_server() as url:
        assert called(declared(url), workplace(tmp_path), ("echo", {"text": "hi"})) == [ToolOutput("hi")]


def test_a_server_that_is_gone_and_back(tmp_path: Path) -> None:
    """A call in between fails, and says so; the next one connects anew."""

    async def run() -> list[str]:
        said = []
        with ExitStack() as first:
            url = first.enter_context(http_server())
            async with open_server(declared(url), workplace(tmp_path)) as tools:
                for _ in range(2):
                    try:
                        await named(tools, "crash").call({})
                    except ChatmdError as error:
                        said.append(str(error))
                first.close()
                with http_server("--port", url.split(":")[2].split("/")[0]):
                    said.append(await _text(named(tools, "echo"), {"text": "back"}))
        return said

    crashed, gone, back = asyncio.run(run())
    assert "'crash': the server ended before it answered" in crashed
    assert "cannot connect: " in gone
    assert gone.endswith(("All connection attempts failed", "it closed the connection"))  # it may still be ending
    assert back == "back"


def test_a_run_with_a_server(folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file to the server and back into the file; the model sees the tools, and nobody the secret."""
    monkeypatch.setenv("WIKI_TOKEN", "tok-12345")
    file = folder / "ask.chatmd"
    file.write_text(
        f"""<config model="OpenAICompatible/test" show_tool_call/>
<tool mcp_server='{command(PLAIN)}' includes="echo, where" prefix="wiki_" env="WIKI_TOKEN"/>
<user>Where are you?</user>
"""
    )
    server.queue(Action(calls=(("c1", "wiki_where", "{}"), ("c2", "wiki_echo", '{"text": "hi"}'))), "There.")
    result = chatmd.Chat.open(file).run(yes=True)
    assert result.answer == "There."
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == ["wiki_echo", "wiki_where"]
    sent = json.dumps(server.requests[1].body["messages"])
    assert str(folder.resolve()) in sent
    assert "WIKI_TOKEN" in sent
    assert "tok-12345" not in sent + file.read_text()
    assert "RAW|hi|RAW" in file.read_text()


@pytest.mark.timeout(60)
def test_what_a_server_says_that_arguments_must_match_is_matched_by_the_server(
    folder: Path, server: ScriptedServer
) -> None:
    """A stranger's patterns and schemas can take years: neither arguments nor results are held against them."""
    file = folder / "ask.chatmd"
    file.write_text(f"<tool mcp_server='{command(PLAIN, 'slow')}' include=\"slow\" strict/>\n<user>Go.</user>")
    server.queue(Action(calls=(("c1", "slow", json.dumps({"text": "a" * 40 + "!"})),)), "Done.")
    assert chatmd.Chat.open(file).run(yes=True).answer == "Done."
    assert "a" * 40 + "!" in str(server.requests[1].messages[-1])


def test_two_tools_of_one_name_are_an_error_that_says_what_to_do(folder: Path, server: ScriptedServer) -> None:
    """Names stand in transcripts: so none is changed behind the author's back."""
    tool = f"<tool mcp_server='{command(PLAIN)}' include=\"echo\"/>\n"
    file = folder / "ask.chatmd"
    file.write_text(f'<config model="OpenAICompatible/test"/>\n{tool}{tool}<user>Hi</user>\n')
    with pytest.raises(ChatmdError, match="there are two tools named 'echo'") as caught:
        chatmd.Chat.open(file).run(yes=True)
    assert "prefix" in caught.value.hint
