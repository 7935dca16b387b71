"""`lmm refine`, with an agent, a judge and a proposer behind HTTP that see only what they are sent."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from edge.support import Ran, finish, lmm, run_here, start
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

from chatmd.refine.cases import Case
from chatmd.refine.search import split

Refine = Callable[..., Ran]
CITIES = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima", "Germany": "Berlin", "Norway": "Oslo"}
AGENT = """<config model="OpenAICompatible/test"/>

<system>
You answer questions about capitals.
</system>
<!-- keep me -->

<user>

</user>
"""
GOOD, BAD = "You answer questions about capitals. Reply with the name only.", "You answer in verse."


class World:
    """Everybody who is asked. The agent answers rightly only if its instructions say how."""

    def __init__(self) -> None:
        self.proposals = [BAD, GOOD]
        self.asked = {"agent": 0, "judge": 0, "proposer": 0}
        self.proposer_saw: list[str] = []

    def __call__(self, request: Recorded) -> Action | str:
        if "You improve the instructions" in request.last:
            self.asked["proposer"] += 1
            self.proposer_saw.append(request.last)
            # Who proposes knows what to mend only from the failures.
            texts = self.proposals if "The capital is" in request.last else [BAD]
            return "".join(f"<version>\n{text}\n</version>\n" for text in texts)
        if "Judge the reply" in request.last:
            self.asked["judge"] += 1
            reply = re.findall(r"<reply>\n(.*?)\n</reply>", request.last, re.DOTALL)[0]
            score = 9 if " " not in reply else 2
            return f'```json\n{{"reason": "words: {len(reply.split())}", "score": {score}}}\n```'
        self.asked["agent"] += 1
        city = next(city for country, city in CITIES.items() if country in request.last)
        return city if "name only" in request.system else f"The capital is {city}."


@pytest.fixture
def world(server: ScriptedServer, folder: Path) -> World:
    """The scripted world, an agent, and six cases."""
    server.answer = world = World()
    (folder / "agent.chatmd").write_text(AGENT)
    rows: list[dict[str, object]] = [
        {"name": country.lower(), "input": f"Capital of {country}?", "equals": city} for country, city in CITIES.items()
    ]
    rows[3] |= {"judge": "The reply is one word."}
    write_cases(folder, rows)
    return world


def write_cases(folder: Path, rows: list[dict[str, object]]) -> None:
    (folder / "cases.json").write_text(json.dumps(rows))


@pytest.fixture
def refine(capsys: pytest.CaptureFixture[str]) -> Refine:
    """`lmm refine agent.chatmd --cases cases.json`, in this process."""
    return lambda *words: run_here(capsys, "refine", "agent.chatmd", "--cases", "cases.json", *words)


def test_a_better_version_is_found_and_applied(world: World, refine: Refine, folder: Path) -> None:
    """The proposer reads why cases failed; the winner is a diff, and --apply changes nothing but the instructions."""
    ran = refine("--rounds", "1")
    assert ran.code == 0, ran.err
    assert "+You answer questions about capitals. Reply with the name only." in ran.out
    assert re.search(r"^as it is +0/4 +0/2 ", ran.out, re.MULTILINE)
    assert re.search(r"^1\.2 \* +4/4 +2/2 ", ran.out, re.MULTILINE)
    (saw,) = world.proposer_saw
    held = [name for name in map(str.lower, CITIES) if f"{name} (held out)" in ran.out]
    assert len(held) == 2
    assert not any(f"Capital of {name.capitalize()}?" in saw for name in held)  # it cannot learn them by heart
    assert "must be '" in saw
    assert (folder / "agent.chatmd").read_text() == AGENT
    asked = dict(world.asked)
    applied = refine("--rounds", "1", "--apply")
    assert applied.code == 0
    assert (folder / "agent.chatmd").read_text() == AGENT.replace(
        "about capitals.", "about capitals. Reply with the name only."
    )
    assert world.asked == asked


def test_the_same_is_asked_once(world: World, refine: Refine) -> None:
    """The same command gives the same results, and pays nothing."""
    first = refine()
    asked = dict(world.asked)
    assert refine().out == first.out
    assert world.asked == asked
    assert re.search(r"^1\.2 \* +4/4 +2/2 ", first.out, re.MULTILINE)
    refine("--check", "--again")
    assert world.asked == asked | {"agent": asked["agent"] + 6, "judge": asked["judge"] + 1}


def test_only_the_best_on_some_failures_is_measured_on_all(world: World, refine: Refine, folder: Path) -> None:
    """A version that mends none of four cases that failed costs four runs, however many cases there are."""
    write_cases(folder, [{"input": f"{n}: Capital of Peru?", "equals": "Lima"} for n in range(10)])
    ran = refine("--rounds", "1")
    assert re.search(r"^1\.1 +0/4 \(4 of 7 measured\) +– ", ran.out, re.MULTILINE)
    assert re.search(r"^1\.2 \* +7/7 +3/3 ", ran.out, re.MULTILINE)
    assert world.asked["agent"] == 10 + 4 + 10


def test_a_file_that_was_changed_is_not_replaced(
    world: World, server: ScriptedServer, refine: Refine, folder: Path
) -> None:
    """The author saves while it is measured; what was found is shown all the same."""

    def saves(request: Recorded) -> Action | str:
        (folder / "agent.chatmd").write_text(AGENT + "<!-- mine -->")
        return world(request)

    server.answer = saves
    ran = refine("--rounds", "1", "--apply")
    assert ran.code == 1
    assert "has changed since it was measured" in ran.err
    assert "+You answer questions about capitals. Reply with the name only." in ran.out
    assert "written" not in ran.out
    assert (folder / "agent.chatmd").read_text().endswith("<!-- mine -->")


def test_what_fits_only_the_cases_is_not_taken(world: World, refine: Refine, folder: Path) -> None:
    """A version that is better where the proposals were made from, and worse on what was held out."""
    _, held = split([Case(country, "?", ()) for country in CITIES])
    rows: list[dict[str, object]] = [
        {"name": country, "input": f"Capital of {country}?",
         **({"contains": f"is {city}"} if country in held else {"regex": f"^{city}$"})}
        for country, city in CITIES.items()
    ]  # fmt: skip
    write_cases(folder, rows)
    ran = refine("--rounds", "1", "--apply")
    assert ran.code == 0
    assert "it fits these cases, not the task" in ran.out
    assert (folder / "agent.chatmd").read_text() == AGENT


def test_no_improvement_is_no_failure(world: World, refine: Refine, folder: Path) -> None:
    world.proposals = [BAD]
    ran = refine("--rounds", "2", "--apply")
    assert ran.code == 0
    assert "no version does better" in ran.out
    assert "nothing to write" in ran.out
    assert world.asked["proposer"] == 2
    assert (folder / "agent.chatmd").read_text() == AGENT


def test_measuring_is_a_test(world: World, refine: Refine, folder: Path) -> None:
    """--check proposes nothing, writes nothing, and fails if a case does."""
    ran = refine("--check")
    assert ran.code == 1
    assert "must be 'Paris'; it is: The capital is Paris." in ran.out
    assert "judged 2 of 10, 7 are needed: words: 4" in ran.out
    (folder / "agent.chatmd").write_text(AGENT.replace("capitals.", "capitals: the name only."))
    assert refine("--check").code == 0
    assert refine("--check", "--apply").code == 2
    assert world.asked["proposer"] == 0
    (folder / "rules.chatmd").write_text("<system>The name only.</system>")  # where nothing could be refined
    (folder / "agent.chatmd").write_text('<config model="OpenAICompatible/test"/><import src="rules.chatmd"/>')
    assert re.search(r"as it is +[56]/6", refine("--check").out)


def test_the_budget_holds(world: World, refine: Refine) -> None:
    """Over everything, even though requests go out side by side; with a larger one it goes on."""

    def tokens(ran: Ran) -> int:
        (found,) = re.findall(r"([\d,]+) tokens in, ([\d,]+) out", ran.out)
        return sum(int(number.replace(",", "")) for number in found)

    ran = refine("--budget", "150")
    assert ran.code == 0
    assert "the budget of 150 tokens" in ran.out
    assert 100 < tokens(ran) <= 150
    assert sum(world.asked.values()) == tokens(ran) // 18
    ran = refine("--budget", "100k")
    assert "1.2 *" in ran.out
    assert sum(world.asked.values()) <= tokens(ran) // 18  # nothing twice


def test_an_error_leaves_what_was_found(world: World, refine: Refine, server: ScriptedServer) -> None:
    """The table so far, exit code 1; the same command goes on."""
    count = 0

    def breaks(request: Recorded) -> Action | str:
        nonlocal count
        count += 1
        return fail(401) if count > 9 else world(request)

    server.answer = breaks
    ran = refine()
    assert ran.code == 1
    assert "as it is" in ran.out
    assert "to continue: the same command" in ran.out
    server.answer = world
    assert refine().code == 0


def test_ctrl_c_keeps_what_arrived(world: World, folder: Path, server: ScriptedServer) -> None:
    """What was best so far is told, and nothing is paid twice afterwards."""

    def slow(request: Recorded) -> Action:
        answer = world(request)
        assert isinstance(answer, str)
        return Action(answer, delay=0.05 if len(server.requests) < 9 else 30.0)

    server.answer = slow
    words = ("refine", "agent.chatmd", "--cases", "cases.json", "--rounds", "1")
    process = start(*words)
    server.wait_for(10)
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130
    assert "stopped: interrupted" in ran.out
    assert re.search(r"^as it is +0/4 +0/2 ", ran.out, re.MULTILINE)
    server.answer = world
    ran = lmm(*words)
    assert ran.code == 0, ran.err
    assert "1.2 *" in ran.out
    bodies = [str(request.body) for request in server.requests]
    assert len(bodies) - len(set(bodies)) <= 8  # those that were under way
    assert bodies.count(bodies[0]) == 1


def test_without_a_language_model_it_says_so(folder: Path, refine: Refine) -> None:
    """Before anything is asked."""
    (folder / "agent.chatmd").write_text(AGENT.replace(' model="OpenAICompatible/test"', ""))
    write_cases(folder, [{"input": "Capital of France?", "equals": "Paris"}])
    ran = refine()
    assert ran.code == 1
    assert "Builtin/extractive cannot write prompts" in ran.err
    assert not (folder / ".chatmd").exists()
    assert "case 1" in refine("--check").out  # measuring needs no more than the agent's own model


def test_tools_are_run_in_copies(world: World, server: ScriptedServer, refine: Refine, folder: Path) -> None:
    """Calls are made and checked, and the folder is as it was; without consent, nothing is run."""
    tool = f'<tool name="note" description="Take a note." command="{sys.executable} note.py"/>'
    program = "import sys\nwith open('notes.txt', 'a+') as f:\n    f.write('x')\n    f.seek(0)\n    print(f.read())\n"
    (folder / "note.py").write_text(program)
    (folder / "agent.chatmd").write_text(tool + AGENT)

    def answer(request: Recorded) -> Action | str:
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return f"noted {last['content'].count('x')}"
        return Action(calls=(("c1", "note", '{"arguments": []}'),)) if "Italy" in str(last["content"]) else "no"

    server.answer = answer
    rows: list[dict[str, object]] = [
        {"input": "Italy?", "calls": "note", "not_calls": "other", "regex": "noted"},
        {"input": "France?", "not_calls": "note"},
    ]
    write_cases(folder, rows)
    refused = refine("--check")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert not server.requests
    ran = refine("--check", "--yes")
    assert ran.code == 0, ran.out + ran.err
    assert not (folder / "notes.txt").exists()


def test_what_comes_of_an_input_alone_is_a_result(world: World, refine: Refine, server: ScriptedServer) -> None:
    """A refusal or an empty reply fails the case, and is not judged; the others are measured."""

    def answer(request: Recorded) -> Action | str:
        if "Italy" in request.last:
            return fail(400, "not this one")
        return Action("") if "France" in request.last else world(request)

    server.answer = answer
    ran = refine("--check")
    assert ran.code == 1
    assert re.findall("italy: (.*not this one)", ran.out) == re.findall("italy: (.*)", ran.out)
    assert "france: the run ended without an answer: " in ran.out
    assert "must be 'Rome'" not in ran.out
    assert "norway: must be 'Oslo'; it is: The capital is Oslo." in ran.out


def test_schemas_beside_the_cases_and_bad_cases(world: World, refine: Refine, folder: Path) -> None:
    (folder / "schema.json").write_text('{"type": "object"}')
    write_cases(folder, [{"input": "Capital of Peru?", "json_schema": "schema.json"}])
    assert "must contain JSON" in refine("--check").out
    write_cases(folder, [{"input": "Capital of Peru?", "contain": "Lima"}])
    ran = refine("--check")
    assert ran.code == 1
    assert "cases.json:1: unknown key 'contain' (did you mean 'contains'?)" in ran.err
