"""Declarations of commands, checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from chatmd.config import ChatmdSettings
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.command import find_program, minimal_environment, open_command, split_command
from lmm.config import load_settings
from lmm.loop import run
from lmm.messages import ToolDefinition

HERE = {"PATH": os.environ["PATH"]}


def definition(folder: Path, tool: Tool, environment: Mapping[str, str] = HERE, toml: str = "") -> ToolDefinition:
    async def go() -> ToolDefinition:
        place = Run(folder, load_settings(toml, environment), ChatmdSettings(), environment)
        async with open_command(tool, place) as (opened,):
            return opened.definition

    return run(go())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rg -n", ("rg", "-n")),
        ("sh -c 'rg \"$@\" | head' sh", ("sh", "-c", 'rg "$@" | head', "sh")),
        ("find . -exec wc {} \\;", ("find", ".", "-exec", "wc", "{}", ";")),
        ("grep '|' \"a b\"", ("grep", "|", "a b")),
        ("echo $HOME ~ * # no comment", ("echo", "$HOME", "~", "*", "#", "no", "comment")),
        ("my\\ tool", ("my tool",)),
    ],
)
def test_commands_are_split_as_a_shell_does_and_nothing_is_expanded(command: str, words: tuple[str, ...]) -> None:
    assert split_command(command) == words


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("rg 'open", "cannot be split: no closing quotation (close the quotes)"),
        ("", "contains no program"),
        ("  ", "contains no program"),
        ("a\0b", "contains no program"),
        ("rg -n | head", "uses '|', but there is no shell"),
        ("make && make test", "uses '&&'"),
        ("ls > files", "uses '>'"),
    ],
)
def test_commands_that_mean_nothing_without_a_shell(command: str, message: str) -> None:
    with pytest.raises(ChatmdError) as raised:
        split_command(command, "p.md:1:1")
    assert message in str(raised.value)
    assert str(raised.value).startswith("p.md:1:1: ")


def test_programs_are_found_on_the_path_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the prompt, or in the current folder, is used only if its path is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check").write_text("#!/bin/sh\n")
    (tmp_path / "check").chmod(0o755)
    with pytest.raises(ChatmdError, match=r"no program 'check' on the PATH .*command=\"./check\""):
        find_program("check", tmp_path, minimal_environment({"PATH": ".::/bin"})["PATH"])
    assert find_program("./check", tmp_path, "") == str(tmp_path / "check")
    assert find_program("check", tmp_path, str(tmp_path)) == str(tmp_path / "check")
    with pytest.raises(ChatmdError, match=r"no program 'nothing-like-it' on the PATH \(install it"):
        find_program("nothing-like-it", tmp_path, HERE["PATH"])


def test_what_the_model_is_told(tmp_path: Path) -> None:
    tool = Tool("command", "list", "Lists files.", "ls -l", timeout=5)
    told = definition(tmp_path, tool)
    assert told.name == "list"
    assert told.description.startswith("Lists files. Runs `ls -l` with your arguments after it, in the working folder.")
    assert "stopped after 5 s" in told.description
    assert (told.parameters["required"], told.parameters["additionalProperties"]) == ([], False)
    assert set(told.parameters["properties"]) == {"arguments", "stdin"}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"cwd": "nowhere"}, 'cwd="nowhere" is not a folder'),
        ({"env": ("UNSET",)}, "the environment variable UNSET is not set (export UNSET=…)"),
        ({"env": ("OPENAI_API_KEY",)}, 'env="OPENAI_API_KEY": a key of a model provider is not given to programs'),
        ({"env": ("HOUSE_KEY",)}, 'env="HOUSE_KEY": a key of a model provider is not given to programs'),
    ],
)
def test_declarations_that_cannot_be_opened(tmp_path: Path, attributes: dict[str, object], message: str) -> None:
    """The error comes before a model is paid; variables that the settings name as keys are refused too."""
    tool = Tool("command", "list", command="ls", **attributes)  # type: ignore[arg-type]
    toml = '[major]\nmodel = "OpenAICompatible/x"\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "HOUSE_KEY"\n'
    with pytest.raises(ChatmdError) as raised:
        definition(tmp_path, tool, HERE | {"OPENAI_API_KEY": "sk", "HOUSE_KEY": "hk"}, toml)
    assert message in str(raised.value)
    assert "sk" not in str(raised.value).split()
