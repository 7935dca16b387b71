"""What becomes of a text when hunks are applied to it, and a report of that for the model.

Lines that stay keep their characters and line ends, whatever the patch has in their place. New lines end as most
lines of the file do; the last line gets a line end when the patch wrote it, unless it says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chatmd.errors import PatchError
from chatmd.tools.patch_match import LEVELS, Placed, place_hunks
from chatmd.tools.patch_parse import Hunk, PatchLine
from chatmd.tools.text_lines import Lines

_SCOPE = re.compile(r"[^\W\d]|[#$@]")
_AROUND = 2  # lines of context in a report


@dataclass(frozen=True, slots=True)
class Updated:
    """A text after its hunks, and what the model is told of each."""

    text: str
    report: tuple[str, ...]


def update_text(text: str, hunks: Sequence[Hunk], name: str) -> Updated:
    """Apply hunks to a text; `name` stands for it in messages.

    >>> from chatmd.tools.patch_parse import parse_patch
    >>> patch = "*** Begin Patch\\n*** Update File: f\\n-b\\n+c\\n*** End Patch"
    >>> update_text("a\\r\\nb\\r\\n", parse_patch(patch)[0].hunks, "f").text
    'a\\r\\nc\\r\\n'

    Raises:
        PatchError: a hunk fits nowhere, or in several places, or all of them change nothing.
    """
    old = Lines.of(text)
    placed = place_hunks(hunks, old.texts, name)
    texts: list[str] = []
    ends: list[str] = []
    report: list[str] = []
    done = 0
    for one in placed:
        if one.start < done:
            raise PatchError(f"two hunks change line {one.start + 1}", where=name, hint="make one hunk of them")
        texts += old.texts[done : one.start]
        ends += old.ends[done : one.start]
        report.append(_reported(one, old, len(texts)))
        _add_hunk(one, old, texts, ends)
        done = one.end
    texts += old.texts[done:]
    ends += old.ends[done:]
    new = Lines(tuple(texts), _closed(ends, old.newline), old.bom).text
    if new == text and hunks:
        raise PatchError("the patch changes nothing here", where=name, hint="it may have been applied already")
    return Updated(new, tuple(report))


def text_of(lines: Sequence[PatchLine]) -> str:
    """The text of a new file.

    >>> text_of((PatchLine("+", "a", 1), PatchLine("+", "b", 2, ends=False)))
    'a\\nb'
    """
    return "".join(line.text + ("\n" if line.ends else "") for line in lines)


def _add_hunk(one: Placed, old: Lines, texts: list[str], ends: list[str]) -> None:
    at = one.start
    for line in one.hunk.lines:
        if line.kind == "+":
            texts.append(line.text)
            ends.append(old.newline if line.ends else "")
        elif line.kind == " ":
            texts.append(old.texts[at])
            ends.append(old.ends[at])
        at += line.kind != "+"


def _closed(ends: Sequence[str], newline: str) -> tuple[str, ...]:
    """Line ends, with one wherever another line follows."""
    return (*(end or newline for end in ends[:-1]), *ends[-1:])


def _reported(one: Placed, old: Lines, start: int) -> str:
    """A hunk as it was applied: line numbers before and after, the lines of the file, where it belongs."""
    lines = one.hunk.lines
    before = old.texts[max(one.start - _AROUND, 0) : one.start] if lines[0].kind != " " else ()
    after = old.texts[one.end : one.end + _AROUND] if lines[-1].kind != " " else ()
    body = [f" {text}" for text in before]
    at = one.start
    for line in lines:
        body.append(f"{line.kind}{line.text if line.kind == '+' else old.texts[at]}")
        at += line.kind != "+"
    body += [f" {text}" for text in after]
    removed = len(before) + len(one.hunk.old) + len(after)
    added = len(body) - sum(line.kind == "-" for line in lines)
    scope = next((text for text in reversed(old.texts[: one.start]) if _SCOPE.match(text)), "")
    where = f"@@ -{_span(one.start - len(before), removed)} +{_span(start - len(before), added)} @@ {scope[:80]}"
    note = [f"(fits {LEVELS[one.level][0]})"] if one.level else []
    return "\n".join([where.rstrip(), *note, *body])


def _span(index: int, count: int) -> str:
    """Lines as a unified diff counts them: from 1, and from the line before if there are none."""
    return f"{index + 1 if count else index},{count}"
