"""What the rooms of a course are given: its settings, its store and its encoder, opened when they are first used."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from lmm import config_files
from lmm.config import MINILM, ModelSettings, Settings, embedding_line, is_chosen
from lmm.config_tables import Config
from lmm.errors import FileReadError
from lmm.models.port import ChatModel, Embedder
from lmm.permissions import is_local_model
from lmm.providers import is_static
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
FROM_STORE = "the store"
"""The origin of an embedding model that a store was made with, and nobody chose since."""


@dataclass
class CourseParts:
    """What commands work with. `root` is the folder that documents are named relative to.

    `config` is the configuration that counts; `models` are the language models' settings, and `major` the model that
    answers where one was given as an object.
    """

    settings: CourseSettings
    models: Settings
    root: Path
    config: Config = field(default_factory=Config)
    given_store: Store | None = None
    embedder: Embedder | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    major: ChatModel | None = None
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
        model: str | ChatModel | None = None,
        embedder: Embedder | None = None,
        store: Store | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Open a course; nothing but its configuration is read before it is used.

        Args:
            folder: the course's folder, or one in it; None is where one stands (see `find_course`).
            course: the course's name, instead of the configured one.
            config: this configuration, instead of that of the folder; its paths are relative to where it lies.
            beside: documents; where no configuration is found from where one stands, that beside the first counts.
            model: the language model that answers, instead of the configured one: a name or a model.
            embedder: instead of the configured one.
            store: instead of the configured one; it is not closed.
            env: instead of the process's environment.

        Raises:
            ConfigError: the configuration cannot be read, or asks for something unknown.
            FileReadError: there is no such folder.
        """
        env = os.environ if env is None else env
        file, settings = find_course(config, beside, Path(folder) if folder is not None and config is None else None)
        if course:
            settings = settings.replace(storage={"course": course})
        named, major = ({"major": model}, None) if isinstance(model, str) else ({}, model)
        models = config_files.settings_for(config=file, overrides=named or None, env=env)
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
        # Notebooks store what a cell shows, and the environment has keys.
        return f"Course({str(self.root)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened; what is used afterwards is opened again."""
        with self._opening:
            self._opened.clear()
            self._kept = "", {}
            self.closing.close()

    def once(self, name: str, open: Callable[[], T]) -> T:
        """What `open` gave when it was first called for this name; threads that come at once get the same."""
        with self._opening:
            if name not in self._opened:
                self._opened[name] = open()
            found: T = self._opened[name]
            return found

    @property
    def store(self) -> Store:
        """The store, which need not exist yet.

        Raises:
            StoreError: it cannot be opened.
        """
        return self.given_store if self.given_store is not None else self._own_store

    @contextmanager
    def view(self) -> Iterator[Catalogue]:
        """What the course holds now: one state of the store, for a question from its beginning to its end.

        Raises:
            StoreMissing: nothing was ingested.
            StoreError: the store cannot be read.
        """
        with self.store.view() as reader:
            manifest = reader.manifest()
            if manifest is None:
                raise StoreMissing(self.store.location)
            if (kept := self._kept)[0] != reader.stamp:  # of threads that come at once, one keeps what it reads
                kept = self._kept = reader.stamp, {}
            yield Catalogue(reader, manifest, kept[1])

    @Kept
    def _own_store(self) -> Store:
        store = open_store(self.settings.storage, env=self.env)
        self.closing.callback(store.close)
        return store

    @Kept
    def encoder(self) -> Encoder:
        """What turns chunks and questions into vectors.

        Raises:
            ModelError: the embedding model cannot be opened.
        """
        return open_encoder(self.settings, self.embedding, embedder=self.embedder)

    @Kept
    def embedding(self) -> ModelSettings:
        """The embedding model: the one that somebody chose, else that of the store, else the built-in one."""
        own = self.models.embedding
        if self.embedder is not None or is_chosen(self.models, "embedding"):
            return own
        try:
            stored = self.store.manifest()
        except StoreError:  # who needs the store will be told
            return own
        if stored and _went_without(stored):  # what was installed since changes no course
            return own.replace(origin=NONE_IN_STORE)
        name, _, rest = stored.embedding.partition(" ") if stored else ("", "", "")
        if name in ("", str(own.model)) or is_local_model(name, self.root):  # a stranger's weights are not loaded
            return own
        models = config_files.settings_for(config=self.config, overrides={"embedding": name}, env=self.env)
        return models.embedding.replace(origin=FROM_STORE, **options_of(f"{name} {rest}"))

    @property
    def embedding_note(self) -> str:
        """Which embedding model is in force where nobody chose one, and the line that chooses another."""
        if self.encoder.embedder is None or self.embedder is not None or is_chosen(self.models, "embedding"):
            return ""
        why = "as in the store" if self.embedding.origin == FROM_STORE else "the default"
        then = " and lmm ingest --again" if self.store.manifest() else ""
        other = embedding_line(self.env, str(self.embedding.model))
        return f"vectors by {self.embedding.model}, {why}; for others: {other}{then}"

    @property
    def faster_note(self) -> str:
        """The embedding model of a new store, if nobody chose it and it takes its time, and what does not instead."""
        nobody_chose = self.embedder is None and self.embedding.origin.startswith("default")
        if self.encoder.embedder is None or not nobody_chose or is_static(str(self.embedding.model)):
            return ""
        fast = embedding_line({}, MINILM)
        return f"{self.embedding.model}, which reads every sentence; in seconds, but finding less: {fast}"

    def for_students(self) -> Self:
        """The same course without the texts that ``[serve] withhold`` names, whoever asks it for what.

        Raises:
            StoreMismatch: something else was withheld when it was ingested.
            StoreError: the store cannot be read.
            ModelError: the embedding model cannot be opened.
        """
        encoder, store = self.encoder, StudentStore(self.store, self.settings.withholding)
        if store.manifest() is not None:
            with store.view():
                pass
        served = replace(self, given_store=cast("Store", store))  # to write, or to look at all of it, there is no way
        served.once("encoder", lambda: encoder)  # one model in memory for both
        return served

    @property
    def is_for_students(self) -> bool:
        """Whether it is what students have of it, who are answered as ``[serve] mode`` says."""
        return isinstance(self.given_store, StudentStore)

    @Kept
    def manifest(self) -> Manifest:
        """What a store is made with under these settings. May ask the embedding model for one vector."""
        how = self.settings.preparation
        return Manifest(
            **self.encoder.manifest_parts,
            annotations=_values(how.annotation_model, "own_properties", "inherited_properties", "generated"),
            chunking=_values(how, "splitter", "min_size", "max_size", "overlap", "unit"),
            documents=_values(how, "pool", "pool_size", "documents", "level", "document_size"),
        )


