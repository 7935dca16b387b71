"""A course's store as students have it: without the texts of some types, solutions above all.

Whatever is read goes through here: the question to the store leaves them out, so that limits and ranking are right, and
every payload is looked at once more on its way. A section that has such texts among others is given without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from lmm_education.frequencies import Frequencies
from lmm_education.payloads import types_in
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import (
    Among,
    CollectionName,
    Condition,
    Fields,
    Leg,
    Match,
    Scored,
    Store,
    Stored,
    StoreStatus,
    StoreView,
    Where,
    Writer,
)

_ALL = 10_000  # more different types than a course has
_FEW = 200  # sections whose texts are asked for by name
_NEEDED = ("what", "document", "section", "kind", "headings", "level", "order", "metadata")
_PLACE = frozenset({"section", "document"})  # what may be said of a text whatever is in it
Payload = Mapping[str, Any]
Texts = dict[bool, dict[str, list[Payload]]]
"""Chunks by their sections: those that are withheld, and those that are not."""
T = TypeVar("T")


class WithheldView:
    """A `StoreView` without the texts whose type is one of `types`; see `WithheldStore`. `known` are the types to leave
    out as the store spells them, by its stamp."""

    def __init__(self, store: StoreView, types: frozenset[str], known: dict[str, tuple[str, ...]]) -> None:
        self._store, self._types, self._known = store, types, known

    # -- reading -----------------------------------------------------------------------------------

    @property
    def stamp(self) -> str:
        """See `StoreView.stamp`."""
        return self._store.stamp

    @property
    def known_stamp(self) -> str:
        """See `StoreView.known_stamp`."""
        return self._store.known_stamp

    @property
    def far(self) -> bool:
        """See `StoreView.far`."""
        return self._store.far

    def together(self, *reads: Callable[[], T]) -> list[T]:
        """See `StoreView.together`."""
        return self._store.together(*reads)

    def manifest(self) -> Manifest | None:
        """See `Reader.manifest`."""
        return self._store.manifest()

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `Reader.search`."""
        if self._asks_for_withheld(where):
            return [[] for _ in legs]
        plain = not fields or (not isinstance(fields, bool) and _PLACE.issuperset(fields))
        where = self._without(where, self._store.known_stamp)  # `get` looks at every payload again
        found = self._store.search(legs, where=where, fields=fields if plain else _with_needed(fields))
        if plain:
            return found
        return [
            [replace(each, payload=self._stripped(each.payload)) for each in leg if self._may_show(each.payload)]
            for leg in found
        ]

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Stored]:
        """See `Reader.get`."""
        wanted = _with_needed(fields)
        if collection == "chunks":
            return self._chunks(self._store.get(collection, ids, fields=wanted, vectors=vectors))
        if not (self.far and ids and self._kinds(self.stamp)):
            return self._documents(self._store.get(collection, ids, fields=wanted, vectors=vectors))
        points: list[Stored] = []
        texts: Texts = {}
        self.together(
            lambda: points.extend(self._store.get(collection, ids, fields=wanted, vectors=vectors)),
            lambda: texts.update(self._texts_of(ids)),
        )
        return self._documents(points, texts)

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Stored]:
        """See `Reader.scroll`."""
        if self._asks_for_withheld(where):
            return iter(())
        wanted = _with_needed(fields)
        if collection == "documents":
            return iter(self._documents(list(self._store.scroll(collection, where=where, fields=wanted))))
        points = self._store.scroll(collection, where=self._without(where, self.stamp), fields=wanted, vectors=vectors)
        return chain.from_iterable(self._chunks([point]) for point in points)

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `Reader.count`."""
        return sum(1 for _ in self.scroll(collection, where=where, fields=False))

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `Reader.facet`."""
        if self._asks_for_withheld([Match(key, ()), *where]):
            return {}
        found = self._store.facet(key, where=self._without(where, self.stamp), limit=limit + len(self._types))
        # Of several types of one text, the others are counted with it.
        shown = [(name, number) for name, number in found.items() if key != "kind" or not self._is_withheld(name)]
        return dict(shown[:limit])

    def frequencies(self) -> Frequencies:
        """See `Reader.frequencies`: those of the whole course, so that words weigh the same for everybody."""
        return self._store.frequencies()

    # -- what may be shown -------------------------------------------------------------------------

    def _may_show(self, payload: Payload) -> bool:
        """Whether a text may be shown, by all types that its payload gives it."""
        kind = payload.get("kind")
        kinds = [*(kind if isinstance(kind, list) else [kind]), *types_in(payload.get("metadata") or {})]
        return not any(map(self._is_withheld, kinds))

    def _is_withheld(self, kind: object) -> bool:
        return _folded(kind) in self._types

    def _stripped(self, payload: Payload) -> Payload:
        """A payload without what its metadata give away."""
        metadata = payload.get("metadata")
        if not isinstance(metadata, Mapping) or not any(map(self._is_withheld, metadata)):
            return payload
        kept = {name: value for name, value in metadata.items() if not self._is_withheld(name)}
        return {**payload, "metadata": kept}

    def _asks_for_withheld(self, where: Where) -> bool:
        """Whether a condition is on metadata that are not shown: what fits it would tell what stands there."""
        keys = (condition.key for condition in where if not isinstance(condition, Among))
        parts = (part for key in keys for part in re.split(r'[."\[\]]+', key))
        return any(map(self._is_withheld, parts))

    def _kinds(self, stamp: str) -> tuple[str, ...]:
        """The types to leave out as the store spells them."""
        if stamp not in self._known:
            facet = self._store.facet("kind", limit=_ALL) if stamp else {}
            self._known.clear()
            self._known[stamp] = tuple(filter(self._is_withheld, facet))
        return self._known[stamp]

    def _without(self, where: Where, stamp: str) -> list[Condition]:
        kinds = self._kinds(stamp)
        return [*where, *([Match("kind", kinds, negate=True)] if kinds else [])]

    def _chunks(self, points: Iterable[Stored]) -> list[Stored]:
        return [replace(p, payload=self._stripped(p.payload)) for p in points if self._may_show(p.payload)]

    def _documents(self, points: Sequence[Stored], texts: Texts | None = None) -> list[Stored]:
        """Sections and records of documents: without those of which nothing may be shown, and other sections without
        the texts that may not. `texts` are all of the sections, if they were read."""
        sections = [point for point in points if point.payload.get("what") == "section"]
        read = texts or (self._texts_of([p.id for p in sections], True) if sections and self._kinds(self.stamp) else {})
        secret = read.get(True, {})
        typed = _inherited_types(sections)
        doubtful = [p for p in sections if p.id in secret or any(map(self._is_withheld, typed[p.id]))]
        read = texts or (self._texts_of([point.id for point in doubtful], False) if doubtful else {})
        open_texts = read.get(False, {})
        gone = {point.id for point in doubtful if point.id not in open_texts}
        shown = []
        for point in points:
            is_section = point.payload.get("what") == "section"
            if point.id in gone or (not is_section and self._is_secret_document(point.payload)):
                continue
            payload = self._stripped(point.payload)
            if point.id in secret and "text" in payload:
                payload = {**payload, "text": redacted(payload, secret[point.id], open_texts[point.id])}
            shown.append(replace(point, payload=payload))
        return shown

    def _texts_of(self, sections: Collection[str], withheld: bool | None = None) -> Texts:
        """The chunks of sections, summaries aside, in their order: those that may not be shown, those that may, or all
        of them."""
        ids = set(sections)
        kinds = self._kinds(self.stamp) if withheld is not None else ()
        where = [Match("kind", kinds, negate=not withheld)] if kinds else []
        where += [Match("section", tuple(ids))] if len(ids) <= _FEW else []
        found: Texts = {True: {}, False: {}}
        for point in self._store.scroll("chunks", where=where, fields=(*_NEEDED, "text")):
            if point.payload.get("section") in ids and point.payload.get("kind") != "summary":
                of_kind = found[not self._may_show(point.payload)]
                of_kind.setdefault(point.payload["section"], []).append(point.payload)
        for of_kind in found.values():
            for texts in of_kind.values():
                texts.sort(key=lambda text: text.get("order", 0))
        return found

    def _is_secret_document(self, payload: Payload) -> bool:
        """Whether a document's header withholds it, and nothing in it has another type."""
        if not any(map(self._is_withheld, types_in(payload.get("metadata") or {}))):
            return False
        inside = [Match("document", (payload["document"],))]
        return not any(self._may_show(p.payload) for p in self._store.scroll("chunks", where=inside, fields=_NEEDED))


