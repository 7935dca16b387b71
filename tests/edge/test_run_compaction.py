"""A conversation that outgrows its model is compacted by the run; the model here refuses what is too long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import Ran, run_here
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

WINDOW = 2_000  # tokens, of four characters
TASK = "Keep every table in German."
LONG = "The leaf turns to the light, and what it does not need it gives away. " * 30


def size(request: Recorded) -> int:
    """Tokens of a request, as this server counts them."""
    return sum(len(str(message["content"])) for message in request.body["messages"]) // 4


def is_summary(request: Recorded) -> bool:
    """Whether a summary is asked for, and not a reply."""
    return "Reply with the summary only" in str(request.body["messages"])


def model(request: Recorded) -> Action:
    """Answers what fits its window; a summary holds the decision, if it was shown it."""
    if is_summary(request):
        known = TASK in str(request.body["messages"])
        return Action(f"## Decisions\n- {TASK if known else 'none'}", usage=(size(request), 20))
    if size(request) > WINDOW:
        return fail(400, "maximum context length exceeded")
    return Action(f"Answer to: {request.last.strip()[-20:]}", usage=(size(request), 10))


@pytest.fixture
def file(folder: Path, server: ScriptedServer) -> Path:
    """A conversation of four turns that fills its model's window."""
    write_config(folder, server, context_window=WINDOW)
    server.answer = model
    turns = [(TASK, LONG), ("Go on.", LONG), ("And?", LONG), ("More.", LONG)]
    said = "".join(f"<user>{user}</user>\n<assistant>{reply}</assistant>\n" for user, reply in turns)
    file = folder / "long.chatmd"
    file.write_text(f"<system>You write about leaves.</system>\n{said}<user>What about tables?</user>\n")
    return file


def run(capsys: pytest.CaptureFixture[str], file: Path) -> Ran:
    return run_here(capsys, "run", str(file))


def test_the_older_part_becomes_a_summary_before_the_model_refuses(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it this run fails; with it the model gets the decision, and the original is beside the file."""
    before = file.read_text()
    done = run(capsys, file)
    assert done.code == 0, done.err
    assert "compacted by OpenAICompatible/test" in done.err
    asked = [request for request in server.requests if not is_summary(request)]
    assert len(asked) == 1
    shown = str(asked[0].body["messages"])
    assert TASK in shown
    assert "You write about leaves." in shown
    assert "What about tables?" in shown
    assert size(asked[0]) < WINDOW // 2
    assert [kept.read_text() for kept in (file.parent / ".chatmd").glob("long.*.chatmd")] == [before]
    assert file.read_text().endswith("<user>\n\n</user>\n")


def test_a_later_run_goes_on_from_the_summary(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the next request begins with is what the last one began with."""
    run(capsys, file)
    first = server.requests[-1].messages
    file.write_text(file.read_text().replace("<user>\n\n</user>", "<user>Thanks.</user>"))
    assert run(capsys, file).code == 0
    assert server.requests[-1].messages[: len(first)] == first


REFUSALS = {
    "llama.cpp": {"code": 400, "message": "request (6024 tokens) exceeds the available context size (2000 tokens), try "
                  "increasing it", "type": "exceed_context_size_error", "n_ctx": WINDOW},
    "OpenAI": {"message": "This model's maximum context length is 2000 tokens. However, your messages resulted in 2100 "
               "tokens. Please reduce the length of the messages.", "code": "context_length_exceeded"},
    "Anthropic": {"type": "invalid_request_error", "message": "prompt is too long: 2100 tokens > 2000 maximum"},
    "vLLM": {"message": "This model's maximum context length is 2000 tokens. However, you requested 2100 tokens (2000 "
             "in the messages, 100 in the completion).", "type": "BadRequestError", "code": 400},
    "Ollama, which does not tell how long": {"message": "the input length exceeds the context length"},
}  # fmt: skip


@pytest.mark.parametrize("who", REFUSALS)
def test_a_window_that_nobody_told_is_learnt_from_the_refusal(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str], who: str
) -> None:
    """One compaction, and a second try; the summary is made in parts that fit."""
    write_config(file.parent, server)

    def answer(request: Recorded) -> Action:
        return Action(status=400, body={"error": REFUSALS[who]}) if size(request) > WINDOW else model(request)

    server.answer = answer
    done = run(capsys, file)
    assert done.code == 0, done.err
    assert "compacted by OpenAICompatible/test" in done.err
    asked = [request for request in server.requests if not is_summary(request)]
    assert [size(request) > WINDOW for request in asked] == [True, False]
    assert TASK in str(asked[1].body["messages"])


