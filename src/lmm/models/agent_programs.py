"""The programs of agents that can be asked as models, ``ACP/claude`` and others, and how each is started without tools.

What each needs was seen with the program, and a server that recorded what it sent. Without tools, too, Claude's program
reads files that a text names (``@/home/ada/notes.txt``), unless attachments are disabled.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from lmm import errors
from lmm.extras import install_command

_ROLE = "You are a language model that a program asks. Follow the instructions in each message. You have no tools."


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """How an agent's program is started without tools.

    `package` is its name in npm; `login` is what to do if nobody is logged in. `{folder}` in the command and the
    `variables` is the folder with the `files`. `session` goes with each new session.
    """

    command: tuple[str, ...]
    package: str
    login: str
    variables: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)


AGENT_PROGRAMS = {
    "claude": AgentProgram(
        ("claude-agent-acp",), "@agentclientprotocol/claude-agent-acp", "run claude, and type /login",
        {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1", "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1"},
        session={"systemPrompt": _ROLE, "claudeCode": {"options": {
            "tools": [], "settingSources": [], "strictMcpConfig": True, "plugins": [], "skills": [],
            "persistSession": False}}},
    ),
    "gemini": AgentProgram(
        ("gemini", "--acp", "--admin-policy", "{folder}/policy.toml", "--extensions", "none",
         "--allowed-mcp-server-names", "none"),
        "@google/gemini-cli", "run gemini, and log in", {"GEMINI_SYSTEM_MD": "{folder}/system.md"},
        {"policy.toml": '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n', "system.md": _ROLE},
    ),
    "opencode": AgentProgram(
        ("opencode", "acp"), "opencode-ai", "opencode auth login",
        {"OPENCODE_CONFIG_CONTENT": json.dumps({
            "permission": {"*": "deny"}, "agent": {"build": {"prompt": _ROLE}, "title": {"disable": True}},
            "share": "disabled"})},
    ),
}  # fmt: skip
"""The agents by the names of their models. All their tools can be switched off: of Codex's, some cannot."""


def find_agent(model: str) -> tuple[AgentProgram, str]:
    """Return the program of ``ACP/model``, and its path: empty if it is not installed.

    Raises:
        ModelNotFound: there is no such agent.
    """
    if (program := AGENT_PROGRAMS.get(model)) is None:
        hint = f"known: {', '.join(AGENT_PROGRAMS)}; Codex is not, since it keeps tools that cannot be switched off"
        raise errors.ModelNotFound(f"there is no agent 'ACP/{model}'", hint=hint)
    # Not in folders relative to the current one, which may be a stranger's.
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    return program, shutil.which(program.command[0], path=os.pathsep.join(folders)) or ""


def installed_agent(model: str) -> tuple[AgentProgram, str]:
    """Return the program of ``ACP/model``, and its path.

    Raises:
        ModelNotFound: there is no such agent.
        ModelNotInstalled: its program is missing, or the extra ``acp``, or both.
    """
    program, path = find_agent(model)
    missing = {} if find_spec("acp") else {"the extra 'acp'": install_command("acp")}
    if not path:
        missing[f"the program {program.command[0]}"] = f"npm install -g {program.package}"
    if missing:
        fact = f"ACP/{model} needs {' and '.join(missing)}, not installed"
        raise errors.ModelNotInstalled(fact, hint="; ".join(missing.values()))
    return program, path
