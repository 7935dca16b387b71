"""`lmm compact`, with a model behind HTTP that sees only what it is sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import Ran, lmm, run_here
from fakes.openai_server import Action, Recorded, ScriptedServer, fail
from transcript_texts import transcript_text

from chatmd.compaction.compact import CompactOptions, compact_text, is_summary, read_summary
from chatmd.language.agent import Item, MessageItem, read_agent
from chatmd.language.syntax import parse
from chatmd.language.transcript import messages_of, with_notes
from chatmd.runtime.runner import prepare
from lmm import loop
from lmm.messages import Message, ToolCall, ToolResult

Compact = Callable[..., Ran]
HEAD = '<config model="OpenAICompatible/test"/>\n<tool name="read_file"/>\n<import src="tools.chatmd"/>\n\n'


def conversation(turns: int, *, note: str = "") -> str:
    """A transcript with a decision and a call in every turn."""
    said = [Message("system", "You tidy files.")]
    for n in range(turns):
        output = f"line of file {n}\n" * 60 + ("\n\n" + with_notes("", [note]) if n == 1 and note else "")
        said += [
            Message("user", f"Tidy file{n}.md. DECISION: rule {n} holds."),
            Message("assistant", "", calls=(ToolCall(f"c{n}", "read_file", f'{{"file": "file{n}.md"}}'),)),
            Message("tool", "", results=(ToolResult(f"c{n}", "read_file", output),)),
            Message("assistant", f"Tidied file {n}."),
        ]
    return f"{HEAD}<!-- mine -->\n{transcript_text(said)}\n<user>\n\n</user>\n"


def summarise(request: Recorded) -> str:
    """A model that finds decisions by their word, so that what it is not sent is not in its summary."""
    assert "Reply with the summary only" in request.last
    material = request.last.rpartition("\n\nAbove is")[0]
    found = dict.fromkeys(re.findall(r"(?m)(?:DECISION: |^- )(.*?)(?:\.|$)", material))
    return "## Goal\nTidy files.\n\n## Decisions\n" + "\n".join(f"- {text}" for text in found)


@pytest.fixture
def long(folder: Path, server: ScriptedServer) -> Path:
    """A file with ten turns, and a server that summarises."""
    server.answer = summarise
    (folder / "tools.chatmd").write_text("<system>\nImported rule.\n</system>\n")
    path = folder / "long.chatmd"
    path.write_text(conversation(10, note="Never touch file9!"))
    return path


@pytest.fixture
def compact(capsys: pytest.CaptureFixture[str]) -> Compact:
    """`lmm compact`, in this process."""
    return lambda *words: run_here(capsys, "compact", *words)


def items(path: Path) -> tuple[Item, ...]:
    return read_agent(parse(path.read_text(), file=str(path))).items


def summary_in(path: Path) -> str:
    (found,) = [item for item in items(path) if is_summary(item)]
    return read_summary(found).text


def tokens_in(out: str) -> list[int]:
    """The tokens before and after, as `lmm compact` prints them."""
    return [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) tokens became ([\d,]+);", out)[0]]


def test_the_older_part_becomes_a_summary(long: Path, compact: Compact) -> None:
    """Instructions, decisions, notes and the last turns stay; the file is valid, and the original beside it."""
    before, bytes_before = items(long), long.read_bytes()
    ran = compact("long.chatmd")
    assert ran.code == 0, ran.err
    assert "in a summary" in ran.out
    after = items(long)
    assert after[0] == before[0]
    assert after[-13:] == before[-13:]  # three turns, and the place to write
    assert len(after) == 1 + 1 + 13
    assert all(f"- rule {n} holds" in summary_in(long) for n in range(7))
    assert "Never touch file9!" in read_summary(after[1]).notes
    (original,) = (long.parent / ".chatmd").iterdir()
    assert original.read_bytes() == bytes_before
    assert read_summary(after[1]).source == f".chatmd/{original.name}"
    text = long.read_text()
    assert text.startswith(f"{HEAD}<!-- mine -->\n<system>")
    assert lmm("check", "long.chatmd").code == 0
    messages_of(after)


def test_a_summary_is_summarised_with_the_rest(long: Path, compact: Compact) -> None:
    """Nothing is left to do a third time; a summary need not have the headings that were asked for."""
    assert compact("long.chatmd").code == 0
    assert compact("long.chatmd").out.startswith("long.chatmd: there is nothing to compact")
    says = "Some files were tidied."
    with ScriptedServer(lambda request: says) as other:
        (long.parent / "config.toml").write_text(f'[aux]\nmodel = "OpenAICompatible/x"\nbase_url = "{other.url}"\n')
        done = compact("long.chatmd", "--keep", "1")
        assert (done.code, says in long.read_text()) == (0, True), done.err
        assert "rule 0 holds" in other.requests[0].last


def test_a_small_window_takes_one_request(long: Path, server: ScriptedServer, compact: Compact) -> None:
    """It fits: long results are cut in the middle, and nothing is forgotten that the user said."""
    config = long.parent / "config.toml"
    config.write_text(config.read_text() + "context_window = 3000\n")
    ran = compact("long.chatmd")
    assert ran.code == 0, ran.err
    before, after = tokens_in(ran.out)
    assert after < before
    (request,) = server.requests
    assert len(request.last) < 3000 * 4
    assert "characters left out" in request.last
    assert request.last.count("<call ") == request.last.count("<result ") == 7
    assert all(f"rule {n} holds" in summary_in(long) for n in range(7))


def test_one_long_turn_is_told_from_its_beginning(folder: Path, server: ScriptedServer, compact: Compact) -> None:
    """With --to, the user's last message and the last replies stay, and what is between them is told."""
    server.answer = lambda request: "## Open\n- go on"
    said = [Message("system", "S"), Message("user", "Read all files.")]
    for n in range(30):
        said += [
            Message("assistant", f"Next: {n}", calls=(ToolCall(f"c{n}", "read_file", "{}"),)),
            Message("tool", "", results=(ToolResult(f"c{n}", "read_file", "word " * 200),)),
        ]
    path = folder / "a.chatmd"
    path.write_text(transcript_text(said))
    assert "nothing to compact" in compact("a.chatmd").out
    assert tokens_in(compact("a.chatmd", "--to", "2000").out)[1] <= 2000
    after = messages_of(items(path))
    assert [message.text for message in after[:2]] == ["S", "Read all files."]
    assert after[2].text.startswith("<conversation-summary")
    assert after[-1].results[0].call == "c29"
    assert [call.id for m in after for call in m.calls] == [result.call for m in after for result in m.results]


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (fail(500), "500"),
        (Action("## Goal\nhalf a", finish="length"), "was cut off"),
        (Action("## Goal\n" + " ".join(f"long{number * number}" for number in range(12_000))), "not be shorter"),
        (Action(""), "empty"),
        (Action("", calls=(("c1", "read_file", '{"path": "a.md"}'),)), "called a tool"),
    ],
)
def test_a_failure_changes_nothing(
    long: Path, server: ScriptedServer, action: Action, told: str, compact: Compact
) -> None:
    """Whatever goes wrong: the file is as it was, and nothing lies beside it."""
    before = long.read_bytes()
    server.answer = lambda request: action
    ran = compact("long.chatmd")
    assert told in ran.out + ran.err
    assert "Traceback" not in ran.err
    assert long.read_bytes() == before
    assert not (long.parent / ".chatmd").exists()


