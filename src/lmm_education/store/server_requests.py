"""Requests to a Qdrant server: retried while that may help, with failures converted to our errors."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmm_education.errors import StoreError, StoreUnavailable
from lmm_education.store.port import WaitReporter, refusal

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

TRIES = 6
UNDER_WAY = 4  # requests at once
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0  # seconds
PATIENCE = 4  # seconds for an answer to what only reads, while there is another address to ask
SILENCE = 3.0  # seconds, after which a wait is reported
RETRY = 60.0  # seconds until an address that did not answer is asked first again
_READING = frozenset({"query_batch_points", "retrieve", "scroll", "count", "facet"})
_MORE_LATER = frozenset({408, 429, 500, 502, 503, 504})

pause = time.sleep  # tests do not wait


@dataclass(eq=False, slots=True)
class StoreNode:
    """One address of a server or cluster. One that failed is asked last, until `retry_at`."""

    address: str
    client: QdrantClient | None = None
    retry_at: float = 0.0


class Requests(WaitReporter):
    """Clients of one server, or of several nodes of a cluster, each connected when it is first needed. Threads may
    share them.

    The first address is asked; where it does not answer, the next one at once, and that first for `RETRY` seconds.
    """

    def __init__(
        self, connect: Callable[[str], QdrantClient], addresses: Sequence[str], *, at_once: int = UNDER_WAY
    ) -> None:
        self._connect, self._nodes, self.at_once = connect, [StoreNode(address) for address in addresses], at_once
        self._lock, self._closed = threading.Lock(), False

    @property
    def address(self) -> str:
        """All addresses, for messages."""
        return ", ".join(node.address for node in self._nodes)

    def call(self, name: str, **arguments: Any) -> Any:
        """Call a method of the client; None where the collection, or what it names, does not exist.

        Raises:
            StoreUnavailable: no address answers, all answer only with failures, or one refuses our key.
            StoreMismatch: it does not know the vector, or wants another length.
            StoreError: it refuses for another reason.
        """
        for turn in range(TRIES):
            *others, last = sorted(self._nodes, key=lambda node: node.retry_at > time.monotonic())
            for node in (*others, last):
                short = {"timeout": PATIENCE} if node is not last and turn == 0 and name in _READING else {}
                try:
                    with self._watching(node):
                        return getattr(self._open(node), name)(**arguments, **short)
                except StoreError:
                    raise
                except Exception as error:
                    failure = RequestFailure.of(error)
                    if failure.missing:
                        return None
                    if failure.exists and name == "create_collection":  # another machine was faster
                        return True
                    if not failure.passing or (node is last and turn == TRIES - 1):
                        raise failure.as_error(self.address) from error
                    if failure.status != 429:
                        node.retry_at = time.monotonic() + RETRY
            self._report(f"waiting for {self.address}: {failure.in_words}")
            longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2**turn)  # and not the same for all who were refused together
            pause(failure.wait or longest * (0.5 + random.random() / 2))
        raise AssertionError("unreachable")

    @contextmanager
    def _watching(self, node: StoreNode) -> Iterator[None]:
        """Report once if the block takes longer than `SILENCE`."""
        if self._on_wait is None:
            yield
            return
        sentence = f"waiting for {node.address}, which has not answered for {SILENCE:g} seconds"
        timer = threading.Timer(SILENCE, self._on_wait, [sentence])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _open(self, node: StoreNode) -> QdrantClient:
        with self._lock:
            if self._closed:
                raise StoreError("the store was closed", where=self.address)
            if node.client is None:
                try:
                    node.client = self._connect(node.address)
                except StoreError:
                    raise
                except Exception as error:
                    hint = "write it as https://host:6333 under [storage]"
                    raise StoreError(
                        f"this is not an address of a server: {error}", where=node.address, hint=hint
                    ) from error
            return node.client

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed = True
            for node in self._nodes:
                if node.client is not None:
                    node.client.close()
                    node.client = None


class RequestFailure:
    """A failed request: the HTTP status (None without an answer), the server's message, how long it asks us to wait."""

    def __init__(self, status: int | None, text: str, *, passing: bool, wait: float = 0.0) -> None:
        self.status, self.text, self.passing, self.wait = status, text, passing, min(wait, 60.0)

    @property
    def in_words(self) -> str:
        """The temporary failure in words, for messages."""
        if self.status == 429:
            return f"the server is too busy: {self.text}"
        return f"the server {f'fails ({self.status})' if self.status else 'does not answer'}: {self.text}"

    @property
    def missing(self) -> bool:
        """Whether a collection is not there. Other servers answer 404 to anything of ours, in other words."""
        return self.status == 404 and "collection" in self.text.lower()

    @property
    def exists(self) -> bool:
        """Whether what was to be made is there already."""
        return self.status == 409 or "already exists" in self.text

    def as_error(self, where: str) -> StoreError:
        """Convert the failure to one of our errors."""
        if self.status in (401, 403):
            hint = "set the environment variable that 'api_key_env' under [storage] names"
            return StoreUnavailable("the server refuses our key", where=where, hint=hint)
        if self.passing:
            hint = "check that it runs and that 'url' under [storage] is right; its port is 6333 unless you name one"
            hints = {None: hint, 429: "try again later"}
            return StoreUnavailable(
                self.in_words, where=where, hint=hints.get(self.status, "see its log, then try again")
            )
        if self.status == 404:
            hint = "check 'url' under [storage]; its port is 6333 unless you name one"
            return StoreUnavailable("there is no Qdrant server at this address", where=where, hint=hint)
        return refusal("the server refuses the request", self.text, where)

    @classmethod
    def of(cls, error: Exception) -> RequestFailure:
        """Convert an exception of the client."""
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


def _words(error: Any) -> str:
    """The server's own words, of the JSON that it answers with."""
    try:
        words = error.structured()["status"]["error"]
    except (ValueError, KeyError, TypeError):
        words = error.content.decode("utf-8", "replace") if error.content else error.reason_phrase
    return " ".join(str(words).split())[:300]
