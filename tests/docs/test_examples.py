"""Every fenced example in README.md and docs/ is executed.

- ```` ```markdown title="notes.md" ```` (any language) writes a file; the site shows its name;
- ```` ```console ```` runs each `$ command` and compares what it prints; a line or part that is `…` matches
  anything;
- ```` ```python ```` runs as a doctest if it has prompts, else as a script.

The examples of one page share a fresh folder and run in order. Other blocks are not run.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.forked import python

from lmm.markdown import TextBlock, parse_markdown_text

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_OF_A_SHELL = frozenset("|&;<>()$`*?[]{}~#\n")
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\!]*\"""")
_FENCE = re.compile(r"(?:^|\n)(?P<fence>```+)(?P<info>[^\n]*)\n(?P<code>.*?)(?<=\n)(?P=fence)\s*(?=\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One fenced block: its language, the options after it, its code and its line."""

    language: str
    options: dict[str, str]
    code: str
    line: int


def examples(page: Path) -> Iterator[Example]:
    """The fenced blocks of a page, found with our own parser."""
    for block in parse_markdown_text(page.read_text(encoding="utf-8")):
        if not isinstance(block, TextBlock):
            continue
        for fence in _FENCE.finditer(block.content):
            words = shlex.split(fence["info"].strip() or "text")
            options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            yield Example(words[0], options, fence["code"], block.line + block.content[: fence.start()].count("\n"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_do_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written, commands print what is shown, Python runs."""
    monkeypatch.chdir(tmp_path)
    environment = os.environ | {
        "LMM_STATE_DIR": str(tmp_path / ".state"),
        "LMM_CACHE_DIR": str(tmp_path / ".cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page):
        where = f"{page.name}:{example.line}"
        if "title" in example.options:
            target = tmp_path / example.options["title"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(example.code, encoding="utf-8")
        elif example.language == "console":
            check_console(example.code, tmp_path, environment, where)
        elif example.language == "python":
            run_python(example.code, namespace, where)


def check_console(code: str, folder: Path, environment: dict[str, str], where: str) -> None:
    """Run the commands of a console block in turn; compare output, standard error included."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        start = _bash if _OF_A_SHELL.intersection(_QUOTED.sub("", command)) or not command.startswith("lmm ") else _lmm
        with start(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            printed = process.communicate(timeout=100)[0]
        pattern = ".*?".join(re.escape(piece) for piece in expected.strip().split("…"))
        assert re.fullmatch(pattern, printed.strip(), re.DOTALL), (
            f"{where}: $ {command}\n--- expected\n{expected}\n--- got (exit {process.returncode})\n{printed}"
        )


def _lmm(command: str, **options: Any) -> subprocess.Popen[str]:
    return python("-m", *shlex.split(command), **options)


def _bash(command: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(["bash", "-c", command], **options)


def run_python(code: str, namespace: dict[str, object], where: str) -> None:
    """Run a Python block; with `>>>` prompts, compare what it prints."""
    if ">>>" not in code:
        exec(compile(code, where, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(code, namespace, where, where, 0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=failures.append, clear_globs=False)
    namespace.update(test.globs)
    assert not failures, "".join(failures)
