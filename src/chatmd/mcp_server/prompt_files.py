"""The ChatMD files of a folder, as they are published: read again when they change."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chatmd.language.agent import interpret
from chatmd.language.imports import resolve_imports
from chatmd.language.items import AgentSpec, MessageItem
from chatmd.language.nodes import BLANK, Comment, Element, SyntaxTree, Text
from chatmd.language.parser import parse
from chatmd.tools.mcp_catalogue import model_names
from lmm.disk.files import read_document
from lmm.errors import LmmError

SUFFIXES = (".chatmd", ".md")
_LONGEST = 500  # characters of a description
_MOST = 500  # files
Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class PromptFile:
    """One file. `name` is its tool's and its prompt's; `problem` says why it cannot be run, if it cannot.

    `needs_input` if nothing is asked in the file itself.
    """

    path: Path
    name: str
    description: str
    needs_input: bool
    problem: str = ""


def stamp_of(folder: Path) -> Stamp:
    """What tells whether a folder's prompt files may have changed: names, times, sizes, inodes."""
    return tuple(
        (path.name, status.st_mtime_ns, status.st_size, status.st_ino)
        for path in _paths(folder)
        if (status := _status(path)) is not None
    )


def read_prompts(folder: Path, *, taken: Iterable[str] = ()) -> tuple[list[PromptFile], list[str]]:
    """The prompt files of a folder, by name, and notes on what is not published, and why.

    Files that end in ``.chatmd`` are prompts; those in ``.md`` if they begin as prompts do. `taken` are names of
    other tools.
    """
    found, notes = list[tuple[Path, SyntaxTree]](), list[str]()
    for path in _paths(folder):
        try:
            document = parse(read_document(path), file=str(path))
        except LmmError as error:
            notes.append(f"{path.name} is not published: {error.message}")
            continue
        if path.suffix == ".chatmd" or _begins_as_a_prompt(document):
            found.append((path, document))
    names = model_names([path.stem for path, _ in found])
    others, prompts = set(taken), list[PromptFile]()
    for path, document in found:
        name = names[path.stem]
        if name in others:
            notes.append(f"{path.name} is not published: there is another tool '{name}' (rename the file)")
            continue
        others.add(name)
        prompts.append(_prompt(path, name, document))
    return prompts, notes


def _paths(folder: Path) -> Sequence[Path]:
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    except OSError:
        return []
    return [path for path in names if path.is_file()][:_MOST]


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _begins_as_a_prompt(document: SyntaxTree) -> bool:
    for node in document.children:
        if not isinstance(node, Comment) and not (isinstance(node, Text) and not node.value.strip(BLANK + "\ufeff")):
            return isinstance(node, Element)
    return False


def _prompt(path: Path, name: str, document: SyntaxTree) -> PromptFile:
    spec, found = interpret(resolve_imports(document))
    errors = [problem for problem in (*document.problems, *found) if problem.severity == "error"]
    problem = f"{errors[0].span.where}: {errors[0].message}" if errors else ""
    return PromptFile(path, name, described(path, document, spec), spec.waits_for_user, problem)


def described(path: Path, document: SyntaxTree, spec: AgentSpec) -> str:
    """What a prompt is for: the comment at its top, else the beginning of its instructions, else its name."""
    for node in document.children:
        if isinstance(node, Comment) and (words := " ".join(node.value.split())):
            return words[:_LONGEST]
        if isinstance(node, Element):
            break
    for item in spec.items:
        if isinstance(item, MessageItem) and item.role in ("system", "developer"):
            text = " ".join("".join(part for part in item.content if isinstance(part, str)).split())
            return re.split(r"(?<=[.!?]) ", text)[0][:_LONGEST] or f"The agent {path.name}."
    return f"The agent {path.name}."
