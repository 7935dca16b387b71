"""Ask and edit in one call: text that is in no file, with the same models, prompts and settings as in files.

>>> from lmm.testing import ScriptedModel
>>> ask("A leaf is green.", "Which colour?", model=ScriptedModel(["Green."]))
'Green.'
>>> edit("A leaf, it is green.", "shorten", model=ScriptedModel(["A leaf is green."]))
'A leaf is green.'
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmm import config_files
from lmm.errors import ModelRejected
from lmm.loop import background, blocking
from lmm.messages import ChatRequest, Reply
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.notebook.answers import Subject, chat_request, edit_request
from lmm.notebook.edits import unwrapped
from lmm.prompts.templates import load_prompts

Earlier = Sequence[tuple[str, str]]
Model = str | ChatModel | None


@background
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
    """The model's reply to a prompt about a text; many at once stay within the model's limit.

    The same question is not paid twice: it is answered from the journal, unless `again` asks again.

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
    client = _client(model, config, again)
    request = chat_request(Subject("", (), text, context), prompt, earlier, client.settings.system)
    return (await _reply(client, request, text, prompt, context, earlier)).text


ask = blocking(aask)


@background
async def aedit(
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
    client = _client(model, config, again)
    prompts = load_prompts(client.settings.prompts_folder)
    request = edit_request(Subject("", (), text, context), prompt, client.settings.system, prompts)
    reply = await _reply(client, request, text, prompt, context, ())
    if reply.cut:  # who replaces the text by it would lose the rest
        hint = "set a larger 'max_tokens' in config.toml and ask with again=True, or edit a smaller part"
        raise ModelRejected(f"{reply.model} was cut off at its output limit", hint=hint)
    return unwrapped(reply.text)


edit = blocking(aedit)


async def _reply(client: Client, request: ChatRequest, text: str, prompt: str, context: str, earlier: Earlier) -> Reply:
    around = [context] if context else []  # counts here: it was given, not found in a file
    key = (request.task, client.settings.system, [list(pair) for pair in earlier], prompt, text, *around)
    return await client.ask(Ask(request, text=prompt, key=key))


def _client(model: Model, config: str | Path | None, again: bool) -> Client:
    name, given = (model, None) if isinstance(model, str) else (None, model)
    overrides = {"major": name} if name is not None else {}
    settings = config_files.settings_for(config=Path(config) if config else None, overrides=overrides)
    return Client(settings, tier="major", model=given, again=again)
