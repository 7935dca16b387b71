"""The RAG annotations, case by case (tests/golden/annotate/*.md), and what they are made from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import talking
from fakes.section_model import SectionModel
from golden_files import Case, read_cases, unescape

from lmm import Document
from lmm.config_tables import Config
from lmm.errors import ConfigError, LmmError, ModelUnavailable
from lmm.messages import render
from lmm.notebook.annotations import language_name
from lmm.notebook.staleness import State

_PRINT = re.compile(r"(?<=: )\S+ \S+ (?:[^\s-]|-\S)[^\s,}]*(?=[,}])")
WORDS = "word " * 60
SMALL_CHUNKS = Config(path=Path("config.toml"), text="[text_splitter]\nmax_size = 100\n")


def annotate(
    text: str, model: SectionModel, *fields: str, refresh: bool = False, again: bool = False
) -> talking.Talked:
    """Annotate a text with these fields and no others."""
    wanted = {name: name in fields for name in ("titles", "summary", "questions", "keywords")}
    return talking.annotated(
        text, flags=wanted, refresh=refresh, again=again, model=model, title="file", config=SMALL_CHUNKS
    )


def fields_and_replies(lines: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """What a golden case asks for: ``fields: …`` and ``summary of A: reply`` lines."""
    given = dict(line.split(": ", 1) for line in lines if not line.startswith(("|", "asked")))
    return given.pop("fields").split(), {about: reply.replace("\\n", "\n") for about, reply in given.items()}


@pytest.mark.parametrize("case", read_cases("annotate"), ids=str)
def test_golden(case: Case) -> None:
    """A document, what is asked for, the replies: what is asked, and the document after (``|`` lines).

    Hashes made now stand as ``…`` there. A second run asks nothing and changes nothing.
    """
    fields, replies = fields_and_replies(case.expected)
    model = SectionModel(replies)
    report = annotate(case.source, model, *fields)
    after = tuple(f"| {line}".rstrip(" ") for line in _PRINT.sub("…", report.text).split("\n"))
    asked = tuple(f"asked: {line}" for line in model.asked)
    assert (asked, after) == (
        tuple(line for line in case.expected if line.startswith("asked")),
        tuple(unescape(line) for line in case.expected if line.startswith("|")),
    )
    model.forget()
    again = annotate(report.text, model, *fields)
    assert (again.text, model.asked, again.report.changed) == (report.text, [], False)


RECIPES = """---
title: Recipe Book
---
## Recipe 1

Name: Pavlova

### Ingredients

4 egg whites

### Instructions

Bake for 75 minutes.

## Recipe 2

Name: Shakshuka

### Ingredients

{0}

### Instructions

{0}

### Notes
"""


def test_a_small_entry_gets_one_summary_and_its_name_is_shown_with_every_part() -> None:
    """As the seed has it: a brief description of each section. What is found as one is described as one."""
    model = SectionModel()
    document = talking.annotated(RECIPES.format("peppers " * 180), flags={"summary": True}, model=model)
    asked = {request.messages[-1].attachments[0].source: render(request.messages[-1]) for request in model.requests}
    parts = ["Recipe 2 > Ingredients", "Recipe 2 > Instructions"]
    assert sorted(asked) == ["Recipe 1", "Recipe 2", *parts, "Recipe Book"]
    assert "Name: Pavlova\n\n### Ingredients\n\n4 egg whites" in asked["Recipe 1"]
    assert '<context from="Recipe 2">\nName: Shakshuka\n' in asked[parts[0]]
    without = [one.title for one in document.report.results if one.state is State.NOTHING]
    assert without == ["Ingredients", "Instructions", "Notes"]
    other = document.text.replace("Shakshuka", "Menemen")
    changed = talking.annotated(other, flags={"summary": True}, model=model).report.results
    assert Counter(str(one.state) for one in changed)["made with another prompt, model or heading path"] == 2


# -- what is asked again ---------------------------------------------------------------------------

LEAF = f"A leaf. {WORDS}"
TREE = f"""\
---
title: T
---

# A

Own text of A.

## A1

{LEAF}

## A2

### A2a

Deep. {WORDS}

### A2b

Deeper. {WORDS}

# B

