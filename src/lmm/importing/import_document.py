"""Importing files as markdown: `import_file` checks, reads in a separate process, and writes."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from lmm import extras
from lmm.disk import files
from lmm.disk.files import check_writable, shown, title_of
from lmm.disk.folder import Folder, check_named
from lmm.disk.watching import signature
from lmm.errors import ConfigError, FileReadError, FileWriteError, LmmError
from lmm.importing.formats import COUNT_KEY, Format, format_of, suffix_of
from lmm.importing.imported import Context, Imported, compose, image_name, with_true_pictures
from lmm.importing.markdown_text import plain
from lmm.importing.pandoc import find_pandoc
from lmm.importing.word_count import count_words
from lmm.markdown.inline import SCHEME
from lmm.markdown.spans import spans

MEMORY = 3_000_000_000  # limit of memory for reading a file, in bytes
TIMEOUT = 300.0  # seconds
_MARKDOWN = (".md", ".markdown")
RESULT = "result"
"""The file in the temporary folder with the result, or with the message and the hint of an error."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The outcome of an import: the markdown file, its text, its images; `notes` say what was left out.

    `source` is the file's name, or the URL.
    """

    source: str
    output: Path
    text: str
    images: tuple[Path, ...]
    notes: tuple[str, ...]


def import_file(
    path: Path | str,
    output: Path | str | None = None,
    *,
    force: bool = False,
    timeout: float = TIMEOUT,
) -> ImportReport:
    """Convert a file of any of the `FORMATS` to a markdown file, with its images in a folder beside it.

    `output` is a file or a folder (see `output_of`); by default, the markdown is written beside the source, under its
    name. Images go to a folder ``NAME_files``. Existing files are replaced only with `force`. `timeout` is in seconds.

    Raises:
        ConfigError: the format is unknown, or the package that reads it is not installed.
        FileReadError: the file cannot be read, is encrypted, has no text, or takes too much time or memory.
        FileWriteError: something with the name of the output exists, or it cannot be written.
    """
    source = check_named(Path(path))
    format = format_of(source.name)
    target = output_of(source, output)
    check_installed(format)
    check_source(source, format)
    check_target(target, force)
    here, there = target.resolve().parent, source.resolve().parent
    prefix = "" if here == there else Path(os.path.relpath(there, here)).as_posix()
    document = read_source(source, format, prefix=prefix, timeout=timeout)
    report = write_document(target, document, source=shown(source.name), name=title_of(source), force=force)
    return replace(report, notes=(*report.notes, *_missing_pictures(report)))


def _missing_pictures(report: ImportReport) -> Iterator[str]:
    """Iterate over at most one note: the local pictures that the text links to but that are not there."""
    linked = dict.fromkeys(span.target for span in spans(report.text) if span.kind == "image")
    paths = {target: plain(unquote(re.split(r"[?#]", target)[0])) for target in linked if not SCHEME.match(target)}
    missing = [target for target, path in paths.items() if path and not signature(report.output.parent / path)]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield f"not found: {', '.join(missing[:5])}{more} (the links stay)"


def output_of(source: Path, output: Path | str | None) -> Path:
    """Return the path of the markdown file that an import writes; a text that ends in a slash names a folder, which
    need not exist.

    Raises:
        ConfigError: the source is a folder without a name, the output would not be markdown, or its folder is missing.
    """
    if not source.name:
        raise ConfigError("this is a folder, not a file", where=str(source), hint="name the files in it")
    if output is None:
        return source.with_suffix(".md")
    is_folder, output = str(output).endswith(("/", os.sep)), Path(output)
    if is_folder or output.is_dir():
        return output / f"{source.stem}.md"
    if output.suffix.lower() not in _MARKDOWN:  # R Markdown and Quarto run code in it
        raise ConfigError("the output is markdown", where=str(output), hint="end its name in .md, or in / for a folder")
    if not output.parent.is_dir():
        raise ConfigError("there is no such folder", where=str(output.parent), hint=f"mkdir -p {output.parent}")
    return output


def check_installed(format: Format) -> None:
    """Check that the packages and the program for a format are installed.

    Raises:
        ConfigError: one is missing.
    """
    extras.check_installed("import", f"{format.name} files need", *format.needs, kind=ConfigError)
    if format.reader:
        find_pandoc(format.reader)


def check_source(source: Path, format: Format) -> None:
    """Check that a file exists, is readable and not too large.

    Raises:
        FileReadError: it does not, or is not.
    """
    with files.folder_of(source).open(source.name) as file:
        size = os.fstat(file.fileno()).st_size
    if size > format.most:
        message = f"it has {size / 1e6:,.0f} MB; the limit for {format.name} is {format.most / 1e6:,.0f}"
        raise FileReadError(message, where=str(source), hint="import it in parts")


def check_target(target: Path, force: bool) -> None:
    """Check that an output does not exist, unless `force` is set, and can be written; make the folder for it.

    Raises:
        FileWriteError: it exists, or cannot be written.
    """
    if target.is_dir():
        raise FileWriteError("a folder has this name", where=str(target), hint="name another file with -o")
    if target.exists() and not force:
        raise _exists(target)
    Folder(target.parent).make()
    check_writable(target)


def _exists(target: Path) -> FileWriteError:
    return FileWriteError("this file exists", where=str(target), hint="--force replaces it, -o names another one")


# -- reading ---------------------------------------------------------------------------------------------


def read_source(
    source: Path,
    format: Format,
    *,
    prefix: str = "",
    online: bool = False,
    timeout: float = TIMEOUT,
) -> Imported:
    """Read a file in a separate process; `prefix` and `online` are those of `Context`.

    Files come from anywhere, and the libraries that read them are written in C: if a file makes one crash or hang,
    only that process is lost.

    Raises:
        FileReadError: it cannot be read, is encrypted, has no text, or takes too much time or memory.
    """
    with tempfile.TemporaryDirectory(prefix="lmm-import-") as name:
        folder = Path(name)
        program = find_pandoc(format.reader).program if format.reader else ""
        context: dict[str, Any] = {"name": source.name, "kind": format.name, "reader": format.reader, "pandoc": program}
        context |= {"prefix": prefix, "online": online, "timeout": timeout}
        task = {"path": str(source.resolve()), "module": format.module, "context": context, "folder": name,
                "memory": MEMORY}  # fmt: skip
        # -P: no module is imported from the current folder, which may come from anywhere
        code = "import sys; from lmm.importing.import_document import read_task; sys.exit(read_task())"
        command = [sys.executable, "-P", "-c", code]
        try:
            done = subprocess.run(
                command, input=json.dumps(task).encode(), capture_output=True, timeout=timeout + 5 * bool(program)
            )
        except subprocess.TimeoutExpired as error:
            hint = "--timeout SECONDS allows more; or import it in parts"
            raise FileReadError(f"reading it took more than {timeout:g} s", where=str(source), hint=hint) from error
        try:
            read = msgspec.msgpack.decode((folder / RESULT).read_bytes(), type=Imported | tuple[str, str])
        except (OSError, msgspec.DecodeError) as error:
            raise _crashed(source, format, done) from error
    if isinstance(read, Imported):
        return read
    raise FileReadError(read[0], where=str(source), hint=read[1])


def _crashed(source: Path, format: Format, done: subprocess.CompletedProcess[bytes]) -> LmmError:
    how = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"exit code {done.returncode}"
    cause = "has a bug"
    if done.returncode < 0:  # PDFium ends like this when it runs out of memory
        how, cause = f"signal {-done.returncode}", f"takes more than {MEMORY / 1e9:g} GB of memory to read"
    hint = f"the file is damaged, malicious, or {cause}"
    return FileReadError(f"the reader of {format.name} files crashed: {how}", where=str(source), hint=hint)


# -- writing ---------------------------------------------------------------------------------------------


def write_document(target: Path, document: Imported, *, source: str, name: str, force: bool) -> ImportReport:
    """Write the images, then the markdown, so that its links are never broken.

    Raises:
        FileWriteError: an image with different content exists, or a file cannot be written.
    """
    folder, below = f"{target.stem}_files", Folder(target.parent)
    pictures = {f"{folder}/{image_name(i, each)}": each.data for i, each in enumerate(document.images) if each.suffix}
    for path, data in pictures.items():
        if below.stat(path) is not None and not force and below.read(path) != data:
            raise _exists(target.parent / path)
    text = compose(document, source=source, name=name, folder=folder)
    for path, data in pictures.items():
        below.write(path, data)
    files.replace(target, text)
    return ImportReport(source, target, text, tuple(target.parent / path for path in pictures), document.notes)


# -- the reading process ---------------------------------------------------------------------------


def read_task() -> int:
    """Read the file named on standard input, and write the result to a folder; return 0, or 1 if it is an error."""
    task = json.loads(sys.stdin.buffer.read())
    with contextlib.suppress(ImportError, ValueError, OSError):  # if the system supports it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (task["memory"],) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(4_000)  # trees are at most 150 deep, and a level takes a few calls
    result: Imported | tuple[str, str]
    try:
        data = Path(task["path"]).read_bytes()
        read = importlib.import_module(task["module"]).read
        context = Context(**task["context"])
        result = _with_count(with_true_pictures(read(data, context)), data, context.name)
    except LmmError as error:
        result = error.message, error.hint
    except OSError as error:
        result = f"cannot be read: {error.strerror or error}", ""
    except (MemoryError, RecursionError):
        hint = "the file is damaged, malicious or too large: import it in parts"
        result = "reading it takes too much memory", hint
    Path(task["folder"], RESULT).write_bytes(msgspec.msgpack.encode(result))
    return int(isinstance(result, tuple))


def _with_count(document: Imported, data: bytes, name: str) -> Imported:
    """Compare the words of the file with those of the document, and add what was not read to its notes and header."""
    written = "\n".join([document.body, document.title, *map(str, document.values.values())])
    try:
        count = count_words(data, suffix_of(name), written, document.left_out)
    except (LmmError, RecursionError) as error:
        return replace(document, notes=(*document.notes, f"its words were not counted: {error}"))
    lost = {COUNT_KEY: f"{count.not_read:,} of {count.words:,} words were not read"} if count.not_read else {}
    return replace(document, notes=(*document.notes, *count.notes), values={**document.values, **lost})
