"""A word diff of two texts, coloured on a terminal, marked by brackets elsewhere."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from lmm import terminal

_LONG = 2000


def word_diff(old: str, new: str, *, err: bool = False) -> str:
    """`new` with what was taken out and put in shown in place: ``[-old-]{+new+}`` where there is no colour.

    >>> word_diff("A long green leaf.", "A green leaf falls.")
    'A [-long -]green [-leaf.-]{+leaf falls.+}'
    """
    before, after = (re.findall(r"\s*\S+[ \t]*|\s+", text) for text in (old, new))
    parts = []
    # In a long text, words that are everywhere do not say what belongs together, and would take the square of the time.
    matcher = SequenceMatcher(None, before, after, autojunk=len(after) > _LONG)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        gone, come = "".join(before[i1:i2]), "".join(after[j1:j2])
        if tag == "equal":
            parts.append(gone)
            continue
        parts.append(_shown(gone, "[-{}-]", "red", err) + _shown(come, "{{+{}+}}", "green", err))
    return "".join(parts)


def _shown(text: str, marks: str, colour: str, err: bool) -> str:
    if not text:
        return ""
    coloured = terminal.styled(text, colour, err=err)
    return coloured if coloured != text else marks.format(text)
