"""Files and pictures that go along with a message: named after ``@``, dropped into the line, or in the clipboard."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from chatmd.errors import ChatmdError
from chatmd.runtime.rewind import mentions
from chatmd.sidecar import PICTURES, store
from lmm.disk.folder import Folder
from lmm.errors import LmmError

_CLIPBOARDS = (("wl-paste", "-t", "image/png"), ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
               ("pngpaste", "-"))  # fmt: skip
_PUNCTUATION = ".,;:!?)]}'\""


def attached_files(text: str, folder: Path) -> tuple[str, ...]:
    """The files that are named, relative to `folder`; a name that no file has is text.

    Raises:
        ChatmdError: one of them lies outside of the folder.
    """
    folder = folder.resolve()
    found: dict[str, None] = {}
    for name in mentions(text):
        path = next((path for part in (name, name.rstrip(_PUNCTUATION)) if (path := _file(folder, part))), None)
        if path is None:
            continue
        if not path.resolve().is_relative_to(folder) or not path.is_relative_to(folder):
            raise ChatmdError(
                f"@{name} is outside of the folder of the conversation",
                hint=f"copy it to {folder}, or write it without @",
            )
        found[path.relative_to(folder).as_posix()] = None
    return tuple(found)


def _file(folder: Path, name: str) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return Path(*path.parts) if name and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def picture_in_clipboard(folder: Path) -> str:
    """How the picture is named that the clipboard holds, once it is kept; empty if none can be had there."""
    for command in _CLIPBOARDS:
        with contextlib.suppress(OSError, subprocess.SubprocessError, LmmError):
            data = subprocess.run(command, capture_output=True, timeout=5, check=True).stdout
            if data.startswith(b"\x89PNG"):
                return store(Folder(folder), data, ".png")
    return ""


def dropped_picture(text: str, folder: Path) -> str:
    """How a picture is named whose path was dropped into the line; one outside of the folder is copied. Else empty."""
    with contextlib.suppress(ValueError, OSError, RuntimeError, LmmError):
        (name,) = shlex.split(text)
        path = Path(unquote(urlsplit(name).path) if name.startswith("file:///") else name).expanduser()
        suffix = path.suffix.lower().replace(".jpeg", ".jpg")
        if suffix in PICTURES and path.is_absolute() and path.is_file():
            real = path.resolve()
            inside = real.is_relative_to(folder)
            return real.relative_to(folder).as_posix() if inside else store(Folder(folder), real.read_bytes(), suffix)
    return ""
