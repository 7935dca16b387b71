"""Fingerprints of generated fields, so that a field is generated again if, and only if, its source has changed.

Next to the fields that a model wrote, a block has ``~txthash_``, on one line: a mapping from each field to three short
hashes: of the source text, of the value as generated (both ignore white space), and of how it was generated
(prompt, model, headings). A scalar ``~txthash``, as another program writes it, is read as the text's
hash for all fields, and the bare ``titles``, ``questions`` and ``summary`` beside it as generated.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lmm.markdown import metadata
from lmm.markdown.blocks import HeaderBlock, MetadataBlock
from lmm.markdown.inline import BLANK_LINES
from lmm.markdown.yaml_core import OneLine

KEY = metadata.generated_key("txthash")
EMPTY: Mapping[str, Any] = {KEY: {}}
"""The values of a header that was added only so that a block before the first heading is not read as the header."""
# Keys of another program: a scalar hash, and beside it these fields without "~".
_OTHER_KEY = "~txthash"
BARE = ("titles", "questions", "summary")
_UNKNOWN = "-"
_OTHER_LENGTH = 22


class State(StrEnum):
    """The state of a generated field, which decides whether it is generated again."""

    MISSING = "missing"
    FRESH = "up to date"
    CHANGED = "its text changed"
    OLD_HASH = "its text is not that of the old ~txthash"
    EDITED = "edited by hand"
    OWN = "written by the author"
    LOCKED = "locked"
    OTHER_RECIPE = "made with another prompt, model or heading path"
    GONE = "its text is gone"
    NOTHING = "there is no text to make it from"
    BLOCKED = "a field that it depends on could not be made"


# The states in which a field is generated again without `refresh`, and those in which it is never touched.
STALE = (State.MISSING, State.CHANGED, State.OLD_HASH)
KEPT = (State.OWN, State.LOCKED, State.EDITED)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hashes of the text, of the value as generated, and of how it was generated; empty if unknown."""

    text: str
    value: str = ""
    made: str = ""

    def __str__(self) -> str:
        return " ".join(part or _UNKNOWN for part in (self.text, self.value, self.made))


@dataclass(frozen=True, slots=True)
class GeneratedValue:
    """A value, the text it was generated from, and how."""

    value: Any
    text: str
    made: str


def text_hash(text: str) -> str:
    """Hash a text, ignoring the amount of white space, but not the boundaries of words.

    >>> text_hash("a  leaf\\n") == text_hash("a leaf"), text_hash("ab c") == text_hash("a bc")
    (True, False)
    """
    return _short(" ".join(text.split()))


def other_hash(texts: Iterable[str]) -> str:
    """Compute the hash of another program, `lmm` of 2025, from texts of a section and hashes of sections, in order.

    >>> other_hash(["A  leaf.\\n\\n\\nGreen. \\n", other_hash(["Why?"])])
    'yC1W05Q8jWZ8bvX7G6YTbw'
    """
    paragraphs = (
        "\n".join(map(str.rstrip, part.split("\n"))) for text in texts for part in BLANK_LINES.split(text.strip())
    )
    whole = "".join(paragraphs).encode("utf-8", "surrogatepass")
    return base64.b64encode(hashlib.md5(whole, usedforsecurity=False).digest()).decode()[:-2] if whole else ""


def value_hash(value: Any) -> str:
    """Hash a metadata value; reflowing a text does not change the hash.

    >>> value_hash("one\\ntwo") == value_hash("one two"), value_hash(["a", "b"]) == value_hash(["a b"])
    (True, False)
    """
    return _short(json.dumps(_reflowed(value), ensure_ascii=False, sort_keys=True, default=str))


def _reflowed(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, Mapping):
        return {str(key): _reflowed(inner) for key, inner in value.items()}
    return [_reflowed(inner) for inner in value] if isinstance(value, list | tuple) else value


def _short(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())[:10].decode()


# -- reading ---------------------------------------------------------------------------------------


def find_fingerprint(values: Mapping[str, Any], field: str) -> Fingerprint | None:
    """Return the stored fingerprint of `field`, or None. A scalar ``~txthash`` covers the text only.

    >>> find_fingerprint({"~txthash": "S/ec1NIX0xV3NhFFuHY6bQ"}, "titles")
    Fingerprint(text='S/ec1NIX0xV3NhFFuHY6bQ', value='', made='')
    """
    if (scalar := _scalar(values)) is not None:
        return Fingerprint(scalar)
    stored = values.get(KEY)
    parts = str(stored.get(field, "")).split() if isinstance(stored, Mapping) else []
    if len(parts) != 3:
        return None
    return Fingerprint(*("" if part == _UNKNOWN else part for part in parts))


