"""Export clean notes: a file, or a folder with all that its documents show.

Nothing that is a source is ever written over: neither a document of this export, nor any document with
metadata or special material in it, which no export has.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import msgspec

from lmm.config_tables import Config
from lmm.disk import files
from lmm.disk.digest import digest
from lmm.disk.folder import EXPORTED, SUFFIXES, Folder, check_named
from lmm.errors import ConfigError, FileReadError, FileWriteError, LmmError
from lmm.markdown import Span, spans, yaml_core
from lmm.markdown.blocks import HeaderBlock, TextBlock
from lmm.markdown.inline import SCHEME
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.spans import included_pictures
from lmm_education.books.code_cells import read_cell
from lmm_education.errors import ExportError
from lmm_education.ingestion.plan import error_of, passed_over
from lmm_education.ingestion.source_files import SourceFile, find_sources
from lmm_education.study.clean import Edits, Notes, clean_notes
from lmm_education.study.study_documents import settings_at

# -- the files that a document shows or links to ---------------------------------------------------


# In code that knitr runs: pictures, and documents that are knitted into this one.
_SHOWING = ("img", "a", "source", "video", "audio", "iframe")
_IN_HEADER = ("bibliography", "csl", "css", "logo", "cover-image", "favicon", "theme", "filters")
_OF_PROJECTS = (
    *("_quarto.yml", "_metadata.yml", "_bookdown.yml", "_output.yml"),
    *("_toc.yml", "_config.yml", "myst.yml", "mkdocs.yml"),
)


@dataclass(frozen=True, slots=True)
class Link:
    """A relative path as one would open it, with ``/``, and the line on which it begins."""

    target: str
    line: int


def local_links(text: str) -> list[Link]:
    """The relative paths in a markdown text, each once, in order; not those in code that only shows them.

    >>> [link.target for link in local_links("![A](img/a%20b.png) and [web](https://x.org), `[no](no.png)`\\n")]
    ['img/a b.png']
    """
    found = [Link(path, line) for target, line in _targets(text) if (path := _local(target))]
    return list({link.target: link for link in reversed(found)}.values())[::-1]


def _targets(text: str) -> Iterator[tuple[str, int]]:
    for block in parse_markdown_text(text):
        if isinstance(block, HeaderBlock):
            yield from ((name, block.line) for name in _in_header(block.values()))
        elif isinstance(block, TextBlock):
            content = block.content
            found = (target for span in spans(content, in_list=True) for target in _targets_of(span))
            for target, at in sorted(found, key=lambda each: each[1]):
                yield target, block.line + content.count("\n", 0, at)


def _targets_of(span: Span) -> Iterator[tuple[str, int]]:
    """The addresses in a span, each with its offset in the text."""
    if span.kind in ("link", "image", "definition") and span.target not in ("", "^"):
        yield span.target, span.end - 1  # where the address stands
    elif span.kind == "html" and span.target in _SHOWING:
        yield from ((span.values[name], span.start) for name in ("src", "href") if span.values.get(name))
    elif span.kind == "code_block" or span.expression:
        cell = read_cell(span)
        paths = [*(cell.children if cell else []), *included_pictures(span.text)]
        yield from ((path, span.start) for path in paths)
    elif span.kind == "shortcode" and span.target == "include":
        yield span.text.removeprefix("include").strip(" \"'"), span.start


def _in_header(values: dict[str, Any]) -> Iterator[str]:
    for name in _IN_HEADER:
        value = values.get(name)
        yield from (str(item) for item in (value if isinstance(value, list) else [value]) if item)


def _local(target: str) -> str:
    """The path that a target means, if it is a relative one."""
    if SCHEME.match(target) or target.startswith(("/", "\\", "#", "@")):
        return ""
    return unquote(re.split("[?#]", target, maxsplit=1)[0])


Cleaner = Callable[..., Notes]
"""`clean_notes` with the settings that hold for a place."""

# -- notes on disk ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How notes are exported.

    `keep` are types of material that stay, besides those of the configuration; `edits` goes before the
    configuration's; `keep_lines` keeps the numbers of lines (see `clean_notes`).
    """

    keep: tuple[str, ...] = ()
    edits: Edits | None = None
    keep_lines: bool = False
    config: Path | Config | None = None

    def cleaner(self, path: Path) -> Cleaner:
        """What makes notes of the text of a document there, or in a folder there."""
        settings = settings_at(path, self.config)
        study, lasting = settings.study, settings.withholding.lasting
        keep, edits = (*study.keep, *self.keep), self.edits or study.edits
        return partial(clean_notes, keep=keep, edits=edits, keep_lines=self.keep_lines, lasting=lasting)


@dataclass(frozen=True, slots=True)
class Exported:
    """A document that was exported: from where, to where, what stayed out, and whether the file changed."""

    source: Path
    target: Path
    notes: Notes
    changed: bool

    @property
    def left_out(self) -> dict[str, int]:
        """How many texts of each type are not in the notes."""
        return dict(Counter(item.kind for item in self.notes.left_out))


