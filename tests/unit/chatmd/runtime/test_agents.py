"""Agents that ask agents: as tools, inline, in circles, from a URL, within the limits of the whole run."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

import chatmd
from chatmd.errors import LimitReached
from chatmd.language.transcript import INTERRUPTED, NOT_STARTED
from chatmd.sidecar import unfinished_record
from lmm.errors import ModelError, Place
from lmm.messages import ChatEvent, ChatRequest, Message, Reply, TextDelta, ToolCall, Usage

ASK = '<config show_tool_call/>\n<tool name="helper" agent="helper.chatmd" local/>\n<user>Begin</user>\n'


class Answers:
    """A model that answers with a function of the request."""

    name = "Scripted/answers"

    def __init__(self, answer: Callable[[ChatRequest], str | ToolCall]) -> None:
        self.answer = answer
        self.seen: list[tuple[Message, ...]] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        self.seen.append(request.messages)
        given = self.answer(request)
        usage = Usage(10, 5, None, 1)
        if isinstance(given, ToolCall):
            yield Reply("", self.name, usage, calls=(given,))
        else:
            yield TextDelta(given)
            yield Reply(given, self.name, usage)


def delegate(request: ChatRequest) -> str | ToolCall:
    """Ask the helper once, then repeat its answer; without a helper, echo."""
    last = request.messages[-1]
    if last.results:
        return f"It said: {last.results[0].text}"
    if request.tools:
        return ToolCall("c1", "helper", '{"input": "What is |RAW?"}')
    return f"Echo of {last.text}"


def write(folder: Path, **texts: str) -> Path:
    """Write files, and return the first."""
    paths = [folder / f"{name}.chatmd" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths[0]


def test_an_agent_as_a_tool(tmp_path: Path) -> None:
    """It gets its file's messages and the input; its answer is the result; its file does not change."""
    path = write(tmp_path, main=ASK, helper="<system>You help.</system>\n<user>\n\n</user>\n")
    model, seen = Answers(delegate), list[Place]()
    result = chatmd.Chat.open(path, listener=lambda event, place: seen.append(place)).run(model=model)
    assert result.answer == "It said: Echo of What is |RAW?"
    assert [(message.role, message.text) for message in model.seen[1]] == [
        ("system", "You help."), ("user", "What is |RAW?"),
    ]  # fmt: skip
    assert (tmp_path / "helper.chatmd").read_text() == "<system>You help.</system>\n<user>\n\n</user>\n"
    assert "You help" not in path.read_text()
    assert (result.turns, result.usage.input_tokens) == (3, 30)
    helper = str(tmp_path / "helper.chatmd")
    assert set(seen) == {Place(str(path)), Place(helper, path=(helper,))}


def test_what_an_agent_did_before_a_kill_is_kept_and_named(tmp_path: Path) -> None:
    """While it works, and in the next run; also what an agent did that it had asked."""
    middle = '<tool name="helper" agent="helper.chatmd" local/>\n<user>You help.</user>\n'
    path = write(tmp_path, main=ASK.replace("helper.chatmd", "middle.chatmd"), middle=middle, helper="<system/>")
    killed = tmp_path.parent / "killed"

    def answer(request: ChatRequest) -> str | ToolCall:
        if not request.tools and not killed.exists():  # as if it was killed when the innermost agent has answered
            shutil.copytree(tmp_path, killed)
            inner = unfinished_record(unfinished_record("main.chatmd", "c1"), "c1")
            (killed / inner).write_text("<user>What?</user>\n<assistant>Paid.</assistant>\n")
        return delegate(request)

    assert chatmd.Chat.open(path).run(model=Answers(answer)).answer.startswith("It said")
    assert not [*tmp_path.glob(".chatmd/agents/*.unfinished.*")]
    assert (
        chatmd.Chat.open(killed / "main.chatmd").run(model=Answers(delegate)).answer.startswith("It said: The run was")
    )
    names = re.findall('record="(.*?)"', (killed / "main.chatmd").read_text())
    (inner,) = re.findall('record="(.*?)"', (killed / names[0]).read_text())
    assert "Paid." in (killed / inner).read_text()
    assert not [*killed.glob(".chatmd/agents/*.unfinished.*")]


def test_a_call_of_an_agent_that_was_not_started_when_the_run_was_killed(tmp_path: Path) -> None:
    """It began no transcript, unlike the one before it."""
    calls = "".join(f'<tool_call tool_call_id="c{n}" function_name="helper">{{}}</tool_call>\n' for n in (1, 2))
    path = write(tmp_path, main=ASK + calls, helper="<system/>")
    (tmp_path / ".chatmd/agents").mkdir(parents=True)
    (tmp_path / unfinished_record("main.chatmd", "c1")).write_text("<user>What?</user>\n")
    chatmd.Chat.open(path).run(model=Answers(lambda request: "Yes."))
    one, two = path.read_text().split("</tool_response>")[:2]
    assert ("record=" in one, INTERRUPTED in one, NOT_STARTED in two) == (True, True, True)


