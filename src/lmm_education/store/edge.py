"""The embedded store: Qdrant Edge in this process, in a folder of generations.

Whoever reads has a *view*: a generation that is held, with its shards open. Before every query one look at the
pointer file tells whether there is a newer generation. Whoever writes copies what it changes into a new
generation; nobody sees that before the pointer moves.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from lmm_education.errors import StoreBusy, StoreError, StoreMissing
from lmm_education.frequencies import Frequencies
from lmm_education.payloads import WORDS, words_of
from lmm_education.store.folders import check_space, copy_folder, files_of, link_folder, size_on_disk
from lmm_education.store.generations import Generation, Generations, Lease, check_files, remove_generation
from lmm_education.store.layout import COLLECTIONS, as_stored, check_same, vectors_of
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import (
    CollectionName,
    Fields,
    Leg,
    Match,
    Point,
    Scored,
    Stored,
    StoreStatus,
    Waits,
    Where,
)
from lmm_education.store.reading import View, telling_of_files, write_frequencies, write_manifest
from lmm_education.store.shard import NEVER_WRITTEN, PAGE, ROOM, Shard

T = TypeVar("T")
# What the record of a document says besides its metadata: by these, a store can be made anew.
_OF_A_RECORD = ("document", "file", "title", "language", "hash", "chunks", "sections", "prepared")
_RECORDS = (Match("what", ("document",)),)


class EdgeReader:
    """Reading, the same in a store and in a run of changes."""

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        raise NotImplementedError
        yield

    def search(self, legs: Sequence[Leg], *, where: Where = (), fields: Fields = True) -> list[list[Scored]]:
        """See `port.Reader.search`.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        with self._reading("chunks") as shard:
            return self._there(shard).search(legs, where, fields)

    def get(
        self, collection: CollectionName, ids: Sequence[str], *, fields: Fields = True, vectors: bool = False
    ) -> list[Stored]:
        """See `port.Reader.get`."""
        with self._reading(collection) as shard:
            return shard.get(ids, fields, vectors) if shard else []

    def scroll(
        self, collection: CollectionName, *, where: Where = (), fields: Fields = True, vectors: bool = False
    ) -> Iterator[Stored]:
        """See `port.Reader.scroll`. All points are of one generation, even if another is published meanwhile."""
        with self._reading(collection) as shard:
            if shard:
                yield from shard.scroll(where, fields, vectors)

    def count(self, collection: CollectionName, *, where: Where = ()) -> int:
        """See `port.Reader.count`."""
        with self._reading(collection) as shard:
            return shard.count(where) if shard else 0

    def facet(self, key: str, *, where: Where = (), limit: int = 100) -> dict[str, int]:
        """See `port.Reader.facet`.

        Raises:
            StoreMissing: nothing was ever stored.
        """
        with self._reading("chunks") as shard:
            return self._there(shard).facet(key, where, limit)

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        raise NotImplementedError

    @property
    def location(self) -> str:
        """Where the store is."""
        raise NotImplementedError

    def _there(self, shard: Shard | None) -> Shard:
        if shard is None:
            raise StoreMissing("there is no store yet", where=self.location, hint="make one with: lmm ingest PATH")
        return shard


class EdgeView(EdgeReader):
    """A generation, or None where there is none, that is held as long as the view is open."""

    def __init__(self, held: View | None, location: str) -> None:
        self._held, self._location = held, location

    @property
    def location(self) -> str:
        """Where the store is."""
        return self._location

    @property
    def stamp(self) -> str:
        """See `port.StoreView.stamp`: the name of the generation."""
        return self._held.generation.name if self._held else ""

    known_stamp, far = stamp, False

    def together(self, *reads: Callable[[], T]) -> list[T]:
        """See `port.StoreView.together`."""
        return [read() for read in reads]

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        return self._held.manifest if self._held else None

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        return self._held.frequencies if self._held else Frequencies()

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        yield self._held.shard(collection) if self._held else None


