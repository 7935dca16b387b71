"""A chat model for annotation tests: its replies are named by what is asked about which section.

It is a whole model behind the port, for tests that are about annotation and not about connections.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping

from lmm.messages import Attachment, ChatEvent, ChatRequest, Reply, Usage


class SectionModel:
    """Replies with `replies["summary of A"]`, by default ``Summary of A, number 1.``; remembers what it was asked.

    An exception in `replies` is raised. `numbered` makes every reply of its own.
    """

    name = "Sections/test"

    def __init__(
        self, replies: Mapping[str, str | Exception] | None = None, *, numbered: bool = False, pause: float = 0.0
    ) -> None:
        self.replies = dict(replies or {})
        self.numbered, self.pause = numbered, pause
        self.requests: list[ChatRequest] = []
        self._replies_given = 0
        self.in_flight = self.most_in_flight = 0

    @property
    def asked(self) -> list[str]:
        """``summary of A`` for everything asked for, sorted: the order of arrival means nothing."""
        return sorted(one for request in self.requests for one in about(request).values())

    @property
    def texts(self) -> dict[str, str]:
        """What was sent as the text, by ``summary of A``."""
        return {one: _document(request).text for request in self.requests for one in about(request).values()}

    def forget(self) -> None:
        """Begin to count anew."""
        self.requests.clear()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """One event; the time it takes is `pause`."""
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.pause)
        finally:
            self.in_flight -= 1
        self._replies_given += 1
        number = f", number {self._replies_given}" if self.numbered else ""
        replies = {name: self.replies.get(one, f"{one.capitalize()}{number}.") for name, one in about(request).items()}
        for reply in replies.values():
            if isinstance(reply, Exception):
                raise reply
        text = str(replies.get(request.task)) if request.schema is None else json.dumps(_fitted(replies))
        yield Reply(text, self.name, Usage(len(_document(request).text.split()), len(text.split()), None, 1))


def about(request: ChatRequest) -> dict[str, str]:
    """What a request is about: ``summary of A``, with the section's own title, by field."""
    title = _document(request).source.rpartition(" > ")[2]
    names = [request.task] if request.schema is None else request.schema["properties"]
    return {name: f"{name} of {title}" for name in names}


def _fitted(replies: Mapping[str, object]) -> dict[str, object]:
    """As the schema has them: questions and keywords are the lines of a reply."""
    return {name: str(one) if name == "summary" else str(one).splitlines() for name, one in replies.items()}


def _document(request: ChatRequest) -> Attachment:
    return request.messages[-1].attachments[0]
