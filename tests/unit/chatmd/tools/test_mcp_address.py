"""Addresses of MCP servers: how they are parsed, and which are refused."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, strategies as st

from chatmd.errors import ChatmdError
from chatmd.tools.mcp import read_address
from lmm.hosts import is_loopback


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_a_command_is_split_as_a_shell_would(words: list[str]) -> None:
    """For any words, without a shell."""
    address = read_address("stdio:" + shlex.join(words))
    assert list(address.command) == words


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("python srv.py", "is not the address"),
        ("ftp://example.org/", "is not the address"),
        ("https://", "is not the address"),
        ("http://example.org:port/", "is not the address"),
        ("http://0177.0.0.256/", "is not the address"),
        ("http://①/mcp", "is not the address"),
        ("http://example.org:0/", "there is no port 0"),
        ("stdio:", "contains no program"),
        ("stdio:python 'srv.py", "cannot be split"),
        ("https://me:pa55w0rd@example.org/mcp", "must not contain a password"),
        ("https://me:pa55w0rd\u2100@example.org/mcp", "is not the address"),
        ("https://[pa55w0rd]@example.org/mcp", "is not the address"),
    ],
)
def test_what_is_no_address_is_refused(written: str, says: str) -> None:
    """The error suggests a valid form, and does not contain a password from the address."""
    with pytest.raises(ChatmdError, match=says) as caught:
        read_address(written)
    assert "pa55w0rd" not in str(caught.value)
    assert caught.value.hint


def test_a_url_is_shown_without_its_query() -> None:
    """The query may contain a key."""
    address = read_address("https://example.org/mcp?key=abc#x")
    assert (address.label, address.origin) == ("https://example.org/mcp", "https://example.org")


def test_this_machine_in_another_notation() -> None:
    """The address in the question and in the rules for this machine is the one that is called."""
    address = read_address("http://0177.1:8000/mcp")
    assert (address.label, address.is_loopback) == ("http://127.0.0.1:8000/mcp", True)


@pytest.mark.parametrize("host", ["localhost.example.org", "127.0.0.1.example.org", "10.0.0.1", "0.0.0.0", ""])
def test_only_this_machine_is_this_machine(host: str) -> None:
    """A name that only begins like it is another machine."""
    assert not is_loopback(host)