class EdgeWriter(EdgeReader):
    """A run of changes, in a new generation that is begun with the first change."""

    def __init__(self, generations: Generations, base: View | None, manifest: Manifest) -> None:
        self._generations, self._base, self._manifest = generations, base, manifest
        self._begun: tuple[Generation, Lease] | None = None
        self._shards: dict[CollectionName, Shard] = {}
        self._frequencies = base.frequencies if base else Frequencies()
        self._counted = list[Frequencies](), list[Frequencies]()  # what came, and what went, since then

    @property
    def location(self) -> str:
        """Where the store is."""
        return str(self._generations.folder)

    def manifest(self) -> Manifest | None:
        """What the store is made with."""
        return self._manifest

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        came, went = self._counted
        self._frequencies, self._counted = self._frequencies.changed(came, went), ([], [])
        return self._frequencies

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        own = self._shards.get(collection)
        yield own or (self._base.shard(collection) if self._base else self._changing(collection))

    def upsert(self, collection: CollectionName, points: Iterable[Point]) -> None:
        """See `port.Writer.upsert`."""
        given = iter(points)
        while some := list(islice(given, PAGE)):
            if collection == "documents":
                records = [point for point in some if WORDS in point.payload]
                self._recount([point.id for point in records], [words_of(point.payload) for point in records])
            self._changing(collection).upsert(some)

    def _recount(self, ids: Collection[str], now: Iterable[Frequencies] = ()) -> None:
        """Count the words of these records as they are now, and no longer as they were."""
        came, went = self._counted
        came += now
        went += [words_of(record.payload) for record in self.get("documents", list(ids), fields=(WORDS,))]
        if len(came) + len(went) > PAGE:
            self.frequencies()

    def set_payload(self, collection: CollectionName, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See `port.Writer.set_payload`.

        Raises:
            StoreError: there is no such point.
        """
        if payloads:
            self._changing(collection).set_payload(payloads)

    def delete(self, collection: CollectionName, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        if not ids:
            return
        if collection == "documents":
            self._recount(ids)
        self._changing(collection).delete(ids)

    def _changing(self, collection: CollectionName) -> Shard:
        """The collection of the new generation."""
        if collection not in self._shards:
            vectors = vectors_of(self._manifest, collection)
            path = self._folder() / collection
            if self._base:
                source = self._base.generation.path / collection
                check_space(self._generations.folder, ROOM + size_on_disk(source))
                copy_folder(source, path, shared=NEVER_WRITTEN)
                self._shards[collection] = Shard.load(path, collection, vectors)
            else:
                self._shards[collection] = Shard.create(path, collection, vectors)
        return self._shards[collection]

    def _folder(self) -> Path:
        if self._begun is None:
            if self._base:  # damage that is copied would get a checksum of its own
                check_files(self._base.generation, again=True)
            self._begun = self._generations.begin()
        return self._begun[0].path

    def commit(self) -> bool:
        """Publish the changes; whether there were any. A store that is new is published even if it is empty."""
        if self._base is None:
            for collection in COLLECTIONS:
                self._changing(collection)
        if self._begun is None:
            return False
        records = [dict(each.payload) for each in self.scroll("documents", where=_RECORDS, fields=_OF_A_RECORD)]
        records.sort(key=lambda record: str(record.get("file")))
        for collection in COLLECTIONS:
            if collection in self._shards:
                self._shards.pop(collection).finish()
            elif self._base:  # nobody writes into a published file, so that two generations may share it
                link_folder(self._base.generation.path / collection, self._folder() / collection)
        write_manifest(self._folder(), self._manifest)
        write_frequencies(self._folder(), self.frequencies())
        self._generations.publish(self._begun[0], records, self._base.generation.path if self._base else None)
        self._begun[1].release()
        self._begun = None
        return True

    def abort(self) -> None:
        """Leave no trace; after `commit` this does nothing."""
        with contextlib.suppress(StoreError):
            self._close_shards()
        if self._begun is not None:
            generation, lease = self._begun
            lease.release()
            remove_generation(generation.path)
            self._begun = None

    def _close_shards(self) -> None:
        shards, self._shards = list(self._shards.values()), {}
        for shard in shards:
            shard.close()


class EdgeStore(Waits, EdgeReader):
    """The store in a folder, which need not exist before something is written.

    Threads may share it. After a fork, the child opens its own files. Between `root` and `folder`, links are refused.
    """

    def __init__(self, folder: Path, *, root: Path | None = None, timeout: float = 30.0) -> None:
        self._generations, self._timeout = Generations(folder, root), timeout
        self._view: View | None = None
        self._lock, self._process, self._closed = threading.Lock(), os.getpid(), False
        self._sweeper: threading.Thread | None = None

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._generations.folder)

    @property
    def notices(self) -> tuple[str, ...]:
        """See `port.Store.notices`: folders among the generations that are none of ours, and stay."""
        left = self._generations.left_alone
        return tuple(
            f"{path} is no generation of this store that lmm can know for its own: left alone" for path in left
        )

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        with self._viewing() as view:
            return view.manifest if view else None

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        with self._viewing() as view:
            return view.frequencies if view else Frequencies()

    @contextmanager
    def view(self) -> Iterator[EdgeView]:
        """See `port.Store.view`."""
        with self._viewing() as view:
            yield EdgeView(view, self.location)

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        with self._viewing() as view:
            yield view.shard(collection) if view else None

    @contextmanager
    def _viewing(self) -> Iterator[View | None]:
        """The newest generation, for the time of the block."""
        if self._process != os.getpid():  # threads and locks of the engine do not survive a fork: leave them be
            self._abandoned = self._view
            self._view, self._lock, self._process = None, threading.Lock(), os.getpid()
        with self._lock:
            view = self._newest()
            if view:
                view.enter()
        try:
            yield view
        finally:
            if view:
                view.leave()

    def _newest(self) -> View | None:
        if self._closed:
            raise StoreError("the store was closed", where=self.location)
        if self._view is None or self._view.stamp != self._generations.stamp():
            held = self._generations.hold_current()
            self._retire()
            self._view = View(*held) if held else None
        return self._view

    def _retire(self) -> None:
        view, self._view = self._view, None
        if view:
            view.retire()

    @contextmanager
    def writing(self, manifest: Manifest, *, anew: bool = False) -> Iterator[EdgeWriter]:
        """See `port.Store.writing`. `anew` begins from nothing; until the end, readers have what was there.

        Raises:
            StoreMismatch: the store was made with another manifest, and `anew` is not set.
            StoreBusy: another process writes and does not come to an end.
            StoreError: it cannot be written; the disk is full.
        """
        self.settled()
        reading = nullcontext() if anew else self._viewing()  # what is made anew may be damaged: it is not opened
        with self._generations.writer_lock(self._timeout, self._tell), reading as view:
            if view:
                check_same(manifest, view.manifest, self.location)
                if self._generations.kept() > 1:
                    self._generations.sweep()
            writer = EdgeWriter(self._generations, view, as_stored(manifest))
            try:
                with telling_of_files(self._generations.folder):
                    yield writer
                    changed = writer.commit()
            finally:
                writer.abort()
        if changed:
            with self._lock:
                self._retire()
            self._sweeper = threading.Thread(target=self._sweep, name="lmm-store-sweep")
            self._sweeper.start()

    def _sweep(self) -> None:
        """Remove old generations, beside whatever comes next: on some disks that takes longer than writing one."""
        with contextlib.suppress(StoreBusy, StoreError), self._generations.writer_lock(0):
            self._generations.sweep()

    def settled(self) -> None:
        """Wait until nothing goes on in the background."""
        if self._sweeper is not None and self._process == os.getpid():
            self._sweeper.join()
        self._sweeper = None

    def compact(self) -> None:
        """See `port.Store.compact`: every point into new files, with new indexes."""
        manifest = self.manifest()
        if manifest is None:
            return
        self.check()
        with self.writing(manifest, anew=True) as writer:
            for collection in COLLECTIONS:
                writer.upsert(
                    collection,
                    (Point(p.id, p.payload, p.vectors) for p in self.scroll(collection, vectors=True)),
                )
        self.settled()

    def check(self) -> str:
        """See `port.Store.check`: every byte is read and compared with what was written."""
        with self._viewing() as view:
            if view is None:
                return ""
            check_files(view.generation, again=True)
            files = list(files_of(view.generation.path))
            size = size_on_disk(view.generation.path)
            return f"{len(files)} files, {size / 1e6:,.1f} MB"

    def records(self) -> list[dict[str, Any]] | None:
        """See `port.Store.records`: read from lists beside what the engine has."""
        return self._generations.records()

    def status(self) -> StoreStatus:
        """See `port.Store.status`."""
        with self._viewing() as view:
            details: dict[str, Any] = {"engine": f"Qdrant Edge {version('qdrant-edge-py')}"}
            if view:
                details |= {"generation": view.generation.name, "generations": self._generations.kept()}
                details |= view.shard("chunks").details()
            return StoreStatus(
                location=self.location,
                manifest=view.manifest if view else None,
                documents=self.count("documents", where=[Match("what", ("document",))]),
                sections=self.count("documents", where=[Match("what", ("section",))]),
                chunks=self.count("chunks"),
                size=size_on_disk(self._generations.folder) if view else 0,
                details=details,
            )

    def close(self) -> None:
        """See `port.Store.close`."""
        self.settled()
        with self._lock:
            self._closed = True
            self._retire()
