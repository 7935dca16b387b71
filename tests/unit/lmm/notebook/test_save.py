"""Saving what was done to a document that its author saved meanwhile. (With editors: tests/edge/test_saving.py.)"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lmm import Document
from lmm.disk.shared import Saved
from lmm.errors import Changed, DocumentError, EditError, FileReadError, Place
from lmm.markdown.blocks import TextBlock
from lmm.messages import Event, Failed, Listener, ignore
from lmm.notebook.generated_fields import Batch
from lmm.testing import ScriptedModel

LOG = "~chat_:\n  - query: why?\n    ~reply: So.\n    ~~model: Scripted/replies\n    ~~text: cCd7/ECbUC\n"
ASKED, ANSWERED = "---\n?: why?\n---\n", f"---\n{LOG}---\n"
BASE = f"# A\n\n{ASKED}One.\n\n# B\n\nTwo.\n"
OURS = BASE.replace(ASKED, ANSWERED)
Verb = Callable[[Document], object]


def answer(*replies: str) -> Verb:
    """Answer what waits."""
    return lambda document: document.answer(model=ScriptedModel([*replies] or ["So."]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the document is."""
    return tmp_path / "d.md"


class Shared(Document):
    """A document that was saved, and the `result` of that."""

    result: Saved


def saved(path: Path, base: str, theirs: str, verb: Verb, listener: Listener = ignore) -> Shared:
    """What `verb` made of `base`, saved after its author saved `theirs`."""
    path.write_bytes(base.encode())
    document = Shared.open(path, listener=listener)
    verb(document)
    path.write_bytes(theirs.encode())
    document.result = document.save(settle=0)
    assert document.text == path.read_bytes().decode()
    return document


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (BASE, OURS),
        (BASE + "\nThree.\n", OURS + "\nThree.\n"),
        ("Zero.\n\n" + BASE, "Zero.\n\n" + OURS),
        (BASE.replace("One.", "One, changed."), OURS.replace("One.", "One, changed.")),
        (BASE.replace("One.", "Wholly other."), OURS.replace("One.", "Wholly other.")),
        (BASE.replace("Two.\n", "Two."), OURS.replace("Two.\n", "Two.")),
        (BASE.replace("\n", "\r\n"), OURS.replace("\n", "\r\n")),
        ("\ufeff" + BASE, "\ufeff" + OURS),
        ("\ufeff\ufeff" + BASE, "\ufeff\ufeff" + OURS),
        (BASE.replace("?: why?", "?: why?\nmine: 1"), BASE.replace("?: why?", LOG + "mine: 1")),
        (BASE.replace("?: why?", "# note\n?: why?"), BASE.replace("?: why?\n", "# note\n" + LOG)),
        (BASE.replace("?: why?", "?: why?\n+: and?"), BASE.replace("?: why?", LOG + "+: and?")),
        (f"# B\n\nTwo.\n\n# A\n\n{ASKED}One.\n", f"# B\n\nTwo.\n\n# A\n\n{ANSWERED}One.\n"),
        (f"# A\n\n{ASKED}\nOne.\n\n# B\n\nTwo.\n", f"# A\n\n{ANSWERED}\nOne.\n\n# B\n\nTwo.\n"),
        (f"{ASKED}Zero.\n\n" + BASE, f"{ASKED}Zero.\n\n" + OURS),
        (BASE + f"\n{ASKED}Three.\n", OURS + f"\n{ASKED}Three.\n"),
        (OURS + "\nThree.\n", OURS + "\nThree.\n"),
    ],
    ids=[
        "nothing", "appended", "prepended", "the text changed", "another text", "no last newline", "CRLF",
        "byte order mark", "two byte order marks", "a key", "a comment", "another prompt", "moved", "a blank line",
        "the same question above", "the same question below", "answered",
    ],
)  # fmt: skip
def test_a_reply_finds_its_question(path: Path, theirs: str, expected: str) -> None:
    """Whatever the author did around it: the same words, about the text that is most like the one asked about."""
    document = saved(path, BASE, theirs, answer())
    assert (document.text, document.result.failures) == (expected, ())


