"""Merge two versions of a document of 250 kB of which half changed, next to ``git merge-file``."""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measure import Row, best, seconds, show
from lmm.markdown.merge import merge

SIZE = 250_000
LIMIT = 1.0
_ASKED = "---\n?: what is this?\n---\n"
_ANSWERED = "---\n~chat_:\n  - query: what is this?\n    ~reply: It is that.\n---\n"


def rows() -> list[Row]:
    """Every second paragraph changed; half of all lines gone on both sides, which leaves much without a place."""
    draw = random.Random(5)
    base = document(draw)
    theirs = "".join(
        _changed(line, draw) if line[0].isalpha() and draw.random() < 0.5 else line for line in _lines(base)
    )
    torn, torn_too = ("".join(line for line in _lines(base) if draw.random() < 0.5) for _ in range(2))
    return [
        measured("merge our answers into 250 kB, every second paragraph changed", base, answered(base), theirs),
        measured("merge two versions of 250 kB, each without half of its lines", base, torn, torn_too),
    ]


def document(draw: random.Random, size: int = SIZE) -> str:
    """Headings, questions that wait and paragraphs."""
    parts, written, number = ["---\ntitle: T\n---\n\n"], 0, 0
    while written < size:
        heading = f"## Section {number}\n\n" if number % 8 == 0 else ""
        asked = _ASKED if number % 5 == 0 else ""
        parts.append(f"{heading}{asked}{_words(draw, 60)}\n\n")
        written, number = written + len(parts[-1]), number + 1
    return "".join(parts)


def answered(text: str) -> str:
    """Every question in it answered."""
    return text.replace(_ASKED, _ANSWERED)


def measured(what: str, base: str, ours: str, theirs: str) -> Row:
    """One merge; of what we made, all is in the result or handed back."""
    merged = merge(base, ours, theirs)
    found = merged.text + "".join(merged.unplaced)
    assert found.count("It is that.") >= ours.count("It is that.")
    took = best(lambda: merge(base, ours, theirs), 3, warm_up=0)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for file, text in zip(files, (ours, base, theirs), strict=True):
            file.write_text(text, encoding="utf-8", newline="")
        command = ["git", "merge-file", "-p", "-q", *map(str, files)]
        peer = best(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=False), 3)
    return Row(
        what,
        f"git merge-file (lines, conflicts in the text): {seconds(peer)}",
        seconds(took),
        f"{peer / took:.2f} ×",
        f"≤ {seconds(LIMIT)}",
        took <= LIMIT,
    )


def _words(draw: random.Random, count: int) -> str:
    return " ".join("".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(count))


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _changed(line: str, draw: random.Random) -> str:
    return f"{_words(draw, 6)} {line}"


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
