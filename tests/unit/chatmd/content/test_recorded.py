"""The record of a transcript is found again by the same transcript or a copy of it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from chatmd.errors import ChatmdError
from chatmd.language.agent import Doc, Img, Item, MessageItem
from chatmd.sidecar import ExpansionRecord, occurrences
from lmm.errors import LinkOutside
from lmm.messages import Image

DOC = Doc("https://e.org/a?b")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=30)  # each waits for the disk
@given(st.lists(st.tuples(st.sampled_from("abc"), TEXTS), min_size=1, max_size=5))
def test_the_latest_counts(tmp_path_factory: pytest.TempPathFactory, kept: list[tuple[str, str]]) -> None:
    transcript = tmp_path_factory.mktemp("t") / "a.chatmd"
    record = ExpansionRecord(transcript)
    for key, text in kept:
        record.record(key, DOC, text)
        assert record.find(key) == text
    again = ExpansionRecord(transcript)
    for key, text in dict(kept).items():
        assert again.find(key) == text
    assert again.find("d") is None


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    transcript = tmp_path / "caf\udce9.chatmd"
    ExpansionRecord(transcript).record("k", DOC, "text")
    assert ExpansionRecord(transcript).find("k") == "text"


def test_images(tmp_path: Path) -> None:
    image = Image(b"GIF89a", media_type="image/gif")
    ExpansionRecord(tmp_path / "a").record("k", Img("a.gif", True), image)
    assert ExpansionRecord(tmp_path / "a").find("k") == image
    assert {path.suffix for path in (tmp_path / ".chatmd").iterdir()} == {".jsonl", ".gif"}


def test_line_ends_and_marks_stay(tmp_path: Path) -> None:
    text = "\ufeffa\r\nb\rc\n\u2028"
    ExpansionRecord(tmp_path / "a").record("k", DOC, text)
    assert ExpansionRecord(tmp_path / "a").find("k") == text


def test_a_copy_finds_what_the_original_recorded(tmp_path: Path) -> None:
    ExpansionRecord(tmp_path / "a").record("k", DOC, "one")
    copy = ExpansionRecord(tmp_path / "b")
    assert copy.find("k") == "one"
    copy.record("k", DOC, "two")
    assert (ExpansionRecord(tmp_path / "a").find("k"), ExpansionRecord(tmp_path / "b").find("k")) == ("one", "two")


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    record = ExpansionRecord(tmp_path / "a")
    for text in ("one", "one", "two", "one"):
        record.record("k", DOC, text)
    assert len((tmp_path / ".chatmd" / "expansions.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("options", [{"only": True}, {"writable": False}])
def test_a_record_that_keeps_nothing(tmp_path: Path, options: dict[str, bool]) -> None:
    ExpansionRecord(tmp_path / "a", **options).record("k", DOC, "one")
    assert not (tmp_path / ".chatmd").exists()


def test_messages_with_the_same_words_keep_what_they_stood_for(tmp_path: Path) -> None:
    """Compaction removes the first ones, so that the third "And now?" becomes the first."""
    docs = [Doc("a.md", local=True) for _ in range(4)]
    asked: list[Item] = [MessageItem("user", ("And now? ", doc)) for doc in docs]
    record = ExpansionRecord(tmp_path / "a")
    for number, one in enumerate(occurrences(asked)):
        record.record(one.key, one.part, f"state {number}")
    left: list[Item] = [MessageItem("user", ("A summary.",)), *asked[2:]]
    record.carry_over(asked, left)
    again = ExpansionRecord(tmp_path / "a")
    assert [again.find(one.key) for one in occurrences(left)] == ["state 2", "state 3"]


def test_damage_is_told(tmp_path: Path) -> None:
    ExpansionRecord(tmp_path / "a").record("k", DOC, "one")
    (file,) = (tmp_path / ".chatmd").glob("*.txt")
    file.write_text("other")
    with pytest.raises(ChatmdError, match=r"this is not what https://e\.org/a\?b held"):
        ExpansionRecord(tmp_path / "a").find("k")
    file.unlink()
    with pytest.raises(ChatmdError, match="there is no such file"):
        ExpansionRecord(tmp_path / "a").find("k")


def test_a_torn_line_harms_no_other(tmp_path: Path) -> None:
    """A crash in the middle of a line loses only that line, and the next run begins a new one."""
    index = tmp_path / ".chatmd" / "expansions.jsonl"
    ExpansionRecord(tmp_path / "a").record("k", DOC, "one")
    index.write_text(index.read_text() + '{"transcript": "a", "ke')
    record = ExpansionRecord(tmp_path / "a")
    record.record("l", DOC, "two")
    assert [ExpansionRecord(tmp_path / "a").find(key) for key in "kl"] == ["one", "two"]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "1",
        "{}",
        '{"transcript": 1}',
        "<<<<<<< HEAD",
        '{"transcript":"a","key":"k","kind":"doc","src":"s","sha256":"../../x"}',
    ],
)
def test_a_damaged_line_is_an_error(tmp_path: Path, line: str) -> None:
    """What a model saw there would be read anew, and could be something else by now."""
    (tmp_path / ".chatmd").mkdir()
    (tmp_path / ".chatmd" / "expansions.jsonl").write_text(f"\n\0\n{line}\n")
    with pytest.raises(ChatmdError, match=r"expansions\.jsonl:3: this line of the record is damaged \(restore it"):
        ExpansionRecord(tmp_path / "a")


def test_a_record_names_no_file_elsewhere(tmp_path: Path) -> None:
    """A record that came with a foreign folder cannot make us read files elsewhere."""
    secret = tmp_path / "secret.txt"
    secret.write_text("key")
    (tmp_path / ".chatmd").mkdir()
    entry = {
        "transcript": "a",
        "key": "k",
        "kind": "doc",
        "src": "s",
        "sha256": "../secret",
        "media_type": "",
    }
    (tmp_path / ".chatmd" / "expansions.jsonl").write_text(json.dumps(entry))
    with pytest.raises(ChatmdError, match="damaged"):
        ExpansionRecord(tmp_path / "a")


def test_nothing_is_written_behind_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / ".chatmd").symlink_to(elsewhere)
    with pytest.raises(LinkOutside, match="this link leads out of"):
        ExpansionRecord(tmp_path / "notes" / "a").record("k", DOC, "one")
    assert not list(elsewhere.iterdir())


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    ExpansionRecord(tmp_path / "a").record("k", DOC, "one")
    assert stat.S_IMODE((tmp_path / ".chatmd").stat().st_mode) == 0o700


def test_what_is_kept_is_the_users_own(tmp_path: Path) -> None:
    """Also in a folder that came with other files, and that other users can read."""
    (tmp_path / ".chatmd").mkdir(mode=0o755)
    ExpansionRecord(tmp_path / "a").record("k", DOC, "KEY=1")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / ".chatmd").iterdir()} == {0o600}
