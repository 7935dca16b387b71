"""What the author of a document should know when it is ingested: `lmm scan` and `lmm ingest` say the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lmm.errors import Finding
from lmm.importing.formats import COUNT_KEY
from lmm.markdown import spans
from lmm.markdown.parse_markdown import header_values
from lmm.notebook.outputs import INLINE_CODE, code_apart
from lmm_education.books.chapters import INCLUDED_LINE, BookChapter
from lmm_education.books.dialects import as_shown
from lmm_education.books.rendered_text import NOT_COMPUTED, rendered_text
from lmm_education.encode.bm25 import is_stemmed
from lmm_education.ingestion.near_types import as_meant, without_effect
from lmm_education.ingestion.plan import DocumentFile
from lmm_education.material import PreparedDocument

_PLACEHOLDER = re.compile(r"(?<!\\)\{\{[^{}\n]{1,300}\}\}|\{%[^{}\n]{1,300}%\}")
_MDX_VALUE = re.compile(r"(?<![\\{\w\]$])\{ *[A-Za-z_][\w.]*(?:\([^{}\n]*\))? *\}")
_MDX = re.compile(r"^(?:import\b[^\n]*['\"]|export (?:const|let|default|function)\b)", re.MULTILINE)
_MOST = 3  # placeholders in a note


def warnings(document: DocumentFile, prepared: PreparedDocument, types: Collection[str]) -> Iterator[Finding]:
    """Iterate over warnings about a document, given what is stored of it: metadata that are taken for something else or
    passed over, and placeholders that are not filled in."""

    def warning(line: int, message: str, hint: str) -> Finding:
        return Finding(line, 1, message, hint, "warning")

    for line, what in as_meant(document.text, types)[1]:
        yield warning(line, what, "correct it")
    for line, what, hint in without_effect(document.text, types):
        yield warning(line, what, hint)
    header = header_values(document.text)
    docid, language = header.get("docid"), header.get("lang")
    if docid is not None and not isinstance(docid, str | int | float):
        yield warning(1, "'docid' is not a text, and was passed over", "lmm scan writes one")
    if language is not None and not (isinstance(language, str) and is_stemmed(language)):
        yield warning(1, f"'lang: {language}' is not a known language", "words are treated as they are written")
    if not_read := header.get(COUNT_KEY):
        yield warning(1, f"when it was imported, {not_read}", "compare it with its source")
    values = set(_not_computed(document.text, document.chapter))
    hint = "students see no more than that: write the text there"
    hint += "; values of R and Python come with keep_md: true" if values else ""
    files: dict[int, list[str]] = {}
    others: dict[int, list[str]] = {}
    for line, written in sorted({*values, *_not_filled_in(prepared, _MDX.search(document.text))}):
        others.setdefault(line, []).append(written)
    shown = as_shown(document.text) if "{{#" in document.text or "8<-" in document.text else ""
    for match in INCLUDED_LINE.finditer(shown):
        if match["written"] not in document.chapter.included:
            line = shown.count("\n", 0, match.start("written")) + 1
            files.setdefault(line, []).append(match["path"] or match["snippet"])
    for what, found, advice in (
        ("placeholders not filled in", others, hint),
        ("files not included", files, "students do not see this line: add the files"),
    ):
        names = list(dict.fromkeys(name for line in found.values() for name in line))
        if names:
            shown = ", ".join(names[:_MOST]) + f", … ({len(names)})" * (len(names) > _MOST)
            yield warning(min(found), f"{what}: {shown}", advice)


def _not_computed(text: str, chapter: BookChapter) -> Iterator[tuple[int, str]]:
    """Iterate over inline code whose value is not known, each with its line."""
    line = 1
    for is_code, piece in code_apart(text) if "`" in text else ():
        for match in INLINE_CODE.finditer(piece if not is_code else ""):
            if rendered_text(match[0], chapter) == NOT_COMPUTED:
                yield line + piece.count("\n", 0, match.start()), match[0]
        line += piece.count("\n")


def _not_filled_in(prepared: PreparedDocument, is_mdx: object) -> Iterator[tuple[int, str]]:
    """Iterate over what other programs fill in, but is stored as it is written: inclusions, variables, shortcodes; each
    with its line."""
    for item in prepared.outline:
        text = bare = item.get("text", "")
        if not ("{" in text or "8<-" in text):
            continue
        found = list[tuple[int, str]]()
        for span in spans(text, in_list=True):
            written = text[span.start : span.end]
            if span.kind in ("code", "code_block", "math", "comment"):
                bare = bare[: span.start] + " " * len(written) + bare[span.end :]
            if span.kind == "shortcode" and not written.startswith("{{#"):
                found.append((span.start, written))
        for pattern in (_PLACEHOLDER, _MDX_VALUE) if is_mdx else (_PLACEHOLDER,):
            found += [(match.start(), match[0]) for match in pattern.finditer(bare)]
        for at, written in found:
            yield item["lines"][0] + text.count("\n", 0, at), written