@pytest.mark.parametrize(
    "theirs",
    [
        BASE.replace(ASKED, ""),
        BASE.replace(ASKED, "---\ntype: exercise\n---\n"),
        BASE.replace("?: why?", "?: why not?"),
        BASE.replace("---\nOne.", "One."),
        "Something else.\n",
        BASE.replace("# A", "<!--\n\n# A") + "\n-->\n",
    ],
    ids=["deleted", "replaced", "another question", "broken", "rewritten", "commented out"],
)
def test_a_reply_whose_question_is_gone_is_told_and_remembered(path: Path, theirs: str) -> None:
    """The file stays the author's, byte for byte; place and question are named; put back, it costs nothing."""
    heard: list[tuple[Event, Place]] = []
    document = saved(path, BASE, theirs, answer(), lambda event, place: heard.append((event, place)))
    assert (document.text, list(path.parent.iterdir())) == (theirs, [path])
    (failure,) = document.result.failures
    assert str(failure).startswith(f"{path}:4: the file was changed meanwhile and no longer contains this question")
    assert "why?" in str(failure)
    assert heard[-1] == (Failed(failure.error), failure.place)
    with pytest.raises(DocumentError, match=r"d\.md:4: the file was changed meanwhile"):
        document.result.check()


THREE = "# A\n\nFirst.\n\nSecond.\n\n---\n=: shorter\n---\nThe text that is edited.\n\nLast.\n"
QUESTION, PARAGRAPH = "---\n=: shorter\n---\n", "The text that is edited.\n\n"


@pytest.mark.parametrize(
    ("theirs", "old"),
    [
        (f"# A\n\n{QUESTION}{PARAGRAPH}First.\n\nSecond.\n\nLast.\n", PARAGRAPH),
        (f"# A\n\nFirst.\n\nSecond.\n\nLast.\n\n# B\n\n{QUESTION}{PARAGRAPH}", PARAGRAPH),
        (THREE.replace("Last.", "Written right below it.\n\nLast."), PARAGRAPH),
        (THREE.replace("edited.", "edited by me."), "The text that is edited by me.\n\n"),
    ],
    ids=["moved up", "moved down", "a paragraph right below", "changed"],
)
def test_an_edit_waits_beside_its_text_and_nothing_else(path: Path, theirs: str, old: str) -> None:
    """Above the paragraph as it is now; none of its neighbours is swallowed; rejected, the author's text is back."""
    document = saved(path, THREE, theirs, answer("Short."))
    (edit,) = document.edits
    assert (edit.old, edit.new) == (old, "Short.\n\n")
    changed = [warning for warning in edit.warnings if "you changed the old text" in warning]
    assert bool(changed) == (old != PARAGRAPH)
    edit.reject()
    assert document.text == theirs.replace(QUESTION, "")


def test_an_edit_whose_text_the_author_changed_is_not_accepted_silently(path: Path) -> None:
    """What the model did not see is what counts, also where it was changed before the edit stood there."""
    theirs = THREE.replace("The text", "I add this. The text")
    document = saved(path, THREE, theirs, answer("Short."))
    with pytest.raises(EditError, match="you changed the old text"):
        document.accept(force=True)
    document.reject(again=True)
    assert document.text == theirs


def test_an_edit_accepted_before_it_was_saved(path: Path) -> None:
    """Edits keep their names, so that what was made of them can be made again."""

    def verb(document: Document) -> None:
        answer("Short.")(document)
        document.edits[0].accept()

    document = saved(path, THREE, "Zero.\n\n" + THREE, verb)
    assert document.text == "Zero.\n\n" + THREE.replace(QUESTION + PARAGRAPH, "Short.\n\n")


@pytest.mark.parametrize(
    ("verb", "base", "theirs", "expected"),
    [
        (Document.complete, "# A\n", "# A\n\nMore.\n", "---\ntitle: A\ndocid: d-aa1237\n---\n\n# A\n\nMore.\n"),
        (Document.complete, "# A\n", "---\ntitle: T\n---\n# A\n", "---\ntitle: T\n---\n# A\n"),
        (Document.clear, OURS, OURS.replace("One.", "Mine.\n\nOne."), BASE.replace(ASKED + "One.", "Mine.\n\nOne.")),
    ],
)
def test_what_was_done_is_done_to_what_the_author_saved(
    path: Path, verb: Verb, base: str, theirs: str, expected: str
) -> None:
    """Beside what the author did."""
    assert saved(path, base, theirs, verb).text == expected


# -- fields ----------------------------------------------------------------------------------------

SECTIONS = "# A\n\nOne.\n\n## B\n\nTwo.\n\n## C\n\n---\nmine: 1\n---\n\nThree.\n"


def shout(document: Document) -> None:
    """Give every section a field made of its text."""

    def batch(batch: Batch) -> None:
        batch.run(batch.annotate("shout", lambda section, text: text.upper()))

    document.batch(batch, model=ScriptedModel([]))


