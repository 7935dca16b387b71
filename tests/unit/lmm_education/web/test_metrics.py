"""What Prometheus reads, read by its own parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from strategies import texts

from lmm_education.web.metrics import Counter, Histogram, Metrics, gauge, total


def parsed(lines: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(lines)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_all_of_it_is_understood() -> None:
    """Types and help too; what was never counted is 0 or not there."""
    metrics = Metrics()
    metrics.requests.add("/sections/{id}", "200")
    metrics.exchanges.add("page", "answered")
    metrics.first_word.observe(0.3)
    metrics.cost.add(amount=0.25)
    text = metrics.text([gauge("store_generation", "How often.", 7), total("log_lost", "Lost.", 3)])
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds["lmm_requests"] == "counter"
    assert kinds["lmm_first_word_seconds"] == "histogram"
    assert kinds["lmm_store_generation"] == "gauge"
    found = parsed(text)
    assert found["lmm_requests_total", (("path", "/sections/{id}"), ("status", "200"))] == 1
    assert found["lmm_cost_dollars_total", ()] == 0.25
    assert found["lmm_store_generation", ()] == 7
    assert found["lmm_log_lost_total", ()] == 3
    assert found["lmm_answers_running", ()] == 0
    assert all(family.documentation for family in text_string_to_metric_families(text))


@given(st.lists(st.tuples(texts(), st.floats(0, 1e9)), max_size=5))
def test_labels_are_any_text(values: list[tuple[str, float]]) -> None:
    """They come back as they are, but for line breaks that only some know, which the format has no words for."""
    counter = Counter("x_total", "An x.", ("kind",))
    for label, amount in values:
        counter.add(label, amount=amount)
    text = "".join(f"{line}\n" for line in counter.lines())
    assert text.count("\n") == 2 + len({label for label, _ in values})
    assert {labels: value for (_, labels), value in parsed(text).items()} == {
        (("kind", label),): value for (label,), value in counter.values.items()
    }


@given(st.lists(st.floats(0, 100), max_size=30))
def test_a_histogram_counts_upwards(values: list[float]) -> None:
    """Each bucket has all values up to its bound."""
    histogram = Histogram("x_seconds", "An x.", (0.1, 1.0, 50.0))
    for value in values:
        histogram.observe(value)
    found = parsed("".join(f"{line}\n" for line in histogram.lines()))
    for bound, limit in (("0.1", 0.1), ("1", 1.0), ("50", 50.0), ("+Inf", float("inf"))):
        assert found["x_seconds_bucket", (("le", bound),)] == sum(value <= limit for value in values)
    assert found["x_seconds_count", ()] == len(values)
