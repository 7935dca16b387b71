"""Work on whole files: complete and check them, answer their prompts, annotate them, run batch models.

Each function opens an `lmm.Document`, calls one of its methods, and saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from lmm import config_files
from lmm.arguments import check_call
from lmm.document import BatchFailed as BatchFailed, Document, ModelOptions, saved
from lmm.errors import Finding as Finding, LmmError, ModelRejected
from lmm.loop import background, blocking
from lmm.messages import ChatRequest, Listener, Reply, ignore
from lmm.models.client import Client
from lmm.models.port import Ask, ModelLike, given_model
from lmm.notebook.answers import AnsweredPrompt
from lmm.notebook.batch import BatchFunction
from lmm.notebook.edit_reply import read_edit_reply
from lmm.notebook.generated_fields import FieldStatus
from lmm.notebook.pending_prompts import Subject
from lmm.notebook.requests import chat_request, edit_request
from lmm.pipeline import Report
from lmm.prompts.templates import load_prompts
from lmm.watcher import watch_documents as watch_documents


def scan(path: str | Path, *, check: bool = False) -> tuple[Finding, ...]:
    """Complete a file's header if ``title`` or ``docid`` is missing, and report its problems.

    With `check`, nothing is written, and missing keys are reported.

    Raises:
        DocumentError: the file cannot be read or written.
    """
    document = Document.open(path)
    if not check and document.complete():
        document.save()
    return document.problems(gaps=check)


class Options(ModelOptions, total=False):
    """Options of all functions here: `config` and `listener` as in `lmm.Document.open`."""

    config: str | Path | None
    listener: Listener


class FieldOptions(Options, total=False):
    """Additional options of `lmm.Document.annotate` and `batch`."""

    refresh: bool
    estimate: bool


def scan_messages(path: str | Path, *, at: int | None = None, **options: Unpack[Options]) -> Report[AnsweredPrompt]:
    """Answer the pending prompts of a file and save it; nothing else in it changes (see `lmm.Document.answer`).

    A failed call leaves its prompt in place and is in the report. The author may save the file in the meantime.
    """
    document, how = _opened(path, options)
    return saved(document, lambda it: it.answer(at=at, **how))


def scan_rag(path: str | Path, *fields: str, **options: Unpack[FieldOptions]) -> Report[FieldStatus]:
    """Add annotations to a file: those named, or as configured (see `lmm.Document.annotate`)."""
    document, how = _opened(path, options)
    return saved(document, lambda it: it.annotate(*fields, **how))


def scan_batch(name: str | BatchFunction, path: str | Path, **options: Unpack[FieldOptions]) -> Report[FieldStatus]:
    """Run a registered batch model (or a function) on a file (see `lmm.Document.batch`)."""
    document, how = _opened(path, options)
    return saved(document, lambda it: it.batch(name, **how))


def _opened(path: str | Path, options: Mapping[str, Any]) -> tuple[Document, dict[str, Any]]:
    """Open a document; return it with the remaining options, which are for its methods."""
    how = dict(options)
    return Document.open(path, config=how.pop("config", None), listener=how.pop("listener", ignore)), how


# -- texts without a file --------------------------------------------------------------------------


@check_call
@background
async def aask(
    text: str,
    prompt: str,
    *,
    model: ModelLike | None = None,
    context: str = "",
    earlier: Sequence[tuple[str, str]] = (),
    config: str | Path | None = None,
    again: bool = False,
) -> str:
    """Ask a model about a text, and return its reply; many calls at once stay within the model's limit.

    The same question is not paid for twice: it is answered from the journal, unless `again` is set.

    Args:
        text: the text that the prompt refers to; may be empty.
        model: a name, such as ``Ollama/llama3.2``, or a model; else the configured one.
        context: the text around it, for orientation.
        earlier: the prompts and replies of the chat that the prompt continues, oldest first.
        config: a configuration file; else it is looked for as usual.

    Raises:
        ModelError: the model did not answer.
        ConfigError: the configuration names something unknown.
    """
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in earlier):
        raise TypeError(f"ask(): earlier must be a list of pairs, a prompt and its reply, not {earlier!r}")
    client = _client(model, config, again, prompt)
    request = chat_request(Subject("", (), text, context), prompt, earlier, client.settings.messages.system)
    return (await _reply(client, request, text, prompt, context, earlier)).text


ask = check_call(blocking(aask))


@check_call
@background
async def aedit(
    text: str,
    prompt: str,
    *,
    model: ModelLike | None = None,
    context: str = "",
    config: str | Path | None = None,
    again: bool = False,
) -> str:
    """Ask a model for a new version of a text, or, if the text is empty, for a text; return it.

    Arguments and errors are those of `ask`; a version that the model did not finish raises `ModelRejected`,
    a reply without a new text `NoEdit`.
    """
    client = _client(model, config, again, prompt)
    prompts = load_prompts(client.settings.prompts.folder)
    request = edit_request(Subject("", (), text, context), prompt, client.settings.messages.system, prompts)
    reply = await _reply(client, request, text, prompt, context, ())
    if reply.cut:  # replacing the text by it would lose the rest
        hint = "set a larger 'max_tokens' in config.toml and ask with again=True, or edit a smaller part"
        raise ModelRejected(f"{reply.model} was cut off at its output limit", hint=hint)
    return read_edit_reply(reply.text, text, prompt).text


edit = check_call(blocking(aedit))


async def _reply(client: Client, request: ChatRequest, text: str, prompt: str, context: str, earlier: Any) -> Reply:
    around = [context] if context else []  # part of the key here: it was passed by the caller, not found in a file
    key = (request.task, client.settings.messages.system, [list(pair) for pair in earlier], prompt, text, *around)
    return await client.ask(Ask(request, text=prompt, key=key))


def _client(model: ModelLike | None, config: str | Path | None, again: bool, prompt: str) -> Client:
    if not prompt.strip():
        raise LmmError("there is no question", hint="the prompt is empty")
    name, given = given_model(model)
    overrides = {"major": name} if name else {}
    settings = config_files.settings_for(config=Path(config) if config else None, overrides=overrides)
    return Client(settings, tier="major", model=given, again=again)
