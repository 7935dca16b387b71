"""Sixteen questions in one document, answered one after the other and eight at once."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from benchmarks.measure import Row, best, seconds, show
from lmm import Document
from lmm.messages import ChatEvent, ChatRequest, Reply
from lmm.models.chat import Resilient

QUESTIONS = 16
CONCURRENCY = 8  # the default of config.toml
PAUSE = 0.1
LIMIT = 0.4  # two rounds of 100 ms, and as much again for everything that is ours


class SlowModel:
    """Answers every question after `PAUSE` seconds, as a server far away would."""

    name = "Slow/local"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """One event, late."""
        await asyncio.sleep(PAUSE)
        text = f"About that: {request.messages[-1].text}"
        fields = {key: [text] for key in request.schema["properties"]} if request.schema else None
        yield Reply(json.dumps(fields) if fields else text, self.name)


def document(questions: int = QUESTIONS) -> str:
    """Sections with a paragraph and a question each."""
    sections = (
        f"## Section {number}\n\n---\n?: is number {number} right: yes or no?\n---\nCells divide, number {number}.\n"
        for number in range(1, questions + 1)
    )
    return "---\ntitle: Cells\ndocid: cells-000000\n---\n\n" + "\n".join(sections)


def answer(text: str, concurrency: int) -> str:
    """The answered document; the journal is not asked, but every reply is written to it."""
    model = Resilient(SlowModel(), retries=0, limit=asyncio.Semaphore(concurrency))
    document = Document.from_text(text)
    report = document.answer(model=model, again=True).check()
    assert len(report.results) == text.count("\n?: ")
    return document.text


@contextmanager
def temporary_state() -> Iterator[None]:
    """A journal of this run's own."""
    before = os.environ.get("LMM_STATE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LMM_STATE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["LMM_STATE_DIR"]
            else:
                os.environ["LMM_STATE_DIR"] = before


def rows() -> list[Row]:
    """Both ways give the same document."""
    text = document()
    with temporary_state():
        assert answer(text, 1) == answer(text, CONCURRENCY)
        peer = best(lambda: answer(text, 1), 2, warm_up=0)
        ours = best(lambda: answer(text, CONCURRENCY), 7)
    return [
        Row(
            f"answer {QUESTIONS} questions, a model of {seconds(PAUSE)}, {CONCURRENCY} at once",
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
