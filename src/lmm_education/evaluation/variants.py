"""Settings to compare: ``encoding=content,hybrid embedding=A,B`` is four variants of a course."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lmm.config import ANNOTATIONS
from lmm.errors import ConfigError
from lmm_education.settings import TABLES, CourseSettings, change_settings

SHORT = {"encoding": "encoding_model", "sparse": "sparse_model", "rerank": "reranker"}
"""Shorter names of keys."""
EMBEDDING, WEIGHT = "embedding", "weight"
"""An embedding model; the weight of the sparse leg, of which the dense leg has the rest to 1."""
_COMPARED = ("RAG", "text_splitter", "search")
_ELSEWHERE = {*ANNOTATIONS, "summaries"}  # they say what is written into documents, not how documents are stored
_WHERE = "--compare"


@dataclass(frozen=True, slots=True)
class Variant:
    """A course with other settings. `label` says which; `embedding` is a model's name, empty for the configured."""

    label: str
    settings: CourseSettings
    embedding: str = ""

    @property
    def store_key(self) -> object:
        """Variants with the same key can share a store: they differ in how it is searched only."""
        return self.settings.encoding, self.settings.sparse_model, self.settings.preparation, self.embedding


def compared_keys() -> tuple[str, ...]:
    """Everything that can stand before a ``=``."""
    keys = [key for table in _COMPARED for key in TABLES[table] if _kind(key) in _READERS]
    return (*SHORT, EMBEDDING, WEIGHT, *(key for key in keys if key not in _ELSEWHERE))


def is_axis(word: str) -> bool:
    """Whether a word of the command line is an axis of a comparison, not a file.

    >>> is_axis("encoding=content,hybrid"), is_axis("questions.csv")
    (True, False)
    """
    return "=" in word and word.partition("=")[0] in compared_keys()


def make_variants(axes: Iterable[str], settings: CourseSettings) -> list[Variant]:
    """Every combination of the values, the last axis varying fastest.

    Raises:
        ConfigError: an unknown key, a value of the wrong kind, or nothing to compare.

    >>> variants = make_variants(["encoding=content,hybrid", "prefetch=30,60"], CourseSettings())
    >>> [variant.label for variant in variants][:2]
    ['encoding=content prefetch=30', 'encoding=content prefetch=60']
    """
    choices = [_choices(axis) for axis in axes]
    if not choices:
        raise ConfigError("there is nothing to compare", where=_WHERE, hint="give for example encoding=content,hybrid")
    return [_variant(combination, settings) for combination in itertools.product(*choices)]


def _choices(axis: str) -> list[tuple[str, str]]:
    key, _, values = axis.partition("=")
    known = compared_keys()
    if key not in known:
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(known)
        raise ConfigError(f"'{key}' cannot be compared", where=_WHERE, hint=hint)
    found = [(key, value.strip()) for value in values.split(",") if value.strip()]
    if not found:
        raise ConfigError(f"'{axis}' names no value", where=_WHERE, hint=f"write {key}=VALUE,VALUE")
    return found


def _variant(combination: Sequence[tuple[str, str]], settings: CourseSettings) -> Variant:
    label = " ".join(f"{key}={value}" for key, value in combination)
    embedding = next((value for key, value in combination if key == EMBEDDING), "")
    tables: dict[str, dict[str, Any]] = {}
    for key, text in combination:
        if key == WEIGHT:
            weight = _value("sparse_weight", text)
            tables.setdefault("search", {}).update(sparse_weight=weight, dense_weight=round(1 - weight, 4))
        elif key != EMBEDDING:
            name = SHORT.get(key, key)
            tables.setdefault(_table(name), {})[name] = _value(name, text)
    smaller = tables.get("text_splitter", {})
    if "max_size" in smaller and "min_size" not in smaller:  # else a smaller maximum alone would be refused
        smaller["min_size"] = min(settings.preparation.min_size, smaller["max_size"])
    return Variant(label, change_settings(settings, tables, where=_WHERE), embedding)


def _table(key: str) -> str:
    return next(table for table in _COMPARED if key in TABLES[table])


def _kind(key: str) -> str:
    return TABLES[_table(key)][key]


def _value(key: str, text: str) -> Any:
    try:
        return _READERS[_kind(key)](text)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"'{key}' must be {_kind(key)}, not '{text}'", where=_WHERE) from error


_READERS: dict[str, Any] = {
    "true or false": {"true": True, "false": False}.__getitem__,
    "text": str,
    "a whole number": int,
    "a number": float,
}
