"""Metadata that say who may read a text: near misses are taken for what was meant, and what cannot be read is refused.

``Type: solution``, ``type:solution`` and ``type: solutions`` are meant as ``type: solution``: students must not see
what is below them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator

from lmm.markdown import metadata
from lmm.markdown.blocks import Block, MetadataBlock
from lmm.markdown.lookalikes import CONFLICT, RESOLVE, Lookalike, conflicts, find_lookalikes
from lmm.markdown.metadata import bare_key, is_slip
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm_education.errors import UnreadableMetadata

_CONTROLS = ("skip", "type", "frozen")
_NO_SPACE = re.compile(
    rf"^([ \t]*(?:-[ \t]+)?)({'|'.join(_CONTROLS)})([ \t]*):(?=[^\s:])", re.MULTILINE | re.IGNORECASE
)
_CONTROLLED = re.compile(rf"(?:{'|'.join(_CONTROLS)})\W{{0,12}}?[:：=]", re.IGNORECASE)  # few texts have one
_WORDS = re.compile(r"[\s,;/+&|]+")
_LONG = 5  # letters of a type that a slip leaves recognisable
_ENDINGS = ("s", "es", "n", "en", "e")
_SWITCH = re.compile(r"(?:true|yes|on|1|false|no|off|0)\Z", re.IGNORECASE)

Note = tuple[int, str]
"""A line, and what is taken for what on it."""


@functools.lru_cache(maxsize=2)
def parsed(text: str) -> tuple[Block, ...]:
    """Return the blocks of a document; cached for the last ones, because several functions parse it."""
    return tuple(parse_markdown_text(text))


def as_meant(text: str, types: Collection[str]) -> tuple[str, list[Note]]:
    """Correct near misses of ``type``, ``skip`` and ``frozen``, and of these types; return the text, and what was done.

    Every line stays where it is.

    >>> as_meant("---\\ntitle: T\\n---\\n# A\\n\\n---\\nType: solutions\\n---\\nZebra.\\n", ["solution"])[1]
    [(7, "'Type' is taken for 'type'"), (7, "'solutions' is taken for 'solution'")]
    """
    if "---" not in text:
        return text, []
    lines, notes = text.split("\n"), list[Note]()
    blocks = parsed(text)
    for one in find_lookalikes(blocks) if _NO_SPACE.search(text) else ():
        notes += _with_spaces(lines, one)
    if notes:
        blocks = parsed("\n".join(lines))
    for block in blocks:
        if isinstance(block, MetadataBlock):
            notes += _in_metadata(lines, block, types)
    return "\n".join(lines), sorted(notes)


def _with_spaces(lines: list[str], one: Lookalike) -> Iterator[Note]:
    start, end = one.body
    body = "\n".join(lines[start - 1 : end - 1])
    changed = _NO_SPACE.sub(r"\1\2\3: ", body)
    if one.closed and not one.margin and changed != body and metadata.check(changed + "\n") is None:
        for at, (old, new) in enumerate(zip(body.split("\n"), changed.split("\n"), strict=True), start):
            if old != new:
                lines[at - 1] = new
                yield at, f"'{old.strip()}' is taken for '{new.strip()}'"


def _in_metadata(lines: list[str], block: MetadataBlock, types: Collection[str]) -> Iterator[Note]:
    """Correct the keys and types in a block that can be read."""
    body = block.body
    for scalar in metadata.scalars(body):
        key, at = scalar.path[0], block.body_line + scalar.line - 2
        name = _key_meant(key, scalar.text, types)
        if not name:
            continue
        if key not in (name, f"~{name}", metadata.generated_key(name), *metadata.locked_keys(name)):
            lines[at] = lines[at].replace(key, name, 1)
            yield at + 1, f"'{key}' is taken for '{name}'"
        kind = _type_meant(scalar.text, types) if name == "type" else ""
        place = block.body_line + body.count("\n", 0, scalar.start) - 1
        if kind and scalar.text in lines[place]:
            before, _, after = lines[place].rpartition(scalar.text)
            lines[place] = before + kind + after
            yield place + 1, f"'{scalar.text}' is taken for '{kind}'"


def _key_meant(key: str, value: str, types: Collection[str]) -> str:
    """Return which of our keys is meant by a key, or an empty string."""
    bare = bare_key(key) if not key.startswith("~~") else ""
    if bare in _CONTROLS:
        return bare
    if is_slip(bare, "type") and (_type_meant(value, types) or _is_among(value, types)):
        return "type"
    return next((name for name in ("skip", "frozen") if is_slip(bare, name) and _SWITCH.match(value)), "")


def _is_among(word: str, types: Iterable[str]) -> bool:
    return word.strip().casefold() in {each.strip().casefold() for each in types}


def _type_meant(value: str, types: Collection[str]) -> str:
    """Return the type that a value nearly is, or an empty string.

    >>> [_type_meant(v, ["solution"]) for v in ("Solutions", "soluton", "solution (draft)", "solution", "evolution")]
    ['solution', 'solution', 'solution', '', '']
    """
    if _is_among(value, types):
        return ""
    words = _WORDS.split(value.strip().casefold())
    for word in (each.strip(".:!?\"'“”‘’*_`()[]") for each in words if len(words) < 4):
        for kind in types:
            bare = kind.strip().casefold()
            if word in (bare, *(bare + ending for ending in _ENDINGS)):
                return kind
            if len(bare) > _LONG and len(word) > _LONG and is_slip(word, bare):
                return kind
    return ""


def check_metadata(text: str) -> None:
    """Raise if metadata that seem to say who may read a text cannot be read, even as they are meant.

    Raises:
        UnreadableMetadata: this is so, or there is an unresolved conflict of git; it says where, and what to do.
    """
    for line in conflicts(text)[:1]:
        raise UnreadableMetadata(CONFLICT, where=f"{line}:1", hint=RESOLVE)
    meant = as_meant(text, ())[0]
    for one in find_lookalikes(parsed(meant)) if _CONTROLLED.search(meant) else ():
        if found := sorted(one.controls.intersection(_CONTROLS)):
            what = f"this sets '{found[0]}', but cannot be read: {one.reason}"
            raise UnreadableMetadata(what, where=f"{one.line}:{one.column}", hint=one.hint)
