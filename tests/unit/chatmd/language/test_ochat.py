"""Files of ochat run here, or their error says why not; the documented table of differences is true."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import chatmd
from chatmd import Chat
from chatmd.errors import ConsentNeeded, InvalidDocument
from chatmd.language.agent import MessageItem
from lmm.messages import Event, Notice
from lmm.testing import ScriptedModel

DOCS = Path(__file__).parents[4] / "docs"
REFERENCE = os.environ.get("LMM_TEST_OCHAT", "")  # a folder with ochat's own repository
SEED = """<config model="gpt-4o" temperature="0.1" max_tokens="512"/>

<tool name="odoc_search" description="Search local OCaml docs"/>

<system>Answer strictly in JSON.</system>

<user>Find an example of Eio.Switch usage</user>
"""


def notices(chat: Chat) -> list[str]:
    """Return the notices of a run of the chat."""
    told: list[Event] = []
    result = chat.run(
        model=ScriptedModel(["Done."]), yes=True, skip_missing_tools=True,
        listener=lambda event, place: told.append(event),
    )  # fmt: skip
    assert result.answer == "Done."
    return [event.text for event in told if isinstance(event, Notice)]


def test_a_tool_that_only_ochat_has_is_named_and_the_run_goes_on() -> None:
    chat = Chat.from_text(SEED)
    (problem,) = chat.problems()
    assert (problem.severity, "markdown_search" in problem.hint) == ("warning", True)
    (told,) = notices(chat)
    assert told.startswith(
        "the run continues without the tool odoc_search: 3:1: ochat's tool 'odoc_search' is not available here"
    )


def test_a_misspelt_tool_stays_an_error() -> None:
    (problem,) = Chat.from_text(SEED.replace("odoc_search", "read_fiel")).problems()
    assert (problem.severity, problem.hint) == ("error", "did you mean read_file?")


def test_programs_and_servers_that_are_not_there_are_left_out_if_that_is_wanted() -> None:
    text = '<tool name="x" command="no-such-program"/><tool mcp_server="stdio:no-such-server"/><user>Go.</user>'
    assert [told.rpartition("no-such-")[2].split("'")[0].split(":")[0] for told in notices(Chat.from_text(text))] == [
        "program", "server",
    ]  # fmt: skip


def test_a_document_is_also_found_in_the_working_folder_with_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "notes.md").write_text("Leaves are green.")
    file = tmp_path / "prompts/a.chatmd"
    file.write_text('<user>See <doc src="notes.md" local="false"/></user>')
    chat, model = Chat.open(file), ScriptedModel(["Yes."])
    with pytest.raises(ConsentNeeded, match=r"sends the file notes\.md, which is in the working folder"):
        chat.run(model=model)
    chat.run(model=model, yes=True)
    assert model.seen[0].messages[0].content == ("Leaves are green.",)
    (tmp_path / "prompts/notes.md").write_text("Roots are not.")  # the prompt's own counts more
    chat = Chat.from_text('<user><doc src="notes.md" local/></user>', folder=tmp_path / "prompts")
    model = ScriptedModel(["Yes."])
    chat.run(model=model)
    assert model.seen[0].messages[0].text == "Roots are not."


@pytest.mark.skipif(not REFERENCE, reason="LMM_TEST_OCHAT names no folder with ochat's repository")
def test_every_prompt_and_session_of_the_reference_runs_or_says_why(tmp_path: Path) -> None:
    shutil.copytree(REFERENCE, tmp_path / "ochat", ignore=shutil.ignore_patterns(".git"))
    ran, refused = 0, {}
    for folder in ("prompt-examples", "real-world-example-session"):
        for path in sorted((tmp_path / "ochat" / folder).rglob("*.md")):
            if not path.read_text().lstrip().startswith("<"):
                continue  # a page about them
            chat = Chat.open(path)
            try:
                if chat.agent.waits_for_user:
                    chat.say("Go on.")
                notices(chat)
                ran += 1
            except InvalidDocument as error:
                refused[path.name] = str(error)
    assert ran >= 7
    assert all("cannot be imported: there is no such file" in why for why in refused.values()), refused


# -- the table of differences --------------------------------------------------------------------------------


def says(text: str, value: str) -> bool:
    """Return whether the one user message of a text is, or begins with a child that is, this value."""
    (item,) = chatmd.read_agent(chatmd.parse(text)).items
    return isinstance(item, MessageItem) and item.content == (value,)


def attribute(text: str, value: str | None) -> bool:
    (element,) = chatmd.parse(text).elements
    return element.attributes[-1].value == value


def worst(text: str) -> str:
    return min((problem.severity for problem in chatmd.check(chatmd.parse(text))), default="none")


HERE: dict[str, Callable[[], bool]] = {
    "`<b` and no `>`": lambda: says("<user>if a <b then c</user>", "if a <b then c"),
    "`>` in a quoted value": lambda: attribute('<config model="a>b"/>', "a>b"),
    r"`RAW\|` in the middle of a word": lambda: says("<user>WITHDRAW|x</user>", "WITHDRAW|x"),
    "`</user >`": lambda: says("<user>x</user >", "x"),
    r"`\"` in a value": lambda: attribute(r'<config model="a\"b"/>', 'a"b'),
    "`&#92;` in a value": lambda: attribute('<config model="a&#92;b"/>', "a\\b"),
    '`<doc src="a" local>`, never closed': lambda: worst('<user><doc src="a" local>x</user>') == "warning",
    "a tag that means nothing in a message": lambda: says("<user><summary>x</summary></user>", "<summary>x</summary>"),
    '`show_tool_call="false"` (not `local`)': lambda: (
        not chatmd.read_agent(chatmd.parse('<config show_tool_call="false"/>')).config.show_tool_call
    ),
    "`<import>` at the top": lambda: [e.tag for e in chatmd.parse('<import src="a"/>').elements] == ["import"],
    "white space around a RAW `<summary>`": lambda: (
        'summaries=(" x ",)'.replace('"', "'")
        in repr(chatmd.read_agent(chatmd.parse('<reasoning id="r"><summary>RAW| x |RAW</summary></reasoning>')).items)
    ),
    "no `<config>`, or two": lambda: (
        chatmd.read_agent(chatmd.parse('<config model="a"/><config model="b"/>')).config.model == "a"
    ),
    "`odoc_search`, `query_vector_db`, `index_ocaml_code`, `meta_refine`, `fork`": lambda: all(
        Chat.from_text(f'<tool name="{name}"/>').problems()[0].severity == "warning"
        for name in ("odoc_search", "query_vector_db", "index_ocaml_code", "meta_refine", "fork")
    ),
    "a local `<doc>` that is only in the working folder": lambda: True,  # tested above
}


def rows() -> list[str]:
    table = (DOCS / "chatmd.md").read_text().partition("## Differences from ochat")[2]
    return [match[1].strip() for match in re.finditer(r"^\| ((?:[^|\\]|\\.)+?) \|", table, re.MULTILINE)]


def test_the_table_of_differences_has_no_other_rows() -> None:
    assert sorted(rows()) == sorted(HERE)


@pytest.mark.parametrize("row", HERE)
def test_a_difference_is_as_documented(row: str) -> None:
    assert HERE[row]()
