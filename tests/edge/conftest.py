"""Fixtures of the end-to-end tests: an empty current folder, the scripted server, a config.toml for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from edge.serving import LEAVES
from fakes.chromium import Browser
from fakes.forked import forking
from fakes.openai_server import ScriptedServer
from memory import temporary_folder

import lmm_education
from lmm.models import tokens

_ON_DISK = ("acp", "chatmd", "compact", "conversation", "demo", "example", "file", "lsp", "mcp", "refine", "run",
            "shell", "side", "tool")  # fmt: skip
"""Tests of ChatMD, whose file tools take what lies below ``/dev`` for the system's."""


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """In memory, where that can be: stores wait for disks."""
    if request.path.name.removeprefix("test_").startswith(_ON_DISK):
        yield tmp_path
        return
    with temporary_folder() as memory:
        yield memory


@pytest.fixture
def forked_readers() -> Iterator[None]:
    """The process that reads a file for an import is a fork of one that has imported what it needs."""
    with forking():
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: empty, and the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small course and its store, made once: to be copied."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "notes").mkdir()
    (folder / "notes/botany.md").write_text(LEAVES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        lmm_education.ingest("notes")
    return folder


@pytest.fixture
def elsewhere() -> Iterator[ThreadingHTTPServer]:
    """Another site, with one page: whatever its server's `page` is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(getattr(self.server, "page", "").encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a file."""
    with temporary_folder() as profile, Browser(profile) as running:
        yield running


@pytest.fixture
def server(folder: Path) -> Iterator[ScriptedServer]:
    """A running scripted server that the current folder's config.toml names as the major model's."""
    tokens._told.clear()  # a port may come again
    tokens._refused.clear()
    with ScriptedServer() as running:
        write_config(folder, running)
        yield running


def write_config(folder: Path, server: ScriptedServer, **options: object) -> Path:
    """A config.toml for the server; the timing keeps failing tests short."""
    values = {"timeout": 20, "max_retries": 0} | options
    lines = "".join(f"{key} = {value}\n" for key, value in values.items())
    file = folder / "config.toml"
    file.write_text(f'[major]\nmodel = "OpenAICompatible/test"\nbase_url = "{server.url}"\n{lines}')
    return file
