"""What a field was made from decides whether it is made again; and what is written about that."""

from __future__ import annotations

from typing import Any

import pytest

from lmm.errors import MetadataError
from lmm.markdown.blocks import MetadataBlock
from lmm.notebook.staleness import (
    KEY,
    Fingerprint,
    GeneratedValue,
    State,
    find_fingerprint,
    state_of,
    text_hash,
    value_hash,
    with_fields,
    without_field,
)

TEXT, HOW = "The text.", "how"


def block(body: str) -> MetadataBlock:
    """A metadata block with that body."""
    return MetadataBlock(f"---\n{body}---\n", 1)


def made(value: Any, text: str = TEXT, how: str = HOW) -> dict[str, Any]:
    """The values of a block in which `summary` was generated so."""
    return with_fields(block("a: 1\n"), {"summary": GeneratedValue(value, text, how)}).values()


# -- hashes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["a b c", "a\nb\nc", "  a b\t c\r\n\n", "a\u00a0b\u2028c"])
def test_white_space_does_not_count(other: str) -> None:
    """Reflowing a text, or a value, leaves its hash as it is."""
    assert text_hash(other) == text_hash("a b c")
    assert value_hash(other) == value_hash("a b c")
    assert value_hash([other, {"k": other}]) == value_hash(("a b c", {"k": "a b c"}))


@pytest.mark.parametrize(("one", "two"), [("ab c", "a bc"), ("a", "A"), ("", "x"), ("a-b", "a b")])
def test_words_count(one: str, two: str) -> None:
    """Where words end, and every other character, is part of the text."""
    assert text_hash(one) != text_hash(two)


@pytest.mark.parametrize(
    ("one", "two"), [("1", 1), (True, 1), (None, ""), (["a"], "a"), ({"a": 1}, {"a": "1"}), (1, 1.5)]
)
def test_values_of_other_kinds_differ(one: Any, two: Any) -> None:
    """A number is not its text, a list not its item."""
    assert value_hash(one) != value_hash(two)


def test_any_text_has_a_hash() -> None:
    """Lone surrogates too; a hash is ten characters that YAML reads as text beside others."""
    assert len(text_hash("\ud800")) == len(value_hash("\ud800")) == 10


def test_the_form_of_hashes_is_stable() -> None:
    """Documents hold them: another form would make every annotation of every course stale."""
    assert text_hash("A leaf is green.") == "uu07Q1WJYH"
    assert value_hash("A leaf is green.") == "QFPf2kzTYi"
    assert value_hash(["a", 1]) == "JldEK7SkjW"


# -- states ----------------------------------------------------------------------------------------


def test_the_life_of_a_field() -> None:
    """Missing, up to date, its text changed, made otherwise, edited, its text gone."""
    values = made("A summary.")
    edited = values | {"~summary_": "My summary."}
    assert state_of({}, "summary", TEXT, HOW) is State.MISSING
    assert state_of(values, "summary", TEXT, HOW) is State.FRESH
    assert state_of(values, "summary", "The\n  text.", HOW) is State.FRESH
    assert state_of(values, "summary", "Another text.", HOW) is State.CHANGED
    assert state_of(values, "summary", "Another text.", "other") is State.CHANGED
    assert state_of(values, "summary", TEXT, "other") is State.OTHER_RECIPE
    assert state_of(values, "summary", None, HOW) is State.GONE
    for text in (TEXT, "Another text.", None):
        assert state_of(edited, "summary", text, HOW) is State.EDITED


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"summary": "mine"}, State.OWN),
        ({"summary": None}, State.OWN),
        ({"summary": "mine", "~summary_": "theirs"}, State.OWN),
        ({"summary=": "mine"}, State.LOCKED),
        ({"~summary=": "theirs"}, State.LOCKED),
        ({"summary=": "mine", "~txthash": "scalar"}, State.LOCKED),
        ({"~summary_": "of an unknown program"}, State.EDITED),
        ({"~summary_": "x", KEY: {"summary": "damaged"}}, State.EDITED),
        ({"~summary_": "x", KEY: {"questions": "a b c"}}, State.EDITED),
        ({"~summary_": "x", KEY: ["a list"]}, State.EDITED),
        ({KEY: {"summary": "a b c"}}, State.MISSING),
    ],
    ids=str,
)
def test_what_people_wrote_is_never_made_anew(values: dict[str, Any], state: State) -> None:
    """Their own, locked ones, and whatever we cannot tell from an edit; deleting a field asks for a new one."""
    assert state_of(values, "summary", TEXT, HOW) is state


