"""The bibliographies of a document: the keys of all references that it may cite, from its header and its project."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lmm.book_project import text_in
from lmm.errors import LmmError
from lmm.markdown import yaml_core
from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text

_PROJECTS = ("_quarto.yml", "_quarto.yaml", "_bookdown.yml")
_LEVELS = 6  # folders in which the project's file is looked for
_ENTRY = re.compile(r"^[ \t]*@(?!comment|string|preamble)\w+\s*[{(]\s*([^\s,{}]+)", re.MULTILINE | re.IGNORECASE)


def known_references(path: Path | None, header: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the keys of all references that a document may cite: those of its header and of its project.

    None means that it is not known which exist, because a bibliography cannot be read.
    """
    here = path.absolute().parent if path is not None else None
    settings, top = [(here, header)], here
    for folder in [here, *here.parents][:_LEVELS] if here is not None else ():
        names = ("_metadata.yml", *_PROJECTS)
        settings += [(folder, _values(text_in(folder, name))) for name in names if (folder / name).is_file()]
        if any((folder / name).is_file() for name in _PROJECTS):
            index = parse_markdown_text(text_in(folder, "index.Rmd"))[:1]
            settings += [(folder, block.values()) for block in index if isinstance(block, MetadataBlock)]
            top = folder
            break
    found = set[str]()
    for base, values in settings:
        found |= _ids(values.get("references"))
        named = values.get("bibliography") or []
        for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            text = text_in(top, os.path.relpath(base / str(name), top)) if base and top else ""
            if not text.strip():
                return None
            found |= _keys(text, str(name))
    return frozenset(found)


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
