"""Diagnostics: every kind of problem, with its exact place and a way to mend it."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import documents, written_documents

from lmm import Document
from lmm.errors import Finding
from lmm.markdown import parse_markdown_text
from lmm.notebook.problems import find_problems, header_gaps, unread

# The line and column of each problem are marked in the text by "«".
CASES = {
    "never closes": ("«---\nkey: x\n\nText.\n", "this metadata block never closes", "put a line '---' below"),
    "broken": (
        "Text.\n\n---\ntype: 1\nb: c«: d\n---\n",
        "mapping values are not allowed in this context",
        'quote it: b: "c: d"',
    ),
    "an open div": (
        "# A\n\n«::: {.callout-note}\nA leaf.\n\n# B\n",
        "this div never closes: ::: {.callout-note}",
        "':::'",
    ),
    "no colon": ("---\ntitle: T\n«date 2026-11-01\n---\n", "could not find expected ':'", "write 'date: 2026-11-01'"),
    "an open bracket": (
        "---\ntitle: T\n«tags: [a, b\nlang: de\n---\n",
        "did not find",
        "close the bracket: 'tags: [a, b]'",
    ),
    "an open text": ("---\nabstract: |\n«Text\n---\n", "could not find", "indent this line by two spaces"),
    "mixed list": ("Text.\n\n---\n«- type: 1\n- b\n---\n", "found a list", "start the block with 'key: value'"),
    "duplicate key": (
        "---\ntitle: T\ndocid: d\na: 1\n«a: 2\n---\n",
        "'a' occurs a second time",
        "delete one of them",
    ),
    "an assignment": ("# A\n\n---\n«frozen = True\n---\nText.\n", "'frozen = …' is read", "write 'frozen: true'"),
    "a wrong provider": (
        "---\ndocid: d\ntitle: T\n«model:\n  major: Opnai/x\n---\n",
        "'Opnai'",
        "did you mean OpenAI?",
    ),
    "a program": (
        "---\ndocid: d\ntitle: T\n«model:\n  major: ACP/claude\n---\n",
        "starts a program",
        "set it yourself",
    ),
    "no chat model": ("---\ndocid: d\ntitle: T\n«model:\n  aux: FastEmbed/x\n---\n", "cannot answer", "set it under"),
    "a refused setting": (
        "---\ndocid: d\ntitle: T\n«model:\n  major: {model: OpenAI/gpt-5, temperature: 0.2}\n---\n",
        "OpenAI/gpt-5 does not take 'temperature'",
        "remove it",
    ),
    "a wrong model key": ("---\ndocid: d\ntitle: T\n«model:\n  majr: x\n---\n", "'majr'", "did you mean 'major'?"),
    "an empty question": ("# A\n\n---\n«?:\n---\nText.\n", "'?:' asks nothing", "write the question after the colon"),
    "not YAML": ("# A\n\n---\n?: is this«: so\n---\nText.\n", "Pandoc cannot read the document", "write '?: |'"),
    "not YAML, the second": (
        "# A\n\n---\n?: a\nmessage: b«: c\n---\nText.\n",
        "Pandoc cannot read",
        "write 'message: |'",
    ),
    "runs code": (
        "# A\n\n---\na: 1\n«?: |\n  why\n  ```{r}\n  x\n  ```\n---\nText.\n",
        "would run the code",
        "before knitting",
    ),
    "two in a header": (
        "---\ntitle: T\ndocid: d\n?: a\n«?: b\n---\n",
        "R Markdown cannot read a header",
        "before knitting",
    ),
    "no blank line": ("# A\n«---\nk: 1\n---\nText.\n", "Pandoc reads this metadata", "put a blank line before it"),
    "a comment at the start": (
        "# A\n\n«--- # c\nk: 1\n---\nText.\n",
        "Pandoc reads this metadata",
        "after its first ---",
    ),
    "a comment at the end": (
        "# A\n\n---\nk: 1\n«--- # c\nText.\n",
        "Pandoc reads this metadata",
        "after its last line",
    ),
    "list form": ("# A\n\n---\n«- k: 1\n---\nText.\n", "Pandoc reads this metadata", "without the '- '"),
    "a rule": ("A.\n\n«---\n**One**\n\nB.\n\n---\n\nC.\n", "from this rule to line 8 for metadata", "write *** for it"),
    "a rule above text": (
        "A.\n\n«---\nNote: see: this\n---\nC.\n",
        "mapping values are not allowed",
        "blank line below",
    ),
    "a rule, and a question": ("A.\n\n«---\n@ann\n\n# B\n\n---\n?: why?\n---\n", "and stops", "write *** for it"),
    "a rule below an underlined heading": (
        "B\n---\n«---\nNote: the data: here\n\n---\n",
        "and stops",
        "write *** for it",
    ),
    "a rule above a comment": ("A.\n\n«---\n# B\n\n---\n", "leaves them out", "write *** for it"),
    "a conflict": ("# A\n\n«<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n", "conflict of git", "keep one side"),
    "a key of the document": ("# A\n\n---\n«title: B\n---\nC.\n", "'title' for that of the whole", "another name"),
    "an open fence": ("Text.\n\n«```r\nx\n\ny\n", "'```' is never closed", "close it"),
    "an open fence in a list": ("Text.\n\n1.  - «```r\n      x\n", "'```' is never closed", "close it"),
    "an open equation": ("# A\n\nText\n  «$$\nx\n", "'$$' is never closed", "close it"),
    "an open comment": ("# A\n\n«<!-- to do\n", "'<!--' is never closed", "close it"),
    "a damaged edit": (
        "# A\n\n«---\n~edit_:\n  edit: x\n  ~~id: abc123\n---\nText.\n",
        "the marks of this edit are missing",
        "delete '~edit_'",
    ),
    "CRLF": (
        "# A\r\n\r\n---\r\ntype: 1\r\nb: c«: d\r\n---\r\n",
        "mapping values are not allowed",
        'quote it: b: "c: d"',
    ),
    "a byte order mark": ("\ufeff«---\nkey: x\n\nText.\n", "never closes", "put a line"),
    "blank lines first": ("\n\n---\nb: c«: d\n---\n", "mapping values are not allowed", 'quote it: b: "c: d"'),
}
ERRORS = {
    "no colon",
    "an open bracket",
    "an open text",
    "never closes",
    "broken",
    "mixed list",
    "duplicate key",
    "a wrong provider",
    "a program",
    "no chat model",
    "a wrong model key",
    "a damaged edit",
    "CRLF",
    "a byte order mark",
    "blank lines first",
    "a conflict",
}


@pytest.mark.parametrize("name", CASES)
def test_problem(name: str) -> None:
    """Each problem is found once, at its line and column, with a hint; warnings do not fail a scan."""
    marked, message, hint = CASES[name]
    before, _, after = marked.partition("«")
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2].removeprefix("\ufeff")) + 1
    (problem,) = find_problems(parse_markdown_text(before + after))
    assert (problem.line, problem.column) == (line, column)
    assert message in problem.message
    assert hint in problem.hint
    assert problem.severity == ("error" if name in ERRORS else "warning")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# A\n\nText with $$ inside, ``` too, and <!-- a comment -->.\n",
        "---\ntitle: T\ndocid: d\nmodel:\n  major: ollama/llama3.2\n---\n\n---\n?: why?\n---\nText.\n",
        "# A\n\n---\n?: |\n  is this: so?\n---\nText.\n",
        "# A\n\n---\n\nA rule.\n\n***\n\nSetext\n---\n",
        "# A\n---\n**One**\n\nB.\n\n---\n\nC.\n",
        "```r\nx\n```\n---\nk: 1\n---\nText.\n",
        "# A\n\n---\n~summary_: yes: no\n---\n".replace("yes: no", '"yes: no"'),
    ],
)
def test_no_problem(text: str) -> None:
    """Documents that everyone reads alike have none."""
    assert find_problems(parse_markdown_text(text)) == []


def test_a_header_that_cannot_be_completed() -> None:
    """What `lmm scan` would add and cannot is said, with the reason."""
    found = find_problems(parse_markdown_text("\n---\n? a\n: b\n---\nText.\n"))
    assert [(p.line, p.column, p.severity, p.message.split(":")[0]) for p in found] == [
        (2, 1, "warning", "'title' cannot be added to this header"),
        (2, 1, "warning", "'docid' cannot be added to this header"),
    ]


def test_header_gaps() -> None:
    """What `lmm scan` would add to the header."""
    gaps = header_gaps(parse_markdown_text("---\ntitle: T\n---\n"))
    assert gaps == [Finding(1, 1, "the header has no docid", "lmm scan adds it", "warning")]


@given(written_documents() | documents())
def test_problems_have_a_place_in_the_document(text: str) -> None:
    """Finding problems never raises; they come in order, on lines that exist, with something to say and to do."""
    problems = find_problems(parse_markdown_text(text))
    assert [(p.line, p.column) for p in problems] == sorted((p.line, p.column) for p in problems)
    for problem in problems:
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.column >= 1
        assert problem.message
        assert problem.hint


def test_slides_between_rules_that_read_as_metadata_are_reported() -> None:
    """A heading is a comment there."""
    text = "# One\n\nText.\n\n---\n# Two\n\nProphase: they become visible\n\n---\n# Three\n\nText.\n"
    (found,) = unread(parse_markdown_text(text))
    assert (found.line, found.message) == (5, "3 lines between --- are metadata, not text")


def test_a_document_whose_headings_are_all_underlined_is_reported() -> None:
    """They are text, so that it has no sections."""
    text = "One\n===\n\nText.\n\nTwo\n---\n\nText.\n"
    (found,) = unread(parse_markdown_text(text))
    assert (found.line, found.message) == (1, "2 underlined headings are text here, and the document has no other")
    assert not unread(parse_markdown_text(f"# Zero\n\n{text}"))


@pytest.mark.parametrize(
    "line",
    ["type: soltion", "tpye: solution", "type: exercize", "skip: ture", "skp: true", "forzen: true"],
)
def test_misspelt_words_of_ours_are_named(line: str) -> None:
    """In every document: else students read the solution."""
    (found,) = Document.from_text(f"# S\n\n---\n{line}\n---\nA text.\n").problems()
    assert (found.line, found.severity, found.hint[:12]) == (4, "warning", "did you mean")


@pytest.mark.parametrize("line", ["type: exercises", "type: case", "Skip: yes", "tape: red", "ship: 3", "chosen: true"])
def test_other_words_are_not_named(line: str) -> None:
    """A course has types of its own, and other programs have keys."""
    assert Document.from_text(f"# S\n\n---\n{line}\n---\nA text.\n").problems() == ()


def test_a_field_that_asks_is_named_as_no_prompt() -> None:
    """But not a card with its answer, nor a field without a question mark."""
    for line in ("question: why?", 'ask: "Is it so?"'):
        (found,) = Document.from_text(f"# S\n\n---\n{line}\n---\nA text.\n").problems()
        assert (found.line, found.severity) == (4, "warning")
        assert "write 'query: " in found.hint
    for line in ("question: why?\nanswer: so", "question: 3", "ask: Bob"):
        assert Document.from_text(f"# S\n\n---\n{line}\n---\nA text.\n").problems() == ()
