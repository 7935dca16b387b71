"""What is generated about a section gives no solution away: not to students, and not in a file of cards."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from edge.serving import serving
from edge.support import run_here

KINDS = '["solution", "key"]'
CONFIG = f'[minor]\nmodel = "Builtin/extractive"\n\n[study]\nsolutions = {KINDS}\n\n[serve]\nwithhold = {KINDS}\n'
EXERCISE = "# Practice\n\nHow many zebras graze in the meadow beside the river, if twice three and one are there?\n\n"
SECRET = "The meadow holds sesquipedalian zebras: sesquipedalian zebras graze in the meadow beside the river."
FORMS = {
    "type": f"---\ntype: solution\n---\n{SECRET}\n\nMore of the sesquipedalian zebras graze.\n",
    "below a type": f"## Worked\n\n---\ntype: solution\n---\n\n{SECRET}\n\n### Deeper\n\n{SECRET}\n",
    "div": f"::: {{.solution}}\n\n{SECRET}\n\nMore sesquipedalian zebras graze.\n\n:::\n",
    "heading": f"## Solution\n\n{SECRET}\n",
    "own type": f"---\ntype: key\n---\n{SECRET}\n",
}
FLAGS = ("--summaries", "--questions", "--keywords")


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def seen_by_students(config: Path) -> str:
    """The plan, the cards and all that is found."""
    with serving(config) as address:
        requests: list[str | urllib.request.Request] = [f"{address}/material/{kind}" for kind in ("plan", "cards")]
        for query in ("What does the text say about sesquipedalian?", "zebras in the meadow"):
            sent = json.dumps({"query": query, "limit": 50}).encode()
            requests.append(urllib.request.Request(f"{address}/search", sent, {"Content-Type": "application/json"}))
        found = "".join(urllib.request.urlopen(each, timeout=20).read().decode() for each in requests)
    return found.replace("What does the text say about sesquipedalian?", "")


@pytest.mark.parametrize("form", FORMS)
def test_students_do_not_get_a_solution_through_an_annotation(
    course: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """Whatever says that it is one; the exercise is summarised and found."""
    (course / "b.md").write_text(EXERCISE + FORMS[form])
    assert run_here(capsys, "annotate", *FLAGS, "b.md").code == 0
    section = (course / "b.md").read_text().partition("# Practice")[0]
    if form not in ("heading", "own type"):  # only the course knows that these are solutions
        assert ("zebras" in section, "sesquipedalian" in section) == (True, False), section
    ran = run_here(capsys, "ingest", "b.md")
    assert (ran.code, "b.md:1: kept from students (~" in ran.out) == (0, "sesquipedalian" in section), ran
    seen = seen_by_students(course / "config.toml")
    assert "sesquipedalian" not in seen
    assert "zebras graze in the meadow" in seen


def test_an_annotation_of_before_is_left_out_item_by_item(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that do not give it away stay; so does what the author wrote."""
    generated = (
        "~summary_: The zebras are sesquipedalian.\n~questions_: [Who grazes in the meadow?, Are they sesquipedalian?]"
    )
    (course / "b.md").write_text(f"---\n{generated}\ntopic: counting\n---\n{EXERCISE}{FORMS['type']}")
    ran = run_here(capsys, "ingest", "b.md")
    assert ran.code == 0
    assert "b.md:1: kept from students (~summary_, ~questions_)" in ran.out, ran
    seen = seen_by_students(course / "config.toml")
    assert "Who grazes in the meadow?" in seen
    assert "sesquipedalian" not in seen


def test_cards_give_no_solution_away(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of cards has what the page serves; with --solutions, all."""
    made = "---\n~cards_: [{q: How many?, a: Sesquipedalian seventeen}]\n---\n# Sums\n\nA sum.\n\n"
    key = f"{made}---\nquestions: How many zebras are there?\ntype: solution\n---\n## Key\n\n{SECRET}\n\n"
    text = f"---\ntitle: B\n---\n{key}---\nquestions: [Where is the meadow?]\n---\n# Meadows\n\nBeside the river.\n"
    (course / "b.md").write_text(text)
    for more, has_it in ((), False), (("--solutions",), True):
        assert run_here(capsys, "cards", "b.md", "-o", "k.csv", *more).code == 0
        written = (course / "k.csv").read_text()
        assert ("seventeen" in written, "sesquipedalian" in written) == (has_it, has_it), written
        assert ("sesquipedalian" in written, "Beside the river." in written) == (has_it, True), written


def test_a_summary_of_summaries_has_no_labels(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The built-in model quotes texts, not the names of annotations that are sent with them."""
    parts = (f"## Part {n}\n\n" + f"Zebras of herd {n} graze in the meadow. " * 12 for n in range(3))
    (course / "b.md").write_text("# Herds\n\n" + "\n\n".join(parts) + "\n")
    assert run_here(capsys, "annotate", *FLAGS, "b.md").code == 0
    written = (course / "b.md").read_text()
    assert "~summary_" in written
    assert [label for label in ("Summary: ", "Keywords: ", "Questions: ") if label in written] == []
