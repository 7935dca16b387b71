"""`chatmd.Chat`: an agent and its transcript, in a file or in memory, without a network."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from talking import PaidScript

import chatmd
from chatmd import Chat, Element
from chatmd.errors import ChatmdError, ConsentNeeded, InvalidDocument
from lmm.errors import DocumentBusy, FileReadError, Place
from lmm.messages import ChatEvent, ChatRequest, Event, Reply, RunResult, TextDelta, ToolCall, ToolResult
from lmm.testing import ScriptedModel

PLANTS = "<system>Name plants.</system>\n<user>A tree?</user>\n"
TURN = "<user>\n\n</user>\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plants.chatmd"
    path.write_text(PLANTS)
    return path


class Waits:
    """A model that sends a word, and then nothing until it is cancelled or released."""

    name = "Test/waits"

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        yield TextDelta("One ")
        self.began.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        yield Reply("One ", self.name)


def test_what_a_verb_did_is_on_disk(path: Path) -> None:
    """Attributes describe the text, which includes everything appended to the file."""
    chat = Chat.open(path)
    assert (chat.turn_of, chat.answer, chat.notes, chat.folder) == ("model", "", (), path.parent.resolve())
    result = chat.run(model=ScriptedModel(["Oak."]))
    assert (result.answer, result.path, chat.answer, chat.turn_of) == ("Oak.", path, "Oak.", "user")
    assert chat.text == path.read_text()
    assert chat.text.endswith(TURN)
    chat.say("Another, with </user>?")
    assert chat.text == path.read_text()
    assert chat.turn_of == "model"
    assert TURN not in chat.text
    model = ScriptedModel(["Beech."])
    chat.run(model=model)
    assert [message.text for message in model.seen[0].messages][-2:] == ["Oak.", "Another, with </user>?"]
    draft = chat.rewind()
    assert draft is not None
    assert draft.text == "Another, with </user>?"
    assert chat.text == path.read_text()
    assert chat.answer == "Oak."


def test_every_verb_begins_with_what_others_wrote(path: Path) -> None:
    """A change by an editor is read; a missing file is an error."""
    chat = Chat.open(path)
    path.write_text("<user>A flower?</user>\n")
    model = ScriptedModel(["Rose."])
    chat.run(model=model)
    assert [message.text for message in model.seen[0].messages] == ["A flower?"]
    path.unlink()
    with pytest.raises(FileReadError):
        chat.say("More?")


def test_what_an_interrupted_run_left(path: Path) -> None:
    """It is repaired in memory when the file is opened, and on disk by the first method that writes."""
    left = PLANTS + '\n<assistant status="incomplete">\nRAW|Oa|RAW</assistant>\n'
    path.write_text(left)
    chat = Chat.open(path)
    assert (chat.text, len(chat.notes), path.read_text()) == (PLANTS, 1, left)
    chat.run(model=ScriptedModel(["Oak."]))
    assert "RAW|Oak.|RAW" in path.read_text()
    assert "RAW|Oa|RAW" not in path.read_text()


def test_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written; the same methods work; results of tools stay in the text."""
    (tmp_path / "notes.md").write_text("A leaf is green.")
    monkeypatch.chdir(tmp_path)
    chat = Chat.from_text('<tool name="read_file"/><user>Look.</user>', folder=tmp_path)
    call = Reply("", "m", calls=(ToolCall("c1", "read_file", '{"file": "notes.md"}'),))
    result = chat.run(model=ScriptedModel([call, "Green."]))
    assert (result.answer, result.path, chat.turn_of) == ("Green.", None, "user")
    assert "A leaf is green." in chat.text
    chat.say("Sure?")
    assert chat.reply("Really?", model=ScriptedModel(["Yes."]))[0] == "Yes."
    assert "Really?" not in chat.text
    assert [offer.definitions[0].name for offer in chat.offers()] == ["read_file"]
    assert chat.render().messages[-1].message.text == "Sure?"
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.md"]


def test_as_a_function_it_forgets(path: Path) -> None:
    """The file does not change; `reply` also returns a chat that contains the answer."""
    chat = Chat.open(path)
    assert chat.ask("Another?", model=ScriptedModel(["Elm."])) == "Elm."
    answer, heard = chat.reply("Another?", model=ScriptedModel(["Ash."]))
    assert (answer, heard.answer, heard.path, path.read_text()) == ("Ash.", "Ash.", None, PLANTS)


