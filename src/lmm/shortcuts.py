"""Ask, edit and extract in one call: text that is in no file, with the same models, prompts and settings as in files.

>>> from lmm.testing import ScriptedModel
>>> ask("A leaf is green.", "Which colour?", model=ScriptedModel(["Green."]))
'Green.'
>>> edit("A leaf, it is green.", "shorten", model=ScriptedModel(["A leaf is green."]))
'A leaf is green.'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, overload

from lmm import config_files
from lmm.document import Document
from lmm.errors import ModelRejected
from lmm.extraction import Record, RecordSource, plan_records, read_records
from lmm.loop import background, blocking
from lmm.markdown.tree import HeadingNode
from lmm.messages import ChatRequest, Reply
from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import make_schema
from lmm.notebook.answers import Subject, chat_request, edit_request
from lmm.notebook.edits import unwrapped
from lmm.prompts.templates import load_prompts

T = TypeVar("T")
Earlier = Sequence[tuple[str, str]]
Source = str | Path | HeadingNode
Model = str | ChatModel | None


class More(TypedDict, total=False):
    """Further options of `extract`."""

    config: str | Path | None
    again: bool


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
    client = _client("major", model, config, again)
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
    client = _client("major", model, config, again)
    prompts = load_prompts(client.settings.prompts_folder)
    request = edit_request(Subject("", (), text, context), prompt, client.settings.system, prompts)
    reply = await _reply(client, request, text, prompt, context, ())
    if reply.cut:  # who replaces the text by it would lose the rest
        raise ModelRejected(
            f"{reply.model} was cut off at its output limit",
            hint="set a larger 'max_tokens' in config.toml and ask with again=True, or edit a smaller part",
        )
    return unwrapped(reply.text)


edit = blocking(aedit)


async def _reply(client: Client, request: ChatRequest, text: str, prompt: str, context: str, earlier: Earlier) -> Reply:
    around = [context] if context else []  # counts here: it was given, not found in a file
    key = (request.task, client.settings.system, [list(pair) for pair in earlier], prompt, text, *around)
    return await client.ask(Ask(request, text=prompt, key=key))


# -- data ------------------------------------------------------------------------------------------


@background
async def _extract(
    document: Source,
    schema: Any,
    select: str | None,
    model: Model,
    config: str | Path | None,
    again: bool,
) -> list[Record[Any]]:
    compiled = make_schema(schema)
    report = await read_records(plan_records([_source(document, model, config, again)], compiled, select), compiled)
    return list(report.check().results)


def _source(document: Source, model: Model, config: str | Path | None, again: bool) -> RecordSource:
    if isinstance(document, HeadingNode):
        client = _client("minor", model, config, again, document.root.metadata)
        return RecordSource(document, client, load_prompts(client.settings.prompts_folder))
    is_text = isinstance(document, str) and "\n" in document
    found = Document.from_text(str(document), config=config) if is_text else Document.open(document, config=config)
    return found.source(model=model, again=again)


@overload
async def aextract(
    document: Source, schema: type[list[T]], select: str | None = None, model: Model = None, **_: Unpack[More]
) -> list[Record[T]]: ...
@overload
async def aextract(
    document: Source, schema: type[T], select: str | None = None, model: Model = None, **_: Unpack[More]
) -> list[Record[T]]: ...
@overload
async def aextract(
    document: Source, schema: Mapping[str, Any], select: str | None = None, model: Model = None, **_: Unpack[More]
) -> list[Record[Any]]: ...
async def aextract(
    document: str | Path | HeadingNode,
    schema: Any,
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[Any]]:
    """`extract` for callers with an event loop of their own; many at once stay within the model's limit."""
    return await _extract(document, schema, select, model, config, again)


@overload
def extract(
    document: Source, schema: type[list[T]], select: str | None = None, model: Model = None, **_: Unpack[More]
) -> list[Record[T]]: ...
@overload
def extract(
    document: Source, schema: type[T], select: str | None = None, model: Model = None, **_: Unpack[More]
) -> list[Record[T]]: ...
@overload
def extract(
    document: Source, schema: Mapping[str, Any], select: str | None = None, model: Model = None, **_: Unpack[More]
) -> list[Record[Any]]: ...
def extract(
    document: str | Path | HeadingNode,
    schema: Any,
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[Any]]:
    """One record per section of a document, or several where `schema` is a list (see `lmm.Document.extract`).

    Every record is valid: a reply that is not is sent back with the error, twice. The same question is not
    paid twice: what the journal knows is not asked, unless `again` is set.

    Args:
        document: a path; a string with a line end in it, which is the markdown itself; or a tree.
        schema: a Pydantic model, a list of one, any type Pydantic knows, or a JSON schema as a mapping.
        select: a title or part of one, or ``key=value`` for metadata; else every section with text of its own.
        model: a name, such as ``OpenAI/gpt-4.1-mini``, or a model; else the configured minor model.

    Raises:
        PartlyFailed: after all sections were read, if some gave no data; its report has the records of the others.
        DocumentError, ConfigError: the document, the schema or the configuration cannot be read.

    >>> from lmm.testing import ScriptedModel
    >>> schema = {"type": "object", "properties": {"phases": {"type": "integer"}}, "required": ["phases"]}
    >>> extract("# Mitosis\\n\\nFour phases.\\n", schema, model=ScriptedModel(['{"phases": 4}']))
    [Record(file='', line=1, headings=('Mitosis',), value={'phases': 4})]
    """
    return blocking(_extract)(document, schema, select, model, config, again)


def _client(
    tier: str, model: Model, config: str | Path | None, again: bool, header: Mapping[str, Any] | None = None
) -> Client:
    name, given = (model, None) if isinstance(model, str) else (None, model)
    overrides = {tier: name} if name is not None else {}
    settings = config_files.settings_for(header=header, config=Path(config) if config else None, overrides=overrides)
    return Client(settings, tier=tier, model=given, again=again)
