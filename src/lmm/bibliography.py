"""Bibliographies: which references a document may cite, by its header and its project, and what they are called."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lmm.book_project import text_in
from lmm.errors import LmmError
from lmm.markdown import yaml_core
from lmm.markdown.blocks import MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text

_PROJECTS = ("_quarto.yml", "_quarto.yaml", "_bookdown.yml")
_LEVELS = 6  # folders in which the project's file is looked for
Citations = Mapping[str, tuple[str, str]]
_ENTRY = re.compile(r"@(?P<kind>\w+)\s*[{(]\s*(?P<key>[^\s,{}()]+)\s*[,})]")
_FIELD = re.compile(r"(?<![\w-])(?P<name>[A-Za-z][\w-]*+)\s*+=\s*+")
_ACCENT = re.compile(r"""\\(["'`^~=.uvHcdbtr])\s*\{?\\?([A-Za-z])\}?""")
_ACCENTS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "r": "\u030a",
}  # fmt: skip
_PARTICLES = ("van", "von", "de", "der", "den", "la")
_SPECIAL = {r"\ss": "ß", r"\o": "ø", r"\O": "Ø", r"\ae": "æ", r"\aa": "å", r"\l": "ł", r"\&": "&", "~": " "}


def known_references(path: Path | None, header: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the keys of all references that a document may cite: those of its header and of its project.

    None means that it is not known which exist, because a bibliography cannot be read.
    """
    own_folder = path.absolute().parent if path is not None else None
    settings, top = [(own_folder, header)], own_folder
    for folder in [own_folder, *own_folder.parents][:_LEVELS] if own_folder is not None else ():
        names = ("_metadata.yml", *_PROJECTS)
        settings += [(folder, _values(text_in(folder, name))) for name in names if (folder / name).is_file()]
        if any((folder / name).is_file() for name in _PROJECTS):
            index = parse_markdown_text(text_in(folder, "index.Rmd"))[:1]
            settings += [(folder, block.values()) for block in index if isinstance(block, MetadataBlock)]
            top = folder
            break
    found = set[str]()
    for base, values in settings:
        found |= csl(values.get("references")).keys()
        named = values.get("bibliography") or []
        for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            text = text_in(top, os.path.relpath(base / str(name), top)) if base and top else ""
            if not text.strip():
                return None
            found |= read_bibliography(text, str(name)).keys()
    return frozenset(found)


def _values(text: str) -> Mapping[str, Any]:
    with suppress(LmmError, RecursionError):
        values = yaml_core.to_value(yaml_core.compose(text))
        return values if isinstance(values, dict) else {}
    return {}


# -- reading them: BibTeX and CSL ----------------------------------------------------------------


def read_bibliography(text: str, name: str) -> Citations:
    """Return author and year by key; `name` is the file's name. Entries that cannot be read are left out.

    >>> read_bibliography("@book{darwin, author = {Darwin, Charles}, year = 1859}", "a.bib")
    {'darwin': ('Darwin', '1859')}
    >>> read_bibliography("% none yet", "a.bib")
    {}
    """
    if name.endswith(".bib"):
        return dict(_entries(text))
    if not name.endswith(".json"):
        return csl(_values(text).get("references"))
    with suppress(ValueError, RecursionError):
        values = json.loads(text)
        return csl(values.get("references") if isinstance(values, dict) else values)
    return {}


def csl(values: Any) -> Citations:
    """Return author and year of references in CSL, such as those under ``references:`` in a header."""
    found = (each for each in values if isinstance(each, dict) and "id" in each) if isinstance(values, list) else ()
    return {str(each["id"]): (_people(each), _year(each)) for each in found}


def _people(reference: Mapping[str, Any]) -> str:
    for role in ("author", "editor"):
        people = reference.get(role)
        if isinstance(people, list) and people:
            return together([str(p.get("family") or p.get("literal") or "") for p in people if isinstance(p, dict)])
    return str(reference.get("title") or reference["id"])


def _year(reference: Mapping[str, Any]) -> str:
    issued: Any = reference.get("issued")
    while isinstance(issued, list | dict) and issued:
        issued = issued[0] if isinstance(issued, list) else issued.get("date-parts") or issued.get("year") or ""
    found = re.search(r"\d{4}", str(issued))
    return found[0] if found else "n.d."


def together(names: list[str]) -> str:
    """Return family names as in a citation.

    >>> together(["Bray"]), together(["Bray", "Ismay"]), together(["Bray", "Ismay", "Kim"])
    ('Bray', 'Bray and Ismay', 'Bray et al.')
    """
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)


def _entries(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    starts = [
        match for match in _ENTRY.finditer(text) if match["kind"].lower() not in ("comment", "string", "preamble")
    ]
    for match, after in zip_longest(starts, starts[1:]):
        fields = _fields(text[match.end() : after.start() if after else len(text)])
        names = re.split(r"\s+and\s+", fields.get("author") or fields.get("editor") or "")
        who = together([_family(name) for name in names if name]) or _plain(fields.get("title", match["key"]))
        year = re.search(r"\d{4}", fields.get("year") or fields.get("date") or "")
        yield match["key"], (who, year[0] if year else "n.d.")


def _fields(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while match := _FIELD.search(body, at):
        value, at = _value(body, match.end())
        found.setdefault(match["name"].lower(), " ".join(value.split()))
    return found


def _value(body: str, at: int) -> tuple[str, int]:
    """Return a value in braces, quotes or neither, and the position of its end."""
    opening = body[at : at + 1]
    if opening not in ("{", '"'):
        end = re.compile(r"[,}\n]|\Z").search(body, at)
        assert end is not None
        return body[at : end.start()], end.start()
    depth = 0
    for position in range(at, len(body)):
        letter = body[position]
        depth += (letter == "{") - (letter == "}")
        if (opening == "{" and depth == 0) or (opening == '"' and letter == '"' and depth == 0 and position > at):
            return body[at + 1 : position], position + 1
    return "", len(body)


def _family(name: str) -> str:
    """Return the family name of ``Family, Given`` or ``Given Family``; a name in braces is kept whole.

    >>> _family("Plato"), _family("Ludwig van Beethoven"), _family("de Groot, A."), _family("{R Core Team}")
    ('Plato', 'van Beethoven', 'de Groot', 'R Core Team')
    """
    name = name.strip()
    if name.startswith("{") and name.endswith("}"):
        return _plain(name)
    if "," in name:
        return _plain(name.partition(",")[0])
    words = name.split() or [""]
    first = len(words) - 1
    while first and words[first - 1] in _PARTICLES:
        first -= 1
    return _plain(" ".join(words[first:]))


def _plain(text: str) -> str:
    """Return a BibTeX text without braces, with accented letters."""
    text = _ACCENT.sub(lambda m: m[2] + _ACCENTS.get(m[1], ""), text)
    for written, letter in _SPECIAL.items():
        text = text.replace(written, letter)
    return unicodedata.normalize("NFC", re.sub(r"[{}]", "", text)).strip()
