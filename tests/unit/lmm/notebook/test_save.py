"""Saving into a file that may have changed meanwhile. (Tests with editors and processes: tests/edge/test_saving.py.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.disk.shared import Saved, SharedFile
from lmm.errors import DocumentError, FileReadError
from lmm.markdown import MetadataBlock, parse_markdown_text, serialize
from lmm.messages import Reply
from lmm.notebook.answers import plan, with_replies
from lmm.notebook.chat_log import read_log
from lmm.notebook.edits import is_sound, merge_whole_edits

BASE = "# A\n\n---\n?: why?\n---\nOne.\n"


def answered(text: str, reply: str = "So.") -> str:
    """`text` with its first question answered."""
    blocks = parse_markdown_text(text)
    placed, _ = with_replies(blocks, [(plan(blocks)[0].asks[0], Reply(reply, "M/m"))])
    return serialize(placed)


def save_merged(path: Path, base: str, ours: str) -> Saved:
    """Save what was made of `base`, which the file held when it was read."""
    document = SharedFile.open(path, merge=merge_whole_edits)
    document.base = base
    return document.save(ours, check=is_sound)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document on disk."""
    file = tmp_path / "notes.md"
    file.write_bytes(BASE.encode())
    return file


def test_an_unchanged_file_becomes_ours(path: Path) -> None:
    """Where the author did nothing, what we made is written, byte for byte."""
    ours = answered(BASE)
    saved = save_merged(path, BASE, ours)
    assert (saved.text, saved.merged, saved.side_file) == (ours, False, None)
    assert path.read_bytes() == ours.encode()


def test_what_the_author_wrote_meanwhile_stays(path: Path) -> None:
    """Both changes are in the file; the result says that they were merged."""
    path.write_bytes((BASE + "\nTwo.\n").encode())
    saved = save_merged(path, BASE, answered(BASE))
    assert saved.text == path.read_text() == answered(BASE + "\nTwo.\n")
    assert (saved.merged, saved.side_file) == (True, None)


def test_what_finds_no_place_goes_beside(path: Path) -> None:
    """If the author deleted the block, the file stays theirs and the reply can be read from the side file."""
    path.write_bytes(b"# A\n\nOne.\n")
    saved = save_merged(path, BASE, answered(BASE))
    assert path.read_bytes() == b"# A\n\nOne.\n"
    assert saved.side_file == path.with_name("notes.md.unplaced")
    (block,) = parse_markdown_text(saved.side_file.read_text())
    assert isinstance(block, MetadataBlock)
    assert [(e.prompt, e.reply) for e in read_log(block.values())] == [("why?", "So.")]


def test_the_side_file_grows_and_repeats_nothing(path: Path) -> None:
    """A second run that ends the same way adds nothing; another reply is added after the first."""
    path.write_bytes(b"# A\n\nOne.\n")
    side = save_merged(path, BASE, answered(BASE)).side_file
    assert side is not None
    once = side.read_text()
    save_merged(path, BASE, answered(BASE))
    assert side.read_text() == once
    save_merged(path, BASE, answered(BASE, "Another."))
    assert side.read_text().startswith(once)
    assert "Another." in side.read_text()


def test_nothing_to_say_writes_nothing(path: Path) -> None:
    """A file that already is as it should be is not touched."""
    ours = answered(BASE)
    path.write_bytes(ours.encode())
    before = path.stat().st_mtime_ns
    assert save_merged(path, BASE, ours).text == ours
    assert path.stat().st_mtime_ns == before


def test_line_ends_and_byte_order_mark_survive(path: Path) -> None:
    """A document that the author converted meanwhile keeps the new line ends, and gets the reply with them."""
    theirs = "\ufeff" + BASE.replace("\n", "\r\n")
    path.write_bytes(theirs.encode())
    saved = save_merged(path, BASE, answered(BASE, "So,\n\nso."))
    assert path.read_bytes().decode() == saved.text == answered(theirs, "So,\n\nso.")


def test_a_file_that_is_gone(path: Path) -> None:
    """Nothing is written where the author deleted the file."""
    path.unlink()
    with pytest.raises(FileReadError):
        save_merged(path, BASE, answered(BASE))
    assert list(path.parent.iterdir()) == []


def test_what_the_check_holds_back_is_told_as_that(tmp_path: Path) -> None:
    """Nobody changed the file: the error says why nothing was written, and where ours is."""
    path = tmp_path / "d.md"
    path.write_text(BASE)
    saved = SharedFile.open(path, merge=merge_whole_edits).save(answered(BASE, "So."), check=lambda one, two: False)
    assert (saved.text, saved.held_back, path.read_text()) == (BASE, True, BASE)
    with pytest.raises(DocumentError, match=r"^.*d\.md: nothing was written: .*lmm scan --check"):
        saved.check()
    assert "So." in (tmp_path / "d.md.unplaced").read_text()
