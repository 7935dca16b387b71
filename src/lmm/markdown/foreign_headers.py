"""Headers in other notations: Hugo's TOML and JSON, Pandoc's ``%`` lines, MultiMarkdown's ``Title: …`` lines.

They are left as they are. Only the title, the date and the language are read from them.
"""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from typing import Any

_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(?P<body>(?:[^\n]*\n)*?)\+\+\+[ \t]*(?=\r?\n|\Z)")
_PERCENT = re.compile(
    r"%[ \t][^\n]*(?:\n[ \t]+[^ \t\r\n][^\n]*)*(?:\n%(?:[ \t][^\n]*)?(?:\n[ \t]+[^ \t\r\n][^\n]*)*){0,2}"
)
_MULTIMARKDOWN = re.compile(
    r"(?:[A-Za-z][\w ]*+:[^\n]*+(?:\n|\Z)(?:[ \t]+[^ \t\r\n][^\n]*+(?:\n|\Z))*+)++(?=[ \t]*\r?(?:\n|\Z))"
)
_LINE = re.compile(r"^([A-Za-z][\w ]*+):{1,2}([^\n]*+(?:\n[ \t]+[^\n]*+)*+)", re.MULTILINE)
_OF_DOCUMENTS = {"title", "author", "authors", "date", "subtitle", "affiliation", "base header level", "latex mode"}


def foreign_header_end(text: str, at: int) -> int:
    """Return where the header in another notation ends with which a document begins at `at`, or 0.

    >>> foreign_header_end("+++\\ntitle = 'Exam'\\n+++\\nText.\\n", 0), foreign_header_end("Note: this.\\n", 0)
    (22, 0)
    """
    if text.startswith("{", at):
        try:
            values, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            return 0
        alone = not text[end : text.find("\n", end) if "\n" in text[end:] else len(text)].strip()
        return end if isinstance(values, dict) and values and alone else 0
    if text.startswith("+++", at):
        match = _TOML.match(text, at)
    elif text.startswith("%", at):
        match = _PERCENT.match(text, at)
    else:
        match = _MULTIMARKDOWN.match(text, at) if text[at : at + 1].isalpha() else None
        if match is not None and _OF_DOCUMENTS.isdisjoint(_fields(match[0])):
            match = None
    return match.end() if match else 0


def form_of(source: str) -> str:
    """Return the name of a header's notation."""
    return {"+": "TOML", "{": "JSON", "%": "Pandoc's % lines"}.get(source[:1], "MultiMarkdown")


def foreign_problem(source: str) -> tuple[int, str] | None:
    """Return the line, from 1, and the reason why a header of TOML cannot be read; None if it can.

    >>> foreign_problem("+++\\ntitle = P\\n+++\\n")
    (2, 'this header of TOML cannot be read: Invalid value')
    """
    try:
        _toml(source)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        return int(line[1]) + 1 if line else 1, f"this header of TOML cannot be read: {reason}"
    return None


def foreign_values(source: str) -> dict[str, Any]:
    """Return the values of such a header, dates as text; empty if it cannot be read.

    >>> foreign_values("% Trees\\n% Ann\\n% 2 May 2026\\n"), foreign_values("Title: Trees\\nDate: May\\n")
    ({'title': 'Trees', 'author': 'Ann', 'date': '2 May 2026'}, {'title': 'Trees', 'date': 'May'})
    """
    form = form_of(source)
    if form == "JSON":
        return dict(json.loads(source))
    if form == "TOML":
        with contextlib.suppress(tomllib.TOMLDecodeError, RecursionError):
            kinds = (str, int, float, list, dict)
            return {key: each if isinstance(each, kinds) else str(each) for key, each in _toml(source).items()}
        return {}
    if form == "MultiMarkdown":
        return _fields(source)
    parts = re.split(r"^%[ \t]*", source, flags=re.MULTILINE)[1:]
    named = zip(("title", "author", "date"), (" ".join(part.split()) for part in parts), strict=False)
    return {name: value for name, value in named if value}


def _toml(source: str) -> dict[str, Any]:
    match = _TOML.match(source)
    return tomllib.loads(match["body"].replace("\r\n", "\n")) if match else {}


def _fields(source: str) -> dict[str, Any]:
    return {match[1].strip().lower(): " ".join(match[2].split()) for match in _LINE.finditer(source)}
