"""What a generated field was made from, so that it is made again when, and only when, that changed.

Next to the fields that a model wrote, a block keeps ``~txthash``, a mapping from each field to three short
hashes: of the text it was made from (white space does not count), of the value as generated, and of how it
was made (prompt, model, heading path). A scalar there, as another program writes it, is read as the text's
hash for all fields.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lmm.markdown import metadata

KEY = "~txthash"


class State(StrEnum):
    """What is to be done about a field, and why."""

    MISSING = "missing"
    FRESH = "up to date"
    CHANGED = "its text changed"
    EDITED = "edited by hand"
    OWN = "the author's own"
    LOCKED = "locked"
    OTHERWISE = "made with another prompt, model or heading path"


# The states in which a field is generated anew without being asked to.
STALE = (State.MISSING, State.CHANGED)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hashes of the text, of the value as generated, and of how it was made."""

    text: str
    value: str
    made: str

    @classmethod
    def of(cls, text: str, value: Any, made: str) -> Fingerprint:
        """The fingerprint of a value that was made from `text` in the way that `made` describes."""
        return cls(text_hash(text), value_hash(value), _short(made))

    def __str__(self) -> str:
        return f"{self.text} {self.value} {self.made}"


def text_hash(text: str) -> str:
    """A hash in which white space does not count, but where words end does.

    >>> text_hash("a  leaf\\n") == text_hash("a leaf"), text_hash("ab c") == text_hash("a bc")
    (True, False)
    """
    return _short(" ".join(text.split()))


def value_hash(value: Any) -> str:
    """A hash of a metadata value."""
    return _short(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def _short(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())[:10].decode()


def recorded(values: Mapping[str, Any], field: str) -> Fingerprint | None:
    """The fingerprint kept for `field`, or None. A scalar ``~txthash`` knows the text only."""
    kept = values.get(KEY)
    if isinstance(kept, Mapping):
        parts = str(kept.get(field, "")).split()
        return Fingerprint(parts[0], parts[1], parts[2]) if len(parts) == 3 else None
    return Fingerprint(str(kept), "", "") if kept is not None else None


def state_of(values: Mapping[str, Any], field: str, text: str, made: str) -> State:
    """Whether `field` of a block with these values must be made from `text`, and why.

    >>> state_of({}, "summary", "text", "made")
    <State.MISSING: 'missing'>
    >>> state_of({"summary=": "mine"}, "summary", "text", "made")
    <State.LOCKED: 'locked'>
    """
    if f"{field}=" in values or f"~{field}=" in values:
        return State.LOCKED
    known = recorded(values, field)
    generated = f"~{field}" in values or (field in values and isinstance(values.get(KEY), str))
    if not generated:
        return State.OWN if field in values else State.MISSING
    if known is None:
        return State.EDITED
    value = values.get(f"~{field}", values.get(field))
    if known.value and known.value != value_hash(value):
        return State.EDITED
    if known.text != text_hash(text):
        return State.CHANGED
    return State.OTHERWISE if known.made and known.made != _short(made) else State.FRESH


def with_fingerprint(values: Mapping[str, Any], field: str, fingerprint: Fingerprint) -> dict[str, Any]:
    """The new value of ``~txthash`` with one field's fingerprint set."""
    kept = values.get(KEY)
    return {**(kept if isinstance(kept, Mapping) else {}), field: str(fingerprint)}


def value_of(values: Mapping[str, Any], field: str) -> Any:
    """The value that counts for `field`."""
    return metadata.lookup(values, field)
