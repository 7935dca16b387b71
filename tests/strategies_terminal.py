"""Texts as models write them."""

from __future__ import annotations

from hypothesis import strategies as st

_WORDS = st.lists(
    st.sampled_from(
        ["leaf", "**bold words**", "*it*", "`code`", "日本語", "a_b", "[x](http://y.z)", "~~no~~", "1<2", "é"]
    ),
    min_size=1,
    max_size=12,
).map(" ".join)
_ITEM = st.tuples(_WORDS, st.lists(_WORDS, max_size=2)).map(
    lambda item: "\n".join((item[0], *(f"  - {inner}" for inner in item[1])))
)
_CODE = st.lists(st.sampled_from(["def f():", "    return 1  # x", "", "x = '''", "'''"]), max_size=8).map("\n".join)
_BLOCKS = st.one_of(
    _WORDS,
    st.tuples(st.integers(1, 6), _WORDS).map(lambda h: f"{'#' * h[0]} {h[1]}"),
    st.lists(_ITEM, min_size=1, max_size=4).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.lists(_WORDS, min_size=1, max_size=4).map(
        lambda items: "\n\n".join(f"{n}. {item}" for n, item in enumerate(items, 1))
    ),
    _CODE.map(lambda code: f"```python\n{code}\n```"),
    _WORDS.map(lambda words: f"> {words}\n> - {words}"),
    st.lists(st.lists(_WORDS, min_size=2, max_size=2), min_size=1, max_size=3).map(
        lambda rows: "\n".join(["| a | b |", "|---|--:|", *(f"| {' | '.join(row)} |" for row in rows)])
    ),
    st.just("---"),
)


def markdown_texts() -> st.SearchStrategy[str]:
    """Blocks of all kinds, parted by blank lines."""
    return st.lists(_BLOCKS, min_size=1, max_size=6).map(lambda blocks: "\n\n".join(blocks) + "\n")
