"""The embedded store: writing, asking, opening, next to qdrant-client's local mode and to numpy.

``python -m benchmarks.store 10000 100000`` measures these sizes. The texts' words follow Zipf's law without the
commonest (stop words are not encoded); the vectors lie in 300 groups, in 48 of their 256 dimensions.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Row, seconds, show
from lmm_education import payloads
from lmm_education.config import StorageSettings
from lmm_education.frequencies import Frequencies
from lmm_education.material import SparseVector
from lmm_education.store.edge import EdgeStore
from lmm_education.store.port import Leg, Manifest, Point, Store, Vector
from lmm_education.store.server import store_on

SIZES = (10_000, 100_000)
LOCAL_UP_TO = 10_000  # qdrant-client's local mode takes minutes beyond
IN_MEMORY = 200_000  # chunks that fit into memory beside the store and what it is compared with
DOCUMENT = 80  # chunks
SMALL = 700  # chunks of 1 MB of text
DIMENSIONS, WORDS, COMMON = 256, 30_000, 60
LIMIT, SHOWN, QUERIES = 60, 10, 300
MANIFEST = Manifest("hybrid", "benchmark", DIMENSIONS, "Builtin/bm25")
FIELDS = ("document", "section", "kind")
Question = tuple[SparseVector, list[float]]


class Data:
    """Chunks and questions, the same every time."""

    def __init__(self, size: int) -> None:
        self.size, self.random = size, np.random.default_rng(5)
        self._base = self.random.standard_normal((48, DIMENSIONS))
        self._groups = self.random.standard_normal((300, 48))

    def vector(self) -> list[float]:
        """A dense vector of length 1."""
        inner = self._groups[self.random.integers(300)] + 0.7 * self.random.standard_normal(48)
        vector = inner @ self._base
        return (vector / np.linalg.norm(vector)).tolist()  # type: ignore[no-any-return]

    def words(self, count: int) -> SparseVector:
        """About `count` words and their weights, which are all different, so that no two chunks score the same."""
        drawn = self.random.zipf(1.25, 3 * count) + COMMON
        indices = sorted({int(word) for word in drawn if word < WORDS})[:: 2 if count > 20 else 1][:count]
        return SparseVector(tuple(indices), tuple((0.5 + self.random.random(len(indices))).tolist()))

    def points(self) -> Iterator[Point]:
        """The chunks, with a payload of about 1.6 kB."""
        text = "The sentence of a chunk, which goes on for a while. " * 28
        for i in range(self.size):
            payload = {
                "document": f"document {i // DOCUMENT}",
                "section": str(uuid.UUID(int=i // 6)),
                "kind": "text",
                "language": "en",
                "headings": ["Chapter", "Section"],
                "title": "Course",
                "hash": "0" * 32,
                "text": text,
                "metadata": {"topic": f"topic {i % 12}"},
            }
            vectors: dict[str, Vector] = {"dense": self.vector(), "sparse": self.words(110)}
            yield Point(str(uuid.UUID(int=i)), payload, vectors)

    def questions(self, count: int) -> list[Question]:
        """Questions of about six words."""
        return [(self.words(6), self.vector()) for _ in range(count)]


class Speed(NamedTuple):
    """Of many questions, one after the other."""

    per_second: float
    median: float
    p95: float

    def __str__(self) -> str:
        return f"{self.per_second:,.0f}/s (p50 {self.median * 1e3:.2f} ms, p95 {self.p95 * 1e3:.2f} ms)"


def speed(ask: Callable[[Question], object], questions: Sequence[Question]) -> Speed:
    """Ask every question once, after some that do not count."""
    for question in questions[:10]:
        ask(question)
    taken = []
    for question in questions:
        start = time.perf_counter()
        ask(question)
        taken.append(time.perf_counter() - start)
    return Speed(len(taken) / sum(taken), statistics.median(taken), sorted(taken)[int(0.95 * len(taken))])


def legs_of(store: Store, question: Question) -> list[Leg]:
    """Both legs, the words weighed by how rare they are."""
    sparse, dense = question
    return [Leg("sparse", store.frequencies().weigh(sparse), LIMIT), Leg("dense", dense, LIMIT)]


def ask_store(store: Store) -> Callable[[Question], object]:
    """What a hybrid search asks of a store: both legs, and the whole payload of what will be shown."""

    def ask(question: Question) -> object:
        found = store.search(legs_of(store, question), fields=False)
        return store.get("chunks", [hit.id for hit in found[0][: SHOWN // 2] + found[1][: SHOWN // 2]])

    return ask


class Exact:
    """Both legs with numpy: every vector is compared, every posting added."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.dense = np.array([point.vectors["dense"] for point in points], dtype=np.float32)
        postings: dict[int, tuple[list[int], list[float]]] = {}
        for row, point in enumerate(points):
            sparse: Any = point.vectors["sparse"]
            for index, value in zip(sparse.indices, sparse.values, strict=True):
                rows, values = postings.setdefault(index, ([], []))
                rows.append(row)
                values.append(value)
        count = len(points)
        self.postings = {
            index: (np.array(rows), np.array(values) * np.log(1 + (count - len(rows) + 0.5) / (len(rows) + 0.5)))
            for index, (rows, values) in postings.items()
        }

    def ask(self, question: Question) -> list[list[int]]:
        """The best rows by each leg."""
        sparse, dense = question
        scores = np.zeros(len(self.dense))
        for index, value in zip(sparse.indices, sparse.values, strict=True):
            if index in self.postings:
                rows, values = self.postings[index]
                scores[rows] += values * value
        return [_best(scores), _best(self.dense @ np.array(dense, dtype=np.float32))]


