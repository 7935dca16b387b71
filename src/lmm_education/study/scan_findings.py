"""What `lmm scan` and `lmm status` say of a document as a part of its course."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lmm.config_tables import Config
from lmm.errors import Finding, LmmError
from lmm.markdown import metadata
from lmm.markdown.blocks import HeaderBlock
from lmm_education.books.chapters import Books
from lmm_education.ingestion.findings import warnings
from lmm_education.ingestion.plan import read_file
from lmm_education.ingestion.run import prepare
from lmm_education.ingestion.source_files import SourceFile
from lmm_education.options import ExportOptions
from lmm_education.parts import CourseParts
from lmm_education.study.notes import cleaner_for


def findings(path: Path, text: str, header: HeaderBlock) -> Iterator[Finding]:
    """Iterate over what `lmm ingest` would refuse or warn of, and over warnings about material of special types that
    would be knitted into the notes, and an embedding model that does not count."""
    values = header.values()
    yield from _of_ingestion(path)

    def warning(key: str, message: str, hint: str) -> Finding:
        return Finding(header.body_line + (metadata.key_line(header.body, key) or 1) - 1, 1, message, hint, "warning")

    if "output" in values and "knit" not in values:
        with contextlib.suppress(LmmError):  # scan itself reports what cannot be exported
            left_out = cleaner_for(ExportOptions(edits="old"), path)(text, where=str(path)).left_out
            types = ", ".join(f"{type} {count}" for type, count in Counter(item.type for item in left_out).items())
            message = f"knitted as it is, material that is not for the notes stays in them: {types}"
            hint = "lmm export writes clean notes, and a 'knit:' in the header does so on every Knit"
            yield from (warning("output", message, hint) for _ in left_out[:1])
    if message := other_embedding(path, header):
        hint = "set it under [embedding] in config.toml, then: lmm ingest --again"
        yield warning("model", message, hint)


def _of_ingestion(path: Path) -> Iterator[Finding]:
    """Iterate over the error with which a document is refused, or the warnings about it."""
    try:
        with CourseParts.open(beside=[path]) as course:
            read = read_file(SourceFile(path, str(path), named=False), "", Books())
            if not isinstance(read, str):
                yield from warnings(read, prepare(read, course), course.settings.withholding)
    except LmmError as error:
        place = re.match(r":(\d+)(?::(\d+))?\Z", error.where.removeprefix(str(path)))
        if place is not None:  # not of the configuration, which the commands of the course report
            yield Finding(int(place[1]), int(place[2] or 1), f"lmm ingest refuses it: {error.message}", error.hint)


def other_embedding(path: Path, header: HeaderBlock, config: Config | None = None) -> str:
    """Return a sentence if the course of a document has another embedding model than its header names, else nothing."""
    try:
        with CourseParts.open(beside=[path], config=config) as course:
            return course.other_embedding(header.values(), path)
    except LmmError:  # the configuration, which the commands of the course report
        return ""
