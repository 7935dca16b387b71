"""What a store was made with. A question must be encoded as its documents were, so a mismatch is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from lmm_education.errors import StoreMismatch

FORMAT = 4
"""The version of what we store: the fields of payloads, the names of vectors, how ids are made."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The choices that decide what vectors mean.

    `embedding` is the model's name, with everything that changes its vectors (empty where the encoding
    needs none); `dimensions` its length, 0 without one; `sparse` the sparse model; `language` the language
    that it stems in; `annotations` names the annotation model's properties; `chunking` and `documents`
    the settings of those steps; `sentences` whether each sentence of a passage has a vector, which stores of models
    that read sentences had not at first.
    """

    encoding: str
    embedding: str = ""
    dimensions: int = 0
    sparse: str = ""
    language: str = "en"
    annotations: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    sentences: bool = False
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


# What decides a choice, as config.toml spells it; the keys of a table decide themselves.
_KEYS = {
    "encoding": "[RAG] encoding_model",
    "embedding": "[embedding] model",
    "dimensions": "the embedding model's dimensions",
    "sparse": "[RAG] sparse_model",
    "language": "[RAG] language",
    "annotations": "[RAG.annotation_model]",
    "chunking": "[text_splitter]",
    "documents": "[RAG]",
    "sentences": "whether sentences have vectors",
}

_MODELS = ("embedding", "dimensions", "sparse")


def mismatch(stored: Manifest, now: Manifest, *, where: str = "") -> StoreMismatch:
    """The refusal of a store that was made with other choices than those of now: each by its key, and what to do.

    >>> print(mismatch(Manifest("hybrid", chunking={"unit": "tokens"}), Manifest("none", chunking={"unit": "words"})))
    ... # doctest: +NORMALIZE_WHITESPACE
    the store was made with other settings
    ([RAG] encoding_model was hybrid, is none; [text_splitter] unit was tokens, is words)
    (lmm ingest --again PATH, or change the setting back)
    """
    told = "; ".join(f"{key} was {_told(before)}, is {_told(after)}" for key, before, after in _changes(stored, now))
    hint = "lmm ingest --again PATH, or change the setting back"
    return StoreMismatch(f"the store was made with other settings ({told})", where=where, hint=hint)


def _changes(stored: Manifest, now: Manifest) -> Iterator[tuple[str, Any, Any]]:
    differ = stored.differences(now)
    if "embedding" in differ:  # another model has its own length
        differ.pop("dimensions", None)
    if "encoding" in differ:  # another encoding may need a model less, or one more
        differ = {name: pair for name, pair in differ.items() if name not in _MODELS or all(pair)}
    for name, (before, after) in differ.items():
        key = _KEYS.get(name, name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            names = [inner for inner in {**before, **after} if before.get(inner) != after.get(inner)]
            yield from ((f"{key} {inner}", before.get(inner), after.get(inner)) for inner in names)
        else:
            yield key, before, after


def _told(value: Any) -> str:
    """A value as people write it; an empty one is called so."""
    if value is None or value == "":
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