def _best(scores: Any) -> list[int]:
    few = np.argpartition(-scores, LIMIT)[:LIMIT]
    return [int(row) for row in few[np.argsort(-scores[few])]]


def check(store: Store, exact: Exact, questions: Sequence[Question]) -> None:
    """The store finds what there is to find: the sparse leg exactly, the dense one nearly."""
    agreed = 0
    for question in questions:
        found = [{uuid.UUID(hit.id).int for hit in leg} for leg in store.search(legs_of(store, question), fields=False)]
        words, near = exact.ask(question)
        assert len(found[0] & set(words)) >= 0.9 * len(found[0]), "the sparse leg"
        agreed += len(found[1] & set(near))
    assert agreed >= 0.95 * LIMIT * len(questions), f"the dense leg: {agreed / LIMIT / len(questions):.3f}"


def write(store: Store, points: Sequence[Point]) -> float:
    """Seconds to store points in a new store."""
    start = time.perf_counter()
    with store.writing(MANIFEST) as writer:
        writer.upsert("chunks", points)
        writer.upsert("documents", records(points))
    return time.perf_counter() - start


def records(points: Sequence[Point]) -> list[Point]:
    """The records of the documents that chunks belong to, with their document frequencies."""
    words: dict[str, list[SparseVector]] = {}
    for point in points:
        words.setdefault(point.payload["document"], []).append(point.vectors["sparse"])  # type: ignore[arg-type]
    return [
        Point(
            str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
            {"what": "document", payloads.WORDS: Frequencies.of(own).to_text()},
        )
        for name, own in words.items()
    ]


def rows(sizes: Sequence[int] = SIZES) -> list[Row]:
    """All rows, for each size."""
    return [*small_change(), *(row for size in sizes for row in (of_size if size <= IN_MEMORY else streamed)(size))]


def streamed(size: int) -> list[Row]:
    """The same for more chunks than fit beside the store: made as they are written, and nothing to compare with."""
    data = Data(size)
    questions = data.questions(QUERIES)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "course")
        with closing(EdgeStore(where)) as store:
            start, busy = time.perf_counter(), time.process_time()
            with store.writing(MANIFEST) as writer:
                every, written = data.points(), 0
                while points := list(islice(every, DOCUMENT)):
                    writer.upsert("chunks", points)
                    writer.upsert("documents", records(points))
                    written += len(points)
                    if written % 50_000 == 0:
                        _tell(start, written)
                busy_written = time.process_time() - busy
            wrote, busy = time.perf_counter() - start, time.process_time() - busy
            _tell(start, size)
            first = speed(ask_store(store), questions)
            again = speed(ask_store(store), questions)
            details, disk = store.status().details, (store.status().size or 0) / 1e6
        opened = statistics.median(_open_time(where, questions[0]) for _ in range(5))
    processor = f"{busy / 60:.0f} min of processor time, {busy_written / 60:.0f} of them before the last optimizing"
    return [
        Row(f"store {size:,} chunks, indexes and fsync included", "", f"{size / wrote:,.0f}/s, {wrote / 60:.0f} min"),
        Row("their processor time, making them included", "", processor),
        Row("resident memory at most, with mapped files", "", f"{_resident():.1f} GB"),
        Row(f"hybrid question over {size:,} chunks: 2 legs of {LIMIT}, payloads of {SHOWN}", "", str(first)),
        Row("the same questions again", "", str(again)),
        Row(f"open the store of {size:,} chunks and ask the first question", "", seconds(opened)),
        Row(f"disk for {size:,} chunks, {details}", "", f"{disk:,.0f} MB"),
    ]


