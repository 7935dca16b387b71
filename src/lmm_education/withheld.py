"""The store of a course as students see it, without the texts that were withheld from them at ingestion.

Each point records who may see it, and replacements of its fields for students. So one condition is added to every
query, and one change is made to every payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from lmm_education.audience import EVERYONE, Withholding
from lmm_education.errors import StoreMismatch
from lmm_education.frequencies import Frequencies
from lmm_education.payloads import RECORD, STUDENTS, document_of
from lmm_education.store.port import (
    RECORDS,
    Among,
    CollectionName,
    Fields,
    Leg,
    Manifest,
    Match,
    Point,
    Scored,
    Store,
    StoreStatus,
    StoreView,
    Where,
)

_SHOWN = Match("audience", (EVERYONE,))
P = TypeVar("P", Point, Scored)


class StudentView:
    """A `StoreView` of the points that everyone may see. Metadata named after a withheld type (``solution:``) cannot be
    searched either."""

    def __init__(self, view: StoreView, withholding: Withholding) -> None:
        self._view, self._withholding = view, withholding
        self.manifest: Callable[[], Manifest | None] = view.manifest
        self.frequencies: Callable[[], Frequencies] = view.frequencies  # the weights of words are the same for all

    @property
    def stamp(self) -> str:
        """See `StoreView.stamp`."""
        return self._view.stamp

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `Reader.search`."""
        if self._reveals([*where, *(each for leg in legs for one in (leg, *leg.prefetch) for each in one.where)]):
            return [[] for _ in legs]
        return [_visible(leg) for leg in self._view.search(legs, where=[*where, _SHOWN], fields=_with_own(fields))]

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Point]:
        """See `Reader.get`."""
        return _visible(self._view.get(collection, ids, fields=_with_own(fields or ("audience",)), vectors=vectors))

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Point]:
        """See `Reader.scroll`."""
        if self._reveals(where):
            return iter(())
        found = self._view.scroll(collection, where=[*where, _SHOWN], fields=_with_own(fields), vectors=vectors)
        return (visible for point in found for visible in _visible([point]))

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `Reader.count`."""
        return 0 if self._reveals(where) else self._view.count(collection, where=[*where, _SHOWN])

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `Reader.facet`."""
        if self._reveals([Match(key, ()), *where]):
            return {}
        return self._view.facet(key, where=[*where, _SHOWN], limit=limit)

    def _reveals(self, where: Where) -> bool:
        """Return whether a condition is on hidden metadata: the results would reveal their values."""
        keys = (condition.key for condition in where if not isinstance(condition, Among))
        return self._withholding.of(part for key in keys for part in re.split(r'[."\[\]]+', key)) != EVERYONE


def _with_own(fields: Fields) -> Fields:
    """Add the fields that say who may see a point, and what of it."""
    return fields if isinstance(fields, bool) else (*fields, "audience", STUDENTS)


def _visible(points: Iterable[P]) -> list[P]:
    """Return the points that students may see, with the replacements for them."""
    visible = []
    for point in points:
        if point.payload.get("audience", EVERYONE) == EVERYONE:
            payload = dict(point.payload)
            instead = payload.pop(STUDENTS, None)
            visible.append(point if instead is None else replace(point, payload=payload | instead))
    return visible


class StudentStore:
    """A store that is read only through a `StudentView`, if all of it was ingested with the current withheld types."""

    def __init__(self, store: Store, withholding: Withholding) -> None:
        self._store, self._withholding, self._checked = store, withholding, ""
        self.location = store.location
        self.manifest: Callable[[], Manifest | None] = store.manifest
        self.status: Callable[[], StoreStatus] = store.status

    @contextmanager
    def view(self) -> Iterator[StudentView]:
        """See `Store.view`.

        Raises:
            StoreMismatch: a document was ingested with other withheld types.
        """
        with self._store.view() as view:
            if view.stamp != self._checked:
                self._check(view)
            yield StudentView(view, self._withholding)

    def _check(self, view: StoreView) -> None:
        records = view.scroll("documents", where=[RECORDS], fields=RECORD)
        for document in map(document_of, (record.payload for record in records)):
            if document.withhold != self._withholding.withheld:
                types = (document.withhold, self._withholding.withheld)
                before, now = (", ".join(each) or "nothing" for each in types)
                raise StoreMismatch(
                    f"[serve] withhold has changed since {document.file} was ingested: it was {before}, is {now}",
                    where=self.location,
                    hint="lmm ingest all documents (--prune, if files are gone), then start lmm serve again",
                )
        self._checked = view.stamp
