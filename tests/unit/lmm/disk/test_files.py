"""What is read: ordinary files of a size that somebody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.disk.files import MOST, document_lock, read_bytes, real
from lmm.errors import LmmError


def test_a_file_that_says_it_has_terabytes_is_not_read(tmp_path: Path) -> None:
    """It takes no room on the disk, and would take all memory."""
    file = tmp_path / "huge.md"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(LmmError, match=f"more than {MOST:,} bytes"):
        read_bytes(file)


def test_a_link_that_leads_round_in_a_circle(tmp_path: Path) -> None:
    """It is told of as any other file that cannot be read."""
    link = tmp_path / "a.md"
    link.symlink_to("a.md")
    assert real(link) == tmp_path.resolve() / "a.md"
    with document_lock(link), pytest.raises(LmmError):
        read_bytes(link)
