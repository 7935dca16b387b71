"""The files on the map of the code and the names in the documentation exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def test_the_map_names_files_that_exist() -> None:
    """Every path on the architecture page; a name without a path is below its package."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:src|tests)/[\w./]+)`", page))
    assert len(paths) > 20
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_the_map_fits_on_two_screens() -> None:
    """It is a map, not a list of files."""
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 100


_NAME = re.compile(r"`((?:lmm|lmm_education|chatmd)(?:\.[A-Za-z_]\w*)+)(?:`|\()")
_GROUPS = {"lmm.batch_models", "chatmd.tools"}  # names of entry points


def _is_there(name: str) -> bool:
    found, path, (*_, last) = None, "", name.split(".")
    for part in name.split("."):
        path = f"{path}.{part}".removeprefix(".")
        try:
            found = getattr(found, part) if found is not None else importlib.import_module(path)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ImportError:
                return part == last and part in getattr(found, "__annotations__", ())  # a field without a default
    return True


@pytest.mark.parametrize("folder", ["docs", "src"])
def test_names_can_be_imported(folder: str) -> None:
    """Every name of ours, with its package in front, on a page or in a docstring."""
    pages = [page for kind in ("*.md", "*.py") for page in (ROOT / folder).rglob(kind)]
    named = {(page.name, name) for page in pages for name in _NAME.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert {(page, name) for page, name in named if name not in _GROUPS and not _is_there(name)} == set()
