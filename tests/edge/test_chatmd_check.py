"""`lmm check`, the real command on real files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import lmm
from fakes.openai_server import ScriptedServer

from chatmd import Chat
from chatmd.errors import ChatmdError

GOOD = '<config model="OpenAI/gpt-4.1"/>\n<system><import src="policy.md"/></system>\n<user>\n</user>\n'
BAD = '<user>a\n<doc src="b.md"/>\n</assistant>\n</user>\n<tool/>\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")  # without a model that can use them, tools are a warning
    (tmp_path / "good.chatmd").write_text(GOOD)
    (tmp_path / "policy.md").write_text("Be brief.")
    (tmp_path / "bad.md").write_text(BAD)
    return tmp_path


def test_findings_have_places_hints_and_exit_codes(folder: Path) -> None:
    good = lmm("check", folder / "good.chatmd")
    assert (good.code, good.out, good.err) == (0, "1 file: no problems\n", "")
    both = lmm("check", folder / "good.chatmd", folder / "bad.md")
    bad = folder / "bad.md"
    assert both.code == 1
    assert both.out.splitlines() == [
        f"{bad}:2:6: warning: src=\"b.md\" is not a URL (write 'local' for a file on disk)",
        f"{bad}:3:1: </assistant> closes nothing (open it with <assistant>, or put the tag in RAW|…|RAW if it is text; "
        "this is inside <user>)",
        f'{bad}:5:1: this tool has no name (write name="…")',
    ]


def test_warnings_alone_leave_the_code_0(folder: Path) -> None:
    (folder / "w.md").write_text("<user rolle='x'>a</user>")
    done = lmm("check", folder / "w.md")
    assert (done.code, done.out.count("warning: ")) == (0, 1)


def test_as_json(folder: Path) -> None:
    done = lmm("check", "--json", folder / "bad.md")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1
    assert [(row["line"], row["column"], row["severity"]) for row in rows] == [
        (2, 6, "warning"),
        (3, 1, "error"),
        (5, 1, "error"),
    ]
    assert set(rows[0]) == {"path", "line", "column", "severity", "message", "hint"}
    assert lmm("check", "--json", folder / "good.chatmd").out == ""


def test_tools_of_an_agent_without_a_model_that_can_use_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a warning, also in an agent that is asked, before a run fails; `lmm render` notes it."""
    monkeypatch.delenv("OPENAI_API_KEY")
    (folder / "a.chatmd").write_text('<tool name="read_file"/>\n<user>Hi</user>')
    (folder / "b.chatmd").write_text('<config model="OpenAI/gpt-4.1"/><user><agent src="a.chatmd" local/></user>')
    for name in ("a.chatmd", "b.chatmd"):
        done = lmm("check", folder / name)
        assert (done.code, "warning: " in done.out, "cannot use tools; a run fails" in done.out) == (0, True, True), (
            done
        )
    assert "cannot use tools; a run fails" in lmm("render", folder / "a.chatmd").err


def test_a_path_that_leads_out_of_the_folder_needs_consent(folder: Path, server: ScriptedServer) -> None:
    """Of an import and of a document; `--yes` and `--root` agree to it. A link that leads out stays refused."""
    (folder / "sub").mkdir()
    write_config(folder / "sub", server)
    (folder / "policy.md").write_text("Be brief.")
    path = folder / "sub" / "a.md"
    for text in ('<system><import src="../policy.md"/></system>', '<user><doc src="../policy.md" local/></user>'):
        path.write_text(text + "<user>Hi</user>")
        assert lmm("check", path).code == 0
        refused = lmm("run", path)
        assert (refused.code, "policy.md, which is outside of its folder" in refused.err) == (2, True), refused
        assert server.requests == []
    assert lmm("run", "--yes", path).code == 0
    assert "Be brief." in str(server.requests[0].body["messages"])
    (folder / "sub/link.md").symlink_to(folder / "policy.md")
    for text in ('<system><import src="link.md"/></system>', '<user><doc src="link.md" local/></user>'):
        path.write_text(text + "<user>Hi</user>")
        refused = lmm("run", "--yes", path)
        assert (refused.code, "'link.md' is outside of" in refused.err) == (1, True), refused
        assert lmm("check", "--root", folder, path).code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "Missing argument"),
        (["--no-such", "a"], 2, "No such option"),
        (["missing.md"], 2, "missing.md: there is no such file"),
        (["."], 1, "this is a folder"),
    ],
)
def test_wrong_usage_and_unreadable_files(words: list[str], code: int, message: str, folder: Path) -> None:
    done = lmm("check", *words)
    assert done.code == code
    assert message in done.err
    assert "Traceback" not in done.err


