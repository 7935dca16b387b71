"""`lmm extract` as people run it: a real command against a real server."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest
from edge.support import Ran, files_in, finish, lmm, run_here, start, wait_until
from fakes.openai_server import Action, Recorded, ScriptedServer, fail, hang

MODELS = """\
from pydantic import BaseModel

class Plant(BaseModel):
    name: str
    height: float

Plants = list[Plant]
"""
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "height": {"type": "number"}},
    "required": ["name", "height"],
}
GARDEN = """\
# Trees

## Oak

30 metres.

---
kind: shrub
---
## Box

Five metres.
"""
OAK, BOX = '{"name": "Oak", "height": 30.0}', '{"name": "Box", "height": 5.0}'
OAK_ROW = {"file": "garden.md", "line": 3, "headings": ["Trees", "Oak"], "name": "Oak", "height": 30.0} | {
    "lines": {"name": 3, "height": 5}, "unfound": []
}  # fmt: skip
BOX_ROW = {"file": "garden.md", "line": 10, "headings": ["Trees", "Box"], "name": "Box", "height": 5.0} | {
    "lines": {"name": 10, "height": 12}, "unfound": []
}  # fmt: skip


def by_text(request: Recorded) -> str:
    """What the section says; corrected if it was wrong."""
    return OAK if "30 metres" in request.messages[0][1] else BOX


@pytest.fixture
def garden(folder: Path, server: ScriptedServer) -> ScriptedServer:
    """A folder with a document, a Pydantic model and a JSON schema; the server that reads well."""
    (folder / "garden.md").write_text(GARDEN)
    (folder / "plants.py").write_text(MODELS)
    (folder / "plant.json").write_text(json.dumps(SCHEMA))
    config = folder / "config.toml"
    config.write_text(config.read_text() + '[minor]\nmodel = "OpenAICompatible/test"\n')
    server.answer = by_text
    return server


def rows(ran: Ran) -> list[object]:
    """The JSON lines that were printed."""
    return [json.loads(line) for line in ran.out.splitlines()]


def names_in(table: Path) -> list[str]:
    """The names in a CSV file."""
    return [row["name"] for row in csv.DictReader(table.read_text().splitlines())]


def test_the_whole_round_in_a_process(garden: ScriptedServer, folder: Path) -> None:
    """Rows on standard output, the account on standard error; a second process asks nothing."""
    first = lmm("extract", "plants.py:Plant", "garden.md")
    assert (first.code, rows(first)) == (0, [OAK_ROW, BOX_ROW])
    assert first.err == "2 records from 2 sections, 22 tokens in, 14 out\n"
    second = lmm("extract", "plants.py:Plant", "garden.md")
    assert second == Ran(0, first.out, "2 records from 2 sections\n")
    assert len(garden.requests) == 2
    assert (folder / "garden.md").read_text() == GARDEN


@pytest.mark.parametrize("schema", ["plants.py:Plant", "plants:Plant", "plant.json"])
def test_every_way_to_name_a_schema(garden: ScriptedServer, schema: str) -> None:
    """The console script finds modules of the current folder; a JSON schema gives the same rows."""
    ran = lmm("extract", schema, "garden.md")
    assert (ran.code, rows(ran)) == (0, [OAK_ROW, BOX_ROW])
    assert '"height"' in garden.requests[0].last


def test_a_section_that_is_never_valid_is_reported_and_the_others_are_kept(
    garden: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After three replies, with its place; run again, only that section is asked about."""
    garden.answer = lambda request: "{}" if "30 metres" in request.messages[0][1] else BOX
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "-o", "out.csv")
    assert ran.code == 1
    assert ran.err == (
        "garden.md:3: Trees > Oak: no valid reply in 3 attempts; the last one:\n"
        "- $: 'name' is a required property\n- $: 'height' is a required property\n"
    )
    assert ran.out == "out.csv: 1 record from 2 sections, 1 failed, 44 tokens in, 28 out\n"
    assert names_in(folder / "out.csv") == ["Box"]
    assert len(garden.requests) == 4
    garden.answer = lambda request: "An oak."
    ran = run_here(capsys, "extract", "plant.json", "garden.md")
    assert "Oak: no valid reply in 3 attempts; the last one: there is no JSON" in ran.err
    garden.answer = by_text
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "-o", "out.csv")
    assert ran == Ran(0, "out.csv: 2 records from 2 sections, 11 tokens in, 7 out\n", "")
    assert names_in(folder / "out.csv") == ["Oak", "Box"]


