"""Metadata bodies: ownership, repeated keys, and edits where the exact text matters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from lmm.errors import MetadataError
from lmm.markdown import metadata, yaml_core

# -- ownership -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"a=": 1, "~a=": 2, "a": 3, "~a": 4}, 1),
        ({"~a=": 2, "a": 3, "~a": 4}, 2),
        ({"a": 3, "~a": 4}, 3),
        ({"~a": 4, "~~a": 5}, 4),
        ({"~~a": 5}, "nothing"),
        ({"a": None, "~a": 4}, None),
        ({}, "nothing"),
    ],
)
def test_lookup(values: dict[str, Any], found: object) -> None:
    """A locked key counts before the author's, that before the model's; bookkeeping is never read as `key`."""
    assert metadata.lookup(values, "a", "nothing") == found


@pytest.mark.parametrize("key", ["a", "~a", "~~a", "a=", "~a="])
def test_base_name(key: str) -> None:
    """All spellings of a key have one name."""
    assert metadata.base_name(key) == "a"


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("type: x\nsee = that\n", "with a colon"),
        ("query: what\n  if x + y = z\ntitle: a: b\n", "quote it: "),
        ("x: y: z\nthe formula E = mc\n", "quote it: "),
    ],
)
def test_only_an_assignment_is_told_to_be_one(body: str, hint: str) -> None:
    """Not each line with a sign of equality."""
    assert hint in metadata.explain(body).hint


# -- repeated keys -------------------------------------------------------------------------------


def test_duplicate_keys() -> None:
    """Each repetition is named with its line; prompts repeat freely, and nested keys are somebody else's."""
    body = "a: 1\n?: x\n  y\n?: z\nb:\n  a: 2\na: 3\n'b': 4\na: 5\n"
    assert metadata.duplicate_keys(body) == [("a", 7), ("b", 8), ("a", 9)]
    assert metadata.duplicate_keys("- a: 1\n- a: 2\n") == [("a", 2)]
    assert metadata.duplicate_keys("a: 1\n") == []


def test_key_line() -> None:
    """The line of a key counts LFs, not what YAML takes for line ends."""
    assert metadata.key_line('a: "x\u2028y"\n?: p\nb: 1\n', "b") == 3
    assert metadata.key_line("a: 1\n", "b") is None


def test_error_place_counts_lf_lines() -> None:
    """An error's place counts LFs and characters, whatever YAML takes for line ends."""
    with pytest.raises(MetadataError) as caught:
        metadata.read("a: 'é\u2028\u2028\r'\nb: [1\n\U0001f600: ]: x\n")
    assert caught.value.line == 3


# -- edits ---------------------------------------------------------------------------------------


def test_set_key_keeps_comments_at_the_margin() -> None:
    """A comment under an entry, at its own margin, is not the entry's."""
    assert metadata.set_key("  a: 1\n  # about b\n  b: 2\n", "a", 5) == "  a: 5\n  # about b\n  b: 2\n"
    as_list = "- a: 1\n  # c\n# d\n- b: 2\n"
    assert metadata.set_key(as_list, "a", "x\ny") == "- a: |-\n    x\n    y\n  # c\n# d\n- b: 2\n"


def test_set_key_takes_deeper_comments_along() -> None:
    """A comment deeper than its key belongs to the value: under a new block scalar it would become text."""
    assert metadata.set_key("a:\n  - x\n  # - y\nb: 1\n", "a", "one\ntwo") == "a: |-\n  one\n  two\nb: 1\n"


def test_new_key_in_an_indented_body_stays_out_of_a_prompt() -> None:
    """Under a prompt line, an indented entry would be more of the prompt; it goes before."""
    assert metadata.set_key("  a: 1\n?: why\n", "b", 2) == "  a: 1\n  b: 2\n?: why\n"


def test_prompt_inside_an_entry_is_not_lost() -> None:
    """An entry that spans a prompt line cannot be replaced."""
    body = "a: [1,\n?: why\n2]\nb: 1\n"
    with pytest.raises(MetadataError):
        metadata.set_key(body, "a", 1)
    with pytest.raises(MetadataError):
        metadata.remove_key(body, "a")


@pytest.mark.parametrize("word", ["query", "message", "edit", "?", "+", "="])
def test_keys_named_like_prompts_are_quoted(word: str) -> None:
    """A value set under a prompt's word is a value, not a pending prompt."""
    changed = metadata.set_key("a: 1\n", word, "x")
    assert changed == f'a: 1\n"{word}": x\n'
    assert metadata.read(changed)[word] == "x"
    assert metadata.set_key(changed, word, "y") == f'a: 1\n"{word}": "y"\n'


@pytest.mark.parametrize("body", ["{a: 1, b: [x]}\n", "{}\n", "{a: 1,\n b: 2}  # two\n"])
def test_keys_in_braces_are_read_and_not_edited(body: str) -> None:
    """Who writes them is told what to write; braces inside a value are no matter."""
    for edit in (metadata.set_key, metadata.append_item):
        with pytest.raises(MetadataError, match="write 'key: value' lines, without the braces"):
            edit(body, "c", 1)
    assert metadata.is_in_braces(body)
    assert metadata.set_key("a: {b: 1}\n", "c", "x") == "a: {b: 1}\nc: x\n"


def test_append_item_keeps_items() -> None:
    """The items before, their quoting and their comments stay."""
    body = "log:\n- 'x'   # one\n-   y\n# end\nb: 1\n"
    assert metadata.append_item(body, "log", "z") == "log:\n- 'x'   # one\n-   y\n- z\n# end\nb: 1\n"
    assert metadata.append_item("a: x\n", "a", {"b": 1}) == "a:\n  - x\n  - b: 1\n"
    assert metadata.append_item("a: [x]\n", "a", "z") == "a:\n  - x\n  - z\n"


def test_remove_missing_key() -> None:
    """Removing what is not there changes nothing."""
    assert metadata.remove_key("a: 1   # x\n", "b") == "a: 1   # x\n"


@pytest.mark.parametrize("text", ["0\n\t", "a\n  ", "a\n\n", "\n", " a\nb", "a\rb\nc", "a\u2028b\nc"])
def test_texts_that_are_not_literal_blocks(text: str) -> None:
    """What a literal block would not hold for sure is written on one quoted line."""
    assert yaml_core.entry("a", text).count("\n") == 1
    assert metadata.read(yaml_core.entry("a", text)) == {"a": text}


@pytest.mark.parametrize(
    "text", ["yes", "NO", "on", "017", "1_000", "0b101", "0x1F", "12:30:45", "2025-05-21", "~", "y", "1e3"]
)
def test_texts_that_others_would_type_are_quoted(text: str) -> None:
    """A text that a YAML 1.1 reader takes for a boolean, number or date is quoted."""
    assert yaml_core.entry("a", text) == f'a: "{text}"\n'


def test_alias_bombs_are_refused() -> None:
    """Aliases of aliases that hold a billion values are no metadata: to count them would take for ever."""
    names = "abcdefghijk"
    nine = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise(names)]
    bomb = "a: &a [x, x]\n" + "".join(nine)
    with pytest.raises(MetadataError, match="aliases"):
        metadata.set_key(bomb, "new", 1)


@pytest.mark.parametrize("bracket", ["[", "{a: ", "- ", "? ", "\n "])
def test_deep_nesting_is_refused(bracket: str) -> None:
    """A hundred thousand brackets are an error, not the end of the process."""
    problem = metadata.check("a: " + bracket * 100_000)
    assert problem is None or problem.message
