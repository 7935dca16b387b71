"""Whatever we do to a document, all that was not meant is read as what it was, and two changes never lose one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import talking
from harmless import authors_keys, others
from hypothesis import assume, given, strategies as st
from strategies import documents

from lmm import Document
from lmm.disk.diff import Conflict, equal_pairs, three_way
from lmm.errors import LmmError
from lmm.markdown.blocks import ErrorBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.models.testing import ScriptedModel
from lmm.notebook.edits import is_sound

# -- blank lines everywhere ------------------------------------------------------------------------

_LINES = [
    "?: why?",
    "?: |\n  more than\n\n  one line",
    "+: go on",
    "query: what?",
    "title: x",
    "type: y # mine",
    "# a note",
    "list:\n  - a\n\n  - b",
    "~chat_:\n  - query: a\n    ~reply: |-\n      b\n\n      c\n    ~~model: m",
    "~summary_: s\n~~summary_text: abcd",
    "frozen: true",
]
_BLANKS = ["", "", "\n", "  \n", "\n\n"]
_TEXTS = ["# A\n\n", "## B {#b}\n", "A paragraph.\n\n", "- a list\n- of two\n\n", "```\n---\n?: no\n---\n```\n\n"]


@st.composite
def blank_metadata(draw: st.DrawFn, edits: bool = False) -> str:
    """A metadata block with blank lines anywhere in it."""
    lines = draw(st.lists(st.sampled_from([*_LINES, "=: shorten"] if edits else _LINES), min_size=1, max_size=5))
    body = "".join(f"{line}\n{draw(st.sampled_from(_BLANKS))}" for line in dict.fromkeys(lines))
    return f"---\n{body}---\n"


@st.composite
def blank_documents(draw: st.DrawFn, edits: bool = False) -> str:
    """Metadata with blank lines in it, headings and text, in any order."""
    pieces = draw(st.lists(blank_metadata(edits) | st.sampled_from(_TEXTS), min_size=1, max_size=7))
    text = "".join(pieces)
    return draw(st.sampled_from([text, text.replace("\n", "\r\n"), f"\ufeff{text}", text.rstrip("\n")]))


def _answered(text: str) -> str:
    return talking.answered(text, model=ScriptedModel(["An answer."] * 60)).text


def _completed(text: str) -> str:
    document = Document.from_text(text)
    document.complete()
    return document.text


OPERATIONS: dict[str, Callable[[str], str]] = {
    "messages": _answered,
    "clear": talking.cleared,
    "clear --pending": lambda text: talking.cleared(text, pending=True),
    "messages, clear": lambda text: talking.cleared(_answered(text)),
    "annotate": lambda text: talking.annotated(text, model=ScriptedModel([])).text,
    "scan": _completed,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@given(text=blank_documents())
def test_all_else_is_read_as_what_it_was(operation: str, text: str) -> None:
    """Text stays text, and what its author wrote in metadata is still there, as metadata."""
    after = OPERATIONS[operation](text)
    assert others(after) == others(text)
    kept = authors_keys(after)
    if operation in ("scan", "annotate"):  # they add to the header
        assert all(any(keys.items() <= new.items() for new in kept) for keys in authors_keys(text))
    else:
        assert kept == authors_keys(text)
    assert is_sound(text, after)


@given(blank_documents(edits=True), st.sampled_from([partial(talking.accepted, force=True), talking.rejected]))
def test_edits_among_blank_lines(text: str, resolve: Callable[[str], str]) -> None:
    """Asked, answered, accepted or rejected: what the author wrote in metadata is metadata still."""
    answered = _answered(text)
    assert is_sound(text, answered)
    resolved = resolve(answered)
    assert is_sound(answered, resolved)
    assert authors_keys(resolved) == authors_keys(text)
    errors = [block.content for block in parse_markdown_text(resolved) if isinstance(block, ErrorBlock)]
    assert len(errors) <= sum(isinstance(block, ErrorBlock) for block in parse_markdown_text(text))


@given(documents(), st.sampled_from(list(OPERATIONS)))
def test_no_operation_of_ours_is_refused(text: str, operation: str) -> None:
    """The check that stands before every write lets pass what we do."""
    try:
        after = OPERATIONS[operation](text)
    except LmmError:  # the header cannot be read
        return
    assert is_sound(text, after)


# -- versions --------------------------------------------------------------------------------------

_VERSIONS = st.lists(st.sampled_from("abcde"), max_size=12)


@given(_VERSIONS, _VERSIONS)
def test_equal_pairs_ascend_and_are_equal(a: list[str], b: list[str]) -> None:
    pairs = equal_pairs(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(pairs))


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@given(_VERSIONS, _VERSIONS, _VERSIONS)
def test_three_way(base: list[str], ours: list[str], theirs: list[str]) -> None:
    """One side alone wins; both alike is no conflict; swapping the sides changes nothing."""
    old, new, now = map(_text, (base, ours, theirs))
    assert three_way(old, new, old) == three_way(old, old, new) == three_way(old, new, new) == new
    try:
        merged = three_way(old, new, now)
    except Conflict:
        with pytest.raises(Conflict):
            three_way(old, now, new)
        return
    assert merged == three_way(old, now, new)


@given(_VERSIONS, _VERSIONS, st.integers(0, 12), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3))
def test_what_was_written_elsewhere_stays_when_a_change_is_taken_back(
    before: list[str], after: list[str], at: int, own: list[str]
) -> None:
    """Lines that the author added to what we made are there, and only they, unless that place was ours."""
    now = after[:at] + own + after[at:]
    try:
        taken = three_way(_text(after), _text(before), _text(now))
    except Conflict:
        assume(False)
    rest = taken.splitlines()
    for line in own:
        rest.remove(line)
    assert rest == before
