"""What was typed in earlier conversations: one file for all, since copies of a prompt are run under many names."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from lmm.disk.files import replace, state_folder
from lmm.errors import LmmError

_MOST = 2000  # messages
_LONGEST = 20_000  # characters: what is longer was pasted


def history_path() -> Path:
    """Where it is kept."""
    return state_folder() / "conversations.jsonl"


class TypedHistory(History):
    """One JSON string a line, oldest first; only its owner may read it. What begins with a space is not kept.

    A history that cannot be read or written is none: the conversation goes on.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def load_history_strings(self) -> Iterable[str]:
        """Newest first, each once."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(lines) > 2 * _MOST:
            lines = lines[-_MOST:]
            with contextlib.suppress(LmmError):
                replace(self.path, "".join(f"{line}\n" for line in lines))
        texts = [text for line in reversed(lines) if (text := _read(line))]
        return list(dict.fromkeys(texts))

    def store_string(self, string: str) -> None:
        """Keep a message; several conversations may do so at once."""
        if string.startswith(" ") or len(string) > _LONGEST:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, f"{json.dumps(string, ensure_ascii=False)}\n".encode())
            finally:
                os.close(file)


def _read(line: str) -> str:
    try:
        text = json.loads(line)
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""
