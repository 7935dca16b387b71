"""Prompts that just miss: each is reported with the form that works, and mended where that is certain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from strategies import documents

from lmm import Document
from lmm.errors import Finding
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.lookalikes import find_lookalikes
from lmm.notebook.near_misses import find_near_misses
from lmm.notebook.problems import with_fixes

# A line of a block, and how it should read. What stands before "«" is not reported.
LINES = {
    "querry: why?": "query: why?",
    "qeury: why?": "query: why?",
    "qury: why?": "query: why?",
    "queri: why?": "query: why?",
    "mesage: go on": "message: go on",
    "massage: go on": "message: go on",
    "messsage: go on": "message: go on",
    "eddit: shorter": "edit: shorter",
    "eidt: shorter": "edit: shorter",
    "Query: why?": "query: why?",
    "QUERY: why?": "query: why?",
    "Message: go on": "message: go on",
    "Edit: shorter": "edit: shorter",
    "query : why?": "query: why?",
    "query:why?": "query: why?",
    "query：why?": "query: why?",
    "query; why?": "query: why?",
    "query = why?": "query: why?",
    "query=: why?": "query: why?",
    "query why?": "query: why?",
    '"query": why?': "query: why?",
    "~query: why?": "query: why?",
    "- query: why?": "query: why?",
    "? what": "?: what",
    "?": "?:",
    "?what": "?: what",
    '"?": why?': "?: why?",
    "'?': why?": "?: why?",
    "“?”: why?": "?: why?",
    '"?: why?"': "?: why?",
    "“?: why?”": "?: why?",
    "？: why?": "?: why?",
    "？：why?": "?: why?",
    "?：why?": "?: why?",
    "？why?": "?: why?",
    "¿: why?": "?: why?",
    "??: why?": "?: why?",
    "? : why?": "?: why?",
    "?; why?": "?: why?",
    ":? why?": "?: why?",
    "~~ ?: why?": "?: why?",
    "~?: why?": "?: why?",
    "- ?: why?": "?: why?",
    "\\?: why?": "?: why?",
    "**?:** why?": "?: why?",
    "\u00a0«?: why?": "?: why?",
    "\u200b?: why?": "?: why?",
    " «?: why?": "?: why?",
    "  «?: why?": "?: why?",
    "\t«?: why?": "?: why?",
    "+ more": "+: more",
    "++: more": "+: more",
    '"+": more': "+: more",
    "＋: more": "+: more",
    "+； more": "+: more",
    "+ : more": "+: more",
    "~~ +: more": "+: more",
    "= shorter": "=: shorter",
    "==: shorter": "=: shorter",
    '"=": shorter': "=: shorter",
    "＝： shorter": "=: shorter",
    "=; shorter": "=: shorter",
    "- =: shorter": "=: shorter",
}
# Documents with prompts that are not where they are read; "«" stands where that is told.
PLACES = {
    "a blank line below the opening": "# A\n\n«---\n\n?: why?\n---\n\nText.\n",
    "blank lines, and no closing": "# A\n\n«---\n\n\n?: why?\n\nText.\n",
    "directly below text": "Text.\n«---\n?: why?\n---\nMore.\n",
    "directly below text, CRLF": "A.\r\n«---\r\n?: why?\r\n---\r\nB.\r\n",
    "directly below a table": "| a | b |\n|---|---|\n| 1 | 2 |\n«---\n?: why?\n---\nMore.\n",
    "indented by two": "# A\n\n  «---\n  ?: why?\n  ---\n\nText.\n",
    "its lines --- are indented": "# A\n\n  «---\n?: why?\n  ---\n\nText.\n",
    "in a list": "- One.\n\n  «---\n  ?: why?\n  ---\n\n- Two.\n",
    "as an item": "- One.\n- «---\n  ?: why?\n  ---\n- Two.\n",
    "in a quotation": "> One.\n>\n> «---\n> ?: why?\n> ---\n> Two.\n",
    "the opening is missing": "# A\n\n«?: why?\n---\n\nText.\n",
    "the opening is missing, below text": "A.\n«?: why?\n---\nB.\n",
    "the opening is missing, a word": "# A\n\n«query: why?\n---\nB.\n",
    "no block at all": "# A\n\n«?: why?\n\nText.\n",
    "the closing is missing": "# A\n\n«---\n?: why?\n\nText.\n",
    "the opening is missing, above a heading": "A.\n\n«?: why?\n---\n# B\n\nText.\n",
    "no block at all, above a heading": "A.\n\n«?: why?\n# B\n\nText.\n",
    "directly below text, above a heading": "A.\n«---\n?: why?\n---\n# B\n\nText.\n",
}
for _dashes in ("--", "----", "—", "–", "——", "- - -", "***", "___", "+++", "−−−"):
    PLACES[f"{_dashes} for ---"] = f"# A\n\n«{_dashes}\n?: why?\n{_dashes}\nText.\n"
NOT_INDENTED = {
    "---\n?: why is it\n«green?\n---\nText.\n": "---\n?: why is it\n  green?\n---\nText.\n",
    "---\ntitle: T\n?: why is it\n«green, and not red?\n---\nText.\n": (
        "---\ntitle: T\n?: why is it\n  green, and not red?\n---\nText.\n"
    ),
}

OWN = {
    "a field of that kind": "---\ntitle: T\nquestion: why?\nqueries: a\nmessages: b\nexit: c\n---\n",
    "a switch": "---\ntitle: T\nEdit: true\nMessage: 3\n---\n",
    "a field in another": "---\nparams:\n  query: a\n  Query: b\nsteps:\n- message: x\n---\n",
    "text of a field": "---\nnote: |\n  ?: why?\n  Query: why?\n---\n",
    "text of a prompt": "---\n?: why?\n  ?: and this?\n---\nText.\n",
    "a reply": "---\n~chat_:\n  - query: a\n    ~reply: |-\n      ?: b\n\n      querry: c\n---\n",
    "a key of YAML": "---\n? a\n: b\n---\n",
    "a comment of YAML": "---\ntitle: T\n# ?: why?\n---\n",
    "a rule": "A.\n\n---\n\nB: c?\n\n***\n\nC.\n",
    "a title with a line below": "Query: why?\n---\n\nText.\n",
    "a list between rules": "---\n+ a\n+ b\n---\n",
    "code": "```\n---\n\n?: why?\n---\n```\n",
    "code that is indented": "A.\n\n    ---\n    ?: why?\n    ---\n\n>     ?: why?\n",
    "code in a list": "- A.\n\n  ```\n  ?: why?\n  ```\n",
    "a comment": "<!--\n?: why?\n-->\n\nText.\n",
    "a quotation of our syntax": "Write `?: why?` there,\n`---`, and\n> `+: more`\n",
    "an operator": "The operator\n?: is that of Elvis.\n",
    "a table that is drawn": "+:---:+---+\n| a   | b |\n+-----+---+\n",
    "words that end with a colon": "Message: this is prose.\n\nedit: so is this.\n\n* ?: to do\n",
}


_SHARED = Path(__file__).parents[5] / "shared"
_PIECES = [*(f"---\n{line}\n---\nText.\n" for line in LINES), *PLACES.values(), *OWN.values()]


def _found(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without its marks, and the places of these."""
    places, text = [], ""
    for part in marked.split("«")[:-1]:
        text += part
        places.append((text.count("\n") + 1, len(text) - text.rfind("\n")))
    return text + marked.split("«")[-1], places


