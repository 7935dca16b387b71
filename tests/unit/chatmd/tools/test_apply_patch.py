"""Patches of real files: the golden cases, all or nothing, reports, and accepted forms."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from golden_files import Case, read_cases

from chatmd.errors import FileRefused, PatchError
from chatmd.tools.patch import apply_patch, patch_arguments
from chatmd.tools.roots import Root, ToolRoots
from lmm.errors import FileWriteError, LmmError

_FILE = re.compile(r"^--- (?P<name>.+)\n(?P<text>(?:(?!--- ).*\n?)*)", re.MULTILINE)


def roots_at(folder: Path) -> ToolRoots:
    """Make one root, which is also the working folder."""
    return ToolRoots(folder, (Root(".", folder),))


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outcome(source: str, folder: Path) -> str:
    """Return the result of a golden case: the files after the patch, or the error."""
    before, _, patch = source.partition("<=\n")
    for match in _FILE.finditer(before):
        path = folder / match["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(match["text"].encode())
    files = contents(folder)
    try:
        apply_patch(f"*** Begin Patch\n{patch}*** End Patch\n", roots_at(folder))
    except LmmError as error:
        assert contents(folder) == files
        return f"! {error}".rstrip() + "\n"
    return "".join(f"--- {name}\n{data.decode()}" for name, data in sorted(contents(folder).items()))


@pytest.mark.parametrize("case", read_cases("patch"), ids=str)
def test_golden_patches(case: Case, tmp_path: Path) -> None:
    """Each case gives the expected files, or an error after which nothing was changed."""
    assert outcome(case.source, tmp_path) == case.after


def patched(folder: Path, *lines: str) -> str:
    """Apply a patch of these lines."""
    return apply_patch("\n".join(["*** Begin Patch", *lines, "*** End Patch"]), roots_at(folder))


def test_the_report_shows_what_became_of_the_lines(tmp_path: Path) -> None:
    """Like a unified diff: line numbers before and after, and the lines of the file."""
    (tmp_path / "a.md").write_text("# One\n\nx\n\n# Two\n\nx\ny  \n")
    report = patched(
        tmp_path, "*** Update File: a.md", "@@ # Two", "+new", " x", "-y", "+z", "*** Add File: b.md", "+b"
    )
    assert report.splitlines() == [
        "Done. What was changed:",
        "M a.md",
        "@@ -7,2 +7,3 @@",
        "(fits but for white space at line ends)",
        "+new",
        " x",
        "-y  ",
        "+z",
        "A b.md (1 line)",
    ]


def test_a_long_report_is_cut_and_says_so(tmp_path: Path) -> None:
    """It fits the limit, and the model learns that the patch was applied."""
    (tmp_path / "a.md").write_text("x\n")
    lines = ["*** Begin Patch", "*** Update File: a.md", *["+line"] * 1000, "*** End of File", "*** End Patch"]
    report = apply_patch("\n".join(lines), roots_at(tmp_path), 500)
    assert len(report) == 500
    assert report.endswith("all of the patch was applied.")


def test_modes_are_kept_and_new_files_get_the_umask(tmp_path: Path) -> None:
    """An executable stays one, even if it is moved; new files get the default mode."""
    (tmp_path / "run.sh").write_text("a\n")
    (tmp_path / "run.sh").chmod(0o750)
    (tmp_path / "move.sh").write_text("a\n")
    (tmp_path / "move.sh").chmod(0o711)
    umask = os.umask(0o027)
    try:
        patched(tmp_path, "*** Update File: run.sh", "-a", "+b", "*** Add File: new.md", "+n",
                "*** Update File: move.sh", "*** Move to: to/moved.sh")  # fmt: skip
    finally:
        os.umask(umask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"run.sh": 0o750, "new.md": 0o640, "to": 0o750, "moved.sh": 0o711}


def test_all_or_nothing_before_anything_is_written(tmp_path: Path) -> None:
    """The last section is wrong: no file is changed, no folder is created, nothing is left behind."""
    (tmp_path / "a.md").write_text("a\n")
    with pytest.raises(PatchError, match="no such file"):
        patched(tmp_path, "*** Update File: a.md", "-a", "+b", "*** Add File: new/n.md", "+n", "*** Delete File: c.md")
    assert list(tmp_path.rglob("*")) == [tmp_path / "a.md"]


def test_all_or_nothing_when_the_disk_refuses(tmp_path: Path) -> None:
    """The second file cannot be written, and the third would be removed first: nothing is changed."""
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text("a\n")
    (tmp_path / "b.md").chmod(0o444)
    before = contents(tmp_path)
    with pytest.raises(FileWriteError, match=r"b\.md: the file is read-only"):
        patched(tmp_path, "*** Delete File: a.md", "*** Update File: b.md", "-a", "+b", "*** Delete File: c.md",
                "*** Add File: new/n.md", "+n")  # fmt: skip
    assert contents(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_links_are_followed_when_changed_and_refused_when_removed(tmp_path: Path) -> None:
    """The target of a link is changed, the link stays; Delete of a link is refused."""
    (tmp_path / "real.md").write_text("a\n")
    (tmp_path / "link.md").symlink_to("real.md")
    patched(tmp_path, "*** Update File: link.md", "-a", "+b")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text() == "b\n"
    for lines in (["*** Delete File: link.md"], ["*** Update File: link.md", "*** Move to: other.md"]):
        with pytest.raises(FileRefused, match="this is a link"):
            patched(tmp_path, *lines)


def test_the_same_file_under_two_names(tmp_path: Path) -> None:
    """The second section works on the result of the first one, under any name."""
    (tmp_path / "real.md").write_text("a\n")
    (tmp_path / "link.md").symlink_to("real.md")
    patched(tmp_path, "*** Update File: link.md", "-a", "+b", "*** Update File: ./x/../real.md", "-b", "+c")
    assert (tmp_path / "real.md").read_text() == "c\n"


PATCH = "*** Begin Patch\n*** Add File: a.md\n+a\n*** End Patch"


@pytest.mark.parametrize(
    "text",
    [
        PATCH,
        f"\n\n{PATCH}\n\n",
        PATCH.replace("\n", "\r\n"),
        f"```\n{PATCH}\n```",
        f"```diff\n{PATCH}\n```\n",
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\n",
        f"\ufeff{PATCH}",
        PATCH.replace("a.md\n", "a.md  \n").replace("End Patch", "End Patch  "),
        PATCH.replace("+a\n", "+a\n***\n"),
        PATCH.replace("+a\n", "+a\n\n"),
    ],
)
def test_what_stands_around_a_patch(tmp_path: Path, text: str) -> None:
    """Models add blank lines, fences, here-documents, CRLF, a byte order mark; they are ignored."""
    apply_patch(text, roots_at(tmp_path))
    assert contents(tmp_path) == {"a.md": b"a\n"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the line '*** Begin Patch' is missing"),
        ("--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-a\n+b\n", "the line '*** Begin Patch' is missing"),
        (PATCH.removesuffix("*** End Patch"), "may have been cut off"),
        (PATCH + "\nand then", "there must be nothing"),
        (PATCH + "\n" + PATCH, "there must be nothing"),
        ("*** Begin Patch\n*** End Patch", "the patch names no file"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2 of the patch: a section must begin here"),
        ("*** Begin Patch\n*** Add File: \n+a\n*** End Patch", "a path is missing"),
        (PATCH.replace("a.md", "`a.md`"), "paths have no quotes around them"),
        ("*** Begin Patch\n*** Add File: a.md\nhello\n*** End Patch", "begins with '+'"),
        ("*** Begin Patch\n*** Add File: a.md\n+a\n\n+b\n*** End Patch", "begins with '+'"),
        ("*** Begin Patch\n*** Add File: a.md\n\n+b\n*** End Patch", "begins with '+'"),
        ("*** Begin Patch\n*** Add File: a.md\n+a\0\n*** End Patch", "cannot contain a NUL"),
        ("*** Begin Patch\n*** Add File: a.md\n+\ud800\n*** End Patch", "surrogate"),
    ],
)
def test_what_is_no_patch(tmp_path: Path, text: str, message: str) -> None:
    """The message names the wrong line and what was expected."""
    with pytest.raises(LmmError, match=re.escape(message)):
        apply_patch(text, roots_at(tmp_path))
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("text", [PATCH, f'"{PATCH}"'.replace("\n", "\\n"), *(
    f'{{"{key}": "{PATCH}"}}'.replace("\n", "\\n") for key in ("patch", "input"))])  # fmt: skip
def test_the_forms_of_a_call(tmp_path: Path, text: str) -> None:
    """The bare patch, a JSON string, an object with `patch` or with `input`."""
    assert patch_arguments(text) == {"patch": PATCH}
    assert apply_patch(patch_arguments(text)["patch"], roots_at(tmp_path)).startswith("Done.")
    assert contents(tmp_path) == {"a.md": b"a\n"}
