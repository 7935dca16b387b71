"""Imports: prose and markup, relative paths, cycles, confinement."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chatmd.language.agent import MessageItem, read_agent
from chatmd.language.imports import MAX_IMPORTS, resolve_imports
from chatmd.language.lint import check, find_unseen
from chatmd.language.nodes import Problem, SyntaxTree
from chatmd.language.syntax import parse


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def resolved(path: Path, roots: tuple[Path, ...] = ()) -> SyntaxTree:
    return resolve_imports(parse(path.read_text(), file=str(path)), roots=roots)


def said(document: SyntaxTree) -> list[str]:
    """Return the texts of the messages."""
    items = read_agent(document).items
    return ["".join(str(part) for part in item.content) for item in items if isinstance(item, MessageItem)]


def only_problem(path: Path, **options: tuple[Path, ...]) -> Problem:
    (problem,) = resolved(path, **options).problems
    return problem


def test_prose_and_markup_go_where_the_import_stands(tmp_path: Path) -> None:
    """In a message, a file is text, exact to the byte; between messages, it is a document."""
    write(
        tmp_path,
        {
            "a.md": '<import src="tools.md"/><system>A. <import src="parts/b.md" local/> C.</system><user>\n</user>',
            "tools.md": '<!-- all of them -->\n<tool name="grep" command="rg"/>\n<developer>D.</developer>\n',
            "parts/b.md": 'Never <b>shout</b>,\r\nRAW|</system>|RAW <import src="../c.md"/>',
            "c.md": "\ufeffor whisper.",
        },
    )
    document = resolved(tmp_path / "a.md")
    assert said(document) == ["D.", "A. Never <b>shout</b>,\r\n</system> or whisper. C.", "\n"]
    assert [tool.name for tool in read_agent(document).tools] == ["grep"]
    assert not document.problems


def test_contents_know_the_file_they_come_from(tmp_path: Path) -> None:
    """Problems of imported files are reported once, with their own places."""
    write(
        tmp_path,
        {
            "a.md": '<system><import src="b.md"/><import src="b.md"/></system>',
            "b.md": "ok\n<agent src='x' local>\n",
        },
    )
    document = resolved(tmp_path / "a.md")
    assert [p.span.where for p in document.problems] == [f"{tmp_path / 'b.md'}:2:1"]
    assert {p.span.file for p in check(document)} == {str(tmp_path / "b.md")}


def test_a_document_without_imports_stays_itself() -> None:
    document = parse("<user><doc src='a' local/></user>")
    assert resolve_imports(document) is document


def test_text_at_the_top_of_an_imported_document_is_an_error(tmp_path: Path) -> None:
    """It would not be sent; inside a message it would."""
    write(tmp_path, {"a.md": '<import src="b.md"/>', "b.md": "Some prose."})
    (problem,) = check(resolved(tmp_path / "a.md"))
    assert problem.span.where == f"{tmp_path / 'b.md'}:1:1"
    assert "outside of any element" in problem.message


@pytest.mark.parametrize(
    ("files", "chain"),
    [
        ({"a.md": '<import src="a.md"/>'}, ["a.md", "a.md"]),
        ({"a.md": '<import src="b.md"/>', "b.md": '<import src="./x/../a.md"/>', "x/_": ""}, ["a.md", "b.md", "a.md"]),
        (
            {
                "a.md": '<user><import src="b.md"/></user>',
                "b.md": '<import src="c.md"/>',
                "c.md": '<import src="b.md"/>',
            },
            ["b.md", "c.md", "b.md"],
        ),
    ],
)  # fmt: skip
def test_cycles_are_told_with_their_chain(files: dict[str, str], chain: list[str], tmp_path: Path) -> None:
    write(tmp_path, files)
    problem = only_problem(tmp_path / "a.md")
    assert problem.message == f"imports go round: {' → '.join(str(tmp_path / name) for name in chain)}"
    assert problem.span.file == str(tmp_path / chain[-2])


def test_a_cycle_through_a_link_is_one_too(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": '<import src="link.md"/>'})
    (tmp_path / "link.md").symlink_to("a.md")
    assert only_problem(tmp_path / "a.md").message.startswith("imports go round")


@pytest.mark.parametrize(
    "src",
    ["../secret.md", "{outside}/secret.md", "link.md", "folder/secret.md", "x/../../secret.md", "./x/../../secret.md"],
)
def test_files_outside_are_refused_unless_allowed(src: str, tmp_path: Path) -> None:
    """Their real paths count: links and detours do not help."""
    prompt, outside = tmp_path / "prompt", tmp_path
    write(tmp_path, {"secret.md": "secret", "prompt/x/y.md": ""})
    src = src.replace("{outside}", str(outside))
    write(prompt, {"a.md": f'<system><import src="{src}"/></system>'})
    (prompt / "link.md").symlink_to(outside / "secret.md")
    (prompt / "folder").symlink_to(outside)
    problem = only_problem(prompt / "a.md")
    assert problem.message == f"'{src}' is outside of {prompt}"
    assert problem.span.column == 17
    assert said(resolved(prompt / "a.md", roots=(outside,))) == ["secret"]


def test_a_folder_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    write(tmp_path, {"prompt/a.md": '<system><import src="../prompts/b.md"/></system>', "prompts/b.md": "x"})
    assert "is outside" in only_problem(tmp_path / "prompt" / "a.md").message


def test_a_prompt_that_is_a_link_imports_from_where_it_is_seen(tmp_path: Path) -> None:
    write(tmp_path, {"real/a.md": '<system><import src="b.md"/></system>', "seen/b.md": "here", "real/b.md": "there"})
    (tmp_path / "seen" / "a.md").symlink_to(tmp_path / "real" / "a.md")
    assert said(resolved(tmp_path / "seen" / "a.md")) == ["here"]


@pytest.mark.parametrize(
    ("src", "message"),
    [
        ("b.md", "'b.md' cannot be imported: there is no such file; looked for at "),
        ("", "has no file name"),
        ("  ", "has no file name"),
        ("&#0;", "has no file name"),
        ("sub", "this is a folder"),
        ("https://x.org/a.md", "not URLs"),
        ("binary", "is not UTF-8"),
        ("pipe", "a device or a pipe"),
        ("big", "more than 10 MB"),
        ("x" * 5000, "cannot be imported"),
    ],
    ids=lambda value: value[:12],
)
def test_what_cannot_be_read_is_told_and_stays(src: str, message: str, tmp_path: Path) -> None:
    """The element stays in place, so that nothing is dropped silently."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "big").open("wb") as big:
        big.truncate(10_000_001)
    write(tmp_path, {"a.md": f'<system>a<import src="{src}"/></system>'})
    document = resolved(tmp_path / "a.md")
    (problem,) = document.problems
    assert message in problem.message
    assert problem.severity == "error"
    assert document.children == parse((tmp_path / "a.md").read_text()).children