def test_errors_of_a_text(tmp_path: Path) -> None:
    """`problems` lists them, methods that need a valid agent raise them; consent is asked for."""
    bad = Chat.from_text("<usr>Hello</usr>")
    assert [problem.severity for problem in bad.problems()] == ["error"]
    for verb in (lambda: bad.agent, lambda: bad.turn_of, lambda: bad.run(model=ScriptedModel([]))):
        with pytest.raises(InvalidDocument):
            verb()
    shell = '<tool name="sh" command="echo hi"/><user>Go.</user>'
    with pytest.raises(ConsentNeeded):
        Chat.from_text(shell, folder=tmp_path).run(model=ScriptedModel([]))
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return True

    result = Chat.from_text(shell, folder=tmp_path).run(model=ScriptedModel(["Well."]), confirm=confirm)
    assert (result.answer, len(asked)) == ("Well.", 1)


def test_what_means_nothing_is_refused(path: Path) -> None:
    """A misspelt limit would have no effect; content that `say` cannot place would be dropped."""
    chat = Chat.open(path)
    model = ScriptedModel(["Oak."])
    with pytest.raises(TypeError, match=r"max_turn.*did you mean 'max_turns'"):
        chat.run(model=model, max_turn=1)
    with pytest.raises(TypeError, match="agents"):
        chat.render(agents=True)
    inside = Element("user", (), (Element("summary"),))
    for said, why in ((Element("doc"), "only a <user> element"), (inside, "<summary> is not read")):
        with pytest.raises(ChatmdError, match=why):
            chat.say(said)
    assert path.read_text() == PLANTS


def test_help_names_the_options() -> None:
    """Those of `RunOptions`, with their defaults."""
    named = inspect.signature(Chat.run).parameters
    assert (list(named)[:2], named["timeout"].default) == (["self", "model"], None)
    assert [*inspect.signature(Chat.ask).parameters].count("schema") == 1


def test_watched(path: Path) -> None:
    """The listener and the stream get the same events of `lmm.messages`."""
    told: list[tuple[Event, Place]] = []
    chat = Chat.open(path, listener=lambda event, place: told.append((event, place)))

    async def watch() -> list[tuple[Event, Place]]:
        return [happened async for happened in chat.stream(model=ScriptedModel(["Oak tree."]))]

    streamed = asyncio.run(watch())
    assert streamed == told
    assert {place for _, place in told} == {Place(str(path))}
    names = [type(event).__name__ for event, _ in told]
    assert names == ["Ready", "Asked", "TextDelta", "TextDelta", "Reply", "RunResult"]
    assert isinstance(told[-1][0], RunResult)
    assert chat.answer == "Oak tree."


def test_a_call_tells_how_long_it_took(tmp_path: Path) -> None:
    """In `ToolResult.seconds`, which is ignored when results are compared."""
    told: list[Event] = []
    (tmp_path / "a.md").write_text("A")
    chat = Chat.from_text(
        '<tool name="read_file"/><user>Look.</user>', folder=tmp_path, listener=lambda event, place: told.append(event)
    )
    call = Reply("", "m", calls=(ToolCall("c1", "read_file", '{"file": "a.md"}'),))
    chat.run(model=ScriptedModel([call, "A."]))
    (result,) = [event for event in told if isinstance(event, ToolResult)]
    assert result.seconds > 0
    assert result == ToolResult(result.call, result.name, result.text)


@pytest.mark.parametrize("act", ["cancel", "steer"])
def test_from_another_thread(path: Path, act: str) -> None:
    """`cancel` lets `run` return with the text so far; `steer` is answered; other methods wait for their turn."""
    chat, model = Chat.open(path), Waits()
    with pytest.raises(ChatmdError, match="nothing is running"):
        chat.steer("Too early")
    chat.cancel()  # nothing to cancel
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(chat.run(model=model)))
    thread.start()
    assert model.began.wait(10)
    with pytest.raises(DocumentBusy, match="already running"):
        chat.say("Not now")
    if act == "cancel":
        chat.cancel()
    else:
        chat.steer("And two?")
        model.go.set()
    thread.join(10)
    (result,) = results
    assert result.cancelled == (act == "cancel")
    assert ("And two?" in chat.text) == (act == "steer")
    assert "One " in result.text
    assert chat.turn_of == ("model" if act == "cancel" else "user")  # a reply that was cut off is asked for again


