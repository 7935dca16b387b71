"""URLs are checked, shown without what could be a key, and followed to the file behind a page of GitHub."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given, strategies as st

from lmm.errors import FetchFailed
from lmm.fetch import GitHubFile, check_url, github_file, redirected, same_host, shown

SECRET = "hunter2"


@given(
    st.text(),
    st.sampled_from(["https://u:{}@h/p", "http://h/p?k={}", "http://h/#{}", "https://{}@h/?a=b#{}", "x:{}", "//[{}"]),
)
def test_messages_hold_no_secret(text: str, form: str) -> None:
    """Whatever a URL looks like: what is refused does not tell its password, query or fragment."""
    url = form.replace("{}", SECRET) + text
    told = shown(url)
    try:
        check_url(url)
    except FetchFailed as error:
        told += str(error)
    assert SECRET not in told


@given(st.text())
def test_what_is_taken_is_http(text: str) -> None:
    try:
        url = check_url(text)
    except FetchFailed:
        return
    assert url.lower().startswith(("http://", "https://"))
    assert not any(char in url for char in "\r\n\t \\#")


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.data())
def test_every_notation_of_an_ipv4_address_is_that_address(number: int, count: int, data: st.DataObject) -> None:
    """Octal, hexadecimal, in four parts or fewer, with a dot at the end: nobody can read another one out of it."""
    places = [number >> (24 - 8 * place) & 0xFF for place in range(count - 1)]
    parts = [*places, number & (256 ** (5 - count) - 1)]
    notation = st.sampled_from(["{}", "0{:o}", "000{:o}", "0x{:x}", "0X0{:X}"])
    host = ".".join(data.draw(notation).format(part) for part in parts) + data.draw(st.sampled_from(["", "."]))
    assert same_host(f"http://{host}:81/a") == f"http://{IPv4Address(number)}:81/a"


@pytest.mark.parametrize(
    "host",
    [
        *("1.2.3.256", "4294967296", "1.2.3.4.5", "08.1", "a.1", "1..1", "[v1.a]", "[::1%25lo]", "a%00", "%31.0.0.1"),
        *("*", "a,b", "①.②", "\ud800", "a:0", "a:99999", "a:٣"),
    ],
)
def test_what_no_host_is_called(host: str) -> None:
    with pytest.raises(FetchFailed, match="this is not a URL"):
        check_url(f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("https://e.org/a", "/b", "https://e.org/b"),
        ("https://e.org/a", "//f.org/b", "https://f.org/b"),
        ("http://e.org/a", "https://e.org/a", "https://e.org/a"),
        ("http://e.org/a?q", "?r", "http://e.org/a?r"),
    ],
)
def test_redirects(url: str, location: str, target: str) -> None:
    assert redirected(url, location) == target


@pytest.mark.parametrize(
    "location", ["http://e.org/", "javascript:alert(1)", "file:///etc/passwd", "https://a:b@e.org/"]
)
def test_redirects_that_are_refused(location: str) -> None:
    with pytest.raises(FetchFailed, match="it redirects to"):
        redirected("https://e.org/", location)


RAW = "https://raw.githubusercontent.com"


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("https://github.com/o/r/blob/main/a.md", GitHubFile(f"{RAW}/o/r/main/a.md", "a.md")),
        ("https://www.github.com/o/r/blob/v1/d/a.py#L5", GitHubFile(f"{RAW}/o/r/v1/d/a.py", "a.py", (5, 5))),
        ("http://github.com/o/r/blob/x/a.py?plain=1#L20-L10", GitHubFile(f"{RAW}/o/r/x/a.py", "a.py", (10, 20))),
        ("https://github.com/o/r/blob/x/a.py#L3C1-L4C9", GitHubFile(f"{RAW}/o/r/x/a.py", "a.py", (3, 4))),
        ("https://github.com/o/r/raw/x/a.py#readme", GitHubFile(f"{RAW}/o/r/x/a.py", "a.py")),
        ("https://github.com/o/r/blob/feature/b/a.md#L0", GitHubFile(f"{RAW}/o/r/feature/b/a.md", "a.md", (1, 1))),
        ("https://github.com/o/r/tree/main/src", None),
        ("https://github.com/o/r/blob/main", None),
        ("https://github.com.evil.org/o/r/blob/main/a.md", None),
        ("https://e.org/github.com/o/r/blob/main/a.md", None),
        ("https://ann@github.com/o/r/blob/main/a.md", None),
        ("https://[github.com/o/r/blob/main/a.md", None),
    ],
)
def test_files_on_github(url: str, file: GitHubFile | None) -> None:
    assert github_file(url) == file