Beside. {WORDS}
"""


def annotated(*fields: str, text: str = TREE) -> tuple[str, SectionModel]:
    """The annotated tree, and the model that made it, its memory emptied."""
    model = SectionModel(numbered=True)
    report = annotate(text, model, *(fields or ("summary",)))
    assert report.failures == ()
    model.forget()
    return report.text, model


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("Deep. ", "Deep, changed. ", ["A", "A2", "A2a", "T"]),
        ("Own text of A.", "Own text of A.\n\nA paragraph more.", ["A", "T"]),
        ("Own text of A.\n\n", "", ["A", "T"]),
        ("Beside. ", "Aside. ", ["B", "T"]),
    ],
    ids=["a leaf", "a paragraph added", "a paragraph deleted", "another branch"],
)
def test_a_change_asks_for_that_section_and_its_ancestors(old: str, new: str, asked: list[str]) -> None:
    """Nothing else; the summary of the document is under its title."""
    text, model = annotated()
    report = annotate(text.replace(old, new), model, "summary")
    assert model.asked == [f"summary of {name}" for name in asked]
    model.forget()
    assert annotate(report.text, model, "summary").report.changed is False


def test_a_section_removed_asks_for_its_ancestors() -> None:
    """With its metadata block, as people delete sections."""
    text, model = annotated()
    start, end = text.index("---\n~summary_: Summary of a1"), text.index("---\n~summary_: Summary of a2,")
    annotate(text[:start] + text[end:], model, "summary")
    assert model.asked == ["summary of A", "summary of T"]


@pytest.mark.parametrize(
    "reflow",
    [
        lambda text: text.replace("word word", "word\nword"),
        lambda text: text.replace("word ", "word   "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n\n## ", "\n\n\n\n## "),
        lambda text: "\ufeff" + text,
        lambda text: re.sub(r"~summary_: (Summary of) (.*)", r"~summary_: |-\n  \1\n  \2", text),
    ],
    ids=["lines", "spaces", "CRLF", "blank lines", "byte order mark", "the value"],
)
def test_reflowing_asks_nothing(reflow: object) -> None:
    """White space, in the text and in the generated values, does not count."""
    text, model = annotated("summary", "questions", "keywords")
    assert callable(reflow)
    report = annotate(reflow(text), model, "summary", "questions", "keywords")
    assert (report.report.changed, model.asked) == (False, [])


@pytest.mark.parametrize(
    ("old", "new"), [("# A\n", "# A renamed\n"), ("### A2b", "### A2b renamed"), ("title: T", "title: U")]
)
def test_a_heading_renamed_asks_nothing_until_refresh(old: str, new: str) -> None:
    """Never silently: --refresh asks for the sections whose heading path, or subheadings, are others now."""
    text, model = annotated()
    renamed = text.replace(old, new)
    assert annotate(renamed, model, "summary").report.changed is False
    assert model.asked == []
    report = annotate(renamed, model, "summary", refresh=True)
    assert model.asked
    model.forget()
    assert annotate(report.text, model, "summary", refresh=True).report.changed is False
    assert model.asked == []


def test_titles_follow_the_headings() -> None:
    """They are the heading path, made by code: a renamed heading changes them at once."""
    text, model = annotated("titles")
    report = annotate(text.replace("## A2\n", "## Second\n"), model, "titles")
    assert [line for line in report.text.splitlines() if "Second" in line] == [
        "~titles_: T - A - Second", "## Second", "~titles_: T - A - Second - A2a", "~titles_: T - A - Second - A2b",
    ]  # fmt: skip


def test_a_text_that_is_gone_takes_its_summary_along() -> None:
    """Or students would find what is not there any more; one that was edited stays."""
    text, model = annotated()
    shorter = text.replace(LEAF, "")
    assert "Summary of a1" not in annotate(shorter, model, "summary").text
    edited = re.sub(r"Summary of a1, number \d+\.", "Mine.", shorter)
    assert edited != shorter
    assert "~summary_: Mine." in annotate(edited, model, "summary").text


def test_a_deleted_field_comes_back_for_nothing() -> None:
    """The journal knows it; --again asks again."""
    text, model = annotated()
    without = re.sub(r"~summary_: Summary of b.*\n", "", text)
    report = annotate(without, model, "summary")
    assert (sorted(report.text.splitlines()), model.asked) == (sorted(text.splitlines()), [])
    annotate(without, model, "summary", again=True)
    assert model.asked == ["summary of B", "summary of T"]


def test_again_asks_what_the_journal_knows() -> None:
    """Else the same question about the same text is not paid twice, in whichever document it stands."""
    annotate(TREE, SectionModel(), "summary")
    model = SectionModel()
    annotate(TREE, model, "summary")
    assert model.asked == []
    annotate(TREE, model, "summary", again=True)
    assert len(model.asked) == 7


ANNOTATED = f"""\
---
title: T
---
---
~titles_: T - A
~summary_: Summary of a.
~questions_:
  - Questions of a.
