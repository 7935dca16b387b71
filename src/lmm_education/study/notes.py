"""Clean notes: a document as students read it, without what was written for machines; and the export of a file, or of a
folder with all files that its documents show.

Metadata blocks with the chats in them, pending edits (if it was decided which text counts), and special material (see
`study_documents`) are left out. The header keeps the keys that Pandoc, R Markdown or Quarto use. Everything else is
unchanged byte for byte; exporting an export changes nothing. `outline.stretches` determines how far a type extends.

A source is never overwritten: neither a document of this export, nor any document with metadata or special material in
it, since no export has any.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import msgspec

from lmm.disk import digest, files
from lmm.disk.folder import EXPORTED, SUFFIXES, Folder, check_named
from lmm.errors import ConfigError, EditError, FileReadError, FileWriteError, LmmError, MetadataError
from lmm.markdown import Span, spans, yaml_core
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock, ended, serialize
from lmm.markdown.comments import without_percent_comments
from lmm.markdown.inline import SCHEME
from lmm.markdown.metadata import without_blank_start
from lmm.markdown.parse_markdown import header_of, parse_markdown_text
from lmm.markdown.spans import included_pictures
from lmm.markdown.tree import HeadingNode, Node, TextNode, blocks_to_tree, fold, preorder
from lmm.markdown.units import fences_of_divs
from lmm.notebook.chat_log import clear_chat
from lmm.notebook.edits import damaged_edits, edit_error, find_edits, orphaned_marks, resolve
from lmm.notebook.outputs import read_cell
from lmm.notebook.text_types import Stretch, stretches
from lmm.type_names import is_one_of, named_type
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.books.chapters import with_inclusions
from lmm_education.config import StudySettings
from lmm_education.errors import ExportError, UnreadableMetadata
from lmm_education.ingestion.near_types import as_meant, check_metadata
from lmm_education.ingestion.plan import error_of, passed_over
from lmm_education.ingestion.source_files import find_sources
from lmm_education.options import Edits, ExportOptions as ExportOptions, several
from lmm_education.study.exercises import find_exercises
from lmm_education.study.study_documents import TEXT, is_special, settings_at, study_document

# Header keys that only our programs read. Others are kept, including those that we also read (title, lang, keywords,
# summary): Pandoc, Quarto or a theme may show them.
_OURS = frozenset(
    {
        *("docid", "textid", "headingid", "UUID", "group_UUID"),
        *("model", "RAG", "skip", "frozen", "type"),
        *("titles", "questions", "cards", "prerequisites", "requires"),
    }
)
_EXERCISES = StudySettings().exercises
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Material that was left out: an exercise, or another text of a special type, and its first line."""

    type: str
    line: int


@dataclass(frozen=True, slots=True)
class Notes:
    """A clean document. `nothing_left`: all of the document was special material."""

    text: str
    left_out: tuple[LeftOut, ...] = ()
    nothing_left: bool = False


