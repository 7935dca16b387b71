"""Whatever we do to a document, all that was not meant is read as what it was, and two changes never lose one."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import pytest
import talking
from harmless import authors_keys, others
from hypothesis import assume, given, strategies as st
from memory import temporary_folder
from strategies import PIECES, documents, real_documents, written_documents

from lmm import Document
from lmm.disk.diff import Conflict, hunks, three_way
from lmm.disk.shared import Saved
from lmm.errors import EditError, LmmError
from lmm.markdown.blocks import ErrorBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import annotated_text, preorder
from lmm.messages import ChatEvent, ChatRequest, Reply
from lmm.models.port import ChatModel
from lmm.notebook.chat_log import read_log
from lmm.notebook.edits import is_sound
from lmm.testing import ScriptedModel

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
    """Text stays text, and what its author wrote in metadata is still there, as metadata; or nothing is done."""
    try:
        after = OPERATIONS[operation](text)
    except LmmError as error:
        if "cannot be read" not in str(error):
            raise
        return
    assert others(after) == others(text)
    kept = authors_keys(after)
    if operation in ("scan", "annotate"):  # they add to the header
        assert all(any(keys.items() <= new.items() for new in kept) for keys in authors_keys(text))
    else:
        assert kept == authors_keys(text)
    assert is_sound(text, after)


@given(blank_documents(edits=True), st.sampled_from([talking.accepted, talking.rejected]))
def test_edits_among_blank_lines(text: str, resolve: Callable[[str], str]) -> None:
    """Asked, answered, accepted or rejected: what the author wrote in metadata is metadata still, or accept refuses."""
    answered = _answered(text)
    assert is_sound(text, answered)
    try:
        resolved = resolve(answered)
    except EditError:
        return
    assert is_sound(answered, resolved)
    assert authors_keys(resolved) == authors_keys(text)
    errors = [block.content for block in parse_markdown_text(resolved) if isinstance(block, ErrorBlock)]
    assert len(errors) <= sum(isinstance(block, ErrorBlock) for block in parse_markdown_text(text))


@given(documents() | real_documents(), st.sampled_from(list(OPERATIONS)))
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
def test_hunks_turn_one_version_into_the_other(a: list[str], b: list[str]) -> None:
    changed = a[:]
    for start, end, first, last in [*hunks(a, b)][::-1]:
        changed[start:end] = b[first:last]
    assert changed == b


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@given(_VERSIONS, _VERSIONS, _VERSIONS)
def test_three_way(base: list[str], ours: list[str], theirs: list[str]) -> None:
    """One side alone wins; both alike is no conflict; swapping the sides changes nothing."""
    old, new, now = map(_text, (base, ours, theirs))
    assert three_way(old, new, old) == three_way(old, old, new) == three_way(old, new, new) == new
    assert _merged(old, new, now) == _merged(old, now, new)


def _merged(base: str, ours: str, theirs: str) -> str | None:
    with contextlib.suppress(Conflict):
        return three_way(base, ours, theirs)
    return None


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


# -- while the model thinks ------------------------------------------------------------------------

_NUMBER = re.compile(r"\bP\d+\b")
_WAITING = st.sampled_from(["", "", "?: why?", "?: why?\n+: and then?", "+: go on", "=: shorter", "a: 1\n=: say it"])
_KINDS = ["P{} is a text of its own.", "- P{} in a list\n- of two", "> P{} is quoted.", "```\nP{} <- 1\n```"]
_MINE = ["Mine.", "# Mine", "- mine\n- too", "---\ntype: x\n---\nMine, annotated.", "---\n?: why?\n---\nMine, P99."]


class Reader:
    """A model that tells the number of the text that it was asked about."""

    name = "Scripted/reader"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer with it."""
        text = next(a.text for message in request.messages for a in message.attachments if a.label == "text")
        yield Reply(f"About {_NUMBER.findall(text)[0]}.", self.name)


@st.composite
def meanwhile(draw: st.DrawFn) -> tuple[str, str]:
    """A document, and what its author made of it: paragraphs inserted, moved, deleted, changed; no question is gone."""
    count = draw(st.integers(1, 6))
    units = [
        (f"---\n{asked}\n---\n" if asked else "", draw(st.sampled_from(_KINDS)).format(i), not asked)
        for i in range(count)
        for asked in [draw(_WAITING)]
    ]
    base = "".join(f"{asked}{text}\n\n" for asked, text, _ in units)
    for _ in range(draw(st.integers(1, 4))):
        at, to = draw(st.integers(0, len(units) - 1)), draw(st.integers(0, len(units)))
        asked, text, free = units[at]
        act = draw(st.sampled_from(["insert", "move", "change", "delete"]))
        if act == "insert":
            units.insert(to, ("", draw(st.sampled_from(_MINE)), False))
        elif act == "change":
            units[at] = (asked, draw(st.sampled_from([f"{text}\n\nMore.", text.replace("P", "Now P")])), free)
        elif act == "move" or (free and len(units) > 1):
            unit = units.pop(at)
            units[to:to] = [unit] if act == "move" else []
    theirs = "".join(f"{asked}{text}\n\n" for asked, text, _ in units)
    head = draw(st.sampled_from(["# A\n\n", "---\ntitle: T\n---\n\n"]))
    return f"{head}{base}", draw(st.sampled_from([f"{head}{theirs}", f"{head}{theirs}".replace("\n", "\r\n")]))