def _key_in(values: Mapping[str, Any], field: str) -> str:
    """Return the key of a generated field in these values, in any spelling; if it is missing, the key it would get."""
    key = metadata.generated_key(field)
    return next((spelling for spelling in (key, f"~{field}", field) if spelling in values), key)


def _scalar(values: Mapping[str, Any]) -> str | None:
    """Return another program's hash; it is ignored if there are hashes of ours."""
    other = None if KEY in values else values.get(_OTHER_KEY)
    return None if other is None or isinstance(other, Mapping | list) else str(other)


def state_of(
    values: Mapping[str, Any], field: str, text: str | None, made: str, *, other: Callable[[], str] = str
) -> State:
    """Return the state of `field` in a block with these values, for its source `text` (None: no text).

    `other` returns the section's `other_hash`, for a field generated by the other program.

    >>> state_of({}, "summary", "text", "made")
    <State.MISSING: 'missing'>
    >>> state_of({"summary=": "mine"}, "summary", "text", "made")
    <State.LOCKED: 'locked'>
    """
    if any(key in values for key in metadata.locked_keys(field)):
        return State.LOCKED
    if field in values and (field not in BARE or _scalar(values) is None):
        return State.OWN
    if _key_in(values, field) not in values:
        return State.NOTHING if text is None else State.MISSING
    known = find_fingerprint(values, field)
    if known is None or (known.value and known.value != value_hash(values.get(_key_in(values, field)))):
        return State.EDITED
    if text is None:
        return State.GONE if known.value else State.NOTHING
    if known.text != text_hash(text) and (len(known.text) < _OTHER_LENGTH or known.text != other()):
        return State.CHANGED if _scalar(values) is None else State.OLD_HASH
    return State.OTHER_RECIPE if known.made and known.made != _short(made) else State.FRESH


# -- writing ---------------------------------------------------------------------------------------


def with_fields(block: MetadataBlock, made: Mapping[str, GeneratedValue]) -> MetadataBlock:
    """Write generated fields and their fingerprints to `block`; fields of another program get our keys.

    Raises:
        MetadataError: nothing can be added to the block in its form.
    """
    block = _with_marked_fields(block)
    prints = _prints(block)
    for name, generated in made.items():
        key = metadata.generated_key(name)
        block = _with_field(block, key, generated.value)
        stored = block.values()[key]  # as it will be read: tuples are lists then
        prints[name] = str(Fingerprint(text_hash(generated.text), value_hash(stored), _short(generated.made)))
    return block.with_key(KEY, prints)


def _with_field(block: MetadataBlock, key: str, value: Any) -> MetadataBlock:
    """Set one key of `block`; a new one is put before the hashes."""
    line = metadata.key_line(block.body, KEY)
    at = None if line is None else sum(len(text) + 1 for text in block.body.split("\n")[: line - 1])
    return block.with_key(key, value, before=at)


def without_field(block: MetadataBlock, name: str) -> MetadataBlock:
    """Remove a generated field and its fingerprint from `block`.

    Raises:
        MetadataError: nothing can be removed from the block in its form.
    """
    prints = _prints(block)
    prints.pop(name, None)
    block = block.without_key(_key_in(block.values(), name))
    return block.with_key(KEY, prints) if prints else block.without_key(KEY)


def is_unneeded(block: MetadataBlock) -> bool:
    """Return whether a block is empty, or a header that we added (`EMPTY`)."""
    return not block.body.strip() or (isinstance(block, HeaderBlock) and block.values() == EMPTY)


def without_generated(block: MetadataBlock, names: Collection[str]) -> MetadataBlock:
    """Remove those of the named fields that were generated; fields edited by hand stay."""
    marked = _with_marked_fields(block)
    values = marked.values()
    cleared = marked
    for name in names:
        known = find_fingerprint(values, name)
        if known is not None and known.value == value_hash(values.get(_key_in(values, name))):
            cleared = without_field(cleared, name)
    return block if cleared is marked else cleared


def _prints(block: MetadataBlock) -> OneLine:
    stored = block.values().get(KEY)
    return OneLine(stored if isinstance(stored, Mapping) else {})


def _with_marked_fields(block: MetadataBlock) -> MetadataBlock:
    """Convert another program's hash in `block` to a mapping, and put the fields that it generated under our keys."""
    values = block.values()
    if (scalar := _scalar(values)) is None:
        return block
    prints = OneLine()
    block = block.without_key(_OTHER_KEY)
    for name in BARE:
        if name in values:
            block = _with_field(block.without_key(name), metadata.generated_key(name), values[name])
            prints[name] = str(Fingerprint(scalar, value_hash(values[name])))
    return block.with_key(KEY, prints)
