"""Metadata that say who may read a text: near misses are taken for what was meant, and what cannot be read is refused;
and headings that are named after a type of text: Exercises, Solution, Lösungen.

``Type: solution``, ``type:solution`` and ``type: solutions`` are meant as ``type: solution``: students must not see
what is below them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator

from lmm.markdown import metadata, spans
from lmm.markdown.blocks import Block, MetadataBlock, TextBlock
from lmm.markdown.lookalikes import CONFLICT, RESOLVE, Lookalike, conflicts, find_lookalikes
from lmm.markdown.metadata import bare_key, is_slip
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.notebook.generated_fields import is_on
from lmm.notebook.problems import CONTROLS
from lmm.notebook.text_types import type_meant
from lmm.type_names import is_one_of, names_of
from lmm_education.errors import UnreadableMetadata
from lmm_education.payloads import texts_of

_CONTROLS = tuple(CONTROLS)
_NO_SPACE = re.compile(
    rf"^([ \t]*(?:-[ \t]+)?)({'|'.join(_CONTROLS)})([ \t]*):(?=[^\s:])", re.MULTILINE | re.IGNORECASE
)
_CONTROLLED = re.compile(rf"(?:{'|'.join(_CONTROLS)})\W{{0,12}}?[:：=]", re.IGNORECASE)  # few texts have one
_SWITCH = re.compile(r"(?:true|yes|on|1|false|no|off|0)\Z", re.IGNORECASE)

_LIKE_TYPE = ("kind", "category", "categories", "class", "role", "tag", "tags")
_LONG = 4  # letters of a name that is looked for in others
_HIDES = ("hidden", "hide", "private", "exclude", "ignore", "draft", "unlisted", "skipped")
_SHOWS = ("public", "published", "visible", "students")
_ALONE = re.compile(r"^[^\w\n`]*(type|kind|skip)\b[^\w\n]{0,4}([^\W\d][\w ]*?)?[^\w\n]*$", re.MULTILINE | re.IGNORECASE)

# -- metadata --------------------------------------------------------------------------------------

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
        kind = type_meant(scalar.text, types) if name == "type" else ""
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
    if is_slip(bare, "type") and (type_meant(value, types) or is_one_of(value, types)):
        return "type"
    return next((name for name in ("skip", "frozen") if is_slip(bare, name) and _SWITCH.match(value)), "")


def without_effect(text: str, types: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Iterate over what seems to say who may read a text, and does not: its line, it, and what to write.

    >>> [what for _, what, _ in without_effect("---\\nkind: solution\\n---\\n**skip: true**\\n", ["solution"])]
    ["'kind' does not say who may read this", "'**skip: true**' is text"]
    """
    for block in parsed(text):
        if isinstance(block, MetadataBlock):
            for key, value in block.values().items():
                if meant := _meant_by(key, value, types):
                    line = block.body_line + (metadata.key_line(block.body, key) or 1) - 1
                    yield line, f"'{key}' does not say who may read this", f"write '{meant}'"
        elif isinstance(block, TextBlock):
            for match in _ALONE.finditer(block.content):
                key, value, source = match[1].casefold(), match[2] or "", block.content
                alone = key == "skip" and not value and source.startswith(("---", "<!--"))
                means = alone or value in ("true", "yes", "on") if key == "skip" else is_one_of(value, types)
                codes = (span for span in spans(source) if span.kind == "code_block")
                if means and not any(code.start <= match.start() < code.end for code in codes):
                    line = block.line + source.count("\n", 0, match.start())
                    yield line, f"'{match[0].strip()}' is text", "write it between lines '---'"


def _meant_by(key: str, value: object, types: Collection[str]) -> str:
    """Return what was meant by a key of metadata that says nothing to us, if it was who may read a text."""
    bare, inner = bare_key(key) if not key.startswith("~") else "", value if isinstance(value, dict) else {}
    kinds = [type_meant(one, types) or one for one in texts_of(value)]
    kind = next((one for one in kinds if is_one_of(one, types)), "")
    if kind and (bare in _LIKE_TYPE or "type" in inner or (bare == "type" and inner)):
        return f"type: {kind}"
    values = [one.strip().casefold() for one in texts_of(value)] if bare == "type" and not kind else []
    if any(one in _HIDES for one in values):
        return "skip: true"
    for kind in types:  # "Lösungsblatt", "Klausurlösung", not "resolution"
        names = tuple(name for name in names_of(kind) if len(name) > _LONG)
        others = tuple(name for name in names if not name.startswith(kind.strip().casefold()))
        if any(one.startswith(names) or one.endswith(others) for one in values):
            return f"type: {kind}"
    if (bare == "type" and (value is None or inner)) or (is_one_of(bare, types) and value in (None, True)):
        return f"type: {next((one for one in (bare, *inner) if is_one_of(one, types)), 'solution')}"
    hides = bare in _HIDES and value is not None and is_on(value)
    hides = hides or (bare in _SHOWS and value is False) or inner.get("skip") is True
    return "skip: true" if hides or (bare == "skip" and (value is None or inner)) else ""


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
