"""Change one metadata key in a large document and save it, next to reading and dumping all its YAML."""

from __future__ import annotations

import itertools
import re
import tempfile
from pathlib import Path

import yaml

from benchmarks.documents import large_document
from benchmarks.measure import Row, best, seconds, show
from lmm.markdown import (
    HeadingBlock,
    HeadingNode,
    MetadataBlock,
    load_markdown,
    load_tree,
    parse_markdown_text,
    save_markdown,
    save_tree,
    serialize,
)
from lmm.markdown.tree import preorder

TITLE_END = " 1500"  # the section that is edited, in the middle of the document
KEY = "reviewed"
LIMIT = 0.1

_METADATA = re.compile(r"^---\n(.*?\n)---\n", re.MULTILINE | re.DOTALL)


def rows() -> list[Row]:
    """Load, parse, tree, set, serialize, save in one step and flushed to the disk."""
    text = large_document()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "course.md")
        path.write_text(text, encoding="utf-8", newline="")
        values = itertools.count()
        ours = best(lambda: edit(path, next(values)), 15)
        check(text, path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8", newline="")
        on_blocks = best(lambda: edit_block(path, next(values)), 15)
        check(text, path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8", newline="")
        peer = best(lambda: rewrite_all(path), 2, warm_up=0)
    return [
        Row(
            f"change one key in {len(text.encode()) / 1e6:.1f} MB and save",
            f"PyYAML (libyaml) loads and dumps every block, plain write: {seconds(peer)}",
            seconds(ours),
            f"{peer / ours:.1f} ×",
            f"≤ {seconds(LIMIT)}",
            ours <= LIMIT,
        ),
        Row(
            "the same on the list of blocks, without a tree",
            f"as above: {seconds(peer)}",
            seconds(on_blocks),
            f"{peer / on_blocks:.1f} ×",
            f"≤ {seconds(LIMIT)}",
            on_blocks <= LIMIT,
        ),
    ]


def edit(path: Path, value: int) -> None:
    """Set `KEY` on one section."""
    tree = load_tree(path)
    headings = (node for node in preorder(tree) if isinstance(node, HeadingNode))
    node = next((node for node in headings if node.title.endswith(TITLE_END)), None)
    assert tree is not None
    assert node is not None
    node.set_metadata(KEY, value)
    save_tree(path, tree)


def edit_block(path: Path, value: int) -> None:
    """Set `KEY` in the metadata block before one heading."""
    blocks = parse_markdown_text(load_markdown(path) or "")
    for i, block in enumerate(blocks):
        if isinstance(block, HeadingBlock) and block.title.endswith(TITLE_END):
            before = blocks[i - 1]
            assert isinstance(before, MetadataBlock)
            blocks[i - 1] = before.with_key(KEY, value)
            break
    save_markdown(path, serialize(blocks))


def rewrite_all(path: Path) -> None:
    """The peer, as front matter libraries do it: values out, values in, all of them written anew."""
    text = path.read_text(encoding="utf-8")
    number = 0

    def again(match: re.Match[str]) -> str:
        nonlocal number
        number += 1
        values = yaml.load(match[1], yaml.CSafeLoader)
        if number == 1501:
            values[KEY] = 1
        return f"---\n{yaml.dump(values, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False)}---\n"

    path.write_text(_METADATA.sub(again, text), encoding="utf-8")


def check(before: str, after: str) -> None:
    """One line more, and not one other byte."""
    assert after != before
    assert re.sub(rf"^{KEY}: [0-9]+\n", "", after, count=1, flags=re.MULTILINE) == before


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()
