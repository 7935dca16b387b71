"""Real chapters: with metadata put in wherever it may stand, Pandoc reads them as without.

The documents are each tenth of ``../shared/corpus``, and those of a folder that `LMM_TEST_BOOKS` names (checkouts of
books: r4ds, moderndive_book, dsbook, quarto-web were tried); without either there is nothing to test. Pandoc from the
path, and the one that the extra `import` brings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from pandoc_trees import trees

from lmm.disk.folder import Folder
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import Block, HeadingBlock, TextBlock
from lmm.markdown.units import div_ends, misread_as_captions, texts_of, unit_ends

META = "---\n~summary_: A summary.\n---\n"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "corpus"
SUFFIXES = (".md", ".qmd", ".rmd")
AT_ONCE = 40  # documents for one process


def chapters(folders: Iterable[Path]) -> list[Path]:
    """The documents of folders."""
    found = [path for folder in folders for path in sorted(Folder(folder).documents())]
    return [path for path in found if path.is_file() and "node_modules" not in path.parts]


def handed_over(text: str) -> str:
    """A text as knitr and Quarto hand it to Pandoc, to which `{r}` begins no code, and `{{r}}` neither."""
    text = re.sub(r"(?m)^([ \t>]*`{3,})[ \t]*\{\{+(\w+)[^\n]*\}\}+[ \t]*$", r"\1\2", text)
    return re.sub(r"(?m)^([ \t>]*`{3,})[ \t]*\{([A-Za-z]\w*)\b[^\n]*$", r"\1\2", text)


def places(blocks: Sequence[Block]) -> list[int]:
    """Where metadata may stand: before a heading, and before a text, list, table or div that is in no other."""
    texts, at, found = texts_of(blocks), 0, []
    ends, divs, captions = (
        unit_ends(texts),
        div_ends(texts),
        misread_as_captions(texts),
    )  # after these, `lmm scan` warns
    for position, block in enumerate(blocks):
        is_text = isinstance(block, TextBlock) and position >= at and position not in divs.values()
        if is_text and position not in divs:
            at = ends[position]
        after_text = position == 0 or isinstance(blocks[position - 1], TextBlock | HeadingBlock)
        if (is_text or isinstance(block, HeadingBlock)) and after_text and position - 1 not in captions:
            found.append(position)
    return found


def with_metadata(blocks: Sequence[Block], chosen: Iterable[int]) -> str:
    """The document with metadata at some places, after a blank line."""
    parts, before, at = [], "\n\n", set(chosen)
    for position, block in enumerate(blocks):
        if position in at:
            parts.append(META if re.search(r"\n[ \t]*\r?\n\Z", before) else f"\n{META}")
        parts.append(block.source)
        before = block.source
    return "".join(parts)


def check(paths: Sequence[Path], program: str) -> None:
    """Say which places in which files Pandoc reads otherwise.

    Raises:
        AssertionError: there are any.
    """
    read = [parse_markdown_text(handed_over(path.read_bytes().decode("utf-8", "replace"))) for path in paths]
    told = []
    for first in range(0, len(read), AT_ONCE):
        group = list(zip(paths, read, strict=True))[first : first + AT_ONCE]
        texts = [
            text for _, blocks in group for text in (with_metadata(blocks, []), with_metadata(blocks, places(blocks)))
        ]
        found = trees([text.replace("\0", "") for text in texts], program)
        for number, (path, blocks) in enumerate(group):
            if found[2 * number] != found[2 * number + 1]:
                single = trees([with_metadata(blocks, [place]) for place in places(blocks)], program)
                lines = [
                    blocks[at].line
                    for at, tree in zip(places(blocks), single, strict=True)
                    if tree != found[2 * number]
                ]
                told.append(f"{path}: metadata before the lines {lines}")
    assert not told, "\n".join(told)


def newest() -> str:
    """The Pandoc that the extra `import` brings; skips the test where it is not installed."""
    found = find_spec("pypandoc")
    program = Path(found.origin).parent / "files" / "pandoc" if found and found.origin else None
    if program is None or not program.exists():
        pytest.skip("the extra import is not installed")
    return str(program)


@pytest.mark.timeout(1200)  # for the books of a whole shelf
@pytest.mark.parametrize("which", ["path", "newest"])
@pytest.mark.parametrize("of", ["corpus", "LMM_TEST_BOOKS"])
def test_pandoc_reads_a_chapter_with_metadata_as_without(of: str, which: str) -> None:
    """At every heading, text, list, table, div."""
    folder = SHARED if of == "corpus" else Path(os.environ.get("LMM_TEST_BOOKS", ""))
    if not (of == "corpus" or os.environ.get("LMM_TEST_BOOKS")) or not folder.is_dir():
        pytest.skip(f"there are no documents: {of}")
    check(chapters([folder])[:: 10 if of == "corpus" else 1], "pandoc" if which == "path" else newest())


REDUCED = {
    "a comment in a paragraph, blanks after it (ModernDive, appendix D)": "a\n<!--\nTODO\n--> \n# no heading\n\na\n",
    "a comment that stands for itself": "<!-- a -->\n# A\n\n<!-- a\n\nb --> <!-- c -->\n# B\n\na\n",
    "an equation": "$$\nx\n$$\n# no heading\n\na\n",
    "tabs in the item of a list (quarto-web)": "- a\n\n  ::: a\n\n  ## A\n\n  a\n\n  ## B\n\n  b\n\n  :::\n\n- c\n",
    "a heading in an item": "1. one\n\n   ## A\n\n   a\n\n2. two\n",
    "a list in an item, and more of the item (a licence)": "b. one\n\n   1. a\n\n   2. b\n\n   more\n\nc. two\n\na\n",
    "code that shows its fence (quarto-web)": "````\n```{{r}}\n1\n```\n````\n\n```{{r}}\n# x\n```\n\n## A\n\na\n",
    "a div that is shown as code (quarto-web)": "    ::: a\n\n    ## A\n\n    a\n\n    :::\n\na\n",
}  # fmt: skip
BEGINS = (
    "\n\n- a\n\n- b\n\n- c\n\na\n",
    "\n| a |\n|---|\n| 1 |\n\n: A caption\n\na\n",
)  # after blank lines (quarto-web)


@pytest.mark.parametrize("which", ["path", "newest"])
def test_what_was_read_otherwise(which: str, tmp_path: Path) -> None:
    """What the chapters brought to light, in short."""
    program = "pandoc" if which == "path" else newest()
    texts = [*(f"Start.\n\n{text}" for text in REDUCED.values()), *BEGINS]
    paths = [tmp_path / f"{number}.md" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    check(paths, program)