def clean_notes(
    text: str,
    *,
    keep: Collection[str] = (),
    edits: Edits = "refuse",
    keep_lines: bool = False,
    where: str = "document",
    kinds: Withholding = DEFAULT,
) -> Notes:
    """Return the clean notes of a document.

    Args:
        keep: types of material to keep in the notes.
        edits: what to do with pending edits: refuse to export, or use the ``old`` or the ``new`` text.
        keep_lines: replace what is left out by blank lines, so that line numbers stay the same and error messages of
            other programs point to the right place.
        where: names the document in errors.
        kinds: see `stretches`.

    Raises:
        ExportError: an edit is pending, or has lost its marks; metadata cannot be read or removed.

    >>> clean_notes("# Leaves\\n\\n---\\ntype: exercise\\n---\\nWhy green?\\n\\nLeaves are green.\\n").text
    '# Leaves\\n\\nLeaves are green.\\n'
    """
    try:
        text, _ = as_meant(text, kinds.lasting)
        check_metadata(text)
    except UnreadableMetadata as error:
        raise ExportError(error.message, where=f"{where}:{error.where}", hint=error.hint) from error
    text = serialize(without_percent_comments(parse_markdown_text(text)))
    blocks = _resolved(_checked(parse_markdown_text(text), where), edits, where)
    header = header_of(blocks)
    tree = blocks_to_tree(blocks)
    if tree is None:
        return Notes("")
    kept, left_out = _chosen(tree, keep, kinds)
    listed = [item for item in left_out if is_one_of(item.type, _EXERCISES)]
    found = find_exercises([study_document(text, file=where, kinds=kinds)]) if listed else []
    if len(found) > len(listed):  # the items of a list count, as everywhere
        left_out = [item for item in left_out if item not in listed]
        left_out += [LeftOut(each.type, each.line) for each in found]
    cleaned = _clean_header(header, where) if header is not None else None
    stay = [cleaned if block is header else block for block in blocks if id(block) in kept or block is header]
    result = [block for block in stay if block is not None]
    text = _joined(result, blocks, header, cleaned, keep_lines)
    for block in parse_markdown_text(text)[cleaned is not None :]:
        if isinstance(block, MetadataBlock | ErrorBlock):  # a rule, once what closed it is gone
            line = next((each.line for each in result if block.content.startswith(each.content)), 1)
            what = "without our metadata, this rule would begin metadata"
            raise ExportError(what, where=f"{where}:{line}", hint="put a blank line below it, or write *** for it")
    nothing = bool(left_out) and not any(isinstance(block, TextBlock | HeadingBlock) for block in result)
    return Notes(text, tuple(left_out), nothing)


# -- checks ----------------------------------------------------------------------------------------


def _checked(blocks: list[Block], where: str) -> list[Block]:
    for block in blocks:
        if isinstance(block, ErrorBlock):
            place = f"{where}:{block.error_line or block.line}:{block.error_column}"
            raise ExportError(f"this metadata cannot be read: {block.reason}", where=place, hint=block.hint)
    for line in damaged_edits(blocks):
        raise ExportError(
            "the marks of this edit are missing",
            where=f"{where}:{line}",
            hint="restore them, or correct it and delete '~edit_'",
        )
    for line in orphaned_marks(blocks):
        raise ExportError("there is no edit for this mark", where=f"{where}:{line}", hint="delete the line")
    return blocks


def _resolved(blocks: list[Block], edits: Edits, where: str) -> list[Block]:
    """Return the document with its edits resolved, each block at its original line."""
    waiting = find_edits(blocks)
    if not waiting:
        return blocks
    if edits == "refuse":
        others = [str(edit.line) for edit in waiting[1:]]
        more = f", and others at {', '.join(others)}" if others else ""
        raise ExportError(
            f"an edit is pending here{more}",
            where=f"{where}:{waiting[0].line}",
            hint="lmm accept or lmm reject it, or export with --edits old or --edits new",
        )
    try:
        resolved, _, refused = resolve(blocks, "accept" if edits == "new" else "reject")
        if refused:
            raise edit_error(refused)
    except EditError as error:
        hint = "correct the new text, lmm accept --force or lmm reject it, or export with --edits old"
        raise ExportError(error.message, where=where, hint=hint) from error
    except LmmError as error:
        raise ExportError(error.message, where=where, hint=error.hint) from error
    # Joined blocks may parse differently; if they do not, the original line numbers are still valid.
    parsed = parse_markdown_text(serialize(resolved))
    same = [(b.kind, b.source) for b in parsed] == [(b.kind, b.source) for b in resolved]
    return resolved if same else _checked(parsed, where)


# -- selection -------------------------------------------------------------------------------------


