"""The settings of runs: the table [chatmd] of config.toml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from lmm.config_tables import Config, Count, Key, Positive, Share, Table, convert

if TYPE_CHECKING:
    from chatmd.language.nodes import SyntaxTree
    from lmm.fetch import FetchRules


class ChatmdSettings(Table, frozen=True):
    """The limits and permissions of a run, from ``[chatmd]`` and the command line; times are in seconds."""

    ABOUT = "What ChatMD files may do when they are run."

    max_turns: Annotated[Count, Key("requests to models in a run, including those of agents")] = 50
    max_depth: Annotated[Count, Key("how deep agents may ask agents")] = 4
    max_parallel: Annotated[Count, Key("calls at once")] = 8
    max_output: Annotated[Count, Key("characters of a tool's output that the model is sent")] = 30_000
    compact_at: Annotated[
        Share, Key("the share of the model's context_window at which the older part is summarised; 0: never")
    ] = 0.8
    tool_timeout: Annotated[Positive, Key("seconds")] = 60.0
    fetch_timeout: Annotated[Positive, Key("seconds")] = 30.0
    fetch_limit: Annotated[Count, Key("bytes")] = 5_000_000
    private_network: Annotated[
        bool, Key("whether tools and documents may reach this machine and its network", asks="always")
    ] = False
    roots: Annotated[
        tuple[Path, ...], Key("other folders that imports, documents and agents may come from", asks="always")
    ] = ()

    @classmethod
    def of(cls, config: Config) -> Self:
        """Read the table ``[chatmd]`` of a configuration file; folders are relative to the file's folder.

        Raises:
            ConfigError: unreadable TOML, an unknown key, a value of the wrong kind.

        >>> ChatmdSettings.of(Config(text="[chatmd]\\nmax_turns = 5")).max_turns
        5
        >>> ChatmdSettings.of(Config(text="[chatmd]\\nmax_turn = 5"))
        Traceback (most recent call last):
        lmm.errors.ConfigError: config.toml:2: unknown key 'max_turn' in [chatmd] (did you mean 'max_turns'?)
        """
        return convert(cls, "chatmd", config.tables.get("chatmd", {}), folder=config.folder)

    @property
    def fetching(self) -> FetchRules:
        """The limits for fetching documents."""
        from lmm.fetch import FetchRules  # imports httpx2, which most commands do not need

        allows = "under [chatmd] in config.toml allows more"
        return FetchRules(
            self.fetch_timeout,
            self.fetch_limit,
            self.private_network,
            more_time=f"fetch_timeout {allows}",
            more_bytes=f"fetch_limit {allows}",
            more_private="to allow it: private_network = true under [chatmd] in config.toml",
        )

    def imported(self, document: SyntaxTree) -> SyntaxTree:
        """Replace the imports of a document, from the allowed folders."""
        from chatmd.language.imports import resolve_imports

        return resolve_imports(document, roots=self.roots)
