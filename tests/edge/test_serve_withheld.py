"""What students must not see: a marker in every solution that no answer of the server has, and no request of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from edge.serving import serving
from edge.support import run_here
from fakes.openai_server import Action, ScriptedServer

import lmm_education
from lmm_education import Course
from lmm_education.agent_tools import open_published_course
from lmm_education.answer.answering import Answering
from lmm_education.options import AskOptions
from lmm_education.search.search import CourseSearch
from lmm_education.store.port import FORMAT
from lmm_education.web.app import ROUTES

MARK = "sesquipedalian"  # in every text that is withheld, and nowhere else; "umbellule" is what one would look for
COURSE = {
    "notes/leaves.md": f"""---
title: Leaves
docid: leaves
---
# Leaves

Leaves are green because of chlorophyll, which umbellule plants have too.

---
type: exercise
solution: In metadata, the umbellule {MARK}.
---
Why are leaves green, in an umbellule?

---
type: solution
---
Since the umbellule is {MARK}.
And once more, {MARK} umbellule.

---
topic: colour
---
Autumn is yellow, and the umbellule falls.

---
type: [exercise, Solution]
---
Of two types: the umbellule {MARK}.

---
type: " SOLUTION "
---
In capitals: the umbellule {MARK}.

---
type: solution
summary: The umbellule, {MARK} in short.
questions: ["Is the {MARK} umbellule one?"]
---
# Answers {MARK}

Below a heading, the umbellule is {MARK}.

In a second paragraph, the umbellule is {MARK}.

## Deeper {MARK}

By inheritance, the umbellule is {MARK}.

---
type: text
---
# Roots

Roots have an umbellule of their own.
""",
    "notes/all-answers.md": f"""---
title: Sheet {MARK}
docid: sheet
type: solution
---
# First {MARK}

The whole umbellule document is {MARK}.
""",
    "notes/stretches.qmd": f"""# Stretches

Above, the umbellule goes on[^note].

[^other]: An umbellule footnote.

---
type: solution
---
The umbellule is {MARK}[^other]:

```r
umbellule <- "{MARK}"
```

- an umbellule, {MARK},

- and another {MARK}

[^note]: That the umbellule is {MARK}.

## In other {MARK} words

The umbellule is {MARK}.

# Below

<!-- checked -->

---
type: solution
---
Right below, the umbellule is {MARK}.

## A {MARK} subsection

---
topic: colour
---
The umbellule is {MARK}.

# Environments