@dataclass(slots=True)
class ExportReport:
    """What an export did. `copied` are files that documents show or link to; `skipped` those that are no notes,
    and why; `notices` are for the author."""

    documents: list[Exported] = field(default_factory=list)
    copied: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for ``--json``."""
        documents = [
            {"source": each.source, "target": each.target, "changed": each.changed,
             "left_out": [{"type": item.kind, "line": item.line} for item in each.notes.left_out]}
            for each in self.documents
        ]  # fmt: skip
        skipped = [{"file": path, "reason": reason} for path, reason in self.skipped]
        values = {"documents": documents, "copied": self.copied, "skipped": skipped}
        found: dict[str, Any] = msgspec.to_builtins(
            values | {"notices": self.notices, "errors": self.errors}, enc_hook=str
        )
        return found


def read_notes(path: str | Path, options: ExportOptions = ExportOptions()) -> Notes:
    """The clean notes of a file, written nowhere.

    Raises:
        ExportError: it cannot be exported as it is, or is special material as a whole.
        DocumentError, ConfigError: the file or the configuration cannot be read.
    """
    path = Path(path)
    notes = options.cleaner(path)(files.read_document(path), where=str(path))
    if notes.nothing_left:
        raise ExportError(_special(notes), where=str(path), hint=f"--keep {notes.left_out[0].kind}, to export it")
    return notes


def export_notes(path: str | Path, output: str | Path, options: ExportOptions = ExportOptions()) -> ExportReport:
    """Write the clean notes of a file to `output`, or those of a folder's documents into the folder `output`.

    An `output` that ends in a slash is a folder, which is made for a file too. A folder is mirrored: its documents, and
    the files in it that they show or link to. A file whose content would be the same is not touched.

    Raises:
        ExportError: a file cannot be exported as it is, or would be written over a source. In a folder, such
            errors are in the report and do not stop the others.
        DocumentError, ConfigError: a file or the configuration cannot be read, or nothing can be written; a
            `LinkOutside` if a path is a link out of its folder, or something in the output folder is.
    """
    is_folder = str(output).endswith(("/", os.sep))
    path, output = check_named(Path(path)), check_named(Path(output))
    return _export_folder(path, output, options) if path.is_dir() else _export_file(path, output, options, is_folder)


# -- a file ----------------------------------------------------------------------------------------


def _export_file(path: Path, output: Path, options: ExportOptions, is_folder: bool) -> ExportReport:
    if path.suffix.lower() not in SUFFIXES and path.is_file():
        raise ExportError("this is not a markdown file", where=str(path), hint=f"supported are {', '.join(SUFFIXES)}")
    notes = read_notes(path, options)
    if is_folder:
        Folder(output).make()
    target = output / path.name if output.is_dir() else output
    if not target.parent.is_dir():
        raise FileWriteError("there is no such folder", where=str(target.parent), hint=f"mkdir -p {target.parent}")
    if target.name != path.name:
        _check_alike(path, target)
    report = ExportReport([_write(path, notes, target, [path], options.cleaner(path))])
    # A hidden file is no document anyway: the knit hook writes one beside the source and removes it.
    if _is_in(target, Path.cwd()) and not target.name.startswith("."):
        _note_exports(Folder(target.parent), report)
    if not _same(path.parent, target.parent):
        lost = [link for link in local_links(notes.text) if (path.parent / link.target).is_file()]
        missing = [link.target for link in lost if not (target.parent / link.target).exists()]
        if missing:
            shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
            report.notices.append(f"{target}: needs {shown} beside it (exporting the folder copies such files)")
    return report


def _special(notes: Notes) -> str:
    kinds = ", ".join(dict.fromkeys(item.kind for item in notes.left_out))
    return f"the whole document is special material ({kinds})"


def _write(source: Path, notes: Notes, target: Path, sources: Collection[Path], cleaner: Cleaner) -> Exported:
    """Write notes, if that changes the file.

    Raises:
        ExportError: `target` is a source.
    """
    _check_no_source(target, sources, cleaner)
    data = notes.text.encode("utf-8", "surrogatepass")
    changed = not target.exists() or target.read_bytes() != data
    if changed:
        files.replace(target, data)
    return Exported(source, target, notes, changed)


def _check_no_source(target: Path, sources: Collection[Path], cleaner: Cleaner) -> None:
    """What an export wrote has nothing in it that an export would leave out; anything else is somebody's work."""
    if any(_same(target, source) for source in sources):
        raise ExportError("this is the source itself", where=str(target), hint="choose another place with -o")
    if not target.exists():
        return
    try:
        text = files.read_document(target)
        clean = cleaner(text, where=str(target)).text == text
    except (ExportError, FileReadError):
        clean = False
    if not clean:
        raise ExportError(
            "this document is not an earlier export",
            where=str(target),
            hint="choose another place with -o, or move it away",
        )


