"""The model that a file's `<config>` asks for, with the settings that hold everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from chatmd.language.items import Config
from lmm.config import ModelSettings, Settings, load_settings
from lmm.errors import ConfigError
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel

_TIERS = ("major", "minor", "aux")
_WITHOUT_EFFORT = ("Builtin", "Recorded")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Where settings come from: the text of config.toml and its path, the environment, what overrides them."""

    toml_text: str = ""
    file: Path | None = None
    environment: Mapping[str, str] | None = None
    model: str = ""

    def settings(self, document: str = "", model: str = "") -> Settings:
        """The settings, with `model` for the major one, if it is not empty."""
        overrides = {"major": model} if model else {}
        return load_settings(
            self.toml_text, self.environment, overrides=overrides, config_file=self.file, document=document
        )


def model_settings(config: Config, configuration: Configuration, *, own: bool = True) -> ModelSettings:
    """The model that `<config>` names, with what it says of temperature, tokens and effort; else the major one.

    A tier's name stands for its model; a name without a provider is OpenAI's, as in the published language.
    `configuration.model` counts more than what an agent's own file says (`own` is False for agents below).

    Raises:
        ConfigError: there is no such provider, or it cannot do what is asked for.

    >>> settings = model_settings(Config("gpt-4o", temperature=0.2), Configuration(environment={}))
    >>> str(settings.model), settings.temperature
    ('OpenAI/gpt-4o', 0.2)
    >>> str(model_settings(Config("minor"), Configuration('minor = "Ollama/llama3.2"', environment={})).model)
    'Ollama/llama3.2'
    """
    name = (configuration.model if own else "") or config.model
    tier = name.lower() if name.lower() in _TIERS else "major"
    full = "" if name.lower() in ("", *_TIERS) else name if "/" in name else f"OpenAI/{name}"
    where = "--model" if configuration.model and own else config.span.where
    try:
        settings: ModelSettings = getattr(configuration.settings(model=full), tier)
    except ConfigError as error:
        if error.where == "command line":  # it is the file that names it
            raise ConfigError(error.message, where=where, hint=error.hint) from error
        raise
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


OpenModel = Callable[[ModelSettings], ChatModel]
open_model: OpenModel = shared_chat
