"""What `lmm store` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm_education.cli.work.ingest import ingest_once
from lmm_education.course import Course
from lmm_education.errors import StoreMissing
from lmm_education.ingestion.running import IngestOptions
from lmm_education.parts import config_for
from lmm_education.store.port import StoreStatus
from lmm_education.store.transfer import Transfer

_NOTHING = "nothing was ingested yet; make a store with: lmm ingest PATH"


def status(as_json: bool, course: str | None, config: Path | None) -> int:
    """Print what is in the store."""
    with Course.open(config=config, course=course) as opened:
        found = opened.status()
        documents = [(each.file, each.id, each.title) for each in opened.documents()] if found.manifest else []
    if as_json:
        terminal.say_json(_as_json(found, documents), indent=2)
    else:
        terminal.say(_as_text(found, documents), end="")
    return console.DONE


def check(course: str | None, config: Path | None) -> int:
    """Compare what is stored with what was written."""
    with Course.open(config=config, course=course) as opened:
        terminal.say(f"{opened.store.location} is as it was written: {opened.check()}")
    return console.DONE


def repair(paths: list[Path], prune: bool, course: str | None, config: Path | None) -> int:
    """Make the store anew from its documents."""
    with Course.open(config=config_for(paths, config), course=course) as opened:
        if not paths and not opened.store.records():
            hint = "name them: lmm store repair PATH…"
            raise StoreMissing("which documents were stored cannot be told", where=opened.store.location, hint=hint)
        return ingest_once(opened, paths, IngestOptions(again=True, repair=True, prune=prune))


def compact(course: str | None, config: Path | None) -> int:
    """Compact the store, and print what that gained."""
    with Course.open(config=config, course=course) as opened:
        before = opened.status().size
        opened.compact()
        after = opened.status().size
        place = opened.store.location
    gained = f": {_size(before)} before, {_size(after)} now" if before is not None and after is not None else ""
    terminal.say(f"compacted {place}{gained}")
    return console.DONE


def push(to: str, course: str | None, config: Path | None) -> int:
    """Copy the store to another place."""
    with Course.open(config=config, course=course) as opened:
        return _copied(opened.push(to, on_points=_progress()))


def pull(source: str, course: str | None, config: Path | None) -> int:
    """Copy a store from another place."""
    with Course.open(config=config, course=course) as opened:
        return _copied(opened.pull(source, on_points=_progress()))


def delete(document: str, course: str | None, config: Path | None) -> int:
    """Remove a document from the store."""
    with Course.open(config=config, course=course) as opened:
        chosen = opened.remove(document)
    terminal.say("".join(f"removed {each.file} from the store\n" for each in chosen), end="")
    return console.DONE


def _progress() -> Callable[[int], None]:
    done = 0
    shown = terminal.is_terminal(err=True)

    def on_points(count: int) -> None:
        nonlocal done
        done += count
        if shown:
            terminal.say(f"{terminal.ERASE_LINE}{done:,} points", err=True, end="")

    return on_points


def _copied(copied: Transfer) -> int:
    terminal.erase_bar()
    terminal.say(
        f"{copied.target} is up to date: {terminal.count(copied.written, 'point')} written, "
        f"{copied.same:,} there already, {copied.removed:,} removed"
    )
    return console.DONE


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
