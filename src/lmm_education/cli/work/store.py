"""What `lmm store` does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError
from lmm.powers import Power
from lmm_education.cli.work.ingest import ingest_once
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.ingestion.run import folder_of
from lmm_education.ingestion.running import IngestOptions
from lmm_education.ingestion.writing import remove_document, stored_documents
from lmm_education.open_course import find_course, open_course
from lmm_education.payloads import StoredDocument
from lmm_education.settings import StorageSettings
from lmm_education.store.manifest import Manifest
from lmm_education.store.open import open_store
from lmm_education.store.port import Store, StoreStatus
from lmm_education.store.transfer import copy_store

_NOTHING = "nothing was ingested yet; make a store with: lmm ingest PATH"


def status(as_json: bool, course: str | None, config: Path | None) -> int:
    """Print what is in the store."""
    with _opened(_settings(course, config)) as store:
        found = store.status()
        documents = [(each.file, each.id, each.title) for each in stored_documents(store)] if found.manifest else []
    if as_json:
        terminal.say_json(_as_json(found, documents), indent=2)
    else:
        terminal.say(_as_text(found, documents), end="")
    return console.DONE


def check(course: str | None, config: Path | None) -> int:
    """Compare what is stored with what was written."""
    with _opened(_settings(course, config)) as store:
        checked = store.check()
        place = store.location
    if not checked:
        raise StoreMissing(_NOTHING, where=place)
    terminal.say(f"{place} is as it was written: {checked}")
    return console.DONE


def repair(paths: list[Path], prune: bool, course: str | None, config: Path | None) -> int:
    """Make the store anew from its documents."""
    with open_course(config=config, course=course, folder=folder_of(paths)) as opened:
        if not paths and not opened.store.records():
            hint = "name them: lmm store repair PATH…"
            raise StoreMissing("which documents were stored cannot be told", where=opened.store.location, hint=hint)
        return ingest_once(opened, paths, IngestOptions(again=True, repair=True, prune=prune))


def compact(course: str | None, config: Path | None) -> int:
    """Compact the store, and print what that gained."""
    with _opened(_settings(course, config)) as store:
        manifest, before = store.manifest(), store.status().size
        if manifest is None:
            raise StoreMissing(_NOTHING, where=store.location)
        store.compact()
        after = store.status().size
    gained = f": {_size(before)} before, {_size(after)} now" if before is not None and after is not None else ""
    terminal.say(f"compacted {store.location}{gained}")
    return console.DONE


def push(to: str, course: str | None, config: Path | None) -> int:
    """Copy the store to another place."""
    here = _settings(course, config)
    return _copy(here, _elsewhere(here, to))


def pull(source: str, course: str | None, config: Path | None) -> int:
    """Copy a store from another place."""
    here = _settings(course, config)
    return _copy(_elsewhere(here, source), here)


def delete(document: str, course: str | None, config: Path | None) -> int:
    """Remove a document from the store."""
    with _opened(_settings(course, config)) as store:
        manifest = _manifest_of(store)
        known = stored_documents(store)
        chosen = named(document, known, store.location)
        with store.writing(manifest) as writer:
            for each in chosen:
                remove_document(writer, each.id)
    terminal.say("".join(f"removed {each.file} from the store\n" for each in chosen), end="")
    return console.DONE


def named(name: str, known: Sequence[StoredDocument], location: str) -> list[StoredDocument]:
    """The documents with this id or file, or in this folder; else the one whose file has this name.

    Raises:
        StoreError: there is none, or there are several of that file name.
    """
    if exact := [each for each in known if name in (each.id, each.file)]:
        return exact
    if inside := [each for each in known if PurePosixPath(each.file).is_relative_to(name)]:
        return inside
    alike = [each for each in known if PurePosixPath(each.file).name == name]
    if len(alike) == 1:
        return alike
    message = f"several documents are called '{name}'" if alike else f"there is no document '{name}'"
    names = ", ".join(each.file for each in (alike or known)[:5]) or "none"
    more = ", …" if len(alike or known) > 5 else ""
    raise StoreError(message, where=location, hint=f"there are: {names}{more}; lmm store status lists them")


def _copy(source: StorageSettings, target: StorageSettings) -> int:
    if (source.url, source.folder.resolve()) == (target.url, target.folder.resolve()):
        raise ConfigError("that is this store itself", where=source.url or str(source.folder))
    done = 0
    shown = terminal.is_terminal(err=True)

    def on_points(count: int) -> None:
        nonlocal done
        done += count
        if shown:
            terminal.say(f"{terminal.ERASE_LINE}{done:,} points", err=True, end="")

    with _opened(source) as old, _opened(target) as new:
        copied = copy_store(old, new, on_points=on_points)
        place = new.location
    terminal.erase_bar()
    terminal.say(
        f"{place} is up to date: {terminal.count(copied.written, 'point')} written, "
        f"{copied.same:,} there already, {copied.removed:,} removed"
    )
    return console.DONE


def _settings(course: str | None, config: Path | None) -> StorageSettings:
    storage = find_course(config)[1].storage
    return replace(storage, course=course) if course else storage


def _elsewhere(here: StorageSettings, place: str) -> StorageSettings:
    """The same course in another place: typed by the user, so that no file has to be trusted for it."""
    if re.match(r"https?://", place):
        return replace(here, url=place, powers=_key_of(here))
    if "://" in place:
        raise ConfigError(f"'{place}' is neither a folder nor an address that begins with https://")
    return replace(here, url="", folder=Path(place), root=Path(place), powers=())


def _key_of(here: StorageSettings) -> tuple[Power, ...]:
    """The variable of the key is still what the file says."""
    return tuple(power for power in here.powers if power.kind == "variable")


@contextmanager
def _opened(settings: StorageSettings) -> Iterator[Store]:
    with closing(open_store(settings, env=os.environ)) as store:
        yield store


def _manifest_of(store: Store) -> Manifest:
    manifest = store.manifest()
    if manifest is None:
        raise StoreMissing(_NOTHING, where=store.location)
    return manifest


def _as_json(status: StoreStatus, documents: list[tuple[str, str, str]]) -> dict[str, object]:
    return {
        "location": status.location,
        "manifest": status.manifest.as_json() if status.manifest else None,
        "documents": status.documents,
        "sections": status.sections,
        "chunks": status.chunks,
        "points": {"chunks": status.chunks, "documents": status.documents + status.sections},
        "size": status.size,
        "details": dict(status.details),
        "files": [{"file": file, "document": each, "title": title} for file, each, title in documents],
    }


def _as_text(status: StoreStatus, documents: list[tuple[str, str, str]]) -> str:
    rows = [("store", status.location)]
    if status.manifest is None:
        rows.append(("content", _NOTHING))
    else:
        manifest = status.manifest
        model = f"{manifest.embedding} ({manifest.dimensions} numbers)" if manifest.embedding else ""
        made = [manifest.encoding, model, manifest.sparse, f"language {manifest.language}"]
        counted = [(status.documents, "document"), (status.sections, "section"), (status.chunks, "chunk")]
        rows.append(("made with", ", ".join(part for part in made if part)))
        rows.append(
            ("content", ", ".join(f"{number:,} {noun}{'' if number == 1 else 's'}" for number, noun in counted))
        )
        rows += [("size", f"{_size(status.size)} on the disk")] if status.size is not None else []
    rows.append(("engine", ", ".join(_detail(name, value) for name, value in status.details.items())))
    rows += [("document", f"{file}  {each}  {title}".rstrip()) for file, each, title in documents]
    return "".join(f"{name:<10}  {_fitting(value) if name == 'document' else value}\n" for name, value in rows)


def _fitting(value: str) -> str:
    """On a terminal what its line has room for, so that rows stay rows."""
    return terminal.clipped(value, terminal.width() - 13) if terminal.is_terminal() else value


def _detail(name: str, value: object) -> str:
    return str(value) if name == "engine" else f"{name} {value}"


def _size(size: int | None) -> str:
    """A number of bytes for people.

    >>> _size(3_460_000), _size(90_000)
    ('3.5 MB', '0.1 MB')
    """
    return f"{(size or 0) / 1e6:,.1f} MB"
