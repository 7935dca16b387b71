"""A conversation that outgrows its model is compacted by the run; the model here refuses what is too long."""

from __future__ import annotations

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