def test_a_summary_that_was_cut_off_is_asked_for_again(long: Path, server: ScriptedServer, compact: Compact) -> None:
    """Its limit may have been raised; what the journal remembers of it is half a summary."""
    server.queue(Action("## Goal\nhalf a", finish="length"))
    server.answer = summarise
    assert [compact("long.chatmd").code for _ in range(2)] == [1, 0]


def test_the_built_in_model_is_refused(long: Path, compact: Compact) -> None:
    ran = compact("long.chatmd", "--model", "Builtin/extractive")
    assert ran.code == 1
    assert "cannot summarise a conversation" in ran.err


def test_what_is_appended_meanwhile_stays(long: Path, server: ScriptedServer, compact: Compact) -> None:
    """And if the file was changed elsewhere, nothing is written; the summary is not paid for again."""

    def append(request: Recorded) -> str:
        long.write_text(long.read_text() + "<!-- added -->\n")
        return summarise(request)

    server.answer = append
    assert compact("long.chatmd").code == 0
    assert long.read_text().endswith("</user>\n<!-- added -->\n")

    def change(request: Recorded) -> str:
        long.write_text(f"<!-- new -->{long.read_text()}")
        return summarise(request)

    server.answer = change
    ran = compact("long.chatmd", "--keep", "1")
    assert ran.code == 1
    assert "was changed" in ran.err
    assert long.read_text().startswith("<!-- new -->")
    asked = len(server.requests)
    assert compact("long.chatmd", "--keep", "1").code == 0
    assert len(server.requests) == asked


