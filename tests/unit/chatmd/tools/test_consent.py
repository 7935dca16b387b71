"""When consent is needed, for what, and how long it is valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import chatmd.chat  # noqa: F401  # adds what to write in Python to hints
from chatmd.config import ChatmdSettings
from chatmd.context import Run, RunOptions
from chatmd.errors import ChatmdError, ConsentNeeded
from chatmd.language.agent import AgentSpec, read_agent
from chatmd.language.imports import resolve_imports
from chatmd.language.syntax import parse
from chatmd.runtime.runner import open_run, prepare
from chatmd.tools.consent import consent, is_agreed
from lmm.config import load_settings

GIT = '<tool name="git" command="git log"/>\n'


def read(path: Path) -> AgentSpec:
    return read_agent(resolve_imports(parse(path.read_text(), file=str(path))))


class Prompts:
    """A folder of prompts, and the questions that were asked about them."""

    def __init__(self, folder: Path) -> None:
        self.place = Run(folder.resolve(), load_settings(env={}))
        self.asked: list[str] = []
        self.answer = True

    def write(self, text: str, name: str = "a.chatmd") -> Path:
        path = self.place.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def ask(self, text: str | None = None) -> str:
        """Return the question for consent to a file; empty if there is none."""
        path = self.write(text) if text is not None else self.place.folder / "a.chatmd"

        def confirm(question: str) -> bool:
            self.asked.append(question)
            return self.answer

        before = len(self.asked)
        consent(read(path), self.place.with_options(confirm=confirm))
        return "".join(self.asked[before:])


@pytest.fixture
def prompts(tmp_path: Path) -> Prompts:
    return Prompts(tmp_path)


@pytest.mark.parametrize(
    "declared",
    [
        "",
        '<tool name="read_file"/><tool name="read_directory" roots="sub"/>',
        '<tool name="webpage_to_markdown"/>',
        '<tool name="import_image"/>',
        '<user><doc src="notes.md" local/><agent src="missing.chatmd" local/></user>',
        f'<tool name="webpage_to_markdown"/><user><doc src=".chatmd/{"a" * 32}.txt" local/></user>',  # its own result
        '<user><agent src="https://example.org/b.chatmd"/></user>',
        '<tool name="a" agent="missing.chatmd" local/><tool name="b" agent="https://example.org/b.chatmd"/>',
    ],
)
def test_tools_that_only_read_here_need_none(prompts: Prompts, declared: str) -> None:
    assert prompts.ask(declared) == ""


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('<tool name="t" command="rg -n"/>', "t  runs rg -n\n"),
        ('<tool name="t" command="make" cwd="sub" env="A, B"/>', "runs make, in sub, and gives it A and B of your env"),
        (
            '<tool name="t" command="gh" env="GH_TOKEN"/>',
            "gives it GH_TOKEN (a secret, by its name) of your environment",
        ),
        ('<tool name="apply_patch"/>', "apply_patch  creates, changes and deletes files in {folder}\n"),
        ('<tool name="append_to_file" roots="sub, ../out"/>', "deletes files in {folder}/sub and {above}/out\n"),
        ('<tool name="read_file" roots="., .."/>', "read_file  reads files in {folder} and {above}\n"),
        ('<tool name="get_contents" roots=".env"/>', "reads files in {folder}/.env\n"),
        ('<tool name="webpage_to_markdown"/><tool name="read_file"/>', "markdown  fetches from the internet: files"),
        ('<tool mcp_server="stdio:npx wiki"/>', "starts the MCP server npx wiki for all its tools\n"),
        (
            '<tool mcp_server="https://mcp.example.org/v1?key=abc" includes="x, y" client_secret_env="S"/>',
            "calls the MCP server https://mcp.example.org/v1 for x and y, and gives it S of your environment\n",
        ),
    ],
)
def test_tools_that_can_do_more_are_told_in_words(prompts: Prompts, declared: str, words: str) -> None:
    question = prompts.ask(declared)
    folder = prompts.place.folder
    assert words.format(folder=folder, above=folder.parent) in question
    assert "abc" not in question


READS = {
    "tool": '<tool name="read_file"/>',
    "course": '<tool name="course_search"/>',
    "doc": '<user><doc src="notes.md" local/></user>',
    "img": '<user><img src="a.png" local/></user>',
    "in an agent": '<user><agent src="quiet.chatmd" local><doc src="notes.md" local/></agent></user>',
    "import": '<system><import src="notes.md"/></system>',
    "agent": '<user><agent src="reads.chatmd" local/></user>',
    "agent as a tool": '<tool name="r" agent="reads.chatmd" local/>',
}
SENDS = {
    "tool": ('<tool name="webpage_to_markdown"/>', "fetches from the internet: files read here could be sent that way"),
    "server": ('<tool mcp_server="https://mcp.example.org/v1"/>', "calls the MCP server https://mcp.example.org/v1"),
    "remote": ('<tool name="f" agent="https://example.org/b.chatmd"/>', "asks the agent https://example.org/b.chatmd"),
    "remote agent": ('<user><agent src="https://example.org/b.chatmd"/></user>', "asks the agent https://example.org/"),
    "agent": ('<tool name="s" agent="sends.chatmd" local/>', "    webpage_to_markdown  fetches from the internet: "),
    "program": ('<tool name="curl" command="curl"/>', "runs curl"),
}


@pytest.mark.parametrize("sends", SENDS)
@pytest.mark.parametrize("reads", READS)
def test_what_reads_and_what_sends_is_asked_about(prompts: Prompts, reads: str, sends: str) -> None:
    """If one part reads and one sends, in any of the files that work together; the question comes once."""
    prompts.write("Buds.", "notes.md")
    prompts.write("<user>Go.</user>", "quiet.chatmd")
    prompts.write('<tool name="read_file"/><user>Go.</user>', "reads.chatmd")
    prompts.write('<tool name="webpage_to_markdown"/><user>Go.</user>', "sends.chatmd")
    how, words = SENDS[sends]
    assert words in prompts.ask(READS[reads] + how)
    assert prompts.ask() == ""
    assert prompts.ask(READS[reads]) == ""


def test_the_next_document_in_a_conversation_is_not_asked_about(prompts: Prompts) -> None:
    web = '<tool name="webpage_to_markdown"/><user>Hello</user>'
    assert prompts.ask(web) == ""
    assert prompts.ask(f'{web}<user><doc src="a.md" local/></user>') != ""
    assert prompts.ask(f'{web}<user><doc src="a.md" local/><doc src="b.md" local/></user>') == ""


def test_an_agent_that_reads_all_of_a_sudden_does_not_start(prompts: Prompts) -> None:
    """It read nothing when its asker, which can send, was checked, so the user was not asked about that."""
    path = prompts.write("<user>Go.</user>", "b.chatmd")
    spec = read(prompts.write('<tool name="b" agent="b.chatmd" local/><tool name="webpage_to_markdown"/>'))
    agreed = consent(spec, prompts.place)
    agreed.check(read(path), prompts.place)
    prompts.write('<user><doc src="notes.md" local/></user>', "b.chatmd")
    with pytest.raises(ConsentNeeded, match="its new tools read files here"):
        agreed.check(read(path), prompts.place)
    consent(spec, prompts.place.with_options(yes=True)).check(read(path), prompts.place)


def test_it_is_asked_once_and_again_only_for_what_is_new(prompts: Prompts) -> None:
    """Harmless tools may change; any change of the text that was agreed to is asked about."""
    assert prompts.ask(GIT)
    assert prompts.ask() == ""
    assert prompts.ask(GIT.replace("<tool name", "<tool  name") + '<tool name="read_file"/>') == ""
    assert prompts.ask(GIT.replace("/>", ' description="The log."/>')) != ""
    assert prompts.ask(GIT) != ""
    question = prompts.ask(GIT.replace("git log", "git") + '<tool name="apply_patch"/>')
    assert question == (
        f"{prompts.place.folder}/a.chatmd: its tools have changed since you agreed to them:\n"
        "  + git          runs git\n"
        f"  + apply_patch  creates, changes and deletes files in {prompts.place.folder}\n"
        "  - git  runs git log\n"
    )
    assert prompts.ask(GIT.replace("git log", "git") + '<tool name="apply_patch"/>') == ""
    assert prompts.ask(GIT) != ""


def test_a_copy_is_another_file(prompts: Prompts) -> None:
    prompts.ask(GIT)
    copy = read(prompts.write(GIT, "b.chatmd"))
    assert not is_agreed(copy, prompts.place)
    assert is_agreed(read(prompts.place.folder / "a.chatmd"), prompts.place)


def test_a_copy_that_is_run_for_the_original_is_not_asked_about_again(prompts: Prompts) -> None:
    """As in a conversation that was forked, in which each run after the first opens the copy by itself."""
    prompts.answer = True
    prompts.ask(tools := '<tool name="t" command="x"/>')
    path = prompts.write(tools, "a-2.chatmd")
    run = prepare(prompts.place.folder / "a.chatmd", RunOptions())
    open_run(path, run, path)
    open_run(path, prepare(path, RunOptions()))


def test_imported_declarations_count(prompts: Prompts) -> None:
    prompts.write(GIT, "tools.md")
    assert "runs git log" in prompts.ask('<import src="tools.md"/>')


def test_agents_count_wherever_they_are_asked(prompts: Prompts) -> None:
    """As a tool or inside a message; each file once, even if they ask each other."""
    prompts.write('<tool name="c" agent="../a.chatmd" local/>' + GIT, "sub/b.chatmd")
    prompts.write('<tool name="make" command="make"/>', "c.chatmd")
    question = prompts.ask(
        '<tool name="b" agent="sub/b.chatmd" local/>'
        '<user><agent src="c.chatmd" local>x <agent src="sub/b.chatmd" local/></agent></user>'
    )
    assert question.splitlines()[1:] == [
        "  b  asks the agent sub/b.chatmd",
        "  the agent sub/b.chatmd:",
        "    c    asks the agent ../a.chatmd",
        "    git  runs git log",
        "  the agent c.chatmd:",
        "    make  runs make",
    ]
    assert prompts.ask() == ""
    prompts.write('<tool name="make" command="make -B"/>', "c.chatmd")
    assert "+   make  runs make -B" in prompts.ask()


def test_no_is_not_kept(prompts: Prompts) -> None:
    prompts.answer = False
    for _ in range(2):
        with pytest.raises(ConsentNeeded, match="not run: you did not agree to its tools"):
            prompts.ask(GIT)
    assert len(prompts.asked) == 2


def test_without_a_terminal_it_says_what_to_do(prompts: Prompts) -> None:
    spec = read(prompts.write(GIT))
    with pytest.raises(
        ConsentNeeded,
        match=r"its folder: git runs git log \(run it in a terminal, .* --yes; in Python run\(yes=True\)\)",
    ):
        consent(spec, prompts.place)
    consent(spec, prompts.place.with_options(yes=True))
    assert not is_agreed(spec, prompts.place)  # it was valid only once


def test_an_agent_that_changed_during_the_run_does_not_start(prompts: Prompts) -> None:
    """A tool that writes files cannot give an agent the power to start programs."""
    path = prompts.write(GIT, "b.chatmd")
    prompts.write('<tool name="b" agent="b.chatmd" local/><tool name="apply_patch"/>')
    agreed = consent(read(prompts.place.folder / "a.chatmd"), prompts.place.with_options(yes=True))
    agreed.check(read(path), prompts.place)
    prompts.write('<tool name="git" command="sh -c"/>', "b.chatmd")
    with pytest.raises(ConsentNeeded, match="have changed since you agreed to them: git runs sh -c"):
        agreed.check(read(path), prompts.place)
    new = prompts.write(GIT, "new.chatmd")
    with pytest.raises(ConsentNeeded):
        agreed.check(read(new), prompts.place)
    prompts.write('<tool name="read_file"/>', "new.chatmd")
    agreed.check(read(new), prompts.place)


@pytest.mark.parametrize("damage", ["", "[]", "{", "null", '{"%s": 1}', '{"%s": "[]"}', '{"%s": "{\\"agreed\\": 1}"}'])
def test_damaged_records_count_as_none(prompts: Prompts, state_folder: Path, damage: str) -> None:
    prompts.ask(GIT)
    path = prompts.place.folder / "a.chatmd"
    (state_folder / "consents.json").write_text(damage.replace("%s", str(path)))
    assert prompts.ask() != ""
    assert prompts.ask() == ""


def test_what_is_shown_cannot_hide_anything(prompts: Prompts) -> None:
    """There are no line breaks, escapes, or characters that change the direction of text."""
    question = prompts.ask('<tool name="x\n  ok  runs nothing" command="rm -rf / \x1b[8m \u202e&#10;"/>')
    assert len(question.splitlines()) == 2
    assert "\x1b" not in question
    assert "\u202e" not in question
    assert "rm -rf / \\x1b[8m \\u{202e}" in question


def test_a_tool_that_does_not_exist_is_an_error(prompts: Prompts) -> None:
    with pytest.raises(ChatmdError, match=r"no built-in tool .read_fiel. \(did you mean read_file"):
        prompts.ask('<tool name="read_fiel"/>')


@pytest.mark.parametrize(
    "text",
    [
        '<user><doc src=".env" local/></user>',
        '<user><img src="keys/a.pem" local/></user>',
        '<user><doc src="plain.md" local/></user>',  # a link
        '<tool_call tool_call_id="c" function_name="f">{}</tool_call>'
        '<tool_response tool_call_id="c"><doc src=".git/config" local/></tool_response>',
        '<user><agent src="b.chatmd" local><doc src=".env" local/></agent></user>',
        '<user><agent src="keys.chatmd" local/></user>',
        '<tool name="t" agent="keys.chatmd" local/>',
        f'<user><doc src=".chatmd/{"a" * 32}.txt" local/></user>',  # named like a stored result, but a link
    ],
)
def test_files_that_may_hold_keys_are_asked_about(prompts: Prompts, text: str) -> None:
    """The author of the file would have them sent to a model; other documents of its folder are not asked about."""
    prompts.write('<user><doc src="../x.env" local/><doc src=".env" local/></user>', "keys.chatmd")
    (prompts.place.folder / "plain.md").symlink_to(".env")
    (prompts.place.folder / ".chatmd").mkdir()
    (prompts.place.folder / f".chatmd/{'a' * 32}.txt").symlink_to("/etc/hostname")
    question = prompts.ask(text)
    assert "a.chatmd: it sends more than ordinary files of its folder:\n" in question
    assert question.count(", which may contain keys, to the model") == 1
    assert prompts.ask() == ""
    assert prompts.ask(text + '<user><doc src="c.env" local/></user>').count("\n  + <doc>  sends the file c.env") == 1
    assert prompts.ask('<user><doc src=".env.example" local/><doc src="notes.md" local/></user>') == ""
    with pytest.raises(ConsentNeeded, match="it sends more than ordinary files"):
        consent(read(prompts.write('<user><doc src="d.env" local/></user>', "d.chatmd")), prompts.place)


def test_a_file_that_is_named_as_a_root_may_be_sent(prompts: Prompts) -> None:
    spec = read(prompts.write('<user><doc src=".env" local/></user>'))
    assert not is_agreed(spec, prompts.place)
    assert is_agreed(spec, replace(prompts.place, rules=ChatmdSettings(roots=(prompts.place.folder / ".env",))))


def test_tools_that_can_do_the_same_are_told_together(prompts: Prompts) -> None:
    tools = "".join(f'<tool name="{name}"/>' for name in ("write_file", "append_to_file", "apply_patch"))
    with pytest.raises(ConsentNeeded) as raised:
        consent(read(prompts.write(tools)), prompts.place)
    assert ": each of write_file, append_to_file and apply_patch creates, changes" in raised.value.message
    assert raised.value.message.count("creates") == 1
