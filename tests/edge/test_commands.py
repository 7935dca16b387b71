"""`lmm messages` as people run it: in processes of its own, side by side, interrupted, in pipes."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import Ran, exchanges_of, files_in, finish, lmm, run_here, start, wait_until, waiting
from fakes.openai_server import Action, Recorded, ScriptedServer, fail, hang

from lmm.cli.main import main
from lmm.prompts.templates import packaged_prompt

DOCUMENT = "# A\n\n---\n?: one\n---\nFirst.\n\n---\n?: two\n---\nSecond.\n"


# -- processes -------------------------------------------------------------------------------------


def test_the_whole_round_in_a_process(server: ScriptedServer, folder: Path) -> None:
    """Questions, replies and tokens on the screen; exit 0; a second process finds nothing to do."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    first, second = lmm("messages", "d.md"), lmm("messages", "d.md")
    assert (first.code, first.err) == (0, "")
    assert first.out == (
        "d.md:4 ?: one (a paragraph of 'A', 6 characters)\n"
        "Reply to: one\n  [OpenAICompatible/test, 11 tokens in, 7 out]\n\n"
        "d.md:9 ?: two (a paragraph of 'A', 7 characters)\n"
        "Reply to: two\n  [OpenAICompatible/test, 11 tokens in, 7 out]\n\n"
        "d.md: 2 replies, 22 tokens in, 14 out\n"
    )
    assert second == Ran(0, "d.md: no questions are pending\n", "")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "action", [fail(401, "bad key sk-secret"), Action("half a reply", cut_after=1)], ids=["401", "cut connection"]
)
def test_a_failure_in_a_process(server: ScriptedServer, folder: Path, action: Action) -> None:
    """Exit 1, one line on stderr, no traceback, no warning at the end, the key nowhere."""
    write_config(folder, server, api_key_env='"LOCAL_KEY"')
    assert main(["trust", "--yes"]) == 0
    server.answer = lambda request: action
    (folder / "d.md").write_text("---\n?: q\n---\nText.\n")
    ran = lmm("messages", "d.md", env={"LOCAL_KEY": "sk-secret", "PYTHONWARNINGS": "default::ResourceWarning"})
    (line,) = (line for line in ran.err.splitlines() if line)
    assert (ran.code, line[:13]) == (1, "lmm: d.md:2: ")
    assert "sk-secret" not in ran.out + ran.err
    assert (folder / "d.md").read_text() == "---\n?: q\n---\nText.\n"


def test_two_processes_on_one_file_ask_once(server: ScriptedServer, folder: Path) -> None:
    """The second says that it waits, and then that nothing is left to do."""
    release = threading.Event()
    server.queue(hang(release, text="Once."))
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    first = start("messages", "d.md")
    server.wait_for(1)
    second = start("messages", "d.md")
    assert second.stderr
    assert second.stderr.readline() == b"d.md: another lmm command is working on it; waiting\n"
    release.set()
    assert finish(first).code == 0
    assert finish(second) == Ran(0, "d.md: no questions are pending\n", "")
    assert (exchanges_of(path), len(server.requests)) == ([("q", "Once.")], 1)


def test_ctrl_c_saves_what_had_arrived(server: ScriptedServer, folder: Path) -> None:
    """SIGINT while one reply is there and another is not: the first is saved, exit 130, and quickly."""
    server.answer = lambda request: "Here." if request.prompt == "one" else hang()
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    process = start("messages", "d.md")
    assert process.stdout
    server.wait_for(2)
    while b"tokens in" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130
    assert "interrupted; only complete replies are saved" in ran.out
    assert "Traceback" not in ran.err
    assert path.read_text() == DOCUMENT.replace(
        "?: one\n",
        "~chat_:\n  - query: one\n    ~reply: Here.\n    ~~model: OpenAICompatible/test\n    ~~text: bMuuPFSUUQ\n",
    )
    assert files_in(folder) == {"config.toml", "d.md"}


def test_ctrl_c_while_waiting_for_another_process(server: ScriptedServer, folder: Path) -> None:
    """The wait for the document ends at once, with 130; the other process is not disturbed."""
    release = threading.Event()
    server.queue(hang(release, text="Once."))
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    first = start("messages", "d.md")
    server.wait_for(1)
    second = start("messages", "d.md")
    assert second.stderr
    second.stderr.readline()
    second.send_signal(signal.SIGINT)
    assert finish(second).code == 130
    release.set()
    assert finish(first).code == 0
    assert exchanges_of(path) == [("q", "Once.")]


