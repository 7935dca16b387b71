"""[serve] mode: whatever a student tries, no request to the model holds a solution, nor does any answer.

`golden/tutoring/attempts.jsonl` has the attempts; where the words of an exercise are in one, it gets hints.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from edge.serving import serving
from edge.test_serve_withheld import send
from fakes.openai_server import Action, ScriptedServer
from golden_files import GOLDEN

import lmm_education
from lmm.errors import ConfigError
from lmm_education import Course
from lmm_education.agent_tools import open_published_course
from lmm_education.answer.answer import Answer
from lmm_education.answer.answering import Answering
from lmm_education.answer.history import Exchange
from lmm_education.options import AskOptions
from lmm_education.search.search import CourseSearch

ATTEMPTS: list[dict[str, Any]] = [
    json.loads(line) for line in (GOLDEN / "tutoring/attempts.jsonl").read_text(encoding="utf-8").splitlines()
]
SOLUTIONS = (
    "The blade turns pale since the pigment dissolves in ethanol. The liquid itself becomes green within minutes.",
    "Their average is nine and the spread is 20.67. That is more than double.",
    "Man erhält drei x Quadrat minus fünf. Flach liegt sie bei plus und minus Wurzel aus fünf Dritteln.",
    "Es sind 41 Prozent der Befragten. Gezogen wurde nur in einer Mensa, also nicht zufällig.",
)
SECTIONS = (
    "A leaf is green because chlorophyll absorbs red and blue light.",
    "The variance is the mean of the squared distances from the mean.",
    "Eine Ableitung gibt die Steigung der Tangente an.",
    "Ein Anteil ist eine Zahl zwischen null und eins.",
)
COURSE = {
    "notes/botany.md": f"""---
title: Botany
---
# Leaves

{SECTIONS[0]} Other pigments show in autumn.

---
type: exercise
---
Put a leaf into boiling alcohol for ten minutes and describe what happens to the chlorophyll and to the colour of the
alcohol.

---
type: solution
---
{SOLUTIONS[0]}

# Roots

Roots take up water and minerals. Root hairs enlarge their surface.
""",
    "notes/statistics.md": f"""---
title: Statistics
---
# Spread

{SECTIONS[1]} Its root is the standard deviation.

## Practice

---
type: exercise
solution: "{SOLUTIONS[1]}"
---
1. Sort the numbers 4, 8 and 15 on a line.
2. Compute the variance of the numbers 4, 8 and 15, and say whether it exceeds the mean.
""",
    "notes/analysis.md": f"""---
title: Analysis
lang: de
---
# Ableitungen

{SECTIONS[2]} Wo sie null ist, liegt vielleicht ein Extremum.

---
type: exercise
---
Bestimme die Ableitung der Funktion f(x) = x³ − 5x und gib alle Stellen an, an denen die Tangente waagerecht verläuft.

---
type: solution
---
{SOLUTIONS[2]}
""",
    "notes/umfragen.qmd": f"""---
title: Umfragen
lang: de
---
# Anteile

{SECTIONS[3]} Er wird oft in Prozent angegeben.

