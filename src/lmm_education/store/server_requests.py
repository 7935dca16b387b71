"""Requests to a Qdrant server: sent again while that may help, and failures told in our words."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lmm_education.errors import StoreError, StoreMismatch, StoreUnavailable

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

TRIES = 6
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0  # seconds
# What servers and the in-memory mode say of a vector that a collection has not, or has in another length.
_OTHER_VECTORS = ("vector name", "vector dimension", "vector with name", "not aligned", "not found in the collection")
_MORE_LATER = frozenset({408, 429, 500, 502, 503, 504})


pause = time.sleep  # tests do not wait


class Requests:
    """A client that is connected when it is first needed."""

    def __init__(self, connect: Callable[[], QdrantClient], address: str) -> None:
        self._connect, self.address = connect, address
        self._client: QdrantClient | None = None
        self._lock, self._closed = threading.Lock(), False

    def call(self, name: str, **arguments: Any) -> Any:
        """Call a method of the client; None where the collection, or what it names, does not exist.

        Raises:
            StoreUnavailable: the server does not answer, answers only with failures, or refuses our key.
            StoreMismatch: it does not know the vector, or wants another length.
            StoreError: it refuses for another reason.
        """
        function = getattr(self._open(), name)
        for left in range(TRIES - 1, -1, -1):
            try:
                return function(**arguments)
            except Exception as error:
                trouble = Trouble.of(error)
                if trouble.missing:
                    return None
                if trouble.exists and name == "create_collection":  # another machine was faster
                    return True
                if not (trouble.passing and left):
                    raise self._told(trouble) from error
                pause(trouble.wait or _backoff(TRIES - 1 - left))
        raise AssertionError("unreachable")

    def _open(self) -> QdrantClient:
        with self._lock:
            if self._closed:
                raise StoreError("the store was closed", where=self.address)
            if self._client is None:
                try:
                    self._client = self._connect()
                except StoreError:
                    raise
                except Exception as error:
                    hint = "write it as https://host:6333 under [storage]"
                    raise StoreError(
                        f"this is no address of a server: {error}", where=self.address, hint=hint
                    ) from error
            return self._client

    def _told(self, trouble: Trouble) -> StoreError:
        if trouble.status in (401, 403):
            hint = "set the environment variable that 'api_key_env' under [storage] names"
            return StoreUnavailable("the server refuses our key", where=self.address, hint=hint)
        if trouble.status == 429:
            return StoreUnavailable(
                f"the server is too busy: {trouble.text}", where=self.address, hint="try again later"
            )
        if trouble.status is None and trouble.passing:
            hint = "see that it runs and that 'url' under [storage] is right; its port is 6333 unless you name one"
            return StoreUnavailable(f"the server does not answer: {trouble.text}", where=self.address, hint=hint)
        if trouble.passing:
            message, hint = f"the server fails ({trouble.status}): {trouble.text}", "see its log, then try again"
            return StoreUnavailable(message, where=self.address, hint=hint)
        if trouble.status == 404:
            hint = "check 'url' under [storage]; its port is 6333 unless you name one"
            return StoreUnavailable("there is no Qdrant server at this address", where=self.address, hint=hint)
        if any(words in trouble.text.lower() for words in _OTHER_VECTORS):
            hint = "encoding and embedding model must be those that the store was made with"
            return StoreMismatch(trouble.text, where=self.address, hint=hint)
        return StoreError(f"the server refuses the request: {trouble.text}", where=self.address)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()
                self._client = None


class Trouble:
    """What went wrong: an HTTP status (None without an answer), the server's words, how long it asks us to wait."""

    def __init__(self, status: int | None, text: str, *, passing: bool, wait: float = 0.0) -> None:
        self.status, self.text, self.passing, self.wait = status, text, passing, min(wait, 60.0)

    @property
    def missing(self) -> bool:
        """Whether a collection is not there. Other servers answer 404 to anything of ours, in other words."""
        return self.status == 404 and "collection" in self.text.lower()

    @property
    def exists(self) -> bool:
        """Whether what was to be made is there already."""
        return self.status == 409 or "already exists" in self.text

    @classmethod
    def of(cls, error: Exception) -> Trouble:
        """Read a failure of the client."""
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        if isinstance(error, UnexpectedResponse):
            status = error.status_code or 0
            return cls(status, _words(error), passing=status in _MORE_LATER)
        if isinstance(error, ResourceExhaustedResponse):
            return cls(429, str(error), passing=True, wait=error.retry_after_s)
        if isinstance(error, ResponseHandlingException):
            if isinstance(error.source, ValueError):
                return cls(404, "", passing=False)  # an answer that is none of Qdrant's
            return cls(None, str(error.source) or type(error.source).__name__, passing=True)
        if isinstance(error, json.JSONDecodeError):
            return cls(404, "", passing=False)
        # The in-memory mode raises ValueError; so does the client for what it does not understand.
        text = str(error)
        return cls(404 if "not found" in text and "Collection" in text else 400, text, passing=False)


def missing_extra(address: str) -> StoreError:
    """The error for a missing qdrant-client."""
    return StoreError(
        "the package that talks to Qdrant servers is not installed",
        where=address,
        hint="pip install 'lmmarkdown[qdrant]'",
    )


def _words(error: Any) -> str:
    """The server's own words, of the JSON that it answers with."""
    try:
        told = error.structured()["status"]["error"]
    except (ValueError, KeyError, TypeError):
        told = error.content.decode("utf-8", "replace") if error.content else error.reason_phrase
    return " ".join(str(told).split())[:300]


def _backoff(tries: int) -> float:
    """Seconds to wait, longer each time and not the same for all who were refused together."""
    wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2**tries)
    return wait * (0.5 + random.random() / 2)
