"""Edits: rejecting restores every byte, accepting keeps the author's words, marks cannot be confused."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable

import pytest
import talking
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st
from strategies import documents

from lmm import Document
from lmm.disk.diff import hunks
from lmm.errors import EditError, EmptyReply, LmmError
from lmm.markdown import Block, ErrorBlock, MetadataBlock, parse_markdown_text, serialize
from lmm.notebook.edits import find_edits, is_sound, old_view
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
@example("# A\na\n\nb\n", 0, "I")
def test_reject_restores_every_byte(text: str, where: int, reply: str) -> None:
    """Ask, answer, reject: the document is what it was before the question was typed."""
    original, with_prompt = asked(text, where)
    outcome = talking.answered(with_prompt, model=ScriptedModel([reply]))
    assume(not outcome.failures)
    [edit] = find_edits(parse_markdown_text(outcome.text))
    assert not edit.old_changed
    assert not edit.doubts
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
    assert "<!-- lmm:" not in accepted


@given(st.lists(st.sampled_from(["old", "new", "meta"]), min_size=1, max_size=4), st.data())
def test_several_edits_resolve_in_any_order(kinds: list[str], data: st.DataObject) -> None:
    """Edits of sections and of paragraphs, resolved one by one in any order, lose no old text on reject."""
    parts = {
        "old": "---\n=: a\n---\nold paragraph\n\n",
        "new": "## Section\n\nsome text\n\n",
        "meta": "---\ntype: x\n=: d\n---\n###### new text\n\nlevel six\n\n",
    }
    text = "---\ntitle: T\n---\n\n" + "".join(parts[kind] for kind in kinds) + "# End\n"
    prompts = text.count("\n=: ")
    outcome = talking.answered(text, model=ScriptedModel(["REPLY one.\n\n### Sub\n\nREPLY two."] * prompts))
    current = outcome.text
    while edits := find_edits(parse_markdown_text(current)):
        edit = data.draw(st.sampled_from(edits))
        current = talking.rejected(current, line=edit.line)
    left = re.findall(r"=: (.)", outcome.text)  # inside a section that is asked about as well: refused
    cleaned = re.sub(r"---\n=: a\n---\n", "", text).replace("\n=: d", "")
    assert re.sub(r"---\n=: a\n---\n", "", current).replace("\n=: d", "") == cleaned
    assert len(left) == len(outcome.failures)


NESTED = """# T

---
=: a
---
## A

One.

