"""The command line: help, usage errors, exit codes, and the small commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from fakes.forked import run_python

from lmm.cli.main import COMMANDS, CommandRow, load, main


def lmm(*words: str, cwd: Path | None = None, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run the real command."""
    return run_python("-m", "lmm", *words, cwd=cwd, env=os.environ | env, given=stdin)


def with_subcommands(words: list[str], command: click.Command) -> Iterator[list[str]]:
    """The words of a command, and of those in it."""
    yield words
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from with_subcommands([*words, name], inner) if not inner.hidden else ()


@pytest.mark.parametrize("row", COMMANDS, ids=[c.name for c in COMMANDS])
def test_every_command_explains_itself(row: CommandRow, capsys: pytest.CaptureFixture[str]) -> None:
    """`lmm COMMAND --help` and `-h` exit with 0 and add the missing attribute for; so do the commands in a group."""
    for words in with_subcommands([row.name], load(row)):
        assert main([*words, "--help"]) == 0
        told = capsys.readouterr().out
        assert told.startswith(f"Usage: lmm {' '.join(words)} ")
        assert (main([*words, "-h"]), capsys.readouterr().out) == (0, told)


def test_a_group_lists_its_commands_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """As they were declared, the most useful first; without one, it says that one is missing."""
    assert main(["log", "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].split("\n  ")
    assert [row.split()[0] for row in listed if row.strip()] == ["show", "export", "questions", "clear"]
    assert main(["log"]) == 2
    assert "Missing command" in capsys.readouterr().err


def test_help_lists_all_commands() -> None:
    """Without words it is a usage error, and the list is printed all the same."""
    result = lmm("--help")
    assert result.returncode == 0
    assert all(f"  {c.name}" in result.stdout and c.help in result.stdout for c in COMMANDS)
    assert (lmm().returncode, lmm().stdout) == (2, result.stdout)


@pytest.mark.parametrize(
    ("words", "offered"),
    [("lmm ing", ["ingest"]), ("lmm store pu", ["push", "pull"]), ("lmm ingest --sa", ["--save-files"])],
)
def test_a_shell_completes_commands_and_options(words: str, offered: list[str], tmp_path: Path) -> None:
    """The script that `lmm completion bash` prints, in a bash that asks it."""
    command = tmp_path / "lmm"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lmm "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(lmm completion bash)"; COMP_WORDS=($0); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
        '_lmm_completion lmm; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    there = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script, words], env=there, capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mesages"], "there is no command 'mesages'; did you mean 'messages'?"),
        (["a.md"], "there is no command 'a.md'; to answer its questions: lmm messages a.md\n"),
        (["a.chatmd"], "; to run it: lmm run a.chatmd\n"),
        (["a.pdf"], "; to turn it into markdown: lmm import a.pdf\n"),
        (["."], "; to store its documents as a course: lmm ingest .\n"),
        (["Why are leaves green?"], "; to ask the course: lmm ask 'Why are leaves green?'; the manual: lmm help "),
        (["messages"], "Missing argument"),
        (["scan", "--chekc", "a.md"], "No such option"),
        (["messages", "--at", "x", "a.md"], "Invalid value"),
        (["messages", "--config", "no.toml", "a.md"], "there is no such configuration file"),
        (["messages", "--model", "gpt-4", "a.md"], "model: 'gpt-4' is not a model name"),
        (["messages", "--model", "", "a.md"], "'--model': it is empty: is a variable not set?"),
        (["messages", "--budget", "", "a.md"], "'--budget': it is empty: is a variable not set?"),
        (["run", "--model=", "a.md"], "'--model': it is empty"),
        (["messages", "--budget", "x", "a.md"], "lmm: budget: 'x' is not a budget (such as 20000 (tokens) or 0.50$)"),
    ],
)
def test_wrong_usage_exits_with_2(words: list[str], message: str, tmp_path: Path) -> None:
    """Usage errors and wrong configuration: exit code 2, one clear message, no traceback."""
    (tmp_path / "a.md").write_text("---\n?: why\n---\nx\n")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    result = lmm(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_scan_completes_reports_and_checks(tmp_path: Path) -> None:
    """--check writes nothing; scan adds what is missing and nothing else; errors make the exit code 1."""
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("# Cells\n\nCells divide.\n")
    bad.write_text("---\ntitle: B\ndocid: b\n---\n\n---\ntype: x\nsee = that\n---\nText.\n")
    check = lmm("scan", "--check", "good.md", "bad.md", cwd=tmp_path)
    assert check.returncode == 1
    assert check.stdout.splitlines() == [
        "good.md:1:1: warning: there is no header, and so no title and no docid (lmm scan adds it)",
        "bad.md:8:1: this sets 'type', but cannot be read: could not find expected ':' "
        "(write 'see: that', with a colon)",
    ]
    assert good.read_text() == "# Cells\n\nCells divide.\n"
    assert lmm("scan", "good.md", cwd=tmp_path).stdout == "good.md: completed the header\n1 file: no problems\n"
    assert good.read_text().endswith("---\n\n# Cells\n\nCells divide.\n")
    before = good.read_bytes()
    assert lmm("scan", "good.md", cwd=tmp_path).stdout == "1 file: no problems\n"
    assert good.read_bytes() == before
    rows = [json.loads(line) for line in lmm("scan", "--json", "bad.md", cwd=tmp_path).stdout.splitlines()]
    assert [(row["line"], row["severity"]) for row in rows] == [(8, "error")]


def test_clear_undoes_messages(tmp_path: Path) -> None:
    """Ask, answer, clear: the file is what it was before the question."""
    path = tmp_path / "a.md"
    path.write_bytes(b"# A\r\n\r\n---\r\ntype: x # mine\r\n?: what is a leaf?\r\n---\r\nA leaf is green.")
    assert lmm("messages", "--model", "Builtin/extractive", "a.md", cwd=tmp_path).returncode == 0
    assert b"~chat_" in path.read_bytes()
    assert lmm("clear", "a.md", cwd=tmp_path).stdout == "a.md: removed the chats\n"
    assert path.read_bytes() == b"# A\r\n\r\n---\r\ntype: x # mine\r\n---\r\nA leaf is green."


def test_the_help_has_three_groups(tmp_path: Path) -> None:
    """Of documents, courses and agents; each command is in one of them."""
    text = lmm("--help", cwd=tmp_path).stdout
    assert re.findall(r"^\w+$", text, re.MULTILINE) == ["Documents", "Courses", "Agents"]
    assert all(text.count(f"\n  {row.name} ") == 1 for row in COMMANDS)


def test_init_never_overwrites(tmp_path: Path) -> None:
    """A second init refuses; the first one makes the folder."""
    assert lmm("init", "course", cwd=tmp_path).returncode == 0
    (file := tmp_path / "course" / "config.toml").write_text("mine")
    result = lmm("init", "course", cwd=tmp_path)
    assert result.returncode == 2
    assert "there is a configuration file already" in result.stderr
    assert file.read_text() == "mine"


def test_a_configuration_above_is_told_and_not_used(tmp_path: Path) -> None:
    """A course's is found from below, a document's is not: no folder above may choose who gets its text."""
    sub = tmp_path / "par" / "sub"
    sub.mkdir(parents=True)
    (tmp_path / "config.toml").write_text('baseURL = "https://example.org/"\n')  # another program's
    (sub / "a.md").write_text("---\n?: which colour\n---\nA leaf is green.\n")
    assert "is not used" not in lmm("status", cwd=sub).stderr
    (above := tmp_path / "par" / "config.toml").write_text('major = "Ollama/m"\n')
    told = f"{above} is not used here; to use it, name it with --config\n"
    assert lmm("status", cwd=sub).stderr == told
    (tmp_path / "config.toml").unlink()
    answered = lmm("messages", "par/sub/a.md", "par/sub/a.md", cwd=tmp_path)
    assert answered.stderr == told
    assert "[Builtin/extractive, " in answered.stdout
    assert "Ollama/m" in lmm("status", "--config", "../config.toml", cwd=sub).stdout


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`lmm help COMMAND` is `lmm COMMAND --help`, also of a command in a group."""
    for words in (["messages"], ["store", "pull"]):
        assert main(["help", *words]) == main([*words, "--help"]) == 0
        told = capsys.readouterr().out
        assert told == told[: len(told) // 2] * 2
        assert told.startswith(f"Usage: lmm {' '.join(words)} ")
    assert (main(["help", "mesages"]), "did you mean 'messages'?" in capsys.readouterr().err) == (2, True)


def test_standard_input_has_one_name() -> None:
    """On standard error, while the document goes to standard output."""
    ran = lmm("messages", "-", stdin="---\n?: which colour\n---\nA leaf is green.\n\n---\n?: see @no.md\n---\nEnd.\n")
    assert ran.returncode == 1
    assert "-:2 ?: which colour (the document 'standard input', " in ran.stderr
    assert "-:7: @no.md: there is no such file" in ran.stderr
    assert "-: 1 reply, 1 not answered" in ran.stderr
    assert "text" not in ran.stderr.replace("Central to the text", "")
    assert ran.stdout.startswith("---\n~chat_:\n")


def test_names_that_look_like_something_else(tmp_path: Path) -> None:
    """An option, another line of the output."""
    (tmp_path / "-dash.md").write_text("# A\n")
    wrong = lmm("scan", "--check", "-dash.md", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.splitlines()[-1]) == (2, "if the file is meant, write ./-dash.md")
    assert lmm("scan", "--check", "./-dash.md", cwd=tmp_path).returncode == 0
    assert "is meant" not in lmm("scan", "-other.md", cwd=tmp_path).stderr
    (tmp_path / "a\nb.md:1:1: c.md").write_text("---\nx: [\n---\n\n---\n?: see @no.md\n---\nEnd.\n")
    (tmp_path / "-dash.md").unlink()
    for words in (["scan"], ["messages"], ["accept"], ["undo"], ["clear"]):
        ran = lmm(*words, ".", cwd=tmp_path)
        assert not [line for line in f"{ran.stdout}{ran.stderr}".splitlines() if line.startswith("b.md")]
        assert "a\\x0ab.md:1:1: c.md" in f"{ran.stdout}{ran.stderr}"


def test_status_as_json(tmp_path: Path) -> None:
    """A program can read what was decided; keys are not in it."""
    result = lmm("status", "--json", cwd=tmp_path, OPENAI_API_KEY="sk-secret", LMM_MODEL_MINOR="Ollama/x")
    status = json.loads(result.stdout)
    assert status["tiers"]["major"]["key"] == "key from OPENAI_API_KEY"
    assert status["tiers"]["minor"]["model"] == "Ollama/x"
    assert status["tiers"]["minor"]["origin"] == "environment LMM_MODEL_MINOR"
    assert "sk-secret" not in result.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[RAG]\nencoding_model = "contnet"\n', "unknown encoding model 'contnet'"),
        ("[text_splitter]\nmin_size = 900\nmax_size = 100\n", "'min_size' (900) in [text_splitter] is more than"),
    ],
)
def test_status_and_ingest_refuse_the_same(text: str, told: str, tmp_path: Path) -> None:
    """What only a course reads is checked before it is ingested."""
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "a.md").write_text("A leaf is green.\n")
    status, ingest = lmm("status", cwd=tmp_path), lmm("ingest", "a.md", cwd=tmp_path)
    assert told in ingest.stderr
    assert (status.returncode, status.stderr) == (2, ingest.stderr)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`lmm … | head -1` ends quietly."""
    path = tmp_path / "a.md"
    path.write_text("".join(f"---\nx{i}: [\n---\n\n" for i in range(5000)))
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m lmm scan --check a.md | head -n 1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout.startswith("a.md:2:1:")
    assert result.stderr == ""


WRITERS = ["--help", "--version", "status", "messages --help", "store pull --help", "completion --help", "export w.md",
           "messages w.md", "scan --check --json w.md"]  # fmt: skip
UNWRITABLE = [*((words, ">/dev/full") for words in WRITERS), *((words, ">&-") for words in WRITERS[:2] + WRITERS[-2:])]


@pytest.mark.skipif(sys.platform == "win32", reason="needs /dev/full")
@pytest.mark.parametrize(
    ("words", "where"), [*UNWRITABLE, ("messages w.md", ">/dev/full 2>/dev/full"), ("messages w.md", ">&- 2>&- <&-")]
)
def test_an_output_that_cannot_be_written_is_told(words: str, where: str, tmp_path: Path) -> None:
    """On one line; a reply that was paid for is in the document all the same."""
    (tmp_path / "w.md").write_text("---\ntitle: W\n---\n\n---\n?: which colour\n---\nA leaf is green.\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m lmm {words} {where}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    reason = "No space left on device" if "full" in where else "Bad file descriptor"
    told = [line for line in done.stderr.splitlines() if not line.startswith("w.md:")]
    assert told == ([] if "2>" in where else [f"lmm: the output cannot be written: {reason}"])
    assert done.returncode == 1
    if words == "messages w.md":
        assert "A leaf is green" in (tmp_path / "w.md").read_text().partition("~reply")[2].partition("---")[0]


@pytest.mark.parametrize("name", [".", "./", "/", ""])
def test_a_folder_is_not_imported(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even one without a name."""
    assert main(["import", name]) == 2
    assert ": this is a folder, not a file (name the files in it)" in capsys.readouterr().err


def test_a_header_is_written_into_markdown_only(tmp_path: Path) -> None:
    """`lmm scan *` does not break a Python file."""
    (tmp_path / "u.py").write_text("print(1)\n")
    result = lmm("scan", "u.py", cwd=tmp_path)
    assert result.returncode == 1
    assert "this is not a markdown file" in result.stderr
    assert (tmp_path / "u.py").read_text() == "print(1)\n"


@pytest.mark.parametrize("command", [["messages"], ["messages", "--dry-run"], ["annotate"], ["status"]])
def test_a_header_that_cannot_be_read_is_not_passed_over(command: list[str], tmp_path: Path) -> None:
    """It may name the model: nothing is sent elsewhere, and the place is told."""
    path = tmp_path / "p.md"
    path.write_text("---\ntitle: Lecture 3: Regression\nmodel:\n  major: Ollama/llama3.2\n?: why?\n---\nText.\n")
    before = path.read_bytes()
    result = lmm(*command, "p.md", cwd=tmp_path, OPENAI_API_KEY="sk-unused-here")
    assert result.returncode == 1
    assert result.stderr.startswith("lmm: p.md:2:17: this sets 'model', but cannot be read")
    assert path.read_bytes() == before


def test_a_question_in_a_block_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Nobody waits for an answer that will not come."""
    (tmp_path / "p.md").write_text('---\ntitle: T\n---\n\n---\nexercise: "open\n?: why?\n---\nText.\n')
    result = lmm("messages", "p.md", cwd=tmp_path)
    assert result.returncode == 1
    assert "there is a question in a block that cannot be read" in result.stderr


@pytest.mark.parametrize("words", [["messages"], ["messages", "--dry-run"], ["scan", "--check"]])
def test_a_prompt_that_just_misses_is_told(words: list[str], tmp_path: Path) -> None:
    """By each command, with the same words; scan --fix corrects the line, and then it is asked."""
    path = tmp_path / "p.md"
    path.write_text("---\ntitle: T\ndocid: t\n---\n\nA leaf is green.\n---\nQuery: what is green?\n---\nA leaf.\n")
    result = lmm(*words, "p.md", cwd=tmp_path)
    assert result.returncode == 1
    for told in (
        "p.md:7:1: a metadata block directly below text",
        "p.md:8:1: 'Query:' is not a prompt (write 'query: what",
    ):
        assert told in result.stdout + result.stderr
    path.write_text(path.read_text().replace("green.\n---", "green.\n\n---"))
    assert lmm("scan", "--fix", "p.md", cwd=tmp_path).stdout == "p.md: corrected 1 problem\n1 file: no problems\n"
    assert path.read_text().endswith("A leaf is green.\n\n---\nquery: what is green?\n---\nA leaf.\n")
    assert lmm("messages", "--model", "Builtin/extractive", "p.md", cwd=tmp_path).returncode == 0


def test_a_dry_run_says_and_exits_as_the_run_would(tmp_path: Path) -> None:
    """What goes wrong with one prompt, or block, hides none of the others."""
    path = tmp_path / "p.md"
    path.write_text(
        '---\n?: what is in @none.md?\n---\nA leaf.\n\n---\n?: and this?\n---\nB.\n\n---\na: "open\n?: c?\n---\nC.\n'
    )
    dry, run = (
        lmm("messages", "--model", "Builtin/extractive", *more, "p.md", cwd=tmp_path) for more in (["--dry-run"], [])
    )
    assert dry.returncode == run.returncode == 1
    assert "p.md: 1 request would be sent" in dry.stdout
    for told in ("none.md", "there is a question in a block that cannot be read"):
        assert told in dry.stderr
        assert told in run.stderr
