"""What goes along with a prompt: pictures of the text it is about, files, pages and passages that it names."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from edge.support import exchanges_of, run_here
from fakes.openai_server import ScriptedServer, fail

from lmm.cli.main import main

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def figure(folder: Path) -> Path:
    """A document with a question on a figure."""
    (folder / "img").mkdir()
    (folder / "img/leaf.png").write_bytes(PNG)
    path = folder / "d.md"
    path.write_text("# Leaves\n\n---\n?: what is this?\n---\n![A leaf](img/leaf.png){width=50%}\n")
    return path


def test_a_question_on_a_figure_sends_the_figure(server: ScriptedServer, figure: Path) -> None:
    """As the Chat Completions protocol has it: after the text, in base64."""
    server.queue("A leaf.")
    assert main(["messages", "d.md"]) == 0
    content = server.requests[0].body["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert base64.b64decode(content[1]["image_url"]["url"].partition("base64,")[2]) == PNG


def test_a_model_that_sees_nothing_is_asked_without(
    server: ScriptedServer, figure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """llama.cpp without a projector refuses; the author gets an answer, and is told what was left out."""
    server.queue(fail(500, "image input is not supported - hint: you may need to provide the mmproj"), "A leaf.")
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, exchanges_of(figure)) == (0, [("what is this?", "A leaf.")])
    assert isinstance(server.requests[-1].body["messages"][-1]["content"], str)
    assert "d.md:4: OpenAICompatible/test does not accept pictures; they were left out" in ran.out


def test_a_picture_that_is_missing_is_told_of(
    server: ScriptedServer, figure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question does not depend on it."""
    (figure.parent / "img/leaf.png").unlink()
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, len(server.requests)) == (0, 1)
    assert "the picture img/leaf.png is not sent: there is no such file" in ran.out


def test_files_that_a_prompt_names_go_along(server: ScriptedServer, folder: Path) -> None:
    """Fenced and named, also in the dry run; what is no file is a word like any other."""
    (folder / "my notes.md").write_text("Roots are brown.\n")
    (folder / "d.md").write_text('---\n?: ask @anna about @"my notes.md", says @smith.2020.\n---\nText.\n')
    assert main(["messages", "d.md"]) == 0
    assert '<document from="my notes.md">\nRoots are brown.\n\n</document>' in server.requests[0].last


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("@missing.md", "@missing.md: there is no such file"),
        ("@../d.md", "this path leads out of its folder"),
        ("@.env", "its name suggests keys or passwords"),
        ("@http://127.0.0.1:1/x", "127.0.0.1"),
        ("@course: roots", "lmm ingest"),
    ],
)
def test_what_cannot_go_along_is_an_error_at_the_prompt(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str], named: str, error: str
) -> None:
    """Nothing is asked, the prompt stays."""
    (folder / ".env").write_text("KEY=1")
    (folder / "d.md").write_text(f"---\n?: see {named}\n---\nText.\n")
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, server.requests) == (1, [])
    assert "d.md:2" in ran.err
    assert error in ran.err


def test_passages_of_the_course_go_along(server: ScriptedServer, folder: Path) -> None:
    """What search finds for the phrase, with its place."""
    (folder / "roots.md").write_text("# Roots\n\nRoots are brown because of tannin.\n")
    (folder / "config.toml").write_text(
        (folder / "config.toml").read_text() + '[embedding]\nmodel = "Builtin/wordllama"\n'
    )
    assert main(["ingest", "roots.md", "--quiet"]) == 0
    (folder / "d.md").write_text("---\n?: why? @course: brown roots\n---\nText.\n")
    assert main(["messages", "d.md"]) == 0
    assert '<passage from="roots.md:' in server.requests[-1].last
