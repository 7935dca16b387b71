"""Prompts that just miss: each is reported with the form that works, and mended where that is certain."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from strategies import documents

from lmm import Document
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import MetadataBlock
from lmm.notebook.near_misses import find_near_misses, without_near_misses
from lmm.notebook.problem import apply_fixes

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
# A document, and how it should read: the same with "~" where that is for its author to say.
PLACES = {
    "a blank line below the opening": ("# A\n\n«---\n\n?: why?\n---\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "blank lines, and no closing": ("# A\n\n«---\n\n\n?: why?\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "directly below text": ("Text.\n«---\n?: why?\n---\nMore.\n", "Text.\n\n---\n?: why?\n---\nMore.\n"),
    "directly below text, CRLF": (
        "A.\r\n«---\r\n?: why?\r\n---\r\nB.\r\n",
        "A.\r\n\r\n---\r\n?: why?\r\n---\r\nB.\r\n",
    ),
    "directly below a table": (
        "| a | b |\n|---|---|\n| 1 | 2 |\n«---\n?: why?\n---\nMore.\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n?: why?\n---\nMore.\n",
    ),
    "indented by two": ("# A\n\n  «---\n  ?: why?\n  ---\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "its lines --- are indented": ("# A\n\n  «---\n?: why?\n  ---\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "in a list": ("- One.\n\n  «---\n  ?: why?\n  ---\n\n- Two.\n", "- One.\n\n---\n?: why?\n---\n\n- Two.\n"),
    "as an item": ("- One.\n- «---\n  ?: why?\n  ---\n- Two.\n", "~"),
    "in a quotation": ("> One.\n>\n> «---\n> ?: why?\n> ---\n> Two.\n", "~"),
    "the opening is missing": ("# A\n\n«?: why?\n---\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "the opening is missing, below text": ("A.\n«?: why?\n---\nB.\n", "A.\n\n---\n?: why?\n---\nB.\n"),
    "the opening is missing, a word": ("# A\n\n«query: why?\n---\nB.\n", "# A\n\n---\nquery: why?\n---\nB.\n"),
    "no block at all": ("# A\n\n«?: why?\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "the closing is missing": ("# A\n\n«---\n?: why?\n\nText.\n", "# A\n\n---\n?: why?\n---\n\nText.\n"),
    "the opening is missing, above a heading": (
        "A.\n\n«?: why?\n---\n# B\n\nText.\n",
        "A.\n\n---\n?: why?\n---\n# B\n\nText.\n",
    ),
    "no block at all, above a heading": ("A.\n\n«?: why?\n# B\n\nText.\n", "~"),
    "directly below text, above a heading": (
        "A.\n«---\n?: why?\n---\n# B\n\nText.\n",
        "A.\n\n---\n?: why?\n---\n# B\n\nText.\n",
    ),
    "a line not indented": ("---\n?: why is it\n«green?\n---\nText.\n", "---\n?: why is it\n  green?\n---\nText.\n"),
    "a line not indented, beside a key": (
        "---\ntitle: T\n?: why is it\n«green, and not red?\n---\nText.\n",
        "---\ntitle: T\n?: why is it\n  green, and not red?\n---\nText.\n",
    ),
}  # fmt: skip
for _dashes in ("--", "----", "—", "–", "——", "- - -", "***", "___", "+++", "−−−"):
    PLACES[f"{_dashes} for ---"] = (
        f"# A\n\n«{_dashes}\n?: why?\n«{_dashes}\nText.\n",
        "# A\n\n---\n?: why?\n---\nText.\n",
    )

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
_PIECES = [*(f"---\n{line}\n---\nText.\n" for line in LINES), *(text for text, _ in PLACES.values()), *OWN.values()]


def _found(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without its marks, and the places of these."""
    places, text = [], ""
    for part in marked.split("«")[:-1]:
        text += part
        places.append((text.count("\n") + 1, len(text) - text.rfind("\n")))
    return text + marked.split("«")[-1], places


@pytest.mark.parametrize("slip", LINES)
@pytest.mark.parametrize("before", ["# A\n\n---\n", "Text.\n\n---\n"])
def test_a_line_that_is_no_prompt(before: str, slip: str) -> None:
    """It is reported alone, at its place, with the prompt that works, which is what its fix makes of it."""
    marked = slip if "«" in slip else f"«{slip}"
    text, places = _found(f"{before}{marked}\n---\nText.\n")
    problems = find_near_misses(parse_markdown_text(text))
    assert [(problem.line, problem.column) for problem in problems] == places
    assert LINES[slip] in problems[0].hint
    assert apply_fixes(text, problems) == f"{before}{LINES[slip]}\n---\nText.\n"


@pytest.mark.parametrize("name", PLACES)
def test_a_block_that_is_none(name: str) -> None:
    """It is reported where it goes wrong; the fix changes nothing else, is saved, and the prompt is one."""
    marked, right = PLACES[name]
    text, places = _found(marked)
    problems = find_near_misses(parse_markdown_text(text))
    assert [(problem.line, problem.column) for problem in problems] == places
    fixed = apply_fixes(text, problems)
    assert fixed == (text if right == "~" else right)
    if right != "~":
        blocks = parse_markdown_text(fixed)
        assert find_near_misses(blocks) == []
        assert [len(block.prompts) for block in blocks if isinstance(block, MetadataBlock)] == [1]
        document = Document.from_text(text)
        assert document.fix() == len(problems)
        assert document.rebased(text) == (right, ())


@pytest.mark.parametrize("name", OWN)
def test_what_is_the_authors_own(name: str) -> None:
    """It is not mentioned."""
    assert find_near_misses(parse_markdown_text(OWN[name])) == []


@given(st.lists(st.sampled_from(_PIECES).map(lambda piece: piece.replace("«", "")) | documents(), max_size=5))
def test_what_is_mended_is_mended_for_good(pieces: list[str]) -> None:
    """Where something was certain nothing is left to say, no prompt is lost, and no other block has changed."""
    text = "\n".join(pieces)
    before = parse_markdown_text(text)
    problems = [problem for problem in find_near_misses(before) if problem.fix]
    after = parse_markdown_text(without_near_misses(text)[0])
    assert [problem for problem in find_near_misses(after) if problem.fix] == []
    good, at = list[str](), 0
    for block in before:
        at += len(block.source)
        if isinstance(block, MetadataBlock) and not any(
            p.fix[0].start <= at and at - len(block.source) <= p.fix[-1].end for p in problems
        ):
            good.append(block.content)
    assert not Counter(good) - Counter(block.content for block in after)
    asked, asks = (
        [p.text for b in blocks if isinstance(b, MetadataBlock) for p in b.prompts] for blocks in (before, after)
    )
    assert not Counter(asked) - Counter(asks)


def test_real_documents_hold_none() -> None:
    """Of 400 documents that never heard of us nothing is reported. LMM_TEST_BOOKS names a folder with more of them."""
    folder = Path(os.environ.get("LMM_TEST_BOOKS", _SHARED / "corpus"))
    files = sorted(path for suffix in ("md", "Rmd", "qmd") for path in folder.rglob(f"*.{suffix}") if path.is_file())
    if not files:
        pytest.skip("no folder with real documents")
    for path in files[:: len(files) // 400 + 1]:
        assert find_near_misses(parse_markdown_text(path.read_bytes().decode(errors="replace"))) == [], path
