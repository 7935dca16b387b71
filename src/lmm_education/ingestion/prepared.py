"""Prepared files: the result of a preparation step as markdown that can be read, edited and ingested.

Each step has a file. Its header marks it as ours, and names the document. Every item of the step (a pooled text, a
section, a chunk) begins with a metadata block with its lines in the source and its own properties; headings have
theirs, so that annotations can be reviewed where they belong. The file of pooled texts may be edited, and ingested
instead of the document; the others are for inspection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from lmm.disk import files
from lmm.markdown.blocks import HeaderBlock, MetadataBlock
from lmm.markdown.parse_markdown import header_values
from lmm.markdown.tree import TextNode
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.config import Preparation
from lmm_education.errors import IngestError
from lmm_education.ingestion.outline import (
    Heading,
    Item,
    Outline,
    TextItem,
    block_text,
    read_outline,
    without_conversation,
)
from lmm_education.ingestion.packing import key_of
from lmm_education.ingestion.prepare import Count, Steps, cut_into_passages, limits_of
from lmm_education.ingestion.source_files import MARK, is_own_output
from lmm_education.ingestion.steps import SUMMARY, ChunkDraft, Part, join
from lmm_education.material import Lines

# The program's own keys in a prepared file.
LINES, METADATA, TEXT, REPEATED, GAPS, OWNER, KEY = (
    *("~~lines", "~~metadata", "~~text", "~~repeated", "~~gaps", "~~owner", "~~key"),
)
_HASH = re.compile(r"^  hash: \w+\r?\n", re.MULTILINE)
_GAP = re.compile(r"(\d{1,9})\+(-?\d{1,9})")
_RANGE = re.compile(r"(\d+)(?:[-–](\d+))?\Z")
# Closes any comment, equation or fence that a text leaves open.
_CLOSERS = "\n\n".join(["end", "-->", "$$", "`" * 99, "~" * 99])
_PARTS = _CLOSERS.count("\n\n") + 1
_KEPT_IN_METADATA = "<!-- This text is above, in ~~text: here, markdown would read it as something else. -->"


Shown = Iterator[tuple[Item, Part | None]]
"""The contents of a file in order: each item, and the part that begins with it, if any."""


# -- writing ---------------------------------------------------------------------------------------


def step_files(steps: Steps) -> dict[str, str]:
    """Return the prepared files of a document, by name.

    >>> from lmm_education.ingestion.prepare import prepare_steps
    >>> settings = Preparation()
    >>> steps = prepare_steps("# Leaves\\n\\nThey are green.\\n", docid="b", file="botany.md", settings=settings)
    >>> files = step_files(steps)
    >>> list(files)
    ['botany.pooled.md', 'botany.documents.md', 'botany.chunks.md']
    >>> print(files["botany.chunks.md"].partition("---\\n\\n")[2])
    ---
    ~~lines: 1–3
    ---
    # Leaves
    <BLANKLINE>
    ---
    ~~lines: 3
    ---
    They are green.
    <BLANKLINE>
    """
    stem = PurePosixPath(steps.file).stem
    skipped = "documents" if steps.settings.documents == "none" else ""
    return {f"{stem}.{name}.md": render(steps, name) for name in STEPS if name != skipped}


def render(steps: Steps, name: str) -> str:
    """Return the prepared file of one step."""
    shown = [_heading(i, part) if isinstance(i, Heading) else _text(i, name) for i, part in STEPS[name](steps)]
    header, body = _header(steps, name), "".join(shown)
    mark = header[MARK]
    return _document(header | {MARK: mark | {"hash": _hash(_document(header, body))}}, body)


def _document(header: Mapping[str, Any], body: str) -> str:
    return f"{HeaderBlock.make(header).source}\n{body}".rstrip("\n") + "\n"


def _header(steps: Steps, name: str) -> dict[str, Any]:
    root = steps.outline.root
    mark: dict[str, Any] = {"step": name, "file": steps.file}
    values = without_conversation(root.values)
    if "title" not in root.own:
        title, headings = steps.outline.title, [item.title for item in steps.pooled if isinstance(item, Heading)]
        is_given = title not in (*headings, PurePosixPath(steps.file).stem)  # by a header in another notation
        mark["source_title" if is_given else "title"] = title
    if SUMMARY in root.own:
        mark["lines"] = _range_text(Lines(root.metadata_line, root.line))
    changed = _changed(msgspec.to_builtins(Preparation()), msgspec.to_builtins(steps.settings))
    return {"docid": steps.docid} | values | {"docid": steps.docid, MARK: mark | changed}


def _changed(default: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the defaults, as plain values."""
    changed: dict[str, Any] = {}
    for key, value in chosen.items():
        if isinstance(value, Mapping):
            changed |= {key: inner} if (inner := _changed(default[key], value)) else {}
        elif value != default[key]:
            changed[key] = value
    return {"settings": changed} if changed and "pool" in chosen else changed