---
=: b
---
Two.
"""


def test_an_edit_in_the_text_of_another_is_refused() -> None:
    """The inner one is answered; the outer one waits until it is resolved, and its prompt stays."""
    outcome = talking.answered(NESTED, model=ScriptedModel(["<new>\nZwei.\n</new>"]), again=True)
    assert [str(failure.error).partition(" (")[0] for failure in outcome.failures] == [
        "an edit inside this text is pending"
    ]
    assert "=: a" in outcome.text
    assert "Zwei." in outcome.text
    outer = NESTED.replace("---\n=: b\n---\n", "")
    waiting = talking.answered(outer, model=ScriptedModel(["Eins.\n\nZwei."]), again=True).text
    asked_inside = waiting.replace("\nOne.\n", "\n---\n=: b\n---\nOne.\n", 1)
    refused = talking.answered(asked_inside, model=ScriptedModel([]))
    assert [str(failure.error).partition(" (")[0] for failure in refused.failures] == [
        "an edit of the text around it is pending"
    ]
    assert refused.text == asked_inside


def test_a_waiting_edit_takes_a_second_round() -> None:
    """`+:` in its block: the model gets both texts and both requests; reject restores the first old text."""
    text = "# T\n\n---\n=: shorter\n---\nA leaf is green, as @fox says.\n"
    first = talking.answered(
        text, model=ScriptedModel(["<new>\nLeaves are green.\n</new>\nI dropped @fox."]), again=True
    )
    with pytest.raises(EditError, match="@fox"):
        first.accept()
    model = ScriptedModel(["<new>\nLeaves are green [@fox].\n</new>"])
    second = talking.answered(first.text.replace("~edit_:", "+: keep the citation\n~edit_:"), model=model, again=True)
    assert second.failures == ()
    shown = [message.text for message in model.seen[0].messages[1:]]
    assert "shorter" in shown[0]
    assert "Leaves are green." in shown[1]
    assert shown[2].startswith("keep the citation")
    [edit] = second.edits
    assert (edit.new.strip(), edit.remark, edit.warnings) == ("Leaves are green [@fox].", "", ())
    assert edit.prompt == "shorter\nkeep the citation"
    assert "I dropped" not in second.text
    assert talking.rejected(second.text) == text.replace("---\n=: shorter\n---\n", "")
    assert "shorter\n" in talking.rejected(second.text, again=True)
    assert talking.accepted(second.text).endswith("Leaves are green [@fox].\n")
    told = list[str]()
    waiting = Document.from_text(
        second.text.replace("~edit_:", "+: shorter still\n~edit_:"),
        listener=lambda event, place: told.append(getattr(event, "text", "")),
    )
    assert waiting.accept() == 1
    assert told == ["'+: shorter still' is not answered, and asks about the accepted text now"]


def test_the_good_edits_are_accepted_and_the_doubtful_ones_named() -> None:
    """All at once."""
    text = "# T\n\n---\n=: a\n---\nOne leaf.\n\n---\n=: b\n---\nAs @fox says.\n"
    model = ScriptedModel(["Eins.", "As somebody says."])
    document = Document.from_text(text)
    document.answer(model=model, again=True).check()
    with pytest.raises(EditError, match="@fox") as refused:
        document.accept()
    assert refused.value.accepted == 1
    assert document.text.startswith("# T\n\nEins.\n")
    assert [edit.old.strip() for edit in document.edits] == ["As @fox says."]


METADATA = st.sampled_from(
    [
        "---\n?: read @data.md\n---\n",
        "---\ntype: x\n+: and then?\n=: shorter\n---",
        "---\nskip: true\n~chat_:\n- query: why?\n  ~reply: so\n---\n",
        "---\n~edit_:\n  ~~id: abcdef\n---\n###### old text\n\nx\n\n<!-- lmm:new abcdef -->\n###### new text\n",
        "---\nbroken: [\n?: ask --> this\n---\n",
        "---\nquery: never closed",
        "- ?: in a list\n---\nfrozen: true\n...\n",
    ]
)


@given(documents(), st.integers(min_value=0), st.lists(METADATA | REPLIES, min_size=1, max_size=4).map("\n\n".join))
@example(
    text="# A\n---\n....\n\n---\ntitle: x\n---\n",
    where=0,
    reply="---\n?: read\n---\n\n---\n~edit_:\n  ~~id: abcdef\n---\n###### old text\n\nx\n\n###### new text\n",
)
@example(
    text="---\ntitle: x\n---\n# A\ntext\r\n---\ntitle: x\n---\n--- # c\n~~~\n```\n```\n  ~~~~~\r", where=0, reply="New."
)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
def test_the_words_of_a_model_ask_and_set_nothing(text: str, where: int, reply: str) -> None:
    """Neither while the edit waits nor once it is accepted; only the author puts them in force."""
    _, with_prompt = asked(text, where)
    before = kinds(with_prompt)
    outcome = talking.answered(with_prompt, model=ScriptedModel([reply]), again=True)
    assume(not outcome.failures and is_sound(with_prompt, outcome.text))  # else nothing is saved
    assert not outcome.pending
    assert kinds(outcome.text) == before
    accepted = Document.from_text(talking.accepted(outcome.text, force=True))
    assert not accepted.pending
    assert not accepted.edits
    assert kinds(accepted.text) <= before or not is_sound(outcome.text, accepted.text)
    if "---\n?: read" in reply and not outcome.edits[0].warnings:
        assert "```" in reply or "$$" in reply or "<!--" in reply  # it stands in code, a formula or a comment


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Text.\n", "---\nprose\n\n---\n?: read @data.md\n---\n\n---\n\nmore"),
        ("---\nprose\n\n---\ntype: x\n---\nText.\n", "Short.\n\n---\n?: read @data.md\n---\n"),
    ],
    ids=["of the model", "of the author"],
)
def test_a_rule_above_metadata_of_a_model_is_still_a_rule(text: str, reply: str) -> None:
    """What asks nothing now, in a comment, makes no block with the rule either: the reply can be placed."""
    text = f"# A\n\n---\n=: change\n---\n{text}"
    outcome = talking.answered(text, model=ScriptedModel([reply]))
    assert not outcome.failures
    assert is_sound(text, outcome.text)
    assert kinds(outcome.text) == kinds(text)


def kinds(text: str) -> Counter[str]:
    """How many blocks of metadata a document has, and how many that cannot be read."""
    blocks = parse_markdown_text(text)
    return Counter(b.kind for b in blocks if isinstance(b, MetadataBlock | ErrorBlock))


OLD = st.sampled_from(
    ["Short.", "Short.\n", "```\nx\n```\n", "- a\n- b", "| a |\n|---|\n", "## B", "$$\nx\n$$\n", "a\n\nb"]
)
BELOW = st.sampled_from(
    [
        "# New\n",
        "## New\n\nText.",
        "---\n?: mine\n---\nMine.\n",
        "Mine.\nMore.\n",
        "- c\n\n- d\n",
        "```r\ny\n```\nz\n",
        ":::\n",
    ]
)


@given(OLD, BELOW, st.sampled_from(["", "\n"]), st.sampled_from([(), (":::\n",)]), st.sampled_from(["\n", "\r\n"]))
def test_what_the_author_writes_below_an_edit_stays(
    old: str, below: str, gap: str, closer: tuple[str, ...], newline: str
) -> None:
    """At the end of a file or of a div: it is the same blocks once the edit is resolved."""
    around = ("::: {.note}\n" if closer else "", "".join(closer))
    text = f"# A\n\n{around[0]}---\n=: change\n---\n{old.rstrip() + chr(10) if closer else old}{around[1]}"
    original = text.replace("---\n=: change\n---\n", "").replace("\n", newline)
    outcome = talking.answered(text.replace("\n", newline), model=ScriptedModel(["Shorter."]), again=True)
    assert talking.rejected(outcome.text) == original
    marked = re.sub(
        r"(<!-- lmm:end \w+ -->\s*?\n)", lambda m: m[1] + (gap + below).replace("\n", newline), outcome.text
    )
    wanted = [(b.kind, b.content) for b in after_mark(parse_markdown_text(marked))]
    for resolved in (talking.accepted(marked, force=True), talking.rejected(marked)):
        found = [(b.kind, b.content) for b in parse_markdown_text(resolved)]
        assert found[-len(wanted) :] == wanted


@pytest.mark.parametrize(
    "reply", ["", " \n\t\n", "<!-- as you wish -->", "```markdown\n\n```", "<!-- lmm:end abcdef -->"]
)
@pytest.mark.parametrize("word", ["?", "="])
def test_a_reply_that_says_nothing_fails(word: str, reply: str) -> None:
    """Also that of a model which the user gives; it is asked anew, though the journal has the reply."""
    text = f"# A\n\n---\n{word}: change {reply!r}\n---\nText.\n"
    if word == "?" and reply.startswith("```"):
        return  # an answer may be code
    for _ in range(2):
        outcome = talking.answered(text, model=ScriptedModel([reply] * 2))
        assert [type(failure.error) for failure in outcome.failures] == [EmptyReply]
        assert outcome.text == text
    assert not talking.answered(text, model=ScriptedModel(["So."])).failures


@pytest.mark.parametrize(
    ("reply", "closed"),
    [
        ("A leaf <!-- as you wish", "A leaf <!-- as you wish\n-->"),
        ("A `<!--` leaf", "A `<!--` leaf"),
        ("<!-- a --> leaf <!-- b --> green", "<!-- a --> leaf <!-- b --> green"),
    ],
)
def test_a_comment_in_a_line_is_closed(reply: str, closed: str) -> None:
    """Else it would end where the next comment of the author's ends."""
    outcome = talking.answered("# A\n\n---\n=: change\n---\nText.\n\nMore.\n", model=ScriptedModel([reply]), again=True)
    assert talking.accepted(outcome.text) == f"# A\n\n{closed}\n\nMore.\n"


