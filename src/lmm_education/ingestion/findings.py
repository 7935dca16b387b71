"""What the author of a document should know when it is ingested: `lmm scan` and `lmm ingest` say the same."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from lmm.errors import Finding
from lmm.importing.formats import COUNT_KEY
from lmm.markdown import spans
from lmm.markdown.parse_markdown import header_values
from lmm.notebook.outputs import INLINE_CODE, code_apart
from lmm.notebook.text_types import label_of, lines_naming, title_in, titled_type
from lmm.type_names import is_one_of
from lmm_education.audience import Withholding
from lmm_education.books.chapters import INCLUDED_LINE, BookChapter
from lmm_education.books.dialects import as_shown
from lmm_education.books.rendered_text import NOT_COMPUTED, rendered_text
from lmm_education.encode.bm25 import is_stemmed
from lmm_education.ingestion.block_kinds import kind_of
from lmm_education.ingestion.near_types import as_meant, without_effect
from lmm_education.ingestion.outline import Heading, stored_outline
from lmm_education.ingestion.plan import DocumentFile
from lmm_education.material import PreparedDocument

_PLACEHOLDER = re.compile(r"(?<!\\)\{\{[^{}\n]{1,300}\}\}|\{%[^{}\n]{1,300}%\}")
_MDX_VALUE = re.compile(r"(?<![\\{\w\]$])\{ *[A-Za-z_][\w.]*(?:\([^{}\n]*\))? *\}")
_MDX = re.compile(r"^(?:import\b[^\n]*['\"]|export (?:const|let|default|function)\b)", re.MULTILINE)
_INCLUDES = ("{{#", "8<-", "@include", "<<<")
_MOST = 3  # placeholders in a note


def warnings(document: DocumentFile, prepared: PreparedDocument, kinds: Withholding) -> Iterator[Finding]:
    """Iterate over warnings about a document, given what is stored of it: metadata that are taken for something else or
    passed over, what may be a solution and is shown, and placeholders that are not filled in."""
    types = kinds.lasting

    def warning(line: int, message: str, hint: str) -> Finding:
        return Finding(line, 1, message, hint, "warning")

    for line, what in as_meant(document.text, types)[1]:
        yield warning(line, what, "correct it")
    for line, what, hint in without_effect(document.text, types):
        yield warning(line, what, hint)
    yield from (warning(*each) for each in _like_solutions(document.text, prepared, kinds))
    header = header_values(document.text)
    docid, language = header.get("docid"), header.get("lang")
    if docid is not None and not isinstance(docid, str | int | float):
        yield warning(1, "'docid' is not a text, and was passed over", "remove it; lmm scan writes one")
    if language is not None and not (isinstance(language, str) and is_stemmed(language)):
        yield warning(1, f"'lang: {language}' is not a known language", "words are treated as they are written")
    if not_read := header.get(COUNT_KEY):
        yield warning(1, f"when it was imported, {not_read}", "compare it with its source")
    values = set(_not_computed(document.text, document.chapter))
    hint = "students see no more than that: write the text there"
    hint += "; values of R and Python come with keep_md: true" if values else ""
    others = sorted({*values, *_not_filled_in(prepared, _MDX.search(document.text))})
    if others:
        yield warning(others[0][0], f"placeholders not filled in: {_some(name for _, name in others)}", hint)
    shown = as_shown(document.text) if any(mark in document.text for mark in _INCLUDES) else ""
    missing = [one for one in INCLUDED_LINE.finditer(shown) if one["written"] not in document.chapter.included]
    if missing:
        line = shown.count("\n", 0, missing[0].start("written")) + 1
        names = _some(one["path"] or one["snippet"] for one in missing)
        yield warning(line, f"files not included: {names}", "students do not see this line: add the files")


def _some(names: Iterable[str]) -> str:
    """Return the first of some names, each once, with the number of all if there are more."""
    different = list(dict.fromkeys(names))
    return ", ".join(different[:_MOST]) + f", … ({len(different)})" * (len(different) > _MOST)


def _like_solutions(text: str, prepared: PreparedDocument, kinds: Withholding) -> Iterator[tuple[int, str, str]]:
    """Iterate over lines that begin as a solution does, or fold one away, and are shown to students: in emphasis or
    with a number, or after an exercise."""
    shown, after_exercise = as_shown(text), False
    lines, named = shown.split("\n"), lines_naming(shown, (*kinds.lasting, *kinds.exercises))
    for item in stored_outline(prepared.outline).items if named else ():
        types = item.types
        after_exercise = after_exercise or any(is_one_of(kind, kinds.exercises) for kind in types)
        if isinstance(item, Heading) or any(is_one_of(kind, kinds.lasting) for kind in types) or "text" in types:
            continue
        for line in named[bisect_left(named, item.lines.first) : bisect_right(named, item.lines.last)]:
            written, title = lines[line - 1], title_in(lines[line - 1])
            label = label_of(written, (*kinds.lasting, *kinds.exercises))
            kind = titled_type(title, kinds.lasting) or (label.type if label else "")
            after_exercise = after_exercise or is_one_of(kind, kinds.exercises)
            is_one = title or after_exercise or (label and (label.is_emphasized or label.words[-1:].isdigit()))
            if not kind or is_one_of(kind, kinds.exercises) or not is_one or kind_of(item.text) == "code":
                continue
            begins = f"this is titled '{title}'" if title else f"this begins with '{label.words if label else ''}'"
            yield line, f"{begins}, and is shown to students", f"if it is a solution, write 'type: {kind}' above it"


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
