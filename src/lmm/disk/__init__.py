"""Files on disk: exact reading, safe replacing, folders that links cannot leave, and recorded approvals."""

from __future__ import annotations

import hashlib


def digest(*parts: str | bytes, length: int = 64) -> str:
    """Return the first hexadecimal digits of the SHA-256 of some parts; none of several may contain a NUL.

    >>> digest("a", "bc", length=6), digest("ab", "c", length=6), digest(b"leaf", length=6)
    ('40bb54', '6c032e', '9f9116')
    """
    data = b"\0".join(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in parts)
    return hashlib.sha256(data).hexdigest()[:length]
