"""The cache of vectors: exact, bounded, shared between processes, and never in the way."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmm_education.encode.encoder import VectorCache
from lmm_education.encode.text_encoder import Vector, to_vector


def some(start: int, count: int, size: int = 8) -> dict[str, Vector]:
    """Vectors under keys of their own."""
    return {str(n): to_vector([n, *[0.5] * (size - 1)]) for n in range(start, start + count)}


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    """An empty one."""
    return VectorCache(tmp_path / "deep" / "vectors.sqlite3")


def test_what_was_put_is_got_exactly(cache: VectorCache) -> None:
    """Every bit, in any number; what is not known is left out."""
    vectors = some(0, 1200) | {"odd": to_vector([1e-45, -0.0, 3.4e38])}
    cache.put(vectors)
    found = VectorCache(cache.file).get([*vectors, "unknown"])
    assert {key: v.tobytes() for key, v in found.items()} == {key: v.tobytes() for key, v in vectors.items()}
    assert cache.get([]) == {}


def test_only_the_user_may_read_it(cache: VectorCache) -> None:
    """A vector tells something of its text."""
    cache.put(some(0, 1))
    assert cache.file.stat().st_mode & 0o077 == 0


def test_what_would_be_too_large_begins_anew(tmp_path: Path) -> None:
    """The file keeps to its limit, and what was put last is there."""
    cache = VectorCache(tmp_path / "v.sqlite3", limit=400_000)
    for n in range(20):
        vectors = some(n * 20, 20, 1000)
        cache.put(vectors)
        assert cache.get(list(vectors)) == vectors
    assert cache.get(list(some(0, 20))) == {}
    assert cache.file.stat().st_size < 600_000


@pytest.mark.parametrize("how", ["noise", "text", "cut", "zeros", "empty table"])
def test_a_damaged_file_is_begun_anew(cache: VectorCache, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """That is said once, and who comes next goes on with a new file."""
    cache.put(some(0, 2000))
    data = cache.file.read_bytes()
    if how == "empty table":  # a vector that is not whole floats
        connection = sqlite3.connect(cache.file)
        connection.execute("UPDATE vectors SET vector = x'0102'")
        connection.commit()
        connection.close()
    else:
        damaged = {
            "noise": data[:4096] + bytes(range(256)) * (len(data) // 256 - 16),
            "text": b"not a database\n" * 100,
            "cut": data[: len(data) // 2 + 100],
            "zeros": b"\0" * len(data),
        }
        cache.file.write_bytes(damaged[how])
    with caplog.at_level(logging.WARNING):
        VectorCache(cache.file).get(list(some(0, 2000)))
        again = VectorCache(cache.file)
        again.put(some(0, 10))
    assert len(again.get(list(some(0, 10)))) == 10
    assert sum("vectors" in record.message for record in caplog.records) <= 1


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The program goes on without the cache, and says so once."""
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    cache = VectorCache(blocked / "vectors.sqlite3")
    with caplog.at_level(logging.WARNING):
        cache.put(some(0, 1))
        assert cache.get(list(some(0, 1))) == {}
        cache.put(some(0, 1))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not cached" in caplog.text


def test_a_file_that_is_removed_meanwhile(cache: VectorCache) -> None:
    """Emptying the cache folder while a program runs costs nothing but the vectors."""
    cache.put(some(0, 5))
    for path in cache.file.parent.iterdir():
        path.unlink()
    assert cache.get(list(some(0, 5))) == {}
    cache.put(some(0, 5))
    assert len(cache.get(list(some(0, 5)))) == 5


def test_threads_share_one(cache: VectorCache) -> None:
    """Reading and writing at once from several threads."""

    def put_and_get(n: int) -> int:
        cache.put(some(n * 20, 20))
        return len(cache.get(list(some(n * 20, 20))))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(put_and_get, range(10))) == [20] * 10
    assert len(cache.get(list(some(0, 200)))) == 200


def test_processes_share_one(cache: VectorCache) -> None:
    """Several begin at once, without the file, write the same and other vectors, and none is lost or told of."""
    script = (
        "import sys; from pathlib import Path\n"
        "from lmm_education.encode.text_encoder import to_vector\n"
        "from lmm_education.encode.encoder import VectorCache\n"
        "cache, me = VectorCache(Path(sys.argv[1])), int(sys.argv[2])\n"
        "for n in range(30):\n"
        "    for place in (n, 1000 * me + n):\n"
        "        cache.put({str(place): to_vector([place, *[0.5] * 7])})\n"
        "        assert str(place) in cache.get([str(place)])\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(cache.file), str(n)], stderr=subprocess.PIPE, text=True)
        for n in (1, 2, 3, 4)
    ]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in running] == [("", 0)] * 4
    expected = some(0, 30) | some(1000, 30) | some(2000, 30) | some(3000, 30) | some(4000, 30)
    assert cache.get(list(expected)) == expected
