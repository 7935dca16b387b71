"""`lmm log` on a real log: what a teacher sees, takes away and deletes."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest
from edge.support import lmm, run_here

import lmm_education
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import without_metadata
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.exchange_log.log_file import LogFile, read_log

DAY = 24 * 3600.0


@pytest.fixture
def log(folder: Path) -> Path:
    """A log of three days, and a configuration that names it."""
    (folder / "config.toml").write_text('[serve]\nlog = "logs/course.sqlite"\nlog_days = 30\n')
    source = LoggedSource(1, "s", "notes/leaves.md", ("Leaves", "Colour"), "Leaves", cited=True)
    now = time.time()
    green = {"searched": "Why is a leaf green?", "answer": "Because [1].", "sources": (source,), "model": "m"}
    held = [
        LoggedExchange("aaaa01", now - 40 * DAY, "An old \x1b[31mquestion", error="ModelTimeout: x", outcome="failed"),
        LoggedExchange("bbbb02", now - 2 * DAY, "When is the exam?", outcome="not found"),
        LoggedExchange("cccc03", now - DAY, "And why?", first_word=1.25, cost=0.5, reaction=1, **green),  # type: ignore[arg-type]
        LoggedExchange("dddd04", now, "Why?", reaction=-1, comment="Not green.", unverified="“so”: not found", **green),  # type: ignore[arg-type]
    ]
    with LogFile(folder / "logs/course.sqlite") as opened:
        opened.add((exchange, "ada") for exchange in held)
    return folder / "logs/course.sqlite"


def ids(out: str) -> list[str]:
    """Of what --json printed."""
    return [row["id"] for row in json.loads(out)]


def test_the_latest_as_a_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each, with comments and reasons; nothing that a terminal would obey; the sum on standard error."""
    ran = run_here(capsys, "log", "show", "-n", "3")
    lines = ran.out.splitlines()
    assert [line.split()[2] for line in lines[1:4]] == ["bbbb02", "cccc03", "dddd04"]
    assert "up" in lines[2]
    assert lines[4].strip() == "> Not green."
    assert ran.err.startswith("3 questions, answered: 2, not found: 1")
    assert "\x1b" not in run_here(capsys, "log", "show").out
    assert run_here(capsys, "log", "show", "--errors").out.splitlines()[-1].strip() == "! ModelTimeout: x"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--unanswered"], ["bbbb02"]),
        (["--unverified"], ["dddd04"]),
        (["--down"], ["dddd04"]),
        (["--up"], ["cccc03"]),
        (["--errors"], ["aaaa01"]),
        (["--contains", "EXAM"], ["bbbb02"]),
        (["--contains", "not green"], ["dddd04"]),
        (["--since", "36h"], ["cccc03", "dddd04"]),
        (["--until", "30d"], ["aaaa01"]),
        (["--since", "2d", "--until", "12h"], ["cccc03"]),
        (["--since", "1999-12-31", "-n", "1"], ["dddd04"]),
    ],
)
def test_filters(log: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: list[str]) -> None:
    """What is shown; they go together."""
    assert ids(run_here(capsys, "log", "show", "--json", *words).out) == expected