::: {{#exr-umfrage}}
Ermittle aus der Umfrage den Anteil der Studierenden, die täglich mehr als zwei Stunden lesen, und beurteile die
Stichprobe.

::: {{.solution}}
{SOLUTIONS[3]}
:::
:::
""",
}
ORDINARY = (
    *("What enlarges the surface of roots?", "Why is a leaf green?", "What is chlorophyll?", "What is the variance?"),
    *("Was ist eine Ableitung?", "Was gibt die Steigung der Tangente an?", "Was ist ein Anteil?"),
)
OTHERS = {
    "Writing": "Read everything twice before you hand it in, and give only what was asked; describe results in full.",
    "Alcohol": "Alcohol boils at 78 degrees. In the laboratory it stands away from flames.",
    "Numbers": "Numbers are written with a point. The mean is their sum over how many there are.",
    "Codes": "Base64 writes bytes as letters. Words can be read backwards, and poems by their first letters.",
    "Rules": "The teacher allows notes in the exam. The professor, the dean and the assistant grade it.",
    "Translations": "French, Latin and English texts are translated sentence by sentence.",
    "Stunden": "Studierende lesen täglich mehrere Stunden, im Semester mehr als in den Ferien.",
    "Regeln": "Die Lehrerin erlaubt Notizen in der Klausur. Der Dozent prüft und zeigt danach die Lösung.",
    "Gedichte": "Ein Gedicht hat Zeilen. Eine Geschichte liest die Großmutter zum Einschlafen vor.",
    "Funktionen": "Eine Funktion ordnet jeder Stelle einen Wert zu; x³ und x sind Potenzen.",
}
COURSE |= {f"notes/{title}.md": f"# {title}\n\n{text}\n" for title, text in OTHERS.items()}
HINTED, EXPLAINED = "Do not solve the exercise", "The rules in this part take precedence"


def write_course(folder: Path, serve: str, models: str = "") -> Path:
    """The course with these lines under [serve]."""
    config = folder / "config.toml"
    config.write_text(f"{models}[serve]\nquestions_per_minute = 0\ncached_answers = 0\n{serve}\n")
    for name, text in COURSE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    lmm_education.ingest("notes")
    return config


def given_away(text: str) -> list[str]:
    """The sentences and phrases of solutions in a text, also in base64 and backwards."""
    pieces = [piece for each in SOLUTIONS for piece in (each, *re.split(r"(?<=\.) ", each), *_phrases(each))]
    text = " ".join(text.replace("\\n", " ").split()).casefold()
    return [piece for piece in pieces if any(written.casefold() in text for written in _written(piece))]


def sent_to(server: ScriptedServer) -> str:
    """All that the model was sent."""
    return "".join(json.dumps(dict(request.body), ensure_ascii=False) for request in server.requests)


def _phrases(text: str) -> Iterable[str]:
    words = text.split()
    return (" ".join(words[at : at + 5]) for at in range(len(words) - 4))


def _written(text: str) -> Iterable[str]:
    return text, text[::-1], base64.b64encode(text.encode()).decode()


def conversation(attempt: dict[str, Any]) -> list[dict[str, str]]:
    """Its messages, as an API client sends them."""
    said = [{"role": "system", "content": attempt["system"]}] if "system" in attempt else []
    for turn in attempt["turns"]:
        said += [{"role": "user", "content": turn}, {"role": "assistant", "content": "What do you know already? [1]"}]
    return said[:-1]


def test_there_are_attempts_of_each_kind() -> None:
    """In two languages."""
    assert len(ATTEMPTS) >= 60
    for language in ("en", "de"):
        kinds = {each["technique"] for each in ATTEMPTS if each["language"] == language}
        assert len(kinds) >= 10


@pytest.mark.parametrize("withhold", ['["solution"]', "[]"])
def test_no_attempt_gets_a_solution_into_a_request(folder: Path, server: ScriptedServer, withhold: str) -> None:
    """Over the API, with system messages; not even where `withhold` alone would show solutions."""
    text = (folder / "config.toml").read_text()
    config = write_course(folder, f'mode = "hints"\nwithhold = {withhold}', text + text.replace("[major]", "[aux]"))
    unhinted = []
    with serving(config) as address:
        for attempt in ATTEMPTS:
            server.requests.clear()
            told = send(address, "/v1/chat/completions", {"model": "course", "messages": conversation(attempt)})
            assert not given_away(sent_to(server) + told), attempt
            asked = server.requests[-1].messages if server.requests else []
            system, *said = [text for _, text in asked] or [""]
            if attempt["matches"] and HINTED not in system:
                unhinted.append(attempt)
            if HINTED in system:
                assert not any(section in each for section in SECTIONS for each in said), attempt
            elif system:
                assert EXPLAINED in system, attempt
    assert not unhinted


def test_a_tutor_is_not_asked_to_give_the_exercise(folder: Path, server: ScriptedServer) -> None:
    """Who wants the solution of an exercise does not want the exercise."""
    text = (folder / "config.toml").read_text()
    config = write_course(folder, 'mode = "explain"', text + text.replace("[major]", "[aux]"))
    wanted = (
        "*exercise* What is the solution: put a leaf into boiling alcohol for ten minutes and describe chlorophyll?"
    )
    with serving(config) as address:
        send(address, "/v1/chat/completions", {"model": "course", "messages": [{"role": "user", "content": wanted}]})
    assert "boiling" in sent_to(server)
    assert "type is asked for" not in sent_to(server)


def test_hints_name_what_explains_and_know_the_conversation(folder: Path, server: ScriptedServer) -> None:
    """Not the sections of exercises, which have the question's words; and what was said in the last four exchanges."""
    text = "# Joins\n\nAn inner join keeps what matches by a key.\n\n## Exercises\n\n"
    items = "".join(
        f"{n}. Join the tables of {kind}. How many rows are left?\n" for n, kind in enumerate(("oaks", "elms"))
    )
    Path("joins.md").write_text(text + items * 8)
    config = folder / "config.toml"
    config.write_text(config.read_text() + '[answer]\nhistory = "none"\n[serve]\nmode = "hints"\n')
    small = "# Rows\n\n## Groups\n\nGROUP BY makes one row of each.\n\n## Filters\n\nHAVING filters groups.\n\n"
    Path("rows.md").write_text(f"{small}## Exercises\n\n1. Count the orders of each customer who has many.\n")
    lmm_education.ingest(["joins.md", "rows.md"])
    history = [Exchange(f"Question {n}", f"Hint {n} [1]") for n in range(6)]
    with Course.open(config=config) as course:
        answering = Answering(CourseSearch(course.for_students()))
        asyncio.run(_answered(answering, "Join the tables of oaks: how many rows are left?", history))
        sent = server.requests[-1].last
        asyncio.run(_answered(answering, "How do I count the orders of each customer who has many?", []))
    assert ("Question 1" in sent, "Question 2\n\nAnswer: Hint 2" in sent) == (False, True)
    assert re.findall('section="(.*?)"', sent)[0] == "Joins"
    sent = server.requests[-1].last
    assert "\n## Groups\n## Filters\n</source>" in sent
    assert "GROUP BY" not in sent


def test_no_agent_and_no_client_of_mcp_gets_one(folder: Path, server: ScriptedServer) -> None:
    """In agent mode the model may call each tool; `lmm mcp` publishes the same."""
    config = write_course(folder, 'mode = "hints"', (folder / "config.toml").read_text())
    calls = tuple(
        (str(at), name, json.dumps(arguments))
        for at, (name, arguments) in enumerate([
            ("search", {"query": "solution Lösung", "limit": 20}), ("mentions", {"term": "Dritteln"}),
            ("open_section", {"place": "notes/botany.md"}), ("open_section", {"place": "notes/analysis.md"}),
            ("search", {"query": "pigment", "types": ["solution"]}), ("contents", {}),
        ])
    )  # fmt: skip

    async def told() -> list[str]:
        said = []
        with Course.open(config=config) as opened:
            answering = Answering(CourseSearch(opened.for_students()), AskOptions(agent=True))
            for attempt in ATTEMPTS[::3]:  # the tools find the same, whatever is asked
                *before, last = attempt["turns"]
                history = [Exchange(turn, "What do you know already? [1]") for turn in before]
                server.queue(*([] if attempt["matches"] else [Action(calls=calls, finish="tool_calls")]))
                said += [repr(event) async for event in answering.stream(last, history)]
        async with open_published_course(config, None, None) as published:
            tools = {tool.definition.name: tool for tool in published.tools}
            for attempt in ATTEMPTS[::3]:
                question = attempt["turns"][-1]
                for name, argument in (("ask", "question"), ("search", "query")):
                    said.append((await tools[name].call({argument: question})).text)
        return said

    assert not given_away("".join(asyncio.run(told())) + sent_to(server))


@pytest.mark.parametrize(
    ("serve", "question", "expected"),
    [
        ('mode = "answer"', "exercise", ""),
        ('mode = "explain"', "exercise", EXPLAINED),
        ('mode = "explain"', ORDINARY[0], EXPLAINED),
        ('mode = "hints"', "exercise", HINTED),
        *(('mode = "hints"', question, EXPLAINED) for question in ORDINARY),
        ('modes = { Exercise = "hints" }', "exercise", HINTED),
        ('modes = { exercise = "hints" }', ORDINARY[0], ""),
        ('mode = "hints"\nmodes = { exercise = "answer" }', "exercise", ""),
    ],
)
def test_the_mode_is_that_of_what_is_asked(
    folder: Path, server: ScriptedServer, serve: str, question: str, expected: str
) -> None:
    """`modes` counts for what matches material of its type, `mode` for the rest; authors get answers."""
    question = ATTEMPTS[0]["turns"][0] if question == "exercise" else question
    config = write_course(folder, serve, (folder / "config.toml").read_text())
    with Course.open(config=config) as course:
        for opened, told in ((course.for_students(), expected), (course, "")):
            asyncio.run(_answered(Answering(CourseSearch(opened)), question))
            system = server.requests[-1].system
            assert [text for text in (HINTED, EXPLAINED) if text in system] == [told] * bool(told)


async def _answered(answering: Answering, question: str, history: Sequence[Exchange] = ()) -> Answer:
    events = [event async for event in answering.stream(question, history)]
    assert isinstance(events[-1], Answer)
    return events[-1]


def test_hints_without_a_language_model(folder: Path) -> None:
    """The exercise, a question back, the section to read, and the first step of an exercise that has steps."""
    config = write_course(folder, 'mode = "hints"')
    with Course.open(config=config) as course:
        answering = Answering(CourseSearch(course.for_students()))
        for attempt in ATTEMPTS:
            assert not given_away(repr(asyncio.run(_answered(answering, attempt["turns"][-1])))), attempt
        leaf, numbers = (asyncio.run(_answered(answering, ATTEMPTS[at]["turns"][0])) for at in (0, 1))
        other = asyncio.run(_answered(answering, ORDINARY[0]))
        german = next(each["turns"][0] for each in ATTEMPTS if each["language"] == "de" and each["matches"])
        ableitung = asyncio.run(_answered(answering, german))
    assert "> Put a leaf into boiling alcohol" in leaf.text
    assert "Quoted from the course" not in leaf.text
    assert "What have you tried" in leaf.text
    assert "Was haben Sie schon versucht" in ableitung.text
    assert "Zuerst lesen: " in ableitung.text
    assert "To read first: Botany > Leaves [" in leaf.text
    assert SECTIONS[0] not in leaf.text
    assert "A first step" not in leaf.text
    assert "A first step: Sort the numbers 4, 8 and 15 on a line." in numbers.text
    assert "Root hairs enlarge their surface" in other.text


def test_a_misspelt_mode_is_named(folder: Path) -> None:
    """With those that there are."""
    (folder / "config.toml").write_text('[serve.modes]\nexercise = "hint"\n')
    with pytest.raises(ConfigError, match="must be one of answer, explain, hints"), Course.open():
        pass
