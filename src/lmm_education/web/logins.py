"""Who may log in: the course's password, users, and keys for the API, hashed, in one file that only its owner reads."""

from __future__ import annotations

import json
import secrets
import string
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmm.disk import files
from lmm.disk.files import document_lock, read_document
from lmm.errors import ConfigError, FileReadError
from lmm_education.web.passwords import KEY_MARK, SHORTEST, hash_key, hash_password

_LETTERS = string.ascii_lowercase.translate({ord(c): None for c in "lo"}) + "23456789"  # none looks like another
_GROUPS = 4
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key for programs, by its hash; `questions_per_minute` if it has a limit of its own, 0 for none."""

    hash: str
    questions_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Logins:
    """The course's password, users and keys by name; passwords as `hash_password` gives them."""

    password: str = ""
    users: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, ApiKey] = field(default_factory=dict)

    def kept(self, name: str) -> str | None:
        """The hash that a login is checked with; the course's password is nobody's: the name is empty."""
        return (self.users.get(name) if name else self.password) or None

    def key_of(self, key: str) -> tuple[str, ApiKey] | None:
        """The name of a key and what is known of it."""
        wanted = hash_key(key)  # looked up by the hash of 256 random bits: how long that takes tells nothing of them
        return next(((name, known) for name, known in self.keys.items() if known.hash == wanted), None)

    def with_password(self, password: str) -> Logins:
        """The same with another password for the course.

        Raises:
            ConfigError: it is too short.
        """
        return replace(self, password=_hashed(password))

    def with_user(self, name: str, password: str) -> Logins:
        """The same with a user, or another password for him.

        Raises:
            ConfigError: it is too short, or the name will not do.
        """
        return replace(self, users={**self.users, checked_name(name): _hashed(password)})

    def with_key(self, name: str, key: str, questions_per_minute: int | None = None) -> Logins:
        """The same with a key, instead of one of that name.

        Raises:
            ConfigError: the name will not do.
        """
        return replace(self, keys={**self.keys, checked_name(name): ApiKey(hash_key(key), questions_per_minute)})

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        keys = {n: {"hash": k.hash, "questions_per_minute": k.questions_per_minute} for n, k in self.keys.items()}
        return {"password": self.password, "users": dict(self.users), "keys": keys}


class LoginFile:
    """The file of a course's logins. Threads may share it; what another process writes counts at once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int, int], Logins] | None = None

    def read(self) -> Logins:
        """Who may log in now; nobody if there is no file.

        Raises:
            FileReadError: it cannot be read, or is damaged.
        """
        with self._lock:
            try:
                found = self.file.stat()
            except FileNotFoundError:
                return Logins()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._read is None or self._read[0] != stamp:
                self._read = (stamp, _logins(read_document(self.file), self.file))
            return self._read[1]

    def change(self, change: Callable[[Logins], Logins]) -> Logins:
        """Change it, one process at a time; what it holds then.

        Raises:
            ConfigError: as `change` raises it.
            FileReadError, FileWriteError: it cannot be read or written.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with document_lock(self.file, timeout=10):
            changed = change(self.read())
            if not self.file.exists():
                self.file.touch(_OWNER_ONLY)
            self.file.chmod(_OWNER_ONLY)
            files.replace(self.file, json.dumps(changed.as_json(), indent=1, ensure_ascii=False) + "\n")
        return changed


def checked_name(name: str) -> str:
    """A name for a user or a key.

    Raises:
        ConfigError: it is empty, long, or has characters that nobody types.
    """
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip() or ":" in name:
        raise ConfigError(f"{name!r} cannot be a name", hint="up to 100 characters, no colon, no blanks around it")
    return name


def new_password() -> str:
    """A password that can be read aloud: 16 characters of 32, 80 bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(_GROUPS))


def new_key() -> str:
    """A key for the API: 256 bits."""
    return KEY_MARK + secrets.token_urlsafe(32)


def _hashed(password: str) -> str:
    if len(password) < SHORTEST:
        raise ConfigError(f"the password has less than {SHORTEST} characters")
    return hash_password(password, secrets.token_bytes(16))


def _logins(text: str, file: Path) -> Logins:
    try:
        values = json.loads(text)
        keys = {name: ApiKey(key["hash"], key["questions_per_minute"]) for name, key in values["keys"].items()}
        return Logins(values["password"], dict(values["users"]), keys)
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "restore it, or remove it and set the passwords anew"
        raise FileReadError("this is no list of logins", where=str(file), hint=hint) from None
