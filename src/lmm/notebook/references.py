"""References that exist: citations in replies and texts, compared with the bibliographies of a document's project."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lmm.disk.folder import Folder
from lmm.errors import Finding, LmmError
from lmm.markdown import yaml_core
from lmm.markdown.blocks import Block, MetadataBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.spans import spans
from lmm.notebook.chat_log import logged_line, read_log
from lmm.notebook.edits import find_edits

_PROJECTS = ("_quarto.yml", "_quarto.yaml", "_bookdown.yml")
_MOST = 5_000_000  # bytes of a bibliography
_LEVELS = 6  # folders in which the project's file is looked for
_ENTRY = re.compile(r"^[ \t]*@(?!comment|string|preamble)\w+\s*[{(]\s*([^\s,{}]+)", re.MULTILINE | re.IGNORECASE)
# Quarto's and bookdown's references within a document.
_CROSS = re.compile(
    r"(?:fig|tbl|tab|sec|eq|lst|thm|lem|cor|prp|cnj|def|exm|exr|sol|rem|alg|nte|tip|wrn|imp|cau|vid|dia|suppfig)[-:]"
)
_LABEL = re.compile(r"\(@([\w-]+)\)|#([\w:.-]+)")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_HINT = "models invent references: correct it, or add it to the bibliography"


def known_references(path: Path | None, header: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the keys of all references that a document may cite: those of its header and of its project.

    None means that it is not known which exist, because a bibliography cannot be read.
    """
    here = path.absolute().parent if path is not None else None
    settings, top = [(here, header)], here
    for folder in [here, *here.parents][:_LEVELS] if here is not None else ():
        names = ("_metadata.yml", *_PROJECTS)
        settings += [(folder, _values(_text_in(folder, name))) for name in names if (folder / name).is_file()]
        if any((folder / name).is_file() for name in _PROJECTS):
            index = parse_markdown_text(_text_in(folder, "index.Rmd"))[:1]
            settings += [(folder, block.values()) for block in index if isinstance(block, MetadataBlock)]
            top = folder
            break
    found = set[str]()
    for base, values in settings:
        found |= _ids(values.get("references"))
        named = values.get("bibliography") or []
        for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            text = _text_in(top, os.path.relpath(base / str(name), top)) if base and top else ""
            if not text.strip():
                return None
            found |= _keys(text, str(name))
    return frozenset(found)


def _text_in(folder: Path, name: str) -> str:
    """Return the text of a file; empty if it cannot be read, or is a link out of the folder."""
    with suppress(LmmError):
        return Folder(folder).read(name, most=_MOST).decode("utf-8", "replace")
    return ""


def _values(text: str) -> Mapping[str, Any]:
    with suppress(LmmError, RecursionError):
        values = yaml_core.to_value(yaml_core.compose(text))
        return values if isinstance(values, dict) else {}
    return {}


def _keys(text: str, name: str) -> set[str]:
    """Return the keys in a bibliography: BibTeX, or CSL as JSON or YAML."""
    if name.endswith(".json"):
        with suppress(ValueError, RecursionError):
            return _ids(json.loads(text))
    return set(_ENTRY.findall(text)) if name.endswith(".bib") else _ids(_values(text).get("references"))


def _ids(references: Any) -> set[str]:
    items = references if isinstance(references, list) else []
    return {str(one["id"]) for one in items if isinstance(one, dict) and "id" in one}


def unknown_references(text: str, known: frozenset[str] | None, *, beside: str = "") -> list[str]:
    """Return the keys that a text cites and that are not `known`; what the text `beside` it cites is the author's.

    Cross-references, labels and addresses are none. A name without brackets is a citation if it contains a year.

    >>> unknown_references("See [@darwin1859; @fox] and @fig-x, @ann, a@b.org, `@code`.", frozenset({"darwin1859"}))
    ['fox']
    """
    if known is None or "@" not in text:
        return []
    labels = {name or other for name, other in _LABEL.findall(f"{text}\n{beside}")}
    cited = [key for key in _cited(text) if key not in known and key not in labels and not _CROSS.match(key)]
    own = set(_cited(beside)) if cited and "@" in beside else set[str]()
    return [key for key in dict.fromkeys(cited) if key not in own]


def _cited(text: str) -> Iterator[str]:
    for span in spans(text):
        if span.kind == "citation":
            yield from (key for key in span.target.split(";") if span.text.startswith("[") or _YEAR.search(key))


def citation_warning(keys: Iterable[str]) -> str:
    """Return the warning about citations of what no bibliography has; empty if there are none."""
    shown = ", ".join(f"@{key}" for key in keys)
    return f"it cites what is in no bibliography: {shown}" if shown else ""


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
