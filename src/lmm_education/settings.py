"""The tables of ``config.toml`` that are this package's, from [RAG] to [serve].

`TABLES` names every key with its default; a key that is not there, or a value of the wrong kind, is refused
with what was probably meant. A document's header may override [RAG] and [text_splitter] under ``RAG:``.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lmm.config import ANNOTATIONS, read_toml
from lmm.errors import ConfigError
from lmm_education.encode.encodings import find_encoding

DocumentSplit = Literal["heading", "level", "size", "none"]
Unit = Literal["characters", "tokens"]


@dataclass(frozen=True, slots=True)
class AnnotationModel:
    """Which properties annotate a text: its own, those of the nearest heading above, and generated ones."""

    own_properties: tuple[str, ...] = ()
    inherited_properties: tuple[str, ...] = ()
    generated: tuple[str, ...] = ("titles", "questions", "keywords")


@dataclass(frozen=True, slots=True)
class Preparation:
    """The three steps from document to chunks.

    `pool`: join equations, code and texts shorter than `pool_size` characters with their neighbours.
    `documents`: what is retrieved whole: the text under each ``heading``, under headings up to `level`, parts
    of at most `document_size` characters, or ``none``. `splitter`: ``default``, or ``none`` for one chunk a
    section. Chunks have `min_size` to `max_size` of `unit`; `overlap` of the same unit is embedded again
    with the next chunk. `language` holds where a document does not say ``lang:``.
    """

    pool: bool = True
    pool_size: int = 120
    documents: DocumentSplit = "heading"
    level: int = 2
    document_size: int = 8000
    splitter: Literal["default", "none"] = "default"
    min_size: int = 1000
    max_size: int = 2000
    overlap: int = 0
    unit: Unit = "characters"
    language: str = "en"
    annotation_model: AnnotationModel = AnnotationModel()


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Where the course is stored: `folder` of the embedded store, or `url` of a Qdrant server, whose key is in the
    environment variable `api_key_env`. `url_file` is the configuration file that names the server, if one does."""

    folder: Path = Path(".lmm/store")
    url: str = ""
    url_file: Path | None = None
    api_key_env: str = "QDRANT_API_KEY"
    course: str = "course"
    timeout: float = 30.0
    replication_factor: int | None = None
    shard_number: int | None = None
    quantization: Literal["none", "scalar", "binary"] = "none"


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How the store is asked.

    `limit` results are returned; each leg is asked for `prefetch` candidates. `sparse_weight` and
    `dense_weight` override the encoding's. `expand` sub-questions are written by the aux model. `reranker`
    is ``none``, ``model``, ``FastEmbed/…``, or ``http`` with `reranker_url`. `threshold` is the score below
    which nothing relevant was found (see ``lmm eval``).
    """

    limit: int = 8
    prefetch: int = 60
    fusion: Literal["dbsf", "rrf"] = "dbsf"
    sparse_weight: float | None = None
    dense_weight: float | None = None
    boost: float = 1.0
    expand: int = 0
    reranker: str = "none"
    reranker_url: str = ""
    reranker_model: str = ""
    reranker_key_env: str = ""
    rerank_limit: int = 30
    threshold: float | None = None
    companion: bool = False


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How questions are answered.

    `budget` is the context's size in tokens; `system` comes before our own instructions; `nothing_found` is
    said instead of an answer; `turns` is the most model calls of agent mode.
    """

    budget: int = 4000
    history: Literal["none", "summary", "extraction", "rewrite"] = "rewrite"
    system: str = ""
    nothing_found: str = ""
    turns: int = 6


