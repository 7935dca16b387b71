"""Open the chat model that the settings name, wrapped with retries, time-outs and limits."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

from lmm.config import ModelSettings
from lmm.errors import ModelKeyMissing, ModelNotFound
from lmm.models.builtin import ExtractiveModel, RecordedModel
from lmm.models.port import ChatModel
from lmm.models.retry import Resilient
from lmm.providers import PROVIDERS


def open_chat(settings: ModelSettings) -> ChatModel:
    """The chat model of one tier, ready to be asked.

    Raises:
        ModelKeyMissing: the provider needs a key and there is none.
        ModelNotFound: `Builtin` has no model of that name, or the provider only embeds.
        ModelNotInstalled: the extra for the provider is not installed.
    """
    model = _open(settings)
    return Resilient(model, settings.timeout, settings.max_retries, asyncio.Semaphore(settings.concurrency))


def shared_chat(settings: ModelSettings) -> ChatModel:
    """`open_chat`, the same model for equal settings: many calls side by side stay within one limit.

    Recorded replies are read anew: their file may have changed, and the current folder, too.
    """
    return open_chat(settings) if settings.model.provider == "Recorded" else _shared(settings)


_shared = functools.lru_cache(maxsize=16)(open_chat)


def _open(settings: ModelSettings) -> ChatModel:
    name = settings.model
    provider = PROVIDERS[name.provider.lower()]
    if provider.name == "Builtin":
        if name.model != provider.major:
            raise ModelNotFound(f"there is no built-in chat model '{name.model}'", hint=f"use Builtin/{provider.major}")
        return ExtractiveModel()
    if provider.name == "Recorded":
        return RecordedModel(Path(name.model))
    if not provider.chats:
        raise ModelNotFound(
            f"{provider.name} is an embedding model and cannot answer",
            where=settings.origin,
            hint="set it under [embedding], and a chat model such as Ollama/llama3.2 here",
        )
    if settings.missing_key:
        raise ModelKeyMissing(
            f"{name} needs an API key",
            where=settings.origin,
            hint=f"export {settings.missing_key}=…, or choose another model: lmm status",
        )
    from lmm.models.pydantic_ai_adapter import PydanticAIModel

    return PydanticAIModel(settings)