def test_imports_that_multiply_end(tmp_path: Path) -> None:
    """Each file imports the next one ten times."""
    write(tmp_path, {f"{n}.md": f'<import src="{n + 1}.md"/>' * 10 for n in range(10)})
    write(tmp_path, {"10.md": "<user>x</user>"})
    problems = resolved(tmp_path / "0.md").problems
    assert {p.message for p in problems} == {f"more than {MAX_IMPORTS} imports"}
    assert len(problems) < 10 * MAX_IMPORTS


def test_an_import_in_an_agents_body_counts(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": '<user><agent src="x" local><import src="b.md"/></agent></user>', "b.md": "input"})
    (item,) = read_agent(resolved(tmp_path / "a.md")).items
    assert "content=('input',)" in repr(item)


def test_relative_to_the_current_folder_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"b.md": "x"})
    monkeypatch.chdir(tmp_path)
    assert said(resolve_imports(parse('<user><import src="b.md"/></user>'))) == ["x"]


def test_files_that_hold_keys_are_not_imported(tmp_path: Path) -> None:
    """Not even by a link; but a file that is itself a root was allowed."""
    write(
        tmp_path,
        {"a.md": '<user><import src=".env"/></user>', ".env": "KEY=1", "b.md": '<user><import src="n"/></user>'},
    )
    (tmp_path / "n").symlink_to(".env")
    for name in ("a.md", "b.md"):
        assert "contain keys or passwords, and imports are sent" in only_problem(tmp_path / name).message
    assert said(resolved(tmp_path / "a.md", roots=(tmp_path / ".env",))) == ["KEY=1"]


def test_what_an_import_says_besides_its_file_is_reported_where_the_file_was_found(tmp_path: Path) -> None:
    """The element is gone from the tree once the file has replaced it."""
    text = '<user><import src="b.md" namespace="x"/><import src="b.md" local local>Y</import></user>'
    write(tmp_path, {"a.md": text, "b.md": "Hello."})
    document = resolved(tmp_path / "a.md")
    assert [problem.message for problem in check(document)] == [
        "<import> has no attribute 'namespace', and it is ignored",
        "the content of <import> is dropped",
        "'local' occurs twice here; the last one counts",
    ]
    assert len(find_unseen(document)) == 2
    write(
        tmp_path,
        {"c.md": '<user><import src="d.md"/><import src="d.md"/></user>', "d.md": '<import src="b.md" foo="1"/>'},
    )
    assert len(check(resolved(tmp_path / "c.md"))) == 1
