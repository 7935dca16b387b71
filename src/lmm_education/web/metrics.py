"""The state of a server for Prometheus: whether its model is likely to answer, and counts since it was started. No
metric identifies a student."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.routing import Route

from lmm import errors
from lmm.config import ModelSettings
from lmm.models.tokens import unreachable
from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.log_file import LogWriter

logger = logging.getLogger("lmm.serve")
FRESH = 60.0
"""Seconds for which a result is reused: a monitor that polls every second costs one request to the model a minute."""
_DOWN = (
    errors.ModelUnavailable, errors.ModelTimeout, errors.ModelKeyMissing, errors.ModelNotFound,
    errors.ModelNotInstalled,
)  # fmt: skip


@dataclass(slots=True)
class ModelHealth:
    """Whether the model answers: `reason` is the last known error, empty while it works."""

    settings: ModelSettings
    reason: str = ""
    _at: float = field(default=-FRESH)

    def note(self, failure: BaseException | None) -> None:
        """Record how a question went: with None, it was answered. Errors caused by the question itself are ignored."""
        if failure is None or isinstance(failure, _DOWN):
            self._keep(str(failure or ""))

    async def check(self) -> str:
        """Return the current reason; ask the model's server if nothing was recorded for a minute."""
        if time.monotonic() - self._at >= FRESH:
            self._at = time.monotonic()  # other calls in the meantime get the previous result
            self._keep(await unreachable(self.settings))
        return self.reason

    def _keep(self, reason: str) -> None:
        if reason and not self.reason:
            logger.warning("%s does not answer: %s", self.settings.model, reason)
        elif self.reason and not reason:
            logger.warning("%s answers again", self.settings.model)
        self.reason, self._at = reason, time.monotonic()


# -- counters --------------------------------------------------------------------------------------

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder where processes share counts; prometheus_client reads it at import."""
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST_WORD = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0)
_TOTAL = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
LEFT = "499"
"""The status recorded if the client left before the response."""
_ELSEWHERE = "(none)"
disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times are of no use and double the page


class Metrics(Collector):
    """All counters of one course. `log` and `model` are read when Prometheus asks."""

    def __init__(self, log: LogWriter | None = None, model: ModelHealth | None = None) -> None:
        self._registry = all_ = CollectorRegistry()
        self.requests = Counter("lmm_requests", "Requests, by route and status.", ["path", "status"], registry=all_)
        self.exchanges = Counter("lmm_exchanges", "Questions, by outcome.", ["via", "outcome"], registry=all_)
        self.cached = Counter("lmm_cached_answers", "Repeated answers.", registry=all_)
        self.errors = Counter("lmm_errors", "Failures while answering, by kind.", ["kind"], registry=all_)
        self.first_word = Histogram(
            "lmm_first_word_seconds", "From question to first word.", buckets=_FIRST_WORD, registry=all_
        )
        self.answer = Histogram(
            "lmm_answer_seconds", "From question to the end of the answer.", buckets=_TOTAL, registry=all_
        )
        self.tokens = Counter("lmm_tokens", "Tokens of models.", ["direction"], registry=all_)
        self.cost = Counter("lmm_cost_dollars", "US dollars, where the price is known.", ["model"], registry=all_)
        description = "Questions to a model whose price is not known: not in lmm_cost_dollars."
        self.unpriced = Counter("lmm_unpriced_exchanges", description, ["model"], registry=all_)
        self.running = Gauge("lmm_answers_running", "Answers in progress.", registry=all_, multiprocess_mode="livesum")
        self._log, self._model = log, model

    def note_request(self, route: object, status: str) -> None:
        """Count a request by its route, never by its path: paths may contain ids."""
        self.requests.labels(route.path if isinstance(route, Route) else _ELSEWHERE, status).inc()

    def note(self, exchange: LoggedExchange) -> None:
        """Count a question and its outcome."""
        self.exchanges.labels(exchange.via, exchange.outcome).inc()
        self.cached.inc(exchange.cached)
        self.answer.observe(exchange.total)
        if exchange.first_word is not None:
            self.first_word.observe(exchange.first_word)
        self.tokens.labels("input").inc(exchange.input_tokens)
        self.tokens.labels("output").inc(exchange.output_tokens)
        if exchange.is_unpriced:
            self.unpriced.labels(exchange.model).inc()
        elif exchange.cost is not None:  # no series reports 0 where the cost is unknown
            self.cost.labels(exchange.model).inc(exchange.cost)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format.

        >>> b"lmm_answers_running 0.0" in Metrics().text()
        True
        """
        shown, current = self._registry, CollectorRegistry()
        if SHARED in os.environ:  # the files contain the counts of all processes
            shown = CollectorRegistry()
            MultiProcessCollector(shown)  # type: ignore[no-untyped-call]
        current.register(self)
        return generate_latest(shown) + generate_latest(current)

    def collect(self) -> Iterable[Metric]:
        """Iterate over what is looked up rather than counted."""
        if self._log is not None:
            yield CounterMetricFamily("lmm_log_failures", "Failed writes to the log.", self._log.failures)
            yield CounterMetricFamily("lmm_log_lost", "Exchanges missing from the log.", self._log.lost)
        if self._model is not None:
            yield GaugeMetricFamily("lmm_model_up", "Whether the model answered last.", not self._model.reason)
