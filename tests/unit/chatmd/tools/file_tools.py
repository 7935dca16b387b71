"""Shared by the tests of the file tools: open tools like a prompt does, and call them like a run does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from chatmd.context import Run
from chatmd.language.agent import Tool
from chatmd.tools.registry import kind_of
from lmm.config_files import settings_for
from lmm.models.port import RunnableTool

READING = ("read_file", "read_directory", "search_files")
WRITING = ("write_file", "append_to_file", "find_and_replace", "apply_patch")


def workplace(folder: Path, *, protected: Sequence[Path] = ()) -> Run:
    """Make a run in which only files can be used."""
    return Run(folder, settings_for(env={}), protected=tuple(protected))


def call(name: str, place: Run | Path, *, declared: dict[str, Any] | None = None, **arguments: Any) -> str:
    """Call a tool and return its text; check that the arguments fit its schema, and that it succeeded."""
    return asyncio.run(_call(name, place if isinstance(place, Run) else workplace(place), declared, arguments))


async def _call(name: str, place: Run, declared: dict[str, Any] | None, arguments: dict[str, Any]) -> str:
    tool = Tool("builtin", name, **(declared or {}))
    async with kind_of(tool).load()(tool, place) as tools:
        (opened,) = tools
        runnable: RunnableTool = opened
        Draft202012Validator(runnable.definition.parameters).validate(arguments)
        output = await runnable.call(arguments)
    assert not output.failed
    assert not output.images
    return output.text


def attempts(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over all ways to give the tools a path."""
    yield "read_file", {"path": path}
    yield "read_directory", {"path": path, "depth": 3}
    yield "search_files", {"path": path, "pattern": "e"}
    yield "write_file", {"path": path, "content": "x", "overwrite": True}
    yield "append_to_file", {"path": path, "content": "x"}
    yield "find_and_replace", {"path": path, "find": "SECRET", "replace": "x"}
    for section in (
        f"Add File: {path}\n+x",
        f"Delete File: {path}",
        f"Update File: {path}\n+x\n*** End of File",
        f"Update File: a.md\n*** Move to: {path}",
    ):
        yield "apply_patch", {"patch": f"*** Begin Patch\n*** {section}\n*** End Patch"}
