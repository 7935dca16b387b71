"""A chat model for annotation tests: its replies are named by what is asked about which section.

It is a whole model behind the port, for tests that are about annotation and not about connections.
"""

from __future__ import annotations

import asyncio
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
        """``summary of A`` for every request, sorted: the order of arrival means nothing."""
        return sorted(about(request) for request in self.requests)

    @property
    def texts(self) -> dict[str, str]:
        """What was sent as the text, by ``summary of A``."""
        return {about(request): _document(request).text for request in self.requests}

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
        key = about(request)
        self._replies_given += 1
        number = f", number {self._replies_given}" if self.numbered else ""
        reply = self.replies.get(key, f"{key.capitalize()}{number}.")
        if isinstance(reply, Exception):
            raise reply
        yield Reply(reply, self.name, Usage(len(_document(request).text.split()), len(reply.split()), None, 1))


def about(request: ChatRequest) -> str:
    """What a request is about: ``summary of A``, with the section's own title; ``document`` for the whole."""
    title = _document(request).source.rpartition(" > ")[2]
    return f"{request.task} of {title}"


def _document(request: ChatRequest) -> Attachment:
    return request.messages[-1].attachments[0]
