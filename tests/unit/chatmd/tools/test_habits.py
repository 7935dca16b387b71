"""What strong models do: patches and arguments with their habits, and what is right for each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden_files import Case, read_cases
from unit.chatmd.tools.turns import results_of

TOOLS = (
    "".join(
        f'<tool name="{name}"/>'
        for name in ("read_file", "read_directory", "search_files", "write_file", "find_and_replace", "apply_patch")
    )
    + '<tool name="show" command="cat"/><tool name="pwd" command="pwd"/>'
)
_FILE = re.compile(r"^--- (?P<name>.+)\n(?P<text>(?:(?!--- ).*(?:\n|\Z))*)", re.MULTILINE)


def contents(folder: Path) -> str:
    """Return all files below a folder, in the form of the golden files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(f"--- {path.relative_to(folder).as_posix()}\n{path.read_bytes().decode()}" for path in files)


@pytest.mark.parametrize("case", read_cases("patch_habits"), ids=str)
def test_patches(case: Case, tmp_path: Path) -> None:
    """Each is applied where it belongs, or refused with what helps, and then nothing is changed."""
    before, _, patch = case.source.partition("<=\n")
    for match in _FILE.finditer(before):
        path = tmp_path / match["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(match["text"].encode())
    was = contents(tmp_path)
    (result,) = results_of(tmp_path, TOOLS, ("apply_patch", {"patch": patch}))
    if not case.after.startswith("!"):
        assert not result.failed, result.text
        assert contents(tmp_path) == case.after
        return
    assert contents(tmp_path) == was
    assert result.failed
    for words in case.expected:
        assert words.removeprefix("! ") in result.text


@pytest.mark.parametrize("case", read_cases("argument_habits"), ids=str)
def test_arguments(case: Case, tmp_path: Path) -> None:
    """Each is understood, or refused with all that is wrong and with what the arguments are."""
    (tmp_path / "a.md").write_text("one\ntwo\nthree\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.md").write_text("other\n")
    name, _, arguments = case.source.removesuffix("\n").partition(" ")
    (result,) = results_of(tmp_path, TOOLS, (name, arguments))
    first, *others = case.expected
    assert result.failed is first.startswith("! "), result.text
    for words in (first.removeprefix("! "), *others):
        assert words in result.text
