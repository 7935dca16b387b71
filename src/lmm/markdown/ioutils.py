"""Read and write the text of markdown files; errors go to a logger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmm.disk import files
from lmm.errors import DocumentError
from lmm.terminal import say

Logger = Callable[[DocumentError], None]


def print_error(error: DocumentError) -> None:
    """Print an error on standard error, in one line. This is the default logger."""
    say(str(error), err=True)


def load_markdown(path: str | Path, logger: Logger = print_error) -> str | None:
    """Return the text of a UTF-8 markdown file, unchanged; on an error, call `logger` and return None."""
    try:
        return files.read_document(Path(path))
    except DocumentError as error:
        logger(error)
        return None


def save_markdown(path: str | Path, text: str, logger: Logger = print_error) -> bool:
    """Replace a markdown file in one step; on an error, call `logger` and return False."""
    try:
        files.replace(Path(path), text)
    except DocumentError as error:
        logger(error)
        return False
    return True
