"""What the tools and the content of one run work with: a folder, settings, rules, and how to ask another agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chatmd.language.imports import resolve_imports
from chatmd.language.items import Content
from chatmd.language.nodes import SyntaxTree
from lmm.config import Settings
from lmm.powers import Power, require

FOLDER = ".chatmd"
"""The folder beside a transcript with all that belongs to it: contents, records, originals."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a run may do, from ``[chatmd]`` and the command line. Times are in seconds, sizes in bytes.

    `private_network` lets tools and documents reach loopback, private and link-local addresses; `remote_tools`
    gives agents that come from a URL the tools they declare; `roots` are folders outside of the prompt's that imports
    may come from. At `compact_at` of its model's window, a conversation is compacted; 0 never does. `withheld` is what
    a config.toml asks for and nobody approved: who would need it calls `require`.
    """

    max_turns: int = 50
    max_depth: int = 4
    max_parallel: int = 8
    max_output: int = 30_000
    compact_at: float = 0.8
    tool_timeout: float = 60.0
    fetch_timeout: float = 30.0
    fetch_limit: int = 5_000_000
    private_network: bool = False
    remote_tools: bool = False
    roots: tuple[Path, ...] = ()
    withheld: tuple[Power, ...] = ()

    def require(self, name: str) -> None:
        """See to it that nothing of this name (``roots``) is withheld, before it is refused for want of it.

        Raises:
            Untrusted: it is; the message says how to agree.
        """
        require(self.withheld, f"chatmd.{name}")

    def imported(self, document: SyntaxTree) -> SyntaxTree:
        """The document with its imports in place, of the folders that are allowed.

        Raises:
            Untrusted: one lies elsewhere, and a config.toml that nobody approved names folders.
        """
        return resolve_imports(document, roots=self.roots, withheld=self.withheld)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """Another ChatMD file is to be asked: `src` is a path (`local`), relative to `folder`, or a URL.

    `input` is what its user says, after what the file itself makes the user say. `kept` is told of the file that
    holds what was said and done, relative to the transcript's folder, if there is one.
    """

    src: str
    local: bool
    folder: Path
    input: Content = ()
    kept: Callable[[str], None] = field(default=lambda path: None, compare=False, repr=False)


AskAgent = Callable[[AgentRequest], Awaitable[str]]
"""Run another file to its end and return its answer, within the limits of the whole tree."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """`folder` is the prompt's, as a real path: what the prompt names is relative to it, wherever one runs it.

    No tool may change the `protected` files: the transcripts that are being written, the settings that rule the run.
    """

    folder: Path
    settings: Settings
    ask_agent: AskAgent
    rules: Rules = Rules()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    protected: tuple[Path, ...] = ()
