"""What a path may look like, and which files are left alone whatever the roots say."""

from __future__ import annotations

import re
import unicodedata

from chatmd.errors import FileRefused
from lmm.terminal import visible

LONGEST = 4096  # characters of a path
DEEPEST = 100  # folders in a path
SYSTEM = ("/proc", "/sys", "/dev")
"""Folders of the system that hold no documents: other processes' memory and environment, devices."""
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:($|[\\/])")


def check_path(path: str, *, windows: bool = False) -> None:
    """Refuse what names no file in any folder, or another one than it seems to.

    >>> check_path("notes/../notes/a b.md")
    >>> check_path("~/notes.md")
    Traceback (most recent call last):
    ...
    chatmd.errors.FileRefused: ~/notes.md: '~' is not expanded (write a path relative to the working folder)

    Raises:
        FileRefused: it is empty or too long, or holds what no path should.
    """
    shown = visible(path, line=True)
    if not path.strip():
        raise FileRefused("this path is empty", hint="the working folder itself is '.'")
    if len(path) > LONGEST or len(re.findall(r"[/\\]+", path)) > DEEPEST:
        raise FileRefused(f"a path has at most {LONGEST} characters and {DEEPEST} folders", where=f"{shown[:60]}…")
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path):
        raise FileRefused("control characters have no place in a path", where=shown)
    if path == "~" or re.match(r"~\w*[/\\]", path):
        raise FileRefused("'~' is not expanded", where=shown, hint="write a path relative to the working folder")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        raise FileRefused("this is a URL, not a path", where=shown)
    if windows:
        _check_windows(path, shown)
    elif _DRIVE.match(path) or "\\" in path:
        raise FileRefused("a backslash or a drive parts no folders here", where=shown, hint="write folder/file")


def _check_windows(path: str, shown: str) -> None:
    """Devices, streams, and names that Windows takes for others."""
    if path.startswith(("\\\\", "//")):
        raise FileRefused("shares and devices cannot be used", where=shown)
    rest = path[2:] if _DRIVE.match(path) else path
    for part in re.split(r"[\\/]", rest):
        if ":" in part or _DEVICE.fullmatch(part.rstrip(" .")):
            raise FileRefused("this names a device or a stream, not a file", where=shown)
        if part not in (".", "..") and part != part.rstrip(" ."):
            raise FileRefused("no name ends in a dot or a space on Windows", where=shown)
