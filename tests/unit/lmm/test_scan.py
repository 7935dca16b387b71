"""Chat and edits about text in no file: the requests are those of files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import talking
from fakes.openai_server import Action, ScriptedServer

import lmm
from lmm.config import DEFAULT_SYSTEM
from lmm.errors import ConfigError, ModelRejected
from lmm.messages import Attachment, ChatRequest, Message, Reply, render
from lmm.prompts.templates import packaged_prompt
from lmm.testing import ScriptedModel

TEXT = "A leaf is green."


def test_what_is_sent() -> None:
    """System message, text, context, prompt; the documents come with the first prompt of a chat."""
    model = ScriptedModel(["Why not?"])
    assert lmm.ask(TEXT, "Why?", model=model, context="All of it.", earlier=[("Green?", "Yes.")]) == "Why not?"
    documents = (Attachment("All of it.", "context"), Attachment(TEXT, "text"))
    assert model.seen == [
        ChatRequest(
            (
                Message("system", f"{DEFAULT_SYSTEM}\n\n{packaged_prompt('tags')}\n\n{packaged_prompt('fences')}"),
                Message("user", "Green?", documents),
                Message("assistant", "Yes."),
                Message("user", "Why?"),
            )
        )
    ]


@pytest.mark.parametrize("word", ["?", "="])
def test_the_same_as_in_a_file(word: str) -> None:
    """Apart from where the text comes from, and from what surrounds it, the request is the same."""
    in_file, here = ScriptedModel(["A."]), ScriptedModel(["A."])
    talking.answered(f"---\n{word}: shorter\n---\n{TEXT}\n", model=in_file)
    (lmm.ask if word == "?" else lmm.edit)(TEXT, "shorter", model=here, again=True)
    of_file, of_text = in_file.seen[0], here.seen[0]
    assert of_file.task == of_text.task
    assert [render(m) for m in of_file.messages] == [render(m) for m in of_text.messages]


def test_an_edit_is_unwrapped() -> None:
    """As in files, a fence around the whole reply is none of the text."""
    model = ScriptedModel(["```markdown\nGreen.\n```"])
    assert lmm.edit(TEXT, "shorten", model=model) == "Green."
    assert render(model.seen[0].messages[1]).startswith(f"<text>\n{TEXT}\n</text>\n\nshorten\n\nWrite the new version")


def test_an_edit_that_the_model_did_not_finish_is_refused() -> None:
    """Else a program would replace a text by a stump; what is remembered of it is refused, too."""
    model = talking.PaidScript([Reply("A leaf is", "M/m", cut=True)])
    for _ in range(2):
        with pytest.raises(ModelRejected, match=r"cut off at its output limit .set a larger 'max_tokens'"):
            lmm.edit(TEXT, "polish it", model=model)


def test_an_edit_of_nothing_writes() -> None:
    """Without a text, the prompt for writing is used, and no empty document is sent."""
    model = ScriptedModel(["A poem."])
    assert lmm.edit("", "a poem", model=model) == "A poem."
    assert render(model.seen[0].messages[1]).startswith("a poem\n\nWrite the text")


def test_the_same_question_is_paid_once() -> None:
    """Also if it was asked in a file; another context is another question, and `again` asks anew."""
    talking.answered(f"---\n?: Why?\n---\n{TEXT}\n", model=talking.PaidScript(["Because."]))
    assert lmm.ask(TEXT, "Why?", model=talking.PaidScript([])) == "Because."
    assert lmm.ask(TEXT, "Why?", model=talking.PaidScript(["So."]), context="c") == "So."
    assert lmm.ask(TEXT, "Why?", model=talking.PaidScript(["Anew."]), again=True) == "Anew."


def test_without_a_key_the_built_in_model_quotes_and_does_not_edit() -> None:
    """The default is the configured model."""
    assert lmm.ask(TEXT, "Which colour has a leaf?").startswith("> A leaf is green.")
    with pytest.raises(ModelRejected):
        lmm.edit(TEXT, "shorten")


def test_unknown_models_are_refused() -> None:
    """By name, as everywhere."""
    with pytest.raises(ConfigError, match="OpenAI"):
        lmm.ask(TEXT, "Why?", model="OpenIA/gpt")


def test_wrong_types_are_named() -> None:
    """Before anything is asked."""
    with pytest.raises(TypeError, match="a model is a name, a function, or an object with a method 'stream', not 3"):
        lmm.ask("A", "q", model=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text must be str, not None"):
        lmm.Document.from_text(None)  # type: ignore[arg-type]


def test_many_at_once_stay_within_the_limit(tmp_path: Path) -> None:
    """`concurrency` holds over all calls of a process."""
    config = tmp_path / "config.toml"
    with ScriptedServer(lambda request: Action(f"{request.prompt}!", delay=0.02)) as server:
        config.write_text(f'[major]\nmodel = "OpenAICompatible/m"\nbase_url = "{server.url}"\nconcurrency = 3\n')

        async def all_of_them() -> list[str]:
            return await asyncio.gather(*(lmm.aask(TEXT, str(n), config=config) for n in range(12)))

        assert asyncio.run(all_of_them()) == [f"{n}!" for n in range(12)]
    assert server.most_in_flight == 3


def test_the_async_edit() -> None:
    """On a loop of the caller's own."""
    assert asyncio.run(lmm.aedit(TEXT, "shorten", model=ScriptedModel(["Green."]))) == "Green."