def _chosen(tree: HeadingNode, keep: Collection[str], special: Withholding) -> tuple[set[int], list[LeftOut]]:
    """Return the ids of the headings and texts to keep, and what is left out."""
    found = stretches(tree, special.names)
    fences = fences_of_divs(tree)
    for first, last in fences:
        found.pop(id(last), None)
        if id(first) in found:
            found[id(last)] = found[id(first)]
    kinds = {id(node): TEXT for node in preorder(tree)}
    for key, each in found.items():  # of several types, one that is withheld from students decides
        kinds[key] = next((kind for kind in each.types if is_one_of(kind, special.lasting)), each.types[0])
    stays: dict[int, bool] = {}

    def visit(node: Node, below: list[bool]) -> bool:
        """Return whether a node is kept. A special heading is left out, and one called Exercises over nothing else,
        unless something below it is kept."""
        ordinary = _block(node) is not None and not is_special(kinds[id(node)], keep)
        if below and isinstance(node, HeadingNode) and node.heading is not None:
            ordinary &= not named_type(node.heading.title, (*special.exercises, *special.solutions), plural=True)
        stays[id(node)] = any(below) or ordinary
        return stays[id(node)]

    fold(tree, visit)
    nodes = list(preorder(tree))
    place = {id(node): at for at, node in enumerate(nodes)}
    for first, last in fences:  # a heading inside a div is left out with it, whatever follows the div
        inside = nodes[place[id(first)] : place[id(last)]] if is_special(kinds[id(first)], keep) else []
        stays |= {id(node): False for node in inside if is_special(kinds[id(node)], keep)}
    kept = {id(b) for node in nodes if stays[id(node)] for b in (_block(node),) if b is not None}
    texts = [node for node in nodes if isinstance(node, TextNode) and node.block is not None]
    gone: dict[Stretch, LeftOut] = {}
    for node in texts:
        if node.block is not None and not stays[id(node)]:
            gone.setdefault(found[id(node)], LeftOut(kinds[id(node)], node.block.line))
    return kept, list(gone.values())


def _block(node: Node) -> Block | None:
    return node.heading if isinstance(node, HeadingNode) else node.block if isinstance(node, TextNode) else None


# -- the header ------------------------------------------------------------------------------------


def _clean_header(header: HeaderBlock, where: str) -> HeaderBlock | None:
    """Return the header without our keys; None if nothing is left.

    Raises:
        ExportError: its form does not allow keys to be removed.
    """
    try:
        cleaned = clear_chat(header, pending=True)
        for key, value in cleaned.values().items():
            if _is_ours(key, value):
                cleaned = cleaned.without_key(key)
    except MetadataError as error:
        hint = error.hint or "write one 'key: value' on a line"
        raise ExportError(
            f"lmm's keys cannot be removed from this header: {error.message}", where=f"{where}:{header.line}", hint=hint
        ) from error
    # A blank line after the opening --- would turn it into a thematic break.
    cleaned = cleaned.with_body(without_blank_start(cleaned.body))
    read = parse_markdown_text(cleaned.source)
    is_header = len(read) == 1 and isinstance(read[0], HeaderBlock)
    assert isinstance(cleaned, HeaderBlock)
    return cleaned if is_header and cleaned.values() else None


def _is_ours(key: str, value: object) -> bool:
    name = key.removesuffix("=")
    if key == "knit":  # runs our own export, which the clean document no longer needs
        return re.search(r"\blmm\b", str(value)) is not None
    return key.startswith("~") or name != key or name in _OURS


# -- assembly --------------------------------------------------------------------------------------


def _joined(
    kept: Sequence[Block], blocks: Sequence[Block], header: Block | None, cleaned: Block | None, keep_lines: bool
) -> str:
    """Return the sources of the kept blocks, with blank lines only where two would otherwise merge."""
    if not kept:
        return ""
    following = {id(a): b for a, b in pairwise(blocks)}
    if cleaned is not None and header is not None:
        following[id(cleaned)] = following.get(id(header), header)
    parts = list[str]()
    for block, after in pairwise((*kept, None)):
        assert block is not None
        is_next = after is None or following.get(id(block)) is after
        parts.append((block if is_next or after is None else ended(block, after.newline)).source)
    if blocks[0].source.startswith(_BOM) and not parts[0].startswith(_BOM):
        parts[0] = _BOM + parts[0]
    return "".join(_padded(kept, parts) if keep_lines else parts)


def _padded(kept: Sequence[Block], parts: Sequence[str]) -> Iterator[str]:
    """Iterate over the parts, with blank lines before those that would otherwise move up."""
    line = 1
    for block, part in zip(kept, parts, strict=True):
        before = len(block.source) - len(block.source.lstrip("\ufeff \t\r\n"))
        begins = block.line - block.source.count("\n", 0, before)
        missing = max(0, begins - line)
        mark = _BOM if missing and part.startswith(_BOM) else ""
        yield mark + block.newline * missing + part.removeprefix(mark)
        line += missing + part.count("\n")


