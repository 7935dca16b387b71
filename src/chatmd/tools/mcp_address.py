"""Where an MCP server is: a program to start, or an address to ask."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from chatmd.content.urls import same_host
from chatmd.errors import ChatmdError

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


@dataclass(frozen=True, slots=True)
class StdioAddress:
    """A program that speaks on its standard input and output; `command` is its name and its arguments."""

    command: tuple[str, ...]

    @property
    def label(self) -> str:
        """For people."""
        return shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """A server behind a URL (streamable HTTP)."""

    url: str

    @property
    def label(self) -> str:
        """For people and logs: without the query, which may hold a key.

        >>> HttpAddress("https://mcp.example.org/v1?key=abc").label
        'https://mcp.example.org/v1'
        """
        return self._parts._replace(query="", fragment="").geturl()

    @property
    def origin(self) -> str:
        """Scheme, host and port.

        >>> HttpAddress("https://mcp.example.org:8443/v1").origin
        'https://mcp.example.org:8443'
        """
        return f"{self._parts.scheme}://{self._parts.netloc}"

    @property
    def is_loopback(self) -> bool:
        """Whether the author names this very machine.

        >>> HttpAddress("http://localhost:8000/mcp").is_loopback, HttpAddress("http://10.0.0.1/").is_loopback
        (True, False)
        """
        return is_this_machine(self._parts.hostname or "")

    @property
    def is_encrypted(self) -> bool:
        return self._parts.scheme == "https"

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url)


Address = StdioAddress | HttpAddress


def is_this_machine(host: str) -> bool:
    """Whether a host's name alone says that it is this machine.

    >>> is_this_machine("127.0.0.1"), is_this_machine("::1"), is_this_machine("localhost.example.org")
    (True, True, False)
    """
    return _LOOPBACK.fullmatch(host) is not None


def read_address(written: str) -> Address:
    """What ``mcp_server="…"`` says. A command is split as a POSIX shell does; no shell ever runs it.

    Raises:
        ChatmdError: it is neither a command nor a URL, or holds a password.

    >>> read_address('stdio:python srv.py --name "my notes"').command
    ('python', 'srv.py', '--name', 'my notes')
    >>> read_address("mcp+https://mcp.example.org/v1").url
    'https://mcp.example.org/v1'
    """
    scheme, colon, rest = written.partition(":")
    if scheme.lower() == "stdio" and colon:
        return StdioAddress(_words(rest))
    url = written[4:] if scheme.lower().startswith("mcp+http") else written
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ChatmdError(f"'{_shown(written)}' is no address of an MCP server",
                          hint='write mcp_server="stdio:COMMAND", or a URL that begins with https://')  # fmt: skip
    if parts.username is not None or parts.password is not None:
        raise ChatmdError("an address must not hold a password: it would be written into logs",
                          hint="name the variables that hold it: client_id_env, client_secret_env")  # fmt: skip
    try:
        return HttpAddress(same_host(url))
    except ValueError as error:
        raise ChatmdError(f"'{_shown(written)}' is no address of an MCP server: {error}",
                          hint="write a URL that begins with https://") from error  # fmt: skip


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ChatmdError(f"the command cannot be split into words: {str(error).lower()}",
                          hint="close the quotes") from None  # fmt: skip
    if not words:
        raise ChatmdError("no command follows 'stdio:'", hint='as in mcp_server="stdio:python server.py"')
    return words


def _shown(written: str) -> str:
    """Without what might be a password, and not too long."""
    return re.sub(r"//[^/@]*@", "//…@", written.partition("?")[0])[:100]
