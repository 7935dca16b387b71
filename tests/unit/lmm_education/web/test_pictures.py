"""Pictures are shown that a text refers to, that are pictures, and that lie where the course does."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from lmm_education.errors import RequestError
from lmm_education.material import Lines, Location, Passage
from lmm_education.web.login import Signer
from lmm_education.web.pictures import LARGEST, Pictures, file_of, media_type, references
from lmm_education.web.rendering import to_html

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><script>alert(1)</script></svg>'


def png() -> bytes:
    """A picture of one white point."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\xff")),
        (b"IEND", b""),
    ]
    chunks = (struct.pack(">I", len(d)) + name + d + struct.pack(">I", zlib.crc32(name + d)) for name, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course with pictures, and files around it that must stay where they are."""
    root = tmp_path / "course"
    for folder in ("notes/figures", ".lmm", "notes/.hidden"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "other/figures").mkdir(parents=True)
    for file in ("notes/figures/leaf.png", "notes/figures/a b.png", ".lmm/x.png", "notes/.hidden/x.png", "top.png"):
        (root / file).write_bytes(png())
    (tmp_path / "private.png").write_bytes(png())
    (tmp_path / "other/figures/far.png").write_bytes(png())
    (root / "notes/drawing.svg").write_bytes(SVG)
    (root / "notes/secret.png").write_text("password = 1")
    (root / "notes/large.png").write_bytes(png() + bytes(LARGEST))
    (root / "notes/out.png").symlink_to(tmp_path / "private.png")
    (root / "notes/circle.png").symlink_to(root / "notes/circle.png")
    return root


def pictures(course: Path) -> Pictures:
    """The pictures of the course, with a key."""
    return Pictures(course, Signer(b"k" * 32))


@pytest.mark.parametrize(
    "address",
    [
        *("figures/leaf.png", "figures/a%20b.png", "./figures/../figures/leaf.png", "figures/leaf.png?v=1"),
        *("../top.png", "drawing.svg"),
    ],
)
def test_pictures_of_a_document(course: Path, address: str) -> None:
    """They have an address, under which they are served as what they are."""
    found = pictures(course).of_document("notes/a.md")(address)
    data, kind = pictures(course).read(found.removeprefix("pictures/"))
    assert (kind, data) == (("image/svg+xml", SVG) if "svg" in address else ("image/png", png()))


@pytest.mark.parametrize(
    "address",
    [
        *("../../private.png", "out.png", "circle.png", "secret.png", "large.png", "nosuch.png", "figures", "", "."),
        *("../.lmm/x.png", ".hidden/x.png", "/etc/passwd", "file:///etc/passwd", "http://host/x.png", "//host/x.png"),
        *(
            "..%2f..%2fprivate.png",
            "%2e%2e/%2e%2e/private.png",
            "..\\..\\private.png",
            "a\0.png",
            "a" * 5000,
            "[",
            "//[",
        ),
    ],
)
def test_what_is_not_shown(course: Path, address: str) -> None:
    """Outside, hidden, no picture, too large, or not there: the text stands for it."""
    assert pictures(course).of_document("notes/a.md")(address) == ""


def test_notes_from_another_folder(course: Path) -> None:
    """Their pictures lie beside them; what is beside their folder is not theirs."""
    of_far = pictures(course).of_document("../other/far.md")
    assert of_far("figures/far.png")
    assert not of_far("../private.png")
    assert of_far("../course/top.png")  # which is the course's
    elsewhere = Pictures(course, Signer(b"k" * 32), inside=True).of_document("../other/far.md")  # says a server's store
    assert not elsewhere("figures/far.png")
    assert elsewhere("../course/top.png")


@given(st.text(), st.text())
def test_addresses_that_we_did_not_make(path: str, mac: str) -> None:
    """Are refused, whatever they say."""
    for signed in (path, f"{path}.{mac}", Signer(b"k" * 32).sign("student", "L2V0Yy9wYXNzd2Q")):
        with pytest.raises(RequestError):
            pictures(Path()).read(signed)


def test_a_link_put_in_the_way_later(course: Path) -> None:
    """The file under an address is looked at again."""
    signed = pictures(course).of_document("notes/a.md")("figures/leaf.png").removeprefix("pictures/")
    (course / "notes/figures/leaf.png").unlink()
    (course / "notes/figures/leaf.png").symlink_to(course.parent / "private.png")
    with pytest.raises(RequestError):
        pictures(course).read(signed)


def test_an_answer_shows_what_its_sources_show(course: Path) -> None:
    """And no other picture, even one of the course."""
    place = Location("a", "notes/a.md", Lines(1, 3))
    source = Passage("x", place, "See ![A leaf](figures/leaf.png){width=50%} and ![](../../private.png).")
    of_answer = pictures(course).of_sources([source])
    html = to_html(
        "![A <b>leaf](figures/leaf.png){width=50%}, ![other](drawing.svg) ![p](../../private.png)", picture=of_answer
    )
    assert html.count("<img ") == 1
    assert 'alt="A &lt;b&gt;leaf" loading="lazy">, <span class="picture">other</span>' in html


@given(st.text(max_size=100))
def test_paths_stay_paths(text: str) -> None:
    """Whatever stands in a text."""
    for file in references(f"![a]({text})") | {file_of(text)}:
        assert not file.startswith("/")
        assert not set(file) & {"\\", "\0"}


@given(st.binary(max_size=60))
def test_kinds(data: bytes) -> None:
    """Of any file."""
    assert media_type(data) in ("", "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml")
    assert media_type(b"<!DOCTYPE html>" + data) == ""


@pytest.mark.parametrize("text", ["![a](b " + "c " * 50_000, "![" * 50_000, "![a](" * 20_000, "![a](b" + " " * 50_000])
def test_a_reference_without_end_is_none(text: str) -> None:
    """In linear time: some took the cube of it."""
    assert references(text) == set()


def test_a_beginning_of_comments_is_no_picture() -> None:
    """A kilobyte of them would have taken for ever."""
    assert media_type(b"<!---->" * 146) == ""
    assert media_type(b"<!-- a --> <?xml?>\n<!-- b --><svg >") == "image/svg+xml"
