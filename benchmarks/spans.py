"""How fast what stands inside a text is found, next to markdown-it-py."""

from __future__ import annotations

from markdown_it import MarkdownIt

from benchmarks.documents import real_files
from benchmarks.measure import Row, best, show
from lmm.disk.files import read_document
from lmm.markdown import spans

LEAST_RATIO = 2


def rows() -> list[Row]:
    """The spans of real files; markdown-it-py parses the same, tables included."""
    texts = [read_document(path) for path in real_files("corpus")]
    what = f"spans of {len(texts)} real files (corpus)"
    if not texts:
        return [Row(what, "skipped: the folder is not there")]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    parse = MarkdownIt("commonmark").enable("table").parse
    ours = megabytes / best(lambda: [spans(text) for text in texts], 3)
    peer = megabytes / best(lambda: [parse(text) for text in texts], 2, warm_up=0)
    ratio = ours / peer
    return [
        Row(
            what,
            f"markdown-it-py {peer:.1f} MB/s",
            f"{ours:.0f} MB/s",
            f"{ratio:.1f} ×",
            f"≥ {LEAST_RATIO} ×",
            ratio >= LEAST_RATIO,
        )
    ]


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
