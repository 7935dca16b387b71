"""Golden files: readable cases of text and what is expected of it.

A file holds cases of this form; the lines between ``=== `` and ``=>`` are the source, verbatim::

    === a heading, CRLF
    # A⟨CR⟩
    =>
    heading 1: # "A"

Characters that cannot be seen are written by name: ``⟨CR⟩``, ``⟨BOM⟩``, ``⟨TAB⟩``, ``⟨SP⟩`` ...; ``⟨END⟩`` takes away
the newline after it. Lines before the first case are a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
NAMED = {"CR": "\r", "BOM": "\ufeff", "TAB": "\t", "SP": " ", "FF": "\f", "NEL": "\x85", "LS": "\u2028", "NUL": "\0"}

_CASE = re.compile(r"^=== (?P<title>.+)\n(?P<source>(?:.*\n)*?)=>\n(?P<expected>(?:(?!=== ).*\n)*)", re.MULTILINE)
_NAME = re.compile(r"⟨([A-Z]+)⟩")


@dataclass(frozen=True)
class Case:
    """One case: its file and title, the source with the named characters put in, and what is expected.

    `expected` are the lines as they stand in the file, blank ones left out; `after` is the same as one text, with
    the named characters put in and without the blank line before the next case.
    """

    file: str
    title: str
    source: str
    expected: tuple[str, ...]
    after: str

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def read_cases(folder: str) -> list[Case]:
    """All cases of the golden files in `folder`, in order."""
    cases = []
    for path in sorted((GOLDEN / folder).glob("*.md")):
        text = path.read_bytes().decode("utf-8")
        found = list(_CASE.finditer(text))
        if len(found) != len(re.findall(r"^=== .", text, re.MULTILINE)):
            raise ValueError(f"{path}: a case without '=>'")
        for match in found:
            expected = tuple(line for line in match["expected"].split("\n") if line)
            after = re.sub(r"\n\n\Z", "\n", match["expected"])
            cases.append(Case(path.stem, match["title"], unescape(match["source"]), expected, unescape(after)))
    return cases


def unescape(source: str) -> str:
    """Put in the characters that are written by name.

    >>> unescape("a⟨CR⟩\\n⟨BOM⟩b⟨END⟩\\n")
    'a\\r\\n\\ufeffb'
    """
    return _NAME.sub(lambda match: NAMED[match[1]], source.replace("⟨END⟩\n", ""))
