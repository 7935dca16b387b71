"""Pages, help texts, errors and public docstrings are in plain English, as docs/style.md shows it.

The phrases of `_PHRASES` appear neither in the prose of pages (code is left out) nor in what a user reads of `src`:
strings of at least three words, the help of commands, and the docstrings of what `lmm`, `lmm_education` and `chatmd`
export.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

import chatmd
import lmm
import lmm_education
from lmm.cli.main import COMMANDS, load

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
_CODE = re.compile(
    r"^<!-- every key.*?end of every key -->|^(`{3,})[^\n]*\n.*?^\1[ \t]*$|^ {4}[^\n]*$|<!--.*?-->|`[^`\n]+`",
    re.DOTALL | re.MULTILINE,
)
_PHRASES = {  # phrase: what to write
    r"(is|are|was|were) told( of)?\b": "report, show, name",
    r"told (of|by)\b": "report",
    r"tells? of\b": "report, say",
    r"(?<![a-z] )who(ever)? (asks|waits|comes|wants|has|ticks|logs|reads|searches|calls)\b": "name the person",
    r"is heeded\b": "respect",
    r"knows? (no|nothing|neither|only|English)\b": "do not support, support only",
    r"stands? (there|in|on|at|below|above|beside|under|by itself|after|before|twice)\b": "appear, be",
    r"finds better\b": "finds more",
    r"what (it costs|they cost)\b": "cost",
    r"what (came|comes|became|becomes) of\b": "result",
    r"all the same\b": "still, anyway",
    r"as (it|they) (is|are) typed\b": "literally",
    r"without a word\b": "silently",
    r"at one's side\b": "beside you",
    r"(this|that|it|') is no (?!longer|more|such)\w+": "is not a",
    r"(?<!there )is no (failure|name|proof|parameter|key|file|folder|number|text)\b": "is not a",
    r"are no (tags|powers|names)\b": "are not",
    r"in vain\b": "for nothing",
    r"what (waits|stands)\b": "pending; what is in",
    r"(edits?|prompts?|questions?) (that )?waits?\b": "pending",
    r"(hears|heard)\b": "receive",
    r"holds (a|an|no|its|the|other|what|more|something|nothing)\b": "contain, have",
    r"lies (in|outside|where|below)\b": "be",
    r"mend(s|ed|ing)?\b": "correct, fix, repair",
    r"ask nobody\b": "without asking a model",
    r"leads? nowhere\b": "do not exist",
    r"the others? go(es)? on\b": "continue",
    r"anew\b": "again",
    r"where one stands\b": "the current folder",
    r"(?P<word>[a-z]{2,}) (?P=word)(?![\w-])": "write it once",
}
_PHRASE = re.compile(rf"\b(?:{'|'.join(_PHRASES)})", re.IGNORECASE)
_EXCEPTIONS: frozenset[str] = frozenset()
"""Strings of src that need one of the phrases: at most ten, each with its reason."""


def advise(match: re.Match[str]) -> str:
    """The phrase, and what to write."""
    words = next(words for phrase, words in _PHRASES.items() if re.match(phrase, match[0], re.IGNORECASE))
    return f"'{match[0]}' (write: {words})"


def problems(page: Path) -> list[str]:
    """Each phrase with its line and what to write."""
    prose = _CODE.sub(lambda code: "\n" * code.group().count("\n"), page.read_text(encoding="utf-8"))
    return [f"{page.name}:{prose.count(chr(10), 0, at.start()) + 1}: {advise(at)}" for at in _PHRASE.finditer(prose)]


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of at least three words that are no docstring, each with its line; a value in an f-string is {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    alone |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            text = node.value
        else:
            continue
        if text.count(" ") > 1 and text not in _EXCEPTIONS:
            yield node.lineno, text


def docstrings() -> Iterator[tuple[str, str]]:
    """Those of exported names with their methods, and the help of commands."""
    for module in (lmm, lmm_education, chatmd):
        yield from _exported(module)
    for row in COMMANDS:
        yield from _commands(f"lmm {row.name}", load(row))


def _exported(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name in module.__all__:
        found = getattr(module, name)
        methods = vars(found).items() if inspect.isclass(found) else ()
        for path, value in ((name, found), *((f"{name}.{part}", each) for part, each in methods if part[0] != "_")):
            if callable(value) or isinstance(value, (property, classmethod, staticmethod)):
                yield f"{module.__name__}.{path}", inspect.getdoc(value) or ""


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    if isinstance(command, click.Group):
        for part, found in command.commands.items():
            yield from _commands(f"{name} {part}", found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_in_plain_english(page: Path) -> None:
    """The message names the line, the phrase and what to write."""
    if page.name != "style.md":
        assert problems(page) == []


@pytest.mark.parametrize("package", ["lmm", "lmm_education", "chatmd", "lmm_editor"])
def test_what_users_read_of_the_code_is_in_plain_english(package: str) -> None:
    """Help texts, errors, notices and tools' descriptions; prompts to models are files of their own."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {advise(match)}"
        for path in sorted((ROOT / "src" / package).rglob("*.py"))
        for line, text in strings(path)
        for match in _PHRASE.finditer(text)
    ]
    assert found == []
    assert len(_EXCEPTIONS) <= 10


def test_public_docstrings_are_in_plain_english() -> None:
    """What `help`, the API page and `--help` show."""
    found = [f"{name}: {advise(match)}" for name, text in docstrings() for match in _PHRASE.finditer(text)]
    assert found == []


def test_a_phrase_is_found_in_prose_and_not_in_code(tmp_path: Path) -> None:
    """The check can fail."""
    page = tmp_path / "page.md"
    page.write_text(
        "Fine.\n\n```sh\nwho waits\n```\n\nYou are `told of` it, and\nwho waits is told of it.\n", encoding="utf-8"
    )
    assert [problem.split(" (")[0] for problem in problems(page)] == [
        "page.md:8: 'who waits'",
        "page.md:8: 'is told of'",
    ]
    code = tmp_path / "code.py"
    code.write_text('"""Who waits."""\n\nx = f"the file {1} stands in the way"\n', encoding="utf-8")
    assert [(line, advise(match)) for line, text in strings(code) for match in _PHRASE.finditer(text)] == [
        (3, "'stands in' (write: appear, be)")
    ]
