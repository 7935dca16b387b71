"""Files that a document names: below the prompt's folder, or the folders that were allowed besides."""

from __future__ import annotations

import errno
from pathlib import Path

from chatmd.content.compressed import megabytes
from chatmd.errors import ChatmdError
from chatmd.workplace import Workplace
from lmm.disk.opened import open_folder

MOST_CONVERTED = 100_000_000
"""How many bytes a file may have that is turned into markdown: in PDF and the like, most of them are no text."""


def locate(src: str, place: Workplace) -> Path:
    """The real path of the file that `src` means, relative to the prompt's folder. It need not exist.

    Raises:
        ChatmdError: it lies outside of what may be read, by whatever way it leads there, or is no path.
        Untrusted: a config.toml that nobody approved names folders outside.
    """
    name = src.strip()
    if not name or "\0" in name:
        raise ChatmdError("this names no file", hint='write src="…"')
    if name.lower().startswith(("http://", "https://")):
        raise ChatmdError("this is a URL, and no file on disk", hint="leave 'local' out")
    path = place.folder / name
    try:
        real = path.resolve()
        allowed = [folder.resolve() for folder in (place.folder, *place.rules.roots)]
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links
        raise ChatmdError("this path cannot be followed", hint="check the path") from error
    if not any(real.is_relative_to(folder) for folder in allowed):
        place.rules.require("roots")
        raise ChatmdError(f"'{src}' lies outside of {allowed[0]}", hint=f"allow its folder: --root {path.parent}")
    return real


def read_local(path: Path, *, limit: int) -> bytes:
    """The bytes of an ordinary file at a real path.

    Raises:
        ChatmdError: it is missing, something else than a file, not readable, or has more than `limit` bytes.
    """
    try:
        with open_folder(path.parent) as folder, folder.open(path.name) as file:
            data = file.read(limit + 1)
    except FileNotFoundError as error:
        raise ChatmdError("there is no such file", hint=f"it would be {path}") from error
    except IsADirectoryError as error:
        raise ChatmdError("this is a folder, not a file") from error
    except PermissionError as error:
        raise _unreadable(path, error) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # no ordinary file
            raise ChatmdError(error.strerror or str(error)) from error
        raise ChatmdError(f"cannot be read: {error.strerror or error}") from error
    if len(data) > limit:
        hint = "fetch_limit under [chatmd] in config.toml allows more"
        raise ChatmdError(f"this file has more than {megabytes(limit)}", hint=hint)
    return data


def _unreadable(path: Path, error: OSError) -> ChatmdError:
    if path.is_dir():  # Windows
        return ChatmdError("this is a folder, not a file")
    return ChatmdError("you may not read this file", hint=f"chmod u+r {path}")