def _saved(base: str, theirs: str, model: ChatModel) -> tuple[str, Saved]:
    """What stands in a file that held `base` when it was answered, and `theirs` when it was saved; and what failed."""
    with temporary_folder() as folder:
        path = folder / "d.md"
        path.write_bytes(base.encode())
        document = Document.open(path)
        report = document.answer(model=model)
        path.write_bytes(theirs.encode())
        saved = document.save(settle=0)
        return path.read_bytes().decode(), replace(saved, failures=report.failures + saved.failures)


@given(meanwhile())
def test_a_reply_stands_at_its_question_and_all_else_is_the_authors(versions: tuple[str, str]) -> None:
    """Without the replies it is what the author saved, byte for byte; each reply is about the text it stands at.

    A question whose section and text have both changed, or that is there several times, is left over, and named.
    """
    base, theirs = versions
    text, saved = _saved(base, theirs, Reader())
    assert all(failure.unsaved for failure in saved.failures)
    assert is_sound(theirs, text)
    assert talking.cleared(talking.rejected(text), pending=True) == talking.cleared(theirs, pending=True)
    replies = 0
    for node in preorder(Document.from_text(text).tree):
        for exchange in read_log(node.metadata):
            replies += 1
            assert exchange.reply == f"About {_NUMBER.findall(annotated_text(node))[0]}."
    edits = Document.from_text(text).edits
    for edit in edits:
        assert edit.new.strip() == f"About {_NUMBER.findall(edit.old)[0]}."
    asked = [pending.subject.text for pending in Document.from_text(theirs).pending if pending.is_edit]
    assert all(edit.old.strip("\r\n") in asked for edit in edits)
    assert replies + len(edits) + len(saved.failures) == len(Document.from_text(base).pending)


_LINES_OF_THEIRS = ["", "new line", "---", "# New", "?: new question", "key: 1", "```", "$$", "<!--", "-->", "a: b: c"]


@st.composite
def edited(draw: st.DrawFn, base: str) -> str:
    """`base` after anything that an author may do to it: to its blocks, its lines, its characters."""
    text = base
    for kind in draw(st.lists(st.sampled_from(["blocks", "lines", "ends", "cut", "newlines"]), max_size=3)):
        pieces = [b.source for b in parse_markdown_text(text)] if kind == "blocks" else text.splitlines(keepends=True)
        at, end, to = (draw(st.integers(0, len(pieces))) for _ in range(3))
        moved, rest = pieces[at:end], pieces[:at] + pieces[max(at, end) :]
        new = draw(PIECES if kind == "blocks" else st.sampled_from(_LINES_OF_THEIRS).map("{}\n".format))
        if kind in ("blocks", "lines"):
            made = [
                rest,
                rest[:to] + moved + rest[to:],
                [*pieces[:at], new, *pieces[at:]],
                [*rest[:at], new, *rest[at:]],
            ]
            text = "".join(draw(st.sampled_from(made)))
        elif kind == "ends":
            text = draw(st.sampled_from([text.rstrip("\n"), text + "\n\nThe end.\n", "First.\n\n" + text]))
        elif kind == "cut":
            text = text[: draw(st.integers(0, len(text)))]
        else:
            text = draw(st.sampled_from([text.replace("\r\n", "\n"), text.replace("\r\n", "\n").replace("\n", "\r\n")]))
    return text


def _lines(text: str) -> Counter[str]:
    """The lines that are their author's for certain: of all that is no metadata."""
    return Counter(line.strip("\ufeff \t") for _, content in others(text) for line in content.splitlines())


@given(written_documents() | documents() | real_documents(), st.data())
def test_whatever_the_author_does_nothing_is_lost(base: str, data: st.DataObject) -> None:
    """Every line of theirs is in the file, and every reply, unless its failure is told."""
    theirs = data.draw(edited(base))
    try:
        text, saved = _saved(base, theirs, ScriptedModel([f"R{n}." for n in range(60)]))
    except LmmError:  # the header cannot be read; nothing would be read as it was
        return
    assert not _lines(theirs) - Counter(line.strip("\ufeff \t") for line in text.splitlines())
    assert text.startswith("\ufeff") == theirs.startswith("\ufeff")
    document = Document.from_text(text)
    assert len(document.chats) + len(document.edits) + len(saved.failures) >= len(Document.from_text(base).pending)