def test_ctrl_c_while_waiting_for_a_busy_server(server: ScriptedServer, folder: Path) -> None:
    """The pause before a repetition ends at once, with 130; nothing had arrived, so not a byte changes."""
    write_config(folder, server, max_retries=3)
    server.answer = lambda request: fail(429, headers={"Retry-After": "59"})
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    before = path.read_bytes(), path.stat().st_ino
    process = start("messages", "d.md")
    assert process.stdout
    while b"again in 59.0 s" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert (ran.code, (path.read_bytes(), path.stat().st_ino)) == (130, before)
    assert len(server.requests) <= 2  # for two questions: nothing was asked again
    assert "Traceback" not in ran.err


def test_a_reader_that_goes_away_costs_no_reply(server: ScriptedServer, folder: Path) -> None:
    """`lmm messages FILE | head -1`: the screen's pipe is closed, the document is answered all the same."""
    release = threading.Event()
    server.answer = lambda request: hang(release, text=f"Reply to: {request.prompt}")
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    process = start("messages", "d.md")
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    server.wait_for(2)
    process.stdout.close()
    release.set()
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert (process.wait(60), errors) == (0, "")
    assert exchanges_of(path) == [("one", "Reply to: one"), ("two", "Reply to: two")]


def test_a_screen_that_cannot_show_a_reply_costs_no_reply(server: ScriptedServer, folder: Path) -> None:
    """A terminal without the characters of a reply: they are shown otherwise, and stored as they are."""
    server.answer = lambda request: "Für 5 € 👍"
    path = folder / "d.md"
    path.write_text("---\n?: wie?\n---\nTäxt.\n")
    ran = lmm("messages", "d.md", env={"PYTHONIOENCODING": "ascii"})
    assert (ran.code, ran.err) == (0, "")
    assert exchanges_of(path) == [("wie?", "Für 5 € 👍")]


# -- standard input --------------------------------------------------------------------------------


def test_standard_input_goes_to_standard_output(server: ScriptedServer) -> None:
    """`-`: only the document on stdout, byte for byte; everything else on stderr."""
    server.queue("Done.")
    text = "\ufeff# Ä\r\n\r\n---\r\n?: q\r\n---\r\nText.\r\n"
    ran = lmm("messages", "-", stdin=text.encode())
    assert ran.code == 0
    log = "~chat_:\n  - query: q\n    ~reply: Done.\n    ~~model: OpenAICompatible/test\n    ~~text: 8G3OJ7hOGM\n"
    assert ran.out == text.replace("?: q\r\n", log.replace("\n", "\r\n"))
    assert "-: 1 reply" in ran.err


def test_standard_input_after_a_failure(server: ScriptedServer) -> None:
    """Exit 1, and the document comes out as it went in, so that a pipe never loses it."""
    server.answer = lambda request: fail(500)
    ran = lmm("messages", "-", stdin=b"---\n?: q\n---\nText.\n")
    assert (ran.code, ran.out) == (1, "---\n?: q\n---\nText.\n")


def test_standard_input_that_is_not_utf_8(server: ScriptedServer) -> None:
    """An error with its place, no traceback, nothing on stdout."""
    ran = lmm("messages", "-", stdin=b"---\n?: q\n---\nTe\xe4xt.\n")
    assert (ran.code, ran.out, server.requests) == (1, "", [])
    assert ran.err.startswith("lmm: -:4:3: byte 0xe4 is not UTF-8")


# -- options ---------------------------------------------------------------------------------------


