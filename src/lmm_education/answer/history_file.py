"""A conversation in a file: one JSON object a line, with ``question``, ``answer`` and the ``sources`` it cited."""

from __future__ import annotations

import json
from pathlib import Path

from lmm.disk.files import document_lock
from lmm.disk.folder import check_named
from lmm.errors import FileReadError, FileWriteError
from lmm_education.answer.answer import Answer
from lmm_education.answer.history import Exchange
from lmm_education.material import SOURCE, as_json


def read_history(path: Path) -> list[Exchange]:
    """What was said so far; nothing where there is no file yet.

    Raises:
        FileReadError: a line is no exchange.
        LinkOutside: the file is a link that leads out of its folder.
    """
    try:
        check_named(path)
        lines = path.read_text(encoding="utf-8").split("\n")  # a text may have other separators
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise FileReadError(f"this conversation cannot be read: {error}", where=str(path)) from error
    return [_exchange(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _exchange(line: str, where: str) -> Exchange:
    try:
        record = json.loads(line)
        return Exchange(str(record["question"]), str(record["answer"]))
    except (ValueError, TypeError, KeyError) as error:
        raise FileReadError(
            "this is not an exchange of a conversation",
            where=where,
            hint='a line is {"question": "…", "answer": "…"}; choose another file',
        ) from error


def append_history(path: Path, answer: Answer) -> None:
    """Add an answer to the conversation; what stands in the file stays as it is.

    Raises:
        FileWriteError: it cannot be written.
        LinkOutside: it is a link that leads out of its folder.
    """
    check_named(path)
    record = {
        "question": answer.question,
        "answer": answer.text,
        "sources": [as_json(source, SOURCE) for source in answer.cited],
    }
    try:
        with document_lock(path):
            whole = not path.exists() or not (text := path.read_bytes()) or text.endswith(b"\n")
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(("" if whole else "\n") + json.dumps(record, ensure_ascii=False) + "\n")
    except OSError as error:
        raise FileWriteError(
            f"the conversation cannot be saved: {error}", where=str(path), hint="the answer is above"
        ) from error
