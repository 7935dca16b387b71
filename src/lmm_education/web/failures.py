"""What a caller is told when something goes wrong: a status, a kind as OpenAI names it, a polite sentence.

Students read about their own request only; what is wrong with models, keys and stores is for the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmm.errors import ModelBusy, ModelTimeout
from lmm_education.errors import Denied, RequestError, SearchError

_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is told over HTTP. `logged`: the person who runs the server has to know."""

    status: int
    type: str
    message: str
    code: str | None = None
    param: str | None = None
    logged: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """In OpenAI's form.

        >>> Failure(400, "invalid_request_error", "No.").as_json()["error"]["message"]
        'No.'
        """
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def failure_of(error: BaseException, texts: Mapping[str, str]) -> Failure:
    """What is told about an error; of one that nobody foresaw, no more than that it happened.

    >>> from lmm.errors import ModelKeyMissing
    >>> failure_of(ModelKeyMissing("no key", where="/home/me"), {"failure": "Later."}).message
    'Later.'
    """
    if isinstance(error, Denied):
        kind = _KINDS.get(error.status, "invalid_request_error")
        return Failure(error.status, kind, str(error), error.code, logged=False, headers=error.headers)
    if isinstance(error, RequestError):
        code = "model_not_found" if error.param == "model" and error.status == 404 else None
        return Failure(error.status, "invalid_request_error", str(error), code, error.param, logged=False)
    if isinstance(error, SearchError):
        return Failure(400, "invalid_request_error", str(error), logged=False)
    if isinstance(error, ModelBusy):
        return Failure(429, "rate_limit_error", texts["busy"], "rate_limit_exceeded")
    if isinstance(error, ModelTimeout):
        return Failure(504, "server_error", texts["failure"], "timeout")
    return Failure(503, "server_error", texts["failure"], "unavailable")
