"""The context of a run (`Run`): its settings and limits, and the model that a file's `<config>` names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chatmd.config import ChatmdSettings
from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.agent import AgentConfig, AgentSpec, CallItem, Content
from chatmd.language.imports import outside_files
from chatmd.language.nodes import Element, SourceRange
from chatmd.language.transcript import parse_cached
from lmm.config import ModelSettings, Settings, load_settings
from lmm.config_tables import Config
from lmm.errors import ConfigError, Place, Untrusted
from lmm.messages import Event, Listener, Notice, ToolCall
from lmm.models.budget import SharedBudget
from lmm.models.chat import refused_settings, shared_chat
from lmm.models.port import ChatModel, ModelLike, RunnableTool


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A request to another ChatMD file: `src` is a path (`local`), relative to `folder`, or a URL.

    `input` is the user's message to it, after the messages in the file itself; `values` are those of its declared
    inputs. `on_stored` is called with the path of its transcript, relative to the folder of this one, if there is one;
    it is in `unfinished` while the agent is at work.
    """

    src: str
    local: bool
    folder: Path
    input: Content = ()
    values: Mapping[str, object] = field(default_factory=dict)
    unfinished: str = ""
    on_stored: Callable[[str], None] = field(default=lambda path: None, compare=False, repr=False)


# -- The model that a file's `<config>` names, and the user's settings -----------------------------------------


_TIERS = ("major", "minor", "aux")
_WITHOUT_EFFORT = ("Builtin", "Recorded")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The sources of settings: config.toml, the environment, and the model that overrides them.

    `document` is the path of the conversation.
    """

    file: Config = field(default_factory=Config)
    environment: Mapping[str, str] | None = None
    model: str = ""
    document: str = ""
    _known: dict[tuple[tuple[str, str], ...], Settings] = field(default_factory=dict, repr=False, compare=False)

    def settings(self, named: str = "", overrides: Mapping[str, str] | None = None) -> Settings:
        """Load the settings. `named` is the model that the document names, `overrides` the user's models by tier."""
        key = (("", named), *sorted((overrides or {}).items()))
        if key not in self._known:
            header = {"model": {"major": named}} if named else None
            self._known[key] = load_settings(
                self.file, self.environment, header, overrides=overrides, document=self.document
            )
        return self._known[key]


def model_settings(config: AgentConfig, configuration: Configuration, *, own: bool = True) -> ModelSettings:
    """Return the model that `<config>` names, or the major one, with its temperature, tokens and effort.

    The name of a tier stands for its model; a name without a provider is OpenAI's, as in the published language.
    `configuration.model` overrides the agent's own file (`own` is False for agents that it asks).

    Raises:
        ConfigError: the provider is unknown, or does not support what is requested.

    >>> settings = model_settings(AgentConfig("gpt-4o", temperature=0.2), Configuration(environment={}))
    >>> str(settings.model), settings.temperature
    ('OpenAI/gpt-4o', 0.2)
    >>> file = Config(text='minor = "Ollama/llama3.2"')
    >>> str(model_settings(AgentConfig("minor"), Configuration(file, environment={})).model)
    'Ollama/llama3.2'
    """
    where = "model" if configuration.model and own else config.span.where
    settings: ModelSettings = getattr(*_with_model(config, configuration, own)[:2])
    settings = settings.replace(
        temperature=settings.temperature if config.temperature is None else config.temperature,
        max_tokens=config.max_tokens or settings.max_tokens,
        reasoning_effort=config.reasoning_effort or settings.reasoning_effort,
    )
    if settings.reasoning_effort and settings.model.provider in _WITHOUT_EFFORT:
        hint = "leave out 'reasoning_effort'"
        raise ConfigError(f"{settings.model} does not support reasoning_effort", where=where, hint=hint)
    return settings


def model_warnings(settings: ModelSettings, spec: AgentSpec, run: Run) -> Iterator[tuple[SourceRange, str]]:
    """Iterate over what an agent has and its model does not support, with the place.

    If tools were called, the agent has run with another model; if the caller gives the model, nothing is known of it.
    """
    for name in refused_settings(settings):
        yield spec.config.span, f"{settings.model} does not take {name}; a run leaves it out"
    was_run = any(isinstance(item, CallItem) for item in spec.items)
    if spec.tools and settings.model.provider == "Builtin" and run.open_model is open_model and not was_run:
        yield spec.tools[0].span, f"{settings.model} cannot use tools; a run fails"