def test_control_characters_do_not_reach_the_terminal(folder: Path) -> None:
    (folder / "c.md").write_text("<user a\x1b[31m='1' \x07='2'>x</user>")
    assert "\x1b" not in lmm("check", folder / "c.md").out


# What a file refers to: the element, and what is said of it.
AROUND = {
    '<config model="Opnai/x"/>': "unknown provider 'Opnai' (did you mean OpenAI?)",
    '<tool name="read_fil"/>': "there is no built-in tool 'read_fil' (did you mean read_file?)",
    '<tool name="read_file" roots="none"/>': 'roots="none" is not a folder',
    '<tool name="a" command="ls | wc"/>': "uses '|'",
    '<tool name="b" command="cat" cwd="none"/>': 'cwd="none" is not a folder',
    '<tool mcp_server="stdio:cat" cwd="none"/>': 'cwd="none" is not a folder',
    '<tool name="c" command="no-such-program"/>': "warning: there is no program 'no-such-program' on the PATH",
    '<tool name="d" command="./none.sh"/>': "warning: there is no program './none.sh' (it would be ",
    '<tool name="e" command="cat" env="NO_SUCH"/>': "warning: the environment variable NO_SUCH is not set",
    '<tool name="f" agent="none.chatmd" local/>': "warning: 'none.chatmd': there is no such file",
    '<tool name="g" agent="torn.chatmd" local/>': "warning: 'torn.chatmd': {folder}/torn.chatmd:1:1: <user> is never",
    '<tool name="h" agent="around.chatmd" local/>': "warning: 'around.chatmd': agents ask each other in a circle: ",
    '<tool name="i" agent="../x.chatmd" local/>': "warning: '../x.chatmd' is outside of {folder} (",
    '<tool mcp_server="stdio:no-such-program x" include="y"/>': "warning: there is no program 'no-such-program'",
    '<user><doc src="none.md" local/></user>': "'none.md': there is no such file (the path is {folder}/",
    '<user><doc src="../x.md" local/></user>': "'../x.md' is outside of {folder} (allow its folder: --root ",
    '<user><doc src="a.zip" local/></user>': "'a.zip': this is a ZIP archive",
    '<user><doc src="none.pdf" local markdown/></user>': "'none.pdf': there is no such file",
    '<user><img src="good.chatmd" local/></user>': "'good.chatmd': this is text, not an image",
    '<user><doc src=".env" local/></user>': "warning: '.env' may contain keys, and is sent to the model",
    '<user><agent src="none.chatmd" local/></user>': "'none.chatmd': there is no such file",
    '<user><agent src="one.chatmd" local/></user>': "'one.chatmd': {folder}/two.chatmd:1:7: agents ask each other in a "
    "circle: one.chatmd → two.chatmd → one.chatmd (at most 4 deep",
    '<user><agent src="good.chatmd" local><doc src="no.md" local/></agent></user>': "'no.md': there is no such file",
    '<user><agent src="asks.chatmd" local/></user>': "'asks.chatmd': {folder}/asks.chatmd:1:1: there is no built-in",
}


