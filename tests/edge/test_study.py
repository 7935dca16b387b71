"""`lmm toc`, `plan`, `cards` and `exercises` as commands; cards that a model on a real server writes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import finish, lmm, run_here, start, wait_until
from fakes.openai_server import Action, ScriptedServer, hang

from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm_education import study

Capture = pytest.CaptureFixture[str]
WORDS = "word " * 50
COURSE = {
    "course/a.md": f"---\ntitle: Leaves\ndocid: leaves\n---\n# Colour\n\nGreen. {WORDS}\n\n## Detail\n\nShort.\n",
    "course/b.md": f"---\ndocid: trees\nprerequisites: leaves\n---\n# Autumn\n\nYellow. {WORDS}\n\n"
    "---\ntype: exercise\nsolution: Cork.\n---\nWhy do leaves fall?\n",
    "course/agent.md": '<config model="x"/>\n<user>Hello</user>\n',
}
CARDS = '{"cards": [{"question": "Which colour?", "answer": "Green."}]}'


@pytest.fixture
def course(folder: Path) -> Path:
    """A folder with two lectures, and a file that is none."""
    (folder / "course").mkdir()
    for name, text in COURSE.items():
        (folder / name).write_text(text)
    return folder / "course"


@pytest.fixture
def teacher(course: Path, server: ScriptedServer) -> ScriptedServer:
    """A server that writes a card about what it is shown."""
    write_config(course.parent, server)
    server.answer = lambda request: Action(CARDS.replace("Green", "Green" if "Green" in request.last else "Yellow"))
    return server


def test_commands_print_what_people_and_programs_read(course: Path, capsys: Capture) -> None:
    """The same documents, other files told of."""
    toc = run_here(capsys, "toc", "course")
    assert toc.out.startswith("course/a.md: Leaves\n    5  Colour\n    9    Detail\n")
    assert toc.err == "course/agent.md: left out: a prompt or transcript of an agent\n"
    assert [d["title"] for d in json.loads(run_here(capsys, "toc", "course", "--json").out)] == ["Leaves", "Autumn"]
    plan = json.loads(run_here(capsys, "plan", "course", "--json", "--words-per-minute", "10").out)
    assert (plan["words_per_minute"], plan["minutes"]) == (10, 10)
    assert plan["steps"][2]["requires"] == ["Leaves"]
    (exercise,) = json.loads(run_here(capsys, "exercises", "course", "--solutions", "--json").out)
    assert (exercise["text"], exercise["solution"]) == ("Why do leaves fall?", "Cork.")


def test_settings_hold(course: Path, capsys: Capture) -> None:
    """[study] in the course's config.toml."""
    (course / "config.toml").write_text('[study]\nwords_per_minute = 5\nexercises = ["Aufgabe"]\nkeep = ["exercise"]\n')
    plan = json.loads(run_here(capsys, "plan", "course/b.md", "--json").out)
    assert (plan["words_per_minute"], plan["steps"][0]["material"]) == (5, {})
    none = run_here(capsys, "exercises", "course/b.md")
    assert (none.out, none.err) == ("", "no text is of type 'Aufgabe', or under a heading of that name\n")


@pytest.mark.parametrize("command", ["toc", "plan", "cards", "exercises"])
def test_where_nothing_can_be_read_only_that_is_said(folder: Path, capsys: Capture, command: str) -> None:
    """No empty plan, and no advice on questions."""
    ran = run_here(capsys, command, "none.md")
    assert (ran.code, ran.out.strip()) == (2, "")
    assert ran.err == "lmm: none.md: there is no such file or folder (check the path)\n"


def test_one_file_that_cannot_be_read_does_not_stop_the_others(course: Path, capsys: Capture) -> None:
    """Exit 2 for a path that is not there, with what there is."""
    (course / "c.md").write_bytes(b"# C \xff\n")
    ran = run_here(capsys, "toc", "course", "none.md")
    assert ran.code == 2
    assert "course/b.md: Autumn" in ran.out
    assert "c.md:1:5: byte 0xff is not UTF-8" in ran.err
    assert "none.md: there is no such file" in ran.err