def _misses(text: str) -> list[Finding]:
    blocks = parse_markdown_text(text)
    return find_near_misses(blocks, find_lookalikes(blocks, unsure=True))


@pytest.mark.parametrize("before", ["# A\n\n---\n", "Text.\n\n---\n"])
def test_a_line_that_is_no_prompt(before: str) -> None:
    """It is reported at its place, with the prompt that works; in metadata that can be read, the fix writes that."""
    for slip, prompt in LINES.items():
        marked = slip if "«" in slip else f"«{slip}"
        text, places = _found(f"{before}{marked}\n---\nText.\n")
        problems = _misses(text)
        assert places[0] in [(problem.line, problem.column) for problem in problems], slip
        assert any(prompt in problem.hint for problem in problems), slip
        fixed, count = with_fixes(text, problems)
        assert fixed == (f"{before}{prompt}\n---\nText.\n" if count else text), slip
        document = Document.from_text(text)
        assert (document.fix(), document.text) == (count, fixed), slip


@pytest.mark.parametrize("marked", NOT_INDENTED)
def test_a_line_of_a_prompt_that_is_not_indented(marked: str) -> None:
    """It is reported at its place, with the line that works."""
    text, places = _found(marked)
    found = _misses(text)
    assert places[0] in [(problem.line, problem.column) for problem in found]
    assert NOT_INDENTED[marked].split("\n")[places[0][0] - 1].strip() in " ".join(problem.hint for problem in found)


@pytest.mark.parametrize("name", PLACES)
def test_a_block_that_is_none(name: str) -> None:
    """It is reported where it goes wrong, with what to do, and nothing is changed."""
    text, places = _found(PLACES[name])
    problems = _misses(text)
    assert [(problem.line, problem.column) for problem in problems][:1] == places
    assert problems[0].hint
    assert with_fixes(text, problems) == (text, 0)


@pytest.mark.parametrize("name", OWN)
def test_what_is_the_authors_own(name: str) -> None:
    """It is not mentioned."""
    assert _misses(OWN[name]) == []


@given(st.lists(st.sampled_from(_PIECES).map(lambda piece: piece.replace("«", "")) | documents(), max_size=5))
def test_fixes_change_only_their_lines(pieces: list[str]) -> None:
    """No line moves, and no prompt is lost."""
    text = "\n".join(pieces)
    problems = _misses(text)
    fixed, count = with_fixes(text, problems)
    changed = [a for a, b in zip(text.split("\n"), fixed.split("\n"), strict=True) if a != b]
    assert len(changed) <= count
    asked, asks = (
        [p.text for b in parse_markdown_text(each) if isinstance(b, MetadataBlock) for p in b.prompts]
        for each in (text, fixed)
    )
    assert len(asked) <= len(asks)


def test_real_documents_hold_none() -> None:
    """Of 400 documents that never heard of us nothing is reported. LMM_TEST_BOOKS names a folder with more of them."""
    folder = Path(os.environ.get("LMM_TEST_BOOKS", _SHARED / "corpus"))
    files = sorted(path for suffix in ("md", "Rmd", "qmd") for path in folder.rglob(f"*.{suffix}") if path.is_file())
    if not files:
        pytest.skip("no folder with real documents")
    for path in files[:: len(files) // 400 + 1]:
        assert _misses(path.read_bytes().decode(errors="replace")) == [], path