def settings_of(config: AgentConfig, configuration: Configuration, *, own: bool = True) -> Settings:
    """Return the settings for work on a file, so that no model gets its text that was not chosen for it.

    Summaries, judgements and the like are made by the model that the file names, unless another was chosen for that
    tier.

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
    major, minor, aux = (getattr(settings, name) if settings.is_chosen(name) else its_model for name in _TIERS)
    return settings.replace(major=major, minor=minor, aux=aux)


def _with_model(config: AgentConfig, configuration: Configuration, own: bool) -> tuple[Settings, str, bool]:
    """Return the settings with the model that the user or the file names, its tier, and whether a model was named."""
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
        names_it = error.where == "model" or error.where.startswith("header")
        if isinstance(error, Untrusted) or not names_it:
            raise
        where = "model" if by_user else config.span.where
        raise ConfigError(error.message, where=where, hint=error.hint) from error


OpenModel = Callable[[ModelSettings], ChatModel]
open_model: OpenModel = shared_chat


# -- One run ----------------------------------------------------------------------------------------------------

Confirm = Callable[[str], bool]
"""Show the user a request of several lines, and return whether they agree."""

Approve = Callable[[ToolCall], Awaitable[bool | str]]
"""Ask about one call before it is made (``--ask``): True makes it; False refuses it; a text refuses it and is sent
to the model as the reason. Raises `StoppedByUser` to end the run."""


AskUser = Callable[[], Awaitable[str | Element | None]]
"""Ask the user for the next message, a text or a ``<user>`` element; an empty text continues from the file as it is
(a failed turn is tried again); None ends the run."""


def log_notices(event: Event, place: Place) -> None:
    """Log notices, such as one about an attribute that has no meaning; without a listener, nobody would see them."""
    if isinstance(event, Notice):
        logging.getLogger("chatmd").warning(event.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, as the command line, `chatmd.Chat` and editors set them; all are optional.

    `model` is a name such as ``Ollama/llama3.2``, or a model; it overrides the file's. `config` is a configuration
    file; without it, the usual places are searched. `roots` are further folders that files may be imported from.
    `once` stops after one reply and its calls. `max_turns` limits the requests to models, `budget` the tokens
    (``20000``) or the cost (``0.50$``), of a run and all agents that it asks; `timeout` is in seconds, for a turn.
    `yes` agrees to what the tools can do; otherwise `confirm` is called. `approve` is called for each call, `ask_user`
    for the next message; without it, a run ends when it is the user's turn. `replay` uses the recorded documents and
    agents in messages; `skip_missing_tools` leaves out programs and MCP servers that cannot be started. `tools` are
    Python functions that the model may call (`chatmd.tools.registry`); `inputs` are values of what ``<input>``
    declares, and are written into the file; `say` is the user's first message. `listener` is called with each event
    (`lmm.messages`), in another thread; without it, notices go to the logger ``chatmd``.

    The last reply must fit the `schema` (a type, or a JSON schema). `check` is called with it and returns what is
    wrong with it: nothing if that is None, True or empty. If something is wrong, the model is asked again, at most
    `retries` times (None: the file's number, or 2).
    """

    model: ModelLike = ""
    config: str | Path | None = None
    roots: Sequence[str | Path] = ()
    once: bool = False
    max_turns: int | None = None
    budget: str = ""
    timeout: float | None = None
    yes: bool = False
    replay: bool = False
    skip_missing_tools: bool = False
    tools: Sequence[Callable[..., Any] | RunnableTool] = ()
    inputs: Mapping[str, object] = field(default_factory=dict)
    say: str | Element = ""
    schema: Any = None
    check: Callable[[str], object] | None = None
    retries: int | None = None
    confirm: Confirm | None = None
    approve: Approve | None = None
    ask_user: AskUser | None = None
    listener: Listener = log_notices


AskAgent = Callable[["Run", AgentRequest], Awaitable[str]]
"""Ask another agent, within the limits that all agents of a run share."""


CheckAgreement = Callable[[AgentSpec, "Run"], None]
"""Raise an error unless the user agreed to the tools of an agent (`chatmd.tools.consent.Consent`)."""


async def ask_nobody(run: Run, request: AgentRequest) -> str:
    """Raise an error: the default of `Run.ask`, for runs that ask no agents."""
    raise ChatmdError(f"{request.src} is not asked here")


@dataclass(frozen=True, slots=True)
class Run:
    """The context of a run; each agent that it asks gets its own, which differs in folder, settings and chain.

    `folder` is the real path of the prompt's folder: paths in the prompt are relative to it. `chain` lists the files
    from the first that was run down to this one. No tool may change the `protected` files: the transcripts that are
    being written, and the settings of the run. Documents that are not in the prompt's folder are looked up in the
    `working` folder; files `outside` of it, which the prompt names by their paths, are read with consent. `functions`
    are the tools besides those that the file declares. Transcripts of agents that the run asks are kept below the
    folder `records`, if there is one. With `goes_on`, a failed turn does not end the run: the error is reported, and
    the user is asked.
    """

    folder: Path
    settings: Settings
    rules: ChatmdSettings = field(default_factory=ChatmdSettings)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    protected: tuple[Path, ...] = ()
    chain: tuple[str, ...] = ("",)
    configuration: Configuration = field(default_factory=Configuration)
    tally: SharedBudget = field(default_factory=SharedBudget)
    check_agreement: CheckAgreement | None = None
    open_model: OpenModel = open_model
    ask: AskAgent = ask_nobody
    working: Path | None = None
    functions: tuple[RunnableTool, ...] = ()
    outside: tuple[Path, ...] = ()
    records: Path | None = None
    goes_on: bool = False
    options: RunOptions = RunOptions()

    def with_options(self, **options: Any) -> Run:
        """Return the run with other options."""
        return replace(self, options=replace(self.options, **options))

    def with_outside(self, text: str) -> Run:
        """Return the run for a text that may name files outside of its folder; they are part of the consent."""
        folder, roots = self.folder.resolve(), self.rules.roots
        found = outside_files(parse_cached(text, self.chain[-1]), folder)
        named = tuple(file for file in found if not any(file.is_relative_to(Path(root).resolve()) for root in roots))
        return replace(self, outside=named, rules=self.rules.replace(roots=(*roots, *named))) if named else self

    @asynccontextmanager
    async def in_time(self) -> AsyncGenerator[None]:
        """Cancel the block if it takes longer than `timeout`.

        Raises:
            LimitReached: it took longer.
        """
        try:
            async with asyncio.timeout(self.options.timeout) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"it took longer than {self.options.timeout:g} s"
            raise LimitReached(message, where=self.chain[-1], hint="allow more: --timeout") from error

    def emit(self, event: Event) -> None:
        """Send an event to the listener."""
        self.options.listener(event, Place(self.chain[-1], path=self.chain[1:]))
