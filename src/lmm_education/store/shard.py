"""One collection of the embedded store: a shard of Qdrant Edge, asked and changed in our own values."""

from __future__ import annotations

import errno
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import qdrant_edge as engine

from lmm_education.errors import StoreDamaged, StoreError, StoreMismatch
from lmm_education.material import SparseVector
from lmm_education.store import edge_values as values
from lmm_education.store.folders import check_space, disk_full, size_on_disk
from lmm_education.store.generations import REPAIR
from lmm_education.store.layout import INDEXED, Vectors, engine_path, metadata_kinds, most_first, tally, values_at
from lmm_education.store.port import CollectionName, Fields, Leg, Point, Scored, Stored, Where

PAGE, FACET_PAGE = 512, 4096  # points
ROOM = 8 << 20  # bytes that the engine's own files may need besides what is stored
ROOM_FROM = 1_000  # points; from there on, optimizing may write everything once more
METADATA_FROM, MOST_METADATA = 20_000, 16  # points from which metadata is indexed; keys of one run
SEGMENT = 200_000  # points that a run writes before they are optimized: the memory that this takes grows with them
GRAPH_FROM = 32 << 20  # bytes of dense vectors; below, comparing them all takes less than 3 ms
# What an optimized segment keeps in files that the engine (0.9) opens for reading only, seen with strace: vectors,
# their graph, posting lists, indexes. A new generation shares them with the old one. Deletions are in other files.
NEVER_WRITTEN = frozenset(
    {
        *("matrix.dat", "links_compressed.bin", "graph.bin", "inverted_index.dat", "id_tracker.mappings"),
        *("postings.dat", "vocab.dat", "point_to_tokens_count.dat", "point_to_values.bin", "values_to_points.bin"),
    }
)