def test_what_a_file_refers_to_is_looked_for(folder: Path) -> None:
    """Without running or fetching anything; what would stop a run is an error, the rest are warnings."""
    files = {
        "torn.chatmd": "<user>",
        "one.chatmd": '<user><agent src="two.chatmd" local/></user>',
        "two.chatmd": '<user><agent src="one.chatmd" local/></user>',
        "asks.chatmd": '<tool name="no-such"/><user>Hi</user>',
        ".env": "KEY=1",
        "a.zip": "PK\x03\x04",
        "around.chatmd": "".join(f"{element}\n" for element in AROUND),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    done = lmm("check", folder / "around.chatmd")
    assert done.code == 1
    lines = done.out.splitlines()
    for line, (number, expected) in zip(lines, enumerate(AROUND.values(), 1), strict=True):
        place, _, told = line.partition(": ")
        assert place.startswith(f"{folder / 'around.chatmd'}:{number}:")
        assert told.startswith(expected.format(folder=folder)) or expected in told


@pytest.mark.parametrize(
    "src", ["http://127.0.0.1:9/x.md", "http://localhost/x", "http://0x7f.1/", "https://192.168.0.1/a", "http://[::1]/",
            "http://169.254.169.254/latest", "https://ann:pw@example.org/", "ftp://example.org/a", "http://a b/"],
)  # fmt: skip
@pytest.mark.parametrize("tag", ["doc", "agent"])
def test_a_url_that_is_never_fetched_is_an_error_as_in_a_run(src: str, tag: str) -> None:
    chat = Chat.from_text(f'<user><{tag} src="{src}"/></user>')
    with pytest.raises(ChatmdError) as refused:
        chat.render(run_agents=True, yes=True)
    (problem,) = chat.problems()
    assert (problem.severity, problem.message) == ("error", refused.value.message)


def test_an_inline_image_that_is_none_hides_no_other_problem(tmp_path: Path) -> None:
    told = '<user>\n<img src="data:image/png;base64,?"/>\n<agent src="a.chatmd" local/></user>'
    problems = Chat.from_text(told, folder=tmp_path).problems()
    assert [(problem.span.line, problem.message[:31]) for problem in problems] == [
        (2, "this inline image is not base64"),
        (3, "'a.chatmd': there is no such fi"),
    ]


def test_a_missing_package_for_servers_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    (problem,) = Chat.from_text('<tool mcp_server="https://mcp.example.org"/><user>Hi</user>').problems()
    assert (problem.severity, problem.hint) == ("warning", "pip install 'lmmarkdown[mcp]'")


def test_what_was_seen_and_recorded_is_not_looked_for(folder: Path, server: ScriptedServer) -> None:
    """A document may go once a model has seen it: the run has kept it."""
    path, notes = folder / "a.chatmd", folder / "notes.md"
    path.write_text('<user>What is in <doc src="notes.md" local/>?</user>\n')
    notes.write_text("Leaves.")
    server.queue("Leaves, it says.")
    assert lmm("run", path).code == 0
    notes.unlink()
    assert lmm("check", path).out == "1 file: no problems\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.parametrize("command", ["check", "run", "tools", "render", "compact"])
def test_a_pipe_and_a_nul_are_refused_everywhere(folder: Path, command: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "nul.chatmd").write_text('<config model="Builtin/extractive"/><user>a\0b</user>')
    assert "a device or a pipe" in lmm(command, folder / "pipe").err
    done = lmm(command, folder / "nul.chatmd")
    assert (done.code, "this file contains a NUL character" in done.out + done.err) == (1, True)


def test_settings_that_are_wrong_are_told(folder: Path) -> None:
    (folder / "c.toml").write_text("[major]\nmodell = 1\n")
    done = lmm("check", "--config", folder / "c.toml", folder / "good.chatmd")
    assert (done.code, "unknown key 'modell' in [major]" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (
            '<tool_call tool_call_id="c1" function_name="read_file">RAW|{}|RAW</tool_call>\n<user>And?</user>\n'
            '<tool_response tool_call_id="c1" name="read_file">text</tool_response>',
            4,
            "stands between the call 'c1' and its result",
        ),
        (
            '<tool_call tool_call_id="c1" function_name="read file">RAW|{}|RAW</tool_call>\n'
            '<tool_response tool_call_id="c1" name="read file">text</tool_response>',
            3,
            "takes a function named 'read file'",
        ),
        (
            '<tool_call tool_call_id="c 1" function_name="read_file">RAW|{}|RAW</tool_call>\n'
            '<tool_response tool_call_id="c 1" name="read_file">text</tool_response>',
            3,
            "takes a call with the id 'c 1'",
        ),
    ],
)
def test_what_can_never_be_sent_again_is_an_error(text: str, place: int, message: str) -> None:
    """With the cure: the conversation could not go on."""
    told = f'<tool name="read_file"/>\n<user>Go.</user>\n{text}\n<user>Now?</user>\n'
    (problem,) = Chat.from_text(told).problems()
    assert (problem.severity, problem.span.line) == ("error", place)
    assert message in problem.message
    assert problem.hint
