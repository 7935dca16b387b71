"""The tools for single files, called like a run calls them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from unit.chatmd.tools.file_tools import READING, WRITING, call, workplace

from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.files import replace_text
from chatmd.tools.registry import BUILTINS, FunctionTool, kind_of
from lmm.errors import FileReadError, FileWriteError, LmmError
from lmm.models.port import RunnableTool


def definition(name: str, folder: Path) -> dict[str, Any]:
    """Return the definition of a tool for the model."""
    (tool,) = _opened(name, folder)
    return {"name": tool.definition.name, "text": tool.definition.description, "schema": tool.definition.parameters}


def _opened(name: str, folder: Path) -> list[RunnableTool]:
    declared = Tool("builtin", name)

    async def opened() -> list[RunnableTool]:
        async with kind_of(declared).load()(declared, workplace(folder)) as tools:
            return list(tools)

    return asyncio.run(opened())


@pytest.mark.parametrize("name", READING + WRITING)
def test_definitions(tmp_path: Path, name: str) -> None:
    """The schema is closed and valid, describes each argument, and contains no path of this machine."""
    told = definition(name, tmp_path)
    Draft202012Validator.check_schema(told["schema"])
    assert told["name"] == name
    assert told["schema"]["additionalProperties"] is False
    assert all(rule["description"] for rule in told["schema"]["properties"].values())
    assert str(tmp_path) not in json.dumps(told)
    assert "Paths are relative to the working folder" in told["text"]
    with pytest.raises(ValidationError):
        Draft202012Validator(told["schema"]).validate({"path": "a.md", "root": "/"})


def test_what_tools_can_do_is_declared() -> None:
    """Tools that write need consent, tools that read do not."""
    assert [BUILTINS[name].powers for name in READING] == [frozenset({"read"})] * 3
    assert [BUILTINS[name].powers for name in WRITING] == [frozenset({"write"})] * 4


def test_arguments_under_other_names(tmp_path: Path) -> None:
    """`file`, the name in other programs, is accepted for `path`; `path` wins if both are given."""
    (tool,) = _opened("read_file", tmp_path)
    assert isinstance(tool, FunctionTool)
    assert tool.read_arguments('{"file": "a", "offset": 1}') == {"path": "a", "offset": 1}
    assert tool.read_arguments('{"file": "a", "path": "b"}') == {"file": "a", "path": "b"}


# -- read_file ---------------------------------------------------------------------------------------


def test_reading_some_lines(tmp_path: Path) -> None:
    """A header gives the range of lines, a footer the offset of the next ones."""
    (tmp_path / "a.md").write_text("".join(f"line {i}\n" for i in range(1, 11)))
    assert call("read_file", tmp_path, path="a.md", offset=3, line_count=2) == (
        "a.md:3-4:\n[total_lines=10]\n     3\tline 3\n     4\tline 4\n[6 more lines; read on with offset=5]"
    )
    assert call("read_file", tmp_path, path="a.md", offset=10) == "a.md:10-10:\n[total_lines=10]\n    10\tline 10"
    with pytest.raises(ChatmdError, match="it has 10 lines only"):
        call("read_file", tmp_path, path="a.md", offset=11)
    assert call("read_file", tmp_path, path="a.md", offset=0, line_count=1).endswith(
        "     1\tline 1\n[9 more lines; read on with offset=2]"
    )


def test_reading_on_reaches_every_line(tmp_path: Path) -> None:
    """With the offsets of the footers, the whole file is read within the limit, each line with its number."""
    lines = [f"{i} " + "é" * (i % 90) for i in range(500)]
    (tmp_path / "a.md").write_text("\n".join(lines))
    offset, found = 1, []
    while offset <= len(lines):
        text = call("read_file", tmp_path, declared={"max_output": 2000}, path="a.md", offset=offset)
        assert len(text) <= 2000
        shown = [line for line in text.split("\n")[2:] if not line.startswith("[")]
        found += [line.partition("\t")[2] for line in shown]
        assert shown[0].split("\t")[0].strip() == str(offset)
        offset += len(shown)
    assert found == lines


def test_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    """They are not part of lines; CRLF is mentioned."""
    (tmp_path / "a.md").write_bytes("\ufeffa\r\nb\r\n".encode())
    assert (
        call("read_file", tmp_path, path="a.md") == "a.md:1-2:\n[total_lines=2] [line ends: CRLF]\n     1\ta\n     2\tb"
    )


def test_an_empty_file_and_a_long_line(tmp_path: Path) -> None:
    """The result says so; the beginning of the long line is shown."""
    (tmp_path / "empty.md").touch()
    (tmp_path / "long.md").write_text("é" * 100_000 + "\nend\n")
    assert call("read_file", tmp_path, path="empty.md") == "empty.md is empty."
    text = call("read_file", tmp_path, declared={"max_output": 1000}, path="long.md")
    assert len(text) <= 1000
    assert "[line 1 is too long to be shown; these are its first 693 characters]" in text
    assert text.endswith("[1 more line; read on with offset=2]")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\0b", "this is not a text file"),
        ("ab".encode("utf-16"), "iconv -f UTF-16"),
        (b"a\n\xe9t\xe9\n", "a.md:2:1: byte 0xe9 is not UTF-8"),
        (b"x" * 3_000_000 + b"\n\0", ""),
    ],
)
def test_what_is_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    """It is refused if it would be shown."""
    (tmp_path / "a.md").write_bytes(data)
    if message:
        with pytest.raises(FileReadError, match=message):
            call("read_file", tmp_path, path="a.md")
    else:
        assert call("read_file", tmp_path, path="a.md").startswith("a.md:1-1:")


def test_a_name_that_is_almost_right(tmp_path: Path) -> None:
    """Similar names are suggested, in this folder and for this part of the path."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "leaves.md").touch()
    for path in ("notes/leafs.md", "note/leaves.md"):
        with pytest.raises(FileReadError, match=r"did you mean notes(/leaves.md)?\?"):
            call("read_file", tmp_path, path=path)


