"""Reading one file in a process of its own, with a limit on its memory.

Files come from anywhere, and the libraries that read them are written in C: one that crashes, or that a file keeps
busy for ever, takes this process with it and nothing else. ``python -m lmm.importing.child`` is told on standard input
what to read, and leaves the result in a folder.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from lmm.errors import FileReadError, LmmError
from lmm.importing.imported import Context, Imported, with_true_pictures

DOCUMENT, ERROR = "document.json", "error.json"


def main() -> int:
    """Read the file that standard input names; 0 if that worked, 1 if the error is in the folder."""
    task = json.loads(sys.stdin.buffer.read())
    folder = Path(task["folder"])
    limit_memory(task["memory"])
    sys.setrecursionlimit(4_000)  # trees are 150 deep at most, and a level takes a few calls
    try:
        data = Path(task["path"]).read_bytes()
        read = importlib.import_module(task["module"]).read
        save(with_true_pictures(read(data, Context(**task["context"]))), folder)
    except LmmError as error:
        return _failed(folder, error)
    except OSError as error:
        return _failed(folder, FileReadError(f"cannot be read: {error.strerror or error}"))
    except (MemoryError, RecursionError):
        hint = "the file is damaged, malicious or too large: import it in parts"
        return _failed(folder, FileReadError("reading it takes too much memory", hint=hint))
    return 0


def limit_memory(limit: int) -> None:
    """Let this process have `limit` bytes at most, where the system can do that."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def save(document: Imported, folder: Path) -> None:
    """Leave a document in a folder: its images as files, the rest as JSON."""
    for number, image in enumerate(document.images):
        (folder / str(number)).write_bytes(image.data)
    values = {**asdict(document), "images": [image.address for image in document.images]}
    (folder / DOCUMENT).write_text(json.dumps(values), encoding="utf-8")


def _failed(folder: Path, error: LmmError) -> int:
    text = json.dumps({"message": error.message, "hint": error.hint})
    (folder / ERROR).write_text(text, encoding="utf-8")
    return 1


if __name__ == "__main__":
    sys.exit(main())
