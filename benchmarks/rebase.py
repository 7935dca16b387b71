"""Save replies into a document of 250 kB of which its author changed half meanwhile, next to ``git merge-file``."""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measure import Row, best, seconds, show
from lmm import Document
from lmm.testing import ScriptedModel

SIZE = 250_000
LIMIT = 1.0
_ASKED = "---\n?: what is {number}?\n---\n"
_QUESTION = "?: what is"


def rows() -> list[Row]:
    """Every second paragraph changed."""
    draw = random.Random(5)
    base = document(draw)
    theirs = "".join(
        f"{_words(draw, 6)} {line}" if line[0].isalpha() and draw.random() < 0.5 else line
        for line in base.splitlines(keepends=True)
    )
    return [measured("save our answers into 250 kB, every second paragraph changed", base, theirs)]


def document(draw: random.Random, size: int = SIZE) -> str:
    """Headings, questions that wait and paragraphs."""
    parts, written, number = ["---\ntitle: T\n---\n\n"], 0, 0
    while written < size:
        heading = f"## Section {number}\n\n" if number % 8 == 0 else ""
        asked = _ASKED.format(number=number) if number % 5 == 0 else ""
        parts.append(f"{heading}{asked}{_words(draw, 60)}\n\n")
        written, number = written + len(parts[-1]), number + 1
    return "".join(parts)


def measured(what: str, base: str, theirs: str) -> Row:
    """One save; every reply is in what was written."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("ours.md", "base.md", "theirs.md")]
        ours = files[0]

        def save() -> float:
            ours.write_text(base, encoding="utf-8", newline="")
            opened = Document.open(ours)
            opened.answer(model=ScriptedModel(["It is that."] * base.count(_QUESTION)))
            ours.write_text(theirs, encoding="utf-8", newline="")
            took = best(lambda: opened.save(settle=0), 1, warm_up=0)
            assert ours.read_text(encoding="utf-8").count("It is that.") == base.count(_QUESTION)
            return took

        took, answered = min(save() for _ in range(3)), ours.read_text(encoding="utf-8")
        for file, text in zip(files, (answered, base, theirs), strict=True):
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


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