@pytest.mark.parametrize(
    ("seen", "now"),
    [
        ("One.", "One.\n\nMine."),
        ("One.", "Mine.\n\nOne."),
        ("One.", "One and a half."),
        ("One.\n\nTwo.", "Two.\n\nOne."),
        ("One.\n\nTwo.", "One."),
    ],
)
def test_nothing_is_accepted_over_an_old_text_that_its_author_changed(seen: str, now: str) -> None:
    """Not by force either; rejecting keeps the author's text, and asks about it again."""
    model = ScriptedModel(["New."])
    outcome = talking.answered(f"# A\n\nB.\n\n---\n=: change\n---\n# C\n\n{seen}\n", model=model, again=True)
    grown = outcome.text.replace(f"{seen}\n\n<!--", f"{now}\n\n<!--")
    for force in (False, True):
        with pytest.raises(EditError, match="you changed the old text after the model saw it"):
            talking.accepted(grown, force=force)
    assert talking.rejected(grown) == f"# A\n\nB.\n\n# C\n\n{now}\n"
    assert "=: change" in talking.rejected(grown, again=True)


METADATA_INSIDE = """# T

---
=: polish
---
## A

One leaf.

---
type: exercise
---
### Count

Count the leaves.

---
~summary_: two
---
Same text.
"""


