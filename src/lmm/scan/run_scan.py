"""Work on whole documents without a model: complete and check them, clear chats, resolve edits."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from lmm.disk import files
from lmm.disk.shared import SharedFile
from lmm.errors import DocumentError, MetadataError
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.scan.chat_log import clear_chat, unless_emptied
from lmm.scan.document_file import is_sound, open_document
from lmm.scan.edits import Verdict, resolve
from lmm.scan.header import complete_header
from lmm.scan.problems import Problem, find_problems, header_gaps

# -- scan ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanReport:
    """A document's text after a scan, what was found in it, and whether it was changed.

    `fixed` counts the values that were spelled anew, so that knitr does not run code in them.
    """

    text: str
    problems: tuple[Problem, ...]
    changed: bool
    fixed: int = 0


def scan(path: str | Path, *, check: bool = False, fix: bool = False) -> ScanReport:
    """Complete a file's header where ``title`` or ``docid`` is missing, and report its problems.

    With `check`, nothing is written, and what is missing is reported. With `fix`, replies and other values of
    models in which knitr would run code are spelled so that it does not; they stay the same values.

    Raises:
        DocumentError: the file cannot be read or written.
    """
    path = Path(path)
    document = open_document(path)
    with contextlib.nullcontext() if check else document.locked():
        report = scan_text(document.base, name=files.title_of(path), check=check, fix=fix)
        return replace(report, text=_save(document, report.text)) if report.changed else report


def scan_text(text: str, *, name: str = "document", check: bool = False, fix: bool = False) -> ScanReport:
    """`scan` for a string; `name` stands for the file's name.

    >>> scan_text("Some text.\\n", name="notes").text.splitlines()[:2]
    ['---', 'title: notes']
    """
    blocks = parse_markdown_text(text)
    gaps = header_gaps(blocks) if check else []
    fixed = [_without_running_code(block) for block in blocks] if fix and not check else blocks
    changed = text if check else serialize(complete_header(fixed, name=name))
    problems = find_problems(parse_markdown_text(changed))
    count = sum(_running(before) - _running(after) for before, after in zip(blocks, fixed, strict=True))
    return ScanReport(changed, (*gaps, *problems), changed != text, count)


def _running(block: Block) -> int:
    return len(metadata.run_when_knit(block.body)) if isinstance(block, MetadataBlock) else 0


def _without_running_code(block: Block) -> Block:
    """A block that knitr leaves alone, where that can be had without changing a value."""
    if not isinstance(block, MetadataBlock):
        return block
    with contextlib.suppress(MetadataError):
        body = metadata.without_running_code(block.body)
        return block if body == block.body else block.with_body(body)
    return block


# -- clear ---------------------------------------------------------------------------------------


def clear_messages(path: str | Path, *, pending: bool = False) -> bool:
    """Remove the chats of a file (with `pending`, unanswered prompts too); whether there were any.

    A metadata block that held nothing else goes with them.
    """
    document = open_document(Path(path))
    with document.locked():
        text = clear_messages_text(document.base, pending=pending)
        if text == document.base:
            return False
        _save(document, text)
        return True


def clear_messages_text(text: str, *, pending: bool = False) -> str:
    """`clear_messages` for a string.

    >>> clear_messages_text("---\\n~chat_:\\n  - query: a\\n    ~reply: b\\n---\\nText.\\n")
    'Text.\\n'
    """
    kept: list[Block] = []
    blocks = parse_markdown_text(text)
    for block, following in zip_longest(blocks, blocks[1:]):
        cleared = clear_chat(block, pending=pending) if isinstance(block, MetadataBlock) else None
        if cleared is not None and cleared.source != block.source:
            kept += unless_emptied(cleared, following)
        else:
            kept.append(block)
    return serialize(kept)


# -- edits ---------------------------------------------------------------------------------------


def accept_edits(path: str | Path, *, line: int | None = None, force: bool = False) -> int:
    """Keep the new texts of a file's waiting edits (with `line`, of the one that covers it); how many.

    What the author made of a new text meanwhile is kept with it.

    Raises:
        EditError: text would be lost, by a reply that was cut off or drops what others refer to, or because the
            author changed the old text meanwhile. `force` accepts it all the same.
        LmmError: no edit waits at `line`, or an edit has lost its marks.
    """
    return _resolve_file(Path(path), "accept", line, force=force)


def reject_edits(path: str | Path, *, line: int | None = None, again: bool = False) -> int:
    """Restore the old texts of a file's waiting edits, byte for byte (`again`: and the questions); how many."""
    return _resolve_file(Path(path), "again" if again else "reject", line)


def accept_edits_text(text: str, *, line: int | None = None, force: bool = False) -> str:
    """`accept_edits` for a string."""
    return serialize(resolve(parse_markdown_text(text), "accept", line=line, force=force)[0])


def reject_edits_text(text: str, *, line: int | None = None, again: bool = False) -> str:
    """`reject_edits` for a string.

    >>> from lmm.models.testing import ScriptedModel
    >>> from lmm.scan import scan_messages_text
    >>> before = "---\\ntype: x\\n=: shorten\\n---\\nA long text.\\n"
    >>> edited = scan_messages_text(before, model=ScriptedModel(["A text."])).text
    >>> reject_edits_text(edited)
    '---\\ntype: x\\n---\\nA long text.\\n'
    >>> reject_edits_text(edited, again=True) == before
    True
    >>> accept_edits_text(edited)
    '---\\ntype: x\\n---\\nA text.\\n'
    """
    return serialize(resolve(parse_markdown_text(text), "again" if again else "reject", line=line)[0])


def _resolve_file(path: Path, verdict: Verdict, line: int | None, *, force: bool = False) -> int:
    document = open_document(path)
    with document.locked():
        blocks, count = resolve(parse_markdown_text(document.base), verdict, line=line, force=force)
        if count:
            _save(document, serialize(blocks))
        return count


# -- saving --------------------------------------------------------------------------------------


def _save(document: SharedFile, text: str) -> str:
    """Save what became of a document; its text now.

    Raises:
        DocumentError: it cannot be written, or a part found no place, as the author saved meanwhile.
    """
    files.check_writable(document.path)
    saved = document.save(text, check=is_sound)
    if saved.side_file is not None:
        raise DocumentError(
            "the file was changed meanwhile, and a part of what we made found no place in it",
            where=str(document.path),
            hint=f"it is in {saved.side_file}; the file holds what its author saved",
        )
    return saved.text
