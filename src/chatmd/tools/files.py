"""The tools for single files: `read_file`, `write_file`, `append_to_file`, `find_and_replace`, `import_image`,
`read_skill`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from chatmd.content.images import describe_image, image_from
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.changes import Change, apply_changes, lock_files, read_content
from chatmd.tools.patch import as_typed, nearest
from chatmd.tools.registry import OpenTools, offer, renaming
from chatmd.tools.roots import LOOK, RootedPath, ToolRoots, roots_of
from chatmd.tools.schedule import IN_ORDER
from chatmd.tools.text_lines import READ, TextLines, are_numbered, decode_text, encode_text, read_excerpt, with_newline
from lmm import terminal
from lmm.disk.files import read_document
from lmm.disk.opened import open_folder, read_errors
from lmm.markdown.parse_markdown import header_values
from lmm.messages import ToolOutput

# -- The tools for single files: `read_file`, `write_file`, `append_to_file`, `find_and_replace` --------------


PATH: dict[str, Any] = {"type": "string", "description": "the file's path", "minLength": 1}
OFFSET = {"type": "integer", "minimum": 0, "description": "the number of the first line to read; 1 if left out"}
_CONTENT = {"type": "string"}
_AROUND_TEXT = 300  # characters of a result around the file's text
_MOST_PLACES = 20  # that a report lists


def open_read_file(declared: Tool, run: Run) -> OpenTools:
    """Open `read_file` for the roots of its declaration."""
    roots, limit = roots_of(declared, run), declared.max_output or run.rules.max_output

    def call(path: str, offset: int = 1, line_count: int | None = None) -> str:
        return read_file(roots, path, int(offset), line_count and int(line_count), limit)

    return offer(
        "read_file",
        call,
        f"Read a text file, or some of its lines. {roots.described()} First comes a line PATH:FIRST-LAST: and one with "
        "[total_lines=N], then each line after its number and a tab; what is left out is said at the end.",
        ("path",),
        path=PATH,
        offset=OFFSET,
        line_count={"type": "integer", "minimum": 1, "description": "how many lines to read; as many as fit"},
        read=renaming(file="path", file_path="path", limit="line_count"),
    )


def read_file(roots: ToolRoots, path: str, offset: int, count: int | None, limit: int) -> str:
    """Return the lines from `offset`, 1 or 0 for the first, with a header and, if there are more, a footer.

    They have at most `limit` characters.

    Raises:
        FileRefused: the file is not in the roots.
        DocumentError: it cannot be read, or is not text.
        ChatmdError: it has no such lines.
    """
    target, skipped = roots.readable(path), max(offset - 1, 0)
    if not os.path.lexists(target.real):
        raise roots.missing(target)
    budget = max(limit - _AROUND_TEXT - len(target.name), 100)
    there = target.real
    with read_errors(target.name, look=LOOK), open_folder(there.parent) as folder, folder.open(there.name) as file:
        found = read_excerpt(file, target.name, offset=skipped, count=count, budget=budget)
    if not found.total:
        return f"{target.name} is empty."
    if skipped >= found.total:
        looked_at = "" if found.exact else f"only its first {READ // 1_000_000} MB are looked at"
        raise ChatmdError(
            f"it has {found.total} lines only, so that there is no line {offset}", where=target.name, hint=looked_at
        )
    last = skipped + len(found.lines)
    total = f"{found.total}" if found.exact else f"more than {found.total}"
    notes = f"[total_lines={total}]" + (" [line ends: CRLF]" if found.crlf else "")
    text = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(found.lines, skipped + 1))
    footer = ""
    if found.cut:
        footer = f"\n[line {last} is too long to be shown; these are its first {len(found.lines[0])} characters]"
    if last < found.total:
        footer += f"\n[{found.total - last} more lines; read on with offset={last + 1}]"
    return f"{target.name}:{skipped + 1}-{last}:\n{notes}\n{text}{footer}"


def open_write_file(declared: Tool, run: Run) -> OpenTools:
    """Open `write_file` for the roots of its declaration."""
    roots = roots_of(declared, run)

    def write_file(path: str, content: str, overwrite: bool = False) -> str:
        def written(old: str | None, target: RootedPath) -> tuple[str, str]:
            if old is not None and not overwrite:
                raise ChatmdError("this file exists already", where=target.name, hint="overwrite=true replaces it")
            new = content if old is None else with_newline(content, TextLines.of(old).newline)
            return new, f"{'Made' if old is None else 'Replaced'} {target.name}: {_lines(new)}."

        return edit_file(roots, path, written)

    return offer(
        "write_file",
        write_file,
        f"Make a text file, or replace all of one. {roots.described()} Folders are made as needed. To change a part of "
        f"a file, use another tool. {IN_ORDER}",
        ("path", "content"),
        path=PATH,
        content=_CONTENT | {"description": "all of the new text"},
        overwrite={"type": "boolean", "description": "true to replace a file that exists; false if left out"},
        read=renaming(file_path="path"),
    )


def open_append_to_file(declared: Tool, run: Run) -> OpenTools:
    """Open `append_to_file` for the roots of its declaration."""
    roots = roots_of(declared, run)

    def append_to_file(path: str, content: str) -> str:
        def appended(old: str | None, target: RootedPath) -> tuple[str, str]:
            newline = TextLines.of(old or "").newline
            before = old if not old or old.endswith("\n") else old + newline
            new = (before or "") + (content if old is None else with_newline(content, newline))
            return new, f"Added {_lines(content)} to {target.name}, which now has {_lines(new)}."

        return edit_file(roots, path, appended)

    return offer(
        "append_to_file",
        append_to_file,
        f"Add text at the end of a text file; a file that does not exist is made. {roots.described()} The text begins "
        f"on a line of its own. {IN_ORDER}",
        ("path", "content"),
        path=PATH,
        content=_CONTENT | {"description": "the text to add"},
        read=renaming(file_path="path"),
    )


def open_find_and_replace(declared: Tool, run: Run) -> OpenTools:
    """Open `find_and_replace` for the roots of its declaration."""
    roots = roots_of(declared, run)

    def find_and_replace(path: str, find: str, replace: str, all: bool = False) -> str:
        def replaced(old: str | None, target: RootedPath) -> tuple[str, str]:
            if old is None:
                raise roots.missing(target)
            return replace_text(old, find, replace, target.name, every=all)

        return edit_file(roots, path, replaced)

    return offer(
        "find_and_replace",
        find_and_replace,
        "Replace a piece of a text file by another. The piece must be there exactly as given, white space included, "
        f"and only once, unless 'all' is true. {roots.described()} {IN_ORDER}",
        ("path", "find", "replace"),
        path=PATH,
        find=_CONTENT | {"minLength": 1, "description": "the text to find; it may have several lines"},
        replace=_CONTENT | {"description": "the text to put in its place"},
        all={"type": "boolean", "description": "true to replace every occurrence; false if left out"},
        read=renaming(file_path="path"),
    )


def replace_text(text: str, find: str, replace: str, name: str, *, every: bool = False) -> tuple[str, str]:
    """Replace one piece of a text, or every such piece; return the new text and a report.

    Line ends in `find` and `replace` are converted to those of the text.

    >>> replace_text("a\\r\\nb\\r\\n", "a\\nb", "c\\nd", "f")
    ('c\\r\\nd\\r\\n', 'Replaced 1 occurrence in f, line 1.')

    Raises:
        ChatmdError: the piece does not occur, or occurs several times.
    """
    if find == replace:
        raise ChatmdError("what is to be found and what is to replace it are the same", where=name)
    newline = TextLines.of(text).newline
    wanted = find if find in text else with_newline(find, newline)
    count = text.count(wanted) if wanted else 0
    if not count:
        raise _not_found(text, find, name)
    found = islice(re.finditer(re.escape(wanted), text), _MOST_PLACES)
    places = [text.count("\n", 0, match.start()) + 1 for match in found]
    if count > 1 and not every:
        raise ChatmdError(
            f"the text occurs {count} times, {_listed(places)}",
            where=name,
            hint="give more of the text around the one that is meant, or all=true",
        )
    done = text.replace(wanted, with_newline(replace, newline))
    return done, f"Replaced {terminal.count(count, 'occurrence')} in {name}, {_listed(places)}."


def edit_file(roots: ToolRoots, path: str, edit: Callable[[str | None, RootedPath], tuple[str, str]]) -> str:
    """Change one file in one step: `edit` gets its text, None if there is no file, and returns a new one and a report.

    Raises:
        FileRefused: the file may not be changed.
        DocumentError: it cannot be read or written, or is not text; it was not changed.
    """
    target = roots.writable(path)
    with lock_files([target]):
        old = read_content(target)
        text = None if old is None else decode_text(old, target.name)
        new, report = edit(text, target)
        data = encode_text(new, target.name)
        if data != old:
            apply_changes([Change(target, old, data)])
    return report


def _not_found(text: str, find: str, name: str) -> ChatmdError:
    lines = TextLines.of(text).texts
    wanted = find.strip("\n").split("\n")
    guess = nearest(wanted, [as_typed(line) for line in lines])
    shown = ""
    if guess is not None:
        there = "\n".join(lines[guess : guess + min(len(wanted), 20)])
        shown = f".\nDid you mean line {guess + 1}? It says:\n{there}\n"
    hint = "give it without the line numbers" if are_numbered(wanted) else "copy it exactly as the file has it"
    return ChatmdError(f"the text is not in the file{shown}", where=name, hint=hint)


def _listed(places: list[int]) -> str:
    more = ", …" if len(places) == _MOST_PLACES else ""
    lines = list(dict.fromkeys(places))
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}{more}"


def _lines(text: str) -> str:
    return terminal.count(len(TextLines.of(text).texts), "line")


# -- The tool that shows images to the model: `import_image` --------------------------------------------------


def open_import_image(declared: Tool, run: Run) -> OpenTools:
    """Open `import_image` for the roots of its declaration."""
    roots, limit = roots_of(declared, run), run.rules.fetch_limit

    def import_image(path: str) -> ToolOutput:
        target = roots.readable(path)
        there = target.real
        with read_errors(target.name, look=LOOK), open_folder(there.parent) as folder, folder.open(there.name) as file:
            data = file.read(limit + 1)
        try:
            image = image_from(data, limit=limit)
        except ChatmdError as error:
            raise ChatmdError(error.message, where=target.name, hint=error.hint) from error
        return ToolOutput(f"{target.name}: {describe_image(image)}", (image,))

    return offer(
        "import_image",
        import_image,
        f"Look at an image file: PNG, JPEG, GIF or WebP. {roots.described()}",
        ("path",),
        path={"type": "string", "minLength": 1, "description": "the image's path"},
    )


# -- `read_skill`: folders with a `SKILL.md`; the model gets their names and descriptions ---------------------


SKILL = "SKILL.md"
_LONGEST = 1024  # characters of a description


def open_read_skill(declared: Tool, run: Run) -> OpenTools:
    """Open `read_skill` for the skills in the roots of its declaration."""
    roots, limit = roots_of(declared, run), declared.max_output or run.rules.max_output
    skills = {path.parent.name: path for path in _skills(roots)}
    if not skills:
        hint = f"a skill is a folder with a {SKILL} below one of roots; looked in {roots.names}"
        raise ChatmdError("there are no skills", where=declared.span.where, hint=hint)
    listed = "".join(f"\n- {name}: {_description(path)}" for name, path in skills.items())

    def read_skill(skill: str, path: str = SKILL, offset: int = 1) -> str:
        return read_file(roots, str(skills[skill].parent / path), int(offset), None, limit)

    return offer(
        "read_skill",
        read_skill,
        f"Read how a kind of task is done, before you begin with one of that kind. There are:{listed}",
        ("skill",),
        skill={"type": "string", "enum": list(skills)},
        path=PATH | {"description": f"another file of that skill, as its text names it; {SKILL} if left out"},
        offset=OFFSET,
    )


def _skills(roots: ToolRoots) -> Iterator[Path]:
    """Iterate over the `SKILL.md` files in the roots and in their folders."""
    for root in roots.roots:
        for path in (root.real / SKILL, *sorted(root.real.glob(f"*/{SKILL}"))):
            if path.is_file():
                yield roots.readable(str(path)).real


def _description(path: Path) -> str:
    """Return the description in the header of a skill.

    Raises:
        ChatmdError: there is none.
    """
    description = " ".join(str(header_values(read_document(path)).get("description") or "").split())
    if not description:
        hint = "begin it with the lines '---', 'name: …', 'description: …', '---'"
        raise ChatmdError("this skill does not say what it is for", where=str(path), hint=hint)
    return description[:_LONGEST]
