"""Settings to compare: ``encoding=content,hybrid embedding=A,B`` is four variants of a course."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lmm.config_tables import Key, Names, Table, in_words, keys_of
from lmm.errors import ConfigError, nearest
from lmm_education.config import AnswerSettings, CourseSettings, Preparation, SearchSettings, change_settings

SHORT = {"encoding": "encoding_model", "sparse": "sparse_model", "rerank": "reranker"}
"""Shorter names of keys."""
EMBEDDING, WEIGHT, MODEL = "embedding", "weight", "model"
"""An embedding model; what the sparse leg weighs, of which the dense leg has the rest to 1; what model answers."""
_COMPARED, _ANSWERING = (CourseSettings, Preparation, SearchSettings), (AnswerSettings,)
_WHERE = "--compare"


@dataclass(frozen=True, slots=True)
class Variant:
    """A course with other settings. `label` says which; `embedding` and `model`, which answers, are names, empty for
    the configured."""

    label: str
    settings: CourseSettings
    embedding: str = ""
    model: str = ""

    @property
    def store_key(self) -> object:
        """Variants with the same key can share a store: they differ in how it is searched only."""
        return self.settings.encoding, self.settings.sparse_model, self.settings.preparation, self.embedding


def compared_keys() -> tuple[str, ...]:
    """Everything that can stand before a ``=``."""
    return (*SHORT, EMBEDDING, WEIGHT, MODEL, *_keys())


def _keys(kinds: Iterable[type[Table]] = (*_COMPARED, *_ANSWERING)) -> dict[str, Key]:
    """The keys whose value is one word."""
    keys = (key for kind in kinds for key in keys_of(kind))
    return {key.name: key for key in keys if key.inner is None and key.type != Names}


def is_axis(word: str) -> bool:
    """Whether a word of the command line is an axis of a comparison, not a file.

    >>> is_axis("encoding=content,hybrid"), is_axis("questions.csv")
    (True, False)
    """
    return "=" in word and word.partition("=")[0] in compared_keys()


def make_variants(axes: Iterable[str], settings: CourseSettings, *, answers: bool = False) -> list[Variant]:
    """Every combination of the values, the last axis varying fastest; those of answers only where they are measured.

    Raises:
        ConfigError: an unknown key, a value of the wrong kind, or nothing to compare.

    >>> variants = make_variants(["encoding=content,hybrid", "prefetch=30,60"], CourseSettings())
    >>> [variant.label for variant in variants][:2]
    ['encoding=content prefetch=30', 'encoding=content prefetch=60']
    """
    choices = [_choices(axis) for axis in axes]
    about_answers = [key for (key, _), *_ in choices if key == MODEL or key in _keys(_ANSWERING)]
    if about_answers and not answers:
        what = f"'{about_answers[0]}' affects answers, not search"
        raise ConfigError(what, where=_WHERE, hint="add --answers")
    if not choices:
        raise ConfigError("there is nothing to compare", where=_WHERE, hint="give for example encoding=content,hybrid")
    return [_variant(combination, settings) for combination in itertools.product(*choices)]


def _choices(axis: str) -> list[tuple[str, str]]:
    key, _, values = axis.partition("=")
    known = compared_keys()
    if key not in known:
        raise ConfigError(f"'{key}' cannot be compared", where=_WHERE, hint=nearest(key, known))
    found = [(key, value.strip()) for value in values.split(",") if value.strip()]
    if not found:
        raise ConfigError(f"'{axis}' has no value", where=_WHERE, hint=f"write {key}=VALUE,VALUE")
    return found


def _variant(combination: Sequence[tuple[str, str]], settings: CourseSettings) -> Variant:
    label = " ".join(f"{key}={value}" for key, value in combination)
    embedding, model = (next((value for key, value in combination if key == name), "") for name in (EMBEDDING, MODEL))
    tables: dict[str, dict[str, Any]] = {}
    for key, text in combination:
        if key == WEIGHT:
            weight = _value("sparse_weight", text)
            tables.setdefault("search", {}).update(sparse_weight=weight, dense_weight=round(1 - weight, 4))
        elif key not in (EMBEDDING, MODEL):
            name = SHORT.get(key, key)
            tables.setdefault(_keys()[name].table, {})[name] = _value(name, text)
    smaller = tables.get("text_splitter", {})
    if "max_size" in smaller and "min_size" not in smaller:  # else a smaller maximum alone would be refused
        smaller["min_size"] = min(settings.preparation.min_size, smaller["max_size"])
    return Variant(label, change_settings(settings, tables, where=lambda table, key: _WHERE), embedding, model)


def _value(key: str, text: str) -> Any:
    kind = _keys()[key].type
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"'{key}' must be {in_words(kind)}, not '{text}'", where=_WHERE) from error
