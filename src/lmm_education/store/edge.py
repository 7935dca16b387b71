"""The embedded store: Qdrant Edge in this process, in a folder of generations.

Whoever reads has a *view*: a generation that is held, with its shards open. Before every query one look at the
pointer file tells whether there is a newer generation. Whoever writes copies what it changes into a new
generation; nobody sees that before the pointer moves.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from lmm_education.errors import StoreError
from lmm_education.frequencies import Frequencies
from lmm_education.payloads import WORDS, words_of
from lmm_education.store.folders import check_space, copy_folder, file_errors, files_of, size_on_disk
from lmm_education.store.generations import MANIFEST, Generation, Generations, Lease, check_files, remove_generation
from lmm_education.store.layout import COLLECTIONS, as_stored, check_same, vectors_of
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import CollectionName, Match, Point, StoreStatus, WaitReporter
from lmm_education.store.shard import PAGE, ROOM, Shard, engine_errors
from lmm_education.store.view import FREQUENCIES, EdgeReader, EdgeView

# What the record of a document says besides its metadata: by these, a store can be made anew.
_OF_A_RECORD = ("document", "file", "title", "language", "hash", "chunks", "sections", "prepared")
_RECORDS = (Match("what", ("document",)),)


class EdgeWriter(EdgeReader):
    """A run of changes, in a new generation that is begun with the first change; `base` is the one that there was."""

    def __init__(self, generations: Generations, base: EdgeView | None, manifest: Manifest) -> None:
        self._generations, self._manifest = generations, manifest
        self._base = base if base and base.generation else None
        self.location = str(generations.folder)
        self._begun: tuple[Generation, Lease] | None = None
        self._shards: dict[CollectionName, Shard] = {}

    def manifest(self) -> Manifest | None:
        """What the store is made with."""
        return self._manifest

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        return Frequencies.total(words_of(e.payload) for e in self.scroll("documents", where=_RECORDS, fields=(WORDS,)))

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        own = self._shards.get(collection)
        shard = own or (self._base.shard(collection) if self._base else self._changing(collection))
        with engine_errors(self._generations.folder):
            yield shard

    def upsert(self, collection: CollectionName, points: Iterable[Point]) -> None:
        """See `port.Writer.upsert`."""
        given = iter(points)
        while some := list(islice(given, PAGE)):
            self._changing(collection).upsert(some)

    def set_payload(self, collection: CollectionName, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See `port.Writer.set_payload`.

        Raises:
            StoreError: there is no such point.
        """
        if payloads:
            self._changing(collection).set_payload(payloads)

    def delete(self, collection: CollectionName, ids: Collection[str]) -> None:
        """See `port.Writer.delete`."""
        if ids:
            self._changing(collection).delete(ids)

    def _changing(self, collection: CollectionName) -> Shard:
        """The collection of the new generation."""
        if collection not in self._shards:
            path, vectors = self._folder() / collection, vectors_of(self._manifest, collection)
            if self._copy(collection):
                self._shards[collection] = Shard.load(path, collection, vectors)
            else:
                self._shards[collection] = Shard.create(path, collection, vectors)
        return self._shards[collection]

    def _copy(self, collection: CollectionName) -> bool:
        """Copy a collection as it was, if there was one."""
        if self._base is None or self._base.generation is None:
            return False
        source = self._base.generation.path / collection
        check_space(self._generations.folder, ROOM + size_on_disk(source))
        copy_folder(source, self._folder() / collection)
        return True

    def _folder(self) -> Path:
        if self._begun is None:
            if self._base and self._base.generation:  # damage that is copied would get a checksum of its own
                check_files(self._base.generation, whole=True)
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
        frequencies = self.frequencies().to_bytes()
        for collection in COLLECTIONS:
            if collection in self._shards:
                self._shards.pop(collection).finish()
            else:
                self._copy(collection)
        manifest = json.dumps(self._manifest.as_json(), ensure_ascii=False, indent=1)
        (self._folder() / MANIFEST).write_text(manifest, encoding="utf-8")
        (self._folder() / FREQUENCIES).write_bytes(frequencies)
        self._generations.publish(self._begun[0], records)
        self._begun[1].release()
        self._begun = None
        return True

    def abort(self) -> None:
        """Leave no trace; after `commit` this does nothing."""
        shards, self._shards = list(self._shards.values()), {}
        with contextlib.suppress(StoreError):
            for shard in shards:
                shard.close()
        if self._begun is not None:
            generation, lease = self._begun
            lease.release()
            remove_generation(generation.path)
            self._begun = None