@pytest.mark.parametrize("scalar", ["S/ec1NIX0xV3NhFFuHY6bQ", 12345, True])
def test_a_scalar_hash_is_that_of_the_text_for_all_fields(scalar: object) -> None:
    """As in seed 004: the bare fields beside it were generated; a bare field of another name is the author's."""
    values = {"~txthash": scalar, "titles": "T", "questions": "Q", "summary": "S", "keywords": "K", "~made": "M"}
    for name in ("titles", "questions", "summary", "made"):
        assert find_fingerprint(values, name) == Fingerprint(str(scalar))
        assert state_of(values, name, TEXT, HOW) is State.OLD_HASH
        assert state_of(values, name, None, HOW) is State.NOTHING
    assert state_of(values, "keywords", TEXT, HOW) is State.OWN
    assert state_of(values | {"~txthash": text_hash(TEXT)}, "titles", TEXT, HOW) is State.FRESH


def test_no_text_and_no_field() -> None:
    """There is nothing to do, and nothing to say."""
    assert state_of({}, "summary", None, HOW) is State.NOTHING


# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["A summary.", "two\nlines\n", "  odd   \u2028 \x00", "`r 1+1`", ["a", "b"], ("a", 1), {"k": [1.5, None]}, 3, 1e300,
     float("nan"), True, "", [], "---\n...", {"1": "x"}],
    ids=repr,
)  # fmt: skip
def test_a_value_of_any_kind_is_up_to_date_when_written(value: Any) -> None:
    """The hash is of the value as it will be read: never taken for edited by hand."""
    assert state_of(made(value), "summary", TEXT, HOW) is State.FRESH


def test_other_lines_stay() -> None:
    """Comments, quoting, order and another program's fields are not touched."""
    before = block("# note\na:   'x'   # mine\n?: a prompt\n~~id: 7\n")
    after = with_fields(
        before, {"summary": GeneratedValue("S.", TEXT, HOW), "keywords": GeneratedValue(["k"], TEXT, HOW)}
    )
    assert after.body.startswith(before.body)
    assert list(after.values()) == ["a", "~~id", "~summary_", "~keywords_", KEY]
    assert list(after.values()[KEY]) == ["summary", "keywords"]


def test_bare_fields_beside_a_scalar_are_marked_as_generated() -> None:
    """Written once with "~", with the hashes that are known; locked and own fields stay."""
    old = block("~txthash: abc\ntitles: T\nquestions: Q1 - Q2\nkeywords: mine\nsummary=: locked\n")
    new = with_fields(old, {"titles": GeneratedValue("T2", TEXT, HOW)}).values()
    assert new == {
        "keywords": "mine", "summary=": "locked", "~titles_": "T2", "~questions_": "Q1 - Q2",
        KEY: {"titles": new[KEY]["titles"], "questions": f"abc {value_hash('Q1 - Q2')} -"},
    }  # fmt: skip
    assert state_of(new, "titles", TEXT, HOW) is State.FRESH
    assert state_of(new, "questions", TEXT, HOW) is State.CHANGED
    assert state_of(new | {"~questions_": "mine"}, "questions", TEXT, HOW) is State.EDITED


def test_taking_a_field_away_gives_the_block_back() -> None:
    """The field and its hashes go, those of others stay; the last one takes the mapping along."""
    before = block("a: 1\n")
    both = with_fields(
        before, {"summary": GeneratedValue("S.", TEXT, HOW), "keywords": GeneratedValue("K.", TEXT, HOW)}
    )
    one = without_field(both, "summary")
    assert list(one.values()) == ["a", "~keywords_", KEY]
    assert list(one.values()[KEY]) == ["keywords"]
    assert without_field(one, "keywords") == before


def test_a_block_that_cannot_be_added_to() -> None:
    """An error of ours, and nothing half written."""
    with pytest.raises(MetadataError):
        with_fields(block("~summary_: &x [1]\nb: *x\n"), {"summary": GeneratedValue("S.", TEXT, HOW)})
