"""This package's tables in ``config.toml``, from [RAG] to [serve], as types.

A document's header may override [RAG] and [text_splitter] under ``RAG:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from lmm.config import Annotations
from lmm.config_tables import (
    Config,
    Count,
    CountOrZero,
    Key,
    Layer,
    Names,
    NotNegative,
    Table,
    convert,
    keys_of,
    layer_of,
)
from lmm.errors import ConfigError
from lmm_education.audience import Withholding
from lmm_education.encodings import ENCODINGS, find_encoding

DocumentSplit = Literal["heading", "level", "size", "none"]
Unit = Literal["characters", "tokens"]
Mode = Literal["answer", "explain", "hints"]
Login = Literal["none", "password", "users", "proxy", "oidc", "lti"]


class AnnotationModel(Table, frozen=True):
    """Which properties annotate a text: its own, inherited ones of the nearest heading above, and generated ones."""

    ABOUT = "Which properties of a text are embedded with it."

    own_properties: Annotated[Names, Key("of the text or its heading", ["topic"])] = ()
    inherited_properties: Annotated[Names, Key("of the nearest heading above that has it", ["part"])] = ()
    generated: Annotated[Names, Key("by `lmm annotate`")] = ("titles", "questions", "keywords")


class SplitterSettings(Table, frozen=True):
    """How a text is cut into chunks."""

    ABOUT = "Chunks: what is embedded and found."

    splitter: Annotated[Literal["default", "none"], Key('or "none": one chunk for each text to retrieve')] = "default"
    min_size: Annotated[CountOrZero, Key("of a chunk")] = 1000
    max_size: Annotated[Count, Key("of a chunk")] = 2000
    overlap: Annotated[CountOrZero, Key("embedded again with the next chunk")] = 0
    unit: Annotated[Unit, Key('of the sizes: or "tokens"')] = "characters"


class Preparation(SplitterSettings, frozen=True):
    """The three steps from a document to chunks: pooling, sections to retrieve, chunks to embed. In [RAG], as under
    ``RAG:`` in a header, the keys of [text_splitter] may be set, too."""

    ABOUT = (
        "and how `lmm ingest` prepares documents. A document's header may have the keys "
        "of [RAG] and [text_splitter] for itself, under RAG:."
    )

    pool: Annotated[bool, Key("equations, code and very short texts join their neighbours")] = True
    pool_size: Annotated[CountOrZero, Key("what is very short, in characters")] = 120
    documents: Annotated[
        DocumentSplit,
        Key(
            'what is retrieved whole: the text under each "heading" (a small entry as one), under headings up to a '
            '"level", parts of a "size", or "none"',
        ),
    ] = "heading"
    level: Annotated[Count, Key('of headings, for documents = "level"')] = 2
    document_size: Annotated[Count, Key('characters, for documents = "size"')] = 8000
    language: Annotated[str, Key("of documents without a lang: of their own")] = "en"
    annotation_model: AnnotationModel = AnnotationModel()


class StorageSettings(Table, frozen=True):
    """Where the course is stored: `folder` of the embedded store, or `url` of a Qdrant server, whose key is in the
    environment variable `api_key_env`. The path of `folder` below `root` may not be trustworthy: links in it are
    refused."""

    ABOUT = "Where the course is stored: in a folder, or in a Qdrant server or cluster."

    folder: Annotated[Path, Key("of the embedded store", asks="path")] = Path(".lmm/store")
    root: Path = Path()
    url: Annotated[
        str | Names,
        Key("of a Qdrant server; of a cluster, a list of its nodes", "https://qdrant.example.org:6333", asks="host"),
    ] = ""
    api_key_env: Annotated[str, Key("the variable with the server's key", asks="always")] = "QDRANT_API_KEY"
    course: Annotated[str, Key("several courses are several stores")] = "course"
    timeout: Annotated[NotNegative, Key("seconds")] = 30.0
    replication_factor: Annotated[Count | None, Key("of a cluster, when collections are made", 2)] = None
    shard_number: Annotated[Count | None, Key("of a cluster, when collections are made", 4)] = None

    @property
    def addresses(self) -> Names:
        """The address of the server, or of each node of a cluster; empty if the store is in a folder."""
        return tuple(filter(None, (self.url,) if isinstance(self.url, str) else self.url))


class SearchSettings(Table, frozen=True):
    """How passages are searched."""

    ABOUT = "How passages are searched."

    limit: Annotated[Count, Key("results")] = 8
    prefetch: Annotated[Count, Key("candidates of each leg")] = 60
    sparse_weight: Annotated[NotNegative | None, Key("unset: weights that depend on the question", 0.75)] = None
    dense_weight: Annotated[NotNegative | None, Key("unset: weights that depend on the question", 0.25)] = None
    boost: Annotated[NotNegative, Key("for material of a type that is asked for, such as *exercise*")] = 1.0
    expand: Annotated[
        CountOrZero | None,
        Key("further searches that the aux model writes; unset: one for an answer whose question has other words", 0),
    ] = None
    reranker: Annotated[str, Key('"model", "FastEmbed/...", or "http"')] = "none"
    reranker_url: Annotated[str, Key('for reranker = "http"', "http://127.0.0.1:8080/rerank", asks="host")] = ""
    reranker_model: Annotated[str, Key('for reranker = "http"', "my-reranker")] = ""
    reranker_key_env: Annotated[str, Key("the variable with its key", "MY_KEY", asks="always")] = ""
    rerank_limit: Annotated[Count, Key("how many are reranked")] = 30
    threshold: Annotated[
        NotNegative | None, Key("of relevance: below it, nothing was found; lmm eval finds it", 0.35)
    ] = None
    companion: Annotated[bool, Key("return whole sections instead of chunks")] = False


class AnswerSettings(Table, frozen=True):
    """How questions are answered. `system` precedes the built-in instructions."""

    ABOUT = "How questions are answered."

    context_tokens: Annotated[Count, Key("of the material that the model is shown")] = 4000
    history: Annotated[
        Literal["none", "summary", "extraction", "rewrite"],
        Key("none summary extraction rewrite: how follow-up questions are understood"),
    ] = "rewrite"
    system: Annotated[
        str, Key("comes before our instructions", "You teach an undergraduate course in statistics using R.")
    ] = ""
    nothing_found: Annotated[str, Key("instead of an answer", "The course does not say.")] = ""
    general: Annotated[
        bool, Key("where the course does not answer, let the model answer from general knowledge; marked")
    ] = False
    agent: Annotated[bool, Key("let the model search with tools")] = False
    turns: Annotated[Count, Key("calls of the model in agent mode")] = 6


class StudySettings(Table, frozen=True):
    """Study material and clean notes."""

    ABOUT = "Study material and clean notes."

    keep: Annotated[Names, Key("types of material that stay in the notes", ["definition"])] = ()
    edits: Annotated[
        Literal["refuse", "old", "new"], Key('or "old", "new": what to export where an edit is pending')
    ] = "refuse"
    words_per_minute: Annotated[Count, Key("of readers")] = 200
    exercises: Annotated[Names, Key("types of texts that are exercises")] = ("exercise",)
    solutions: Annotated[Names, Key("types of texts that solve the exercises before them")] = ("solution",)


class ServeSettings(Table, frozen=True):
    """What students see in the web chat, who may ask, and how much.

    Texts are markdown, except `title` and those in `texts`. Only questions about `allowed_content` are answered.
    Headers of proxies are accepted only from addresses in `trusted_proxy`. Texts of the types in `withhold` reach no
    student: neither as sources, nor in prompts, nor through the API.
    """

    ABOUT = "The web chat."

    title: Annotated[
        str, Key("unset: the title of its only book or front page, else its name or its folder's", "Statistics with R")
    ] = ""
    description: Annotated[str, Key("below the title; markdown", "Ask about the lectures.")] = ""
    welcome: Annotated[str, Key("before the first question", "What would you like to know?")] = ""
    failure: Annotated[str, Key("when no answer can be given", "Please try again later.")] = ""
    language: Annotated[Literal["en", "de"], Key("of the words on the page: en, de")] = "en"
    longest_question: Annotated[Count, Key("characters")] = 4000
    texts: Annotated[
        Mapping[str, Any],
        Key("your own words for the page: docs/serve.md", {"ask": "Go"}),
    ] = {}
    consent: Annotated[str, Key("agreed to before the first question", "Questions go to a model of ExampleAI.")] = ""
    allowed_content: Annotated[
        str | Names,
        Key(
            "the aux model checks questions and answers; also a list",
            "statistics, and R as far as the course uses it",
        ),
    ] = ""
    on_check_failure: Annotated[Literal["refuse", "answer"], Key('or "answer": when that cannot be checked')] = "refuse"
    questions_per_minute: Annotated[CountOrZero, Key("of one student; 0: no limit")] = 20
    daily_tokens: Annotated[CountOrZero, Key("of all together; 0: no limit")] = 0
    daily_cost: Annotated[NotNegative, Key("US dollars of all together; 0: no limit")] = 0.0
    cached_answers: Annotated[
        CountOrZero, Key("repeated for the same question while the texts are unchanged; 0: none")
    ] = 500
    login: Annotated[Login, Key("password users proxy oidc lti: docs/serve.md")] = "none"
    session_hours: Annotated[Count, Key("until the next login")] = 12
    proxy_header: Annotated[str, Key("in which a proxy names the user")] = "X-Forwarded-User"
    trusted_proxy: Annotated[Names, Key("addresses and networks of trusted proxies", ["127.0.0.1"])] = ()
    address: Annotated[str, Key("of the page, for links to it", "https://chat.example.edu/statistics/")] = ""
    issuer: Annotated[str, Key("the provider's address", "https://login.example.edu", asks="host")] = ""
    client_id: Annotated[str, Key("the chat's id at the provider or platform", "course-chat")] = ""
    client_secret_env: Annotated[str, Key('for "oidc": the variable with the secret', "OIDC_SECRET", asks="always")] = (
        ""
    )
    platform_login: Annotated[
        str, Key('for "lti": its login address', "https://moodle.example.edu/mod/lti/auth.php", asks="host")
    ] = ""
    platform_keys: Annotated[
        str, Key('for "lti": the address of its keys', "https://moodle.example.edu/mod/lti/certs.php", asks="host")
    ] = ""
    deployments: Annotated[Names, Key('for "lti": those that are accepted; unset: all', ["1"])] = ()
    frame_ancestors: Annotated[
        Names, Key("sites that may show the page in a frame", ["https://moodle.example.edu"])
    ] = ()
    allowed_origins: Annotated[Names, Key("sites whose scripts may use the API", ["https://notes.example.edu"])] = ()
    database: Annotated[
        str,
        Key(
            "for logins and budget; unset: a file in the state folder",
            "postgresql+psycopg://lmm@db.example.org/botany",
            asks="always",
        ),
    ] = ""
    limits: Annotated[
        str,
        Key("where processes count together; unset: each by itself", "redis://127.0.0.1:6379", asks="always"),
    ] = ""
    agent: Annotated[bool, Key("let an ACP/… model answer students, with your account at its provider")] = False
    log: Annotated[
        str, Key("where questions and answers are kept; unset: nowhere", "course-log.sqlite", asks="path")
    ] = ""
    log_days: Annotated[Count, Key("until an exchange is deleted")] = 180
    withhold: Annotated[Names, Key("types of texts that students never see; after a change: lmm ingest")] = (
        "solution",
    )
    originals: Annotated[
        bool, Key("let students open the PDF of a source, whole, if nothing imported from it is withheld")
    ] = False
    mode: Annotated[Mode, Key('or "explain", "hints": how students are answered')] = "answer"
    modes: Annotated[
        Mapping[str, Mode],
        Key("for questions that match material of a type", {"exercise": "hints"}),
    ] = {}

    @property
    def topics(self) -> str:
        """What is allowed, as one text."""
        return self.allowed_content if isinstance(self.allowed_content, str) else ", ".join(self.allowed_content)

    @property
    def tutors(self) -> bool:
        """Whether some questions are not answered directly."""
        return any(mode != "answer" for mode in (self.mode, *self.modes.values()))


class CourseSettings(Table, frozen=True):
    """All settings of a course; `root` is the folder that paths in it are relative to."""

    root: Path = Path()
    encoding: Annotated[
        str,
        Key(f"which texts feed which vectors: {' '.join(ENCODINGS)}", name="encoding_model"),
    ] = "hybrid"
    sparse_model: Annotated[str, Key("or a learned one, such as FastEmbed/prithivida/Splade_PP_en_v1")] = "Builtin/bm25"
    preparation: Preparation = Preparation()
    storage: StorageSettings = StorageSettings()
    search: SearchSettings = SearchSettings()
    answer: AnswerSettings = AnswerSettings()
    study: StudySettings = StudySettings()
    serve: ServeSettings = ServeSettings()

    @property
    def withholding(self) -> Withholding:
        """The withheld types and those of solutions; in a tutoring mode, solutions are withheld, too."""
        serve, solutions, exercises = self.serve, self.study.solutions, self.study.exercises
        return Withholding((*serve.withhold, *solutions) if serve.tutors else serve.withhold, solutions, exercises)


def course_settings(config: Config) -> CourseSettings:
    """Return the course's settings from a configuration; paths are relative to the configuration file's folder.

    Raises:
        ConfigError: the TOML is invalid, or a key is unknown, or a value has the wrong type or is out of range.

    >>> settings = course_settings(Config(text='[RAG]\\nencoding_model = "content"\\n[text_splitter]\\noverlap = 200'))
    >>> settings.encoding, settings.preparation.overlap, settings.storage.folder.as_posix()
    ('content', 200, '.lmm/store')
    """
    root = config.folder
    storage = StorageSettings(folder=root / StorageSettings().folder, root=root)
    return change_settings(CourseSettings(root=root, storage=storage), config.tables)


def change_settings(base: CourseSettings, tables: Layer) -> CourseSettings:
    """Return `base` changed by tables of a config.toml; tables of other packages are ignored.

    Raises:
        ConfigError: a key is unknown, or a value has the wrong type or is out of range.

    >>> change_settings(CourseSettings(), Config(text="[search]\\nprefetch = 100").tables).search.prefetch
    100
    """
    of = {name: tables.get(name, {}) for name in ("RAG", "storage", "search", "answer", "study", "serve")}
    changed = convert(CourseSettings, "RAG", of["RAG"], base=base).replace(
        preparation=_prepare(base.preparation, tables),
        storage=convert(StorageSettings, "storage", of["storage"], base=base.storage, folder=base.root),
        search=convert(SearchSettings, "search", of["search"], base=base.search),
        answer=convert(AnswerSettings, "answer", of["answer"], base=base.answer),
        study=convert(StudySettings, "study", of["study"], base=base.study),
        serve=convert(ServeSettings, "serve", of["serve"], base=base.serve),
    )
    chosen = of["RAG"].get("encoding_model")
    find_encoding(changed.encoding, where=chosen.origin.place if chosen else "")
    return changed


def for_document(settings: Preparation, header: Mapping[str, Any], *, where: str = "header") -> Preparation:
    """Return the preparation settings for a document: its header's ``RAG:`` over the course's, and its ``lang:``.

    ``RAG:`` contains keys of [RAG] and [text_splitter]; ``encoding_model`` must be the same for the whole store.

    >>> for_document(Preparation(), {"lang": "de", "RAG": {"max_size": 1500}}).max_size
    1500
    """
    own, language = header.get("RAG"), header.get("lang")
    if not (own or language):
        return settings
    own = own if isinstance(own, Mapping) else {}
    if any(name in own for name in keys_of(CourseSettings)):
        raise ConfigError(
            "a document cannot choose the encoding: all documents of a store have the same",
            where=where,
            hint="set it under [RAG] in config.toml",
        )
    tables = layer_of({"RAG": own}, "header", lambda table, key: where)
    convert(Annotations, "RAG", tables["RAG"])  # checks them
    chosen = _prepare(settings, tables)
    return chosen.replace(language=language) if isinstance(language, str) and language else chosen


def _prepare(base: Preparation, tables: Layer) -> Preparation:
    """Return `base` changed by [RAG] and [text_splitter]; check that sizes are consistent."""
    rag, splitter = tables.get("RAG", {}), tables.get("text_splitter", {})
    changed = convert(Preparation, "RAG", rag, base=base)
    own = convert(SplitterSettings, "text_splitter", splitter)
    changed = changed.replace(**{name: getattr(own, name) for name in splitter})
    model = tables.get("RAG.annotation_model", {})
    changed = changed.replace(
        annotation_model=convert(AnnotationModel, "RAG.annotation_model", model, base=base.annotation_model)
    )
    written = {**rag, **splitter}
    wrong = ""
    if changed.min_size > changed.max_size:
        wrong = f"'min_size' ({changed.min_size}) in [text_splitter] is more than 'max_size' ({changed.max_size})"
    elif changed.overlap >= changed.max_size:
        wrong = "'overlap' in [text_splitter] must be less than 'max_size'"
    if wrong:
        key = next((name for name in ("min_size", "overlap", "max_size") if name in written), "")
        raise ConfigError(wrong, where=written[key].origin.place if key else "")
    return changed
