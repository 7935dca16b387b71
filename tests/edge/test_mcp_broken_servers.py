"""MCP servers that are almost right, or send too much: what is wrong costs that part, not the whole answer."""

from __future__ import annotations

import asyncio
import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from edge.test_mcp_client import called, names, opening
from fakes.mcp_processes import PLAIN, command, declared, workplace

from chatmd.tools.mcp import open_server
from lmm.errors import Place
from lmm.messages import Event, Notice, ToolOutput


def opened(tmp_path: Path, word: str) -> tuple[list[str], list[str], str]:
    """Return the names of the tools that a server offers, the notices, and the description of the first."""
    told: list[str] = []

    def listen(event: Event, place: Place) -> None:
        told.extend([event.text] if isinstance(event, Notice) else [])

    async def run() -> tuple[list[str], str]:
        place = workplace(tmp_path).with_options(listener=listen)
        async with open_server(declared(command(PLAIN, word)), place) as tools:
            return names(tools), tools[0].definition.description

    found, first = asyncio.run(run())
    return found, told, first


def test_a_bad_entry_of_a_catalogue_is_left_out_by_name_and_field(tmp_path: Path) -> None:
    found, told, _ = opened(tmp_path, "broken")
    assert found == ["echo", "where", "fail", "sleep", "untyped"]
    assert [line.partition("the tool ")[2].partition(":")[0] for line in told] == [
        "'bad' is left out",
        "'2' is left out",
        "'3' is left out",
    ]
    assert "its inputSchema: " in told[0]
    assert "its name: " in told[2]


def test_parts_that_cannot_be_read_leave_the_others(tmp_path: Path) -> None:
    """Half a surrogate pair, an unknown kind, images of a wrong, a missing and no type: images are what they are."""
    (output,) = called(declared(command(PLAIN, "broken")), workplace(tmp_path), ("echo", {"text": "x"}))
    assert isinstance(output, ToolOutput)
    assert [image.media_type for image in output.images] == ["image/png", "image/png"]
    first, hologram, no_image, last = output.text.split("\n\n")
    assert (first, last) == ("half \ufffd of a pair", "the end")
    assert "hologram" in hologram
    assert "image" in no_image


def test_an_error_with_the_code_of_a_closed_connection_is_the_servers(tmp_path: Path) -> None:
    """The server goes on, with what it has in memory; a result needs no text."""
    calls = (("fail", {"why": "x"}), ("untyped", {"a": "b"}))
    failed, untyped = called(declared(command(PLAIN, "broken")), workplace(tmp_path), *calls)
    assert str(failed).endswith("'fail': the disk is full; its standard error:\nplain server started\n")
    assert isinstance(untyped, ToolOutput)
    assert untyped.text == '{"a": "b"}'


def test_many_tools_name_the_attribute_that_chooses(tmp_path: Path) -> None:
    found, told, _ = opened(tmp_path, "many")
    assert len(found) == 200
    assert "offers 200 tools (includes=" in told[0]


def test_a_page_without_measure_is_cut(tmp_path: Path) -> None:
    found, told, _ = opened(tmp_path, "page")
    assert len(found) == 1000
    assert "19000 of 20000 tools of one page are left out" in told[0]


def test_instructions_of_a_server_reach_the_model(tmp_path: Path) -> None:
    assert opened(tmp_path, "talks")[2] == (
        "Say it again.\n\nThe server says about all its tools: Search before you answer."
    )


def test_a_result_is_as_long_as_a_tool_may_return(tmp_path: Path) -> None:
    (output,) = called(declared(command(PLAIN), max_output=2000), workplace(tmp_path), ("echo", {"text": "long"}))
    assert isinstance(output, ToolOutput)
    assert len(output.text) < 2100
    assert "characters left out" in output.text


@pytest.mark.parametrize("compressed", [True, False])
def test_an_answer_over_http_is_bounded(tmp_path: Path, *, compressed: bool) -> None:
    """Compressed, it could be of any size; it is not asked for, and not unpacked."""
    body = b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "' + b"a" * 40_000_000 + b'"}}'
    sent = gzip.compress(body, 1) if compressed else body

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            if compressed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            try:
                self.wfile.write(sent)
            except OSError:
                return

        def log_message(self, format: str, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        error = opening(declared(f"http://127.0.0.1:{server.server_port}/mcp", timeout=20.0), workplace(tmp_path))
        server.shutdown()
    assert ("compressed" if compressed else "more than 30 MB") in error