~keywords_:
  - Keywords of a.
~txthash_:
  titles: HWjjiXGaCY s6RqRtuhlh A+PCQg9QZq
  summary: nPtxFVgpHb XEW/QoZCuW r4W+tHls2G
  questions: veTtoOMw0X UL0Ctg2Rao jBOpkge32w
  keywords: "/zitKwdofU lZTzdicacQ x5VCLiw1nu"
---
# A

One. {WORDS}

---
~titles_: T - A - B
~summary_: Summary of b.
~questions_:
  - Questions of b.
~keywords_:
  - Keywords of b.
~txthash_:
  titles: X08eWGDK0E nIkn2Wd/nh XOeDewOPz0
  summary: JMykulXJ8o XBNtG3pGvi sPGs4pO1HD
  questions: JMykulXJ8o R3WSc5sNCp J4B4Tnz58B
  keywords: JMykulXJ8o Ezc4qEl5YU tOOrT39Hne
---
## B

Two. {WORDS}
"""


def test_what_was_made_by_an_earlier_version_is_up_to_date() -> None:
    """With its wording of the prompts and its form of the hashes; even --refresh makes only what is missing."""
    model = SectionModel()
    done = annotate(ANNOTATED, model, "titles", "summary", "questions", "keywords", refresh=True)
    assert (model.asked, done.text.partition("~txthash_: {summary: ")[2].partition("}\n")[2]) == (
        [], ANNOTATED.partition("title: T\n")[2]
    )  # fmt: skip


# -- failures --------------------------------------------------------------------------------------


def test_a_failed_call_leaves_out_its_section_and_its_ancestors_only() -> None:
    """Other sections are made, and what needs no model; the next run asks only for what is missing."""
    model = SectionModel({"summary of A2a": ModelUnavailable("down")})
    report = annotate(TREE, model, "titles", "summary", "questions")
    assert [(f.what, str(f.error)) for f in report.failures] == [("summary, questions of 'A2a'", "down")]
    assert sorted(re.findall(r"~summary_: Summary of (\w+)", report.text)) == ["a1", "a2b", "b"]
    assert [len(re.findall(rf"~{field}_:", report.text)) for field in ("questions", "titles")] == [3, 6]
    healthy = SectionModel()
    assert annotate(report.text, healthy, "titles", "summary", "questions").failures == ()
    assert healthy.asked == [
        "questions of A", "questions of A2", "questions of A2a",
        "summary of A", "summary of A2", "summary of A2a", "summary of T",
    ]  # fmt: skip
    assert len(healthy.requests) == 4


def test_a_section_is_asked_about_once_for_what_is_missing() -> None:
    """Its text is sent once, with its subsections' annotations under their names; what is there is not asked for."""
    model = SectionModel()
    text = TREE.replace("## A1\n", "---\nquestions: Mine?\n---\n## A1\n")
    text = text.replace("# B\n", "---\nsummary: Mine.\n---\n# B\n")
    report = annotate(text, model, "summary", "questions", "keywords")
    asked = {request.messages[-1].attachments[0].source: request for request in model.requests}
    fields = {source.rpartition(" > ")[2]: [*(request.schema or {})["properties"]] for source, request in asked.items()}
    three = ["summary", "questions", "keywords"]
    assert fields == {
        "A1": ["summary", "keywords"], "A2": three, "A2a": three, "A2b": three, "A": three,
        "B": ["questions", "keywords"], "T": ["summary"],
    }  # fmt: skip
    of_a1 = "## A1\n\nSummary:\nSummary of a1.\n\nQuestions:\nMine?\n\nKeywords:\nKeywords of a1.\n\n"
    assert model.texts["summary of A"].startswith(f"Own text of A.\n\n{of_a1}## A2\n")
    model.forget()
    annotate(re.sub(r"~keywords_:\n  - Keywords of b.\n", "", report.text), model, "summary", "questions", "keywords")
    assert model.asked == ["keywords of B"]


def test_a_failure_below_an_authors_own_summary_stops_there() -> None:
    """What the author wrote does not depend on what is below."""
    text = TREE.replace("## A2\n", "---\nsummary: mine\n---\n## A2\n")
    model = SectionModel({"summary of A2a": ModelUnavailable("down")})
    annotate(text, model, "summary")
    assert {"summary of A", "summary of T"} < set(model.asked)


