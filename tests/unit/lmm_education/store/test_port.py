"""How a store that was made otherwise is refused."""

from __future__ import annotations

from lmm_education.store.port import Manifest, mismatch


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
