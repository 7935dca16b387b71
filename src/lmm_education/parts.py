"""The parts of a course that commands work with: settings, store and encoder, opened on first use."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from lmm import config_files
from lmm.arguments import check_arguments
from lmm.config import MINILM, WORDLLAMA, EmbeddingSettings, Settings, embedding_line, header_layer
from lmm.config_tables import Config
from lmm.errors import FileReadError, LmmError
from lmm.extras import install_command
from lmm.models.port import ChatModel, Embedder, ModelLike, given_model
from lmm.permissions import is_local_model, require_trust
from lmm.providers import is_static, minilm_weights
from lmm_education.catalogue import Catalogue, Kept
from lmm_education.config import CourseSettings, StorageSettings, course_settings
from lmm_education.encode.bm25 import language_code
from lmm_education.encode.encoder import NONE_IN_STORE, Encoder, open_encoder
from lmm_education.encode.text_encoder import options_of
from lmm_education.encodings import ENCODINGS
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.store.open import open_store
from lmm_education.store.port import Manifest, Store
from lmm_education.withheld import StudentStore

T = TypeVar("T")
FROM_STORE = "store"
"""The layer of an embedding model that comes from the store, because the user chose none."""


@check_arguments
@dataclass
class CourseParts:
    """A course as commands use it. `root` is the folder that documents are named relative to.

    `config` is the configuration in force; `models` are the language models' settings, and `major` is the answering
    model if it was passed as an object. `beginning` is the embedding model in the header of the document that begins
    the course: it counts if none was chosen, and there is no store yet.
    """

    settings: CourseSettings
    models: Settings
    root: Path
    config: Config = field(default_factory=Config)
    given_store: Store | None = None
    embedder: Embedder | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    major: ChatModel | None = None
    beginning: EmbeddingSettings | None = None
    closing: ExitStack = field(default_factory=ExitStack)
    _opened: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _kept: tuple[str, dict[str, Any]] = field(default_factory=lambda: ("", {}), init=False, repr=False, compare=False)
    _opening: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False, compare=False)

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        *,
        course: str | None = "",
        config: str | Path | Config | None = None,
        beside: Iterable[str | Path] = (),
        model: ModelLike | None = None,
        embedder: Embedder | None = None,
        store: Store | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Open a course; only its configuration is read before first use.

        Args:
            folder: the course's folder, or one inside it; None for the current folder (see `find_course`).
            course: the course's name, instead of the configured one.
            config: a configuration instead of the folder's; its paths are relative to its own folder.
            beside: documents; if no configuration is found from the current folder, the one beside the first is used.
            model: the language model that answers, instead of the configured one: a name, a model, or a function.
            embedder: instead of the configured one.
            store: instead of the configured one; it is not closed.
            env: instead of the process's environment.

        Raises:
            ConfigError: the configuration cannot be read, or contains an invalid value.
            FileReadError: the folder does not exist.
        """
        env = os.environ if env is None else env
        file, settings = find_course(config, beside, Path(folder) if folder is not None and config is None else None)
        if course:
            settings = settings.replace(storage={"course": course})
        named, major = given_model(model)
        models = config_files.settings_for(config=file, overrides={"major": named} if named else None, env=env)
        return cls(
            settings=settings,
            models=models,
            root=settings.root.resolve(),
            config=file,
            given_store=store,
            embedder=embedder,
            env=env,
            major=major,
        )

    def __repr__(self) -> str:
        # Notebooks save the output of cells, and the environment contains keys.
        return f"Course({str(self.root)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened; it is reopened on next use."""
        with self._opening:
            self._opened.clear()
            self._kept = "", {}
            self.closing.close()

    def once(self, name: str, open: Callable[[], T]) -> T:
        """Return the result of `open`, called once for each name, even if several threads ask at the same time."""
        with self._opening:
            if name not in self._opened:
                self._opened[name] = open()
            found: T = self._opened[name]
            return found

    @property
    def store(self) -> Store:
        """The store, which may not exist yet.

        Raises:
            StoreError: it cannot be opened.
        """
        if self.given_store is not None:
            return self.given_store
        return self.once(
            "store", lambda: self.closing.enter_context(closing(open_store(self.settings.storage, env=self.env)))
        )

    @contextmanager
    def view(self) -> Iterator[Catalogue]:
        """Open a view of one consistent state of the store, for the whole duration of a question.

        Raises:
            StoreMissing: nothing has been ingested.
            StoreError: the store cannot be read.
        """
        with self.store.view() as reader:
            manifest = reader.manifest()
            if manifest is None:
                raise StoreMissing(self.store.location)
            if (kept := self._kept)[0] != reader.stamp:  # with several threads, the cache of one is kept
                kept = self._kept = reader.stamp, {}
            yield Catalogue(reader, manifest, kept[1])

    @Kept
    def encoder(self) -> Encoder:
        """The encoder that turns chunks and questions into vectors.

        Raises:
            ModelError: the embedding model cannot be opened.
        """
        return open_encoder(self.settings, self.embedding, embedder=self.embedder)

    @Kept
    def embedding(self) -> EmbeddingSettings:
        """The embedding model: the configured one, that of the store, that of the document that begins the course, or
        the built-in one."""
        own = self.models.embedding
        if self.embedder is not None or self.models.is_chosen("embedding"):
            return own
        try:
            stored = self.store.manifest()
        except StoreError:  # reported where the store is used
            return own
        if stored is None and self.beginning is not None:
            return self.beginning
        if stored and not stored.embedding and language_code(stored.language) == "en":
            encoding = ENCODINGS.get(stored.encoding)
            if encoding and encoding.by_question:  # no built-in model was there; one that comes later changes nothing
                return own.replace(layer=NONE_IN_STORE)
        name, _, rest = stored.embedding.partition(" ") if stored else ("", "", "")
        if name in ("", str(own.model)) or is_local_model(name, self.root):  # never load untrusted weights
            return own
        models = config_files.settings_for(config=self.config, overrides={"embedding": name}, env=self.env)
        return models.embedding.replace(origin="the store", layer=FROM_STORE, **options_of(f"{name} {rest}"))

    def embedding_in(self, header: Mapping[str, Any], document: Path) -> EmbeddingSettings | None:
        """Return the embedding model that a document's header names; None if it names none, or cannot be read."""
        try:
            if "embedding" not in header_layer(header):
                return None
            found = config_files.settings_for(document, header, config=self.config, env=self.env).embedding
        except LmmError:  # lmm scan reports it
            return None
        return found if found.layer == "header" else None

    def other_embedding(self, header: Mapping[str, Any], document: Path) -> str:
        """Return a sentence if the course has another embedding model than a document's header names, else nothing."""
        wanted = self.embedding_in(header, document) if self.embedder is None else None
        if wanted is None:
            return ""
        try:
            begins = self.store.manifest() is None and not self.models.is_chosen("embedding")
        except StoreError:  # reported where the store is used
            return ""
        own = wanted if begins and self.beginning is None else self.embedding
        same = str(own.model).casefold() == str(wanted.model).casefold()
        return "" if same else f"the embedding model {wanted.model} does not count: the course has {own.model}"

    @property
    def embedding_note(self) -> str:
        """Return a note on the default embedding model, and how to choose another; empty if one was chosen."""
        if self.encoder.embedder is None or self.embedder is not None or self.models.is_chosen("embedding"):
            return ""
        if self.beginning is not None:
            return f"Search uses {self.embedding.model}, from the {self.embedding.origin}"
        then = f"then lmm ingest{' --again' if self.store.manifest() else ''}"
        if str(self.embedding.model) == WORDLLAMA and minilm_weights() is None:
            return f"Search uses the small built-in model. A better one: {install_command('meaning')}, {then}"
        other = embedding_line(self.env, str(self.embedding.model))
        return f"Search uses {self.embedding.model}. Another model: {other}, {then}"

    @property
    def faster_note(self) -> str:
        """Return a note on the slow default embedding model of a new store and on the faster one; empty if not used."""
        nobody_chose = self.embedder is None and self.embedding.layer in ("default", NONE_IN_STORE)
        if self.encoder.embedder is None or not nobody_chose or is_static(str(self.embedding.model)):
            return ""
        fast = embedding_line({}, MINILM)
        return f"{self.embedding.model}, which reads every sentence; in seconds, but finding less: {fast}"

    def for_students(self) -> Self:
        """Return the same course without the texts that ``[serve] withhold`` names, for any use.

        Raises:
            StoreMismatch: other types were withheld when it was ingested.
            StoreError: the store cannot be read.
            ModelError: the embedding model cannot be opened.
        """
        encoder, store = self.encoder, StudentStore(self.store, self.settings.withholding)
        if store.manifest() is not None:
            with store.view():
                pass
        served = replace(self, given_store=cast("Store", store))  # offers no way to write, or to read everything
        served.once("encoder", lambda: encoder)  # shared, so that the model is in memory once
        return served

    @property
    def is_for_students(self) -> bool:
        """Whether this is the course as students see it, whose questions are answered as ``[serve] mode`` says."""
        return isinstance(self.given_store, StudentStore)

    @Kept
    def manifest(self) -> Manifest:
        """Return the manifest of a store made with these settings. May embed one text to learn the dimensions."""
        how = self.settings.preparation
        return Manifest(
            **self.encoder.manifest_parts,
            annotations=_values(how.annotation_model, "own_properties", "inherited_properties", "generated"),
            chunking=_values(how, "splitter", "min_size", "max_size", "overlap", "unit"),
            documents=_values(how, "pool", "pool_size", "documents", "level", "document_size"),
        )


