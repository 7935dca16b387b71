"""Completion at the prompt: commands after ``/``, files of the conversation's folder after ``@``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from chatmd.terminal.slash_commands import COMMANDS

_COMMAND = re.compile(r"/[a-z]*")
_FILE = re.compile(r'(?<!\S)@("?)([^\s"]*|(?<=")[^"\n]*)\Z')
_MOST = 50


class PromptCompleter(Completer):
    """Completes what stands before the cursor. Files that begin with a dot are shown once a dot is typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What could be meant."""
        text = document.text_before_cursor
        if _COMMAND.fullmatch(text):
            for row in COMMANDS:
                if f"/{row.name}".startswith(text):
                    yield Completion(f"/{row.name}", -len(text), display_meta=row.help)
        elif found := _FILE.search(text):
            for name in self._files(found[2]):
                quoted = f'"{name}"' if " " in name and not name.endswith("/") else name
                yield Completion(quoted, -len(found[1] + found[2]), display=name)

    def _files(self, begin: str) -> list[str]:
        """Files and folders whose path begins so, relative to the folder; folders end in ``/``."""
        inside, _, stem = begin.rpartition("/")
        folder = self.folder / inside
        try:
            if not folder.resolve().is_relative_to(self.folder):
                return []
            with os.scandir(folder) as entries:
                found = [(entry.name, entry.is_dir()) for entry in entries if _fits(entry.name, stem)]
        except OSError:
            return []
        before = f"{inside}/" if inside else ""
        return [f"{before}{name}{'/' if is_folder else ''}" for name, is_folder in sorted(found)[:_MOST]]


def _fits(name: str, stem: str) -> bool:
    return name.lower().startswith(stem.lower()) and (stem.startswith(".") or not name.startswith("."))
