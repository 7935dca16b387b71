"""JSON is found wherever a model puts it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from lmm.models.structured import NoJson, read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
RECORDS = st.dictionaries(st.text(), VALUES, max_size=5) | st.lists(VALUES, max_size=5)


@given(VALUES)
def test_bare_json_is_the_value(value: Any) -> None:
    """A reply that is JSON is that value and no other."""
    assert read_json(f"\n{json.dumps(value, ensure_ascii=False)}\n ") == [value]


@given(RECORDS, st.text(st.characters(exclude_characters='["', exclude_categories=["Cs"])), st.text())
def test_json_is_found_in_the_text_around_it(value: Any, before: str, after: str) -> None:
    """Whatever follows it, and before it braces that open no JSON."""
    assert value in read_json(before + json.dumps(value, ensure_ascii=False) + after)


@given(
    RECORDS,
    st.text().filter(lambda text: "```" not in text and "~~~" not in text),
    st.text(),
    st.sampled_from(["```", "```json", "``` JSON ", "````json", "~~~"]),
    st.sampled_from([None, 2]),
)
def test_json_in_a_fence_comes_first(value: Any, before: str, after: str, fence: str, indent: int | None) -> None:
    """Whatever text is around the fence, JSON in it included."""
    code = json.dumps(value, indent=indent)
    assert read_json(f"{before}\n{fence}\n{code}\n{fence.rstrip('jsonJSON ')}\n{after}")[0] == value


@given(st.text() | st.text('[{"]}:,1e\\`~ \n', max_size=40))
def test_any_reply_has_values_or_a_reason(reply: str) -> None:
    """Nothing else is raised, and the reason is not empty."""
    values, reason = list[Any](), ""
    try:
        values = read_json(reply)
    except NoJson as error:
        reason = str(error)
    assert bool(values) != bool(reason)