class WithheldStore:
    """A `Store` without the texts whose type is one of `types`, in upper or lower case.

    The type of a text is its own or the one it inherits; of several, each counts. What stands in metadata under the
    name of such a type (``solution:``) is not there either, and nothing is found by it.
    """

    def __init__(self, store: Store, types: Iterable[str]) -> None:
        self._store, self._types = store, frozenset(map(_folded, types))
        self._known: dict[str, tuple[str, ...]] = {}

    # -- reading, each time in a view of its own ------------------------------------------------------

    @contextmanager
    def view(self) -> Iterator[WithheldView]:
        """See `Store.view`."""
        with self._store.view() as view:
            yield WithheldView(view, self._types, self._known)

    def manifest(self) -> Manifest | None:
        """See `Reader.manifest`."""
        return self._store.manifest()

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `Reader.search`."""
        with self.view() as view:
            return view.search(legs, where=where, fields=fields)

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Stored]:
        """See `Reader.get`."""
        with self.view() as view:
            return view.get(collection, ids, fields=fields, vectors=vectors)

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Stored]:
        """See `Reader.scroll`."""
        with self.view() as view:
            yield from view.scroll(collection, where=where, fields=fields, vectors=vectors)

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `Reader.count`."""
        with self.view() as view:
            return view.count(collection, where=where)

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `Reader.facet`."""
        with self.view() as view:
            return view.facet(key, where=where, limit=limit)

    def frequencies(self) -> Frequencies:
        """See `Reader.frequencies`."""
        return self._store.frequencies()

    # -- the rest of a store -----------------------------------------------------------------------

    @property
    def location(self) -> str:
        """See `Store.location`."""
        return self._store.location

    @property
    def notices(self) -> Sequence[str]:
        """See `Store.notices`."""
        return self._store.notices

    def telling(self, told: Callable[[str], None]) -> AbstractContextManager[None]:
        """See `Store.telling`."""
        return self._store.telling(told)

    def writing(self, manifest: Manifest, *, anew: bool = False) -> AbstractContextManager[Writer]:
        """See `Store.writing`."""
        return self._store.writing(manifest, anew=anew)

    def compact(self) -> None:
        """See `Store.compact`."""
        self._store.compact()

    def check(self) -> str:
        """See `Store.check`."""
        return self._store.check()

    def records(self) -> Sequence[Mapping[str, Any]] | None:
        """See `Store.records`."""
        return self._store.records()

    def status(self) -> StoreStatus:
        """See `Store.status`."""
        return self._store.status()

    def close(self) -> None:
        """See `Store.close`."""
        self._store.close()


def redacted(section: Payload, secret: Sequence[Payload], shown: Sequence[Payload]) -> str:
    """The text of a section without its `secret` texts.

    Where they stand as they are, between blank lines, they are taken out; else it is made of what may be `shown`.

    >>> text = {"text": "Why?\\n\\nBecause.", "headings": ["A"]}
    >>> redacted(text, [{"text": "Because.", "headings": ["A"]}], [{"text": "Why?", "headings": ["A"]}])
    'Why?'
    """
    text, path = f"\n\n{section['text']}\n\n", section.get("headings")
    for each in secret:
        inside = f"\n\n{each['text']}\n\n"
        if inside not in text or each.get("headings") != path:
            return _put_together(section, shown)
        while inside in text:
            text = text.replace(inside, "\n\n")
    return text.strip("\n")


def _put_together(section: Payload, shown: Sequence[Payload]) -> str:
    """Texts, with the headings that stand above them inside of the section."""
    parts, above = list[str](), list(section.get("headings") or ())
    depth, level = len(above), int(section.get("level") or 0)
    for each in shown:
        path = list(each.get("headings") or ())
        new = [i for i in range(depth, len(path)) if path[: i + 1] != above[: i + 1]]
        parts += [f"{'#' * (level + i + 1 - depth)} {path[i]}" for i in new]
        above = path
        parts.append(str(each.get("text", "")))
    return "\n\n".join(parts)


def _inherited_types(sections: Iterable[Stored]) -> dict[str, tuple[str, ...]]:
    """The types that headings give what stands under them: their own, or those of the nearest above that has some."""
    found: dict[str, tuple[str, ...]] = {}
    by_path: dict[tuple[Any, ...], tuple[str, ...]] = {}

    def place(point: Stored) -> tuple[Any, ...]:
        return point.payload.get("document"), *(point.payload.get("headings") or ())

    for point in sorted(sections, key=lambda point: len(place(point))):
        path = place(point)
        above = next((by_path[path[:end]] for end in range(len(path) - 1, 0, -1) if path[:end] in by_path), ())
        found[point.id] = by_path[path] = types_in(point.payload.get("metadata") or {}) or above
    return found


def _with_needed(fields: Fields) -> Fields:
    """Fields with those by which we see whether a text may be shown."""
    if isinstance(fields, bool):
        return True if fields else _NEEDED
    return tuple(dict.fromkeys([*fields, *_NEEDED]))


def _folded(kind: object) -> str:
    return str(kind).strip().casefold()