def test_compaction(path: Path) -> None:
    """The given model writes the summary, and the original is kept."""
    turns = "".join(f"<user>{word} {'leaf ' * 200}</user>\n<assistant>{word}</assistant>\n" for word in "abcdef")
    path.write_text(turns + "<user>Go on.</user>\n")
    chat = Chat.open(path)
    done = chat.compact(keep=1, model=PaidScript(["## Goal\nThey named leaves."]))
    assert done.original is not None
    assert done.original.read_text().startswith(turns)
    assert "They named leaves." in chat.text
    assert chat.text == path.read_text()
    memory = Chat.from_text(turns + "<user>Go on.</user>\n")
    assert memory.compact(keep=1, model=PaidScript([])).original is None  # the summary is remembered
    assert "They named leaves." in memory.text


def test_refinement_measures_with_the_inputs_that_were_given(path: Path, tmp_path: Path) -> None:
    """Not with the file's defaults; the file does not change."""
    path.write_text(text := f'<input name="what" default="trees"/>\n<system>Name {{{{what}}}}.</system>\n{TURN}')
    (tmp_path / "cases.yaml").write_text("- input: One?\n  contains: Rose\n")
    model = ScriptedModel(["Rose."])
    found = Chat.open(path).refine(tmp_path / "cases.yaml", rounds=0, model=model, inputs={"what": "flowers"})
    assert found.baseline.results["case 1"].passed
    assert [message.text for message in model.seen[0].messages] == ["Name flowers.", "One?"]
    assert path.read_text() == text


def test_refinement_measures(path: Path, tmp_path: Path) -> None:
    """With no rounds, the cases are only run; a chat without a file raises an error."""
    cases = tmp_path / "cases.yaml"
    cases.write_text("- name: tree\n  input: A tree?\n  contains: Oak\n")
    path.write_text("<system>Name plants.</system>\n")
    found = Chat.open(path).refine(cases, rounds=0, model=ScriptedModel(["Oak."]))
    assert found.winner is None
    assert found.baseline.results["tree"].passed
    with pytest.raises(ChatmdError, match="only a chat in a file"):
        Chat.from_text(PLANTS).refine(cases)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_what_is_offered_includes_python_functions_and_says_what_an_agent_is_for(tmp_path: Path) -> None:
    (tmp_path / "critic.chatmd").write_text("<!-- Finds faults; never praises. -->\n<user>\n\n</user>\n")
    chat = Chat.from_text('<tool name="critic" agent="critic.chatmd" local/>', folder=tmp_path, tools=[add])
    found = {one.name: one.description for offer in chat.offers() for one in offer.definitions}
    assert found == {"critic": "Finds faults; never praises.", "add": "Add two numbers."}


@pytest.mark.parametrize("tools", ["add", add, ["add"]])
def test_tools_that_are_none_are_refused_in_words(tools: Any) -> None:
    told = r"tools=\[add\]|tools must be"
    with pytest.raises((ChatmdError, TypeError), match=told):
        Chat.from_text("<user>2+2?</user>", tools=tools)
    with pytest.raises((ChatmdError, TypeError), match=told):
        Chat.from_text("<user>2+2?</user>").run(tools=tools)


def test_what_has_no_meaning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With the nearest name; who listens, or reads the stream, gets the notice instead."""
    chat, events = Chat.from_text('<tool name="read_file" rots="x"/><user>A tree?</user>'), list[Event]()
    chat.ask(model=ScriptedModel(["Oak."]), listener=lambda event, place: events.append(event))
    assert not caplog.messages
    assert "did you mean 'roots'?" in str(events)
    assert chat.run(model=ScriptedModel(["Oak."])).answer == "Oak."
    assert [message.partition("(")[2] for message in caplog.messages] == ["did you mean 'roots'?)"]


def test_reprs_fit_a_line(tmp_path: Path) -> None:
    chat = Chat.from_text('<tool name="read_file"/><user>2+2?</user>', tools=[add])
    assert repr(chat) == "<Chat in memory: 1 message, the model's turn>"
    assert repr(chat.agent) == "<AgentSpec in memory: 1 items; tools: read_file>"
    assert [repr(offer).partition(":")[0] for offer in chat.offers()] == ["<Offer read_file", "<Offer add"]
    assert repr(Chat.from_text("<user>")) == "<Chat in memory: 0 messages, the user's turn>"


def test_it_is_exported() -> None:
    """Together with the other names."""
    assert chatmd.Chat is Chat
    assert {"Chat", "RunOptions", "RunResult", "parse", "check"} <= set(dir(chatmd))
