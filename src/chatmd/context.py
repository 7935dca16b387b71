"""What a run works with: `Run`; the model that a file's `<config>` asks for, and the settings that hold everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chatmd.config import ChatmdSettings
from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.agent import AgentConfig, AgentSpec, Content
from chatmd.language.imports import resolve_imports
from chatmd.language.nodes import Element, SyntaxTree
from lmm.config import ModelSettings, Settings, is_chosen, load_settings
from lmm.config_tables import Config
from lmm.errors import ConfigError, Place, Untrusted
from lmm.messages import Event, Listener, ToolCall, ignore
from lmm.models.budget import SharedBudget
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel, RunnableTool

if TYPE_CHECKING:
    from lmm.fetch import FetchRules
    from lmm.models.structured import Schema


class Rules(ChatmdSettings, frozen=True):
    """What a run may do, and what follows from that."""

    @property
    def fetching(self) -> FetchRules:
        """What may be fetched."""
        from lmm.fetch import FetchRules  # with httpx2, which most commands do without

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
        """The document with its imports in place, of the folders that are allowed."""
        return resolve_imports(document, roots=self.roots)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """Another ChatMD file is to be asked: `src` is a path (`local`), relative to `folder`, or a URL.

    `input` is what its user says, after what the file itself makes the user say; `values` are those of its declared
    inputs. `kept` is told of the file that
    holds what was said and done, relative to the transcript's folder, if there is one.
    """

    src: str
    local: bool
    folder: Path
    input: Content = ()
    values: Mapping[str, object] = field(default_factory=dict)
    kept: Callable[[str], None] = field(default=lambda path: None, compare=False, repr=False)


# -- The model that a file's `<config>` asks for, with the settings that hold everywhere ----------------------


_TIERS = ("major", "minor", "aux")
_WITHOUT_EFFORT = ("Builtin", "Recorded")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Where settings come from: config.toml, the environment, what overrides them; `document` is the conversation."""

    file: Config = field(default_factory=Config)
    environment: Mapping[str, str] | None = None
    model: str = ""
    document: str = ""
    _known: dict[tuple[tuple[str, str], ...], Settings] = field(default_factory=dict, repr=False, compare=False)

    def settings(self, named: str = "", overrides: Mapping[str, str] | None = None) -> Settings:
        """The settings that hold; `named` is the model that a conversation's file names, and `overrides` model names by
        tier that the user does."""
        key = (("", named), *sorted((overrides or {}).items()))
        if key not in self._known:
            header = {"model": {"major": named}} if named else None
            self._known[key] = load_settings(
                self.file, self.environment, header, overrides=overrides, document=self.document
            )
        return self._known[key]


def model_settings(config: AgentConfig, configuration: Configuration, *, own: bool = True) -> ModelSettings:
    """The model that `<config>` names, with what it says of temperature, tokens and effort; else the major one.

    A tier's name stands for its model; a name without a provider is OpenAI's, as in the published language.
    `configuration.model` counts more than what an agent's own file says (`own` is False for agents below).

    Raises:
        ConfigError: there is no such provider, or it cannot do what is asked for.

    >>> settings = model_settings(AgentConfig("gpt-4o", temperature=0.2), Configuration(environment={}))
    >>> str(settings.model), settings.temperature
    ('OpenAI/gpt-4o', 0.2)
    >>> file = Config(text='minor = "Ollama/llama3.2"')
    >>> str(model_settings(AgentConfig("minor"), Configuration(file, environment={})).model)
    'Ollama/llama3.2'
    """
    where = "--model" if configuration.model and own else config.span.where
    settings: ModelSettings = getattr(*_with_model(config, configuration, own)[:2])
    settings = settings.replace(
        temperature=settings.temperature if config.temperature is None else config.temperature,
        max_tokens=config.max_tokens or settings.max_tokens,
        reasoning_effort=config.reasoning_effort or settings.reasoning_effort,
    )
    if settings.reasoning_effort and settings.model.provider in _WITHOUT_EFFORT:
        raise ConfigError(
            f"{settings.model} does not support reasoning_effort", where=where, hint="leave out 'reasoning_effort'"
        )
    return settings


def settings_of(config: AgentConfig, configuration: Configuration, *, own: bool = True) -> Settings:
    """The settings with which a file is worked on: what it tells no other model than its own, nobody else gets.

    Summaries, judgements and the like are made by the model that the file names, unless its author chose a model for
    that tier.

    >>> config = Configuration(environment={"OPENAI_API_KEY": "sk-…"})
    >>> [str(settings_of(AgentConfig(name), config).aux.model) for name in ("Ollama/qwen3", "")]
    ['Ollama/qwen3', 'OpenAI/gpt-4.1-nano']

    Raises:
        ConfigError: as `model_settings`.
    """
    settings, tier, named = _with_model(config, configuration, own)
    if tier == "major" and not named:
        return settings
    its_model: ModelSettings = getattr(settings, tier)
    major, minor, aux = (getattr(settings, name) if is_chosen(settings, name) else its_model for name in _TIERS)
    return settings.replace(major=major, minor=minor, aux=aux)


