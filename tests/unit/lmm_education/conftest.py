"""Tests of courses have their stores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory import temporary_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own."""
    with temporary_folder() as folder:
        yield folder
