"""The model that a file's `<config>` asks for, with the settings that hold everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chatmd.language.agent import interpret
from chatmd.language.imports import resolve_imports
from chatmd.language.items import Config
from chatmd.language.parser import parse
from lmm.config import ModelSettings, Settings, is_chosen, load_settings
from lmm.config_files import find_config
from lmm.errors import ConfigError
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.powers import Config as ConfigFile

_TIERS = ("major", "minor", "aux")
_WITHOUT_EFFORT = ("Builtin", "Recorded")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Where settings come from: config.toml, the environment, what overrides them."""

    file: ConfigFile = field(default_factory=ConfigFile)
    environment: Mapping[str, str] | None = None
    model: str = ""

    def settings(self, overrides: Mapping[str, str] | None = None) -> Settings:
        """The settings that hold where no file says otherwise; `overrides` are model names by tier."""
        file = self.file
        return load_settings(file.text, self.environment, overrides=overrides, config_file=file.path, own=file.own)


def configuration_for(
    file: Path, config: Path | None = None, environment: Mapping[str, str] | None = None, model: str = ""
) -> Configuration:
    """What is configured for a file: by the file `config`, else by the one that is found.

    Raises:
        ConfigError: the one named does not exist.
    """
    environment = dict(os.environ if environment is None else environment)
    return Configuration(find_config(config, file, environment), environment, model)


def model_settings(config: Config, configuration: Configuration, *, own: bool = True) -> ModelSettings:
    """The model that `<config>` names, with what it says of temperature, tokens and effort; else the major one.

    A tier's name stands for its model; a name without a provider is OpenAI's, as in the published language.
    `configuration.model` counts more than what an agent's own file says (`own` is False for agents below).

    Raises:
        ConfigError: there is no such provider, or it cannot do what is asked for.

    >>> settings = model_settings(Config("gpt-4o", temperature=0.2), Configuration(environment={}))
    >>> str(settings.model), settings.temperature
    ('OpenAI/gpt-4o', 0.2)
    >>> file = ConfigFile(text='minor = "Ollama/llama3.2"')
    >>> str(model_settings(Config("minor"), Configuration(file, environment={})).model)
    'Ollama/llama3.2'
    """
    tier, named = _named(config, configuration, own)
    where = "--model" if configuration.model and own else config.span.where
    settings: ModelSettings = getattr(_with_model(named, configuration, where), tier)
    settings = replace(
        settings,
        temperature=settings.temperature if config.temperature is None else config.temperature,
        max_tokens=config.max_tokens or settings.max_tokens,
        reasoning_effort=config.reasoning_effort or settings.reasoning_effort,
    )
    if settings.reasoning_effort and settings.model.provider in _WITHOUT_EFFORT:
        raise ConfigError(
            f"{settings.model} has no reasoning effort to set", where=where, hint="leave 'reasoning_effort' out"
        )
    return settings


def settings_of(
    config: Config, configuration: Configuration, *, own: bool = True, overrides: Mapping[str, str] | None = None
) -> Settings:
    """The settings with which a file is worked on: what it tells no other model than its own, nobody else gets.

    Summaries, judgements and the like are made by the model that the file names, unless its author chose a model for
    that tier, or `overrides` do.

    >>> config = Configuration(environment={"OPENAI_API_KEY": "sk-…"})
    >>> str(settings_of(Config("Ollama/qwen3"), config).aux.model), str(settings_of(Config(), config).aux.model)
    ('Ollama/qwen3', 'OpenAI/gpt-4.1-nano')

    Raises:
        ConfigError: as `model_settings`.
    """
    tier, named = _named(config, configuration, own)
    settings = _with_model(named, configuration, "--model" if configuration.model and own else config.span.where)
    its_model: ModelSettings = getattr(settings, tier)
    if overrides:
        settings = configuration.settings(named | dict(overrides))
    if not named and tier == "major":
        return settings
    major, minor, aux = (getattr(settings, name) if is_chosen(settings, name) else its_model for name in _TIERS)
    return replace(settings, major=major, minor=minor, aux=aux)


def _named(config: Config, configuration: Configuration, own: bool) -> tuple[str, dict[str, str]]:
    """The tier of a file's model, and the model's name under that tier, if the file does not name just the tier."""
    name = (configuration.model if own else "") or config.model
    if name.lower() in ("", *_TIERS):
        return name.lower() or "major", {}
    return "major", {"major": name if "/" in name else f"OpenAI/{name}"}


def _with_model(named: Mapping[str, str], configuration: Configuration, where: str) -> Settings:
    """The settings with a model that is named at `where`."""
    try:
        return configuration.settings(named)
    except ConfigError as error:
        if error.where == "command line":  # it is the file that names it
            raise ConfigError(error.message, where=where, hint=error.hint) from error
        raise


def settings_for_text(
    text: str,
    file: Path,
    configuration: Configuration,
    *,
    roots: Sequence[Path] = (),
    overrides: Mapping[str, str] | None = None,
) -> Settings:
    """`settings_of` the ChatMD text of a file, however much is wrong with it."""
    spec = interpret(resolve_imports(parse(text, file=str(file)), roots=roots))[0]
    return settings_of(spec.config, configuration, overrides=overrides)


OpenModel = Callable[[ModelSettings], ChatModel]
open_model: OpenModel = shared_chat
