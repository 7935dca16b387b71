"""All that the answer of an agent depends on, as a hash: if it is the same again, the agent need not be asked again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from chatmd.content.local_files import MOST_CONVERTED, locate, read_local
from chatmd.content.occurrences import described, digest, occurrences
from chatmd.language.agent import interpret
from chatmd.language.items import Content, Doc, Part, SubAgent
from chatmd.language.parser import parse
from chatmd.workplace import AgentRequest, Workplace
from lmm.disk.files import read_document
from lmm.errors import LmmError


class _Unknowable(Exception):
    """The answer depends on something that can change unseen: tools, the network."""


def inputs_of(request: AgentRequest, place: Workplace) -> str:
    """A hash of the agent's file, all that it imports and refers to, its input, and the model that it asks.

    Empty, if tools or the network have a part in the answer, or something cannot be read.
    """
    if not request.local:
        return ""
    try:
        path = locate(request.src, place)
        values = list(_of_agent(path, place, depth=0))
        asked = list(_of_content(request.input, place, depth=0))
    except (_Unknowable, LmmError):
        return ""
    return digest(values, asked, _of_models(place))


def _of_models(place: Workplace) -> list[Any]:
    tiers = (place.settings.major, place.settings.minor, place.settings.aux)
    return [[str(t.model), t.base_url, t.temperature, t.max_tokens, t.reasoning_effort, t.api] for t in tiers]


def _of_agent(path: Path, place: Workplace, depth: int) -> Iterator[Any]:
    if depth > place.rules.max_depth:
        raise _Unknowable
    document = place.rules.imported(parse(read_document(path), file=str(path)))
    spec = interpret(document)[0]
    if spec.tools:
        raise _Unknowable
    yield repr(document.children)  # which leaves out where things stand
    inside = replace(place, folder=path.parent)
    yield from _of_content((found.part for found in occurrences(spec.items)), inside, depth)


def _of_content(content: Iterable[Part] | Content, place: Workplace, depth: int) -> Iterator[Any]:
    for part in content:
        yield described(part)
        if isinstance(part, str):
            continue
        if isinstance(part, SubAgent):
            yield from _of_content(part.content, place, depth)
        if not part.local:
            if isinstance(part, Doc | SubAgent):
                raise _Unknowable
            continue  # an image that the provider fetches
        path = locate(part.src, place)
        if isinstance(part, SubAgent):
            yield list(_of_agent(path, place, depth + 1))
        else:
            yield hashlib.sha256(read_local(path, limit=MOST_CONVERTED)).hexdigest()
