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
from pathlib import Path

import msgspec

from lmm.errors import LmmError
from lmm.importing.imported import Context, Imported, with_true_pictures

RESULT = "result"
"""The file in the folder that holds what was read, or the message and the hint of an error."""


def main() -> int:
    """Read the file that standard input names; 0 if that worked, 1 if the error is in the folder."""
    task = json.loads(sys.stdin.buffer.read())
    limit_memory(task["memory"])
    sys.setrecursionlimit(4_000)  # trees are 150 deep at most, and a level takes a few calls
    result: Imported | tuple[str, str]
    try:
        data = Path(task["path"]).read_bytes()
        read = importlib.import_module(task["module"]).read
        result = with_true_pictures(read(data, Context(**task["context"])))
    except LmmError as error:
        result = error.message, error.hint
    except OSError as error:
        result = f"cannot be read: {error.strerror or error}", ""
    except (MemoryError, RecursionError):
        hint = "the file is damaged, malicious or too large: import it in parts"
        result = "reading it takes too much memory", hint
    Path(task["folder"], RESULT).write_bytes(msgspec.msgpack.encode(result))
    return int(isinstance(result, tuple))


def limit_memory(limit: int) -> None:
    """Let this process have `limit` bytes at most, where the system can do that."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
