"""Chat and edits about text that is in no file: the same models, system message and prompts as in files.

>>> from lmm.models.testing import ScriptedModel
>>> ask("A leaf is green.", "Which colour?", model=ScriptedModel(["Green."]))
'Green.'
>>> edit("A leaf, it is green.", "shorten", model=ScriptedModel(["A leaf is green."]))
'A leaf is green.'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmm import config_files, loop
from lmm.config import Settings
from lmm.disk import journal
from lmm.errors import ModelRejected
from lmm.messages import ChatRequest, Reply
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.models.remembered import ask_once
from lmm.prompts.load import load_prompts
from lmm.scan.edits import unwrapped
from lmm.scan.messages import Subject, chat_request, edit_request

Earlier = Sequence[tuple[str, str]]


def ask(
    text: str,
    prompt: str,
    *,
    model: str | ChatModel | None = None,
    context: str = "",
    earlier: Earlier = (),
    config: str | Path | None = None,
    again: bool = False,
) -> str:
    """The model's reply to a prompt about a text.

    The same question is not paid twice: it is answered from the journal, unless `again` asks anew.

    Args:
        text: what "the text" means in the prompt; may be empty.
        model: a name, such as ``Ollama/llama3.2``, or a model; else the configured one.
        context: what surrounds the text, for orientation.
        earlier: the prompts and replies of the chat that the prompt continues, oldest first.
        config: a configuration file; else it is looked for as always.

    Raises:
        ModelError: the model did not answer.
        ConfigError: the configuration asks for something unknown.
    """
    return loop.run(_Question(text, prompt, model, context, earlier, config, again).answer())


async def aask(
    text: str,
    prompt: str,
    *,
    model: str | ChatModel | None = None,
    context: str = "",
    earlier: Earlier = (),
    config: str | Path | None = None,
    again: bool = False,
) -> str:
    """`ask` for callers with an event loop of their own; many at once stay within the model's limit."""
    return await loop.run_async(_Question(text, prompt, model, context, earlier, config, again).answer())


def edit(
    text: str,
    prompt: str,
    *,
    model: str | ChatModel | None = None,
    context: str = "",
    config: str | Path | None = None,
    again: bool = False,
) -> str:
    """The model's new version of a text; with an empty text, what it writes for the prompt.

    Arguments and errors are those of `ask`; a version that the model did not finish is refused (`ModelRejected`).
    """
    return loop.run(_Question(text, prompt, model, context, (), config, again).edited())


async def aedit(
    text: str,
    prompt: str,
    *,
    model: str | ChatModel | None = None,
    context: str = "",
    config: str | Path | None = None,
    again: bool = False,
) -> str:
    """`edit` for callers with an event loop of their own; many at once stay within the model's limit."""
    return await loop.run_async(_Question(text, prompt, model, context, (), config, again).edited())


@dataclass(frozen=True, slots=True)
class _Question:
    """What was asked, and of whom."""

    text: str
    prompt: str
    model: str | ChatModel | None
    context: str
    earlier: Earlier
    config: str | Path | None
    again: bool

    async def answer(self) -> str:
        settings = self._settings()
        asked = chat_request(self._subject, self.prompt, self.earlier, settings.system)
        return (await self._reply(asked, settings)).text

    async def edited(self) -> str:
        settings = self._settings()
        prompts = load_prompts(settings.prompts_folder)
        reply = await self._reply(edit_request(self._subject, self.prompt, settings.system, prompts), settings)
        if reply.cut:  # who replaces the text by it would lose the rest
            raise ModelRejected(
                f"{reply.model} was cut off at its output limit",
                hint="set a larger 'max_tokens' in config.toml and ask with again=True, or edit a smaller part",
            )
        return unwrapped(reply.text)

    @property
    def _subject(self) -> Subject:
        return Subject("", (), self.text, self.context)

    def _settings(self) -> Settings:
        overrides = {"major": self.model} if isinstance(self.model, str) else {}
        return config_files.settings_for(config=Path(self.config) if self.config else None, overrides=overrides)

    async def _reply(self, request: ChatRequest, settings: Settings) -> Reply:
        model = shared_chat(settings.major) if self.model is None or isinstance(self.model, str) else self.model
        around = [self.context] if self.context else []  # counts here: it was given, not found in a file
        earlier = [list(pair) for pair in self.earlier]
        key = journal.key_of(request.task, model.name, settings.system, earlier, self.prompt, self.text, *around)
        reply, _ = await ask_once(model, request, key, again=self.again)
        return reply
