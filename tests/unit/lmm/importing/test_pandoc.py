"""Which Pandoc reads a file: the newest on the machine, if it is new enough."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmm.errors import ConfigError
from lmm.importing import pandoc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs here are shell scripts")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without any Pandoc, whose path is one folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RSTUDIO_PANDOC", raising=False)
    monkeypatch.setattr(pandoc, "_FIXED", ())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    pandoc._said.cache_clear()
    yield tmp_path
    pandoc._said.cache_clear()


def program(folder: Path, version: str, *readers: str) -> str:
    """A program that calls itself this version of Pandoc."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pandoc"
    formats = " ".join(readers)
    path.write_text(f"#!/bin/sh\ncase $1 in --version) echo pandoc {version};; *) echo {formats};; esac\n")
    path.chmod(0o755)
    return str(path.resolve())


def refusal(reader: str) -> str:
    """What is said where a format cannot be read, in one line."""
    with pytest.raises(ConfigError) as caught:
        pandoc.find_pandoc(reader)
    assert "lmmarkdown[import]" in caught.value.hint
    return caught.value.message


def test_none_is_told_with_what_brings_one(machine: Path) -> None:
    """The extra, or Pandoc's own page."""
    assert refusal("docx") == "Pandoc is needed to write markdown, and was not found"


def test_one_that_is_too_old_is_named(machine: Path) -> None:
    """With its version and its place: of all, or of a format."""
    old = program(machine, "2.17.1.1", "docx")
    assert refusal("docx") == f"Pandoc 2.17.1.1 ({old}) is too old: 3.0 and later will do"
    pandoc._said.cache_clear()
    old = program(machine, "3.1.3", "docx")
    assert pandoc.find_pandoc("docx").program == old
    assert refusal("pptx") == f"Pandoc 3.1.3 ({old}) is too old to read pptx: 3.8.3 and later can"


def test_the_newest_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the path, in RStudio, in Quarto."""
    program(machine, "3.6", "docx")
    monkeypatch.setenv("RSTUDIO_PANDOC", str(machine / "rstudio"))
    program(machine / "rstudio", "3.8.3", "docx")
    newest = program(machine / "quarto/tools/x86_64", "3.10", "docx")
    (machine / "quarto/quarto").write_text("#!/bin/sh\n")
    (machine / "quarto/quarto").chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine}:{machine / 'quarto'}")
    assert pandoc.find_pandoc("docx").program == newest
