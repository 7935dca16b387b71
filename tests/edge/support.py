"""What the end-to-end tests share: running the command, reading replies back, waiting for a condition."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.forked import python

from lmm.cli.main import main
from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.notebook.chat_log import unquote_chunks
from lmm_education.store.generations import checksum

PATIENCE = 60.0
BATCH_MODEL = """import lmm
from lmm.messages import Attachment

@lmm.batch_model("height")
async def height(batch):
    async def make(section, text):
        return await batch.ask("How tall is it?", Attachment(text))

    await batch.annotate("height", make)
"""
"""A file for `lmm batch height --from`."""
MANY = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 1
"""How many times as often something is killed, raced and damaged."""


def copy_course(course: Path, folder: Path) -> None:
    """A course with its store into a folder, holes as holes: else a store of half a megabyte takes 168."""

    def copy(old: str, new: str) -> None:
        checksum(old, new)
        shutil.copystat(old, new)

    shutil.copytree(course, folder, dirs_exist_ok=True, copy_function=copy)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def lmm(*words: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Run the real command to its end in a process of its own."""
    with start(*words, env=env, stdin=subprocess.PIPE) as process:
        return finish(process, stdin)


def run_here(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """Run the command's own code in this process, which is faster by the time that imports take."""
    code = main(words)
    out, err = capsys.readouterr()
    return Ran(code, out, err)


def start(
    *words: str | Path, env: Mapping[str, str] | None = None, stdin: int | None = None
) -> subprocess.Popen[bytes]:
    """Start the real command."""
    pipe = subprocess.PIPE
    return python("-m", "lmm", *words, env={**os.environ, **(env or {})}, stdin=stdin, stdout=pipe, stderr=pipe)


def finish(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Ran:
    """Wait until a started command ends."""
    try:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ran(process.returncode, out.decode(), err.decode())


def exchanges(text: str) -> list[tuple[str, str]]:
    """Every logged prompt with its reply, in the order of the document, as the program reads them."""
    blocks = [block for block in parse_markdown_text(text) if isinstance(block, MetadataBlock)]
    logs = [item for block in blocks for item in block.values().get("~chat_", [])]
    return [(str(item.get("query", item.get("message"))), unquote_chunks(item["~reply"])) for item in logs]


def exchanges_of(path: Path) -> list[tuple[str, str]]:
    """`exchanges` of a file."""
    return exchanges(path.read_bytes().decode("utf-8"))


def waiting(text: str) -> list[str]:
    """The prompts that still wait in a document."""
    blocks = [block for block in parse_markdown_text(text) if isinstance(block, MetadataBlock)]
    return [prompt.text for block in blocks for prompt in block.prompts]


def wait_until(condition: Callable[[], object], *, timeout: float = PATIENCE) -> None:
    """Return when the condition holds."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"not so after {timeout} s"
        time.sleep(0.01)


def files_in(folder: Path) -> set[str]:
    """Names of the files in a folder."""
    return {path.name for path in folder.iterdir()}
