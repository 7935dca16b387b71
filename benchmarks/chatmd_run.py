"""What a run of a ChatMD file costs: per turn, next to the bare client of the same server; and to begin on a long one.

The server is a process of its own and answers at once with a call, until the last turn. The peer sends the same
messages with `openai`'s client, streams the same replies, and does nothing else: no file, no tool, no checks.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chatmd
from benchmarks.chatmd_parse import megabytes
from benchmarks.measure import Row, best, seconds, show
from chatmd.language.transcript import call_element, lines_of, result_element, user_text
from lmm import loop
from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, ToolCall, ToolResult

TURNS = 30
OVERHEAD = 0.010  # seconds a turn
MESSAGES = 5000
RESUME = 1.0  # seconds
PROMPT = '<config show_tool_call/>\n<tool name="read_file"/>\n<user>Go</user>\n'
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
_SERVER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "tests")!r})
from fakes.openai_server import Action, ScriptedServer

def answer(request):
    done = sum(message["role"] == "tool" for message in request.body["messages"])
    if done == {TURNS - 1}:
        return "Done."
    return Action("Let me look at the next file. " * 5, calls=((f"c{{done}}", "read_file", '{{"path":"a.txt"}}'),))

with ScriptedServer(answer) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


class AtOnce:
    """A model that needs no time."""

    name = "Slow/not"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """One short reply."""
        yield TextDelta("Fine.")
        yield Reply("Fine.", self.name)


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that runs."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate("")


@contextmanager
def workplace() -> Iterator[Path]:
    """An empty current folder, with a state of its own."""
    before, variable = Path.cwd(), os.environ.get("LMM_STATE_DIR")
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["LMM_STATE_DIR"] = str(Path(name, ".state"))
        try:
            yield Path(name)
        finally:
            os.chdir(before)
            if variable is None:
                del os.environ["LMM_STATE_DIR"]
            else:
                os.environ["LMM_STATE_DIR"] = variable


def ours(folder: Path) -> str:
    """A run from the beginning."""
    path = folder / "run.chatmd"
    path.write_text(PROMPT, encoding="utf-8")
    result = chatmd.Chat.open(path).run()
    assert (result.turns, result.answer) == (TURNS, "Done.")
    return result.text


async def bare(client: Any) -> str:
    """The same exchange with the client alone."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go"}]
    while True:
        stream = await client.chat.completions.create(model="test", messages=messages, tools=[TOOL], stream=True)
        text = ""
        calls: dict[int, dict[str, str]] = {}
        async for chunk in stream:
            delta = chunk.choices[0].delta if chunk.choices else None
            text += (delta.content or "") if delta else ""
            for call in (delta.tool_calls or ()) if delta else ():
                known = calls.setdefault(call.index, {"id": call.id, "name": call.function.name, "arguments": ""})
                known["arguments"] += call.function.arguments or ""
        if not calls:
            return text
        asked = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls.values()
        ]
        messages.append({"role": "assistant", "content": text, "tool_calls": asked})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "a.txt:1-1:\nx"} for c in calls.values()]


def overhead_row() -> Row:
    """Per turn of a conversation that grows to `TURNS` requests."""
    from openai import AsyncOpenAI

    with server() as url, workplace() as folder:
        (folder / "a.txt").write_text("x", encoding="utf-8")
        (folder / "config.toml").write_text(
            f'[major]\nmodel = "OpenAICompatible/test"\nbase_url = "{url}"\n', encoding="utf-8"
        )
        client = AsyncOpenAI(base_url=url, api_key="none")
        peer = best(lambda: loop.run(bare(client)), 5) / TURNS
        mine = best(lambda: ours(folder), 5) / TURNS
    return Row(
        f"a run of {TURNS} turns with a call each, per turn",
        f"the bare openai client: {peer * 1000:.1f} ms",
        f"{mine * 1000:.1f} ms",
        f"+ {(mine - peer) * 1000:.1f} ms",
        f"≤ + {OVERHEAD * 1000:.0f} ms",
        mine - peer <= OVERHEAD,
    )


def conversation(messages: int = MESSAGES) -> str:
    """A transcript of so many messages: questions, calls, results, answers."""
    text = "<config show_tool_call/>\n"
    for number in range(messages // 4):
        call = ToolCall(f"c{number}", "read_file", f'{{"path":"{number}"}}')
        result = ToolResult(call.id, call.name, "line of text " * 60)
        answer = chatmd.Element("assistant", (), (chatmd.Text("It is about text. " * 20),))
        text += user_text(f"What is in file {number}?")
        text += lines_of([call_element(call), result_element(result), answer])
    return text


def resume_row() -> Row:
    """From the start of a run to its end, with a model that answers at once."""
    text = conversation()
    with workplace() as folder:
        path, numbers = folder / "long.chatmd", itertools.count()
        # It fits its model: else it would be compacted first, which is another thing to measure.
        (folder / "config.toml").write_text("[major]\ncontext_window = 1000000\n", encoding="utf-8")

        def resume() -> None:  # another text each time, so that nothing is remembered of the one before
            path.write_text(f"{text}\n<user>And {next(numbers)}?</user>\n", encoding="utf-8")
            assert chatmd.Chat.open(path).run(model=AtOnce()).answer == "Fine."

        took = best(resume, 5)
    return Row(
        f"go on from a transcript of {MESSAGES:,} messages, {megabytes(text):.1f} MB, to the end of a reply",
        "",
        seconds(took),
        "",
        f"≤ {seconds(RESUME)}",
        took <= RESUME,
    )


def rows() -> list[Row]:
    """Both."""
    return [overhead_row(), resume_row()]


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
