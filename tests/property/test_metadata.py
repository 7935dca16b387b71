"""What holds for every metadata edit: one key changes, nothing else does, and what was set is what is read."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import example, given, strategies as st
from strategies import Body, block_bodies, keys, list_bodies, metadata_bodies, metadata_values, texts

from lmm.errors import MetadataError
from lmm.markdown import metadata, yaml_core
from lmm.markdown.blocks import MetadataBlock, serialize
from lmm.markdown.metadata import find_prompts, mask_prompts
from lmm.markdown.parse_markdown import parse_markdown_text

# knitr's own patterns: what it would run, even inside YAML.
_KNITR_CHUNK = re.compile(r"^[\t >]*```+\s*\{([a-zA-Z0-9_]+.*)\}\s*$")
_KNITR_INLINE = re.compile(r"`r[ #]")


def _same(one: object, two: object) -> bool:
    """Equality that tells True from 1, -0.0 from 0.0, and takes nan for nan."""
    return repr(one) == repr(two)


def _newline(body: str) -> str:
    return "\r\n" if "\r\n" in body else "\n"


def _is_flow(body: str) -> bool:
    node = yaml_core.compose(mask_prompts(body, find_prompts(body)))
    return bool(getattr(node, "flow_style", False))


@given(metadata_bodies())
def test_check_agrees_with_read(body: str) -> None:
    """`check` finds nothing wrong exactly where `read` succeeds."""
    try:
        metadata.read(body)
    except MetadataError:
        assert metadata.check(body) is not None
    else:
        assert metadata.check(body) is None


RUNNING = (
    "~a: |-\n  `r 1`\n",
    "~chat:\n- q\n- >\n  ```{r}\n  1\n\n# c\n",
    "~b: {c: 'x `r 1`', d: 2}\n",
    "~e: &x x `r 1`\n~f: *x\n",
)


@given(metadata_bodies() | st.builds("{}{}".format, metadata_bodies(), st.sampled_from(RUNNING)))
def test_code_of_a_model_is_made_readable_only(body: str) -> None:
    """The values stay; nothing below a model's key runs any more, or the body is refused as it is."""
    try:
        before = metadata.read(body)
        changed = metadata.without_running_code(body)
    except MetadataError:
        return
    assert _same(metadata.read(changed), before)
    assert metadata.run_when_knit(changed) == []
    if not metadata.run_when_knit(body):
        assert changed == body


# -- one key at a time ---------------------------------------------------------------------------


@given(block_bodies() | list_bodies(), st.data(), metadata_values())
def test_set_existing_key_changes_its_lines_only(body: Body, data: st.DataObject, value: Any) -> None:
    """Setting a key that is there replaces its own lines; comments, prompts and other entries keep every byte."""
    if not body.keys:
        return
    key = data.draw(st.sampled_from(body.keys))
    before, after = body.around(key)
    changed = metadata.set_key(body.text, key, value, newline=_newline(body.text))
    assert changed.startswith(before)
    assert changed.endswith(after)
    assert _same(metadata.read(changed), metadata.read(body.text) | {key: value})
    assert [p.text for p in find_prompts(changed)] == [p.text for p in find_prompts(body.text)]


@given(block_bodies() | list_bodies(), keys(), metadata_values())
def test_set_new_key_inserts_lines_only(body: Body, key: str, value: Any) -> None:
    """Setting a key that is not there adds lines; every line that was there stays, in order."""
    if key in body.keys:
        return
    changed = metadata.set_key(body.text, key, value, newline=_newline(body.text))
    added = len(changed) - len(body.text)
    assert any(changed[:at] + changed[at + added :] == body.text for at in range(len(body.text) + 1))
    assert _same(metadata.read(changed), metadata.read(body.text) | {key: value})
    assert [p.text for p in find_prompts(changed)] == [p.text for p in find_prompts(body.text)]


@given(block_bodies(prompts=False), st.data(), keys(), metadata_values())
def test_set_new_key_before_a_place(body: Body, data: st.DataObject, key: str, value: Any) -> None:
    """A new key goes to the place that was asked for, if that is between two pieces of a body at margin 0."""
    if key in body.keys or body.text.startswith("  ") or any(p.key and p.source[0] == " " for p in body.pieces):
        return
    before = "".join(p.source for p in body.pieces[: data.draw(st.integers(0, len(body.pieces)))])
    try:
        changed = metadata.set_key(body.text, key, value, newline=_newline(body.text), before=len(before))
    except MetadataError:
        return  # the place is inside a block scalar's blank lines
    assert changed.startswith(before)
    assert changed.endswith(body.text[len(before) :])


@given(block_bodies() | list_bodies(), st.data())
def test_remove_key_removes_its_lines_only(body: Body, data: st.DataObject) -> None:
    """Removing a key removes its own lines, and blank lines that would then stand first."""
    if not body.keys:
        return
    key = data.draw(st.sampled_from(body.keys))
    before, after = body.around(key)
    assert metadata.remove_key(body.text, key) == re.sub(r"\A([ \t]*\r?\n)+", "", before + after)


