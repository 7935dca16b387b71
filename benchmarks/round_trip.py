"""How many real files come back byte for byte from blocks, and from the tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.documents import FOLDERS, installed_files, real_files
from benchmarks.measure import Row, show
from lmm.markdown import blocks_to_tree, parse_markdown_text, serialize, tree_to_blocks


@dataclass(frozen=True, slots=True)
class Count:
    """How many texts passed, and how many raised."""

    exact: int
    raised: int
    total: int

    @property
    def share(self) -> str:
        """In per cent, never rounded up to 100."""
        return "100 %" if self.exact == self.total else f"{int(1000 * self.exact / self.total) / 10} %"


def rows() -> list[Row]:
    """Round trip, exceptions, and whether the tree is an exact inverse."""
    paths = [*(path for folder in FOLDERS for path in real_files(folder)), *installed_files()]
    texts = [text for path in paths if (text := _text(path)) is not None]
    if not texts:
        return [Row("byte-exact round trip", "skipped: no markdown file was found")]
    ours, inverse, peer = (count(texts, check) for check in (round_trips, tree_is_inverse, split_and_joined))
    raised = ours.raised + inverse.raised
    return [
        Row(
            f"byte-exact round trip of {ours.total:,} real files",
            f"split at blank lines and joined: {peer.share}",
            ours.share,
            f"{ours.exact / max(1, peer.exact):.1f} ×",
            "100 %",
            ours.exact == ours.total,
        ),
        Row("exceptions on the same files", f"{peer.raised}", f"{raised}", "", "0", raised == 0),
        Row("tree and back gives equal blocks", "", inverse.share, "", "100 %", inverse.exact == inverse.total),
    ]


def count(texts: list[str], check: Callable[[str], bool]) -> Count:
    """How many texts pass `check`."""
    exact = raised = 0
    for text in texts:
        try:
            exact += check(text)
        except Exception:  # whatever it is, it is what we count
            raised += 1
    return Count(exact, raised, len(texts))


def round_trips(text: str) -> bool:
    """Whether the blocks, joined, are the text."""
    return serialize(parse_markdown_text(text)) == text


def tree_is_inverse(text: str) -> bool:
    """Whether the tree's blocks are the blocks it was built from."""
    blocks = parse_markdown_text(text)
    return tree_to_blocks(blocks_to_tree(blocks)) == blocks


def split_and_joined(text: str) -> bool:
    """The peer: paragraphs without their surroundings, written with one blank line between them."""
    return "\n\n".join(part for part in re.split(r"\n(?:[ \t]*\n)+", text) if part).rstrip("\n") + "\n" == text


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None  # not a document we claim to read


def main() -> None:
    """Count and print."""
    show(rows())


if __name__ == "__main__":
    main()