def test_a_single_message_that_is_too_long_names_the_way_out(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is nothing to summarise, nobody is asked twice."""
    write_config(file.parent, server)
    file.write_text(f"<user>{LONG * 4}</user>\n")
    done = run(capsys, file)
    assert done.code == 1
    assert "maximum context length exceeded (nothing of it can be summarised: shorten the last message" in done.err
    assert "lmm compact" not in done.err
    assert len(server.requests) == 1


def test_what_surely_does_not_fit_a_known_window_is_not_sent(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word is at least one token: a single message of more words than the window has tokens."""
    file.write_text(f"<user>{LONG * 5}</user>\n")
    done = run(capsys, file)
    assert (done.code, len(server.requests)) == (1, 0)
    assert (
        "more than the 2,000 tokens that it reads at once (nothing of it can be summarised: shorten the last"
        in done.err
    )
    assert "there is nothing to compact" in done.err


def test_what_is_not_known_not_to_fit_is_sent(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The window is nearly full, and nothing can be summarised: that is told, and the model answers."""
    file.write_text(f"<user>{LONG * 3}{LONG[:1200]}</user>\n")
    done = run(capsys, file)
    assert (done.code, len(server.requests)) == (0, 1)
    assert "takes most of its model's window, but could not be compacted: there is nothing to compact" in done.err


def test_a_large_window_is_used(file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that reads 400,000 tokens gets a conversation of 120,000 as it is."""
    write_config(file.parent, server)
    server.pages["/v1/models"] = {"data": [{"id": "test", "max_model_len": 400_000}]}
    server.answer = lambda request: Action("Yes.", usage=(size(request), 10))
    file.write_text(f"<user>{LONG * 230}</user>\n<assistant>Yes.</assistant>\n<user>And?</user>\n")
    done = run(capsys, file)
    assert (done.code, "compact" in done.err, len(server.requests)) == (0, False, 1)
    assert size(server.requests[0]) > 120_000


def test_zero_switches_it_off(file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Then the model refuses, and the file is as it was."""
    config = file.parent / "config.toml"
    config.write_text(config.read_text() + "\n[chatmd]\ncompact_at = 0\n")
    before = file.read_text()
    done = run(capsys, file)
    assert done.code == 1
    assert "maximum context length" in done.err
    assert file.read_text() == before


def test_without_a_summary_the_run_says_so_and_goes_on(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """That the summary fails is no reason not to ask."""
    server.answer = lambda request: fail(500, "no") if is_summary(request) else Action("Still here.")
    done = run(capsys, file)
    assert done.code == 0, done.err
    assert "could not be compacted" in done.err
    assert "Still here." in file.read_text()
    assert not list((file.parent / ".chatmd").glob("long.*.chatmd"))


PROSE = " ".join(f"The {n}th leaf is {n * 7} mm long." for n in range(600))


def test_a_summary_that_is_of_no_use_is_counted(
    file: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was paid: the run's summary has its tokens, and so has the budget."""
    summary, answer = Action(f"## Goal\n{PROSE}", usage=(700, 50)), Action("Yes.", usage=(9, 1))
    server.answer = lambda request: summary if is_summary(request) else answer
    over = run_here(capsys, "run", "--budget", "1200", str(file))
    assert (over.code, "the budget of 1,200 tokens (750 spent) does not cover" in over.err) == (1, True), over.err
    file.write_text(file.read_text().replace("Go on.", "Proceed."))
    done = run(capsys, file)
    assert "could not be compacted" in done.err
    assert "2 requests, 709 tokens in, 51 out" in done.err


def test_results_that_together_exceed_the_window_share_the_room(
    folder: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each keeps its head and tail, and the model answers; before, the conversation was at its end for good."""
    write_config(folder, server, context_window=3000)
    for name in "abc":
        (folder / f"{name}.txt").write_text("".join(f"{name} line {n} of many\n" for n in range(400)))
    (folder / "x.chatmd").write_text('<tool name="read_file"/><user>Read all.</user>')
    calls = tuple((f"c{name}", "read_file", json.dumps({"path": f"{name}.txt"})) for name in "abc")
    server.answer = lambda request: Action("", calls=calls) if request.number == 1 else Action("Done.")
    done = run_here(capsys, "run", "x.chatmd")
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    results = [message["content"] for message in server.requests[1].body["messages"] if message["role"] == "tool"]
    assert all("a line 0" in results[0] and "left out" in text for text in results)
    assert sum(map(len, results)) < 3000 * 4


def test_results_that_exceed_a_window_that_nobody_told_are_sent_shortened(
    folder: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stay whole in the file, and the conversation goes on, also in a later run."""
    write_config(folder, server)
    for name in "abc":
        (folder / f"{name}.txt").write_text("".join(f"{name} line {n} of many\n" for n in range(1200)))
    (folder / "x.chatmd").write_text('<config show_tool_call/>\n<tool name="read_file"/><user>Read all.</user>')
    calls = tuple((f"c{name}", "read_file", json.dumps({"path": f"{name}.txt"})) for name in "abc")

    def answer(request: Recorded) -> Action:
        if request.number == 1:
            return Action("", calls=calls)
        if size(request) > WINDOW:
            return fail(400, "maximum context length exceeded")
        return Action("Done.")

    server.answer = answer
    done = run_here(capsys, "run", "x.chatmd")
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    assert "are sent shortened" in done.err
    results = [one["content"] for one in server.requests[-1].body["messages"] if one["role"] == "tool"]
    assert all(f"{name} line 0" in text and "left out" in text for name, text in zip("abc", results, strict=True))
    assert all(f"{name} line 200 of" in (folder / "x.chatmd").read_text() for name in "abc")
    assert not any("line 200 of" in text for text in results)
    assert run_here(capsys, "run", "--say", "And?", "x.chatmd").out == "Done.\n"