@given(block_bodies() | list_bodies(), st.data(), metadata_values())
def test_append_item_adds_one(body: Body, data: st.DataObject, value: Any) -> None:
    """Appending to a key makes its value a list with one more item, whatever it was; nothing else changes."""
    key = data.draw(st.sampled_from([*body.keys, "new"]))
    changed = metadata.append_item(body.text, key, value, newline=_newline(body.text))
    old = metadata.read(body.text)
    items = old.get(key)
    as_list = items if isinstance(items, list) else [] if items is None else [items]
    assert _same(metadata.read(changed), old | {key: [*as_list, value]})
    if key in body.keys:
        before, after = body.around(key)
        assert changed.startswith(before)
        assert changed.endswith(after)


@given(metadata_values(), metadata_values(), metadata_values())
def test_append_item_leaves_written_items_alone(first: Any, second: Any, third: Any) -> None:
    """A list that we wrote grows at its end: the text of the items before stays a prefix."""
    one = metadata.append_item("a: 1\n", "log", first)
    two = metadata.append_item(one, "log", second)
    three = metadata.append_item(two, "log", third)
    assert two.startswith(one)
    assert three.startswith(two)


@given(metadata_bodies(), keys(), metadata_values(), st.sampled_from(["set", "append", "remove"]))
def test_hard_bodies_change_safely_or_not_at_all(body: str, key: str, value: Any, verb: str) -> None:
    """On any valid body an edit gives what was meant, or raises MetadataError."""
    old = metadata.read(body)
    candidates = [key, *old]
    for name in candidates:
        try:
            if verb == "set":
                changed, meant = metadata.set_key(body, name, value), old | {name: value}
            elif verb == "append":
                items = old.get(name)
                as_list = items if isinstance(items, list) else [] if items is None else [items]
                changed, meant = metadata.append_item(body, name, value), old | {name: [*as_list, value]}
            else:
                changed, meant = metadata.remove_key(body, name), {k: v for k, v in old.items() if k != name}
        except MetadataError:
            continue
        assert _same(sorted(metadata.read(changed).items()), sorted(meant.items()))
        assert [p.text for p in find_prompts(changed)] == [p.text for p in find_prompts(body)]


@given(metadata_bodies())
def test_keys_know_their_lines(body: str) -> None:
    """`key_line` is the 1-based line, counted in LFs, on which a key stands."""
    for key in metadata.read(body):
        line = metadata.key_line(body, key)
        if line is not None and not _is_flow(body) and key.isalnum():
            assert key in body.split("\n")[line - 1]


# -- any text comes back -------------------------------------------------------------------------


@given(texts(), st.sampled_from(["\n", "\r\n"]))
@example("```{r}\nstop()\n```", "\n")
@example("a\n---\nb", "\n")
@example("\ta\n\n\n", "\r\n")
def test_a_reply_comes_back_exactly(reply: str, newline: str) -> None:
    """A model's reply survives in a whole document, at top level and inside a log of exchanges."""
    log = [{"query": "why?", "~reply": reply, "~~model": "m"}, {"message": reply, "~reply": "ok"}]
    block = MetadataBlock.make({"~a": reply, "~chat_": log, "b": [reply, [reply]]}, newline=newline)
    block = (
        block.with_key("~c", reply)
        .with_key("~a", [reply])
        .with_body(metadata.append_item(block.with_key("~c", reply).body, "~chat_", log[0], newline=newline))
    )
    text = f"# Heading{newline}{newline}{block.source}Text{newline}"
    blocks = parse_markdown_text(text)
    assert [b.kind for b in blocks] == ["heading", "metadata", "text"]
    assert serialize(blocks) == text
    found = blocks[1]
    assert isinstance(found, MetadataBlock)
    assert found.values() == {"~a": reply, "~chat_": [*log, log[0]], "b": [reply, [reply]], "~c": reply}
    assert found.prompts == ()


@given(st.dictionaries(keys(), metadata_values(), max_size=4), st.sampled_from(["\n", "\r\n"]))
@example({"query": "x", "?": 1, "message": "y", "edit": None}, "\n")
def test_made_blocks_read_back(values: dict[str, Any], newline: str) -> None:
    """`MetadataBlock.make` writes whatever a dictionary holds, and it reads back."""
    block = MetadataBlock.make(values, newline=newline)
    assert _same(block.values(), values)
    _, parsed = parse_markdown_text("# Heading\n" + block.source)
    assert parsed.source == block.source
    assert parsed.kind == "metadata"
    assert newline == "\n" or "\n" not in block.source.replace("\r\n", "")


@given(keys(), metadata_values(), st.sampled_from(["a: 1\n", "{a: 1}\n", "- a: 1\n"]))
@example("a", "```{r}\nx\n```", "a: 1\n")
@example("a", ["`r 1`", {"```{python}": "```{r}"}], "{a: 1}\n")
def test_nothing_written_runs_in_knitr(key: str, value: Any, body: str) -> None:
    """What we write holds nothing that knitr would execute: no chunk opening, no inline code."""
    try:
        changed = metadata.set_key(body, key, value)
    except MetadataError:
        assert body != "a: 1\n", "an ordinary body takes any key"
        return
    for source in (changed, MetadataBlock.make({key: value}).source):
        assert not [line for line in source.splitlines() if _KNITR_CHUNK.match(line)]
        assert not _KNITR_INLINE.search(source)
