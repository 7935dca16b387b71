"""Forty annotations of twenty sections, one section after the other and eight at once."""

from __future__ import annotations

import asyncio
import shutil

from benchmarks.answer_concurrently import CONCURRENCY, PAUSE, SlowModel, temporary_state
from benchmarks.measure import Row, best, seconds, show
from lmm import Document
from lmm.disk.files import state_folder
from lmm.models.chat import Resilient

SECTIONS = 20
FIELDS = ("questions", "keywords")
LIMIT = 0.6  # three rounds of 100 ms, and the rest for everything that is ours


def document(sections: int = SECTIONS) -> str:
    """A chapter of sections, each long enough to be annotated."""
    text = "Cells divide, and each of the two has all that the one had before. " * 5
    parts = (f"## Section {number}\n\nNumber {number}: {text}\n\n" for number in range(1, sections + 1))
    return "---\ntitle: Cells\ndocid: cells-000000\n---\n\n" + "".join(parts)


def annotate(text: str, concurrency: int) -> str:
    """The annotated document; every reply is asked for and journaled."""
    shutil.rmtree(state_folder() / "journal", ignore_errors=True)
    model = Resilient(SlowModel(), retries=0, limit=asyncio.Semaphore(concurrency))
    annotated = Document.from_text(text)
    annotated.annotate(*FIELDS, model=model).check()
    assert sum(annotated.text.count(f"\n~{field}_:") for field in FIELDS) == text.count("\n## ") * len(FIELDS)
    return annotated.text


def rows() -> list[Row]:
    """Both ways give the same document."""
    text = document()
    with temporary_state():
        assert annotate(text, 1) == annotate(text, CONCURRENCY)
        peer = best(lambda: annotate(text, 1), 1, warm_up=0)
        ours = best(lambda: annotate(text, CONCURRENCY), 5)
    return [
        Row(
            f"{SECTIONS * len(FIELDS)} annotations, a model of {seconds(PAUSE)}, {CONCURRENCY} at once",
            f"one after the other: {seconds(peer)}",
            seconds(ours),
            f"{peer / ours:.1f} ×",
            f"≤ {seconds(LIMIT)}",
            ours <= LIMIT,
        )
    ]


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