def test_what_documents_held_is_summarised(folder: Path, server: ScriptedServer, compact: Compact) -> None:
    """As it was when the model saw it; a large one in part. A summary by another server is another one."""
    server.answer = lambda request: "Yes."
    (folder / "notes.md").write_text("DECISION: blue ink. " + "x " * 2000)
    path = folder / "a.chatmd"
    path.write_text('<user>Obey <doc src="notes.md" local/></user>')
    assert lmm("run", "a.chatmd").code == 0
    (folder / "notes.md").write_text("DECISION: red ink.")
    before = path.read_text().removesuffix("<user>\n\n</user>\n") + "<user>And?</user>\n"
    path.write_text(before)
    server.answer = summarise
    assert compact("a.chatmd", "--keep", "1").code == 0
    assert "blue ink" in summary_in(path)
    path.write_text(before)
    with ScriptedServer(summarise) as other:
        write_config(folder, other)
        assert compact("a.chatmd", "--keep", "1").code == 0
        assert other.requests


def test_results_beside_the_file_are_read(folder: Path, server: ScriptedServer, compact: Compact) -> None:
    """A result that is kept in .chatmd is summarised with its text; a document that is not there is named."""
    server.answer = summarise
    (folder / ".chatmd").mkdir()
    (folder / ".chatmd" / "r1.txt").write_text("DECISION: from a result. " + "x " * 2000)
    response = '<tool_response tool_call_id="c1"><doc src=".chatmd/r1.txt" local/></tool_response>'
    call = '<tool_call tool_call_id="c1" function_name="f">{}</tool_call>'
    path = folder / "a.chatmd"
    path.write_text(
        f'<user>See <doc src="notes.md" local/></user>{call}{response}<assistant>Done.</assistant><user>And?</user>'
    )
    assert compact("a.chatmd", "--keep", "1").code == 0
    assert "[document notes.md]" in server.requests[0].last
    assert "from a result" in summary_in(path)
    (summary,) = [item for item in items(path) if is_summary(item)]
    assert read_summary(summary).document_names == ("document notes.md",)
    assert messages_of(items(path))[-1].text == "And?"


def test_files_that_hold_keys_are_not_read(folder: Path, server: ScriptedServer, compact: Compact) -> None:
    """Whoever wrote the file may have put one where a result of a tool is."""
    (folder / ".env").write_text("KEY=sk-123")
    path = folder / "a.chatmd"
    path.write_text(conversation(10).replace('<import src="tools.chatmd"/>\n', ""))
    begin, mark, rest = path.read_text().partition("RAW|line of file 0")
    assert mark
    path.write_text(begin + '<doc src=".env" local/>' + mark + rest)
    server.answer = summarise
    assert compact("a.chatmd").code == 0
    assert not any("sk-123" in request.last for request in server.requests)
    assert any("[document .env]" in request.last for request in server.requests)


def test_one_turn_is_told_as_one(folder: Path, compact: Compact) -> None:
    (folder / "a.chatmd").write_text("<user>Hi</user><assistant>Hello</assistant>")
    assert "(the last turn stays; keep fewer: --keep 0" in compact("a.chatmd", "--keep", "1").out


def test_a_run_can_compact_what_it_holds(long: Path) -> None:
    """The text comes back, the original is kept, and the file is left to the caller; without a path, nothing is."""
    text = long.read_text()
    done = loop.run(compact_text(text, prepare(long), CompactOptions(2), path=long))
    assert long.read_text() == text
    assert done.original is not None
    assert done.original.read_text() == text
    assert any(is_summary(item) for item in read_agent(parse(done.text)).items)
    again = loop.run(compact_text(text, prepare(long), CompactOptions(2)))
    assert again.original is None
    assert isinstance(again.items[-1], MessageItem)


def test_a_compacted_file_is_run_on(long: Path, server: ScriptedServer, compact: Compact) -> None:
    """The model gets instructions, summary and the last turns, with each call next to its result."""
    assert compact("long.chatmd").code == 0
    long.write_text(long.read_text().replace("<user>\n\n</user>", "<user>Go on.</user>"))
    server.answer = lambda request: "Gone on."
    ran = lmm("run", "long.chatmd", "--yes")
    assert ran.code == 0, ran.err
    sent = server.requests[-1].body["messages"]
    assert sent[0]["content"].split() == ["Imported", "rule.", "You", "tidy", "files."]
    assert sum("conversation-summary" in str(message["content"]) for message in sent) == 1
    assert [m["role"] for m in sent[-13:]] == ["user", "assistant", "tool", "assistant"] * 3 + ["user"]
    assert sent[-1]["content"] == "Go on."
    assert "Gone on." in long.read_text()
