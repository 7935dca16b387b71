"""The embedded store with processes, crashes, full disks and damaged files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.store_child import CHUNKS, MANIFEST, version_of, write_run

from lmm_education.errors import StoreBusy, StoreDamaged, StoreError, StoreMismatch
from lmm_education.store.edge import EdgeStore
from lmm_education.store.generations import check_files, checksum_of, copy_folder
from lmm_education.store.port import FORMAT, Manifest, Point

CHILD = Path(__file__).with_name("store_child.py")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are forked and killed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store of a test is."""
    return tmp_path / "course"


@pytest.fixture
def store(folder: Path) -> Iterator[EdgeStore]:
    """A store with the points of run 1."""
    opened = EdgeStore(folder, timeout=10)
    write_run(opened, 1)
    yield opened
    opened.close()


def start(mode: str, folder: Path) -> subprocess.Popen[str]:
    """Start a process of `store_child.py`."""
    command = [sys.executable, str(CHILD), mode, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> str:
    """Close its input; what it printed then."""
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


def generations(folder: Path) -> list[Path]:
    """The generations on the disk."""
    return sorted((folder / "generations").iterdir())


def current(folder: Path) -> Path:
    """The generation that counts."""
    return folder / "generations" / str(json.loads((folder / "current").read_text())["generation"])


def test_an_exception_leaves_no_trace(store: EdgeStore, folder: Path) -> None:
    """The block's own exception comes out, and the store is as it was."""
    before = generations(folder)

    def fail() -> None:
        with store.writing(MANIFEST) as writer:
            writer.delete("chunks", [point.id for point in writer.scroll("chunks")])
            assert writer.count("chunks") == 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert version_of(store) == 1
    assert generations(folder) == before


def test_a_run_without_changes_writes_nothing(store: EdgeStore, folder: Path) -> None:
    """Ingesting twice costs no copy."""
    before = current(folder)
    with store.writing(MANIFEST) as writer:
        assert writer.count("chunks") == CHUNKS
        writer.upsert("chunks", [])
        writer.delete("chunks", [])
    assert generations(folder) == [before]


# -- several at once ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_readers_never_see_half_a_run(store: EdgeStore, folder: Path) -> None:
    """Two processes and a thread ask without a pause during 20 runs: no error, and each answer is of one run."""
    readers = [start("read", folder) for _ in range(2)]
    stop, failures = threading.Event(), []

    def read() -> None:
        try:
            while not stop.is_set():
                assert store.count("chunks") == CHUNKS
                assert len({point.payload["version"] for point in store.scroll("chunks")}) == 1
                time.sleep(0.005)  # else it would hardly let go of the interpreter's lock
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for version in range(2, 22):
        write_run(store, version)
    stop.set()
    thread.join()
    assert not failures
    for reader in readers:
        asked, seen = map(int, end(reader).split())
        assert asked > 20
        assert seen > 5
    assert version_of(store) == 21


def test_a_replaced_generation_stays_an_hour_for_those_who_opened_it(store: EdgeStore, folder: Path) -> None:
    """At most two do; one that no reader has opened goes at once."""
    holder = start("hold", folder)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "1\n"
    first = current(folder)
    for version in (2, 3):
        write_run(store, version)
        assert generations(folder) == [first, current(folder)]
    read = [first]
    for version in (4, 5, 6):
        read.append(current(folder))
        assert version_of(store) == version - 1
        write_run(store, version)
        assert generations(folder) == [*read[-2:], current(folder)]
    os.utime(read[-1] / "in-use", (time.time() - 3601,) * 2)
    write_run(store, 7)
    assert generations(folder) == [read[-2], current(folder)]
    assert version_of(store) == 7
    write_run(store, 8)
    with contextlib.suppress(InterruptedError), store.writing(MANIFEST) as writer:
        writer.upsert("chunks", [big(1)])
        assert len(generations(folder)) == 3  # with the one that is written: never more than two beside the current one
        raise InterruptedError
    end(holder)


@pytest.mark.parametrize("left", [0, 1, 2, 5])
def test_half_of_a_generation_goes_with_the_next_run(
    store: EdgeStore, folder: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """A writer may be killed when it has just made the folder, and at every file that it removes."""
    write_run(store, 2)
    (folder / "generations/000001-0a1b2c3d").mkdir()
    half, unlink, removed = folder / "generations" / "000002-0a1b2c3d", os.unlink, list[Path]()
    half.mkdir()
    (half / "in-use").write_text(f"a generation of a store of lmm: {half.name}\n")
    os.utime(half / "in-use", (0, 0))
    for name in ("documents.json", "files.json", "frequencies.bin", "manifest.json"):
        (half / name).write_text("{}")

    def killed(path: Path, **options: Any) -> None:
        if "000002" in str(path) and len(removed) == left:
            raise PermissionError
        removed.append(path)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", killed)
    write_run(store, 3)
    monkeypatch.undo()
    write_run(store, 4)
    assert generations(folder) == [current(folder)]


def test_a_thread_that_is_opening_gets_a_generation_while_another_publishes(
    store: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run lets go of what was open; not of what a thread is just about to take."""
    looking, published, seen, stamp = threading.Event(), threading.Event(), list[int](), store._generations.stamp

    def look() -> object:
        found = stamp()
        if threading.current_thread() is reader:
            looking.set()
            published.wait(0.5)
        return found

    assert version_of(store) == 1
    reader = threading.Thread(target=lambda: seen.append(store.count("chunks")))
    with store.writing(MANIFEST) as writer:
        writer.delete("chunks", [writer.get("chunks", [str(uuid.UUID(int=1))])[0].id])
        monkeypatch.setattr(store._generations, "stamp", look)
        reader.start()
        looking.wait(5)
    published.set()
    reader.join()
    assert seen == [CHUNKS]
    assert store.count("chunks") == CHUNKS - 1


def test_one_writes_at_a_time(store: EdgeStore, folder: Path) -> None:
    """The second waits as long as it may, then says so."""
    other = EdgeStore(folder, timeout=0.2)
    told: list[str] = []
    with store.writing(MANIFEST), other.reporting(told.append):
        with pytest.raises(StoreBusy, match="another process"), other.writing(MANIFEST):
            pass
        assert told == [f"waiting for another process that writes into {folder}"]
    write_run(other, 2)
    other.close()
    assert version_of(store) == 2


def test_a_forked_process_opens_files_of_its_own(store: EdgeStore, folder: Path) -> None:
    """Threads and locks of the engine do not survive a fork."""
    assert end(start("fork", folder)) == "both\n"


def test_reading_changes_no_published_file(store: EdgeStore, folder: Path) -> None:
    """The engine opens files for writing even to read them; there must be nothing left for it to write."""
    before = contents(current(folder))
    for _ in range(2):
        reader = EdgeStore(folder)
        assert version_of(reader) == 1
        reader.close()
    assert contents(current(folder)) == before


def contents(folder: Path) -> dict[str, str]:
    """A digest of every file; of JSON, whatever the order of its keys."""
    files = (path for path in folder.rglob("*") if path.is_file())
    data = {path: json.loads(path.read_bytes()) if path.suffix == ".json" else path.read_bytes() for path in files}
    return {
        str(path.relative_to(folder)): hashlib.sha256(
            found if isinstance(found, bytes) else json.dumps(found, sort_keys=True).encode()
        ).hexdigest()
        for path, found in data.items()
    }


# -- disks --------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = None
    if os.geteuid() == 0 and shutil.which("mount"):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(place)], capture_output=True)
    if done is None or done.returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def big(number: int) -> Point:
    """A point of about 100 kB."""
    return Point(str(uuid.UUID(int=number + 10_000)), {"version": 1, "text": "word " * 20_000})


def test_a_full_disk_is_told_and_the_store_stays(small_disk: Path) -> None:
    """While the run is being written."""
    store = EdgeStore(small_disk / "course")
    write_run(store, 1)
    with pytest.raises(StoreError, match="disk is full"), store.writing(MANIFEST) as writer:
        writer.upsert("chunks", (big(i) for i in range(1000)))
    assert version_of(store) == 1
    assert generations(small_disk / "course") == [current(small_disk / "course")]
    write_run(store, 2)
    assert version_of(store) == 2
    store.close()


@pytest.mark.parametrize("left", [0, 200_000, 2_000_000, 7_000_000])
def test_a_disk_that_is_full_before(small_disk: Path, left: int) -> None:
    """Reading goes on; writing is refused where there is no room, and never ends in between."""
    store = EdgeStore(small_disk / "course")
    write_run(store, 1)
    store.close()
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"x" * (free - left))
    store = EdgeStore(small_disk / "course")
    assert version_of(store) == 1
    with pytest.raises(StoreError, match="disk is full"):
        write_run(store, 2)
    assert version_of(store) == 1
    store.close()
    (small_disk / "filler").unlink()
    again = EdgeStore(small_disk / "course")
    write_run(again, 2)
    assert version_of(again) == 2
    again.close()


@pytest.fixture
def write_protected(tmp_path: Path) -> Iterator[Path]:
    """A store that cannot be written to: on a read-only disk for root, whom permissions do not stop."""
    place = tmp_path / "archive"
    place.mkdir()
    root = os.geteuid() == 0
    if root:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], capture_output=True)
        if done.returncode:
            pytest.skip("root cannot mount here")
    store = EdgeStore(place / "course")
    write_run(store, 1)
    store.close()
    if root:
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    else:
        subprocess.run(["chmod", "-R", "a-w", str(place)], check=True)
    yield place / "course"
    if root:
        subprocess.run(["umount", "-l", str(place)], check=True)
    else:
        subprocess.run(["chmod", "-R", "u+w", str(place)], check=True)


def test_a_store_on_a_read_only_disk_can_be_read(write_protected: Path) -> None:
    """Writing says what is wrong."""
    store = EdgeStore(write_protected)
    assert version_of(store) == 1
    with pytest.raises(StoreError, match="cannot be written to"):
        write_run(store, 2)
    assert version_of(store) == 1
    store.close()


# -- files that are not ours ----------------------------------------------------------------------------


def refused(folder: Path, kind: type[StoreError], message: str) -> None:
    """Opening is refused with this error, which says what to do."""
    store = EdgeStore(folder)
    with pytest.raises(kind, match=message) as caught:
        version_of(store)
    assert caught.value.where
    assert caught.value.hint
    store.close()


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", f'{{"format": {FORMAT}, "generation": "../../etc"}}'])
def test_a_damaged_pointer(store: EdgeStore, folder: Path, text: str) -> None:
    """It is not taken for an empty store."""
    (folder / "current").write_text(text)
    refused(folder, StoreDamaged, "does not name a generation")


def test_a_missing_pointer(store: EdgeStore, folder: Path) -> None:
    """That is not a store in which nothing was ever stored."""
    (folder / "current").unlink()
    refused(folder, StoreDamaged, "is missing")
    with pytest.raises(StoreDamaged):
        write_run(EdgeStore(folder), 2)


def test_a_missing_generation(store: EdgeStore, folder: Path) -> None:
    """Somebody removed it."""
    shutil.rmtree(current(folder))
    refused(folder, StoreDamaged, "is missing")


@pytest.mark.parametrize("name", ["manifest.json", "files.json"])
def test_a_damaged_manifest(store: EdgeStore, folder: Path, name: str) -> None:
    """Neither is guessed."""
    (current(folder) / name).write_text('{"encoding": "hybrid"}' if name == "manifest.json" else "[1]")
    refused(folder, StoreDamaged, "size is wrong" if name == "manifest.json" else "was changed")


@pytest.mark.parametrize("pattern", ["page_0.dat", "mutable_id_tracker.mappings"])
@pytest.mark.parametrize("damage", ["cut off", "removed"])
def test_files_that_were_cut_off_or_removed(store: EdgeStore, folder: Path, pattern: str, damage: str) -> None:
    """The engine would take what is left for all there was."""
    file = next((current(folder) / "chunks").rglob(pattern))
    if damage == "removed":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size // 2)
    refused(folder, StoreDamaged, "missing" if damage == "removed" else "size is wrong")


@pytest.mark.parametrize("name", ["segment.json", "page_0.dat", "flags_a.dat", "manifest.json"])
def test_files_with_other_content(store: EdgeStore, folder: Path, name: str) -> None:
    """One bit, in whatever file: the check reads them all; opening looks at names and sizes only."""
    flip_one_bit(next(current(folder).rglob(name)))
    with pytest.raises(StoreDamaged, match=r"not what was written|was not written"):
        EdgeStore(folder).check()


def flip_one_bit(path: Path) -> None:
    """The lowest bit of a byte in the first page, without changing the file's size."""
    with path.open("r+b") as file:
        file.seek(60)
        byte = file.read(1)
        file.seek(60)
        file.write(bytes([byte[0] ^ 1]))


def test_a_file_that_is_none_of_the_store(store: EdgeStore, folder: Path) -> None:
    """The engine would open a segment that somebody put there."""
    segment = next((current(folder) / "chunks" / "segments").iterdir())
    copy_folder(segment, segment.with_name(str(uuid.UUID(int=5))))
    refused(folder, StoreDamaged, "does not belong to the store")


def test_damage_is_not_copied_into_a_new_generation(store: EdgeStore, folder: Path) -> None:
    """Nor is it by a reader that has long opened the store: there it would get a checksum of its own."""
    assert version_of(store) == 1
    flip_one_bit(next((current(folder) / "documents").rglob("page_0.dat")))
    before = current(folder)
    with pytest.raises(StoreDamaged, match="not what was written"):
        write_run(store, 2)
    with pytest.raises(StoreDamaged, match="not what was written"):
        store.check()
    assert generations(folder) == [before]


def test_files_that_generations_share_are_never_written(folder: Path) -> None:
    """The next generation has links to the large files that the engine only reads; the one before stays as it was."""
    store, chance = EdgeStore(folder), random.Random(4)

    def points(ids: Iterable[int]) -> list[Point]:
        made = ([chance.random() for _ in range(256)] for _ in ids)
        return [
            Point(str(uuid.UUID(int=id)), {"text": "x" * chance.randrange(900)}, {"dense": vector})
            for id, vector in zip(ids, made, strict=True)
        ]

    with store.writing(Manifest("content", "test", 256)) as writer:
        writer.upsert("chunks", points(range(3000)))
    with store.view() as before:
        first = before.generation
    assert first
    for run in range(2):
        with store.writing(Manifest("content", "test", 256)) as writer:
            writer.upsert("chunks", points(range(50 * run, 3050, 150)))
            writer.set_payload("chunks", {point.id: point.payload for point in points(range(7, 3000, 100))})
            writer.delete("chunks", [point.id for point in points(range(run, 3000, 200))])
    assert any(path.stat().st_nlink > 1 for path in current(folder).rglob("matrix.dat"))
    check_files(first.path, first.checksum, whole=True)
    assert store.check()
    store.close()


def test_a_damaged_store_is_made_anew_without_being_opened(store: EdgeStore, folder: Path) -> None:
    """Whatever is left of it; who has it open keeps it."""
    (folder / "current").write_text("nonsense")
    for path in (current_before := next((folder / "generations").iterdir())).rglob("*.json"):
        path.write_bytes(b"x")
    assert store.records() == []
    with store.writing(MANIFEST, anew=True) as writer:
        writer.upsert("chunks", [])
    assert store.check()
    assert store.count("chunks") == 0
    assert current_before not in generations(folder)


def test_a_store_with_two_dense_vectors_is_read_in_place(folder: Path) -> None:
    """The engine writes its configuration anew when it opens one, in any order: that is no damage."""
    manifest = Manifest("multivector", "test", 4)
    with EdgeStore(folder).writing(manifest) as writer:
        writer.upsert("chunks", [Point(str(uuid.UUID(int=1)), {}, {"multi": [(1.0, 0.0, 0.0, 0.0)]})])
    for _ in range(3):
        reader = EdgeStore(folder)
        assert reader.check()
        assert reader.count("chunks") == 1
        reader.close()
    flip_one_bit(current(folder) / "chunks" / "edge_config.json")
    with pytest.raises(StoreDamaged, match="not what was written"):
        EdgeStore(folder).check()


def test_a_copy_without_holes_is_the_same_store(store: EdgeStore, folder: Path, tmp_path: Path) -> None:
    """As a program makes it that knows none: zeros are zeros."""
    shutil.copytree(folder, tmp_path / "copy")
    for path in (path for path in (tmp_path / "copy").rglob("*") if path.is_file()):
        path.write_bytes(path.read_bytes())
    copy = EdgeStore(tmp_path / "copy")
    assert copy.check()
    assert version_of(copy) == 1
    copy.close()


@pytest.mark.parametrize(("number", "hint"), [(FORMAT + 1, "update lmm"), (FORMAT - 1, "lmm ingest rebuilds it")])
def test_a_store_of_another_version(store: EdgeStore, folder: Path, number: int, hint: str) -> None:
    """Neither read nor written."""
    pointer = json.loads((folder / "current").read_text())
    pointer = {key: pointer[key] for key in ("generation", "files")} | {"format": number}
    (folder / "current").write_text(json.dumps(pointer | {"checksum": checksum_of(pointer)}))
    refused(folder, StoreMismatch, hint)
    other = EdgeStore(folder)
    with pytest.raises(StoreMismatch, match=hint):
        write_run(other, 2)
