"""How fast documents are parsed and serialized, next to markdown-it-py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt

from benchmarks.documents import FOLDERS, large_document, real_files
from benchmarks.measure import Row, best, show
from lmm.disk.files import read_document
from lmm.markdown import parse_markdown_text, serialize

LEAST_RATIO = 15


def rows() -> list[Row]:
    """Real files (the corpus by itself too: much of `eval` is plain prose), then a document full of metadata."""
    texts = {folder: [read_document(path) for path in real_files(folder)] for folder in FOLDERS}
    both = [text for folder in FOLDERS for text in texts[folder]]
    return [
        measured(f"parse and serialize {len(both)} real files (corpus, eval)", both, target=60),
        measured(f"the same, corpus alone ({len(texts['corpus'])} files)", texts["corpus"], target=60),
        measured("the same, one document of 5 MB with 3,000 metadata blocks", [large_document()], target=40),
    ]


def measured(what: str, texts: Sequence[str], *, target: float) -> Row:
    """Megabytes of UTF-8 per second; `target` is in those, and the peer must be `LEAST_RATIO` times slower."""
    if not texts:
        return Row(what, "skipped: the folder is not there")
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    ours = megabytes / best(lambda: [serialize(parse_markdown_text(text)) for text in texts], 15)
    peer = megabytes / best(_each(MarkdownIt("commonmark").parse, texts), 2, warm_up=0)
    return Row(
        what,
        f"markdown-it-py {peer:.1f} MB/s",
        f"{ours:.0f} MB/s",
        f"{ours / peer:.0f} ×",
        f"≥ {target:g} MB/s, ≥ {LEAST_RATIO} ×",
        ours >= target and ours / peer >= LEAST_RATIO,
    )


def _each(function: Callable[[str], object], texts: Sequence[str]) -> Callable[[], object]:
    """A call of `function` on one text after the other; results are dropped, as a pipeline would."""

    def run() -> None:
        for text in texts:
            function(text)

    return run


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
