"""What students say of answers: thumbs and a comment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm_education.errors import LogError, RequestError
from lmm_education.exchange_log.exchanges import LONGEST_COMMENT
from lmm_education.web.failures import Failure
from lmm_education.web.logged import student_of
from lmm_education.web.service import read_json, service_of

_REACTIONS = {"up": 1, "down": -1, "none": 0}
_PATIENCE = 10.0  # seconds for the log


async def react(request: Request) -> Response:
    """``POST /reactions``: ``reaction`` (up, down or none) and ``comment`` for the answer with the id ``exchange``,
    which must be the same student's; said again, they replace what was said before."""
    service, body = service_of(request), await read_json(request)
    exchange, reaction, comment = read_reaction(body)
    log = service.recorder.log
    if log is None:
        raise RequestError("no log is kept", status=404)
    kept = log.react(exchange, student_of(request), _REACTIONS[reaction], comment)
    try:
        known = await asyncio.wait_for(asyncio.wrap_future(kept), _PATIENCE)
    except (LogError, TimeoutError):  # which the log's own thread has told
        failure = Failure(503, "server_error", service.texts["not_kept"], "unavailable")
        return JSONResponse(failure.as_json(), failure.status)
    if not known:
        raise RequestError(service.texts["too_late"], status=404, param="exchange")
    service.recorder.metrics.reactions.add(reaction)
    return JSONResponse({"exchange": exchange, "reaction": reaction, "comment": comment})


def read_reaction(body: Mapping[str, Any]) -> tuple[str, str, str]:
    """Exchange, reaction and comment of a request.

    Raises:
        RequestError: they are not as they should be.

    >>> read_reaction({"exchange": "1f", "reaction": "up"})
    ('1f', 'up', '')
    """
    exchange, reaction, comment = body.get("exchange"), body.get("reaction"), body.get("comment", "")
    if not isinstance(exchange, str):
        raise RequestError("'exchange' must be the id of an answer", param="exchange")
    if reaction not in _REACTIONS:
        raise RequestError("'reaction' must be up, down or none", param="reaction")
    if not isinstance(comment, str) or len(comment) > LONGEST_COMMENT:
        raise RequestError(f"'comment' must be text of up to {LONGEST_COMMENT} characters", param="comment")
    return exchange, reaction, comment.strip()
