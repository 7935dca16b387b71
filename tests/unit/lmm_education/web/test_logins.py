"""Who may log in: hashed, private, and never half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.errors import ConfigError
from lmm_education.database import Database
from lmm_education.web.login import Accounts, Logins, matches, new_key, new_password


def test_nothing_is_kept_in_the_clear(tmp_path: Path) -> None:
    """Passwords and keys are hashed; only the owner reads the file; another process's change counts at once."""
    kept = tmp_path / "state/state.sqlite"
    file, reader, teacher = Accounts(Database(kept)), Accounts(Database(kept)), Accounts(Database(kept), "teacher")
    key = new_key()
    assert reader.read() == Logins()
    file.change(
        lambda logins: logins.with_password("secret-1").with_user("Ada", "Schöne Grüße ö").with_key("bot", key, 5)
    )
    written = b"".join(each.read_bytes() for each in kept.parent.iterdir())
    assert not any(secret in written for secret in (b"secret-1", b"Sch", key.encode()))
    assert all(each.stat().st_mode & 0o077 == 0 for each in (kept.parent, *kept.parent.iterdir()))
    assert teacher.read() == Logins()
    found = reader.read()
    assert matches("secret-1", found.stored_password("") or "")
    assert matches("Schöne Grüße o\u0308", found.stored_password("Ada") or "")  # the same, typed on another keyboard
    assert found.stored_password("Bob") is None
    known = found.key_of(key)
    assert known is not None
    assert (known[0], known[1].questions_per_minute) == ("bot", 5)
    assert found.key_of(new_key()) is None


def test_what_is_no_password_or_name(tmp_path: Path) -> None:
    """It is refused, and nothing changes."""
    accounts = Accounts(Database(tmp_path / "state.sqlite"))
    accounts.change(lambda logins: logins.with_password("long enough"))
    before = accounts.read()
    for change in (
        lambda logins: logins.with_password("short"),
        lambda logins: logins.with_user("a:b", "long enough"),
        lambda logins: logins.with_user("", "long enough"),
        lambda logins: logins.with_key("a\nb", "lmm-x"),
    ):
        with pytest.raises(ConfigError):
            accounts.change(change)
    assert Accounts(accounts.database).read() == before


@pytest.mark.parametrize("kept", ["", "x", "scrypt:15:8:1:a:b", "scrypt:99:8:1:YQ==:YQ==", "plain:15:8:1:YQ==:YQ=="])
def test_damaged_hashes_match_nothing(kept: str) -> None:
    """And raise nothing."""
    assert not matches("a", kept)


def test_made_passwords_differ() -> None:
    """And can be read aloud."""
    made = {new_password() for _ in range(50)}
    assert len(made) == 50
    assert all(len(password) == 19 and not set(password) & set("lo01") for password in made)