def _with_model(config: AgentConfig, configuration: Configuration, own: bool) -> tuple[Settings, str, bool]:
    """The settings with the model that the user or the file names, its tier, and whether it is more than a tier."""
    by_user = own and bool(configuration.model)
    name = configuration.model if by_user else config.model
    if name.lower() in ("", *_TIERS):
        return configuration.settings(), name.lower() or "major", False
    full = name if "/" in name else f"OpenAI/{name}"
    try:
        if by_user:
            return configuration.settings(overrides={"major": full}), "major", True
        return configuration.settings(full), "major", True
    except ConfigError as error:
        names_it = error.where == "command line" or error.where.startswith("header")
        if isinstance(error, Untrusted) or not names_it:
            raise
        where = "--model" if by_user else config.span.where
        raise ConfigError(error.message, where=where, hint=error.hint) from error


OpenModel = Callable[[ModelSettings], ChatModel]
open_model: OpenModel = shared_chat


# -- One run ----------------------------------------------------------------------------------------------------

Confirm = Callable[[str], bool]
"""Show a text of several lines that says what is asked for, and return whether the user agrees."""

Approve = Callable[[ToolCall], Awaitable[bool | str]]
"""Ask about one call before it is made (``--ask``): True makes it; False refuses it; a text refuses it and is what
the model is told. Raises `StoppedByUser` if the user wants the run to end there."""


AskUser = Callable[[], Awaitable[str | Element | None]]
"""Ask the user for the next message, a text or a ``<user>`` element; an empty text goes on from the file as it is (a
turn that failed is tried again); None ends the run."""


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """What the last reply of a run has to be; after so many `retries` the run fails (None: what the file says, or 2).

    `check` is called with the reply, and returns what is wrong with it; None, True and the empty text pass.
    """

    schema: Schema | None = None
    check: Callable[[str], object] | None = None
    retries: int | None = None


AskAgent = Callable[["Run", AgentRequest], Awaitable[str]]
"""How a run asks another agent, within the limits that hold for all of them together."""


CheckAgreement = Callable[[AgentSpec, "Run"], None]
"""Let an agent start only with tools that were agreed to (`chatmd.tools.consent.Consent`)."""


async def ask_nobody(run: Run, request: AgentRequest) -> str:
    """Stand in for agents where none is asked."""
    raise ChatmdError(f"{request.src} is not asked here")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run works with; each agent that it asks has one of its own, the same but for folder, settings, chain.

    `folder` is the prompt's, as a real path: what the prompt names is relative to it, wherever one runs it. `chain`
    are the files from the first that was run down to this one. No tool may change the `protected` files: the
    transcripts that are being written, the settings that rule the run. With `replay`, documents and agents in messages
    are taken as they were recorded; with `skip_missing_tools`, programs and servers that cannot be had are left out.
    Documents that are not in the prompt's folder are looked for in the `working` folder. `functions` are tools beside
    those that the file declares. What agents below say and do is kept below the folder `records`, if there is one.

    `once` stops after one reply and its calls; `timeout` is in seconds, for a turn. `yes` agrees to what the tools can
    do, else `confirm` is asked; `approve` is asked about each call, `ask_user` for the next message (without it, a run
    ends when it is the user's turn); `listener` is told what happens, and where (`chatmd.runtime.events`). With
    `goes_on`, a failed turn does not end the run: it is told, and the user asked. `inputs` are those of each
    ``<input>``; `say` is what the user says first.
    """

    folder: Path
    settings: Settings
    rules: Rules = field(default_factory=Rules)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    protected: tuple[Path, ...] = ()
    chain: tuple[str, ...] = ("",)
    configuration: Configuration = field(default_factory=Configuration)
    tally: SharedBudget = field(default_factory=SharedBudget)
    check_agreement: CheckAgreement | None = None
    approve: Approve | None = None
    listener: Listener = ignore
    open_model: OpenModel = open_model
    ask: AskAgent = ask_nobody
    replay: bool = False
    skip_missing_tools: bool = False
    working: Path | None = None
    functions: tuple[RunnableTool, ...] = ()
    expects: AnswerRule = AnswerRule()
    records: Path | None = None
    once: bool = False
    timeout: float | None = None
    yes: bool = False
    confirm: Confirm | None = None
    ask_user: AskUser | None = None
    goes_on: bool = False
    inputs: Mapping[str, object] = field(default_factory=dict)
    say: str | Element = ""

    @asynccontextmanager
    async def in_time(self) -> AsyncGenerator[None]:
        """Cancel what takes longer than `timeout`.

        Raises:
            LimitReached: it did.
        """
        try:
            async with asyncio.timeout(self.timeout) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"it took longer than {self.timeout:g} s"
            raise LimitReached(message, where=self.chain[-1], hint="allow more: --timeout") from error

    def tell(self, event: Event) -> None:
        """Send an event to the listener."""
        self.listener(event, Place(self.chain[-1], path=self.chain[1:]))