def test_a_model_writes_cards(course: Path, teacher: ScriptedServer, capsys: Capture) -> None:
    """For sections with enough text; the files stay as they are; what it said once is not paid again."""
    ran = run_here(capsys, "cards", "course", "--model", "OpenAICompatible/test")
    assert ran.code == 0, ran.err
    assert ran.out == "# Leaves\n\n## Which colour?\n\nGreen.\n\n# Autumn\n\n## Which colour?\n\nYellow.\n"
    assert len(teacher.requests) == 2
    assert "Number of cards: up to 1;" in teacher.requests[0].last
    assert 'from="Colour"' in teacher.requests[0].last
    assert run_here(capsys, "cards", "course", "--model", "OpenAICompatible/test").out == ran.out
    assert len(teacher.requests) == 2
    run_here(capsys, "cards", "course", "--model", "OpenAICompatible/test", "--again")
    assert len(teacher.requests) == 4
    assert {path.name: path.read_text() for path in course.iterdir()} == {
        name.partition("/")[2]: text for name, text in COURSE.items()
    }


def test_cards_that_are_written_are_the_authors_to_correct(
    course: Path, teacher: ScriptedServer, capsys: Capture
) -> None:
    """They stand before the heading; corrected, they stay, whatever becomes of the text."""
    ran = run_here(capsys, "cards", "course/a.md", "--model", "OpenAICompatible/test", "--write", "-o", "c.csv")
    assert ran.code == 0, ran.err
    assert ran.out == "c.csv: 1 card\n"
    text = (course / "a.md").read_text()
    (block,) = [b for b in parse_markdown_text(text)[1:] if isinstance(b, MetadataBlock)]
    assert block.values()["~cards_"] == [{"question": "Which colour?", "answer": "Green."}]
    corrected = text.replace("answer: Green.", "answer: Red.").replace("Green. word", "Other. word")
    (course / "a.md").write_text(corrected)
    again = run_here(capsys, "cards", "course/a.md", "--model", "OpenAICompatible/test")
    assert "Red." in again.out
    assert len(teacher.requests) == 1


def test_a_reply_without_cards_is_asked_for_once_more(course: Path, teacher: ScriptedServer, capsys: Capture) -> None:
    """Then the section is reported, and the others have theirs."""
    teacher.answer = lambda request: Action("No." if "Green" in str(request.messages) else CARDS)
    ran = run_here(capsys, "cards", "course", "--model", "OpenAICompatible/test")
    assert ran.code == 1
    assert "course/a.md:5: no valid reply in 2" in ran.err
    assert "# Autumn" in ran.out
    assert len(teacher.requests) == 3
    assert any("This reply is not valid" in request.last for request in teacher.requests)


def test_a_prompt_of_the_projects_own(course: Path, teacher: ScriptedServer, capsys: Capture) -> None:
    """Cards too are asked for in the words of [prompts] folder."""
    (course.parent / "prompts").mkdir()
    (course.parent / "prompts" / "cards.md").write_text("Schreib {count} Karten auf {language}.")
    with (course.parent / "config.toml").open("a") as file:
        file.write('[prompts]\nfolder = "prompts"\n')
    assert run_here(capsys, "trust", "--yes").code == 0
    run_here(capsys, "cards", "course/a.md", "--model", "OpenAICompatible/test")
    assert "Schreib 1 Karten auf English." in teacher.requests[0].last


@pytest.mark.parametrize("name", ["Builtin/extractive", "builtin/extractive", "minor", "Major"])
def test_the_built_in_model_says_that_it_cannot(course: Path, capsys: Capture, name: str) -> None:
    """Once, with what else makes cards; and writes nothing in place of them. Also where a tier is named that has it."""
    (course / "config.toml").write_text("")
    ran = run_here(capsys, "cards", "course", "--config", "course/config.toml", "--model", name)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    tier = "" if "/" in name else f" ({name} in the settings)"
    assert (
        f"Builtin/extractive{tier} cannot write cards (name a language model with --model, or write 'cards:'" in ran.err
    )


