"""The files that a tool may access: those whose real path is below one of its roots.

All tools name files in one way, whatever their roots: relative to the working folder, which is the prompt's, or
absolute. So a path that one tool shows means the same to all others, and to commands. `ToolRoots.locate` resolves a
path; `lmm.disk.opened` opens it without following another link, so that the file cannot be swapped in between.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath, PurePosixPath

from chatmd.context import Run
from chatmd.errors import ChatmdError, FileRefused
from chatmd.language.agent import Tool
from lmm.disk.folder import is_internal
from lmm.disk.names import comparable, is_secret_file
from lmm.errors import FileReadError
from lmm.terminal import visible

# -- Paths that are refused, whatever the roots ----------------------------------------------------------------


LONGEST = 4096  # characters of a path
DEEPEST = 100  # folders in a path
SYSTEM = ("/proc", "/sys", "/dev")
"""Folders of the system without documents: other processes' memory and environment, devices."""
_DRIVE = re.compile(r"[A-Za-z]:($|[\\/])")


def check_path(path: str) -> None:
    """Refuse a path that cannot name a file in a folder, or names another one than it seems to.

    >>> check_path("notes/../notes/a b.md")
    >>> check_path("~/notes.md")
    Traceback (most recent call last):
    ...
    chatmd.errors.FileRefused: ~/notes.md: '~' is not expanded (write a path relative to the working folder)

    Raises:
        FileRefused: it is empty or too long, or contains what a path should not.
    """
    visible_path = visible(path, line=True)
    if not path.strip():
        raise FileRefused("this path is empty", hint="the working folder itself is '.'")
    if len(path) > LONGEST or len(re.findall(r"[/\\]+", path)) > DEEPEST:
        raise FileRefused(
            f"a path has at most {LONGEST} characters and {DEEPEST} folders", where=f"{visible_path[:60]}…"
        )
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path):
        raise FileRefused("control characters have no place in a path", where=visible_path)
    if path == "~" or re.match(r"~\w*[/\\]", path):
        raise FileRefused("'~' is not expanded", where=visible_path, hint="write a path relative to the working folder")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        raise FileRefused("this is a URL, not a path", where=visible_path)
    if _DRIVE.match(path) or "\\" in path:
        raise FileRefused("a backslash or a drive parts no folders here", where=visible_path, hint="write folder/file")


LOOK = "check the path: it is relative to the working folder"
"""The hint for a model whose path does not exist or does not fit."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder, or a single file, that a tool may touch: its name as the author wrote it, and its real path."""

    name: str
    real: Path


@dataclass(frozen=True, slots=True)
class RootedPath:
    """A resolved path: its `real` path, below `root`, and the `name` by which the model can use it again.

    `is_link` if the last part of the path as given is a symbolic link.
    """

    name: str
    real: Path
    root: Root
    is_link: bool = False

    @property
    def inside(self) -> tuple[str, ...]:
        """The parts of the path below the root; none for the root itself."""
        return self.real.relative_to(self.root.real).parts


