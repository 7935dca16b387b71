"""Edits: rejecting restores every byte, accepting keeps the author's words, marks cannot be confused."""

from __future__ import annotations

import re

import pytest
import talking
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from strategies import documents

from lmm.errors import LmmError
from lmm.markdown import Block, ErrorBlock, MetadataBlock, parse_markdown_text, serialize
from lmm.notebook.edits import find_edits, old_view
from lmm.testing import ScriptedModel

REPLIES = st.sampled_from(
    [
        "A new text.",
        "# H\n\nText under a heading.\n\n###### new text\n\nNot a mark.",
        "```r\nx <- 1\n",
        "$$\nx",
        "<!-- open",
        "---\na: 1\n---\nText.",
        "```markdown\nWrapped.\n```",
        "- a\n\n  b\n\n\n",
        "###### old text\n\n###### new text",
        "text\n---\nmore",
    ]
) | st.text(min_size=1).filter(lambda text: text.strip() and not re.search("[\ud800-\udfff]", text))


def asked(text: str, where: int) -> tuple[str, str]:
    """`text` without any prompt, and the same with an edit asked for before its `where`-th block."""
    text = talking.cleared(text, pending=True)
    blocks = parse_markdown_text(text)
    assume(blocks and not any(isinstance(b, ErrorBlock) or "~edit_" in b.source for b in blocks))
    header = "" if blocks[0].kind == "header" else "---\ntitle: T\n---\n\n"
    text = header + text.removeprefix("\ufeff")
    blocks = parse_markdown_text(text)
    places = [i for i, b in enumerate(blocks) if i and not isinstance(blocks[i - 1], MetadataBlock | ErrorBlock)]
    places = [i for i in places if not isinstance(blocks[i], MetadataBlock)]
    assume(places)
    at = places[where % len(places)]
    with_prompt = serialize(blocks[:at]) + "---\n=: change it\n---\n" + serialize(blocks[at:])
    assume(len(parse_markdown_text(with_prompt)) == len(blocks) + 1)
    return text, with_prompt


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(documents(), st.integers(min_value=0), REPLIES)
def test_reject_restores_every_byte(text: str, where: int, reply: str) -> None:
    """Ask, answer, reject: the document is what it was before the question was typed."""
    original, with_prompt = asked(text, where)
    outcome = talking.answered(with_prompt, model=ScriptedModel([reply]))
    assume(not outcome.failures)
    [edit] = find_edits(parse_markdown_text(outcome.text))
    assert not edit.old_changed
    assert not edit.cut
    assert talking.rejected(outcome.text) == original
    again = talking.rejected(outcome.text, again=True)
    assert [p.text for b in parse_markdown_text(again) if isinstance(b, MetadataBlock) for p in b.prompts] == [
        "change it"
    ]
    assert talking.cleared(again, pending=True) == talking.cleared(with_prompt, pending=True)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(documents(), st.integers(min_value=0), REPLIES)
def test_while_an_edit_waits_the_old_text_counts(text: str, where: int, reply: str) -> None:
    """The old view reads as the original does, and has none of the new text."""
    original, with_prompt = asked(text, where)
    outcome = talking.answered(with_prompt, model=ScriptedModel([reply]))
    assume(not outcome.failures)
    assert visible(old_view(parse_markdown_text(outcome.text))) == visible(parse_markdown_text(original))


def visible(blocks: list[Block]) -> str:
    """What a reader sees of blocks, white space aside."""
    return "".join("".join(b.content.split()) for b in blocks if not isinstance(b, MetadataBlock))


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(documents(), st.integers(min_value=0), st.sampled_from(["MINE ", "MINE\n\n# MINE\n\n", "- MINE\n\n  MINE\n\n"]))
def test_accept_keeps_what_the_author_made_of_it(text: str, where: int, own: str) -> None:
    """The author's own changes to the new text are accepted with it; nothing before it changes."""
    _, with_prompt = asked(text, where)
    outcome = talking.answered(with_prompt, model=ScriptedModel(["A new text."]))
    assume(not outcome.failures and outcome.text.count("A new text.") == 1)
    accepted = talking.accepted(outcome.text.replace("A new text.", own + "A new text."), force=True)
    assert own + "A new text." in accepted
    before, _ = with_prompt.split("---\n=: change it\n---\n", 1)
    assert accepted.startswith(before)
    assert not find_edits(parse_markdown_text(accepted))
    assert "lmm:" not in accepted


@given(st.lists(st.sampled_from(["old", "new", "both", "meta"]), min_size=1, max_size=4), st.data())
def test_nested_and_several_edits_resolve_in_any_order(kinds: list[str], data: st.DataObject) -> None:
    """Edits of a section and of paragraphs in it, resolved one by one in any order, lose no old text on reject."""
    parts = {
        "old": "---\n=: a\n---\nold paragraph\n\n",
        "new": "## Section\n\nsome text\n\n",
        "both": "---\n=: b\n---\n## Asked\n\ninside\n\n---\n=: c\n---\ndeeper\n\n",
        "meta": "---\ntype: x\n=: d\n---\n###### new text\n\nlevel six\n\n",
    }
    text = "---\ntitle: T\n---\n\n" + "".join(parts[kind] for kind in kinds)
    prompts = text.count("\n=: ")
    outcome = talking.answered(text, model=ScriptedModel(["REPLY one.\n\n### Sub\n\nREPLY two."] * prompts))
    assert not outcome.failures
    current = outcome.text
    while edits := find_edits(parse_markdown_text(current)):
        edit = data.draw(st.sampled_from(edits))
        current = talking.rejected(current, line=edit.line)
    cleaned = re.sub(r"---\n=: .\n---\n", "", text).replace("\n=: d", "")
    assert current == cleaned


def test_a_second_edit_of_the_same_text_is_refused() -> None:
    """Until the first is resolved; the reason says what to do, and the prompt stays."""
    once = talking.answered("---\n=: a\n---\nText.\n", model=ScriptedModel(["New."])).text
    again = once.replace("---\n~edit_", "---\n=: b\n~edit_")
    outcome = talking.answered(again, model=ScriptedModel([]))
    assert outcome.text == again
    assert [str(failure.error) for failure in outcome.failures] == [
        "an edit of this text is waiting: lmm accept or lmm reject it first"
    ]


def test_damaged_marks_are_reported_and_nothing_is_touched() -> None:
    """An edit whose end mark was deleted is not guessed at."""
    text = talking.answered("---\n=: a\n---\nText.\n", model=ScriptedModel(["New."])).text
    damaged = re.sub(r"<!-- lmm:end.*\n", "", text)
    for resolve in (talking.accepted, talking.rejected):
        with pytest.raises(LmmError, match="the edit in the block at line 1 has lost its marks"):
            resolve(damaged)
