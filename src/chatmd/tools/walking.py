"""Go through the folders below a path, in order, following no link, and leaving out what nobody wants to see."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chatmd.tools.confined import Folder, open_folder
from chatmd.tools.path_rules import INTERNAL, is_internal
from lmm.disk.ignore import IgnoreRule, is_ignored, parse_ignore
from lmm.disk.secrets import comparable

SKIPPED = frozenset(
    ("node_modules", "bower_components", "__pycache__", "__MACOSX", ".venv", ".tox", ".nox", ".cache", *INTERNAL)
)
"""Folders that are listed, and not looked into."""
_LARGEST_IGNORE = 200_000  # bytes
_Layers = tuple[tuple[int, tuple[IgnoreRule, ...]], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder: the parts of its path below the folder that is gone through; `size` is in bytes.

    `aside` if it is hidden or ignored: nobody looks for something there who does not name it. `closed` if it is a
    folder that is not looked into for that reason.
    """

    parts: tuple[str, ...]
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0
    aside: bool = False
    closed: bool = False


def walk(top: Path, root: Path, *, depth: int = 1) -> Iterator[Entry]:
    """What is in the folder `top` and in those below, down to `depth` folders; in order, folders before their content.

    All that is in `top` itself is told of. Further down, what is hidden or named in a ``.gitignore`` is left out, and
    folders such as ``node_modules`` stay closed. The rules of ``.gitignore`` are read from `root` down.

    Raises:
        OSError: `top` cannot be read; folders below it that cannot look empty.
    """
    yield from _walk(top, (), top.relative_to(root).parts, _layers_above(top, root), depth)


def _walk(folder: Path, parts: tuple[str, ...], place: tuple[str, ...], layers: _Layers, depth: int) -> Iterator[Entry]:
    """The entries of one folder; `parts` lead to it from the top, `place` from the root."""
    with open_folder(folder) as opened:
        found = sorted(
            ((comparable(name), name, opened.stat(name)) for name in opened.entries()), key=lambda entry: entry[:2]
        )
        if rules := _rules_in(opened):
            layers = (*layers, (len(place), rules))
    for _, name, status in found:
        if status is None or name.startswith(".lmm-"):
            continue
        kind = _kind(status.st_mode)
        is_folder = kind == "folder"
        aside = name.startswith(".") or name in SKIPPED or is_internal((name,))
        aside = aside or is_ignored(layers, (*place, name), is_folder)
        if aside and parts and not is_folder:
            continue
        yield Entry((*parts, name), kind, status.st_size, aside, is_folder and aside and depth > 1)
        if is_folder and not aside and depth > 1:
            with contextlib.suppress(OSError):  # a folder that may not be read, or has gone meanwhile
                yield from _walk(folder / name, (*parts, name), (*place, name), layers, depth - 1)


def _kind(mode: int) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_ISREG(mode) else "other"


def _layers_above(top: Path, root: Path) -> _Layers:
    """The rules of the folders from `root` down to the one that `top` is in."""
    layers: list[tuple[int, tuple[IgnoreRule, ...]]] = []
    parts: Sequence[str] = top.relative_to(root).parts
    for depth in range(len(parts)):
        with open_folder(root.joinpath(*parts[:depth])) as folder:
            layers.append((depth, _rules_in(folder)))
    return tuple(layers)


def _rules_in(folder: Folder) -> tuple[IgnoreRule, ...]:
    try:
        with folder.open(".gitignore") as file:
            return parse_ignore(file.read(_LARGEST_IGNORE).decode("utf-8", "replace"))
    except OSError:
        return ()
