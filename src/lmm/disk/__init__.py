"""The disk: exact bytes, what others write too, what lies below a folder, what was agreed to."""

from __future__ import annotations

import hashlib


def digest(*parts: str | bytes, length: int = 64) -> str:
    """The first hexadecimal digits of the parts' SHA-256; no part but an only one holds a NUL.

    >>> digest("a", "bc", length=6), digest("ab", "c", length=6), digest(b"leaf", length=6)
    ('40bb54', '6c032e', '9f9116')
    """
    data = b"\0".join(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in parts)
    return hashlib.sha256(data).hexdigest()[:length]
