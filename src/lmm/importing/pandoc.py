"""Converting to markdown with Pandoc: it reads a file, or the HTML of another reader; pandoc.lua tidies its output.

Pandoc is looked for in the usual places: on the path, in RStudio, in Quarto; the extra ``import`` installs one. It runs
in its sandbox, so that no file or address named in a document is opened, with limits on memory and time.
"""

from __future__ import annotations

import email
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmm.errors import ConfigError, FileReadError
from lmm.extras import install_command
from lmm.importing.archive import Archive, local
from lmm.importing.beamer import open_frames
from lmm.importing.elements import HARM
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage
from lmm.importing.markdown_text import defused
from lmm.importing.office_text import open_text, open_word
from lmm.markdown.blocks import HeaderBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text

OLDEST = (3, 0)  # older versions lose texts in Word's shapes, and write figures as paragraphs
_HEAP, _EMBEDDED = "2g", "an embedded document"
_FILTER = Path(__file__).with_suffix(".lua")
# Pipe tables, no HTML, no attributes; quotes and dashes as they are. Without raw_tex Pandoc writes the text \(x\) as
# \\x\\.
_MARKDOWN = (
    "markdown-simple_tables-multiline_tables+pipe_tables-raw_html-raw_attribute-link_attributes"
    "-inline_code_attributes-smart-auto_identifiers"
)
_FIXED = (
    "/opt/quarto/bin/tools",
    "/usr/lib/rstudio/resources/app/bin/quarto/bin/tools",
    "/usr/lib/rstudio/bin/quarto/bin/tools",
    "/usr/lib/rstudio-server/bin/quarto/bin/tools",
    "/Applications/RStudio.app/Contents/Resources/app/quarto/bin/tools",
    "/Applications/RStudio.app/Contents/Resources/app/bin/quarto/bin/tools",
    "/Applications/quarto/bin/tools",
    r"C:\Program Files\RStudio\resources\app\bin\quarto\bin\tools",
    r"C:\Program Files\Quarto\bin\tools",
)


# -- finding Pandoc --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Pandoc:
    """An installed Pandoc: its version, such as (3, 9), and the path of its program."""

    version: tuple[int, ...]
    program: str

    def __str__(self) -> str:
        return f"Pandoc {'.'.join(map(str, self.version))} ({self.program})"


def find_pandoc(reader: str) -> Pandoc:
    """Find the newest Pandoc on this machine, which must read a format (by Pandoc's name for it).

    Raises:
        ConfigError: there is none, or it is too old.
    """
    name = "pandoc.exe" if sys.platform == "win32" else "pandoc"
    programs = {str(path.resolve()) for folder in _folders() if (path := folder / name).is_file()}
    versions = {program: re.match(r"pandoc(?:\.exe)? ([\d.]+)", _said(program, "--version")) for program in programs}
    found = [Pandoc(tuple(map(int, match[1].split("."))), name) for name, match in versions.items() if match]
    hint = f"{install_command('import')} installs it; RStudio and Quarto include it; or see pandoc.org/installing"
    if not found:
        raise ConfigError("Pandoc is needed to write markdown, and was not found", hint=hint)
    newest = max(found)
    if newest.version < OLDEST:
        raise ConfigError(f"{newest} is too old: {'.'.join(map(str, OLDEST))} and later will do", hint=hint)
    if reader not in _said(newest.program, "--list-input-formats").split():
        raise ConfigError(f"{newest} is too old to read {reader}: 3.8.3 and later can", hint=hint)
    return newest


def _folders() -> Iterator[Path]:
    """Iterate over the folders where Pandoc may be; relative entries of the path are ignored."""
    if "RSTUDIO_PANDOC" in os.environ:  # set by RStudio, as rmarkdown reads it
        yield Path(os.environ["RSTUDIO_PANDOC"])
    for program in ("pandoc", "quarto"):
        found = shutil.which(program)
        if found and Path(found).is_absolute():
            folder = Path(found).resolve().parent
            yield from [folder] if program == "pandoc" else _with_machines(folder / "tools")
    yield Path.home() / "opt" / "pandoc"
    for name in _FIXED:
        yield from _with_machines(Path(name))
    package = importlib.util.find_spec("pypandoc")
    if package is not None and package.origin:
        yield Path(package.origin).parent / "files"


def _with_machines(folder: Path) -> list[Path]:
    return [folder, folder / "x86_64", folder / "aarch64"]