# -- linked files ----------------------------------------------------------------------------------


# In code that knitr runs: pictures, and documents that are knitted into this one.
_SHOWING = ("img", "a", "source", "video", "audio", "iframe")
_IN_HEADER = ("bibliography", "csl", "css", "logo", "cover-image", "favicon", "theme", "filters")
_OF_PROJECTS = ("_quarto.yml", "_metadata.yml", "_bookdown.yml", "_output.yml", "_config.yml", "mkdocs.yml")


@dataclass(frozen=True, slots=True)
class Link:
    """A relative path, with ``/``, and the line on which it begins."""

    target: str
    line: int


def local_links(text: str) -> list[Link]:
    """Return the relative paths in a markdown text without repetitions, in order; paths in displayed code are ignored.

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
    """Iterate over the addresses in a span, each with its offset in the text."""
    if span.kind in ("link", "image", "definition") and span.target not in ("", "^"):
        yield span.target, span.end - 1  # the position of the address
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
    """Return the path of a target if it is relative; otherwise empty."""
    if SCHEME.match(target) or target.startswith(("/", "\\", "#", "@")):
        return ""
    return unquote(re.split("[?#]", target, maxsplit=1)[0])


Cleaner = Callable[..., Notes]
"""`clean_notes` with the settings for a place."""

# -- exports ---------------------------------------------------------------------------------------


def cleaner_for(options: ExportOptions, path: Path) -> Cleaner:
    """Return a function that cleans the text of a document at this path, or in this folder."""
    settings = settings_at(path, options.config)
    keep, edits = (*settings.study.keep, *several(options.keep)), options.edits or settings.study.edits
    return partial(clean_notes, keep=keep, edits=edits, keep_lines=options.keep_lines, kinds=settings.withholding)


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported document: source, target, what was left out, and whether the target file changed."""

    source: Path
    target: Path
    notes: Notes
    changed: bool

    @property
    def left_out(self) -> dict[str, int]:
        """The number of texts of each type that are not in the notes."""
        return dict(Counter(item.type for item in self.notes.left_out))


@dataclass(slots=True, repr=False)
class ExportReport:
    """The result of an export. `copied` are files that documents show or link to; `skipped` are files without notes,
    and why; `notices` are for the author."""

    documents: list[Exported] = field(default_factory=list)
    copied: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"ExportReport({len(self.documents)} documents, {len(self.skipped)} left out, {len(self.errors)} failed)"

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for ``--json``."""
        documents = [
            {"source": each.source, "target": each.target, "changed": each.changed,
             "left_out": [{"type": item.type, "line": item.line} for item in each.notes.left_out]}
            for each in self.documents
        ]  # fmt: skip
        skipped = [{"file": path, "reason": reason} for path, reason in self.skipped]
        values = {"documents": documents, "copied": self.copied, "skipped": skipped}
        found: dict[str, Any] = msgspec.to_builtins(
            values | {"notices": self.notices, "errors": self.errors}, enc_hook=str
        )
        return found


def read_notes(path: str | Path, options: ExportOptions = ExportOptions()) -> Notes:
    """Return the clean notes of a file, without writing them.

    Raises:
        ExportError: it cannot be exported as it is, or all of it is special material.
        DocumentError, ConfigError: the file or the configuration cannot be read.
    """
    path = Path(path)
    notes = cleaner_for(options, path)(with_inclusions(path, files.read_document(path)), where=str(path))
    if notes.nothing_left:
        raise ExportError(_special(notes), where=str(path), hint=f"--keep {notes.left_out[0].type}, to export it")
    return notes


def export_notes(path: str | Path, output: str | Path, options: ExportOptions = ExportOptions()) -> ExportReport:
    """Write the clean notes of a file to `output`, or those of a folder's documents into the folder `output`.

    An `output` that ends with a slash is a folder, which is created even for a single file. A folder is mirrored: its
    documents, and the files in it that they show or link to. A file whose content would not change is not written.

    Raises:
        ExportError: a file cannot be exported as it is, or would overwrite a source. For a folder, such errors are
            collected in the report.
        DocumentError, ConfigError: a file or the configuration cannot be read, or nothing can be written;
            `LinkOutside` if a path, or something in the output folder, is a link out of its folder.
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
    report = ExportReport([_write(path, notes, target, [path], cleaner_for(options, path))])
    # A hidden file is not a document anyway: the knit hook writes one beside the source and removes it.
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
    kinds = ", ".join(dict.fromkeys(item.type for item in notes.left_out))
    return f"the whole document is special material ({kinds})"


