"""Read the documents of a course, as files, for study material; the store is not needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lmm.config_files import CONFIG, find_config
from lmm.disk import files
from lmm.errors import LmmError
from lmm.powers import Config
from lmm_education.ingestion.identity import error_of, is_chatmd
from lmm_education.ingestion.prepared import is_own_output
from lmm_education.ingestion.sources import Source, find_sources
from lmm_education.settings import CourseSettings, load_course_settings
from lmm_education.study.material import StudyDocument, study_document


@dataclass(slots=True)
class Reading:
    """Documents in the order of their paths; what could not be read; files that are no documents, and why."""

    documents: list[StudyDocument] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def settings_at(path: str | Path, config: str | Path | Config | None = None) -> CourseSettings:
    """The settings that hold for a document or a folder of documents.

    Raises:
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    path = Path(path)
    beside = path / CONFIG if path.is_dir() else path
    found = config if isinstance(config, Config) else find_config(Path(config) if config else None, beside)
    return load_course_settings(found.text, config_file=found.path, own=found.own)


def read_documents(paths: Iterable[str | Path], settings: CourseSettings) -> Reading:
    """The documents at some paths: files, folders, patterns. One that cannot be read does not stop the others.

    Agents' files and our own outputs are passed over, unless they were named.
    """
    sources = find_sources(paths, settings.root.resolve())
    reading = Reading(errors=list(sources.errors), skipped=list(sources.skipped))
    for source in sources.documents:
        try:
            text = files.read_document(source.path)
            if reason := passed_over(source, text):
                reading.skipped.append((source.path, reason))
            else:
                reading.documents.append(study_document(text, file=source.path.as_posix(), id=source.file))
        except LmmError as error:
            reading.errors.append(error_of(error, str(source.path)))
    return reading


def read_course(paths: str | Path | Iterable[str | Path], config: str | Path | None = None) -> list[StudyDocument]:
    """`documents_at` with the settings that hold there.

    Raises:
        DocumentError: one cannot be read.
        ConfigError: the configuration cannot be read, or asks for something unknown.
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    return documents_at(paths, settings_at(paths[0] if paths else ".", config))


def documents_at(paths: Iterable[str | Path], settings: CourseSettings) -> list[StudyDocument]:
    """The documents at some paths: files, folders, patterns.

    Raises:
        DocumentError: one cannot be read.
    """
    reading = read_documents(paths, settings)
    if reading.errors:
        raise reading.errors[0]
    return reading.documents


def passed_over(source: Source, text: str) -> str:
    """Why a file in a folder is no document of the course; empty if it is one, or if the file itself was named."""
    if source.named:
        return ""
    if is_own_output(text):
        return "a prepared file"
    return "a prompt or transcript of an agent" if is_chatmd(text) else ""
