"""A question about more text than the model's window holds is answered over summaries, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.conftest import write_config
from fakes.openai_server import Action, ScriptedServer

from lmm.markdown import load_tree
from lmm.scan import scan_messages

SENTENCE = "The leaf of an oak is green because of the chlorophyll in its cells, and it falls in autumn. "


def long_document(folder: Path, summary: str = "---\n~summary_: All about leaves.\n---\n") -> Path:
    """A document of three long sections with summaries, and a question about the whole."""
    sections = "".join(f"{summary}# Section {n}\n\n{SENTENCE * 20}\n\n" for n in (1, 2, 3))
    path = folder / "long.md"
    path.write_text(f"---\ntitle: Long\n?: what is it about?\n---\n\n{sections}")
    return path


def test_over_the_summaries_that_are_there(server: ScriptedServer, folder: Path) -> None:
    """The outline with the summaries is sent, nothing else is asked; model and author are told."""
    write_config(folder, server, context_window=1000)
    path = long_document(folder)
    server.queue("It is about leaves.")
    outcome = scan_messages(path)
    assert not outcome.failures
    tree = load_tree(path)
    assert tree is not None
    (exchange,) = tree.own("chat_")
    assert exchange["~reply"] == (
        "It is about leaves.\n\n"
        "*(Answered from summaries of the sections: the text is longer than the model can read at once.)*"
    )
    (request,) = server.requests
    assert request.last.count("All about leaves.") == 3
    assert "too long to be sent whole" in request.last
    assert SENTENCE not in request.last


def test_without_summaries_it_is_not_sent(server: ScriptedServer, folder: Path) -> None:
    """The error says what to do."""
    write_config(folder, server, context_window=1000)
    (failure,) = scan_messages(long_document(folder, "")).failures
    assert not server.requests
    for way in ("ask at a section", "lmm annotate --summaries", "lmm ask"):
        assert way in failure.error.hint


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
    path = long_document(folder)
    told = {"message": "request (1500 tokens) exceeds the available context size (1000 tokens)", "n_ctx": 1000}
    server.answer = lambda request: Action(status=400, body={"error": told}) if len(request.last) > 4000 else "Leaves."
    assert not scan_messages(path).failures
    assert "Leaves." in path.read_text()
    assert "Answered from summaries" in path.read_text()


def test_a_server_that_refuses_the_length_gets_less_context(server: ScriptedServer, folder: Path) -> None:
    """A short text in a long document is asked about with what is around it, as far as it fits."""
    path = folder / "long.md"
    others = "".join(f"# Section {n}\n\n{SENTENCE * 20}\n\n" for n in range(9))
    path.write_text(f"{others}# Oaks\n\n---\n?: why?\n---\nAn oak is a tree.\n")
    told = {"message": "request (5000 tokens) exceeds the available context size (1000 tokens)", "n_ctx": 1000}
    server.answer = lambda request: Action(status=400, body={"error": told}) if len(request.last) > 3000 else "So."
    assert not scan_messages(path).failures
    assert len(server.requests) == 2


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
