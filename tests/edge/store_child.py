"""A process of its own for tests of the embedded store: ``python store_child.py MODE FOLDER``.

``read`` asks in a loop until its input is closed. ``fork`` asks in a parent and in its child. ``hold`` keeps a
generation open.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from lmm_education.material import SparseVector
from lmm_education.store.edge import EdgeStore
from lmm_education.store.port import Leg, Manifest, Match, Point, Store, Vector

MANIFEST = Manifest("hybrid", "test", 4, "Builtin/bm25")
CHUNKS, SECTIONS = 40, 10
EVERY = SparseVector((1,), (1.0,))


def version_of(store: Store) -> int:
    """The number of the run whose points are in the store, if that is one run's points and all of them."""
    chunks = [point.payload["version"] for point in store.scroll("chunks")]
    sections = [point.payload["version"] for point in store.scroll("documents")]
    assert len(chunks) == CHUNKS, f"{len(chunks)} chunks"
    assert len(sections) == SECTIONS, f"{len(sections)} sections"
    assert len({*chunks, *sections}) == 1, f"half a run: {sorted({*chunks, *sections})}"
    return int(chunks[0])


def write_run(store: EdgeStore, version: int, *, anew: bool = False) -> None:
    """Write a run: all points anew, half of them under other ids than the run before."""
    with store.writing(MANIFEST, anew=anew) as writer:
        old = [point.id for point in writer.scroll("chunks", where=[Match("turn", ((version + 1) % 2,))])]
        points = [chunk(version, i) for i in range(CHUNKS)]
        writer.upsert("chunks", points[: CHUNKS // 2])
        writer.delete("chunks", [each for each in old if each not in {point.id for point in points}])
        writer.upsert("chunks", points[CHUNKS // 2 :])
        payload = {"what": "section", "version": version, "text": "x" * 2000}
        writer.upsert("documents", [Point(str(uuid.UUID(int=i)), payload) for i in range(SECTIONS)])


def chunk(version: int, i: int) -> Point:
    """A point of a run; every second one has an id of its own in every other run."""
    number = i if i % 2 else i + 1000 * (version % 2)
    payload = {"version": version, "turn": version % 2, "text": f"text {i} " * 50}
    vectors: dict[str, Vector] = {"dense": [1.0, float(i), 0.0, 1.0], "sparse": SparseVector((1, 2 + i), (1.0, 1.0))}
    return Point(str(uuid.UUID(int=number)), payload, vectors)


def read_until_closed(folder: Path) -> None:
    """Ask in every way there is; each answer must be of one run, and whole."""
    import select

    store = EdgeStore(folder)
    asked, seen = 0, set()
    while not select.select([sys.stdin], [], [], 0)[0]:
        legs = [Leg("sparse", EVERY, 100), Leg("dense", [1.0, 1.0, 0.0, 1.0], 100)]
        for hits in store.search(legs, fields=["version"]):
            assert len(hits) == CHUNKS, len(hits)
            versions = {hit.payload["version"] for hit in hits}
            assert len(versions) == 1, versions
            seen |= versions
        assert len({point.payload["version"] for point in store.scroll("documents")}) == 1
        assert store.count("chunks") == CHUNKS
        asked += 1
    sys.stdout.write(f"{asked} {len(seen)}\n")


def ask_after_fork(folder: Path) -> None:
    """The store of a process goes on in its child."""
    store = EdgeStore(folder)
    before = version_of(store)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = version_of(store) == before
            write_run(store, before + 1)
            ok = ok and version_of(store) == before + 1
        finally:
            sys.stdout.flush()
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert version_of(store) == before + 1
    sys.stdout.write("both\n")


def hold(folder: Path) -> None:
    """Keep the present generation open until the input is closed, or until killed."""
    store = EdgeStore(folder)
    sys.stdout.write(f"{version_of(store)}\n")
    sys.stdout.flush()
    sys.stdin.read()


MODES = {"read": read_until_closed, "fork": ask_after_fork, "hold": hold}

if __name__ == "__main__":
    MODES[sys.argv[1]](Path(sys.argv[2]))