@pytest.mark.parametrize(
    "theirs",
    [
        SECTIONS,
        SECTIONS.replace("One.", "One.\n\nMore."),
        SECTIONS.replace("## B", "## New\n\nNew.\n\n## B"),
        "---\ntitle: T\n---\n\n" + SECTIONS,
        SECTIONS.replace("## B", "## Beta"),
        SECTIONS.replace("mine: 1", "mine: 2\n?: why?"),
        SECTIONS.replace("## B", "---\nmine: 3\n---\n## B"),
        SECTIONS.replace("\n", "\r\n"),
        "\ufeff" + SECTIONS,
        "# A\n\nOne.\n\n## C\n\n---\nmine: 1\n---\n\nThree.\n\n## B\n\nTwo.\n",
    ],
    ids=[
        "nothing", "the text changed", "a section", "a header", "a heading renamed", "a block changed", "a block made",
        "CRLF", "byte order mark", "moved",
    ],
)  # fmt: skip
def test_fields_find_their_sections(path: Path, theirs: str) -> None:
    """What is missing or stale then is made by the next run: both together are what one run makes of their text."""
    document = saved(path, SECTIONS, theirs, shout)
    assert document.result.failures == ()
    assert document.text.count("~shout") >= 3
    shout(document)
    alone = Document.from_text(theirs, title="d")
    shout(alone)
    assert _without_hashes(document.text) == _without_hashes(alone.text)


def _without_hashes(text: str) -> str:
    return re.sub(r"~txthash_: .*\n", "", text)


def test_a_field_that_the_author_wrote_meanwhile_is_theirs_and_that_of_a_deleted_section_is_told(path: Path) -> None:
    """Nothing of the author's is written over."""
    theirs = SECTIONS.replace("## B\n\nTwo.\n\n", "").replace("mine: 1", "~shout: mine")
    document = saved(path, SECTIONS, theirs, shout)
    assert "~shout: mine\n" in document.text
    (failure,) = document.result.failures
    assert "metadata of 'B': the file was changed meanwhile" in str(failure)


# -- what was rewritten ----------------------------------------------------------------------------


def rewritten(document: Document) -> None:
    """As a program does it that works on the tree."""
    document.tree.headings[1].title = "Beta"


def test_a_changed_tree_goes_into_what_the_author_wrote_elsewhere(path: Path) -> None:
    """Line by line."""
    assert saved(path, BASE, "Zero.\n\n" + BASE, rewritten).text == "Zero.\n\n" + BASE.replace("# B", "# Beta")


def test_where_both_changed_a_line_nothing_is_written(path: Path) -> None:
    """The error names it; the file is the author's."""
    theirs = BASE.replace("# B", "# Betty")
    with pytest.raises(Changed, match=r"d\.md:8: the file was changed meanwhile"):
        saved(path, BASE, theirs, rewritten)
    assert path.read_text() == theirs


def test_what_is_read_again_before_it_is_saved(path: Path) -> None:
    """A reply whose question is gone then is told when the document is saved; one that came back is there."""
    path.write_text(BASE)
    document = Document.open(path)
    answer()(document)
    path.write_text("# A\n\nOne.\n")
    document.reload()
    assert document.text == "# A\n\nOne.\n"
    assert len(document.save().failures) == 1
    assert document.save().failures == ()


def test_what_would_harm_the_text_is_not_written(path: Path) -> None:
    """The error says so; nothing lies beside the file."""
    path.write_text("---\ntitle: T\n---\n\n# A\n")
    document = Document.open(path)
    document._replace([TextBlock("title: T\n\n# A\n", 1)])
    with pytest.raises(DocumentError, match=r"d\.md: nothing was written, .*lmm scan --check"):
        document.save()
    assert (path.read_text(), list(path.parent.iterdir())) == ("---\ntitle: T\n---\n\n# A\n", [path])


def test_a_file_that_is_gone(path: Path) -> None:
    """Nothing is written where the author deleted the file."""
    path.write_text(BASE)
    document = Document.open(path)
    answer()(document)
    path.unlink()
    with pytest.raises(FileReadError):
        document.save()
    assert list(path.parent.iterdir()) == []


def test_nothing_to_say_writes_nothing(path: Path) -> None:
    """A file that is as it should be is not touched."""
    path.write_text(OURS)
    before = path.stat().st_mtime_ns
    document = Document.open(path)
    answer()(document)
    assert document.save().text == OURS
    assert path.stat().st_mtime_ns == before
