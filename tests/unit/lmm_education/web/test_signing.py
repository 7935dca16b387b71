"""What is signed is read back; nothing else is."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lmm_education.web.login import Signer

texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


@given(st.binary(min_size=16, max_size=32), texts, texts)
def test_what_was_signed_is_read(key: bytes, purpose: str, text: str) -> None:
    """By the same key, for the same purpose."""
    signer = Signer(key)
    signed = signer.sign(purpose, text)
    assert signer.read(purpose, signed) == text
    assert Signer(key + b"!").read(purpose, signed) is None
    assert signer.read(purpose + "!", signed) is None


@given(texts, st.integers(0, 80), st.characters())
def test_a_changed_character_is_noticed(text: str, at: int, other: str) -> None:
    """In the text or in the signature."""
    signer = Signer(b"k" * 32)
    signed = signer.sign("student", text)
    at = min(at, len(signed) - 1)
    changed = signed[:at] + other + signed[at + 1 :]
    assert changed == signed or signer.read("student", changed) is None


@given(st.text(max_size=60))
def test_strangers_texts_are_refused(text: str) -> None:
    """Whatever comes in a cookie, nothing is raised."""
    assert Signer(b"k" * 32).read("student", text) is None
