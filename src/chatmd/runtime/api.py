"""Run files from Python: to the end of a turn, or as a stream of what happens. Each function has a twin with an a."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from chatmd.language.parser import parse
from chatmd.runtime.events import RunResult
from chatmd.runtime.moved import moved
from chatmd.runtime.options import Hooks, RunOptions, agreed, tree_for
from chatmd.runtime.repair import repair
from chatmd.runtime.runner import Runner
from chatmd.runtime.transcript import TextTranscript
from chatmd.runtime.tree import Tree
from lmm import loop
from lmm.disk import files
from lmm.disk.files import read_document
from lmm.errors import FileWriteError, Place
from lmm.messages import Event


def run(path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> RunResult:
    """Run a ChatMD file to the next empty ``<user>``; everything is appended to it as it happens.

    Raises:
        InvalidDocument: the file has errors.
        ConsentNeeded: its tools can do more than read in its folder, and nobody agreed to that.
        ModelError, LimitReached: the model did not answer, or the run has used up what it may. What was said and
            done before is in the file, and running it again goes on from there.
        DocumentError: the file cannot be read or written, or another process runs it.
    """
    return loop.run(open_run(path, options, hooks).run())


async def arun(path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> RunResult:
    """`run` for callers with an event loop."""
    runner = await asyncio.to_thread(open_run, path, options, hooks)
    return await loop.run_async(runner.run())


async def stream(
    path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()
) -> AsyncGenerator[tuple[Event, Place]]:
    """`run` as a stream of what happens, and where; it ends with the `RunResult`. Closing it cancels the run."""
    runner = await asyncio.to_thread(open_run, path, options, hooks)
    async with aclosing(runner.stream()) as events:
        async for event in events:
            yield event


def open_run(path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> Runner:
    """What `run` runs, for those who want to steer or cancel it; `hooks.confirm` is asked here.

    With ``options.output``, the copy is made here.

    Raises: as `run`, before anything is sent.
    """
    path = Path(path)
    text, folder = read_document(path), path.resolve().parent
    tree = agreed(tree_for(path, folder, options, hooks), text, str(path), folder, options, hooks)
    if options.output is None:
        return Runner(path, tree, options, hooks)
    return Runner(options.output, _copied(path, text, tree, options), options, hooks)


def open_text(text: str, folder: Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> Runner:
    """`open_run` for a text that is in no file; what it names is relative to `folder`, and nothing is written."""
    folder = folder.resolve()
    tree = agreed(tree_for(None, folder, options, hooks), text, "", folder, options, hooks)
    return Runner(folder / "text", tree, options, hooks, TextTranscript(text))


def _copied(path: Path, text: str, tree: Tree, options: RunOptions) -> Tree:
    """Write the file that is to be run in place of `path`; the tree that it is run with."""
    output = options.output
    assert output is not None
    source, target = path.resolve().parent, output.resolve().parent
    text = text_beside(path, text, output)
    if source != target:
        tree = replace(tree, rules=replace(tree.rules, roots=(*tree.rules.roots, source)))
    tree = replace(tree, protected=(*tree.protected, output.resolve()))
    # Its tools are those that were agreed to a moment ago, by other paths.
    tree = agreed(tree, text, str(output), target, replace(options, yes=True), Hooks())
    files.replace(output, text)
    return tree


def text_beside(path: Path, text: str, output: Path) -> str:
    """The text of the file in `path` as it would mean the same in `output`, which is not there yet.

    Raises:
        FileWriteError: it is there, or its folder is not.
    """
    if output.exists():
        raise FileWriteError(
            "there is such a file already", where=str(output), hint=f"to go on with it: lmm run {output}; or delete it"
        )
    source, target = path.resolve().parent, output.resolve().parent
    if not target.is_dir():
        hint = f"make it: mkdir -p {output.parent}"
        raise FileWriteError("cannot be written: its folder does not exist", where=str(output), hint=hint)
    if source == target:
        return text
    return moved(parse(repair(text).text), Path(os.path.relpath(source, target)).as_posix())
