"""A course as it is configured: its settings, its store and its encoder, opened when they are first used."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lmm import config_files
from lmm.config import Settings
from lmm.models.port import Embedder
from lmm.powers import Config
from lmm_education.encode.encoder import Encoder, open_encoder
from lmm_education.settings import CourseSettings, StorageSettings, load_course_settings
from lmm_education.store.manifest import Manifest
from lmm_education.store.open import open_store
from lmm_education.store.port import Store
from lmm_education.withheld import WithheldStore


@dataclass
class Course:
    """What commands work with. `root` is the folder that documents are named relative to.

    `config` is the configuration that counts; `models` are the language models' settings.
    """

    settings: CourseSettings
    models: Settings
    root: Path
    config: Config = field(default_factory=Config)
    given_store: Store | None = None
    embedder: Embedder | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    closing: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def store(self) -> Store:
        """The store, which need not exist yet.

        Raises:
            StoreError: it cannot be opened.
        """
        if self.given_store is not None:
            return self.given_store
        store = open_store(self.settings.storage, env=self.env)
        self.closing.callback(store.close)
        return store

    @cached_property
    def encoder(self) -> Encoder:
        """What turns chunks and questions into vectors.

        Raises:
            ModelError: the embedding model cannot be opened.
        """
        return open_encoder(self.settings, self.models.embedding, embedder=self.embedder)

    def for_students(self) -> Course:
        """The same course without the texts that ``[serve] withhold`` names, whoever asks it for what.

        Raises:
            StoreError: the store cannot be opened.
            ModelError: the embedding model cannot be opened.
        """
        encoder, store = self.encoder, WithheldStore(self.store, self.settings.serve.withhold)
        served = replace(self, given_store=store)
        served.encoder = encoder  # one model in memory for both
        return served

    @cached_property
    def manifest(self) -> Manifest:
        """What a store is made with under these settings. May ask the embedding model for one vector."""
        how = self.settings.preparation
        return Manifest(
            **self.encoder.manifest_parts,
            annotations=_values(how.annotation_model, "own_properties", "inherited_properties", "generated"),
            chunking=_values(how, "splitter", "min_size", "max_size", "overlap", "unit"),
            documents=_values(how, "pool", "pool_size", "documents", "level", "document_size"),
        )


def _values(settings: object, *names: str) -> dict[str, Any]:
    """Settings as JSON holds them."""
    values = {name: getattr(settings, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def find_course(
    config: Path | Config | None = None, document: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[Config, CourseSettings]:
    """The configuration of the course that one works in, and the course's settings.

    Where `lmm.config_files.find_config` finds none, a folder above the current one may be the course's: the
    first with a ``config.toml`` or a folder ``.lmm``. Nothing is looked for above a Git repository, nor in the home
    folder, in a folder that all users share (such as ``/tmp``), and above them.

    Raises:
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    found = config if isinstance(config, Config) else config_files.find_config(config, document, env)
    above = course_above(Path.cwd()) if found.path is None else None
    if above is not None and (above / config_files.CONFIG).is_file():
        found = config_files.read_config(above / config_files.CONFIG)
    settings = load_course_settings(found.text, config_file=found.path, own=found.own)
    if found.path is None and above is not None:
        storage = replace(settings.storage, folder=above / settings.storage.folder, root=above)
        settings = replace(settings, root=above, storage=storage)
    return found, settings


def course_above(here: Path) -> Path | None:
    """The nearest folder above `here` that is a course's; None if `here` is one itself."""
    mark = StorageSettings().folder.parts[0]
    home = Path("~").expanduser() if "HOME" in os.environ or os.name == "nt" else None
    if (here / mark).is_dir() or (here / ".git").exists() or here == home:
        return None
    for folder in here.parents[:-1]:  # not the root of the file system
        if folder == home or folder.stat().st_mode & stat.S_ISVTX:
            return None
        if (folder / config_files.CONFIG).is_file() or (folder / mark).is_dir():
            return folder
        if (folder / ".git").exists():
            return None
    return None


@contextmanager
def open_course(
    *,
    config: str | Path | Config | None = None,
    course: str | None = None,
    folder: str | Path | None = None,
    settings: CourseSettings | None = None,
    embedder: Embedder | None = None,
    store: Store | None = None,
    model: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Course]:
    """A course, for the time of a ``with`` block; nothing but its configuration is read before it is used.

    Args:
        config: the configuration file that the user named, or what was found; else it is looked for (`find_course`).
        course: the course's name, instead of the configured one.
        folder: where to look for ``config.toml`` too, such as the folder of a document.
        settings: instead of those of the configuration file.
        embedder: instead of the configured one.
        store: instead of the configured one; it is not closed.
        model: the language model that answers, instead of the configured one.
        env: instead of the process's environment.

    Raises:
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    env = os.environ if env is None else env
    beside = Path(folder) / config_files.CONFIG if folder is not None else None
    named = config if isinstance(config, Config) else Path(config) if config else None
    file, found = find_course(named, beside, env)
    chosen = settings or found
    if course:
        chosen = replace(chosen, storage=replace(chosen.storage, course=course))
    models = config_files.settings_for(config=file, overrides={"major": model} if model else None, env=env)
    with ExitStack() as closing:
        yield Course(chosen, models, chosen.root.resolve(), file, store, embedder, env, closing)