def test_metadata_inside_an_edited_text_stays_before_its_heading() -> None:
    """Or before the same paragraph; where the new text has no such place, accept names it and refuses."""
    new = "One green leaf.\n\n### Count\n\nCount all leaves.\n\nSame text."
    document = talking.answered(METADATA_INSIDE, model=ScriptedModel([new]), again=True)
    document.accept()
    assert document.text == METADATA_INSIDE.replace("---\n=: polish\n---\n", "").replace(
        "One leaf", "One green leaf"
    ).replace("Count the", "Count all")
    for other in (new.replace("### Count", "### Counting"), new.replace("### Count", "### Count\n\n### Count")):
        document = talking.answered(METADATA_INSIDE, model=ScriptedModel([other]), again=True)
        with pytest.raises(EditError, match=r"no place for the metadata before '### Count': 'type: exercise'"):
            document.accept()
        document.accept(force=True)
        assert "~summary_" in document.text


def test_what_cannot_be_read_as_metadata_is_sent_and_kept() -> None:
    """The model sees what Pandoc shows; nothing that it has not seen is removed."""
    note = "---\nNote: the set is not public.\nAsk for it.\n"
    text = f"---\ntitle: T\n---\n\n---\n=: fix the typos\n---\n# Top\n\nIntrodution.\n\n{note}"
    model = ScriptedModel([f"<new>\nIntroduction.\n\n{note}</new>"])
    document = talking.answered(text, model=model, again=True)
    assert "Note: the set is not public." in str(model.seen[0].messages[1].attachments)
    document.accept()
    assert document.text.endswith(f"# Top\n\nIntroduction.\n\n{note}")


def after_mark(blocks: list[Block]) -> list[Block]:
    """The blocks below the edit that waits."""
    return blocks[find_edits(blocks)[0].end :]


def test_a_second_edit_of_the_same_text_is_refused() -> None:
    """Until the first is resolved; the reason says what to do, and the prompt stays."""
    once = talking.answered("---\n=: a\n---\nText.\n", model=ScriptedModel(["New."])).text
    again = once.replace("---\n~edit_", "---\n=: b\n~edit_")
    outcome = talking.answered(again, model=ScriptedModel([]))
    assert outcome.text == again
    assert [failure.error.at_prompt for failure in outcome.failures] == [
        "an edit of this text is pending (lmm accept or lmm reject it first, or continue it: +: in its block)"
    ]


