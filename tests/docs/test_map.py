"""The map of the code leads to files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_map_names_files_that_exist() -> None:
    """Every path on the architecture page; a name without a path stands below the package that it is told of."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:src|tests)/[\w./]+)`", page))
    assert len(paths) > 20
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_the_map_fits_on_two_screens() -> None:
    """It is a map, no list of files."""
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 100
