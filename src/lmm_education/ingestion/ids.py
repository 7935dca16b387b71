"""Ids that depend on what a thing is, not on when or in which order it was stored.

They are UUIDs of version 5, so that the same text in the same document has the same id in every store.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence

_NAMESPACE = uuid.UUID("6f1c4f0e-9f0b-5c1d-8a53-2d0f3f7f5e21")


def document_point_id(docid: str) -> str:
    """The id of a document's own record."""
    return _uuid("document", docid)


class Ids:
    """The ids of one document's sections and chunks, made in document order.

    Twins (sections with the same headings, chunks with the same text) are told apart by their rank.

    >>> ids = Ids("botany")
    >>> first, second = ids.section(("Leaves",)), ids.section(("Leaves",))
    >>> first == second, first == Ids("botany").section(("Leaves",)), first == Ids("zoology").section(("Leaves",))
    (False, True, False)
    """

    def __init__(self, docid: str) -> None:
        self._docid = docid
        self._seen: Counter[str] = Counter()

    def section(self, headings: Sequence[str]) -> str:
        """A section's id: from its headings, so that it stays when the text is edited."""
        return self._ranked("section", *headings)

    def part(self, first: str) -> str:
        """The id of a part that was cut at some size: from its first heading or paragraph."""
        return self._ranked("part", first)

    def chunk(self, kind: str, text: str) -> str:
        """A chunk's id: from its kind and text."""
        return self._ranked("chunk", kind, text)

    def _ranked(self, *what: str) -> str:
        name = _uuid(self._docid, *what)
        rank = self._seen[name]
        self._seen[name] += 1
        return _uuid(name, str(rank)) if rank else name


def _uuid(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))