def _went_without(stored: Manifest) -> bool:
    """Whether a store would have vectors of meaning, if a built-in model had been installed when it was made."""
    wanted = stored.encoding in ENCODINGS and ENCODINGS[stored.encoding].by_question
    return wanted and not stored.embedding and language_code(stored.language) == "en"


def _values(settings: object, *names: str) -> dict[str, Any]:
    """Settings as JSON holds them."""
    values = {name: getattr(settings, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def find_course(
    config: str | Path | Config | None = None, beside: Iterable[str | Path] = (), folder: Path | None = None
) -> tuple[Config, CourseSettings]:
    """The configuration of the course that one works in, and the course's settings; see `config_for`. Where none is
    found, a folder above the current one may be the course's (see `course_root`).

    With `folder`, of the course that it is, or lies in, wherever one stands.

    Raises:
        FileReadError: there is no such folder.
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    if folder is not None and not folder.is_dir():
        raise FileReadError("there is no such folder", where=str(folder))
    here = Path.cwd() if folder is None else folder.resolve()
    found = Config() if folder else config_for(next(iter(beside), None), config)
    root = course_root(here) if found.path is None else None
    root = folder if root in (None, here) else root
    if root is not None and (root / config_files.CONFIG).is_file():
        found = config_files.read_config(root / config_files.CONFIG)
        root = None
    settings = course_settings(found)
    if root is None:
        return found, settings
    return found, settings.replace(root=root, storage={"folder": root / settings.storage.folder, "root": root})


def course_root(here: Path) -> Path | None:
    """The nearest folder that is a course's, from this one up: the first with a ``config.toml`` or a folder ``.lmm``.

    Nothing is looked for above a Git repository, nor in the home folder, in a folder that all users share (such as
    ``/tmp``), and above them, unless one is there.
    """
    home = Path("~").expanduser() if "HOME" in os.environ or os.name == "nt" else None
    for folder in (here, *here.parents[:-1]):  # not the root of the file system
        if folder != here and (folder == home or folder.stat().st_mode & stat.S_ISVTX):
            return None
        if (folder / config_files.CONFIG).is_file() or (folder / StorageSettings().folder.parts[0]).is_dir():
            return folder
        if folder == home or (folder / ".git").exists():
            return None
    return None


def config_for(path: str | Path | None, config: str | Path | Config | None = None) -> Config:
    """The configuration that counts for a document or a folder: the one that is given or named, else the one that is
    found from where one stands, or beside it.

    Raises:
        ConfigError: it cannot be read.
    """
    if isinstance(config, Config):
        return config
    beside = None if path is None else Path(path) / config_files.CONFIG if Path(path).is_dir() else Path(path)
    return config_files.find_config(Path(config) if config else None, beside)