@dataclass(frozen=True, slots=True)
class ToolRoots:
    """The roots of one tool; paths are relative to `folder`. No tool may write `protected` files."""

    folder: Path
    roots: tuple[Root, ...]
    protected: tuple[Path, ...] = ()

    @property
    def names(self) -> str:
        """The roots, for messages."""
        return ", ".join(root.name for root in self.roots)

    def described(self) -> str:
        """Describe the roots for the model."""
        if [root.real for root in self.roots] == [self.folder]:
            return "Paths are relative to the working folder, and stay inside it."
        return f"Paths are relative to the working folder; you may use {self.names} and what is below."

    def locate(self, path: str) -> RootedPath:
        """Resolve a path, which need not exist.

        Raises:
            FileRefused: it is outside of the roots, also by a link, or is not a valid path.
        """
        check_path(path)
        on_disk, visible_path = _as_on_disk(self.folder / path), visible(path, line=True)
        real = _real(on_disk, visible_path)
        fits = [root for root in self.roots if real.is_relative_to(root.real)]
        if not fits:
            raise FileRefused(
                "this is outside of what the tool may use", where=visible_path, hint=f"it may use: {self.names}"
            )
        if real.as_posix().startswith(tuple(f"{folder}/" for folder in SYSTEM)):
            raise FileRefused("files of the system are not for tools", where=visible_path)
        innermost = max(fits, key=lambda root: len(root.real.parts))
        return RootedPath(_name_of(innermost, real), real, innermost, _is(on_disk.is_symlink))

    def readable(self, path: str) -> RootedPath:
        """`locate` a file whose content may be shown.

        Raises:
            FileRefused: also if its name suggests keys or passwords.
        """
        return self._not_secret(self.locate(path), "their content would be sent to the model")

    @staticmethod
    def _not_secret(target: RootedPath, why: str) -> RootedPath:
        if is_secret_file(PurePath(*target.inside)):
            problem = f"files of this name usually contain keys or passwords, and {why}"
            hint = "the author of the prompt can allow it by naming the file in roots"
            raise FileRefused(problem, where=target.name, hint=hint)
        return target

    def writable(self, path: str) -> RootedPath:
        """`locate` a file that may be created, changed or removed.

        Raises:
            FileRefused: also if it is a protected file, a folder, or is in a folder such as ``.git``.
        """
        target = self._not_secret(self.locate(path), "tools may not change them")
        if _is(target.real.is_dir):
            raise FileRefused("this is a folder, not a file", where=target.name)
        if is_internal(target.inside):
            raise FileRefused(
                "this is in a folder that belongs to a program; tools may not change it", where=target.name
            )
        if any(_same_file(target.real, file) for file in self.protected):
            raise FileRefused("this file belongs to the conversation; only the run may write it", where=target.name)
        return target

    def missing(self, target: RootedPath) -> FileReadError:
        """Return the error for a missing file, with a hint at similar names."""
        folder = next((folder for folder in target.real.parents if _is(folder.is_dir)), self.folder)
        names = sorted(_names(folder)) if folder.is_relative_to(target.root.real) else []
        parts = (target.real.relative_to(folder).parts[0], target.real.name)
        close = {name: None for part in parts for name in get_close_matches(part, names, n=2)}
        suggestions = ", ".join(visible(_name_of(target.root, folder / name), line=True) for name in close)
        hint = f"did you mean {suggestions}?" if suggestions else LOOK
        return FileReadError("there is no such file", where=target.name, hint=hint)


def roots_of(declared: Tool, run: Run) -> ToolRoots:
    """Return the roots of a declaration; by default the prompt's folder. Paths are relative to its ``cwd``.

    Raises:
        ChatmdError: one does not exist.
    """
    folder = Path(os.path.realpath(run.folder))
    roots = tuple(_root(name, folder, declared) for name in declared.roots or (".",))
    work = Path(os.path.realpath(folder / declared.cwd))
    if work != folder:
        roots = tuple(Root(Path(os.path.relpath(root.real, work)).as_posix(), root.real) for root in roots)
    prompt = declared.span.file
    return ToolRoots(work, roots, (*run.protected, *([Path(prompt)] if prompt else ())))


def _root(name: str, folder: Path, declared: Tool) -> Root:
    try:
        real = Path(os.path.realpath(folder / Path(name).expanduser(), strict=True))
    except (OSError, RuntimeError, ValueError) as error:
        hint = f"paths are relative to {folder}"
        raise ChatmdError(f'roots="{name}" is not a folder', where=declared.span.where, hint=hint) from error
    return Root(Path(name).as_posix(), real)


def _real(path: Path, name: str) -> Path:
    """Return the real path of a file, which may be missing.

    Raises:
        FileRefused: there is a loop of links, a name is too long, or a folder may not be entered.
    """
    try:
        return Path(os.path.realpath(path, strict=True))
    except (FileNotFoundError, NotADirectoryError):
        with suppress(OSError):
            return Path(os.path.realpath(path))
        raise FileRefused("this path is being changed", where=name) from None
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "this is not a path"
        raise FileRefused(f"this path cannot be followed: {why}", where=name) from error


def _name_of(root: Root, real: Path) -> str:
    """Return the name of a file for the model: the author's name of the root, and the path below it."""
    return PurePosixPath(root.name, *real.relative_to(root.real).parts).as_posix()


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return comparable(str(one)) == comparable(os.path.realpath(other))


def _as_on_disk(path: Path) -> Path:
    """Return the path with the spelling of existing files, where é may be one character or two."""
    if str(path).isascii() or os.path.lexists(path):
        return path
    found = Path(path.anchor)
    for part in path.parts[1:]:
        if not (part.isascii() or os.path.lexists(found / part)):
            normalized = unicodedata.normalize("NFC", part)
            alike = (name for name in sorted(_names(found)) if unicodedata.normalize("NFC", name) == normalized)
            part = next(alike, part)
        found /= part
    return found


def _names(folder: Path) -> Iterable[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return ()


def _is(question: Callable[[], bool]) -> bool:
    """Return the answer, or False if the system refuses it, as for a name that is too long."""
    try:
        return question()
    except OSError:
        return False
