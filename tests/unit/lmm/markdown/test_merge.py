"""Merging, case by case (what holds for every merge: tests/property/test_merge.py)."""

from __future__ import annotations

import time

import pytest

from lmm.disk.shared import Merged
from lmm.markdown.merge import merge

LOG = "~chat_:\n  - query: why?\n    ~reply: So.\n"
ASKED, ANSWERED = "---\n?: why?\n---\n", f"---\n{LOG}---\n"
TEXT = f"# A\n\n{ASKED}One.\n\n# B\n\nTwo.\n"
OURS = TEXT.replace(ASKED, ANSWERED)


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        (TEXT + "\nThree.\n", OURS + "\nThree.\n"),
        ("Zero.\n\n" + TEXT, "Zero.\n\n" + OURS),
        (TEXT.replace("One.", "One, changed."), OURS.replace("One.", "One, changed.")),
        (TEXT.replace("Two.\n", "Two."), OURS.replace("Two.\n", "Two.")),
        (TEXT.replace("\n", "\r\n"), OURS.replace("\n", "\r\n")),
        ("\ufeff" + TEXT, "\ufeff" + OURS),
        (TEXT.replace("?: why?", "?: why?\nmine: 1"), TEXT.replace("?: why?", LOG + "mine: 1")),
        (TEXT.replace("?: why?", "# note\n?: why?"), TEXT.replace("?: why?\n", "# note\n" + LOG)),
        (TEXT.replace("?: why?", "?: why?\n+: and?"), TEXT.replace("?: why?", LOG + "+: and?")),
        (TEXT.replace("?: why?", "?: why not?"), TEXT.replace("?: why?\n", "?: why not?\n" + LOG)),
        (TEXT.replace("?: why?", LOG.replace("why", "what").rstrip()), None),
        (f"# B\n\nTwo.\n\n# A\n\n{ASKED}One.\n", f"# B\n\nTwo.\n\n# A\n\n{ANSWERED}One.\n"),
        (f"# A\n\n{ASKED}\nOne.\n\n# B\n\nTwo.\n", f"# A\n\n{ANSWERED}\nOne.\n\n# B\n\nTwo.\n"),
    ],
    ids=[
        "appended", "prepended", "the text changed", "no last newline", "CRLF", "byte order mark", "a key", "a comment",
        "another prompt", "the prompt changed", "answered meanwhile", "moved", "a blank line",
    ],
)  # fmt: skip
def test_a_reply_finds_its_block(theirs: str, merged: str | None) -> None:
    """Whatever the author did around it, the reply goes into the block that asked, and the author's text stays."""
    if merged is None:
        merged = theirs.replace("    ~reply: So.\n", "    ~reply: So.\n  - query: why?\n    ~reply: So.\n")
    assert merge(TEXT, OURS, theirs) == Merged(merged)


@pytest.mark.parametrize(
    "theirs",
    [
        TEXT.replace(ASKED, ""),
        TEXT.replace(ASKED, "---\ntype: exercise\n---\n"),
        TEXT.replace("---\nOne.", "One."),
        "",
        "Something else.\n",
        TEXT.replace("# A", "<!--\n\n# A") + "\n-->\n",
    ],
    ids=["deleted", "replaced", "broken", "emptied", "rewritten", "commented out"],
)
def test_a_reply_without_a_block_is_handed_back(theirs: str) -> None:
    """The author's text is the result, and the reply comes back in a block of its own."""
    assert merge(TEXT, OURS, theirs) == Merged(theirs, (f"---\n{LOG}---\n",))


HEADED = "---\ntitle: A\ndocid: a-1\n---\n\n" + TEXT


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        (TEXT + "\nThree.\n", HEADED + "\nThree.\n"),
        ("---\ntitle: Mine\n---\n" + TEXT, "---\ntitle: Mine\ndocid: a-1\n---\n" + TEXT),
        ("---\nlang: de\n---\n" + TEXT, "---\nlang: de\ntitle: A\ndocid: a-1\n---\n" + TEXT),
        ("\ufeffZero.\n", "\ufeff---\ntitle: A\ndocid: a-1\n---\n\nZero.\n"),
        ("", "---\ntitle: A\ndocid: a-1\n---\n\n"),
    ],
)
def test_a_new_header(theirs: str, merged: str) -> None:
    """It comes first, or its keys go into the one that the author wrote meanwhile; theirs count."""
    assert merge(TEXT, HEADED, theirs) == Merged(merged)


def test_a_new_header_does_not_hide_a_broken_one() -> None:
    """It waits beside the document."""
    theirs = "---\ntitle: a: b\n---\n" + TEXT
    assert merge(TEXT, HEADED, theirs) == Merged(theirs, ("---\ntitle: A\ndocid: a-1\n---\n\n",))


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        (OURS + "\nThree.\n", "# A\n\nOne.\n\n# B\n\nTwo.\n\nThree.\n"),
        (OURS.replace("---\nOne", "mine: 1\n---\nOne"), "# A\n\n---\nmine: 1\n---\nOne.\n\n# B\n\nTwo.\n"),
        (OURS.replace("So.", "So, edited."), OURS.replace("So.", "So, edited.")),
    ],
    ids=["elsewhere", "a key beside the log", "the log edited"],
)
def test_clearing(theirs: str, merged: str) -> None:
    """A log that we cleared goes, the author's keys stay, and so does a log that the author has edited meanwhile."""
    assert merge(OURS, "# A\n\nOne.\n\n# B\n\nTwo.\n", theirs) == Merged(merged)