def test_one_exchange(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, by the beginning of its id."""
    out = run_here(capsys, "log", "show", "cccc").out
    for words in ("And why?", "Why is a leaf green?", "1.2 s", "0.5000 $", "cited: notes/leaves.md > Leaves > Colour"):
        assert words in out
    assert out.endswith("Because [1].\n")
    ran = run_here(capsys, "log", "show", "x")
    assert (ran.code, "no exchanges have ids" in ran.err) == (1, True)


def test_exports(log: Path, folder: Path) -> None:
    """CSV and JSON lines, of what is chosen, into a file."""
    ran = lmm("log", "export", "-o", "log.csv", "--since", "10d")
    assert (ran.code, ran.out) == (0, "log.csv: 3 exchanges\n")
    with (folder / "log.csv").open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["reaction"] for row in rows] == ["", "up", "down"]
    lines = lmm("log", "export", "--as", "jsonl").out.splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["failed", "not found", "answered", "answered"]


def test_questions_for_lmm_eval(log: Path, folder: Path) -> None:
    """`lmm eval` measures with them."""
    (folder / "notes").mkdir()
    (folder / "notes/leaves.md").write_text("# Leaves\n\n## Colour\n\nA leaf is green because of chlorophyll.\n")
    lmm_education.ingest("notes")
    exported = lmm("log", "export", "--as", "questions", "--since", "10d", "-o", "questions.jsonl")
    assert (exported.code, exported.out) == (0, "questions.jsonl: 2 questions\n")  # one was asked twice
    ran = lmm("eval", "questions.jsonl", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["questions"] == 1  # the other has no answer in the course: for --calibrate


LEAVES = """\
# Leaves

A leaf grows on a stem.

## Colour

---
level: easy
---
A leaf is *green* because of chlorophyll.

```{r}
1 + 1
```
"""


@pytest.fixture
def asked_in_vain(folder: Path) -> Path:
    """A course that was ingested, and a log of what it did not answer: with code, a tag and a heading in it."""
    (folder / "config.toml").write_text('[serve]\nlog = "course.sqlite"\n')
    (folder / "notes").mkdir()
    (folder / "notes/leaves.qmd").write_text(LEAVES)
    lmm_education.ingest("notes")
    colour = LoggedSource(1, "s", "notes/leaves.qmd", ("Leaves", "Colour"), cited=True)
    stem = LoggedSource(1, "s", "notes/leaves.qmd", ("Leaves",))
    now, missing = time.time(), {"outcome": "not found", "sources": (stem,)}
    held = [
        LoggedExchange("a", now - 9, "How do roots drink water?", **missing),  # type: ignore[arg-type]
        LoggedExchange("b", now - 8, "how do roots drink water", **missing),  # type: ignore[arg-type]
        LoggedExchange("c", now - 7, "Why green? `r system('x')` # @doe ---", reaction=-1, sources=(colour,)),
        LoggedExchange("d", now - 6, "Why green? `r system('x')` # @doe ---", sources=(colour,)),
        LoggedExchange("e", now - 5, "Where does a leaf grow?", **missing),  # type: ignore[arg-type]
        LoggedExchange("f", now - 4, "Where does a leaf grow?", sources=(colour,)),
        LoggedExchange("g", now - 3, "Zyx?", outcome="not found"),
    ]
    with LogFile(folder / "course.sqlite") as opened:
        opened.add((exchange, exchange.id) for exchange in held)
    return folder / "notes/leaves.qmd"


def noted(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int, bool]]:
    """What `lmm log questions` writes: the question, the line, and whether it is answered now."""
    ran = run_here(capsys, "log", "questions", "--into", "notes", "--json")
    assert ran.code == 0, ran.err
    return [(each["question"], each["line"], each["answered"]) for each in json.loads(ran.out)]


def test_questions_beside_the_sections(asked_in_vain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What failed and was not answered since, with how often; nothing else changes, nor does a second run, nor what is
    ingested and exported; undone, the file is as it was."""
    out = run_here(capsys, "log", "questions").out
    assert out.splitlines()[0] == "How do roots drink water? (2 times, not found)"
    assert asked_in_vain.read_text() == LEAVES
    first = noted(capsys)
    text = asked_in_vain.read_text()
    assert [question[:10] for question, _, _ in first] == ["How do roo", "Why green?", "Zyx?"]
    assert [text.splitlines()[line - 1] for _, line, _ in first[:2]] == ["# Leaves", "## Colour"]
    assert noted(capsys) == first
    assert without_metadata(parse_markdown_text(text)).strip() == without_metadata(parse_markdown_text(LEAVES)).strip()
    assert text.count("level: easy") == 1
    assert "`r system" not in text
    assert "- question: How do roots drink water?\n    asked: 2\n    answer: not found" in text
    assert asked_in_vain.read_text() == text
    assert "0 of 3 chunks embedded" in run_here(capsys, "ingest", "notes").out
    assert "student" not in run_here(capsys, "export", "notes/leaves.qmd", "-o", "-").out
    assert run_here(capsys, "undo", "notes/leaves.qmd").code == 0
    assert asked_in_vain.read_text() == LEAVES


def test_a_question_goes_when_its_section_answers_it(asked_in_vain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not before the changed text is ingested; it stays away, and counts as no student's."""
    noted(capsys)
    written = asked_in_vain.read_text()
    asked_in_vain.write_text(written.replace("on a stem.", "on a stem. Roots drink water through fine hairs."))
    ran = run_here(capsys, "log", "questions", "--into", "notes")
    assert "notes/leaves.qmd: changed since lmm ingest" in ran.err
    assert "How do roots" in asked_in_vain.read_text()
    lmm_education.ingest("notes")
    assert ("How do roots drink water?", 0, True) in [(question, 0, gone) for question, _, gone in noted(capsys)]
    after = asked_in_vain.read_text()
    assert "How do roots" not in after
    assert "Why green?" in after
    assert not [question for question, _, _ in noted(capsys) if "roots" in question]
    assert asked_in_vain.read_text() == after
    assert run_here(capsys, "log", "show").err.startswith("7 questions")


def test_a_question_that_finds_no_place(asked_in_vain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is told, and stops no other."""
    asked_in_vain.write_text(LEAVES.replace("## Colour", "---\n{a: 1}\n---\n## Colour"))
    ran = run_here(capsys, "log", "questions", "--into", "notes")
    assert ran.code == 1
    assert "leaves.qmd:5: keys in { } cannot be edited" in ran.err
    assert "beside no section: 1" in ran.err
    assert "How do roots" in asked_in_vain.read_text()


def test_clearing(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is older than the log is kept, or than one says, or all of it; nothing is left in the files."""
    assert run_here(capsys, "log", "clear").out == "1 exchange deleted\n"
    assert run_here(capsys, "log", "clear", "--before", "36h", "--json").out.split() == [
        *("{", '"deleted":', "1,", '"gone":', "true", "}")
    ]
    assert [exchange.id for exchange in read_log(log)] == ["cccc03", "dddd04"]
    assert run_here(capsys, "log", "clear", "--all").out == "2 exchanges deleted\n"
    assert not any(b"green" in file.read_bytes() for file in log.parent.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "--since", "yesterday"], 2, "'yesterday' is not a time (such as"),
        (["show", "--up", "--down"], 2, "cannot be used together"),
        (["clear", "--all", "--before", "1d"], 2, "cannot be used together"),
        (["show", "--log", "nosuch.sqlite"], 1, "nosuch.sqlite: there is no log yet"),
        (["show", "--log", "config.toml"], 1, "config.toml: the log cannot be read: file is not a database"),
        (["clear", "--log", "nosuch.sqlite"], 1, "there is no log yet"),
    ],
)
def test_what_is_refused(
    log: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    """With what to do instead; no file is made."""
    ran = run_here(capsys, "log", *words)
    assert ran.code == code
    assert message in ran.err
    assert not Path("nosuch.sqlite").exists()


def test_no_log_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What to write so that one is."""
    ran = run_here(capsys, "log", "show")
    assert ran.code == 2
    assert 'log = "course-log.sqlite" under [serve]' in ran.err