def _resident() -> float:
    """The most memory that this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _tell(start: float, written: int) -> None:
    print(
        f"{time.perf_counter() - start:8,.0f} s {written:12,} chunks {_resident():6.1f} GB", file=sys.stderr, flush=True
    )


def of_size(size: int) -> list[Row]:
    """Writing, asking, opening, and the disk."""
    data = Data(size)
    points, questions = list(data.points()), data.questions(QUERIES)
    exact = Exact(points)
    with tempfile.TemporaryDirectory() as folder, closing(EdgeStore(Path(folder, "course"))) as store:
        wrote = write(store, points)
        check(store, exact, questions[:50])
        ours = speed(ask_store(store), questions)
        where = Path(folder, "course")
        opened = statistics.median(_open_time(where, questions[0]) for _ in range(5))
        disk = (store.status().size or 0) / 1e6
    peer = local(points, questions) if size <= LOCAL_UP_TO else None
    brute = speed(exact.ask, questions)
    fast = ours.per_second >= 500 and ours.p95 <= 0.004
    target = "≥ 500/s, p95 ≤ 4 ms" if size == max(SIZES) else ""
    return [
        Row(
            f"store {size:,} chunks, indexes and fsync included",
            f"qdrant-client in memory: {size / peer[0]:,.0f}/s" if peer else "",
            f"{size / wrote:,.0f}/s",
            f"{peer[0] / wrote:.0f} ×" if peer else "",
        ),
        Row(
            f"hybrid question over {size:,} chunks: 2 legs of {LIMIT}, payloads of {SHOWN}",
            f"qdrant-client in memory: {peer[1]}" if peer else "",
            str(ours),
            f"{ours.per_second / peer[1].per_second:.0f} ×" if peer else "",
            target,
            fast if target else None,
        ),
        Row("the same with numpy: every vector, every posting, no payloads", str(brute), str(ours)),
        Row(f"open the store of {size:,} chunks and ask the first question", "", seconds(opened)),
        Row(f"disk for {size:,} chunks (1.6 kB of payload, {DIMENSIONS} dimensions, 110 words)", "", f"{disk:.0f} MB"),
    ]


def _open_time(where: Path, question: Question) -> float:
    start = time.perf_counter()
    with closing(EdgeStore(where)) as store:
        ask_store(store)(question)
        return time.perf_counter() - start


def local(points: Sequence[Point], questions: Sequence[Question]) -> tuple[float, Speed]:
    """The same work in qdrant-client's local mode."""
    from qdrant_client import QdrantClient

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with closing(store_on(QdrantClient(":memory:"), StorageSettings(course="course"))) as store:
            return write(store, points), speed(ask_store(store), questions[:20])


def small_change() -> list[Row]:
    """Change one chunk and one section of a store of 1 MB of text, and move thirty chunks that follow."""
    points = list(Data(SMALL).points())
    sections = [Point(str(uuid.UUID(int=i)), {"what": "section", "text": "text " * 2000}) for i in range(100)]
    with tempfile.TemporaryDirectory() as folder, closing(EdgeStore(Path(folder, "course"))) as store:
        with store.writing(MANIFEST) as writer:
            writer.upsert("chunks", points)
            writer.upsert("documents", sections)
        taken = []
        for turn in range(9):
            start = time.perf_counter()
            with store.writing(MANIFEST) as writer:
                list(writer.scroll("chunks"))
                writer.upsert("chunks", points[turn : turn + 1])
                writer.set_payload("chunks", {p.id: dict(p.payload, last_line=turn) for p in points[100:130]})
                writer.delete("chunks", [points[-1 - turn].id])
                writer.upsert("documents", sections[turn : turn + 1])
            taken.append(time.perf_counter() - start)
        start = time.perf_counter()
        with store.writing(MANIFEST) as writer:
            list(writer.scroll("chunks"))
        nothing = time.perf_counter() - start
    change = min(taken)
    return [
        Row(f"a run that changes little in {SMALL} chunks: copy, write, fsync, swap", "", seconds(change), "",
            "≤ 0.15 s", change <= 0.15),
        Row("a run that changes nothing there", "", seconds(nothing)),
    ]  # fmt: skip


if __name__ == "__main__":
    show(rows([int(word) for word in sys.argv[1:]] or SIZES))