# -- writing -----------------------------------------------------------------------------------------


def test_write_file(tmp_path: Path) -> None:
    """Folders are created; an existing file is replaced only on request, and keeps its line ends and mode."""
    assert call("write_file", tmp_path, path="new/a.md", content="a\nb") == "Made new/a.md: 2 lines."
    assert (tmp_path / "new/a.md").read_bytes() == b"a\nb"
    with pytest.raises(ChatmdError, match="exists already"):
        call("write_file", tmp_path, path="new/a.md", content="c")
    (tmp_path / "new/a.md").write_bytes(b"a\r\n")
    (tmp_path / "new/a.md").chmod(0o755)
    call("write_file", tmp_path, path="new/a.md", content="c\nd\n", overwrite=True)
    assert (tmp_path / "new/a.md").read_bytes() == b"c\r\nd\r\n"
    assert stat.S_IMODE((tmp_path / "new/a.md").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (None, "a\n", "a\n"),
        ("", "a\n", "a\n"),
        ("a\n", "b", "a\nb"),
        ("a", "b\n", "a\nb\n"),
        ("a\r\nb", "c\nd\n", "a\r\nb\r\nc\r\nd\r\n"),
        ("a\n\n", "", "a\n\n"),
    ],
)
def test_append_to_file(tmp_path: Path, old: str | None, content: str, new: str) -> None:
    """The addition begins on a new line, with the file's line ends; an empty file gets no empty line."""
    if old is not None:
        (tmp_path / "a.md").write_bytes(old.encode())
    call("append_to_file", tmp_path, path="a.md", content=content)
    assert (tmp_path / "a.md").read_bytes() == new.encode()


def test_new_files_honour_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        call("append_to_file", tmp_path, path="a.md", content="a")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a.md").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "find", "replace", "every", "new"),
    [
        ("a b a", "b", "c", False, "a c a"),
        ("a b a", "a", "", True, " b "),
        ("a\r\nb\r\n", "a\nb", "c\nd\ne", False, "c\r\nd\r\ne\r\n"),
        ("\ufeffa\n", "a", "b", False, "\ufeffb\n"),
        ("a.c abc", "a.c", "\\1", False, "\\1 abc"),
        ("aaa", "aa", "b", False, "ba"),
    ],
)
def test_find_and_replace(tmp_path: Path, text: str, find: str, replace: str, every: bool, new: str) -> None:
    """Exact, except that line ends are converted to the file's."""
    (tmp_path / "a.md").write_bytes(text.encode())
    call("find_and_replace", tmp_path, path="a.md", find=find, replace=replace, all=every)
    assert (tmp_path / "a.md").read_bytes() == new.encode()


@pytest.mark.parametrize(
    ("find", "replace", "message"),
    [
        ("x", "y", r"the text is not in the file \(copy it"),
        ("two  words", "y", r"not in the file\.\nDid you mean line 3\?.*\ntwo words"),
        ("a", "y", "the text occurs 2 times, lines 1, 2"),
        ("two", "two", "are the same"),
        ("two", "\0", "cannot contain a NUL"),
        ("two", "\ud800", "surrogate"),
    ],
)
def test_what_is_not_replaced(tmp_path: Path, find: str, replace: str, message: str) -> None:
    """The message gives the reason and a way out; the file does not change."""
    (tmp_path / "a.md").write_text("a\na\ntwo words\n")
    with pytest.raises(ChatmdError, match=message):
        call("find_and_replace", tmp_path, path="a.md", find=find, replace=replace)
    assert (tmp_path / "a.md").read_text() == "a\na\ntwo words\n"


def test_places_are_listed_once() -> None:
    """Several occurrences on one line are one place."""
    assert replace_text("a a\nb\na", "a", "c", "f", every=True)[1] == "Replaced 3 occurrences in f, lines 1, 3."


@pytest.mark.parametrize("name", ["write_file", "append_to_file", "find_and_replace"])
def test_what_cannot_be_edited(tmp_path: Path, name: str) -> None:
    """A file that is read-only, or not text, does not change; nothing is left beside it."""
    text = {"find": "a", "replace": "b"} if name == "find_and_replace" else {"content": "x"}
    arguments: dict[str, Any] = {"path": "a.md", **text, **({"overwrite": True} if name == "write_file" else {})}
    (tmp_path / "a.md").write_text("a\n")
    (tmp_path / "a.md").chmod(0o444)
    with pytest.raises(FileWriteError, match="the file is read-only"):
        call(name, tmp_path, **arguments)
    (tmp_path / "a.md").chmod(0o644)
    (tmp_path / "a.md").write_bytes(b"a\0")
    with pytest.raises(LmmError, match="not a text file"):
        call(name, tmp_path, **arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]
