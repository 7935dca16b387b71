"""`lmm check`, the real command on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from edge.support import lmm

GOOD = '<config model="OpenAI/gpt-4.1"/>\n<system><import src="policy.md"/></system>\n<user>\n</user>\n'
BAD = '<user>a\n<doc src="b.md"/>\n</assistant>\n</user>\n<tool/>\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.chatmd").write_text(GOOD)
    (tmp_path / "policy.md").write_text("Be brief.")
    (tmp_path / "bad.md").write_text(BAD)
    return tmp_path


def test_findings_have_places_hints_and_exit_codes(folder: Path) -> None:
    good = lmm("check", folder / "good.chatmd")
    assert (good.code, good.out, good.err) == (0, "1 file: no problems\n", "")
    both = lmm("check", folder / "good.chatmd", folder / "bad.md")
    bad = folder / "bad.md"
    assert both.code == 1
    assert both.out.splitlines() == [
        f"{bad}:2:6: warning: src=\"b.md\" is no URL (write 'local' for a file on disk)",
        f"{bad}:3:1: </assistant> closes nothing (open it with <assistant>, or put the tag in RAW|…|RAW if it is text; "
        "this is inside <user>)",
        f'{bad}:5:1: this tool has no name (write name="…")',
    ]


def test_warnings_alone_leave_the_code_0(folder: Path) -> None:
    (folder / "w.md").write_text("<user rolle='x'>a</user>")
    done = lmm("check", folder / "w.md")
    assert (done.code, done.out.count("warning: ")) == (0, 1)


def test_as_json(folder: Path) -> None:
    done = lmm("check", "--json", folder / "bad.md")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1
    assert [(row["line"], row["column"], row["severity"]) for row in rows] == [
        (2, 6, "warning"),
        (3, 1, "error"),
        (5, 1, "error"),
    ]
    assert set(rows[0]) == {"path", "line", "column", "severity", "message", "hint"}
    assert lmm("check", "--json", folder / "good.chatmd").out == ""


def test_strict(folder: Path) -> None:
    """What we read leniently is an error to the letter."""
    (folder / "s.md").write_text("<user>a <b c</user>\n<user>x</user>")
    assert lmm("check", folder / "s.md").code == 0
    done = lmm("check", "--strict", folder / "s.md")
    assert done.code == 1
    assert "s.md:1:1: there is no <config>" in done.out
    assert "s.md:1:1: <user> is never closed" in done.out


def test_other_roots_have_to_be_named(folder: Path) -> None:
    (folder / "sub").mkdir()
    path = folder / "sub" / "a.md"
    path.write_text('<system><import src="../policy.md"/></system>')
    refused = lmm("check", path)
    assert refused.code == 1
    assert f"'../policy.md' lies outside of {folder / 'sub'} (allow its folder: --root" in refused.out
    assert lmm("check", "--root", folder, path).code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "Missing argument"),
        (["--no-such", "a"], 2, "No such option"),
        (["missing.md"], 1, "missing.md: there is no such file"),
        (["."], 1, "this is a folder"),
    ],
)
def test_wrong_usage_and_unreadable_files(words: list[str], code: int, message: str, folder: Path) -> None:
    done = lmm("check", *words)
    assert done.code == code
    assert message in done.err
    assert "Traceback" not in done.err


def test_control_characters_do_not_reach_the_terminal(folder: Path) -> None:
    (folder / "c.md").write_text("<user a\x1b[31m='1' \x07='2'>x</user>")
    assert "\x1b" not in lmm("check", folder / "c.md").out
