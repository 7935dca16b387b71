"""Chunks and sections survive being payloads, and every payload is JSON."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from lmm_education.material import Chunk, Lines, Location, PreparedDocument, Section
from lmm_education.payloads import (
    chunk_payload,
    document_of,
    document_payload,
    hit_of,
    plain,
    section_of,
    section_payload,
)

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
_PLACES = st.builds(
    Location, _TEXTS, _TEXTS, st.builds(Lines, st.integers(1, 9), st.integers(1, 9)), st.lists(_TEXTS).map(tuple)
)
_METADATA = st.dictionaries(_TEXTS, _PLAIN, max_size=3)
_SECTIONS = st.builds(Section, _TEXTS, _PLACES, st.integers(0, 6), st.integers(0, 99), _TEXTS, _TEXTS, _METADATA)
_CHUNKS = st.builds(
    Chunk, _TEXTS, _PLACES, _TEXTS, st.integers(0, 99), _TEXTS, title=_TEXTS, type=_TEXTS, metadata=_METADATA
)
_ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.dates() | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers() | st.text() | st.none(), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(_SECTIONS, _TEXTS)
def test_a_section_comes_back(section: Section, title: str) -> None:
    """`section_of` undoes `section_payload`."""
    payload = json.loads(json.dumps(section_payload(section, title=title)))
    assert section_of(section.id, payload) == section


@given(_CHUNKS, _SECTIONS)
def test_hits_say_where_they_are_and_what_they_are(chunk: Chunk, section: Section) -> None:
    """A hit on a section is its own section."""
    hit = hit_of(chunk.id, chunk_payload(chunk, language="en", hash="h"), score=0.5)
    assert (hit.what, hit.place, hit.text, hit.type) == ("chunk", chunk.place, chunk.text, chunk.type)
    hit = hit_of(section.id, section_payload(section, title="t"), score=0.5)
    assert (hit.what, hit.place, hit.section, hit.title) == ("section", section.place, section.id, "t")


@given(_ANYTHING)
def test_every_value_becomes_json_and_stays(value: object) -> None:
    """`plain` gives strict UTF-8 JSON, and leaves alone what is plain already."""
    once = plain(value)
    json.dumps(once, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert plain(once) == once


def test_a_record_comes_back() -> None:
    """The record of a document tells its counts, and reads one that an older version wrote."""
    document = PreparedDocument("d", "a.md", "Leaves", "de", (), (), {"topic": "x"})
    record = document_of(document_payload(document, hash="h"))
    assert (record.id, record.file, record.hash, record.language) == ("d", "a.md", "h", "de")
    assert (record.chunks, record.metadata) == (0, {"topic": "x"})
    assert document_of({"document": "d", "file": "a.md"}).hash == ""


def test_every_type_of_several_is_stored() -> None:
    """So that each is found; a hit has the first."""
    chunk = Chunk("1", Location("d", "a.md", Lines(1, 1)), "s", 0, "Why?", type="a", metadata={"type": ["a", "b"]})
    payload = chunk_payload(chunk, language="en", hash="")
    assert payload["type"] == ["a", "b"]
    assert hit_of("1", payload).type == "a"
