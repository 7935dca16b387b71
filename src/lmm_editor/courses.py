"""What the course has, for a document that is being written: links and quotations with their places."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from lmm.errors import LmmError
from lmm.markdown.blocks import HeadingBlock
from lmm_education import Course
from lmm_education.material import Passage

_MOST = 20


def search(path: Path | None, question: str) -> list[dict[str, Any]]:
    """The passages that fit a question best, as the editor inserts them into the document at `path`.

    Raises:
        LmmError: there is no store, or the question cannot be asked of it.
    """
    with Course.open(path.parent if path is not None else None) as course:
        found = course.search(question, limit=_MOST)
        folder = path.parent if path is not None else Path.cwd()
        return [_insertable(hit, os.path.relpath(course.root / hit.place.file, folder.resolve())) for hit in found.hits]


def stored_documents(path: Path | None) -> dict[str, str]:
    """The titles of what is in the course of the document at `path`, by docid; none where there is no course."""
    try:
        with Course.open(path.parent if path is not None else None) as course:
            return {one.id: one.title for one in course.documents()}
    except LmmError:
        return {}


def _insertable(hit: Passage, file: str) -> dict[str, Any]:
    place = hit.place
    title = place.headings[-1] if place.headings else place.file
    anchor = f"#{HeadingBlock.make(1, title).anchor}" if place.headings else ""
    link = f"[{title}]({quote(PurePath(file).as_posix())}{anchor})"
    quotation = "".join(f"> {line}".rstrip() + "\n" for line in hit.text.strip().splitlines())
    return {
        "title": title,
        "place": str(place),
        "text": hit.text,
        "link": link,
        "quotation": f"{quotation}>\n> {link}, lines {place.lines}\n",
    }
