"""A question about more text than the model's window holds is answered over summaries, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.conftest import write_config
from fakes.openai_server import Action, Recorded, ScriptedServer

from lmm.markdown import load_tree
from lmm.scan import scan_messages

SENTENCE = "The leaf of an oak is green because of the chlorophyll in its cells, and it falls in autumn. "


def test_over_section_summaries(server: ScriptedServer, folder: Path) -> None:
    """Sections are summarised first; the question is asked over their summaries; the reply tells the author."""
    write_config(folder, server, context_window=1000)
    sections = "".join(f"# Section {n}\n\n{SENTENCE * 20}\n\n" for n in (1, 2, 3))
    path = folder / "long.md"
    path.write_text(f"---\ntitle: Long\n?: what is it about?\n---\n\n{sections}")

    server.answer = lambda request: (
        "It is about leaves." if "what is it about?" in request.last else "A summary of the section."
    )
    outcome = scan_messages(path)
    assert not outcome.failures
    tree = load_tree(path)
    assert tree is not None
    (exchange,) = tree.own("chat_")
    assert exchange["~reply"] == (
        "It is about leaves.\n\n"
        "*(Answered from summaries of the sections: the text is longer than the model can read at once.)*"
    )
    question = server.requests[-1].last
    assert question.count("A summary of the section.") == 4  # three sections, and the document
    assert SENTENCE not in question
    assert "~summary_" not in path.read_text()


def test_a_text_that_fits_is_sent_as_it_is(server: ScriptedServer, folder: Path) -> None:
    """No summaries, no notice."""
    write_config(folder, server, context_window=4000)
    path = folder / "short.md"
    path.write_text(f"---\n?: what is it about?\n---\n# A\n\n{SENTENCE * 20}\n")
    server.queue("Leaves.")
    outcome = scan_messages(path)
    assert [answered.reply.text for answered in outcome.results] == ["Leaves."]
    assert len(server.requests) == 1


def test_a_server_that_refuses_the_length_is_asked_over_summaries(server: ScriptedServer, folder: Path) -> None:
    """Nobody configured its window: it tells it when it refuses, and is asked once more."""
    sections = "".join(f"# Section {n}\n\n{SENTENCE * 20}\n\n" for n in (1, 2, 3))
    path = folder / "long.md"
    path.write_text(f"---\ntitle: Long\n?: what is it about?\n---\n\n{sections}")
    told = {"message": "request (1500 tokens) exceeds the available context size (1000 tokens)", "n_ctx": 1000}

    def answer(request: Recorded) -> Action | str:
        if len(request.last) > 4000:
            return Action(status=400, body={"error": told})
        return "It is about leaves." if "what is it about?" in request.last else "A summary."

    server.answer = answer
    assert not scan_messages(path).failures
    assert "It is about leaves." in path.read_text()
    assert "Answered from summaries" in path.read_text()


@pytest.mark.parametrize("prompt", ["?: what is it about?", "=: shorten it"])
def test_a_paragraph_that_cannot_fit_is_not_sent(server: ScriptedServer, folder: Path, prompt: str) -> None:
    """It has no sections to summarise, and some servers cut what is too long without a word."""
    write_config(folder, server, context_window=1000)
    path = folder / "long.md"
    path.write_text(f"# A\n\nText.\n\n---\n{prompt}\n---\n{SENTENCE * 100}\n")
    (failure,) = scan_messages(path).failures
    assert "words" in str(failure.error)
    assert "1,000 tokens" in str(failure.error)
    assert "choose a smaller part" in failure.error.hint
    assert not server.requests


def test_a_server_refuses_a_paragraph(server: ScriptedServer, folder: Path) -> None:
    """The hint does not name something longer."""
    path = folder / "long.md"
    path.write_text(f"# A\n\nText.\n\n---\n?: what is it about?\n---\n{SENTENCE * 100}\n")
    server.answer = lambda request: Action(status=400, body={"error": {"message": "prompt is too long"}})
    (failure,) = scan_messages(path).failures
    assert "section" not in failure.error.hint


def test_a_summary_that_fails_is_explained_in_one_sentence(server: ScriptedServer, folder: Path) -> None:
    """With one hint, not a hint within a hint."""
    write_config(folder, server, context_window=1000)
    path = folder / "long.md"
    path.write_text(f"---\n?: what is it about?\n---\n\n# A\n\n{SENTENCE * 50}\n")
    server.answer = lambda request: Action("A long summ", finish="length")
    (failure,) = scan_messages(path).failures
    assert str(failure.error).count("(") == 1
    assert "could not be summarised: " in failure.error.message