class Shard:
    """A shard that is open. Several threads may ask it; one may change it."""

    def __init__(self, path: Path, collection: CollectionName, vectors: Vectors, shard: engine.EdgeShard) -> None:
        self.path, self.collection, self.vectors, self._shard = path, collection, vectors, shard
        self._has_graph: bool | None = None
        self._written = 0
        self._metadata: dict[str, str] = {}  # keys that this run brought, and the kind of index that fits each

    @classmethod
    def create(cls, path: Path, collection: CollectionName, vectors: Vectors) -> Shard:
        """A new, empty shard in a folder that does not exist yet.

        Raises:
            StoreError: it cannot be written.
        """
        path.mkdir()
        check_space(path, ROOM)
        config = values.config_for(vectors, graph=False)
        with telling(path):
            return cls(path, collection, vectors, engine.EdgeShard.create(str(path), config))

    @classmethod
    def load(cls, path: Path, collection: CollectionName, vectors: Vectors, *, opened: Path | None = None) -> Shard:
        """Open a shard that exists; the engine opens the copy or stand-in `opened` of its folder, if there is one.

        Raises:
            StoreDamaged: its files are not as the engine left them.
        """
        try:
            with telling(path):
                return cls(path, collection, vectors, engine.EdgeShard.load(str(opened or path)))
        except StoreError as error:
            if error.__cause__ is None or "No space left" in str(error.__cause__):
                raise
            raise StoreDamaged(f"cannot be opened: {error.__cause__}", where=str(path), hint=REPAIR) from error

    def close(self) -> None:
        """Give back memory and files. What was not flushed is."""
        with telling(self.path):
            self._shard.close()

    # -- reading -----------------------------------------------------------------------------------

    def search(self, legs: Sequence[Leg], where: Where, fields: Fields) -> list[list[Scored]]:
        """See `port.Reader.search`."""
        for leg in legs:
            self._check_leg(leg)
        with telling(self.path):
            requests = [values.to_request(leg, where, fields) for leg in legs]
            found = [values.to_scored(each) for each in self._shard.query_batch(engine.QueryBatchRequest(requests))]
        return [self._with_held(leg, each) for leg, each in zip(legs, found, strict=True)]

    def _with_held(self, leg: Leg, found: list[Scored]) -> list[Scored]:
        """The first with the vectors that the leg wants to see."""
        best = found[: leg.held]
        held = {each.id: each.vectors.get(leg.vector) for each in self.get([hit.id for hit in best], False, True)}
        return [replace(hit, vector=held.get(hit.id)) for hit in best] + found[leg.held :]

    def _check_leg(self, leg: Leg) -> None:
        if leg.vector not in self.vectors.names:
            known = ", ".join(self.vectors.names) or "none"
            raise StoreMismatch(
                f"the store has no vector '{leg.vector}' (it has: {known})",
                where=str(self.path.parent),
                hint="set 'encoding_model' under [RAG] to what the store was made with",
            )
        if leg.vector == "sparse":
            return
        wanted = self.vectors.dense if leg.vector == "dense" else self.vectors.multi
        rows = [leg.query] if leg.vector == "dense" else leg.query
        for row in rows if not isinstance(rows, SparseVector) else []:
            if len(row) != wanted:  # type: ignore[arg-type]
                raise StoreMismatch(
                    f"the store's vectors have {wanted} numbers, the question's has {len(row)}",  # type: ignore[arg-type]
                    where=str(self.path.parent),
                    hint="set the embedding model to the one that the store was made with",
                )

    def get(self, ids: Sequence[str], fields: Fields, vectors: bool) -> list[Stored]:
        """See `port.Reader.get`."""
        wanted = values.known_ids(ids)
        if not wanted:
            return []
        with telling(self.path):
            records = self._shard.retrieve(list(wanted), values.to_selector(fields), vectors)
        found = {record.id: record for record in records}
        return [values.to_stored(found[each]) for each in wanted if each in found]

    def scroll(self, where: Where, fields: Fields, vectors: bool) -> Iterator[Stored]:
        """See `port.Reader.scroll`."""
        pages = self._pages(values.to_filter(where), values.to_selector(fields), vectors, PAGE)
        while True:
            with telling(self.path):
                page = next(pages, None)
            if page is None:
                return
            yield from map(values.to_stored, page)

    def _pages(self, condition: Any, selector: Any, vectors: bool, size: int) -> Iterator[list[engine.Record]]:
        """The points that fit, page by page."""
        offset = None
        while True:
            page, offset = self._shard.scroll(
                engine.ScrollRequest(
                    offset=offset, limit=size, filter=condition, with_payload=selector, with_vector=vectors
                )
            )
            yield page
            if offset is None:
                return

    def count(self, where: Where) -> int:
        """See `port.Reader.count`."""
        with telling(self.path):
            return self._shard.count(engine.CountRequest(exact=True, filter=values.to_filter(where)))

    def facet(self, key: str, where: Where, limit: int) -> dict[str, int]:
        """See `port.Reader.facet`. The engine counts texts only, and only where there is an index."""
        condition = values.to_filter(where)
        with telling(self.path):
            if key in INDEXED[self.collection] and key in self._shard.info().payload_schema:
                request = engine.FacetRequest(key=engine_path(key), limit=limit + 1, exact=True, filter=condition)
                return most_first({str(hit.value): hit.count for hit in self._shard.facet(request).hits}, limit)
            pages = self._pages(condition, [engine_path(key)], False, FACET_PAGE)
            payloads = (record.payload for page in pages for record in page)
            return tally((value for payload in payloads for value in values_at(payload, key)), limit)

    # -- changing ----------------------------------------------------------------------------------

    def upsert(self, points: Iterable[Point]) -> None:
        """See `port.Writer.upsert`."""
        rest = iter(points)
        while batch := list(islice(rest, PAGE)):
            check_space(self.path, ROOM + 3 * sum(map(_size, batch)))
            self._metadata |= metadata_kinds(point.payload for point in batch)
            with telling(self.path):
                self._shard.update(engine.UpdateOperation.upsert_points(values.to_points(batch)))
            self._grow()
            self._written += len(batch)
            if self._written >= SEGMENT:
                self._optimize()

    def _grow(self) -> None:
        """Let the vectors have a graph once they are many; before, it would cost more than it gains."""
        if self._has_graph is None:
            self._has_graph = has_graph(self.path)
        with telling(self.path):
            if self._has_graph or 4 * self.vectors.dense * self._shard.info().points_count < GRAPH_FROM:
                return
            self._shard.flush()
            self._shard.close()
            self._shard = engine.EdgeShard.load(str(self.path), values.config_for(self.vectors, graph=True))
        self._has_graph = True

    def set_payload(self, payloads: Mapping[str, Mapping[str, object]]) -> None:
        """See `port.Writer.set_payload`."""
        check_space(self.path, ROOM + 3 * sum(len(json.dumps(payload, default=str)) for payload in payloads.values()))
        with telling(self.path):
            for each, payload in payloads.items():
                self._shard.update(engine.UpdateOperation.overwrite_payload([each], dict(payload)))

    def delete(self, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        known = values.known_ids(ids)
        if known:
            with telling(self.path):
                self._shard.update(engine.UpdateOperation.delete_points(list(known)))

    def finish(self) -> None:
        """Make indexes where they pay, let the engine optimize where enough has changed, write everything, close."""
        self._optimize()
        self.close()
        # Opening applies journals that flushing left. Readers must find nothing to apply: many may open it at once.
        Shard.load(self.path, self.collection, self.vectors).close()

    def _optimize(self) -> None:
        self._written = 0
        with telling(self.path):
            info = self._shard.info()
            for field, kind in self._wanted_indexes(info.points_count):
                if field not in info.payload_schema:
                    self._shard.update(values.index(field, kind))
            if info.points_count >= ROOM_FROM:
                check_space(self.path, ROOM + 2 * size_on_disk(self.path))
            self._shard.optimize()
            self._shard.flush()

    def _wanted_indexes(self, points: int) -> Iterator[tuple[str, str]]:
        """The fields, and the keys of metadata, that are worth an index among so many points."""
        yield from ((field, index.kind) for field, index in INDEXED[self.collection].items() if points >= index.since)
        if points >= METADATA_FROM:
            yield from islice(self._metadata.items(), MOST_METADATA)

    def details(self) -> dict[str, int]:
        """What the engine says of itself."""
        info = self._shard.info()
        return {"segments": info.segments_count, "indexed vectors": info.indexed_vectors_count or 0}


def has_graph(path: Path) -> bool:
    """Whether the engine's own configuration in a shard's folder asks for graphs."""
    config = json.loads((path / "edge_config.json").read_bytes())
    return bool((config.get("hnsw_config") or {}).get("m"))


def _size(point: Point) -> int:
    """About how many bytes a point takes."""
    numbers = sum(2 * len(v.indices) if isinstance(v, SparseVector) else len(v) for v in point.vectors.values())
    return 4 * numbers + len(json.dumps(point.payload, default=str))


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn what the engine raises into our errors. It raises plain `Exception`, and `BaseException` when it panics.

    Raises:
        StoreError: whatever the engine raised.
    """
    try:
        yield
    except (StoreError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise disk_full(path) from error
        raise StoreError(f"the engine refused: {error}", where=str(path)) from error
