"""Patches: any edit of any file, written as a patch, gives exactly the new file; one that fails changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path

from hypothesis import example, given, strategies as st

from chatmd.tools.patch import apply_patch, parse_patch, update_text
from chatmd.tools.roots import Root, ToolRoots
from chatmd.tools.text_files import TextLines, read_excerpt
from lmm.errors import LmmError

# Few different lines, so that context repeats; some that look like the format's own.
LINES = st.one_of(
    st.sampled_from(["", "a", "b", " a", "\ta", "}", "+", "-x", "@@", "@@ a", "*** End Patch", "***", "\\ No newline"]),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), max_size=6),
)
FILES = st.tuples(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())


def text_of(lines: list[str], newline: str, ends: bool, bom: bool) -> str:
    """A file: its lines, how they end, whether the last one does, a byte order mark."""
    return "\ufeff" * bom + newline.join(lines) + (newline if ends and lines else "")


def hunks(old: TextLines, new: TextLines) -> Iterator[str]:
    """Hunks that turn one text into the other, with all lines before and after as context, so that each is unique."""
    changes = SequenceMatcher(None, old.texts, new.texts, autojunk=False).get_opcodes()
    yield "@@ -1 +1 @@" if old.texts else "@@"
    for kind, i, j, k, m in changes:
        mark = " " if kind == "equal" else "-"
        yield from (mark + line for line in old.texts[i:j])
        if kind != "equal":
            yield from ("+" + line for line in new.texts[k:m])
    yield "*** End of File"


@given(FILES, st.lists(LINES, max_size=12))
def test_any_edit_as_a_patch_gives_the_new_file(file: tuple[list[str], str, bool, bool], lines: list[str]) -> None:
    """Every line and line end is as the new file has it, or as the old one had it where the patch leaves it alone."""
    text = text_of(*file)
    old = TextLines.of(text)
    new = TextLines.of(text_of(lines, "\n", True, False))
    if old.texts == new.texts:
        return
    patch = "\n".join(["*** Begin Patch", "*** Update File: f", *hunks(old, new), "*** End Patch"])
    (section,) = parse_patch(patch)
    done = TextLines.of(update_text(text, section.hunks, "f")[0])
    assert (done.texts, done.bom) == (new.texts, old.bom)
    assert set(done.ends[:-1]) <= {old.newline}
    kept_last = bool(old.texts) and SequenceMatcher(None, old.texts, new.texts, autojunk=False).get_opcodes()[-1][0]
    assert done.ends[-1:] == (old.ends[-1:] if kept_last == "equal" else (old.newline,) * bool(done.texts))


@given(FILES, st.data())
def test_one_hunk_with_a_line_number(file: tuple[list[str], str, bool, bool], data: st.DataObject) -> None:
    """Two lines of context and the number of the line are enough, however often the lines repeat."""
    text = text_of(*file)
    old = TextLines.of(text)
    at = data.draw(st.integers(0, len(old.texts)))
    end = data.draw(st.integers(at, min(at + 3, len(old.texts))))
    added = data.draw(st.lists(LINES, max_size=3))
    start, stop = max(at - 2, 0), min(end + 2, len(old.texts))
    body = [
        *(f" {line}" for line in old.texts[start:at]),
        *(f"-{line}" for line in old.texts[at:end]),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in old.texts[end:stop]),
    ]
    wanted = (*old.texts[:at], *added, *old.texts[end:])
    if wanted == old.texts:
        return
    header = f"@@ -{start + 1 if stop > start else start},{stop - start} +1,1 @@"
    patch = "\n".join(["*** Begin Patch", "*** Update File: f", header, *body, "*** End Patch"])
    (section,) = parse_patch(patch)
    assert TextLines.of(update_text(text, section.hunks, "f")[0]).texts == wanted


MARKS = st.sampled_from(
    ["*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: ", "*** End of File", "***", "@@", "@@ ",
     "@@ -1,2 +1,2 @@", " ", "-", "+", "", "*** End Patch", "\\ No newline at end of file"]
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "d/c", "../x", "a/b", ".git/x", ""])
PATCHES = st.lists(st.tuples(MARKS, st.one_of(NAMES, LINES)).map("".join), max_size=12).map(
    lambda lines: "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
)


@given(st.one_of(PATCHES, st.text(max_size=40)))
def test_a_patch_is_applied_or_changes_nothing(patch: str) -> None:
    """No text raises anything but our errors; after an error all files are as they were, and nothing is left behind."""
    with tempfile.TemporaryDirectory() as name:
        outer, folder = Path(name).resolve(), Path(name).resolve() / "w"
        (folder / "d").mkdir(parents=True)
        before = {"a": b"a\nb\n", "b": b"}\r\na", "d/c": b""}
        for path, data in before.items():
            (folder / path).write_bytes(data)
        failed = True
        with suppress(LmmError):
            apply_patch(patch, ToolRoots(folder, (Root(".", folder),)))
            failed = False
        after = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
        assert [path.name for path in outer.iterdir()] == ["w"]
        assert not [path for path in after if ".lmm-" in path or path.startswith(".git")]
        if failed:
            assert {path: file.read_bytes() for path, file in after.items()} == before


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode), st.integers(0, 9), st.integers(1, 9))
@example(b"a", 10**30, 1)
@example(b"", 10**30, 1)
def test_an_excerpt_is_the_lines_of_the_file(data: bytes, offset: int, count: int) -> None:
    """What is shown is what slicing the lines gives; what is no text is refused."""
    try:
        lines = TextLines.of(data.decode())
    except UnicodeDecodeError:
        lines = None
    try:
        found = read_excerpt(BytesIO(data), "f", offset=offset, count=count, budget=1000)
    except LmmError:
        assert lines is None or "\0" in lines.text
        return
    if lines is not None:
        assert (found.lines, found.total) == (lines.texts[offset : offset + count], len(lines.texts))
