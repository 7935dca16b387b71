"""A folder and a run for tests of contents."""

from __future__ import annotations

from pathlib import Path

from chatmd.config import ChatmdSettings
from chatmd.context import AgentRequest, Run
from chatmd.language.agent import Item, read_agent
from chatmd.language.syntax import parse
from lmm.config import load_settings

HERE = ChatmdSettings(private_network=True, fetch_timeout=20, fetch_limit=100_000)


class Agents:
    """Replaces agents: counts requests, and answers with its input."""

    def __init__(self) -> None:
        self.asked: list[AgentRequest] = []

    async def ask(self, run: Run, request: AgentRequest) -> str:
        self.asked.append(request)
        return f"answer {len(self.asked)}"


def place(folder: Path, agents: Agents | None = None, rules: ChatmdSettings = HERE) -> Run:
    return Run(folder.resolve(), load_settings(env={}), rules, ask=(agents or Agents()).ask)


def items(text: str, file: str = "a.chatmd") -> tuple[Item, ...]:
    return read_agent(parse(text, file=file)).items
