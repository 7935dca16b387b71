"""`spans` of any text: in order, within it, and as what they say."""

from __future__ import annotations

from hypothesis import given, strategies as st
from strategies import documents, texts

from lmm.markdown import spans

MARKS = st.lists(st.sampled_from([*"`$[](){}<>\"'@^!\\:~|+-=# \n\ta", "```", "\n\n", "[^a]", "[a]: b\n"]), max_size=40)


@given(st.one_of(texts(), documents(), MARKS.map("".join)))
def test_spans_stand_in_the_text(text: str) -> None:
    """Each begins at or after the one before, ends in the text, and holds its own marks."""
    found = spans(text)
    assert [s.start for s in found] == sorted(s.start for s in found)
    for span in found:
        assert 0 <= span.start < span.end <= len(text)
        written = text[span.start : span.end]
        if span.kind in ("html", "citation", "reference"):
            assert written == span.text
        if span.kind in ("link", "image") and not written.startswith("<"):
            assert span.text in written


@given(texts())
def test_code_hides_what_is_in_it(text: str) -> None:
    """What a fence encloses is one span, whatever it holds."""
    code = text.replace("\r", "").replace("`", "'")
    found = spans(f"a\n\n````\n{code}\n````\n\n`b`\n")
    assert [(s.kind, s.text) for s in found] == [("code_block", code), ("code", "b")]
