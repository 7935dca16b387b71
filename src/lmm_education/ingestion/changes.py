"""What has to be written so that a store holds a document as it is now: the difference, and nothing else.

Ids come from content and place, hashes from what is embedded. So an id that is stored with the same hash needs
no embedding, whatever else about it changed; its payload is set. An id with another hash is embedded again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmm_education.material import Chunk, PreparedDocument
from lmm_education.payloads import Payload, chunk_payload, section_payload


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store has of a document: payloads by id."""

    chunks: Mapping[str, Payload]
    sections: Mapping[str, Payload]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write for a document.

    `encode` are the chunks whose vectors are missing or out of date, `payloads` those of all chunks to write
    by id, with vectors or without; `removed` are chunk ids, `removed_sections` section ids.
    """

    encode: tuple[Chunk, ...]
    payloads: Mapping[str, Payload]
    removed: tuple[str, ...]
    sections: Mapping[str, Payload]
    removed_sections: tuple[str, ...]

    @property
    def updated(self) -> dict[str, Payload]:
        """The payloads of chunks whose vectors stay as they are."""
        encoded = {chunk.id for chunk in self.encode}
        return {id: payload for id, payload in self.payloads.items() if id not in encoded}

    @property
    def is_empty(self) -> bool:
        """Whether the store has all of it already."""
        return not (self.payloads or self.removed or self.sections or self.removed_sections)


def plan_changes(stored: Stored, document: PreparedDocument, hashes: Mapping[str, str], *, again: bool = False) -> Plan:
    """The changes that make the store hold `document`.

    `hashes` maps chunk ids to the hash of what is embedded of each. With `again`, every chunk is embedded.

    >>> from lmm_education.material import Lines, Place
    >>> chunk = Chunk("1", Place("d", "a.md", Lines(1, 1)), "s", 0, "Green.")
    >>> leaves = PreparedDocument("d", "a.md", "Leaves", "en", (), (chunk,))
    >>> plan = plan_changes(Stored({}, {}), leaves, {"1": "h"})
    >>> [c.text for c in plan.encode]
    ['Green.']
    >>> plan_changes(Stored(plan.payloads, {}), leaves, {"1": "h"}).is_empty
    True
    """
    wanted: dict[str, Any] = {
        chunk.id: chunk_payload(chunk, language=document.language, hash=hashes[chunk.id]) for chunk in document.chunks
    }
    sections = {section.id: section_payload(section, title=document.title) for section in document.sections}
    encode = tuple(c for c in document.chunks if again or _is_stale(stored.chunks.get(c.id), wanted[c.id]))
    encoded = {chunk.id for chunk in encode}
    return Plan(
        encode=encode,
        payloads={id: new for id, new in wanted.items() if id in encoded or _differs(stored.chunks[id], new)},
        removed=tuple(id for id in stored.chunks if id not in wanted),
        sections={id: new for id, new in sections.items() if again or _differs(stored.sections.get(id), new)},
        removed_sections=tuple(id for id in stored.sections if id not in sections),
    )


def _is_stale(stored: Payload | None, wanted: Payload) -> bool:
    return stored is None or stored.get("hash") != wanted["hash"]


def _differs(stored: Payload | None, wanted: Payload) -> bool:
    """Whether payloads differ as JSON: to Python, true is 1 and 1 is 1.0. Only metadata may hold either."""
    return stored != wanted or _canonical(stored) != _canonical(wanted)


def _canonical(payload: Payload) -> str:
    metadata = payload["metadata"]
    return json.dumps(metadata, sort_keys=True) if metadata else ""