def test_a_dry_run_asks_nothing_and_shows_everything(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every message that would be sent, to which model, and how many; the file stays."""
    path = folder / "d.md"
    path.write_text("---\nmodel:\n  system: You teach.\n---\n\n# A\n\n---\n?: one\n+: two\n---\nFirst.\n")
    before = path.read_bytes()
    ran = run_here(capsys, "messages", "d.md", "--dry-run")
    assert (ran.code, ran.err, server.requests, path.read_bytes()) == (0, "", [], before)
    assert ran.out == (
        "── d.md:9 → OpenAICompatible/test · a paragraph of 'A'\n"
        f"[system]\nYou teach.\n\n{packaged_prompt('tags')}\n\n{packaged_prompt('fences')}\n\n"
        '[user]\n<context from="A">\n# A\n\n[THE TEXT]\n</context>\n\n<text from="A">\nFirst.\n</text>\n\none\n\n'
        "── d.md:10 → OpenAICompatible/test · a paragraph of 'A'\n"
        f"[system]\nYou teach.\n\n{packaged_prompt('tags')}\n\n{packaged_prompt('fences')}\n\n"
        '[user]\n<context from="A">\n# A\n\n[THE TEXT]\n</context>\n\n<text from="A">\nFirst.\n</text>\n\none\n\n'
        "[assistant]\n(the reply to this)\n\n"
        "[user]\ntwo\n\n"
        "d.md: 2 requests would be sent to OpenAICompatible/test\n"
    )


def test_at_answers_one_block(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--at LINE`: the block that covers the line, and no other."""
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    assert run_here(capsys, "messages", "d.md", "--at", "8").code == 0
    assert (exchanges_of(path), waiting(path.read_text())) == ([("two", "Reply to: two")], ["one"])


def test_at_a_line_without_a_prompt(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1; the message names the lines where prompts wait."""
    (folder / "d.md").write_text(DOCUMENT)
    ran = run_here(capsys, "messages", "d.md", "--at", "6")
    assert (ran.code, server.requests) == (1, [])
    assert "no prompt is pending at line 6 (prompts are pending at 4, 9)" in ran.err


def test_several_files_of_which_one_fails(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are answered; the exit code tells of the failure."""
    for name in ("a.md", "c.md"):
        (folder / name).write_text(f"---\n?: q {name}\n---\nText.\n")
    (folder / "b.md").write_bytes(b"---\n?: q\n---\n\xff\n")
    ran = run_here(capsys, "messages", "a.md", "b.md", "missing.md", "c.md")
    assert ran.code == 2
    assert server.prompts == ["q a.md", "q c.md"]
    assert [len(exchanges_of(folder / name)) for name in ("a.md", "c.md")] == [1, 1]
    assert "lmm: b.md:4:1: byte 0xff is not UTF-8" in ran.err
    assert "lmm: missing.md: there is no such file" in ran.err


def test_a_folder_stands_for_its_documents_and_json_for_the_words(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hidden folders are none of ours; a line a document says what came of it. A folder without any is an error."""
    for name in ("a.md", "deep/b.Rmd", ".git/c.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(DOCUMENT)
    assert main(["messages", "--json", "."]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["path"], second["path"], first["usage"]["requests"], first["failures"]) == (
        "a.md",
        "deep/b.Rmd",
        2,
        [],
    )
    answered = {"line": 4, "kind": "query", "prompt": "one", "reply": "Reply to: one"}
    assert answered.items() <= first["results"][0].items()
    assert waiting((folder / ".git/c.md").read_text()) == ["one", "two"]
    (folder / "empty").mkdir()
    assert main(["messages", "empty"]) == 1
    assert "this folder has no .md" in capsys.readouterr().err


def test_a_budget_holds_for_all_files_together(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reply takes 18 tokens; the second would be covered, the third not: its question stays."""
    (folder / "a.md").write_text(DOCUMENT)
    (folder / "b.md").write_text(DOCUMENT.replace("First", "Third").replace("Second", "Fourth"))
    ran = run_here(capsys, "messages", "a.md", "b.md", "--budget", "190")
    assert (ran.code, len(server.requests)) == (1, 2)
    assert "b.md:4: the budget of 190 tokens (36 spent) does not cover this request of about 159 tokens" in ran.err
    assert waiting((folder / "b.md").read_text()) == ["one", "two"]


def test_model_override_without_a_server(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--model Builtin/extractive` answers without any request, whatever is configured."""
    path = folder / "d.md"
    path.write_text("---\n?: what is green?\n---\nA leaf is green. A root is brown.\n")
    assert run_here(capsys, "messages", "d.md", "--model", "Builtin/extractive").code == 0
    assert (server.requests, exchanges_of(path)[0][1].splitlines()[0]) == ([], "> A leaf is green.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["d.md", "--model", "OpenIA/x"], "did you mean OpenAI?"),
        (["d.md", "--model", "nothing"], "write Provider/model"),
        (["d.md", "--config", "missing.toml"], "there is no such configuration file"),
        (["d.md", "--frobnicate"], "No such option"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """Exit 2, with a hint, before anything is asked."""
    (folder / "d.md").write_text(DOCUMENT)
    ran = run_here(capsys, "messages", *words)
    assert (ran.code, server.requests) == (2, [])
    assert says in ran.err


@pytest.mark.parametrize("concurrency", [6, 2])
def test_questions_are_asked_side_by_side(server: ScriptedServer, folder: Path, concurrency: int) -> None:
    """Different blocks at once, but never more than `concurrency`; the document's order is kept in the file."""
    write_config(folder, server, concurrency=concurrency)
    gate = threading.Barrier(concurrency)

    def answer(request: Recorded) -> str:
        gate.wait(30)  # passes only if so many requests are in flight at once
        return f"Reply to: {request.prompt}"

    server.answer = answer
    words = ["one", "two", "three", "four", "five", "six"]
    path = folder / "d.md"
    path.write_text("".join(f"---\n?: {word}\n---\nText {word}.\n\n" for word in words))
    assert main(["messages", "d.md"]) == 0
    assert server.most_in_flight == concurrency
    assert exchanges_of(path) == [(word, f"Reply to: {word}") for word in words]


def test_six_slow_answers_take_hardly_longer_than_one(server: ScriptedServer, folder: Path) -> None:
    """Measured at the server: from the first request to the last is a fraction of one answer's time."""
    server.answer = lambda request: Action("Slow.", delay=0.6)
    words = ["one", "two", "three", "four", "five", "six"]
    (folder / "d.md").write_text("".join(f"---\n?: {word}\n---\nText {word}.\n\n" for word in words))
    assert main(["messages", "d.md"]) == 0
    times = [request.time for request in server.requests]
    assert max(times) - min(times) < 0.6


def test_retries_and_tokens_are_shown(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A retry is announced with its reason; the last line sums what was used."""
    write_config(folder, server, max_retries=1)
    server.queue(fail(503, "warming up"), Action("One.", usage=(1200, 34)), Action("Two.", usage=(1, 1)))
    (folder / "d.md").write_text("---\n?: one\n+: two\n---\nText.\n")
    ran = run_here(capsys, "messages", "d.md")
    assert "OpenAICompatible/test: HTTP 503: warming up; again in 0." in ran.out
    assert ran.out.endswith("d.md: 2 replies, 1,201 tokens in, 35 out\n")


def test_a_document_without_questions_needs_no_model(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits: no server, no key is missed."""
    monkeypatch.setenv("LMM_MODEL_MAJOR", "OpenAI/gpt-4o")
    (folder / "d.md").write_text("# A\n\nText.\n")
    assert run_here(capsys, "messages", "d.md") == Ran(0, "d.md: no questions are pending\n", "")


def test_an_empty_prompt_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its author may wait for an answer; as for lmm scan, it is not an error."""
    (folder / "d.md").write_text("---\n?:\n---\nText.\n")
    says = "lmm: d.md:2:1: '?:' asks nothing (write the question after the colon)\n"
    assert run_here(capsys, "messages", "d.md") == Ran(0, "d.md: no questions are pending\n", says)


def test_replies_to_questions_that_were_deleted_meanwhile(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were answered, and not saved."""
    path = folder / "d.md"
    path.write_text("---\n?: one\n+: two\n---\nText.\n")

    def answer(request: Recorded) -> str:
        path.write_text("Text.\n")
        return "A reply."

    server.answer = answer
    ran = run_here(capsys, "messages", "d.md")
    assert ran.code == 1
    assert ran.out.endswith("d.md: 2 replies, 2 not saved, 22 tokens in, 14 out\n")


def test_a_file_that_is_deleted_meanwhile(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what became of the reply; asked again, it costs nothing."""
    path = folder / "d.md"
    path.write_text("---\n?: one\n---\nText.\n")

    def answer(request: Recorded) -> str:
        path.unlink()
        return "A reply."

    server.answer = answer
    ran = run_here(capsys, "messages", "d.md")
    kept = "the replies are kept: asking the same again costs nothing"
    assert (ran.code, ran.err) == (2, f"lmm: d.md: there is no such file (check the path; {kept})\n")
    path.write_text("---\n?: one\n---\nText.\n")
    assert run_here(capsys, "messages", "d.md").out.endswith("d.md: 1 reply\n")
    assert len(server.requests) == 1


def test_a_missing_key_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 1 before anything is sent; the message names the variable; nothing else is put in its place."""
    monkeypatch.setenv("LMM_MODEL_MAJOR", "OpenAI/gpt-4o")
    (folder / "d.md").write_text(DOCUMENT)
    ran = run_here(capsys, "messages", "d.md")
    assert ran.code == 1
    assert "export OPENAI_API_KEY" in ran.err
    assert (folder / "d.md").read_text() == DOCUMENT


def test_wait_for_the_lock_is_not_for_readers(server: ScriptedServer, folder: Path) -> None:
    """`lmm scan --check` looks at a document while its questions are being answered."""
    release = threading.Event()
    server.queue(hang(release, text="Once."))
    (folder / "d.md").write_text("---\n?: q\n---\nText.\n")
    answering = start("messages", "d.md")
    server.wait_for(1)
    checked = lmm("scan", "--check", "d.md")
    release.set()
    assert finish(answering).code == 0
    assert checked.code == 0
    wait_until(lambda: exchanges_of(folder / "d.md"))
