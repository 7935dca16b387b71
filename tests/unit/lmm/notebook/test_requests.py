"""What the model is sent (tests/golden/requests/*.md), and how much of it."""

from __future__ import annotations

import pytest
from golden_files import Case, read_cases

from lmm import Document
from lmm.messages import dialogue_text
from lmm.testing import ScriptedModel

SENTENCE = "The leaf of an oak is green because of the chlorophyll in its cells. "


def sent(text: str) -> str:
    """The messages for the prompts of a document, without the system messages."""
    asks = Document.from_text(text).requests()
    return "\n\n".join(dialogue_text(ask.request.messages[1:]) for ask in asks) + "\n"


@pytest.mark.parametrize("case", read_cases("requests"), ids=str)
def test_golden(case: Case) -> None:
    """To the letter."""
    assert sent(case.source) == case.after
    assert "private" not in sent(case.source).lower()


def book(question: str, place: int = 20, sections: int = 40) -> str:
    """A long document with a question at one of its sections."""
    parts = [f"# Part {n}\n\n{SENTENCE * 20}\n\n## Detail {n}\n\nDetails of {n}.\n" for n in range(sections)]
    parts[3] = parts[3] + "\n![Leaves.](leaf.png){#fig-leaf}\n"
    parts[place] += f"\n---\n?: {question}\n---\nASKED\n"
    return "---\ntitle: Long\n---\n" + "\n".join(parts)


def test_of_a_long_document_the_outline_and_what_is_around_the_text() -> None:
    """The text once, each heading on a line, the section and its neighbours; gaps are marked."""
    text = sent(book("why?"))
    assert text.count("ASKED") == 1
    assert text.count("[THE TEXT]") == 1
    assert all(f"# Part {n}\n" in text and f"## Detail {n}\n" in text for n in range(40))
    assert "Details of 20." in text
    assert "Details of 21." in text
    assert "Details of 3." not in text
    assert "[…]" in text
    assert "# Part 1\n## Detail 1\n# Part 2\n" in text
    assert len(text) < 16_000


def test_summaries_are_sent_where_the_text_is_not() -> None:
    """Those of a long document; a small one is sent whole, whatever has been annotated."""
    summary = "---\n~summary_: All about part 3.\n---\n"
    assert "\n# Part 3\n\nAll about part 3.\n" in sent(book("why?").replace("# Part 3\n", f"{summary}# Part 3\n"))
    assert "All about" not in sent(f"{summary}# Part 3\n\nOne.\n\n---\n?: why?\n---\nTwo.\n")


@pytest.mark.parametrize("name", ["@fig-leaf", '"Detail 3"', "“detail 3”", "@detail-3", "the part Detail 3"])
def test_what_a_question_names_is_sent(name: str) -> None:
    """A figure by its label, a section by its heading."""
    text = sent(book(f"does this fit {name}?"))
    assert ("{#fig-leaf}" if "fig" in name else "Details of 3.") in text
    assert "Details of 4." not in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("@fig-none", "(@fig-none is not in this document.)"),
        ("@fig-leaf", ""),
        ("@Roots", ""),
        ("@Detial and @anna", ""),
        ("@Leave", "(@Leave is no heading of this document: do you mean @Leaves?)"),
    ],
)
def test_a_name_that_nothing_bears_is_said(name: str, said: str) -> None:
    """To the model, and so in the preview; a name that may be a person's or a citation's is not."""
    text = sent(f"# Leaves\n\n![](a.png){{#fig-leaf}}\n\n# Roots\n\n---\n?: and {name}?\n---\nText.\n")
    assert text.rstrip().endswith(said or f"and {name}?")


def test_a_block_with_other_keys_is_split_when_its_prompt_is_answered() -> None:
    """The prompt is about the empty place above it, the other keys are the next section's."""
    document = Document.from_text("# A\n\n---\ntype: solution\n?: what belongs here?\n---\n# B\n\nText.\n")
    report = document.answer(model=ScriptedModel(["A result."]))
    assert not report.failures
    assert "---\n~chat_:\n  - query: what belongs here?\n" in document.text
    assert document.text.endswith("---\n\n---\ntype: solution\n---\n# B\n\nText.\n")
    assert document.tree.headings[1].own("type") == "solution"
    assert document.tree.headings[1].own("chat_") is None


@pytest.mark.parametrize("keys", ["", "type: solution\n"])
def test_an_edit_of_an_empty_section_leaves_the_next_one(keys: str) -> None:
    """The new text stands below its own heading; rejected, the document is as it was, without the prompt."""
    document = Document.from_text(f"# A\n\nOne.\n\n# End\n\n---\n{keys}=: write it\n---\n# References\n\nRefs.\n")
    report = document.answer(model=ScriptedModel(["<new>\n# End\n\nAll is well.\n</new>"]))  # it repeats the heading
    assert not report.failures
    other = Document.from_text(document.text)
    document.accept()
    block = f"---\n{keys}---\n" if keys else ""
    assert document.text == f"# A\n\nOne.\n\n# End\n\nAll is well.\n\n{block}# References\n\nRefs.\n"
    other.reject()
    assert other.text == f"# A\n\nOne.\n\n# End\n\n{block}# References\n\nRefs.\n"


@pytest.mark.parametrize(
    "around",
    [
        "# A\n\n{}\n# B\n\nText.\n",
        "# A {{#a}}\n{}# B\n",
        "# T\n\n## A\n\n{}\n# B\n\nText.\n",
        "# A\n\nText.\n\n## C\n\n{}\n## B\n\nText.\n",
        "::: {{.panel-tabset}}\n\n## A\n\n{}\n## B\n\nText.\n\n:::\n",
        "# A\n\n{}\n---\ntype: solution\n---\n# B\n\nText.\n",
    ],
)
def test_where_a_place_is_empty(around: str) -> None:
    """An edit writes there, and leaves everything else; rejecting it leaves no trace."""
    document = Document.from_text(around.format("---\n=: write it\n---\n"))
    (ask,) = document.requests()
    assert [one.label for one in ask.request.messages[1].attachments] == ["context"]
    assert not document.answer(model=ScriptedModel(["<new>\nAll is well.\n</new>"])).failures
    accepted, rejected = Document.from_text(document.text), Document.from_text(document.text)
    accepted.accept()
    rejected.reject()
    assert accepted.text.replace("\n", "") == around.format("All is well.").replace("\n", "")
    assert rejected.text.replace("\n", "") == around.format("").replace("\n", "")
