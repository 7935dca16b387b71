"""MCP servers as processes, for as long as a test needs them; and what a tool is opened with."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fakes.forked import python

from chatmd.config import ChatmdSettings
from chatmd.context import Run
from chatmd.language.agent import Tool
from lmm.config import load_settings

HERE = Path(__file__).parent
PLAIN, SDK = HERE / "mcp_plain_server.py", HERE / "mcp_sdk_server.py"


def command(server: Path, *words: str) -> str:
    """The ``mcp_server`` that starts a server."""
    return "stdio:" + shlex.join([sys.executable, str(server), *words])


@contextmanager
def http_server(*words: str) -> Iterator[str]:
    """The SDK's server over HTTP; yields its URL."""
    with python(SDK, "--http", *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def declared(server: str, **values: Any) -> Tool:
    """A declaration of a server."""
    return Tool("mcp", "", server=server, **values)


def workplace(folder: Path, *, environment: Mapping[str, str] | None = None, **rules: Any) -> Run:
    """A place with ordinary settings."""
    given = {"PATH": os.environ["PATH"], **(environment or {})}
    return Run(folder.resolve(), load_settings(env={}), ChatmdSettings(**{"tool_timeout": 20.0, **rules}), given)