def test_ctrl_c_keeps_what_arrived(course: Path, teacher: ScriptedServer, state_folder: Path) -> None:
    """The next run asks only what had not been answered."""
    teacher.answer = lambda request: hang() if "Yellow" in request.last else Action(CARDS)
    process = start("cards", "course", "--model", "OpenAICompatible/test", "-o", "c.csv")
    teacher.wait_for(2)
    wait_until(lambda: list(state_folder.glob("journal/*/*.json")))
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    assert not Path("c.csv").exists()
    teacher.answer = lambda request: Action(CARDS)
    assert lmm("cards", "course", "--model", "OpenAICompatible/test").code == 0
    assert len(teacher.requests) == 3


@pytest.mark.parametrize("tier", ["minor", "major"])
def test_a_reply_that_is_cut_off_names_the_table_of_its_tier(
    course: Path, teacher: ScriptedServer, capsys: Capture, tier: str
) -> None:
    """It may be another one than that which writes cards by default."""
    teacher.queue(Action('{"cards": [{', finish="length"))
    ran = run_here(capsys, "cards", "course/a.md", "--model", tier)
    assert (ran.code, len(teacher.requests)) == (1, 1)
    assert f"set a larger max_tokens under [{tier}] in config.toml" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--write"], 2, "--write and --again need --model"),
        (["-o", "c.doc"], 2, "cards cannot be written as '.doc'"),
        ([], 0, "no questions in the metadata"),
        (["-o", "c.csv"], 1, "no questions in the metadata"),
    ],
)
def test_what_cannot_be_done_is_told(course: Path, capsys: Capture, words: list[str], code: int, told: str) -> None:
    """Before anything is asked, or written."""
    ran = run_here(capsys, "cards", "course", *words)
    assert (ran.code, ran.out, [*course.parent.glob("c.*")]) == (code, "", [])
    assert told in ran.err


def test_a_file_without_cards_keeps_what_was_there(course: Path, capsys: Capture) -> None:
    """Which an earlier run wrote, perhaps; that nothing is written is said."""
    (course.parent / "c.csv").write_text("before")
    ran = run_here(capsys, "cards", "course", "-o", "c.csv", "--json")
    assert (ran.code, json.loads(ran.out), (course.parent / "c.csv").read_text()) == (1, [], "before")
    assert "c.csv was not written: there are no cards" in ran.err


def test_in_python(course: Path, teacher: ScriptedServer) -> None:
    """The same by functions."""
    report = study.write_cards(["course"], model="OpenAICompatible/test")
    assert [card.answer for card in study.study_cards(report.reading.documents)] == ["Green.", "Yellow."]
    assert not report.failures


def test_plan_and_exercises_count_alike(folder: Path, capsys: Capture) -> None:
    """A list under Exercises is as many as it has items, also below the steps of the plan."""
    listed = "### Exercises\n\n1. What?\n2. Why?\n3. How?\n\n### Solutions\n\n1. a\n2. b\n3. c\n"
    marked = "---\ntype: exercise\n---\nWho?\n\n---\ntype: summary\n---\nAll.\n"
    (folder / "book.md").write_text(f"# Book\n\nText.\n\n## Part\n\nText.\n\n{listed}\n## Two\n\nText.\n\n{marked}")
    plan = json.loads(run_here(capsys, "plan", "book.md", "--json").out)
    assert [step["material"] for step in plan["steps"]] == [{}, {"exercise": 3}, {"summary": 1, "exercise": 1}]
    assert len(json.loads(run_here(capsys, "exercises", "book.md", "--json").out)) == 4


def test_why_there_are_no_exercises_is_said_first(course: Path, capsys: Capture) -> None:
    """And only then that nothing was written."""
    (course.parent / "none.md").write_text("# A\n\nText.\n")
    ran = run_here(capsys, "exercises", "none.md", "-o", "quiz.xml")
    assert ran.err.splitlines() == [
        "no text is of type 'exercise', or under a heading of that name",
        "quiz.xml was not written",
    ]