def _values(settings: object, *names: str) -> dict[str, Any]:
    """Return some settings as JSON values."""
    values = {name: getattr(settings, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def find_course(
    config: str | Path | Config | None = None, beside: Iterable[str | Path] = (), folder: Path | None = None
) -> tuple[Config, CourseSettings]:
    """Return the configuration and the settings of the current course; see `config_for`. Without a configuration, a
    folder above the current one may be the course's (see `course_root`).

    With `folder`, of the course in or above that folder instead.

    Raises:
        FileReadError: the folder does not exist.
        ConfigError: the configuration cannot be read, or contains an invalid value.
    """
    if folder is not None and not folder.is_dir():
        raise FileReadError("there is no such folder", where=str(folder))
    here = Path.cwd() if folder is None else folder.resolve()
    found = Config() if folder else config_for(next(iter(beside), None), config)
    root = course_root(here) if found.path is None else None
    root = folder if root in (None, here) else root
    if root is not None and (root / config_files.CONFIG).is_file():
        found = require_trust(config_files.load_config(root / config_files.CONFIG))
        root = None
    settings = course_settings(found)
    if root is None:
        return found, settings
    return found, settings.replace(root=root, storage={"folder": root / settings.storage.folder, "root": root})


def course_root(here: Path) -> Path | None:
    """Return the nearest folder of a course, from this one upwards: one with a ``config.toml`` or a folder ``.lmm``.

    The search does not go above a Git repository, the home folder or a folder shared by all users (such as ``/tmp``);
    the latter two count only if they are where it starts.
    """
    home = Path("~").expanduser() if "HOME" in os.environ or os.name == "nt" else None
    for folder in (here, *here.parents[:-1]):  # without the root of the file system
        if folder != here and (folder == home or folder.stat().st_mode & stat.S_ISVTX):
            return None
        if (folder / config_files.CONFIG).is_file() or (folder / StorageSettings().folder.parts[0]).is_dir():
            return folder
        if folder == home or (folder / ".git").exists():
            return None
    return None


def config_for(path: str | Path | None, config: str | Path | Config | None = None) -> Config:
    """Return the configuration for a document or a folder: the one that is passed or named, else the one found from the
    current folder, or beside it.

    Raises:
        ConfigError: it cannot be read.
    """
    if isinstance(config, Config):
        return config
    beside = None if path is None else Path(path) / config_files.CONFIG if Path(path).is_dir() else Path(path)
    return config_files.find_config(Path(config) if config else None, beside)
