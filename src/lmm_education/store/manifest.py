"""What a store was made with. A question must be encoded as its documents were, so a mismatch is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

FORMAT = 1
"""The version of what we store: the fields of payloads, the names of vectors, how ids are made."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The choices that decide what vectors mean.

    `embedding` is the model's name, with everything that changes its vectors (empty where the encoding
    needs none); `dimensions` its length, 0 without one; `sparse` the sparse model; `language` the language
    that it stems in; `annotations` names the annotation model's properties; `chunking` and `documents`
    the settings of those steps.
    """

    encoding: str
    embedding: str = ""
    dimensions: int = 0
    sparse: str = ""
    language: str = "en"
    annotations: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Manifest:
        """Read back what `as_json` wrote; keys of later versions are left to `differences`.

        >>> manifest = Manifest("hybrid", "Builtin/wordllama", 256, "Builtin/bm25")
        >>> Manifest.from_json(manifest.as_json()) == manifest
        True
        """
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})

    def differences(self, other: Manifest) -> dict[str, tuple[Any, Any]]:
        """The choices that differ, as ``{name: (here, there)}``.

        >>> Manifest("hybrid").differences(Manifest("content"))
        {'encoding': ('hybrid', 'content')}
        """
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
