"""What a server counts, and how Prometheus reads it (text format 0.0.4). Nothing in here is about one student."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, ...]
FIRST_WORD = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0)
TOTAL = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


@dataclass(slots=True)
class Counter:
    """Numbers that only grow, one for each combination of `labels`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: str = "counter"
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Count something."""
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def lines(self) -> Iterable[str]:
        """In the text format.

        >>> counter = Counter("asked_total", "Questions.", ("via",))
        >>> counter.add("page")
        >>> list(counter.lines())[2:]
        ['asked_total{via="page"} 1']
        """
        yield from _head(self.name, self.help, self.kind)
        if not self.labels and not self.values:
            yield f"{self.name} 0"
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_labels(self.labels, labels)} {_number(value)}"


@dataclass(slots=True)
class Histogram:
    """How often values were at most each of `bounds`, ascending."""

    name: str
    help: str
    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))] += 1
        self.total += value

    def lines(self) -> Iterable[str]:
        """In the text format."""
        yield from _head(self.name, self.help, "histogram")
        for bound, count in zip((*map(_number, self.bounds), "+Inf"), accumulate(self.counts), strict=True):
            yield f'{self.name}_bucket{{le="{bound}"}} {count}'
        yield f"{self.name}_sum {_number(self.total)}"
        yield f"{self.name}_count {sum(self.counts)}"


class Metrics:
    """Everything that is counted, from the start of the server on."""

    def __init__(self) -> None:
        self.requests = Counter("lmm_requests_total", "Requests, by route and status.", ("path", "status"))
        self.exchanges = Counter("lmm_exchanges_total", "Questions, by what came of them.", ("via", "outcome"))
        self.errors = Counter("lmm_errors_total", "Failures while answering, by kind.", ("kind",))
        self.first_word = Histogram("lmm_first_word_seconds", "From question to first word.", FIRST_WORD)
        self.answer = Histogram("lmm_answer_seconds", "From question to the end of the answer.", TOTAL)
        self.tokens = Counter("lmm_tokens_total", "Tokens of models.", ("direction",))
        self.cost = Counter("lmm_cost_dollars_total", "US dollars, as far as prices are known.")
        self.reactions = Counter("lmm_reactions_total", "Students' reactions, every change of one.", ("reaction",))
        self.running = 0

    def text(self, more: Iterable[Counter] = ()) -> str:
        """All of it, and more, in the text format.

        >>> print(Metrics().text([gauge("x", "An x.", 2)]).partition("# HELP lmm_x")[2], end="")
         An x.
        # TYPE lmm_x gauge
        lmm_x 2
        """
        families: tuple[Counter | Histogram, ...] = (
            *(self.requests, self.exchanges, self.errors, self.first_word, self.answer, self.tokens, self.cost),
            *(self.reactions, gauge("answers_running", "Answers on their way.", self.running), *more),
        )
        return "".join(f"{line}\n" for family in families for line in family.lines())


def gauge(name: str, help: str, value: float) -> Counter:
    """A number that goes up and down."""
    return Counter(f"lmm_{name}", help, kind="gauge", values={(): float(value)})


def total(name: str, help: str, value: float) -> Counter:
    """A number that only grows and is counted elsewhere."""
    return Counter(f"lmm_{name}_total", help, values={(): float(value)})


def _head(name: str, help: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {_escaped(help)}", f"# TYPE {name} {kind}"


def _labels(names: Sequence[str], values: Labels) -> str:
    pairs = (f'{name}="{_quoted(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}" if names else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    """
    >>> _number(2.0), _number(0.25)
    ('2', '0.25')
    """
    return str(int(value)) if value == int(value) else repr(value)
