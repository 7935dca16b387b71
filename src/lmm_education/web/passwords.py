"""Passwords and keys as they are kept: hashed, and compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import unicodedata

SHORTEST = 8
"""Characters of a password."""
KEY_MARK = "lmm-"
"""What keys for the API begin with."""
# 32 MB and 0.1 s on one core: a class of 200 that logs in at once has waited 20 s, and guessing is slowed elsewhere.
_COST = (15, 8, 1)  # binary logarithm of scrypt's N, r, p


def hash_password(password: str, salt: bytes) -> str:
    """A password as it is kept; `salt` is random, and its own.

    >>> kept = hash_password("correct horse", b"0123456789abcdef")
    >>> matches("correct horse", kept), matches("wrong horse", kept)
    (True, False)
    """
    numbers = ":".join(map(str, _COST))
    return f"scrypt:{numbers}:{_encoded(salt)}:{_encoded(_scrypt(password, salt, *_COST))}"


def matches(password: str, kept: str) -> bool:
    """Whether a password is the one that was kept; False for what was not made by `hash_password`."""
    try:
        kind, logarithm, r, p, salt, expected = kept.split(":")
        found = _scrypt(password, base64.b64decode(salt), int(logarithm), int(r), int(p))
    except (ValueError, TypeError, OverflowError):
        return False
    return kind == "scrypt" and hmac.compare_digest(_encoded(found), expected)


def hash_key(key: str) -> str:
    """A key as it is kept. Keys are random, 256 bits: there is nothing to guess, so that a fast hash will do."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _scrypt(password: str, salt: bytes, logarithm: int, r: int, p: int) -> bytes:
    """The same for an ö in one character or two, as keyboards differ."""
    data = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=1 << logarithm, r=r, p=p, maxmem=1 << 28, dklen=32)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
