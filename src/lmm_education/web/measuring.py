"""Counting requests, and ``/metrics``, where Prometheus reads what was counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmm_education.errors import StoreError
from lmm_education.store.port import Store
from lmm_education.web.metrics import MEDIA_TYPE, Counter, Metrics, gauge, total
from lmm_education.web.service import NO_STORE, Service, service_of
from lmm_education.web.teacher_access import teacher_of

_LEFT = "499"  # nobody was there to get an answer
_ELSEWHERE = "(none)"


class CountRequests:
    """Middleware that counts every request by its route, never by its path: paths may have ids."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = _LEFT

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, send_and_see)
        finally:
            route = scope.get("route")
            self.metrics.requests.add(route.path if isinstance(route, Route) else _ELSEWHERE, status)


async def metrics(request: Request) -> Response:
    """``GET /metrics``: for Prometheus; who may read it, `teacher_access` decides."""
    await teacher_of(request).may_measure(request)
    service = service_of(request)
    more = await asyncio.to_thread(lambda: list(_now(service)))
    return PlainTextResponse(service.recorder.metrics.text(more), media_type=MEDIA_TYPE, headers=NO_STORE)


def _now(service: Service) -> Iterator[Counter]:
    """What is not counted, but looked up."""
    yield gauge("start_time_seconds", "When the server was started, in seconds since 1970.", service.recorder.started)
    log = service.recorder.log
    if log is not None:
        yield total("log_failures", "Tries to write the log that failed.", log.failures)
        yield total("log_lost", "Exchanges that the log does not have.", log.lost)
    yield from _store(service.answering.course.store)


def _store(store: Store) -> Iterator[Counter]:
    try:
        status = store.status()
    except StoreError:
        yield gauge("store_up", "Whether the store can be read.", 0)
        return
    yield gauge("store_up", "Whether the store can be read.", status.manifest is not None)
    yield gauge("store_documents", "Documents in the store.", status.documents)
    yield gauge("store_chunks", "Passages in the store.", status.chunks)
    generation = str(status.details.get("generation", "")).partition("-")[0]
    if generation.isdigit():
        yield gauge("store_generation", "How often the store was written.", int(generation))