def _heading(heading: Heading, part: Part | None) -> str:
    opens = part is not None and heading in part.opening
    values = without_conversation(heading.values)
    values[LINES] = _range_text(part.lines) if part is not None and opens else heading.line
    if SUMMARY in heading.own:
        values[METADATA] = heading.metadata_line
    if heading.owner:
        values[OWNER] = heading.owner
    return f"{MetadataBlock.make(values).source}{heading.source}\n\n"


def _text(text: TextItem, step: str) -> str:
    values, shown = without_conversation(text.values), text.text
    values[LINES] = _range_text(text.lines)
    if text.repeated:
        values[REPEATED] = text.repeated
    if text.gaps:
        values[GAPS] = " ".join(f"{at}+{lines}" for at, lines in text.gaps)
    if text.owner:
        values[OWNER] = text.owner
    if text.key != key_of(shown):  # in a div, whose fences are not shown
        values[KEY] = text.key
    if step == "pooled" and not _reads_back(shown):  # the others are for looking at
        values[TEXT], shown = shown, _KEPT_IN_METADATA
    return f"{MetadataBlock.make(values).source}{shown}\n\n"


def _range_text(lines: Lines) -> int | str:
    """Return a range of lines, with a dash that YAML need not quote."""
    return lines.first if lines.first == lines.last else f"{lines.first}–{lines.last}"


def _reads_back(text: str) -> bool:
    """Return whether a text between metadata blocks is parsed as the same text, whatever follows in the file."""
    block = "---\nx: 1\n---\n"
    found = read_outline(f"{block}\n{block}{text}\n\n{block}{_CLOSERS}\n").items
    texts = [item for item in found if isinstance(item, TextItem)]
    joined = "\n\n".join(item.text for item in texts)
    marked = [i for i, item in enumerate(found) if item.values]
    return len(texts) == len(found) and joined == f"{text}\n\n{_CLOSERS}" and marked == [0, len(found) - _PARTS]


def _documents(steps: Steps) -> Shown:
    for part, _ in steps.parts:
        yield from _of_part(part, part.items)


def _chunks(steps: Steps) -> Shown:
    for part, passages in steps.parts:
        yield from _of_part(part, list(_with_headings(part, passages)))


def _of_part(part: Part, items: Sequence[Item]) -> Shown:
    """Iterate over the headings that open a part, and its items."""
    opening = [] if part.by_size else [heading for heading in part.opening if heading.level]
    for number, item in enumerate([*opening, *items]):
        yield item, part if number == 0 else None


def _with_headings(part: Part, passages: Sequence[ChunkDraft]) -> Iterator[Item]:
    """Iterate over the texts of passages, each after the headings that precede it in the part."""
    inner = {id(heading) for passage in passages for heading in passage.inner}
    headings = [item for item in part.items if isinstance(item, Heading) and id(item) not in inner]
    for passage in passages:
        while any(heading is passage.heading for heading in headings):
            yield headings.pop(0)
        yield _as_text(passage)
    yield from headings


def _as_text(passage: ChunkDraft) -> TextItem:
    values = {"type": SUMMARY} if passage.is_summary else passage.values
    return TextItem(
        text=passage.text,
        lines=passage.lines,
        heading=passage.heading,
        key=key_of(passage.text),
        values=values,
        own=passage.own,
        owner=passage.owner,
    )


# The steps with a file, `NAME.step.md`, and the contents of each.
STEPS: dict[str, Callable[[Steps], Shown]] = {
    "pooled": lambda steps: ((item, None) for item in steps.pooled),
    "documents": _documents,
    "chunks": _chunks,
}


# -- recognising -----------------------------------------------------------------------------------


def is_edited(text: str) -> bool:
    """Return whether a prepared file was edited since it was written, ignoring line endings."""
    written = _HASH.search(text)
    return written is None or written[0].split()[1] != _hash(_HASH.sub("", text, count=1))


