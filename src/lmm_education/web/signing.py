"""Signed texts for cookies, and pseudonyms: what only the holder of a course's key can make."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

_PSEUDONYM = 20  # hexadecimal digits: 80 bits


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and checks with one key. What is signed for one `purpose` counts for no other."""

    key: bytes = field(repr=False)

    def sign(self, purpose: str, text: str) -> str:
        """`text`, which must be printable ASCII without blanks, commas and semicolons, with its signature.

        >>> signed = Signer(b"key").sign("student", "abc")
        >>> Signer(b"key").read("student", signed), Signer(b"key").read("session", signed)
        ('abc', None)
        """
        return f"{text}.{self._mac(purpose, text)}"

    def read(self, purpose: str, signed: str) -> str | None:
        """What was signed; None if it was not, or not by us for this purpose."""
        text, dot, mac = signed.rpartition(".")
        genuine = hmac.compare_digest(mac.encode(), self._mac(purpose, text).encode())
        return text if dot and genuine else None

    def pseudonym(self, kind: str, value: str) -> str:
        """A name for `value` that tells nothing of it without the key, the same every time.

        >>> Signer(b"key").pseudonym("name", "ada") == Signer(b"key").pseudonym("name", "ada")
        True
        >>> len(Signer(b"key").pseudonym("name", "ada"))
        20
        """
        return self._digest(f"pseudonym {kind}", value).hex()[:_PSEUDONYM]

    def _mac(self, purpose: str, text: str) -> str:
        return base64.urlsafe_b64encode(self._digest(f"signature {purpose}", text)).decode().rstrip("=")

    def _digest(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self.key, f"{purpose}\0{text}".encode("utf-8", "surrogateescape"), hashlib.sha256)
