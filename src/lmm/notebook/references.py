"""Find citations that no bibliography has, in replies and texts. Pure: `lmm.bibliography` reads the files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lmm.errors import Finding
from lmm.markdown.blocks import Block, MetadataBlock, TextBlock, serialize
from lmm.markdown.spans import spans
from lmm.notebook.chat_log import logged_line, read_log
from lmm.notebook.edits import find_edits

# Quarto's and bookdown's references within a document.
_CROSS = re.compile(
    r"(?:fig|tbl|tab|sec|eq|lst|thm|lem|cor|prp|cnj|def|exm|exr|sol|rem|alg|nte|tip|wrn|imp|cau|vid|dia|suppfig)[-:]",
    re.IGNORECASE,
)
_LABEL = re.compile(r"\(@([\w-]+)\)|#([\w:.-]+)")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_HINT = "models invent references: correct it, or add it to the bibliography"


def unknown_references(text: str, known: frozenset[str] | None, *, around: str = "") -> list[str]:
    """Return the keys that a text cites and that are not `known`; what the text `around` it cites is the author's.

    Cross-references, labels and addresses are none. Where there is no bibliography, a name without brackets is a
    citation only if it contains a year.

    >>> unknown_references("See [@darwin1859; @fox] and @fig-x, @ann, a@b.org, `@code`.", frozenset({"darwin1859"}))
    ['fox', 'ann']
    """
    if known is None or "@" not in text:
        return []
    labels = {name or other for name, other in _LABEL.findall(f"{text}\n{around}")}
    cited = [key for key in _cited(text, alone=bool(known)) if key not in known | labels and not _CROSS.match(key)]
    own = set(_cited(around, alone=True)) if cited and "@" in around else set[str]()
    return [key for key in dict.fromkeys(cited) if key not in own]


def _cited(text: str, *, alone: bool) -> Iterator[str]:
    """Iterate over the keys that a text cites; without brackets or a year only if they may stand `alone`, and are not
    the name of an account whose address is there."""
    for span in spans(text):
        for key in span.target.split(";") if span.kind == "citation" else ():
            if span.text.startswith("[") or _YEAR.search(key) or (alone and f"/{key}" not in text):
                yield key


def citation_warning(keys: Iterable[str]) -> str:
    """Return the warning about citations of what no bibliography has; empty if there are none."""
    names = ", ".join(f"@{key}" for key in keys)
    return f"it cites what is in no bibliography: {names}" if names else ""


def find_unknown_references(blocks: Sequence[Block], known: frozenset[str] | None) -> Iterator[Finding]:
    """Iterate over warnings about citations that are not `known`: in replies, new texts, and, if there is a
    bibliography, in all of the text."""
    new = {id(block) for edit in find_edits(blocks) for block in edit.new}
    whole = serialize(blocks)
    for block in blocks:
        found = list[tuple[int, str]]()
        if isinstance(block, MetadataBlock):
            found = [(block.line + logged_line(block, one), one.reply) for one in read_log(block.values())]
        elif isinstance(block, TextBlock) and (known or id(block) in new):
            found = [(block.line, block.content)]
        for line, text in found:
            keys = unknown_references(text, known)
            if keys and (warning := citation_warning(key for key in keys if f"#{key}" not in whole)):
                yield Finding(line, 1, warning, _HINT, "warning")
