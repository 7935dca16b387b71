"""Many edits in one document: asked for and placed, found again, accepted; and what one costs when there are more."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from benchmarks.answer_concurrently import temporary_state
from benchmarks.measure import Row, best, seconds, show
from lmm import Document
from lmm.markdown import parse_markdown_text
from lmm.messages import ChatEvent, ChatRequest, Reply
from lmm.notebook.edits import find_edits

EDITS = 400
LIMIT = 1.0
GROWTH = 2.0  # per edit, next to a quarter as many
NEW = "A leaf is green, and falls in autumn."


class QuickModel:
    """Answers at once: what is measured is ours."""

    name = "Quick/local"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """One event."""
        yield Reply(NEW, self.name)


def rows() -> list[Row]:
    """Answer, accept and reject, each with its growth."""
    few, many = document(EDITS // 4), document(EDITS)
    with temporary_state():
        answered = [answer(text) for text in (few, many)]
        answering = [best(lambda text=text: answer(text), 3, warm_up=0) for text in (few, many)]  # type: ignore[misc]
    accepting = [best(lambda text=text: accept(text), 5) for text in answered]  # type: ignore[misc]
    rejecting = [best(lambda text=text: reject(text), 5) for text in answered]  # type: ignore[misc]
    return [
        _row(f"answer {EDITS} edits in one document, a model that takes no time, replies synced to disk", answering),
        _row(f"accept {EDITS} edits", accepting),
        _row(f"reject {EDITS} edits", rejecting),
    ]


def _row(what: str, times: list[float]) -> Row:
    few, many = times
    growth = many / few / 4
    met = many <= LIMIT and growth <= GROWTH
    peer = f"{EDITS // 4} edits: {seconds(few)}"
    return Row(what, peer, seconds(many), f"{growth:.1f} × per edit", f"≤ {seconds(LIMIT)}, ≤ {GROWTH:g} ×", met)


def document(edits: int) -> str:
    """Sections of ten paragraphs, a shorter version of each asked for."""
    text = "A leaf is green because of the chlorophyll in its cells, and it falls when the days are short."
    parts = ["---\ntitle: Leaves\ndocid: leaves-000000\n---\n\n"]
    for number in range(edits):
        parts.append(f"## Section {number // 10}\n\n" if number % 10 == 0 else "")
        parts.append(f"---\n=: shorter, {number}\n---\n{text} This is number {number}.\n\n")
    return "".join(parts)


def answer(text: str) -> str:
    """The document with every edit beside its text; the journal is not asked, but every reply is written to it."""
    document = Document.from_text(text)
    document.answer(again=True, model=QuickModel()).check()
    return document.text


def accept(text: str) -> str:
    """The document with its edits accepted."""
    document = Document.from_text(text)
    document.accept()
    return document.text


def reject(text: str) -> str:
    """The document with its edits rejected."""
    document = Document.from_text(text)
    document.reject()
    return document.text


def check(text: str, edits: int) -> None:
    """All edits wait; rejecting gives back the paragraphs, accepting leaves the new ones."""
    answered = answer(text)
    assert len(find_edits(parse_markdown_text(answered))) == edits
    assert "lmm:new" not in accept(answered)
    assert accept(answered).count(NEW) == edits
    assert reject(answered).count("This is number") == edits


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
