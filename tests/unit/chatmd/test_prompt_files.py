"""The ChatMD files of a folder as tools: which files count, their names and their descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatmd.context import RunOptions
from chatmd.mcp_server import PublishedTools, read_prompts

ASKED, WAITING = "<user>Why?</user>\n", "<user>\n</user>\n"


def publish(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_what_is_a_prompt_and_what_is_not(tmp_path: Path) -> None:
    """It depends on the suffix, or on the beginning of the text; hidden files and folders are ignored."""
    publish(
        tmp_path,
        a__chatmd=WAITING,
        b__md="\ufeff\n<!-- c -->\n" + WAITING,
        notes__md="# Notes\n\n<user>x</user>\n",
        c__txt=WAITING,
        empty__md="",
        __hidden__chatmd=WAITING,
    )
    (tmp_path / "sub.chatmd").mkdir()
    prompts, notes = read_prompts(tmp_path)
    assert [prompt.name for prompt in prompts] == ["a", "b"]
    assert notes == []


def test_what_is_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beyond the limit, and a folder that cannot be listed."""
    publish(tmp_path, a__chatmd=WAITING, b__chatmd=WAITING, c__chatmd=WAITING)
    monkeypatch.setattr("chatmd.mcp_server._MOST", 2)
    prompts, notes = read_prompts(tmp_path)
    assert [prompt.name for prompt in prompts] == ["a", "b"]
    assert notes == [f"1 file of {tmp_path} is not published: there are more than 2"]
    none, notes = read_prompts(tmp_path / "a.chatmd")
    assert not none
    assert notes == [f"{tmp_path / 'a.chatmd'} cannot be read: Not a directory"]


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("<!-- Reviews\n  a text. -->\n<system>Be brief.</system>" + WAITING, "Reviews a text."),
        ("<system>You review. Be brief.</system><!-- later -->" + WAITING, "You review."),
        ("<developer>RAW|Only this|RAW</developer>" + WAITING, "Only this"),
        (WAITING, "The agent x.chatmd."),
        ("<system> </system>" + WAITING, "The agent x.chatmd."),
    ],
)
def test_what_a_prompt_says_of_itself(tmp_path: Path, text: str, description: str) -> None:
    """The comment at its top, or else the beginning of its instructions."""
    publish(tmp_path, x__chatmd=text)
    (prompt,), _ = read_prompts(tmp_path)
    assert prompt.description == description


def test_input_is_needed_where_nothing_is_asked(tmp_path: Path) -> None:
    """A file may contain its question."""
    publish(tmp_path, asked__chatmd=ASKED, waiting__chatmd=WAITING)
    prompts, _ = read_prompts(tmp_path)
    assert {prompt.name: prompt.needs_input for prompt in prompts} == {"asked": False, "waiting": True}


def test_names_are_those_that_clients_take(tmp_path: Path) -> None:
    """Two files that would have the same name get different ones, or one is reported."""
    publish(
        tmp_path, **{"my prompt__chatmd": WAITING, "my.prompt__chatmd": WAITING, "x__chatmd": ASKED, "x__md": ASKED}
    )
    prompts, notes = read_prompts(tmp_path, reserved_names=["y"])
    names = [prompt.name for prompt in prompts]
    assert names[0].startswith("my_prompt_")
    assert names[1].startswith("my_prompt_")
    assert len(set(names)) == 3
    assert notes == ["x.md is not published: there is another tool 'x' (rename the file)"]


def test_a_library_sees_what_changed(tmp_path: Path) -> None:
    """A note is sent only once."""
    said: list[str] = []
    library = PublishedTools(folder=tmp_path, note=said.append)
    publish(tmp_path, a__chatmd=WAITING)
    (tmp_path / "bad.chatmd").write_bytes(b"\xff")
    library.refresh()
    assert list(library.prompts) == ["a"]
    (tmp_path / "a.chatmd").unlink()
    library.refresh()
    assert library.prompts == {}
    assert len(said) == 1


def test_a_file_with_errors_is_told_of(tmp_path: Path) -> None:
    """It is published, as a call says what is wrong."""
    publish(tmp_path, broken__chatmd="broken <user>")
    ((prompt,), (note,)) = read_prompts(tmp_path)
    assert note == f"broken.chatmd has errors, so calls of the tool 'broken' fail: {prompt.problem}"


def test_inputs_that_an_import_of_another_folder_declares(tmp_path: Path) -> None:
    """The folders of config.toml count for what is published as they do for a run."""
    (prompts := tmp_path / "prompts").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "topic.chatmd").write_text('<input name="topic"/>')
    (config := tmp_path / "config.toml").write_text('[chatmd]\nroots = ["shared"]\n')
    publish(prompts, essay__chatmd='<import src="../shared/topic.chatmd"/><user>On {{topic}}</user>')
    said: list[str] = []
    library = PublishedTools(folder=prompts, options=RunOptions(config=config), note=said.append)
    library.refresh()
    assert (list(library.prompts["essay"].definition.parameters["properties"]), said) == (["input", "topic"], [])


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    """It has no prompts until it is back."""
    assert read_prompts(tmp_path / "gone") == ([], [])