def test_a_log_is_cleared_from_a_block_of_one_line() -> None:
    """Although the author has put it into one meanwhile; their own key stays."""
    theirs = '---\n{"~chat_": [{query: why?, ~reply: So.}], mine: 1}\n---\nOne.\n'
    assert merge(f"---\n{LOG}---\nOne.\n", "One.\n", theirs) == Merged("---\n{mine: 1}\n---\nOne.\n")


def test_metadata_put_before_a_paragraph_joins_what_the_author_put_there() -> None:
    """One paragraph, one block: our key goes into the author's new one."""
    ours = "# A\n\n---\n~summary_: short\n---\nOne.\n"
    theirs = "# A\n\n---\nmine: 1\n---\nOne.\n"
    assert merge("# A\n\nOne.\n", ours, theirs) == Merged("# A\n\n---\nmine: 1\n~summary_: short\n---\nOne.\n")


def test_a_value_that_both_changed_is_the_authors() -> None:
    """Ours is handed back."""
    base, ours, theirs = (f"---\n~summary_: {value}\n---\nOne.\n" for value in ("old", "ours", "theirs"))
    assert merge(base, ours, theirs) == Merged(theirs, ("---\n~summary_: ours\n---\n",))


def test_not_a_number_is_not_a_change() -> None:
    """A value that is unlike itself does not keep a reply from its place."""
    base = "---\nx: .nan\n?: why?\n---\nOne.\n"
    ours = f"---\nx: .nan\n{LOG}---\nOne.\n"
    theirs = base.replace("x: .nan", "x: .nan # note")
    assert merge(base, ours, theirs) == Merged(ours.replace("x: .nan", "x: .nan # note"))


def test_what_would_be_swallowed_is_handed_back() -> None:
    """A reply that would close an equation which the author has opened meanwhile stays out of it; others go in."""
    reply = "~chat_:\n  - query: why?\n    ~reply: |-\n      $$\n      x\n      $$\n"
    base = f"# A\n\n{ASKED}One.\n\n---\n?: and?\n---\nTwo.\n"
    ours = base.replace(ASKED, f"---\n{reply}---\n").replace("?: and?\n", LOG)
    theirs = base.replace("# A\n", "# A\n\n$$ y =\n")
    assert merge(base, ours, theirs) == Merged(theirs.replace("?: and?\n", LOG), (f"---\n{reply}---\n",))


def test_large_documents_merge_fast() -> None:
    """Three thousand blocks, a reply in every tenth, and an author who edited every fifth: about a second at most."""
    blocks = [
        f"---\n?: why {n}?\n---\nParagraph {n}.\n\n" if n % 10 == 0 else f"Paragraph {n}.\n\n" for n in range(3000)
    ]
    ours = [b.replace("?: why", "~chat_:\n  - query: why").replace("?\n", "?\n    ~reply: So.\n") for b in blocks]
    theirs = [b.replace("Para", "Changed para") if n % 5 == 0 else b for n, b in enumerate(blocks)]
    start = time.process_time()
    merged = merge("".join(blocks), "".join(ours), "".join(theirs))
    assert time.process_time() - start < 5
    assert merged.unplaced == ()
    assert merged.text.count("~reply") == 300
    assert merged.text.count("Changed para") == 600


MARK = "\ufeff"


@pytest.mark.parametrize("marks", [(1, 2), (2, 1), (2, 2), (0, 2), (2, 0), (3, 2)])
def test_two_byte_order_marks(marks: tuple[int, int]) -> None:
    """The second is a character of the text: what is merged is what is read from the file that is written."""
    document = "---\ntitle: T\n---\n# A\n\n---\n?: why?\n---\nOne.\n"
    base, theirs = (MARK * count + document for count in marks)
    ours = base.replace("?: why?\n", "~chat_:\n  - query: why?\n    ~reply: So.\n")
    merged = merge(base, ours, theirs.replace("One.", "Two."))
    expected = theirs.replace("One.", "Two.").replace("?: why?\n", "~chat_:\n  - query: why?\n    ~reply: So.\n")
    assert merged == Merged(expected)


def test_what_cannot_be_applied_is_found_among_many() -> None:
    """Where one of our changes would not read back, all others are made, and time does not grow with their square."""
    parts = [f"---\n?: question {n}?\n---\nText {n}.\n\n" for n in range(200)]
    base = "".join(parts)
    ours = "".join(part.replace("?: ", "~asked: ") for part in parts)
    theirs = "".join([*parts[:100], "Words\n", *parts[100:]])  # the block at 100 is text now, under a heading
    merged = merge(base, ours, theirs)
    assert merged.text.count("~asked") + "".join(merged.unplaced).count("~asked") == 200
    assert merged.text.count("~asked") >= 199