class EdgeStore(WaitReporter, EdgeReader):
    """The store in a folder, which need not exist before something is written.

    Threads may share it. After a fork, the child opens its own files. Between `root` and `folder`, links are refused.
    """

    def __init__(self, folder: Path, *, root: Path | None = None, timeout: float = 30.0) -> None:
        self._generations, self._timeout, self.location = Generations(folder, root), timeout, str(folder)
        self._view: EdgeView | None = None
        self._lock, self._process, self._closed = threading.Lock(), os.getpid(), False

    def manifest(self) -> Manifest | None:
        """See `port.Reader.manifest`."""
        with self.view() as view:
            return view.manifest()

    def frequencies(self) -> Frequencies:
        """See `port.Reader.frequencies`."""
        with self.view() as view:
            return view.frequencies()

    @contextmanager
    def _reading(self, collection: CollectionName) -> Iterator[Shard | None]:
        with self.view() as view, view._reading(collection) as shard:
            yield shard

    @contextmanager
    def view(self) -> Iterator[EdgeView]:
        """See `port.Store.view`: the newest generation."""
        if self._process != os.getpid():  # threads and locks of the engine do not survive a fork: leave them be
            self._abandoned = self._view
            self._view, self._lock, self._process = None, threading.Lock(), os.getpid()
        with self._lock:
            view = self._newest()
            view.enter()
        try:
            yield view
        finally:
            view.leave()

    def _newest(self) -> EdgeView:
        if self._closed:
            raise StoreError("the store was closed", where=self.location)
        if self._view is None or self._view.pointer != self._generations.stamp():
            current = self._generations.hold_current()
            self._retire()
            self._view = EdgeView(self.location, current)
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
        with self._generations.writer_lock(self._timeout, self._report):
            # What is made anew may be damaged: it is not opened.
            with nullcontext() if anew else self.view() as view:
                if view and view.generation:
                    check_same(manifest, view.manifest(), self.location)
                    self._generations.sweep()
                writer = EdgeWriter(self._generations, view, as_stored(manifest))
                try:
                    with file_errors(self._generations.folder):
                        yield writer
                        changed = writer.commit()
                finally:
                    writer.abort()
            if changed:
                with self._lock:
                    self._retire()
                self._generations.sweep()

    def compact(self) -> None:
        """See `port.Store.compact`: every point into new files, with new indexes."""
        manifest = self.manifest()
        if manifest is None:
            return
        self.check()
        with self.writing(manifest, anew=True) as writer:
            for collection in COLLECTIONS:
                writer.upsert(collection, self.scroll(collection, vectors=True))

    def check(self) -> str:
        """See `port.Store.check`: every byte is read and compared with what was written."""
        with self.view() as view:
            if view.generation is None:
                return ""
            check_files(view.generation, whole=True)
            files, size = list(files_of(view.generation.path)), size_on_disk(view.generation.path)
            return f"{len(files)} files, {size / 1e6:,.1f} MB"

    def records(self) -> list[dict[str, Any]] | None:
        """See `port.Store.records`: read from lists beside what the engine has."""
        return self._generations.records()

    def status(self) -> StoreStatus:
        """See `port.Store.status`."""
        with self.view() as view:
            details: dict[str, Any] = {"engine": f"Qdrant Edge {version('qdrant-edge-py')}"}
            if (shard := view.shard("chunks")) is not None:
                details |= {"generation": view.stamp, "generations": self._generations.kept(), **shard.details()}
            return StoreStatus(
                location=self.location,
                manifest=view.manifest(),
                documents=view.count("documents", where=[Match("what", ("document",))]),
                sections=view.count("documents", where=[Match("what", ("section",))]),
                chunks=view.count("chunks"),
                size=size_on_disk(self._generations.folder) if view.generation else 0,
                details=details,
            )

    def close(self) -> None:
        """See `port.Store.close`."""
        with self._lock:
            self._closed = True
            self._retire()
