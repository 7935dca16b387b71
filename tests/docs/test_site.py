"""The site is built without a warning: every link and anchor leads somewhere, every page is in its navigation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]


def pages(entry: object) -> list[str]:
    """The files in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    assert isinstance(parts, (list, type({}.values())))
    return [page for part in parts for page in pages(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    """A page that is not, nobody finds on the site."""
    there = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    there.remove("style.md")  # for those who work on it
    assert sorted(pages(NAV)) == sorted(there)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("zensical") is None, reason="needs the extra docs")
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    """`make site`; its links and anchors are checked by --strict."""
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ScriptedModel" in (tmp_path / "build/site/python/index.html").read_text(encoding="utf-8")
