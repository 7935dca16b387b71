"""The tables of ``config.toml`` that are this package's, from [RAG] to [serve].

`TABLES` names every key with its default; a key that is not there, or a value of the wrong kind, is refused
with what was probably meant. A document's header may override [RAG] and [text_splitter] under ``RAG:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lmm.config import ANNOTATIONS, read_toml
from lmm.errors import ConfigError
from lmm.powers import Config, Power, find_powers
from lmm_education.encodings import find_encoding
from lmm_education.serve_settings import SERVE, SERVE_CHOICES, SERVE_POWERS, SERVE_ZERO
from lmm_education.serve_settings import ServeSettings as ServeSettings
from lmm_education.setting_checks import BOOL, COUNT, NAMES, NUMBER, TABLE, TEXT, check_keys, checked_table

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
    environment variable `api_key_env`. Of the way to `folder`, what lies below `root` may be a stranger's: links are
    refused there. `powers` have to be agreed to before the store is opened."""

    folder: Path = Path(".lmm/store")
    root: Path = Path()
    url: str = ""
    powers: tuple[Power, ...] = ()
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
    which nothing relevant was found (see ``lmm eval``). `powers` have to be agreed to before `reranker_url` is asked.
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
    powers: tuple[Power, ...] = ()


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
    serve: ServeSettings = field(default_factory=ServeSettings)


# [RAG] as the seeds spell it. The annotations themselves are read by `lmm.config`.
TABLES: dict[str, dict[str, str]] = {
    "RAG": {
        **dict.fromkeys((*ANNOTATIONS, "summaries"), BOOL),
        "encoding_model": TEXT,
        "sparse_model": TEXT,
        "annotation_model": TABLE,
        "language": TEXT,
        "pool": BOOL,
        "pool_size": COUNT,
        "documents": TEXT,
        "level": COUNT,
        "document_size": COUNT,
    },
    "text_splitter": {
        "splitter": TEXT,
        "min_size": COUNT,
        "max_size": COUNT,
        "overlap": COUNT,
        "unit": TEXT,
    },
    "storage": {
        "folder": TEXT,
        "url": TEXT,
        "api_key_env": TEXT,
        "course": TEXT,
        "timeout": NUMBER,
        "replication_factor": COUNT,
        "shard_number": COUNT,
        "quantization": TEXT,
    },
    "search": {
        "limit": COUNT,
        "prefetch": COUNT,
        "fusion": TEXT,
        "sparse_weight": NUMBER,
        "dense_weight": NUMBER,
        "boost": NUMBER,
        "expand": COUNT,
        "reranker": TEXT,
        "reranker_url": TEXT,
        "reranker_model": TEXT,
        "reranker_key_env": TEXT,
        "rerank_limit": COUNT,
        "threshold": NUMBER,
        "companion": BOOL,
    },
    "answer": {"budget": COUNT, "history": TEXT, "system": TEXT, "nothing_found": TEXT, "turns": COUNT},
    "study": {"keep": NAMES, "edits": TEXT, "words_per_minute": COUNT, "exercises": NAMES, "solutions": NAMES},
    "serve": SERVE,
}
# Which keys are powers, and of which kind (a row of `lmm.powers.KINDS`).
POWERS: dict[str, dict[str, str]] = {
    "storage": {"folder": "path", "url": "host", "api_key_env": "variable"},
    "search": {"reranker_url": "host", "reranker_key_env": "variable"},
    "serve": SERVE_POWERS,
}
_ANNOTATION_MODEL = {"own_properties": NAMES, "inherited_properties": NAMES, "generated": NAMES}
_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("RAG", "documents"): ("heading", "level", "size", "none"),
    ("text_splitter", "splitter"): ("default", "none"),
    ("text_splitter", "unit"): ("characters", "tokens"),
    ("storage", "quantization"): ("none", "scalar", "binary"),
    ("search", "fusion"): ("dbsf", "rrf"),
    ("answer", "history"): ("none", "summary", "extraction", "rewrite"),
    ("study", "edits"): ("refuse", "old", "new"),
    **{("serve", key): choices for key, choices in SERVE_CHOICES.items()},
}
_ZERO_ALLOWED = ("pool_size", "overlap", "expand", "min_size", *SERVE_ZERO)
_PREPARATION = ("pool", "pool_size", "documents", "level", "document_size", "language")


def load_course_settings(toml_text: str = "", *, config_file: Path | None = None, own: bool = False) -> CourseSettings:
    """The course's settings from configuration text; paths are relative to the configuration file's folder.

    What the file asks for that reaches beyond its folder has to be approved, unless it is the user's `own`.

    Raises:
        ConfigError: unreadable TOML, an unknown key, a value of the wrong kind or out of range.

    >>> settings = load_course_settings('[RAG]\\nencoding_model = "content"\\n[text_splitter]\\noverlap = 200')
    >>> settings.encoding, settings.preparation.overlap, settings.storage.folder.as_posix()
    ('content', 200, '.lmm/store')
    """
    where = str(config_file) if config_file else "config.toml"
    toml, _ = read_toml(toml_text, where=where)
    root = config_file.parent if config_file else Path()
    granted = find_powers(Config(config_file, toml_text, own), toml, POWERS)
    of_table = {name: tuple(power for power in granted if power.name.startswith(f"{name}.")) for name in POWERS}
    defaults = CourseSettings(
        root=root,
        storage=StorageSettings(folder=root / StorageSettings().folder, root=root, powers=of_table["storage"]),
        search=SearchSettings(powers=of_table["search"]),
        serve=ServeSettings(powers=of_table["serve"]),
    )
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
    return CourseSettings(
        root=base.root,
        encoding=find_encoding(rag.get("encoding_model", base.encoding), where=f"{where} [RAG]").name,
        sparse_model=rag.get("sparse_model", base.sparse_model),
        preparation=_preparation(base.preparation, rag, checked["text_splitter"], where),
        storage=replace(base.storage, **storage),
        search=replace(base.search, **checked["search"]),
        answer=replace(base.answer, **checked["answer"]),
        study=replace(base.study, **_tuples(checked["study"])),
        serve=replace(base.serve, **_tuples(checked["serve"])),
    )


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


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
    check_keys("RAG", own, [*TABLES["RAG"], *TABLES["text_splitter"]], where)
    splitter = {key: own.pop(key) for key in TABLES["text_splitter"] if key in own}
    rag = _checked("RAG", own, TABLES["RAG"], where)
    chosen = _preparation(settings, rag, _checked("text_splitter", splitter, TABLES["text_splitter"], where), where)
    language = header.get("lang")
    return replace(chosen, language=language) if isinstance(language, str) and language else chosen


def _checked(name: str, table: Any, known: Mapping[str, str], where: str) -> dict[str, Any]:
    return checked_table(name, table, known, choices=_CHOICES, zero=_ZERO_ALLOWED, where=where)


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
