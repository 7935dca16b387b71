"""What a run and all agents that it asks have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chatmd.language.items import AgentSpec
from chatmd.runtime.limits import Tally
from chatmd.runtime.models import Configuration, OpenModel, open_model
from chatmd.tools.consent import Approve, Consent
from chatmd.tools.environment import SHORTEST_SECRET, keys_of
from chatmd.workplace import AgentRequest, Rules
from lmm.config import Settings
from lmm.disk.secrets import is_secret_variable
from lmm.messages import Listener, ignore


class Ask(Protocol):
    """How another agent is asked."""

    def __call__(self, tree: Tree, chain: tuple[str, ...], request: AgentRequest) -> Awaitable[str]: ...


@dataclass(frozen=True, slots=True)
class Tree:
    """One run: its configuration, rules, limits and environment, and what was agreed to.

    `ask` asks another agent: for a tree, the files from the first one down to who asks, and a request.
    With `replay`, documents and agents in messages are taken as they were recorded. What agents below say and do is
    kept below the folder `records`, if there is one.
    """

    ask: Ask
    configuration: Configuration = field(default_factory=Configuration)
    rules: Rules = field(default_factory=Rules)
    tally: Tally = field(default_factory=Tally)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    consent: Consent = field(default_factory=Consent)
    approve: Approve | None = None
    listener: Listener = ignore
    open_model: OpenModel = open_model
    protected: tuple[Path, ...] = ()
    replay: bool = False
    records: Path | None = None


def scrubber(settings: Settings, spec: AgentSpec, environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes keys and secrets of the environment out of a text."""
    names = keys_of(settings) | {name for tool in spec.tools for name in (tool.client_id_env, tool.client_secret_env)}
    names |= {name for tool in spec.tools for name in tool.env if is_secret_variable(name)}
    values = sorted((environment.get(name, "") for name in names), key=len, reverse=True)
    secrets = [value for value in values if len(value) >= SHORTEST_SECRET]

    def scrub(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "…")
        return text

    return scrub