def _hash(text: str) -> str:
    # A letter in front, because YAML would read some digests as numbers, and quote them.
    return "h" + hashlib.sha256(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()[:15]


# -- reading ---------------------------------------------------------------------------------------


def read_mark(text: str) -> tuple[str, str]:
    """Return the docid and the path of the document that a prepared file was made from.

    Raises:
        IngestError: the header cannot be read, or does not identify the file.
    """
    header = _read_header(text)
    return str(header["docid"]), header[MARK]["file"]


def read_steps(text: str, *, count: Count | None = None, withholding: Withholding = DEFAULT) -> Steps:
    """Return the steps in a prepared file, edited or not, with the settings that it was made with.

    Raises:
        IngestError: the header cannot be read, or does not identify the file.
    """
    header = _read_header(text)
    mark = header[MARK]
    settings = msgspec.convert(mark.get("settings", {}), Preparation)
    # Each text of a stretch has its own type in a prepared file.
    outline = read_outline(text, title=str(mark.get("title", "")), lasting=(), read_text=_read_text)
    lines = _range(mark.get("lines"), Lines(1, 1))
    root = replace(outline.root, metadata_line=lines.first, line=lines.last)
    items = tuple(_joined(_placed(outline, root)))
    outline = replace(outline, root=root, title=str(mark.get("source_title", outline.title)))
    steps = Steps(str(header["docid"]), mark["file"], settings, outline, items, withholding=withholding)
    return cut_into_passages(steps, limits_of(settings, count, where=mark["file"]))


def _read_header(text: str) -> dict[str, Any]:
    """Return the header's values, if they identify the file."""
    values = header_values(text)
    mark = values.get(MARK)
    if not isinstance(mark, Mapping) or mark.get("step") not in STEPS or "docid" not in values:
        raise IngestError(
            "the header of this prepared file does not name its document and step",
            where="1",
            hint=f"restore 'docid' and '{MARK}', or write the file again with --save-files",
        )
    if mark["step"] != "pooled":
        raise IngestError(
            f"this file shows the {mark['step']} of a document, for reading only",
            where="1",
            hint="edit the document, or its file of pooled texts (--save-files writes it), and ingest that",
        )
    return values | {MARK: dict(mark) | {"file": str(mark.get("file", ""))}}


def _read_text(node: TextNode) -> str:
    kept = node.metadata.get(TEXT)
    return str(kept) if kept is not None else block_text(node)


def _placed(outline: Outline, root: Heading) -> Iterator[Item]:
    """Iterate over the items with their lines in the source; an added one gets those of the item before it."""
    moved = {id(outline.root): root}
    after = 0
    for item in outline.items:
        recorded = item.values.get(LINES)
        if isinstance(item, Heading):
            line = _range(recorded, Lines(after + 2, after + 2)).first
            placed = replace(item, line=line, metadata_line=item.values.get(METADATA, line), owner=_owner(item, line))
            moved[id(item)] = placed
            after = line
            yield placed
        else:
            lines = _range(recorded, Lines(after + 2, after + 2 + item.text.count("\n")))
            after = lines.last
            repeated = item.values.get(REPEATED, 0)
            owner, key = _owner(item, lines.first), item.values.get(KEY, item.key)
            gaps = tuple((int(at), int(more)) for at, more in _GAP.findall(str(item.values.get(GAPS, ""))))
            item = replace(item, lines=lines, heading=moved[id(item.heading)], repeated=repeated, owner=owner, key=key)
            yield replace(item, gaps=gaps)


def _owner(item: Item, line: int) -> int:
    """Return the line in the source of what gives an item its type; its own line if that was added here."""
    recorded = item.values.get(OWNER)
    return recorded if isinstance(recorded, int) else line if item.owner else 0


def _joined(items: Iterable[Item]) -> Iterator[Item]:
    """Iterate over the items, joining a text without a metadata block to the text before it."""
    held: TextItem | None = None
    for item in items:
        if isinstance(item, TextItem) and held is not None and not item.values:
            held = replace(join([held, item]), lines=held.lines)
            continue
        if held is not None:
            yield held
        held = item if isinstance(item, TextItem) else None
        if held is None:
            yield item
    if held is not None:
        yield held


def _range(value: Any, default: Lines) -> Lines:
    match = _RANGE.match(str(value))
    return Lines(int(match[1]), int(match[2] or match[1])) if match else default


# -- files -------------------------------------------------------------------------------------------


def write_step_files(
    texts: Mapping[str, str], folder: Path, *, docid: str, file: str
) -> tuple[tuple[Path, ...], list[str]]:
    """Write the files of a document into `folder`, which is created if necessary; return their paths, and notices.

    An edited one is kept, with ``.bak`` appended to its name.

    Raises:
        IngestError: a file of that name belongs to another document; nothing is written in this case.
        FileReadError, FileWriteError: a file cannot be read or written.
    """
    paths = {folder / name: text for name, text in texts.items()}
    before = {path: files.read_document(path) for path in paths if path.exists()}
    for path, old in before.items():
        if not _shows(old, docid, file):
            raise IngestError(
                "this file was not written by lmm ingest, so it is not replaced",
                where=str(path),
                hint="rename it, or choose another folder with --output",
            )
    folder.mkdir(parents=True, exist_ok=True)
    notices = []
    for path, text in paths.items():
        if (old := before.get(path, text)) != text and is_edited(old):
            names = (path.with_name(f"{path.name}.bak{number}") for number in chain([""], count(2)))
            backup = next(name for name in names if not name.exists())
            files.replace(backup, old)
            notices.append(f"{path} was edited by hand; that version is kept as {backup.name}")
        if before.get(path) != text:
            files.replace(path, text)
    return tuple(paths), notices


def _shows(text: str, docid: str, file: str) -> bool:
    """Return whether a text is a prepared file of this document, edited or not, and not of one with the same name."""
    values = header_values(text) if is_own_output(text) else {}
    mark = values.get(MARK)
    return bool(values) and (values.get("docid") == docid or (isinstance(mark, Mapping) and mark.get("file") == file))
