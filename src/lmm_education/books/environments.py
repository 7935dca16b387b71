"""Environments: fenced divs that say what they hold, as Quarto and bookdown have them, and bookdown's chunks."""

from __future__ import annotations

import re

from lmm.markdown.units import is_opening

# By which labels Quarto knows them, and bookdown's chunks by their names.
_BY_LABEL = {"exr": "exercise", "sol": "solution"}
_ATTRIBUTE = re.compile(
    r"""(?<![^\s{])(?:\.(?P<class>[^\s{}.#="']+)|#(?P<kind>exr|sol)-|(?P<bare>[^\W\d][\w-]*)(?=[\s:]|\Z))"""
)
_CHUNK = re.compile(r"\s*?[ \t]{0,3}(?:`{3,}|~{3,})[ \t]*\{(exercise|solution)(?=[\s,}])")


def environments(text: str) -> tuple[str, ...]:
    """What a text opens: the classes of a div, ``exercise`` and ``solution`` by Quarto's labels, or a chunk's name.

    >>> environments("::: {#exr-leaf .big}"), environments("::: solution"), environments("```{exercise}\\nWhy?\\n```")
    (('exercise', 'big'), ('solution',), ('exercise',))
    """
    if chunk := _CHUNK.match(text):
        return (chunk[1],)
    if ":::" not in text[:40] or not is_opening(text):
        return ()
    found = _ATTRIBUTE.finditer(re.sub(r""""[^"]*"|'[^']*'""", "''", text))
    return tuple(each["class"] or each["bare"] or _BY_LABEL[each["kind"]] for each in found)