@lru_cache
def _said(program: str, *options: str) -> str:
    try:
        done = subprocess.run([program, *options], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


# -- reading ---------------------------------------------------------------------------------------------


def read(data: bytes, context: Context) -> Imported:
    """Convert a file in a format that Pandoc reads to markdown.

    Raises:
        FileReadError: it cannot be read, is empty, or takes too much time or memory.
    """
    values, hidden = dict[str, Any](), dict[str, str]()
    notes, chunks = tuple[str, ...](), list[bytes]()
    if context.reader in ("docx", "odt"):
        with Archive(data, kind=context.kind) as archive:
            if context.reader == "docx":
                changed, notes, chunks = open_word(archive)
            else:
                changed, hidden = open_text(archive)
            data, values = archive.bounded((), changed), office_properties(archive)
    else:
        data = as_utf8(data)
        data = open_frames(data.decode()).encode() if context.reader == "latex" else data
        data = _rich_text(data) if context.reader == "rtf" else data
    document = convert(data, context)
    for number, chunk in enumerate(chunks):
        document = _with_embedded(document, f"lmmchunk{number}.", chunk, context)
    if context.reader == "rtf":
        document = replace(document, body=_renumbered(document.body, data))
    return replace(with_title(document, values), notes=notes + document.notes, left_out=hidden)


def _with_embedded(document: Imported, place: str, data: bytes, context: Context) -> Imported:
    """Put a document that is embedded in a Word file (Word, RTF, a web page or an archive of one) in its place."""
    if place not in document.body or context.kind == _EMBEDDED:
        return document
    reader = "docx" if data.startswith(b"PK") else "rtf" if data.startswith(b"{\\rtf") else ""
    if reader:
        inner = read(data, replace(context, reader=reader, kind=_EMBEDDED))
    else:
        mail = email.message_from_bytes(data)
        pages = [part.get_payload(decode=True) for part in mail.walk() if part.get_content_type() == "text/html"]
        inner = convert_html(as_utf8(next(filter(None, pages), data)).decode(), context)
    count = len(document.images)
    body = re.sub(rf"(?<={IMAGE})\d+", lambda number: str(int(number[0]) + count), inner.body)
    return replace(document, body=document.body.replace(place, body.strip()), images=(*document.images, *inner.images))


def with_title(document: Imported, values: Mapping[str, Any] = {}, *, pictures: bool = True) -> Imported:
    """Return a document with title and language from its header, else from other `values`.

    Raises:
        FileReadError: there is no text in it; `pictures` alone may do.
    """
    if not (document.body if pictures else re.sub(r"!\[\]\(\S*\)", "", document.body)).strip():
        hint = "text in pictures and drawings cannot be imported: print it to PDF and run ocrmypdf"
        raise FileReadError("there is no text in this document", hint=hint)
    rest = {**values, **document.values}
    title, language = (str(rest.pop(key, "") or "") for key in ("title", "lang"))
    return replace(document, title=title, language=language, values=rest)


def _rich_text(data: bytes) -> bytes:
    """Return RTF with what Pandoc does not read in the way it does: headings by their styles, lowered texts, and, as
    LibreOffice writes them, numbered headings and footnotes."""
    named = re.finditer(rb"\{\\s(\d+)\b[^{}]*?\bheading (\d);\}", data[: 1 << 20], re.IGNORECASE)
    levels = {match[1]: int(match[2]) - 1 for match in named}

    def with_level(match: re.Match[bytes]) -> bytes:
        return match[0] + (b"\\outlinelevel%d " % levels[match[1]] if match[1] in levels else b"")

    data = re.sub(rb"\\s(\d{1,4})(?!\d)(?![^{}]{0,1000};\})", with_level, data) if levels else data
    data = re.sub(rb"(\\outlinelevel\d[^{}]{0,1000})\{\\listtext\b[^{}]{0,1000}\}\\ls\d+", rb"\1", data)
    data = data.replace(rb"{\*\footnote", rb"{\footnote")
    data = re.sub(rb"\\dn[1-9]\d*", rb"\\sub", data)
    data = re.sub(rb"\{[^{}]*\\deleted\b(?!0)[^{}]*\}", b"", data)
    return re.sub(rb"(\\u-?\d+) ?\?", rb"\1\\'3f", data)  # a letter after a substitute would be taken for a part of it


def _renumbered(markdown: str, data: bytes) -> str:
    """Return the markdown of RTF with the numbers of its list items: Pandoc begins anew after an inner list."""
    shown = [match[1].decode() for match in re.finditer(rb"\\listtext\b[^{}]*?[ \t](\d+)\.\\tab", data)]
    item, numbers = re.compile(r"^( *)\d+(?=\. )", re.MULTILINE), iter(shown)
    is_same = len(item.findall(markdown)) == len(shown)
    return item.sub(lambda match: match[1] + next(numbers), markdown) if is_same else markdown


def convert_html(html: str, context: Context) -> Imported:
    """Convert HTML to markdown, keeping the ids of headings that are linked to."""
    return convert(html.encode("utf-8", "replace"), context, reader="html-auto_identifiers")


def convert(data: bytes, context: Context, *, reader: str = "", **more: str) -> Imported:
    """Run Pandoc on a text or a file; return its markdown without any metadata, the `values` of its header, its images,
    and Pandoc's warnings as notes. `more` are environment variables for the filter.

    Raises:
        FileReadError: it cannot be read, or takes too much time or memory.
    """
    with tempfile.TemporaryDirectory(prefix="lmm-pandoc-") as folder:
        environment = {**os.environ, "LMM_FOLDER": folder, "LMM_PREFIX": context.prefix, **more}
        markdown, warnings = _run(data, context, reader, environment)
        images = [path for path in Path(folder).iterdir() if path.stem.isdigit()]
        taken = tuple(ImportedImage(path.read_bytes()) for path in sorted(images, key=lambda path: int(path.stem)))
    blocks = parse_markdown_text(markdown)
    values: dict[str, Any] = {}
    if blocks and isinstance(blocks[0], HeaderBlock):
        values, blocks = blocks[0].values(), blocks[1:]
    body = defused(serialize(blocks)).strip("\n")
    return Imported(f"{body}\n" if body else "", images=taken, notes=warnings, values=values)


def _run(data: bytes, context: Context, reader: str, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Run Pandoc; return the markdown, and its warnings."""
    program = context.pandoc or find_pandoc("html").program
    command = [program, "+RTS", f"-M{_HEAP}", "-RTS", "--sandbox", "-s", "-L", str(_FILTER), "--wrap=none",
               "--markdown-headings=atx", "-f", reader or context.reader, "-t", _MARKDOWN]  # fmt: skip
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=context.timeout, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        hint = "--timeout SECONDS allows more; or import it in parts"
        raise FileReadError(f"reading it took more than {context.timeout:g} s", hint=hint) from error
    told = done.stderr.decode("utf-8", "replace").strip()
    if re.search(r"heap|memory", told, re.IGNORECASE) and done.returncode:
        raise MemoryError
    if done.returncode:
        raise _refused(told, context)
    warnings = re.findall(r"^\[WARNING\] (.*)", told, re.MULTILINE)
    return done.stdout.decode("utf-8", "replace"), tuple(warnings[:5])


def _refused(told: str, context: Context) -> FileReadError:
    """Convert Pandoc's message about a file that it cannot read to an error, with the place in the file."""
    if (ours := re.search(r"\blmm: (.*)", told)) is not None:
        return FileReadError(ours[1], hint=HARM)
    hint = f"is it {context.kind}? If so, it is damaged: open it in its program and save it again"
    if "not found in resource path" in told:
        hint = "included files are not read: put their text into this file"
    place = re.search(r"\(line (\d+), column (\d+)\):?\s*([^\n]*)", told)
    if place is not None:
        message = f"Pandoc cannot read line {place[1]}, from column {place[2]} on: {place[3][:100]}"
        return FileReadError(message, hint="close what is opened there, or put a backslash before the character")
    return FileReadError(f"Pandoc cannot read it: {' '.join(told.split())[:200]}", hint=hint)


def as_utf8(data: bytes) -> bytes:
    """Convert a text to UTF-8 for Pandoc; text that is neither UTF-8 nor UTF-16 is read as cp1252."""
    try:
        return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig").encode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace").encode()


# -- properties that Pandoc ignores ----------------------------------------------------------------------


def office_properties(archive: Archive) -> dict[str, Any]:
    """Return title and language from an office file's properties; the language else from Word's default style."""
    values: dict[str, Any] = {}
    for name in {"docProps/core.xml", "meta.xml"} & archive.names:
        for node in archive.xml(name).iter():
            key = {"title": "title", "language": "lang"}.get(local(node.tag), "")
            if key and (node.text or "").strip():
                values[key] = (node.text or "").strip()
    if "lang" not in values and "word/styles.xml" in archive.names:
        defaults = (node for node in archive.xml("word/styles.xml").iter() if local(node.tag) == "docDefaults")
        declared = (node for part in defaults for node in part.iter() if local(node.tag) == "lang")
        named = (text for node in declared for key, text in node.items() if local(key) == "val")
        values["lang"] = next(named, "")
    return values
