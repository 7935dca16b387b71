"""An answer's stream as the page gets it: rendered blocks, the plain end of the text, the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmm.messages import Retrying, TextDelta
from lmm_education.answer.answers import Answer, AnswerEvent, Called, Found
from lmm_education.answer.sources import Source
from lmm_education.web.rendering import BlockStream, Picture, title_html, to_html
from lmm_education.web.texts import notice_for

PageEvent = tuple[str, Mapping[str, Any]]
"""A name and its values: ``found``, ``text`` (as it arrives), ``block`` (what it comes to, and what is left of the
text), ``restart`` (all text is void), ``answer``."""


@dataclass(slots=True)
class PageAnswer:
    """Turns the events of one answer into the page's; `exchange` is its id in the log, if one is kept."""

    texts: Mapping[str, str]
    exchange: str = ""
    pictures: Callable[[Sequence[Source]], Picture] | None = None
    picture: Picture | None = None
    numbers: tuple[int, ...] = ()
    blocks: BlockStream = field(default_factory=BlockStream)

    def events(self, event: AnswerEvent) -> Iterator[PageEvent]:
        """What the page has to do next."""
        if isinstance(event, Found):
            self.numbers = tuple(source.number for source in event.sources)
            self.picture = self.pictures(event.sources) if self.pictures else None
            yield "found", {"sources": len(event.sources)}
        elif isinstance(event, TextDelta):
            ended = self.blocks.feed(event.text)
            if ended:
                html = to_html(ended, numbers=self.numbers, picture=self.picture)
                yield "block", {"html": html, "rest": self.blocks.rest}
            else:
                yield "text", {"text": event.text}
        elif isinstance(event, Retrying | Called):
            self.blocks = BlockStream()
            yield "restart", {"message": self.texts["again"] if isinstance(event, Retrying) else self.texts["thinking"]}
        elif isinstance(event, Answer):
            yield "answer", self._answer(event)

    def _answer(self, answer: Answer) -> dict[str, Any]:
        numbers = [source.number for source in answer.cited]
        return {
            "html": to_html(answer.text, numbers=numbers, picture=self.picture),
            "text": answer.text,
            "exchange": self.exchange,
            "sources": [source_values(source, answer.searched) for source in answer.cited],
            "notices": [
                *(notice_for(notice, self.texts) for notice in answer.notices),
                *([self.texts["cut"]] if answer.cut else []),
            ],
        }


def source_values(source: Source, searched: str) -> dict[str, Any]:
    """A source for the page: what it shows of it, and by what the section and the passage are found again."""
    return {
        "number": source.number,
        "title": title_html(source.path),
        "place": str(source.place),
        "type": source.kind if source.kind != "text" else "",
        "section": source.section or source.id,
        "passage": source.id if source.what == "chunk" else "",
        "searched": searched,
    }
