"""Where an import writes, and what it refuses before it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmm.errors import ConfigError
from lmm.importing.formats import FORMATS, format_of
from lmm.importing.import_document import check_installed, output_of


def test_the_output_lies_beside_the_source_in_a_folder_or_where_it_is_named(tmp_path: Path) -> None:
    """It is always markdown."""
    assert output_of(Path("in/a.b.pdf"), None) == Path("in/a.b.md")
    assert output_of(Path("in/a.pdf"), tmp_path) == tmp_path / "a.md"
    assert output_of(Path("in/a.pdf"), tmp_path / "b.MD") == tmp_path / "b.MD"
    for name in ("b.txt", "b.Rmd", "b.qmd", "b"):
        with pytest.raises(ConfigError, match="the output is markdown"):
            output_of(Path("a.pdf"), tmp_path / name)
    with pytest.raises(ConfigError, match="no such folder"):
        output_of(Path("a.pdf"), tmp_path / "none" / "b.md")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("a.doc", "save it as .docx"), ("a.ppt", "PDF"), ("a.typ", "pandoc"), ("a.md", "lmm ingest"), ("a", ".ipynb")],
)
def test_other_kinds_of_files_are_told_what_to_do(name: str, hint: str) -> None:
    """Instead of half an import."""
    with pytest.raises(ConfigError) as caught:
        format_of(name)
    assert hint in caught.value.hint


def test_a_missing_package_says_which_command_installs_it() -> None:
    """The extra."""
    check_installed(FORMATS[".html"])
    with pytest.raises(ConfigError, match=r"lmmarkdown\[import\]"):
        check_installed(replace(FORMATS[".pdf"], needs=("no_such_package_at_all",)))
