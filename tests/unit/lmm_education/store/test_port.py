"""What both stores agree on, and how a store that was made otherwise is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lmm_education.encodings import ENCODINGS
from lmm_education.errors import StoreMismatch
from lmm_education.store.port import (
    FORMAT,
    Manifest,
    check_format,
    check_same,
    engine_path,
    mismatch,
    tally,
    values_at,
    vectors_of,
)


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_has_its_vectors(name: str) -> None:
    """In the table's order or not, but the same; documents have none."""
    manifest = Manifest(name, "model", 7)
    found = vectors_of(manifest, "chunks")._asdict()
    assert {each for each, is_there in found.items() if is_there} == set(ENCODINGS[name].vectors_with("model"))
    assert not any(vectors_of(manifest, "documents"))


@pytest.mark.parametrize(
    ("path", "payload", "values"),
    [
        ("a.b", {"a": {"b": 1}}, [1]),
        ("a.b", {"a": [{"b": 1}, {"b": [2, 3]}, 4]}, [1, 2, 3]),
        ("a[].b", {"a": [{"b": 1}]}, [1]),
        ('a."x.y"', {"a": {"x.y": "z"}}, ["z"]),
        ("a b.c", {"a b": {"c": None}}, [None]),
        ("a.b", {"a": "text"}, []),
    ],
)
def test_values_at_a_path(path: str, payload: Any, values: list[Any]) -> None:
    """Lists on the way are looked into, as the engine does."""
    assert values_at(payload, path) == values


@pytest.mark.parametrize(
    ("path", "quoted"),
    [("a-b.c_d", "a-b.c_d"), ("größe.x", '"größe".x'), ("a.b c", 'a."b c"'), ("a[].b", "a[].b"), ("a.[]", 'a."[]"')],
)
def test_paths_are_quoted_where_they_must_be(path: str, quoted: str) -> None:
    """The engine reads letters of ASCII, digits, - and _ without quotes."""
    assert engine_path(path) == quoted


def test_values_that_are_no_words_are_not_counted() -> None:
    """Texts and numbers are; empty values and tables are not."""
    assert tally([1.5, 1, "1", None, {}, True], 9) == {"1": 2, "1.5": 1, "true": 1}


def test_what_differs_is_named() -> None:
    """With both values."""
    with pytest.raises(StoreMismatch, match=r"dimensions was 3, is 4; \[RAG\] sparse_model was not set, is x"):
        check_same(Manifest("hybrid", "m", 4, "x"), Manifest("hybrid", "m", 3), "here")
    check_same(Manifest("hybrid", chunking={"a": (1, 2)}), Manifest("hybrid", chunking={"a": [1, 2]}), "here")


@pytest.mark.parametrize("number", [FORMAT + 1, FORMAT - 1, None, "1"])
def test_other_formats_are_refused(number: object) -> None:
    """The error says what this version reads."""
    with pytest.raises(StoreMismatch, match=f"reads format {FORMAT}"):
        check_format(number, "here")


def test_only_keys_that_differ_are_named() -> None:
    """As config.toml spells them; of another embedding model no dimensions."""
    chunking = {"splitter": "default", "min_size": 1000, "max_size": 2000}
    stored = Manifest("hybrid", "Builtin/wordllama", 256, chunking=chunking)
    now = Manifest("hybrid", "", 0, language="de", chunking={**chunking, "max_size": 800, "overlap": 50})
    assert mismatch(stored, now, where="/store").message == (
        "the store was made with other settings ([embedding] model was Builtin/wordllama, is not set; "
        "[RAG] language was en, is de; [text_splitter] max_size was 2000, is 800; "
        "[text_splitter] overlap was not set, is 50)"
    )


def test_what_another_encoding_does_without_is_no_change_of_a_setting() -> None:
    """Nobody unset the sparse model."""
    refused = mismatch(Manifest("hybrid", "a", 2, "Builtin/bm25"), Manifest("content", "b", 3))
    assert "([RAG] encoding_model was hybrid, is content; [embedding] model was a, is b)" in refused.message
