"""What Prometheus reads, read by its own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.web.metrics import Metrics


def test_all_of_it_is_understood() -> None:
    """Types and help too; what was never counted is 0 or not there."""
    metrics = Metrics()
    metrics.requests.labels("/sections/{id}", "200").inc()
    metrics.note(
        LoggedExchange("1", 0.0, "Why?", via="page", first_word=0.3, total=2.0, input_tokens=9, cost=0.25, model="m")
    )
    metrics.note(LoggedExchange("2", 0.0, "Why?", input_tokens=3, model="unpriced"))
    families = list(text_string_to_metric_families(metrics.text().decode()))
    kinds = {family.name: family.type for family in families}
    assert kinds["lmm_requests"] == "counter"
    assert kinds["lmm_first_word_seconds"] == "histogram"
    assert all(family.documentation for family in families)
    found = {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}
    assert found["lmm_requests_total", (("path", "/sections/{id}"), ("status", "200"))] == 1
    assert found["lmm_cost_dollars_total", (("model", "m"),)] == 0.25
    assert found["lmm_unpriced_exchanges_total", (("model", "unpriced"),)] == 1
    assert sum(name == "lmm_cost_dollars_total" for name, _ in found) == 1
    assert found["lmm_tokens_total", (("direction", "input"),)] == 12
    assert found["lmm_first_word_seconds_bucket", (("le", "0.5"),)] == 1
    assert found["lmm_answers_running", ()] == 0
    assert not any(name.endswith("_created") for name, _ in found)