def test_a_block_that_cannot_be_added_to_costs_nothing() -> None:
    """It fails before the model is asked."""
    text = f"---\ntitle: T\n---\n---\n~summary_: &x [1]\n~txthash: x\nb: *x\n---\n# A\n\n{WORDS}\n"
    model = SectionModel()
    report = annotate(text, model, "summary")
    assert (model.asked, len(report.failures), report.text) == ([], 1, text)


def test_a_reply_without_questions_is_a_failure() -> None:
    """And not an empty list for ever; what else is in it is written."""
    report = annotate(TREE, SectionModel({"questions of B": "- \n"}), "questions", "summary")
    assert [(f.what, str(f.error)) for f in report.failures] == [
        ("questions of 'B'", "the reply contains no questions (run again with --again; in Python again=True)")
    ]
    assert "Summary of b." in report.text


@pytest.mark.parametrize("text", ["", "\n", "---\n", "---\nkey: [\n---\n\n# A\n\n" + WORDS + "\n"], ids=repr)
def test_documents_with_little_in_them(text: str) -> None:
    """A broken header gets no header before it, which would hide it; its own summary is reported."""
    report = annotate(text, SectionModel(), "titles", "summary")
    if not text.strip("-\n"):
        assert (report.text, report.failures) == (text, ())
    else:
        assert report.text.startswith("---\nkey: [\n---\n\n---\n~titles_: A\n")
        assert [f.place.line for f in report.failures] == [1]
        assert isinstance(report.failures[0].error, LmmError)


# -- words -----------------------------------------------------------------------------------------


def test_languages_without_spaces_are_annotated() -> None:
    """A Japanese text of a hundred characters is long enough for a summary."""
    model = SectionModel()
    annotate("---\ntitle: T\nlang: ja\n---\n# A\n\n" + "葉は緑色です。" * 20 + "\n", model, "summary")
    assert model.asked == ["summary of A"]
    assert "in Japanese" in model.requests[0].messages[0].text


@pytest.mark.parametrize(
    ("code", "name"), [("de", "German"), ("pt-BR", "Portuguese"), ("zh_Hans", "Chinese"), ("tlh", "tlh")]
)
def test_the_prompt_names_the_language(code: str, name: str) -> None:
    """By its English name, or by its code."""
    model = SectionModel()
    annotate(f"---\ntitle: T\nlang: {code}\n---\n# A\n\n{WORDS}\n", model, "questions")
    assert language_name(code) == name
    assert f"in {name}" in model.requests[0].messages[0].text


@pytest.mark.parametrize(
    "text",
    [
        "Some text.\n\n# A\n\nA leaf.\n", "# Leaves\n\nA leaf.\n\n## B\n\nText.\n", "# A\r\n\r\nx\r\n",
        "---\n---\n\n# A\n\nx\n", "---\ntitle: A\n---\n\n# A\n\nx\n", f"{WORDS}\n\n# A\n\n{WORDS}\n",
    ],
)  # fmt: skip
def test_clearing_gives_the_document_back_byte_for_byte(text: str) -> None:
    """A header is added only where the first heading would lose its block to it, and is not the author's (who had one
    without anything, if it has nothing but a summary)."""
    fields = ("titles", "keywords") if text.startswith("---\n---") else ("titles", "summary", "keywords")
    document = Document.from_text(annotate(text, SectionModel(), *fields).text)
    assert "title:" not in document.text.replace("title: A", "")
    assert document.clear_annotations()
    assert document.text == text


def test_a_header_that_a_kept_annotation_needs_stays() -> None:
    """Without it, the block before the first heading would be the header."""
    document = Document.from_text(
        annotate("# A\n\nx\n", SectionModel(), "titles").text.replace("~titles_: A", "~titles_: B")
    )
    assert not document.clear_annotations()
    assert document.text.startswith("---\n~txthash_: {}\n---\n\n---\n~titles_: B")


@pytest.mark.parametrize("verb", [Document.annotate, Document.stale, Document.clear_annotations])
def test_an_annotation_that_does_not_exist_is_refused(verb: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match="unknown annotation 'titel'") as caught:
        verb(Document.from_text("# A\n\nText.\n"), "titel")
    assert caught.value.hint == "did you mean 'titles'?"