def test_an_error_that_all_share_is_told_once(
    garden: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a table of an earlier run is not replaced by an empty one."""
    (folder / "out.csv").write_text("earlier\n")
    garden.answer = lambda request: fail(404, "no such model")
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "-o", "out.csv")
    assert ran.code == 1
    assert ran.err.count("no such model") == 1
    assert ran.err.endswith("0 records from 2 sections, 2 failed; out.csv was not written\n")
    assert (folder / "out.csv").read_text() == "earlier\n"


@pytest.mark.parametrize(
    ("select", "expected"),
    [("bo", [BOX_ROW]), ("O*", [OAK_ROW]), ("kind=shrub", [BOX_ROW]), ("kind=", [BOX_ROW]), ("kind", [BOX_ROW])],
)
def test_sections_are_chosen(
    garden: ScriptedServer, capsys: pytest.CaptureFixture[str], select: str, expected: list[object]
) -> None:
    """By title or by metadata; the others are not asked about."""
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "--select", select)
    assert (ran.code, rows(ran), len(garden.requests)) == (0, expected, 1)


def test_a_selection_that_nothing_fits(garden: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Is an error, not an empty table."""
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "--select", "palm", "-o", "out.csv")
    assert ran == Ran(1, "", "lmm: no section matches --select 'palm' (give a part of a title, key=value, or key=)\n")


def test_a_document_without_text(garden: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to read is said, and is no failure."""
    (folder / "empty.md").write_text("")
    assert run_here(capsys, "extract", "plant.json", "empty.md") == Ran(0, "", "no section has text\n")
    ran = run_here(capsys, "extract", "plant.json", "empty.md", "-o", "out.csv")
    assert ran == Ran(0, "", "no section has text; out.csv was not written\n")


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_tables(garden: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Each kind holds the same rows; nothing else is left in the folder."""
    before = files_in(folder)
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "-o", name)
    assert ran == Ran(0, f"{name}: 2 records from 2 sections, 22 tokens in, 14 out\n", "")
    assert files_in(folder) == before | {name}
    if name == "out.csv":
        assert (folder / name).read_text() == (
            "file,line,headings,name,height,lines,unfound\n"
            'garden.md,3,Trees > Oak,Oak,30.0,"name 3, height 5",\n'
            'garden.md,10,Trees > Box,Box,5.0,"name 10, height 12",\n'
        )
    else:
        assert [json.loads(line) for line in (folder / name).read_text().splitlines()] == [OAK_ROW, BOX_ROW]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plants.py:Plan", "garden.md"], "there is no 'Plan' in plants.py (did you mean 'Plant'?)"),
        (["none.py:Plant", "garden.md"], "none.py: there is no such Python file"),
        (["no_such_module:Plant", "garden.md"], "there is no module 'no_such_module'"),
        (["plants.py", "garden.md"], "'plants.py' is not the name of a schema"),
        (["plant.json", "garden.md", "-o", "out.xls"], "there is no table format '.xls'"),
        (["plant.json", "garden.md", "-o", "none/out.csv"], "there is no such folder"),
    ],
)
def test_wrong_usage(garden: ScriptedServer, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    """Exit 2, one line that says what is wrong, and no request."""
    ran = run_here(capsys, "extract", *words)
    assert (ran.code, ran.out, len(garden.requests)) == (2, "", 0)
    assert told in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("words", [["none.json", "garden.md"], ["plant.json", "none.md"]])
def test_files_that_are_not_there(garden: ScriptedServer, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Exit 2, and no request."""
    ran = run_here(capsys, "extract", *words)
    assert (ran.code, ran.out, len(garden.requests)) == (2, "", 0)
    assert "there is no such file" in ran.err


def test_dry_run(garden: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The sections and how many requests they are; what is remembered is none."""
    garden.queue(OAK)
    run_here(capsys, "extract", "plant.json", "garden.md", "--select", "oak")
    ran = run_here(capsys, "extract", "plant.json", "garden.md", "--dry-run", "-o", "out.csv")
    first, second, total = ran.out.splitlines()
    assert first == "garden.md:3: Trees > Oak (18 characters; remembered)"
    assert second == "garden.md:10: Trees > Box (20 characters)"
    assert total.startswith("2 sections, 1 request to OpenAICompatible/test, about ")
    assert (ran.code, len(garden.requests), Path("out.csv").exists()) == (0, 1, False)


def test_ctrl_c_keeps_what_arrived(garden: ScriptedServer, folder: Path, state_folder: Path) -> None:
    """No table is written; the next run asks only what had not been answered."""
    garden.answer = lambda request: hang() if "30 metres" in request.last else Action(BOX)
    process = start("extract", "plant.json", "garden.md", "-o", "out.csv")
    garden.wait_for(2)
    wait_until(lambda: list(state_folder.glob("journal/*/*.json")))
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert (ran.code, (folder / "out.csv").exists()) == (130, False)
    assert "interrupted; run it again: replies that arrived are kept\n" in ran.err
    garden.answer = by_text
    assert lmm("extract", "plant.json", "garden.md", "-o", "out.csv").code == 0
    assert len(garden.requests) == 3


def test_values_that_the_section_does_not_have_are_unfound(
    garden: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the others has its line; a number counts as written, rounded or converted."""
    garden.answer = lambda request: '{"name": "hornbeam", "height": 25}'
    garden_rows = rows(run_here(capsys, "extract", "plant.json", "garden.md"))
    assert [(row["lines"], row["unfound"]) for row in garden_rows] == [({}, ["name", "height"])] * 2  # type: ignore[index]
