"""Environments: fenced divs that say what they hold, as Quarto and bookdown have them, and bookdown's chunks."""

from __future__ import annotations

from lmm.markdown import spans
from lmm.markdown.units import is_opening

# By which labels Quarto knows them, and bookdown's chunks by their names.
_BY_LABEL = {"exr": "exercise", "sol": "solution"}


def environments(text: str) -> tuple[str, ...]:
    """What a text opens: the classes of a div, ``exercise`` and ``solution`` by Quarto's labels, or a chunk's name.

    >>> environments("::: {#exr-leaf .big}"), environments("::: solution"), environments("```{exercise}\\nWhy?\\n```")
    (('exercise', 'big'), ('solution',), ('exercise',))
    """
    bare = text.lstrip()
    if not bare.startswith(("`", "~")) and not is_opening(text):
        return ()
    opened = next(iter(spans(bare)), None)
    if opened is None or opened.start:
        return ()
    if opened.runs:
        return (opened.language,) if opened.language in _BY_LABEL.values() else ()
    kind = _BY_LABEL.get(opened.group.id.partition("-")[0])
    return ((kind,) if kind else ()) + opened.group.classes if opened.kind == "div" else ()
