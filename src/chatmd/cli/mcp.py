"""`lmm mcp`: publish a course and prompt files over the Model Context Protocol."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError
from lmm.hosts import is_loopback
from lmm.server_socket import listen, url_of
from lmm.terminal import DONE

if TYPE_CHECKING:
    from chatmd.mcp_server import PublishedTools

_COURSE = "lmm_education.agent_tools:open_published_course"  # in a package that this one does not import
_SHORTEST_TOKEN = 16
_SILENT_FOR = 300.0  # seconds that a prompt may take; clients give up earlier


@options.command()
@click.option("--prompts", metavar="DIR", type=options.PATH, help="Publish the ChatMD files of this folder.")
@options.flag("--no-course", help="Publish only the prompts.")
@click.option("--http", metavar="[HOST:]PORT", help="Listen on this address instead of standard input and output.")
@options.flag("--public", help="With --http: allow connections from other machines.")
@click.option(
    "--token-env", metavar="NAME", help="With --http: the environment variable with the token that callers must send."
)
@options.flag("--yes", help="Agree to what the prompts' tools can do, without being asked.")
@options.model_option("Answer with this model.")
@options.budget("Send no request that exceeds this in one call of a prompt: 20000 (tokens) or 0.50$.")
@click.option("--course", metavar="NAME", help="The course.")
@options.config
def mcp(
    *,
    prompts: Path | None,
    no_course: bool,
    http: str | None,
    public: bool,
    token_env: str | None,
    yes: bool,
    model: str | None,
    budget: str,
    course: str | None,
    config: Path | None,
) -> int:
    """Publish a course's search and answers, and prompt files, over MCP, to Claude, editors and agents.

    These programs start this command themselves: see docs/mcp.md. Needs the extra `mcp`.
    """
    from chatmd.tools.mcp import check_sdk
    from lmm import loop
    from lmm.disk.folder import check_named

    check_sdk()
    from chatmd.mcp_server import PublishedTools  # which imports the SDK

    if prompts is not None and not prompts.is_dir():
        raise ConfigError("there is no such folder", where=f"--prompts {prompts}")
    if no_course and prompts is None:
        raise ConfigError("there is nothing to publish", where="--no-course", hint="give a folder: --prompts DIR")
    folder = None if prompts is None else check_named(prompts).resolve()
    host, port = _address(http) if http is not None else ("", 0)
    token = _checked(host, public, token_env)
    from chatmd.context import RunOptions

    how = RunOptions(model=model or "", config=config, budget=budget, timeout=_SILENT_FOR, yes=yes)
    library = PublishedTools(folder=folder, options=how, note=terminal.note)
    open_course = None if no_course else partial(pkgutil.resolve_name(_COURSE), config, course, model)
    terminal.log_to_stderr("%(levelname)s %(name)s: %(message)s")  # standard output belongs to the protocol
    with contextlib.suppress(KeyboardInterrupt), listen(host, port) if host else contextlib.nullcontext() as listener:
        loop.run(_serve(library, open_course, listener, public, token))  # until Ctrl-C, or until the client ends it
    return DONE


async def _serve(
    library: PublishedTools,
    open_course: Callable[[], Any] | None,
    listener: socket.socket | None,
    public: bool,
    token: str,
) -> None:
    from chatmd.mcp_server import serve_http, serve_stdio

    async with AsyncExitStack() as stack:
        if open_course is not None:
            library.course = course = await stack.enter_async_context(open_course())
            if course.is_empty:
                terminal.note("nothing has been ingested yet: run lmm ingest PATH; this server need not be restarted")
        if listener is None:
            await serve_stdio(library)
            return
        library.refresh()
        names = terminal.count(len(library.tools), "tool")
        terminal.say(f"{names} at {url_of(listener, '/mcp')}  (Ctrl-C ends it)", err=True)
        await serve_http(library, listener, public=public, token=token)


def _address(written: str) -> tuple[str, int]:
    """Return the host and port of an address.

    >>> _address("8765"), _address("0.0.0.0:80"), _address("[::1]:0")
    (('127.0.0.1', 8765), ('0.0.0.0', 80), ('::1', 0))
    """
    host, _, port = written.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"'{written}' is not a port number", where="--http", hint="as in --http 8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def _checked(host: str, public: bool, token_env: str | None) -> str:
    """Return the token that callers must send; empty if none is required. Without --http, `host` is empty.

    Raises:
        ConfigError: others could call without --public, or the token is missing or too short.
    """
    if not host and (public or token_env):
        raise ConfigError("this needs --http", where="--public" if public else "--token-env")
    if host and not public and not is_loopback(host):
        who = "--public lets others call the tools; with --token-env NAME, only those with the token"
        raise ConfigError(f"{host} can be reached by others", where="--http", hint=who)
    token = os.environ.get(token_env, "") if token_env else ""
    if token_env and len(token) < _SHORTEST_TOKEN:
        raise ConfigError(f"{token_env} has no token of {_SHORTEST_TOKEN} characters or more", where="--token-env",
                          hint=f"export {token_env}=$(openssl rand -hex 24)")  # fmt: skip
    return token
