"""What documents include: files and their lines in an mdBook, Quarto's ``{{< include a.qmd >}}``, knitr's ``child``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from lmm.book_project import text_in
from lmm.markdown import Span, spans
from lmm.markdown.blocks import HeaderBlock, HeadingBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm_education.books.code_cells import environments, read_cell

_MOST_INCLUDED = 1_000_000  # bytes of a file
_INCLUSION = re.compile(r"\{\{#(?:rustdoc_)?include (?P<path>[^{}\s:]+)(?::(?P<lines>[^{}\s]+))?[ \t]*\}\}")
_DOCUMENTS = (".qmd", ".md", ".rmd", ".markdown")
_OF_READERS = frozenset({"type", "solution"})  # keys by which students do not see a text
_DEEPEST = 4  # documents in each other
_ANCHOR = re.compile(r"\bANCHOR(?:_END)?:\s*([\w-]+)")


def included(path: Path, text: str) -> Mapping[str, str]:
    """What readers see for each inclusion in a document at a path; nothing for a file that is not in the book's folder.

    That is the nearest folder above with a `book.toml`, else the document's own.
    """
    if "{{#" not in text:
        return {}
    top = next((folder for folder in path.parents if (folder / "book.toml").is_file()), path.parent)
    found = {match[0]: (match["path"], match["lines"] or "") for match in _INCLUSION.finditer(text)}
    shown: dict[str, str] = {}
    for written, (name, lines) in found.items():
        text = _read(top, path.parent / name)
        body = _body(name, text)
        shown[written] = lines_of(text if body and lines else body, lines)
    return {written: lines for written, lines in shown.items() if lines}


def included_documents(path: Path, text: str, top: Path, depth: int = 0) -> Mapping[str, str]:
    """The documents that one includes, by their names there: Quarto's ``{{< include a.qmd >}}``, knitr's ``child``.

    Only those below `top` that say nothing of who may see them: who includes one cannot tell it.
    """
    names = (
        {name for span in spans(text) for name in _included_by(span)} if "include" in text or "child" in text else ()
    )
    found: dict[str, str] = {}
    for name in sorted(names) if depth < _DEEPEST else ():
        inner = top / name.lstrip("/") if name.startswith("/") else path.parent / name
        inner = inner if inner.is_file() else top / name.lstrip("/")
        if name.lower().endswith(_DOCUMENTS) and (body := _body(name, _read(top, inner))):
            found[name] = body
            found = {**included_documents(inner, found[name], top, depth + 1), **found}
    return found


def _included_by(span: Span) -> list[str]:
    if span.kind == "shortcode" and span.target == "include":
        return [span.text.removeprefix("include").strip(" \"'")]
    cell = read_cell(span)
    return cell.children if cell is not None else []


def _body(name: str, text: str) -> str:
    """The text of a file; of a document what stands below its header, and nothing if metadata say who may see it, or a
    solution is in it."""
    if not name.lower().endswith(_DOCUMENTS):
        return text
    blocks = parse_markdown_text(text)
    shown = [
        block for block in blocks if not (isinstance(block, HeaderBlock) and _OF_READERS.isdisjoint(block.values()))
    ]
    texts = [block for block in shown if not isinstance(block, HeadingBlock)]
    plain = (isinstance(block, TextBlock) and "solution" not in environments(block.source) for block in texts)
    return serialize(shown) if all(plain) else ""


def _read(top: Path, path: Path) -> str:
    name = os.path.relpath(path, top)
    return "" if name.startswith("..") else text_in(top, name, most=_MOST_INCLUDED)


def lines_of(text: str, which: str) -> str:
    """All lines but those of anchors, or a line, a range of them, or those of an anchor.

    >>> code = "fn a() {}\\n// ANCHOR: b\\nfn b() {}\\n// ANCHOR_END: b\\nfn c() {}\\n"
    >>> lines_of(code, ""), lines_of(code, "b"), lines_of(code, "1"), lines_of(code, "4:"), lines_of(code, ":3")
    ('fn a() {}\\nfn b() {}\\nfn c() {}', 'fn b() {}', 'fn a() {}', 'fn c() {}', 'fn a() {}\\nfn b() {}')
    """
    lines = text.splitlines()
    first, colon, last = which.partition(":")
    if not re.fullmatch(r"[0-9]{0,9}(?::[0-9]{0,9})?", which):
        ends = [number for number, line in enumerate(lines) if (at := _ANCHOR.search(line)) and at[1] == which]
        lines = lines[ends[0] : ends[1] if len(ends) > 1 else None] if ends else []
    elif which:
        start = max(int(first or 1), 1)
        lines = lines[start - 1 : (int(last) if last else None) if colon else start]
    return "\n".join(line for line in lines if not _ANCHOR.search(line))
