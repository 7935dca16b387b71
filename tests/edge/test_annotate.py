"""`lmm annotate` and `lmm batch` on a real server: what is sent, side by side, killed, interrupted, edited."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import Ran, files_in, finish, lmm, run_here, start, wait_until
from fakes.forked import python
from fakes.openai_server import Action, Recorded, ScriptedServer, annotation_reply, fail, hang

from lmm.cli.main import main
from lmm.scan import scan_rag

WORDS = "word " * 220  # the tree is no small entry
LEAF = "Leaves are green. " + WORDS.strip()
TREE = f"""\
---
title: Plants
---

# Organs

Plants have organs.

## Leaves

{LEAF}

## Roots

Roots are brown. {WORDS.strip()}
"""
FROM = re.compile(r'<text from="([^"]*)">\n(.*)\n</text>', re.DOTALL)


def section(request: Recorded) -> str:
    """The heading path that a request names."""
    match = FROM.search(request.last)
    assert match
    return match[1]


def asked(server: ScriptedServer, start: int = 0) -> list[str]:
    """What was asked about which sections, sorted."""
    return sorted(f"{', '.join(r.fields)} of {section(r)}" for r in server.requests[start:])


def summaries(path: Path) -> list[str]:
    """The summaries in a file, in its order."""
    return re.findall(r"^~summary_: (.*)$", path.read_text(), re.MULTILINE)


@pytest.fixture
def document(folder: Path) -> Path:
    """A three-level document: the title, one section, two subsections."""
    path = folder / "d.md"
    path.write_text(TREE)
    return path


# -- what is sent ----------------------------------------------------------------------------------


def test_the_texts_sent_for_a_tree(server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A parent's summary sees its own text and its children's summaries under their headings, no more."""
    server.answer = annotation_reply
    ran = run_here(capsys, "annotate", "d.md", "--no-titles", "--summaries")
    prompt = "Annotate this section."
    context = '<context from="Organs">\nPlants have organs.\n</context>'
    assert sorted((section(r), r.last) for r in server.requests) == [
        (
            "Organs",
            '<text from="Organs">\nPlants have organs.\n\n'
            "## Leaves\n\nSummary:\nSummary of Organs > Leaves.\n\n## Roots\n\nSummary:\nSummary of Organs > Roots.\n"
            "</text>\n\n" + prompt,
        ),
        ("Organs > Leaves", f'<text from="Organs > Leaves">\n{LEAF}\n</text>\n\n{context}\n\n{prompt}'),
        (
            "Organs > Roots",
            f'<text from="Organs > Roots">\nRoots are brown. {WORDS.strip()}\n</text>\n\n{context}\n\n{prompt}',
        ),
    ]
    (system,) = {r.system for r in server.requests}  # the same for all, which caches of servers know by its beginning
    assert "A summary of the text in at most 80 words, in English: one paragraph" in system
    assert all([role for role, _ in r.messages] == ["system", "user"] for r in server.requests)
    assert summaries(document) == [
        "Summary of Organs.", "Summary of Organs.", "Summary of Organs > Leaves.", "Summary of Organs > Roots.",
    ]  # fmt: skip
    assert ran == Ran(0, "d.md: added 4 summaries; 3 calls, 33 tokens in, 21 out\n", "")