@dataclass(frozen=True, slots=True)
class StudySettings:
    """Study material and clean notes.

    `keep` are types of material that stay in the notes; `edits` says what to do where an edit waits; reading
    time is counted at `words_per_minute`. Texts of the types in `exercises` are exercises, those in
    `solutions` the solutions of the exercises that they follow.
    """

    keep: tuple[str, ...] = ()
    edits: Literal["refuse", "old", "new"] = "refuse"
    words_per_minute: int = 200
    exercises: tuple[str, ...] = ("exercise",)
    solutions: tuple[str, ...] = ("solution",)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What students see in the web chat. Texts are markdown, except `title` and those in `texts`.

    `title` is the course's name if empty; `description` stands below it; `welcome` before the first question;
    `failure` is said when no answer can be given. `language` chooses the words on the page (``en``, ``de``), of which
    `texts` replaces some, by their names. Questions have at most `longest_question` characters.
    """

    title: str = ""
    description: str = ""
    welcome: str = ""
    failure: str = ""
    language: str = "en"
    longest_question: int = 4000
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class CourseSettings:
    """Everything that was decided for a course; `root` is the folder that paths in it are relative to."""

    root: Path = Path()
    encoding: str = "hybrid"
    sparse_model: str = "Builtin/bm25"
    preparation: Preparation = Preparation()
    storage: StorageSettings = StorageSettings()
    search: SearchSettings = SearchSettings()
    answer: AnswerSettings = AnswerSettings()
    study: StudySettings = StudySettings()
    serve: ServeSettings = ServeSettings()


_BOOL, _TEXT, _COUNT, _NUMBER, _NAMES = "true or false", "text", "a whole number", "a number", "a list of names"
# [RAG] as the seeds spell it. The annotations themselves are read by `lmm.config`.
TABLES: dict[str, dict[str, str]] = {
    "RAG": {
        **dict.fromkeys((*ANNOTATIONS, "summaries"), _BOOL),
        "encoding_model": _TEXT,
        "sparse_model": _TEXT,
        "annotation_model": "a table",
        "language": _TEXT,
        "pool": _BOOL,
        "pool_size": _COUNT,
        "documents": _TEXT,
        "level": _COUNT,
        "document_size": _COUNT,
    },
    "text_splitter": {
        "splitter": _TEXT,
        "min_size": _COUNT,
        "max_size": _COUNT,
        "overlap": _COUNT,
        "unit": _TEXT,
    },
    "storage": {
        "folder": _TEXT,
        "url": _TEXT,
        "api_key_env": _TEXT,
        "course": _TEXT,
        "timeout": _NUMBER,
        "replication_factor": _COUNT,
        "shard_number": _COUNT,
        "quantization": _TEXT,
    },
    "search": {
        "limit": _COUNT,
        "prefetch": _COUNT,
        "fusion": _TEXT,
        "sparse_weight": _NUMBER,
        "dense_weight": _NUMBER,
        "boost": _NUMBER,
        "expand": _COUNT,
        "reranker": _TEXT,
        "reranker_url": _TEXT,
        "reranker_model": _TEXT,
        "reranker_key_env": _TEXT,
        "rerank_limit": _COUNT,
        "threshold": _NUMBER,
        "companion": _BOOL,
    },
    "answer": {"budget": _COUNT, "history": _TEXT, "system": _TEXT, "nothing_found": _TEXT, "turns": _COUNT},
    "study": {"keep": _NAMES, "edits": _TEXT, "words_per_minute": _COUNT, "exercises": _NAMES, "solutions": _NAMES},
    "serve": {
        "title": _TEXT,
        "description": _TEXT,
        "welcome": _TEXT,
        "failure": _TEXT,
        "language": _TEXT,
        "longest_question": _COUNT,
        "texts": "a table",
    },
}
_ANNOTATION_MODEL = {"own_properties": _NAMES, "inherited_properties": _NAMES, "generated": _NAMES}
_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("RAG", "documents"): ("heading", "level", "size", "none"),
    ("text_splitter", "splitter"): ("default", "none"),
    ("text_splitter", "unit"): ("characters", "tokens"),
    ("storage", "quantization"): ("none", "scalar", "binary"),
    ("search", "fusion"): ("dbsf", "rrf"),
    ("answer", "history"): ("none", "summary", "extraction", "rewrite"),
    ("study", "edits"): ("refuse", "old", "new"),
    ("serve", "language"): ("en", "de"),
}
_ZERO_ALLOWED = ("pool_size", "overlap", "expand", "min_size")
_PREPARATION = ("pool", "pool_size", "documents", "level", "document_size", "language")


def load_course_settings(toml_text: str = "", *, config_file: Path | None = None) -> CourseSettings:
    """The course's settings from configuration text; paths are relative to the configuration file's folder.

    Raises:
        ConfigError: unreadable TOML, an unknown key, a value of the wrong kind or out of range.

    >>> settings = load_course_settings('[RAG]\\nencoding_model = "content"\\n[text_splitter]\\noverlap = 200')
    >>> settings.encoding, settings.preparation.overlap, settings.storage.folder.as_posix()
    ('content', 200, '.lmm/store')
    """
    where = str(config_file) if config_file else "config.toml"
    toml, _ = read_toml(toml_text, where=where)
    root = config_file.parent if config_file else Path()
    storage = StorageSettings(url_file=config_file)
    defaults = CourseSettings(root=root, storage=replace(storage, folder=root / storage.folder))
    return change_settings(defaults, toml, where=where)


def change_settings(base: CourseSettings, tables: Mapping[str, Any], *, where: str = "config.toml") -> CourseSettings:
    """`base` with other values for keys of `TABLES`; other tables are left alone.

    Raises:
        ConfigError: an unknown key, a value of the wrong kind or out of range.

    >>> change_settings(CourseSettings(), {"search": {"prefetch": 100}}).search.prefetch
    100
    """
    checked = {name: _checked(name, tables.get(name, {}), TABLES[name], where) for name in TABLES}
    rag, storage = checked["RAG"], checked["storage"]
    if "folder" in storage:
        storage["folder"] = base.root / storage["folder"]
    study: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in checked["study"].items()}
    return CourseSettings(
        root=base.root,
        encoding=find_encoding(rag.get("encoding_model", base.encoding), where=f"{where} [RAG]").name,
        sparse_model=rag.get("sparse_model", base.sparse_model),
        preparation=_preparation(base.preparation, rag, checked["text_splitter"], where),
        storage=replace(base.storage, **storage),
        search=replace(base.search, **checked["search"]),
        answer=replace(base.answer, **checked["answer"]),
        study=replace(base.study, **study),
        serve=replace(base.serve, **checked["serve"]),
    )


def for_document(settings: Preparation, header: Mapping[str, Any], *, where: str = "header") -> Preparation:
    """The preparation that holds for a document: its header's ``RAG:`` over the course's, and its ``lang:``.

    Under ``RAG:`` stand the keys of [RAG] and [text_splitter]; ``encoding_model`` cannot differ within a store.

    >>> for_document(Preparation(), {"lang": "de", "RAG": {"max_size": 1500}}).max_size
    1500
    """
    own = header.get("RAG")
    own = dict(own) if isinstance(own, Mapping) else {}
    if "encoding_model" in own or "sparse_model" in own:
        raise ConfigError(
            "a document cannot choose the encoding: all documents of a store have the same",
            where=where,
            hint="set it under [RAG] in config.toml",
        )
    _check_keys("RAG", own, [*TABLES["RAG"], *TABLES["text_splitter"]], where)
    splitter = {key: own.pop(key) for key in TABLES["text_splitter"] if key in own}
    rag = _checked("RAG", own, TABLES["RAG"], where)
    chosen = _preparation(settings, rag, _checked("text_splitter", splitter, TABLES["text_splitter"], where), where)
    language = header.get("lang")
    return replace(chosen, language=language) if isinstance(language, str) and language else chosen


def _preparation(base: Preparation, rag: Mapping[str, Any], splitter: Mapping[str, Any], where: str) -> Preparation:
    changes = {key: rag[key] for key in _PREPARATION if key in rag} | dict(splitter)
    if "annotation_model" in rag:
        model = _checked("RAG.annotation_model", rag["annotation_model"], _ANNOTATION_MODEL, where)
        changes["annotation_model"] = replace(base.annotation_model, **{k: tuple(v) for k, v in model.items()})
    chosen = replace(base, **changes)
    if chosen.min_size > chosen.max_size:
        raise ConfigError(
            f"'min_size' ({chosen.min_size}) in [text_splitter] is more than 'max_size' ({chosen.max_size})",
            where=where,
        )
    if chosen.overlap >= chosen.max_size:
        raise ConfigError("'overlap' in [text_splitter] must be less than 'max_size'", where=where)
    return chosen


def _checked(name: str, table: Any, known: Mapping[str, str], where: str) -> dict[str, Any]:
    """The table, if every key is known and every value of the right kind."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"[{name}] must be a table", where=where)
    _check_keys(name, table, known, where)
    for key, value in table.items():
        if not _fits(value, known[key]):
            raise ConfigError(f"'{key}' in [{name}] must be {known[key]}, not {value!r}", where=where)
        choices = _CHOICES.get((name, key))
        if choices and value not in choices:
            raise ConfigError(f"'{key}' in [{name}] must be one of {', '.join(choices)}, not {value!r}", where=where)
        if known[key] in (_COUNT, _NUMBER) and value < (0 if key in _ZERO_ALLOWED or known[key] == _NUMBER else 1):
            raise ConfigError(f"'{key}' in [{name}] is too small: {value}", where=where)
    return dict(table)


def _check_keys(name: str, table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(known)
            raise ConfigError(f"unknown key '{key}' in [{name}]", where=where, hint=hint)


def _fits(value: Any, kind: str) -> bool:
    if kind == _BOOL:
        return isinstance(value, bool)
    if kind == _NAMES:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == "a table":
        return isinstance(value, Mapping)
    wanted: dict[str, tuple[type, ...]] = {_TEXT: (str,), _COUNT: (int,), _NUMBER: (int, float)}
    return isinstance(value, wanted[kind]) and not isinstance(value, bool)
