"""Files that a message names with ``@``."""

from __future__ import annotations

from pathlib import Path

from chatmd.errors import ChatmdError
from chatmd.runtime.rewind import mentions

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
                f"@{name} lies outside of the folder of the conversation",
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
