"""Replies are remembered by what was asked."""

from __future__ import annotations

import os
import time

from hypothesis import given, strategies as st

from lmm.disk import journal
from lmm.disk.files import state_folder


@given(st.text(), st.text())
def test_a_reply_comes_back(prompt: str, reply: str) -> None:
    """Whatever the texts are."""
    key = journal.key_of("test", prompt)
    journal.put(key, {"text": reply})
    assert journal.get(key) == {"text": reply}


def test_keys_differ_where_the_parts_differ() -> None:
    """Parts are not merely joined."""
    assert len({journal.key_of("a", "b"), journal.key_of("ab"), journal.key_of("a b"), journal.key_of(["a", "b"])}) == 4


def test_a_damaged_entry_counts_as_none() -> None:
    """A file that is not JSON never stops anything."""
    key = journal.key_of("damaged")
    journal.put(key, {"text": "x"})
    (state_folder() / "journal" / key[:2] / f"{key}.json").write_bytes(b"\xff{")
    assert journal.get(key) is None
    assert journal.get(journal.key_of("never asked")) is None


def test_only_the_user_can_read_it() -> None:
    """Replies may be private."""
    key = journal.key_of("private")
    journal.put(key, {"text": "x"})
    assert (state_folder() / "journal" / key[:2] / f"{key}.json").stat().st_mode & 0o777 == 0o600


def test_old_entries_are_forgotten() -> None:
    """Entries past their time are deleted, others stay."""
    old, new = journal.key_of("old"), journal.key_of("new")
    journal.put(old, {"text": "x"})
    journal.put(new, {"text": "y"})
    past = time.time() - 100 * 86400
    os.utime(state_folder() / "journal" / old[:2] / f"{old}.json", (past, past))
    journal.forget_old()
    assert journal.get(old) is None
    assert journal.get(new) == {"text": "y"}