def _check_alike(source: Path, target: Path) -> None:
    """Under another name than the source's, an earlier export still has lines of the source."""
    if not target.is_file():
        return
    lines = {line.strip() for line in files.read_document(source).splitlines()}
    there = [line.strip() for line in files.read_document(target).splitlines() if line.strip()]
    if sum(line in lines for line in there) < len(there) / 2:
        raise ExportError(
            f"this does not look like an earlier export of {source.name}",
            where=str(target),
            hint="choose another place with -o, or move it away",
        )


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


# -- a folder --------------------------------------------------------------------------------------


def _export_folder(folder: Path, output: Path, options: ExportOptions) -> ExportReport:
    if _same(folder, output):
        raise ConfigError(
            "notes cannot be exported into the folder of their sources", where=str(output), hint="choose another folder"
        )
    if output.exists() and not output.is_dir():
        raise ConfigError("this is a file, but you export a folder", where=str(output), hint="name a folder")
    cleaner = options.cleaner(folder)
    found = find_sources([folder], folder.resolve())
    report = ExportReport(skipped=list(found.skipped), errors=list(found.errors))
    inside = [s for s in found.documents if not _is_in(s.path, output)]
    sources = {source.path for source in inside}
    for source in inside:
        try:
            notes = _notes_in(source, cleaner)
            if isinstance(notes, str):
                report.skipped.append((source.path, notes))
                continue
            target = output / source.file
            Folder(output).make(PurePath(source.file).parent)
            Folder(output).path(source.file)
            report.documents.append(_write(source.path, notes, target, sources, cleaner))
        except LmmError as error:
            report.errors.append(error_of(error, str(source.path)))
    _copy_linked(folder, output, report)
    _copy_project(folder, output, report)
    _note_exports(Folder(output), report)
    return report


def _note_exports(output: Folder, report: ExportReport) -> None:
    """Say in the output folder what was written, so that no command takes it for a document of the course."""
    known = output.exported()
    written = {_name_of(each, output): digest(each.notes.text, length=16) for each in report.documents}
    if written.items() - known.items():
        lines = (f"{hash}  {name}\n" for name, hash in sorted({**known, **written}.items()))
        output.write(EXPORTED, "".join(lines).encode("utf-8", "surrogateescape"))  # names may be any bytes


def _name_of(exported: Exported, output: Folder) -> str:
    """A file's name in the list of exports; with ./ before it where it lies beside its source."""
    beside = "./" if _same(exported.source.parent, exported.target.parent) else ""
    return beside + exported.target.relative_to(output.root).as_posix()


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _notes_in(source: SourceFile, cleaner: Cleaner) -> Notes | str:
    """The notes in a document, or why there are none."""
    text = files.read_document(source.path)
    if reason := passed_over(source, text):
        return reason
    notes = cleaner(text, where=str(source.path))
    return _special(notes) if notes.nothing_left else notes


def _copy_linked(folder: Path, output: Path, report: ExportReport) -> None:
    """Copy the files of the folder that its notes show or link to, and tell of those that are not there."""
    copied: set[Path] = set()
    for document in report.documents:
        for link in local_links(document.notes.text):
            path = document.source.parent / link.target
            if path.suffix.lower() in SUFFIXES or path in copied or path.is_dir():
                continue
            place = f"{document.target}:{link.line}"
            if not path.is_file():
                report.notices.append(f"{place}: there is no file {link.target}")
            elif not _is_in(path, folder):
                report.notices.append(f"{place}: {link.target} is outside {folder} and was not copied")
            else:
                copied.add(path)
                _copy(folder, output, os.path.relpath(path, folder), report)


def _copy_project(folder: Path, output: Path, report: ExportReport) -> None:
    """Copy the files by which Quarto, bookdown and others make a book of the notes, and what they show."""
    folders = {above for each in report.documents for above in each.source.parents if _is_in(above, folder)}
    for place in sorted(folders):
        for project in (place / name for name in _OF_PROJECTS if (place / name).is_file()):
            shown = [place / path for target in _in_project(_settings(project)) if (path := _local(target))]
            for file in (project, *(each for each in shown if each.is_file() and _is_in(each, folder))):
                _copy(folder, output, os.path.relpath(file, folder), report)


def _settings(project: Path) -> Any:
    try:
        return yaml_core.to_value(yaml_core.compose(files.read_document(project)))
    except LmmError:  # whoever builds the project is told
        return None


def _in_project(values: Any) -> Iterator[str]:
    """The files that a project's settings name, at whatever depth, as headers do."""
    if isinstance(values, dict):
        yield from _in_header(values)
    for inner in values.values() if isinstance(values, dict) else values if isinstance(values, list) else ():
        yield from _in_project(inner)


def _copy(folder: Path, output: Path, name: str, report: ExportReport) -> None:
    target = output / name
    try:
        data, there = Folder(folder).read(name), Folder(output)
        if there.stat(name) is None or (not _same(folder / name, target) and there.read(name) != data):
            there.write(name, data)
            report.copied.append(target)
    except LmmError as error:
        report.errors.append(error)