::: {{#exr-umbellule}}
Which umbellule is it?

::: {{.solution}}
It is the {MARK} umbellule.

- {MARK}
:::
:::

```{{solution, echo=FALSE}}
The umbellule is {MARK}.
```

{{{{< include _included.qmd >}}}}
""",
    "notes/_included.qmd": f"An umbellule.\n\n::: {{#sol-included}}\nIt is {MARK}.\n:::\n",
}
SHOWN = (
    *("which umbellule plants have too", "the umbellule falls", "Roots have an umbellule"),
    *("the umbellule goes on", "Which umbellule is it?"),
)
HEADERS = {"Content-Type": "application/json"}


@pytest.fixture(params=["heading", "level", "size"])
def course(folder: Path, server: ScriptedServer, request: pytest.FixtureRequest) -> Path:
    """The course, ingested with sections of each kind; the scripted server is every model."""
    text = (folder / "config.toml").read_text()
    rag = f'[RAG]\ndocuments = "{request.param}"\nlevel = 1\nannotation_model = {{ own_properties = ["questions"] }}\n'
    (folder / "config.toml").write_text(text + text.replace("[major]", "[aux]") + rag)
    for name, written in COURSE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(written)
    lmm_education.ingest("notes")
    return folder / "config.toml"


def send(address: str, path: str, body: object = None) -> str:
    """All that comes back, whatever its status."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{address}{path}", data, HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return f"{response.headers}{response.read().decode('utf-8', 'replace')}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode('utf-8', 'replace')}"


def stored_ids(config: Path) -> tuple[list[str], list[str]]:
    """Sections and passages, those too that nobody may know of."""
    with Course.open(config=config) as course:
        return [[p.id for p in course.store.scroll(name, fields=False)] for name in ("documents", "chunks")]  # type: ignore[return-value]


def requests_to(config: Path) -> dict[str, list[tuple[str, object]]]:
    """By route of the application, what is sent to it."""
    sections, passages = stored_ids(config)
    ids = [f"/sections/{each}" for each in [*sections, *passages]]
    ids += [f"/sections/{s}?passage={p}" for s, p in itertools.product([*sections, "x"], passages)]
    ids += [f"/sections/{each}?{more}" for each in sections for more in ("quoted=umbellule", "whole=yes")]
    questions = ["umbellule", "*solution* umbellule", "*Solution*", "umbellule @sheet", "umbellule @all-answers.md"]
    wheres = [{}, {"solution": [f"In metadata, the umbellule {MARK}."]}, {"type": ["solution", " SOLUTION "]}]
    searches = [
        {"query": question, "limit": 100, "where": where, "companion": companion, **types}
        for question, where, companion in itertools.product(questions, wheres, (True, False))
        for types in ({}, {"types": ["solution"]}, {"documents": ["sheet"]})
    ]
    history = [["What is an umbellule?", "A thing [1]."]]
    asked = [{"role": "user", "content": question} for question in questions]
    return {
        "/": [("/", None)],
        "/static/{name}": [("/static/page.js", None)],
        "/contents": [("/contents", None)],
        "/sections/{id}": [(each, None) for each in ids],
        "/here": [(f"/here?here={each}", None) for each in ("sheet.html", "leaves.html%23umbellule", "umbellule.html")],
        "/material": [("/material", None)],
        "/material/{kind}": [
            (f"/material/{kind}{more}", None)
            for kind in ("plan", "cards", "exercises", "solutions")
            for more in ("", "?solutions=true", "?solutions=1")
        ],
        "/login": [("/login", None), ("/login", {"password": "umbellule"})],
        "/logout": [("/logout", {})],
        "/consent": [("/consent", None), ("/consent", {"consent": "umbellule"})],
        "/pictures/{address}": [("/pictures/umbellule", None)],
        "/originals/{address}": [("/originals/umbellule", None)],
        "/chat": [("/chat", {"question": each, "history": history}) for each in questions],
        "/suggestions": [("/suggestions", {"question": each, "answer": "A thing [1]."}) for each in questions],
        "/reactions": [("/reactions", {"exchange": "umbellule", "reaction": "up"})],
        "/teacher": [("/teacher", None)],
        "/teacher/sections/{id}": [(f"/teacher/sections/{each}", None) for each in [*sections, *passages]],
        "/teacher/exchanges/{id}": [("/teacher/exchanges/umbellule", None)],
        "/teacher/export/{kind}": [(f"/teacher/export/{kind}", None) for kind in ("csv", "jsonl", "questions")],
        "/teacher/wrong": [("/teacher/wrong", {"exchange": "umbellule"})],
        "/teacher/documents": [("/teacher/documents", {"name": "umbellule.md", "text": "umbellule"})],
        "/teacher/ingest": [("/teacher/ingest", {"look": True})],
        "/teacher/login": [("/teacher/login", {"password": "umbellule"})],
        "/teacher/logout": [("/teacher/logout", {})],
        "/metrics": [("/metrics", None)],
        "/search": [("/search", each) for each in searches],
        "/v1/chat/completions": [
            ("/v1/chat/completions", {"model": "course", "messages": [each], "stream": stream})
            for each, stream in itertools.product(asked, (True, False))
        ],
        "/feedback": [],  # of what is published, in the test
        "/login/back": [("/login/back?state=umbellule", None)],
        "/lti/login": [("/lti/login?iss=umbellule", None)],
        "/lti/launch": [("/lti/launch", {"id_token": "umbellule"})],
        "/v1/models": [("/v1/models", None)],
        "/v1/models/{name}": [("/v1/models/course", None)],
        "/healthz": [("/healthz", None)],
    }


def test_no_route_gives_it_away(course: Path, server: ScriptedServer) -> None:
    """Nor does any prompt; what stands beside it is there."""
    requests = requests_to(course)
    assert set(requests) == {path for _, path, _ in ROUTES}, "a new route needs its row"
    server.answer = lambda request: "It is the umbellule [1][2]."
    with serving(course) as address:
        made = [
            json.loads(send(address, f"/material/{kind}", None).rpartition("\n\n")[2])
            for kind in ("cards", "exercises")
        ]
        ids = [each["id"] for each in itertools.chain(*made)] + stored_ids(course)[1]
        requests["/feedback"] = [("/feedback", {"exercise": each, "answer": "umbellule"}) for each in ids]
        assert any(made)
        answers = [(path, body, send(address, path, body)) for each in requests.values() for path, body in each]
    assert not [(path, body) for path, body, answer in answers if MARK in answer]
    together = "".join(answer for _, _, answer in answers)
    assert all(text in together for text in SHOWN)
    assert MARK not in prompts(server)
    assert all(text in prompts(server) for text in SHOWN)


def prompts(server: ScriptedServer) -> str:
    """All that the model server received."""
    return "".join(json.dumps(dict(request.body)) for request in server.requests)


CALLS = (
    ("search", '{"query": "umbellule", "limit": 20}'),
    ("mentions", '{"term": "umbellule"}'),
    ("open_section", '{"place": "leaves"}'),
    ("open_section", '{"place": "leaves", "offset": 1}'),
    ("open_section", '{"place": "notes/stretches.qmd"}'),
    ("contents", "{}"),
)


def test_no_tool_of_the_model_gives_it_away(course: Path, server: ScriptedServer) -> None:
    """In agent mode, everything that a tool returns is in the next request."""
    calls = tuple((str(i), name, arguments) for i, (name, arguments) in enumerate(CALLS))
    server.queue(Action(calls=calls, finish="tool_calls"), "Done [1].")

    async def answered() -> list[str]:
        with Course.open(config=course) as opened:
            answering = Answering(CourseSearch(opened.for_students()), AskOptions(agent=True))
            return [repr(event) async for event in answering.stream("Where is the umbellule?")]

    told = "".join(asyncio.run(answered()))
    assert MARK not in told + prompts(server)
    assert all(text in prompts(server) for text in SHOWN)
    assert all(name in prompts(server) for name, _ in CALLS)


def test_what_is_published_does_not_give_it_away(course: Path, server: ScriptedServer) -> None:
    """The tools of `lmm mcp`."""

    async def told() -> list[str]:
        async with open_published_course(course, None, None) as published:
            tools = {tool.definition.name: tool for tool in published.tools}
            calls: dict[str, dict[str, object]] = {
                "search": {"query": "umbellule", "limit": 20},
                "ask": {"question": "umbellule"},
                "contents": {},
                "mentions": {"term": "umbellule"},
            }
            return [(await tools[name].call(arguments)).text for name, arguments in calls.items()]

    together = "".join(asyncio.run(told()))
    assert MARK not in together + prompts(server)
    assert all(text in together for text in SHOWN)


def test_its_author_sees_it(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lmm search`, and `lmm exercises` when one asks for solutions; students too, where nothing is withheld."""
    assert MARK in run_here(capsys, "search", "umbellule *solution*").out
    assert MARK in run_here(capsys, "exercises", "notes", "--solutions").out
    course.write_text(course.read_text() + "[serve]\nwithhold = []\n")
    lmm_education.ingest("notes")
    with serving(course) as address:
        assert MARK in send(address, "/search", {"query": "umbellule", "limit": 100})


def test_other_types_are_withheld(course: Path) -> None:
    """In whatever case they are written."""
    course.write_text(course.read_text() + '[serve]\nwithhold = ["Solution", "EXERCISE"]\n')
    lmm_education.ingest("notes")
    with serving(course) as address:
        told = send(address, "/search", {"query": "umbellule", "limit": 100}) + send(address, "/material/exercises")
    assert MARK not in told
    assert "Why are leaves green" not in told
    assert "Roots have an umbellule" in told


def test_a_change_of_what_is_withheld_needs_an_ingest(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of every document: until then nothing is served."""
    course.write_text(course.read_text() + '[serve]\nwithhold = ["Exercise"]\n')
    lmm_education.ingest("notes/leaves.md")
    refused = run_here(capsys, "serve")
    assert refused.code == 1
    assert "[serve] withhold has changed" in refused.err
    assert "it was solution, is exercise (lmm ingest all documents" in refused.err
    lmm_education.ingest("notes")
    with Course.open(config=course) as opened:
        opened.for_students()


def test_a_store_made_before_is_refused(
    course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that makes it anew."""
    monkeypatch.setattr("lmm_education.store.port.FORMAT", FORMAT + 1)
    refused = run_here(capsys, "serve")
    assert refused.code == 1
    assert "lmm ingest rebuilds it" in refused.err


def test_ingest_names_what_is_kept_from_students(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each stretch with its lines, one line of each; a file that a book leaves out is named with -q too."""
    document = Path("notes/stretches.qmd")
    document.write_text(f"{document.read_text()}\nMore.\n")
    told = run_here(capsys, "ingest", "notes").out
    stretches = [line for line in told.splitlines() if "kept from students" in line]
    assert stretches == [
        f"notes/stretches.qmd:{lines}: kept from students (solution)" for lines in ("10-24", "26-40", "47-51", "54-56")
    ]
    document.write_text(f"{document.read_text()}\nAnd more.\n")
    values = json.loads(run_here(capsys, "ingest", "notes", "--json").out)
    (changed,) = [each for each in values["documents"] if each["state"] == "changed"]
    assert changed["withheld"][0] == {"types": ["solution"], "lines": [10, 24]}
    Path("notes/_quarto.yml").write_text("project: {type: book}\nbook: {chapters: [index.qmd, stretches.qmd]}\n")
    Path("notes/index.qmd").write_text("# Welcome\n\nHello.\n")
    assert "leaves.md: skipped: not a chapter of _quarto.yml" in run_here(capsys, "ingest", "notes", "-q").err