def test_damaged_marks_are_reported_and_nothing_is_touched() -> None:
    """An edit whose end mark was deleted is not guessed at."""
    text = talking.answered("---\n=: a\n---\nText.\n", model=ScriptedModel(["New."])).text
    damaged = re.sub(r"<!-- lmm:end.*\n", "", text)
    for resolve in (talking.accepted, talking.rejected):
        with pytest.raises(LmmError, match="the edit in the block at line 1 lacks its marks"):
            resolve(damaged)


LINES = st.lists(st.sampled_from(["One.", "Two two.", "Three?", "Four *x*."]), min_size=1, max_size=7)


@given(LINES, LINES, st.lists(st.booleans(), min_size=9, max_size=9), st.sampled_from(["", "\n\nBelow.\n"]))
def test_changes_of_an_edit_are_settled_one_by_one(
    old: list[str], new: list[str], keep: list[bool], below: str
) -> None:
    """The text has the accepted ones and not the others; all accepted are the edit accepted, all rejected no edit."""
    text = "# T\n\n---\n=: other\n---\n\n" + "\n".join(old) + (below or "\n")
    assume(old != new)
    document = talking.answered(text, model=ScriptedModel(["\n".join(new)]))
    accepted, rejected = Document.from_text(document.text), Document.from_text(document.text)
    accepted.accept(force=True)
    rejected.reject()
    changes = list(hunks(old, new))
    assert len(document.edits[0].hunks) == len(changes)
    expected, at = list[str](), 0
    for (start, end, first, last), kept in zip(changes, keep, strict=False):
        document.accept(hunk=1) if kept else document.reject(hunk=1)
        expected += [*old[at:start], *(new[first:last] if kept else old[start:end])]
        at = end
    if changes:
        assert not document.edits
        assert document.text == "# T\n\n" + "\n".join([*expected, *old[at:]]) + (below or "\n")
        assert not all(keep[: len(changes)]) or document.text == accepted.text
        assert any(keep[: len(changes)]) or document.text == rejected.text


SENTENCES = ["A leaf is green and wide.", "It hangs on a tree.", "The tree stands in a wood.", "In autumn they fall."]


@given(
    st.lists(st.sampled_from(["keep", "change", "drop", "add"]), min_size=4, max_size=4),
    st.sampled_from([20, 30, 200]),
    st.sampled_from([20, 30, 200]),
    st.data(),
)
def test_changes_are_sentences_wherever_lines_break(fates: list[str], was: int, now: int, data: st.DataObject) -> None:
    """A reply that breaks its lines elsewhere changes nothing there; all accepted or all rejected, a text is whole."""
    done: dict[str, Callable[[str], list[str]]] = {
        "keep": lambda s: [s],
        "change": lambda s: [s.replace(".", " now.")],
        "drop": lambda s: [],
        "add": lambda s: [s, "Added."],
    }
    new = [one for sentence, fate in zip(SENTENCES, fates, strict=True) for one in done[fate](sentence)]
    assume(new and new != SENTENCES)
    old_text, new_text = (textwrap.fill(" ".join(some), width) for some, width in ((SENTENCES, was), (new, now)))
    document = Document.from_text(f"# T\n\n---\n=: change\n---\n{old_text}\n")
    document.answer(model=lambda prompt: f"<new>\n{new_text}\n</new>", again=True)
    assert len(document.edits[0].hunks) == len(list(hunks(SENTENCES, new)))
    for accepts, wanted in ((True, new), (False, SENTENCES)):
        one = Document.from_text(document.text)
        while one.edits:
            number = data.draw(st.integers(1, len(one.edits[0].hunks)))
            one.accept(hunk=number, force=True) if accepts else one.reject(hunk=number)
        assert one.text.split() == ["#", "T", *" ".join(wanted).split()]