def test_an_inline_agent(tmp_path: Path) -> None:
    """Its answer replaces it; its content is its input, relative to the file that contains it."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "notes.md").write_text("These </user> are notes.")
    main = '<user>See: <agent src="sub/helper.chatmd" local>Read <doc src="notes.md" local/></agent>!</user>'
    (tmp_path / "sub" / "helper.chatmd").write_text('<user>First <doc src="own.md" local/></user>')
    (tmp_path / "sub" / "own.md").write_text("own text")
    model = Answers(lambda request: " + ".join(m.text + "".join(map(str, m.content)) for m in request.messages))
    result = chatmd.Chat.open(write(tmp_path, main=main)).run(model=model)
    assert result.answer == "See: First own text + Read These </user> are notes.!"


def test_an_inline_agent_is_asked_once(tmp_path: Path) -> None:
    """Later turns and later runs use its first answer."""
    main = '<user>See: <agent src="helper.chatmd" local>x</agent></user>\n'
    path = write(tmp_path, main=main, helper="<system>You help.</system>")
    model = Answers(lambda request: f"n{len(request.messages)}")
    chatmd.Chat.open(path).run(model=model)
    assert len(model.seen) == 2
    path.write_text(path.read_text().replace("<user>\n\n</user>", "<user>More</user>"))
    chatmd.Chat.open(path).run(model=model)
    assert len(model.seen) == 3


def test_an_inline_agent_is_not_paid_twice_for_a_question_that_failed(tmp_path: Path) -> None:
    """A second attempt takes the answer from the record; after its file has changed, the agent is asked again."""
    path = write(tmp_path, main='<user>See: <agent src="helper.chatmd" local>x</agent></user>\n', helper="<system/>")

    def answer(request: ChatRequest) -> str:
        if "See" in request.messages[0].text:
            raise ModelError("the model is down")
        return "helped"

    model = Answers(answer)
    for asked in (2, 3, 5):
        with pytest.raises(ModelError):
            chatmd.Chat.open(path).run(model=model)
        assert len(model.seen) == asked
        if asked == 3:
            (tmp_path / "helper.chatmd").write_text("<system>You help.</system>")


def test_agents_in_a_circle(tmp_path: Path) -> None:
    """Inline, it is reported before anything is paid for; the error names the chain."""
    path = write(
        tmp_path,
        main='<user><agent src="b.chatmd" local/></user>',
        b='<user><agent src="main.chatmd" local/></user>',
    )
    model = Answers(lambda request: "never")
    wanted = r"in a circle: main\.chatmd → b\.chatmd → main\.chatmd → b\.chatmd → main\.chatmd → b\.chatmd"
    with pytest.raises(LimitReached, match=wanted):
        chatmd.Chat.open(path).run(model=model)
    assert not model.seen


def test_a_tool_that_asks_itself(tmp_path: Path) -> None:
    """It goes as deep as allowed; then the model at the limit gets the reason."""
    path = write(tmp_path, helper=ASK)
    model = Answers(delegate)
    result = chatmd.Chat.open(path).run(model=model)
    assert result.answer.startswith("It said: It said: It said: It said: It said: agents ask each other in a circle")
    assert len(model.seen) == 10


def test_limits_hold_over_the_whole_tree(tmp_path: Path) -> None:
    """An agent's usage counts for the run that asked it; the run ends, and can be continued."""
    path = write(tmp_path, main=ASK, helper="<system>You help.</system>")
    model = Answers(delegate)
    with pytest.raises(LimitReached, match="2 requests"):
        chatmd.Chat.open(path).run(max_turns=2, model=model)
    assert len(model.seen) == 2
    with pytest.raises(LimitReached, match="15 tokens"):
        chatmd.Chat.open(write(tmp_path, other=ASK)).run(budget="15", model=model)
    result = chatmd.Chat.open(path).run(model=model)
    assert (result.turns, result.answer) == (1, "It said: Echo of What is |RAW?")


@pytest.mark.parametrize(
    ("helper", "wanted"),
    [
        (None, "no such file"),
        ("<usr>x</usr>", "outside of any element"),
        ('<tool name="reed_file"/><user>x</user>', "no built-in tool"),
        ('<user><doc src="missing.md" local/></user>', "no such file"),
    ],
)
def test_an_agent_that_cannot_be_asked(tmp_path: Path, helper: str | None, wanted: str) -> None:
    """The model gets the reason."""
    path = write(tmp_path, main=ASK)
    if helper is not None:
        write(tmp_path, helper=helper)
    model = Answers(delegate)
    assert wanted in chatmd.Chat.open(path).run(model=model).answer


def test_tools_that_nobody_agreed_to(tmp_path: Path) -> None:
    """The question about a file includes its agents' tools; an agent whose file changes during the run is refused."""
    path = write(tmp_path, main=ASK, helper='<tool name="sh" command="echo"/><system>x</system>')
    with pytest.raises(chatmd.errors.ConsentNeeded, match="sh runs echo"):
        chatmd.Chat.open(path).run(model=Answers(delegate))
    write(tmp_path, helper="<system>x</system>")

    def answer(request: ChatRequest) -> str | ToolCall:
        write(tmp_path, helper='<tool name="sh" command="rm"/><system>x</system>')
        return delegate(request)

    assert "have changed since you agreed" in chatmd.Chat.open(path).run(model=Answers(answer)).answer


def test_from_an_event_loop(tmp_path: Path) -> None:
    """The asynchronous method, and the stream."""
    path = write(tmp_path, main="<user>Hi</user>")

    async def main() -> list[str]:
        result = await chatmd.Chat.open(path).arun(model=Answers(delegate))
        return [result.answer, *[type(event).__name__ async for event, _ in chatmd.Chat.open(path).stream()]]

    assert asyncio.run(main()) == ["Echo of Hi", "RunResult"]