def test_a_server_that_refuses_schemas(
    server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked without one: the system message says what is wanted, and what is around the JSON is left out."""
    reply = 'Here it is:\n```json\n{"summary": "Short.", "questions": ["1. Why?"], "keywords": ["leaf", "root"]}\n```'
    server.answer = lambda request: fail(400, "response_format is not supported") if request.fields else reply
    ran = run_here(capsys, "annotate", "d.md", "--summaries", "--questions", "--keywords")
    assert (ran.code, ran.err) == (0, "")
    assert sum(bool(request.fields) for request in server.requests) <= 2
    assert document.read_text().count("~questions_:\n  - Why?\n~keywords_:\n  - leaf\n  - root\n") == 3


@pytest.mark.parametrize("where", ["document", "course"])
def test_language_system_and_own_prompts(server: ScriptedServer, folder: Path, where: str) -> None:
    """The language of the document or the course, and the project's prompt; no persona, which is for conversations."""
    (folder / "prompts").mkdir()
    (folder / "prompts" / "questions.md").write_text("Frage etwas: questions in {language}\n")
    with (folder / "config.toml").open("a") as config:
        config.write('\n[prompts]\nfolder = "prompts"\n' + '[RAG]\nlanguage = "de"\n' * (where == "course"))
    assert main(["trust", "--yes"]) == 0
    path = folder / "d.md"
    path.write_text(
        f"---\ntitle: T\n{'lang: de' if where == 'document' else 'author: N'}\nmodel:\n  system: Sei freundlich.\n"
        f"  RAG: [questions]\n---\n# A\n\n{WORDS}\n"
    )
    assert scan_rag(path).failures == ()
    (request,) = server.requests
    assert "Sei freundlich." not in str(request.messages)
    assert request.prompt == "Frage etwas: questions in German"


def test_only_a_changed_leaf_and_its_ancestors_are_asked_again(
    server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed paragraph; the other leaf, and the questions of nobody else, are not asked."""
    server.answer = lambda r: annotation_reply(r, f"{r.number}: ")
    words = ("annotate", "d.md", "--summaries", "--questions")
    assert run_here(capsys, *words).code == 0
    count = len(server.requests)
    document.write_text(document.read_text().replace("Leaves are green.", "Leaves are green or red."))
    assert run_here(capsys, *words).code == 0
    assert asked(server, count) == [
        "summary, questions of Organs", "summary, questions of Organs > Leaves",
    ]  # fmt: skip
    count = len(server.requests)
    before = document.read_bytes(), document.stat().st_mtime_ns
    assert run_here(capsys, *words).out == "d.md: nothing to add\n"
    assert (document.read_bytes(), document.stat().st_mtime_ns, len(server.requests)) == (*before, count)


def test_another_model_or_prompt_is_listed_and_refreshed(
    server: ScriptedServer, document: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never silently: a run says that there is something, --changed lists it, --refresh makes it anew."""
    server.answer = annotation_reply
    words = ("annotate", "d.md", "--no-titles", "--summaries")
    run_here(capsys, *words)
    count, before = len(server.requests), document.read_bytes()
    (folder / "prompts").mkdir()
    (folder / "prompts" / "summary.md").write_text("Summarise in {words} words in {language}!\n")
    with (folder / "config.toml").open("a") as config:
        config.write('\n[prompts]\nfolder = "prompts"\n')
    assert run_here(capsys, "trust", "--yes").code == 0
    assert run_here(capsys, *words).out == (
        "d.md: nothing to add; 4 made with other settings: --changed lists them, --refresh makes them again\n"
    )
    listed = run_here(capsys, *words, "--changed").out.splitlines()
    assert listed[0] == "d.md:1: summary of 'Plants': made with another prompt, model or heading path"
    assert (len(listed), len(server.requests), document.read_bytes()) == (4, count, before)
    assert run_here(capsys, *words, "--refresh").code == 0
    assert len(server.requests) == count + 3
    assert run_here(capsys, *words, "--changed").out == "d.md: nothing is out of date\n"


# -- looking only ----------------------------------------------------------------------------------


def test_dry_run_and_changed_send_nothing(
    server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls and tokens; what is stale and why; not a byte is written, and the file may even be read-only."""
    document.chmod(0o444)
    before = document.read_bytes(), document.stat().st_mtime_ns
    dry = run_here(capsys, "annotate", "d.md", "--summaries", "--dry-run")
    assert re.fullmatch(
        r"d.md: would add 3 titles, 4 summaries; 3 calls to OpenAICompatible/test, about [\d,]+ tokens in, \d+ out, "
        r"price unknown\n",
        dry.out,
    )
    changed = run_here(capsys, "annotate", "d.md", "--summaries", "--no-titles", "--changed")
    assert changed.out == (
        "d.md:1: summary of 'Plants': missing\nd.md:5: summary of 'Organs': missing\n"
        "d.md:9: summary of 'Leaves': missing\nd.md:13: summary of 'Roots': missing\n"
    )
    assert (document.read_bytes(), document.stat().st_mtime_ns) == before
    assert server.requests == []


def test_a_dry_run_counts_what_a_run_then_asks(
    server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what the journal knows costs nothing."""
    server.answer = annotation_reply
    words = ("annotate", "d.md", "--summaries", "--questions")
    assert "; 3 calls to" in run_here(capsys, *words, "--dry-run").out
    run_here(capsys, *words)
    assert len(server.requests) == 3
    document.write_text(TREE)
    assert (
        run_here(capsys, *words, "--dry-run").out
        == "d.md: would add 3 titles, 4 summaries, 3 sets of questions; no calls\n"
    )


@pytest.mark.parametrize(
    ("model", "cost"), [("OpenAI/gpt-4.1-nano", r", about \$0\.00\d\d"), ("Builtin/extractive", "")]
)
def test_the_price_where_it_is_known(document: Path, capsys: pytest.CaptureFixture[str], model: str, cost: str) -> None:
    """Nobody is asked for it, nor is a key needed."""
    ran = run_here(capsys, "annotate", "d.md", "--summaries", "--dry-run", "--model", model)
    assert re.search(rf"3 calls to {model}, about [\d,]+ tokens in, [\d,]+ out{cost}\n", ran.out)


# -- side by side ----------------------------------------------------------------------------------


def test_twenty_sections_eight_at_a_time(server: ScriptedServer, folder: Path) -> None:
    """The default limit is reached, and never passed."""
    server.answer = lambda r: Action(annotation_reply(r), delay=0.1)
    path = folder / "d.md"
    path.write_text("---\ntitle: T\n---\n\n" + "".join(f"# S{n}\n\nNumber {n}. {WORDS}\n\n" for n in range(20)))
    report = scan_rag(path, "titles", "questions", "keywords")
    assert (report.failures, len(server.requests), server.most_in_flight) == ((), 20, 8)


def test_the_limit_of_the_configuration(server: ScriptedServer, document: Path, folder: Path) -> None:
    """Minor follows major in this too."""
    write_config(folder, server, concurrency=1)
    server.answer = lambda r: Action(annotation_reply(r), delay=0.02)
    scan_rag(document, "titles", "summary", "questions")
    assert (len(server.requests), server.most_in_flight) == (3, 1)


def test_two_processes_pay_once(server: ScriptedServer, document: Path) -> None:
    """The second waits, says so, and finds nothing left to make."""
    release = threading.Event()
    server.answer = lambda r: Action(annotation_reply(r), hold=release)
    first = start("annotate", "d.md", "--summaries")
    server.wait_for(2)
    second = start("annotate", "d.md", "--summaries")
    assert second.stderr
    assert second.stderr.readline() == b"d.md: another lmm command is working on it; waiting\n"
    release.set()
    one, two = finish(first), finish(second)
    assert (one.code, one.err, two.code, two.out) == (0, "", 0, "d.md: nothing to add\n")
    assert asked(server) == ["summary of Organs", "summary of Organs > Leaves", "summary of Organs > Roots"]


# -- interrupted -----------------------------------------------------------------------------------


def hold_roots(request: Recorded) -> Action | str:
    """Answers all but the one about roots."""
    return hang() if section(request).endswith("Roots") else annotation_reply(request)


def journaled(state_folder: Path) -> set[str]:
    """The replies in the journal."""
    return {json.loads(file.read_text())["text"] for file in state_folder.glob("journal/*/*.json")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_what_was_made(
    server: ScriptedServer, document: Path, state_folder: Path, number: signal.Signals
) -> None:
    """SIGINT: titles and one summary of the leaves are in the file, exit 130; the next run asks for the rest only."""
    server.answer = hold_roots
    process = start("annotate", "d.md", "--summaries")
    wait_until(lambda: len(server.requests) == 2 and journaled(state_folder))
    process.send_signal(number)
    ran = finish(process)
    assert (ran.code, ran.err) == (130, "")
    assert ran.out == (
        "d.md: added 2 titles, 1 summary; 1 call, 11 tokens in, 7 out; interrupted; what was added is saved\n"
    )
    assert summaries(document) == ["Summary of Organs > Leaves."]
    assert document.read_text().count("~titles_:") == 2
    server.answer = annotation_reply
    assert lmm("annotate", "d.md", "--summaries").code == 0
    assert asked(server, 2) == ["summary of Organs", "summary of Organs > Roots"]
    assert files_in(document.parent) == {"config.toml", "d.md"}


def test_a_failure_keeps_the_others(server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """500 for one section: its ancestors have no summary, all else is there; exit 1 and what to do."""
    server.answer = lambda r: fail(500) if section(r) == "Organs > Roots" else annotation_reply(r)
    ran = run_here(capsys, "annotate", "d.md", "--summaries", "--questions")
    assert ran.code == 1
    assert ran.out.endswith("; 1 failed, and 3 depend on it\n")
    assert ran.err == (
        "d.md:13: summary, questions of 'Roots': OpenAICompatible/test: HTTP 500: no (try again later)\n"
    )
    assert (summaries(document), document.read_text().count("~questions_:")) == (["Summary of Organs > Leaves."], 1)
    server.answer = annotation_reply
    assert run_here(capsys, "annotate", "d.md", "--summaries", "--questions").code == 0
    assert len(summaries(document)) == 4


def test_the_author_writes_meanwhile(server: ScriptedServer, document: Path) -> None:
    """Both are kept; the paragraph that the author changed is made anew by the next run."""
    release = threading.Event()
    server.answer = lambda r: Action(annotation_reply(r), hold=release)
    process = start("annotate", "d.md", "--summaries")
    server.wait_for(2)
    document.write_text(TREE.replace("Roots are brown.", "Roots are white.").replace("title: Plants", "title: Trees"))
    release.set()
    assert finish(process).code == 0
    text = document.read_text()
    assert "Roots are white." in text
    assert "title: Trees" in text
    assert len(summaries(document)) == 4
    server.answer = lambda r: annotation_reply(r, "New: ")
    count = len(server.requests)
    assert lmm("annotate", "d.md", "--summaries").code == 0
    assert asked(server, count) == ["summary of Organs", "summary of Organs > Roots"]


def test_two_files(server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each; a file that is not there does not keep the others from being annotated."""
    server.answer = annotation_reply
    (document.parent / "e.md").write_text("---\ntitle: E\n---\n# X\n")
    ran = run_here(capsys, "annotate", "d.md", "no.md", "e.md", "--summaries")
    assert ran.out.splitlines() == [
        "d.md: added 3 titles, 4 summaries; 3 calls, 33 tokens in, 21 out",
        "e.md: added 1 title; too short, or in a small entry, for 2 summaries",
    ]  # fmt: skip
    assert (ran.code, ran.err) == (2, "lmm: no.md: there is no such file (check the path)\n")


def test_what_is_made_anew_beside_an_old_hash_is_named(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hash of seed 004 is that of a text that the seed leaves out: its titles and questions are not kept."""
    old = "~txthash: S/ec1NIX0xV3NhFFuHY6bQ\ntitles: Chapter 1 - What?\nquestions: What are they?"
    (folder / "d.md").write_text(f"---\ntitle: Chapter 1\n---\n\n---\n{old}\n---\n## What?\n\n{WORDS}\n")
    server.answer = annotation_reply
    ran = run_here(capsys, "annotate", "d.md", "--questions")
    assert ran.err.splitlines() == [
        f"d.md:10: {field} of 'What?': its text is not that of the old ~txthash; made anew"
        for field in ("titles", "questions")
    ]


def test_seed_spellings_are_read_with_a_hint(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`True` in config.toml, `frozen = True` in metadata: as seed 004 writes them."""
    with (folder / "config.toml").open("a") as config:
        config.write("\n[RAG]\nquestions = True\ntitles = True\n")
    text = f"---\ntitle: T\n---\n\n---\ntitles: Mine\nfrozen = True\n---\n# A\n\n{WORDS}\n\n# B\n\n{WORDS}\n"
    (folder / "d.md").write_text(text)
    server.answer = annotation_reply
    ran = run_here(capsys, "annotate", "d.md")
    assert ran.code == 0
    assert ran.err.splitlines() == [
        f"{folder / 'config.toml'}: TOML requires true and false in lower case; True and False are accepted here",
    ]
    assert [section(r) for r in server.requests] == ["B"]
    assert (folder / "d.md").read_text().startswith(text[: text.index("# B")])


def test_an_edited_annotation_is_kept_with_a_notice(
    server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The notice names the place; nothing is asked."""
    server.answer = annotation_reply
    run_here(capsys, "annotate", "d.md", "--summaries")
    document.write_text(document.read_text().replace("Summary of Organs > Roots.", "Mine.").replace("brown", "white"))
    ran = run_here(capsys, "annotate", "d.md", "--summaries", "--no-titles")
    assert re.fullmatch(r"d\.md:\d+: summary of 'Roots': edited by hand; kept\n", ran.err)
    assert "Mine." in summaries(document)


def test_a_progress_bar_on_a_terminal(server: ScriptedServer, document: Path) -> None:
    """It reaches its end and is taken away; the line at the end stays."""
    pty = pytest.importorskip("pty")
    server.answer = annotation_reply
    main, end = pty.openpty()
    process = python("-m", "lmm", "annotate", "d.md", "--summaries", stdout=subprocess.PIPE, stderr=end)
    out, _ = process.communicate(timeout=60)
    os.close(end)
    shown = os.read(main, 100_000).decode()
    os.close(main)
    assert process.returncode == 0
    assert shown.endswith(f"\r\x1b[Kd.md [{'█' * 30}] 7/7\r\x1b[K")
    assert out == b"d.md: added 3 titles, 4 summaries; 3 calls, 33 tokens in, 21 out\n"


# -- batch models of users -------------------------------------------------------------------------

MODELS = '''\
import lmm
from lmm.messages import Attachment


@lmm.batch_model("difficulty")
async def difficulty(batch):
    async def make(section, text):
        return await batch.ask("How difficult is this?", Attachment(text, source=section.title))

    await batch.annotate("difficulty", make, made_by="How difficult is this?")


@lmm.batch_model("length")
def length(batch):
    """Sync, and it asks the model too."""
    def make(section, text):
        told = batch.run(batch.ask("Long?", Attachment(text, source=section.title)))
        return {"words": len(text.split()), "told": told}

    batch.run(batch.annotate("length", make))


@lmm.batch_model("broken")
def broken(batch):
    batch.run(batch.annotate("shout", lambda section, text: section.title.upper()))
    raise ValueError("not today")


@lmm.batch_model("half")
async def half(batch):
    await batch.annotate("half", lambda section, text: 1 / (section.title != "Leaves"))
'''


@pytest.fixture
def models(folder: Path) -> Path:
    """A Python file with batch models."""
    path = folder / "models.py"
    path.write_text(MODELS)
    return path


@pytest.mark.parametrize(("name", "units"), [("difficulty", "difficulties"), ("length", "lengths")])
def test_a_model_of_a_user(server: ScriptedServer, document: Path, models: Path, name: str, units: str) -> None:
    """Sync or async: written with hashes, in order; a second run asks nothing; --dry-run sends nothing."""
    server.answer = lambda r: Action("Hard.", delay=0.02)
    dry = lmm("batch", name, "d.md", "--from", models, "--dry-run")
    assert (dry.code, server.requests, document.read_text()) == (0, [], TREE)
    assert f"would add 3 {units}; 3 calls" in dry.out
    ran = lmm("batch", name, "d.md", "--from", models)
    assert ran == Ran(0, f"d.md: added 3 {units}; 3 calls, 33 tokens in, 21 out\n", "")
    assert document.read_text().count(f"~{name}_:") == 3
    assert server.most_in_flight == 2  # the leaves; then the section above them
    assert lmm("batch", name, "d.md", "--from", models).out == "d.md: nothing to add\n"
    assert len(server.requests) == 3


def test_a_model_that_fails_keeps_what_it_made(
    document: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names file and line; the document is whole, with what was made before; exit 1."""
    line = MODELS[: MODELS.index("raise ValueError")].count("\n") + 1
    ran = run_here(capsys, "batch", "broken", "d.md", "--from", str(models))
    assert (ran.code, ran.out) == (1, "d.md: added 3 shouts\n")
    assert ran.err == f"lmm: {models}:{line}: ValueError: not today (correct the batch model, then run again)\n"
    assert document.read_text().count("~shout_:") == 3


def test_a_failure_is_not_nothing_to_make(
    server: ScriptedServer, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There was something to make."""
    server.answer = lambda request: fail(500)
    ran = run_here(capsys, "annotate", "d.md", "--summaries", "--no-titles")
    assert ran.out.startswith("d.md: nothing added; ")


def test_a_model_that_fails_on_one_section(document: Path, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are made."""
    ran = run_here(capsys, "batch", "half", "d.md", "--from", str(models))
    assert ran.code == 1
    assert f"d.md:9: half of 'Leaves': {models}:{MODELS.count(chr(10))}: ZeroDivisionError: division by zero" in ran.err
    assert document.read_text().count("~half_:") == 1
    assert ran.out == "d.md: added 1 half; 1 failed, and 1 depends on it\n"


def test_a_sync_model_is_interrupted(server: ScriptedServer, document: Path, models: Path) -> None:
    """SIGINT while its threads wait for the server: they end, what was added is saved, exit 130."""
    server.answer = lambda r: hang() if "Roots" in r.last else "Fine."
    process = start("batch", "length", "d.md", "--from", models)
    server.wait_for(2)
    wait_until(lambda: server.in_flight == 1)
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import lmm\n1 / 0\n", "bad.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "bad.py:1: SyntaxError: invalid syntax"),
        ("import no_such_module\n", "bad.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = 1\n", "there is no batch model 'mine' (known:"),
    ],
)
def test_a_file_that_does_not_load(
    document: Path, folder: Path, capsys: pytest.CaptureFixture[str], code: str, told: str
) -> None:
    """Exit 2, one line that says where, nothing read or written."""
    (folder / "bad.py").write_text(code)
    ran = run_here(capsys, "batch", "mine", "d.md", "--from", "bad.py")
    assert (ran.code, ran.err.count("\n"), document.read_text()) == (2, 1, TREE)
    assert told in ran.err


def test_clear_takes_away_what_was_generated_and_nothing_else(
    capsys: pytest.CaptureFixture[str], server: ScriptedServer, document: Path
) -> None:
    """Annotated and cleared, the document is as before; what somebody edited stays, and so does another's field."""
    server.answer = annotation_reply
    assert main(["annotate", "d.md", "--summaries", "--questions"]) == 0
    annotated = document.read_text()
    assert main(["annotate", "d.md", "--clear"]) == 0
    assert document.read_text() == TREE
    document.write_text(annotated.replace("Summary of Organs > Leaves.", "Mine."))
    ran = run_here(capsys, "annotate", "d.md", "--clear", "--summaries")
    assert ran.code == 0
    assert ran.out.endswith("\nd.md: removed its summaries; lmm undo takes that back\n")
    assert (summaries(document), document.read_text().count("questions:")) == (["Mine."], annotated.count("questions:"))


def test_the_built_in_model_annotates_only_where_it_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is configured: what it writes about a course is not worth an author's file."""
    (folder / "n.md").write_text(text := "# Leaves\n\n" + "A leaf is green because it holds chlorophyll. " * 4 + "\n")
    (folder / "more.md").write_text(text)
    ran = run_here(capsys, "annotate", "--keywords", "n.md", "more.md")
    assert (ran.code, (folder / "n.md").read_text()) == (2, text)
    assert ran.err.count("annotates only if you choose it") == 1
    assert run_here(capsys, "annotate", "--keywords", "--model", "Builtin/extractive", "n.md").code == 0
    assert "~keywords" in (folder / "n.md").read_text()
