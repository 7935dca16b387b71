"""A store is a dictionary from ids to points, whatever is done to it in whatever order."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Any

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lmm_education.material import SparseVector
from lmm_education.store.edge import EdgeStore
from lmm_education.store.port import Leg, Manifest, Match, Point

MANIFEST = Manifest("hybrid", "test", 2, "Builtin/bm25")
Model = dict[str, tuple[dict[str, Any], int]]

ids = strategies.integers(1, 12).map(lambda number: str(uuid.UUID(int=number)))
words = strategies.integers(0, 3)
texts = strategies.text(max_size=6)
values = strategies.one_of(texts, strategies.integers(-5, 5), strategies.booleans(), strategies.none())
payloads = strategies.fixed_dictionaries(
    {
        "kind": strategies.sampled_from(["text", "summary", "übung"]),
        "metadata": strategies.dictionaries(
            strategies.sampled_from(["a", "ä b", "c-d"]),
            strategies.one_of(values, strategies.lists(values, max_size=3)),
            max_size=3,
        ),
    }
)
upserts = strategies.dictionaries(ids, strategies.tuples(payloads, words), min_size=1, max_size=6)
changes = strategies.one_of(
    strategies.tuples(strategies.just("upsert"), upserts),
    strategies.tuples(strategies.just("delete"), strategies.sets(ids, max_size=4)),
    strategies.tuples(strategies.just("set_payload"), strategies.dictionaries(ids, payloads, max_size=4)),
)


class Runs(RuleBasedStateMachine):
    """Runs of changes that end well or with an exception; the store is opened again, compacted, begun anew."""

    @initialize()
    def begin(self) -> None:
        """An empty store."""
        self.folder = tempfile.TemporaryDirectory()
        self.store = EdgeStore(Path(self.folder.name, "course"))
        self.model: Model = {}

    @rule(
        run=strategies.lists(changes, max_size=4),
        fails=strategies.sampled_from([False, False, True]),
        anew=strategies.sampled_from([False, False, False, True]),
    )
    def write(self, run: list[tuple[str, Any]], fails: bool, anew: bool) -> None:
        """A run; inside it, what was changed can be read."""
        model = {} if anew else dict(self.model)
        try:
            with self.store.writing(MANIFEST, anew=anew) as writer:
                for kind, what in run:
                    apply(model, kind, what)
                    if kind == "upsert":
                        writer.upsert("chunks", [to_point(each, *pair) for each, pair in what.items()])
                    elif kind == "delete":
                        writer.delete("chunks", what)
                    else:
                        writer.set_payload("chunks", {each: p for each, p in what.items() if each in model})
                    assert writer.count("chunks") == len(model)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        self.model = model

    @rule()
    def open_again(self) -> None:
        """Another process would find the same."""
        self.store.close()
        self.store = EdgeStore(Path(self.folder.name, "course"))

    @invariant()
    def equals_the_model(self) -> None:
        """Every way of asking agrees with the dictionary."""
        stored = {point.id: point for point in self.store.scroll("chunks", vectors=True)}
        assert {each: point.payload for each, point in stored.items()} == {e: p for e, (p, _) in self.model.items()}
        assert all(stored[each].vectors["sparse"] == vector(word) for each, (_, word) in self.model.items())
        order = sorted(self.model, reverse=True)
        assert [point.id for point in self.store.get("chunks", order, fields=False)] == order
        summaries = {each for each, (payload, _) in self.model.items() if payload["kind"] == "summary"}
        found = self.store.scroll("chunks", where=[Match("kind", ("summary",))], fields=False)
        assert {point.id for point in found} == summaries
        if self.store.manifest():
            (hits,) = self.store.search([Leg("sparse", vector(1), 20)], fields=False)
            assert {hit.id for hit in hits} == {each for each, (_, word) in self.model.items() if word == 1}
            kinds = [payload["kind"] for payload, _ in self.model.values()]
            assert self.store.facet("kind") == {kind: kinds.count(kind) for kind in set(kinds)}

    def teardown(self) -> None:
        """Nothing stays open."""
        self.store.close()
        self.folder.cleanup()


def vector(word: int) -> SparseVector:
    """The sparse vector of a point with that word."""
    return SparseVector((word,), (1.0,))


def to_point(each: str, payload: dict[str, Any], word: int) -> Point:
    """A point of the model."""
    return Point(each, payload, {"sparse": vector(word), "dense": (1.0, float(word))})


def apply(model: Model, kind: str, what: Any) -> None:
    """What a change means."""
    if kind == "upsert":
        model.update(what)
    elif kind == "delete":
        for each in what:
            model.pop(each, None)
    else:
        model.update({each: (payload, model[each][1]) for each, payload in what.items() if each in model})


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=10, stateful_step_count=8, deadline=None)