def _write(source: Path, notes: Notes, target: Path, sources: Collection[Path], cleaner: Cleaner) -> Exported:
    """Write notes to a file, if that changes it.

    Raises:
        ExportError: `target` is a source, or contains something that an export would leave out: somebody's work.
    """
    if any(_same(target, source) for source in sources):
        raise ExportError("this is the source itself", where=str(target), hint="choose another place with -o")
    is_there = target.exists()
    try:
        is_export = not is_there or cleaner(text := files.read_document(target), where=str(target)).text == text
    except (ExportError, FileReadError):
        is_export = False
    if not is_export:
        raise ExportError(
            "this document is not an earlier export",
            where=str(target),
            hint="choose another place with -o, or move it away",
        )
    data = notes.text.encode("utf-8", "surrogatepass")
    changed = not is_there or target.read_bytes() != data
    if changed:
        files.replace(target, data)
    return Exported(source, target, notes, changed)


def _check_alike(source: Path, target: Path) -> None:
    """Check that a target contains lines of the source, as an earlier export under another name does."""
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
    cleaner = cleaner_for(options, folder)
    found = find_sources([folder], folder.resolve())
    report = ExportReport(skipped=list(found.skipped), errors=list(found.errors))
    inside = [s for s in found.documents if not _is_in(s.path, output)]
    sources = {source.path for source in inside}
    for source in inside:
        try:
            text = with_inclusions(source.path, files.read_document(source.path))
            reason, notes = passed_over(source, text), Notes("")
            if not reason:
                notes = cleaner(text, where=str(source.path))
                reason = _special(notes) if notes.nothing_left else ""
            if reason:
                report.skipped.append((source.path, reason))
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
    """List the exported files in the output folder, so that no command takes them for documents of the course."""
    known = output.exported()
    written = dict[str, str]()
    for each in report.documents:  # with ./ in front if it is beside its source
        beside = "./" if _same(each.source.parent, each.target.parent) else ""
        written[beside + each.target.relative_to(output.root).as_posix()] = digest(each.notes.text, length=16)
    if written.items() - known.items():
        lines = (f"{hash}  {name}\n" for name, hash in sorted({**known, **written}.items()))
        output.write(EXPORTED, "".join(lines).encode("utf-8", "surrogateescape"))  # names may be any bytes


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _copy_linked(folder: Path, output: Path, report: ExportReport) -> None:
    """Copy the files in the folder that its notes show or link to, and report missing ones."""
    copied: set[Path] = set()
    for document in report.documents:
        for link in local_links(document.notes.text):
            path = document.source.parent / link.target
            page = path.suffix == ".html" and any(path.with_suffix(suffix).is_file() for suffix in SUFFIXES)
            if page or path.suffix.lower() in SUFFIXES or path in copied or path.is_dir():
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
    """Copy the project files with which Quarto, bookdown and others build a book, and the files that they name."""
    folders = {above for each in report.documents for above in each.source.parents if _is_in(above, folder)}
    for place in sorted(folders):
        for project in (place / name for name in _OF_PROJECTS if (place / name).is_file()):
            settings = None
            with contextlib.suppress(LmmError):  # the build of the project will report it
                settings = yaml_core.to_value(yaml_core.compose(files.read_document(project)))
            shown = [place / path for target in _in_project(settings) if (path := _local(target))]
            for file in (project, *(each for each in shown if each.is_file() and _is_in(each, folder))):
                _copy(folder, output, os.path.relpath(file, folder), report)


def _in_project(values: Any) -> Iterator[str]:
    """Iterate over the files that a project's settings name, at any depth."""
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
