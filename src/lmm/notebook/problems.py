"""Problems of a document, present or imminent, each with its place and a way to correct it."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import yaml

from lmm.config import load_settings
from lmm.errors import ConfigError, Finding, MetadataError, ModelNotFound, Untrusted
from lmm.markdown import metadata, yaml_core
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.lookalikes import CONFLICT, RESOLVE, conflicts, find_lookalikes
from lmm.markdown.parse_markdown import FENCE, div_ends, header_of, unclosed_construct
from lmm.markdown.spans import spans
from lmm.markdown.units import misread_as_captions, texts_of
from lmm.models.chat import check_chat, refused_settings
from lmm.notebook.chat_log import logged_line, logged_warnings
from lmm.notebook.edit_warnings import excerpt
from lmm.notebook.edits import damaged_edits, find_edits, orphaned_marks
from lmm.notebook.header import missing_keys
from lmm.notebook.near_misses import find_near_misses
from lmm.notebook.pending_prompts import stale_replies

_PANDOC_TAB = 4
_AS_TEXT = "Pandoc reads this metadata, with any replies in it, as text"
_RESOLVE = "lmm accept or lmm reject"
_OF_THE_DOCUMENT = frozenset(
    {
        *("title", "subtitle", "author", "date", "lang", "dir", "abstract", "bibliography", "csl", "nocite", "toc"),
        *("documentclass", "header-includes", "include-before", "include-after", "output", "format", "references"),
    }
)


def _warning(line: int, message: str, hint: str) -> Finding:
    return Finding(line, 1, message, hint, "warning")


def find_problems(blocks: Sequence[Block]) -> list[Finding]:
    """Find all problems of a document, in the order of its lines.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> [(p.line, p.hint) for p in find_problems(parse_markdown_text("---\\ntype: x\\nsee: a: b\\n---\\n"))]
    [(3, 'quote it: see: "a: b"')]
    """
    found = unread(blocks)
    lines = [miss.line for miss in found]
    for before, block in zip((None, *blocks), blocks, strict=False):
        if isinstance(block, MetadataBlock):
            found += _metadata_problems(block, before)
        elif isinstance(block, TextBlock) and not _is_within(lines, block):
            for at, mark in filter(None, [unclosed_construct(block.content)]):
                line, column = block.line + block.content.count("\n", 0, at), at - block.content.rfind("\n", 0, at)
                what, hint = f"'{mark}' is never closed", "close it; until then it is plain text"
                found.append(Finding(line, column, what, hint, "warning"))
    texts = texts_of(blocks)
    for block in (blocks[at + 1] for at in misread_as_captions(texts) if at + 1 < len(blocks)):
        if isinstance(block, MetadataBlock) and block.content.rstrip().endswith("---"):
            message = f"{_AS_TEXT}: the definition before it as a caption"
            found.append(_warning(block.line, message, "end it with ... in place of its last ---"))
    ends = div_ends(texts)
    for at, text in enumerate(texts):
        if text and at not in ends and (fence := FENCE.match(text, metadata.prefix_end(text))) and fence["opens"]:
            what = f"this div never closes: ::: {fence['opens'].strip()}"
            found.append(_warning(blocks[at].line, what, "put a line ':::' below its last line"))
    found += _edit_problems(blocks)
    found += stale_problems(blocks)
    return sorted(found, key=lambda p: (p.line, p.column))


def stale_problems(blocks: Sequence[Block]) -> Iterator[Finding]:
    """Iterate over warnings about replies whose text has changed since."""
    for at, exchange in stale_replies(blocks):
        message = f"answered before the text changed: {excerpt(exchange.prompt)}"
        line = blocks[at].line + logged_line(blocks[at], exchange)
        yield _warning(line, message, "lmm messages --stale asks again")


def unasked_prompts(blocks: Sequence[Block]) -> list[Finding]:
    """Find prompts that are not asked, because they are empty or not read, and all other metadata that are not read."""
    found = unread(blocks)
    for block in blocks:
        if isinstance(block, MetadataBlock):
            found += _empty_prompts(block)
    return sorted(found, key=lambda p: (p.line, p.column))


def unread(blocks: Sequence[Block]) -> list[Finding]:
    """Find metadata that are not read, and are text therefore, and rules that Pandoc takes for metadata."""
    lookalikes = find_lookalikes(blocks, unsure=True)
    found = find_near_misses(blocks, lookalikes)
    known = {miss.line for miss in found}
    for one in lookalikes:
        if one.controls and not (one.has_prompts and one.line in known):
            what = f"this sets '{min(one.controls)}', but cannot be read: {one.reason}"
            found.append(Finding(one.line, one.column, what, one.hint))
        elif one.is_sure and one.line not in known:
            what = f"this looks like metadata, but is text: {one.reason}"
            found.append(Finding(one.line, one.column, what, one.hint, "error" if one.header else "warning"))
    known |= {miss.line for miss in found if CONFLICT in miss.message}
    found += [Finding(line, 1, CONFLICT, RESOLVE) for line in conflicts(serialize(blocks)) if line not in known]
    lines = sorted(miss.line for miss in found)
    errors = (block for block in blocks if isinstance(block, ErrorBlock) and not _is_within(lines, block))
    asking = "there is a question in a block that cannot be read: "
    for error in errors:
        what = asking * bool(metadata.find_prompts(error.source)) + error.reason
        found.append(Finding(error.error_line or error.line, error.error_column, what, error.hint))
    for block in blocks:
        if isinstance(block, MetadataBlock) and _SLIDE.match(block.body) and block.values():  # a heading is a comment
            count = len(block.body.strip("\n").split("\n"))
            what = f"{count} line{'s' * (count > 1)} between --- {'are' if count > 1 else 'is'} metadata, not text"
            found.append(_warning(block.line, what, "put a blank line below the first ---"))
    if not any(isinstance(block, HeadingBlock) for block in blocks):
        under = [block for block in blocks if isinstance(block, TextBlock) and _UNDERLINED.match(block.content)]
        if len(under) > 1:
            what = f"{len(under)} underlined headings are text here, and the document has no other"
            hint = "write # or ## before them: pandoc -t markdown --markdown-headings=atx"
            found.append(_warning(under[0].line, what, hint))
    found += _rules_taken_for_metadata(blocks)
    return sorted(found, key=lambda p: (p.line, p.column))


_SLIDE = re.compile(r"^#{1,6}[ \t]+\S", re.MULTILINE)
_UNDERLINED = re.compile(r"(?:^|\n)[ ]{0,3}\S[^\n]*\n[ ]{0,3}(?:={3,}|-{3,})[ \t]*\r?(?:\n|\Z)")


def _is_within(lines: Sequence[int], block: Block) -> bool:
    """Return whether a block contains one of these sorted lines, whose problems are already reported."""
    at = bisect_left(lines, block.line)
    return at < len(lines) and lines[at] <= block.line + block.content.count("\n")


def header_gaps(blocks: Sequence[Block], *, chapter: bool = False) -> list[Finding]:
    """Return a warning for the keys that `lmm scan` would add to the header of a document, or of a `chapter`."""
    missing = " and no ".join(missing_keys(blocks, chapter=chapter))
    what = f"the header has no {missing}" if header_of(blocks) else f"there is no header, and so no {missing}"
    return [_warning(1, what, "lmm scan adds it")] if missing else []


def _edit_problems(blocks: Sequence[Block]) -> Iterator[Finding]:
    for line in damaged_edits(blocks):
        hint = "restore them, or correct the text and delete '~edit_'"
        yield Finding(line, 1, "the marks of this edit are missing", hint)
    for line in orphaned_marks(blocks):
        yield _warning(line, "there is no edit for this mark", "delete the line")
    for edit in find_edits(blocks):
        losses = edit.losses
        for warning in edit.warnings:
            hint = "lmm accept would lose text: correct the new text, or lmm reject" if warning in losses else _RESOLVE
            yield _warning(edit.line, warning, hint)


_RULE = re.compile(r"---[ \t]*\r?\n(?![ \t]*(?:\r?\n|\Z))")
_STOP = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)


def _rules_taken_for_metadata(blocks: Sequence[Block]) -> Iterator[Finding]:
    """Iterate over rules that Pandoc and Quarto take for the start of metadata, as far as the next line ``---``.

    Pandoc stops where these are not YAML, and leaves them out where they are; else the rule is one.
    """
    text, at, read = serialize(blocks), 0, 0
    for before, block in zip([None, *blocks], blocks, strict=False):
        begins, at = at + len(block.around()[0]), at + len(block.source)
        if isinstance(block, TextBlock) and (heading := _UNDERLINED.match(block.content)):
            begins += heading.end()
        underlines = isinstance(before, HeadingBlock) and not _is_finished(before)
        if begins < read or underlines or not _RULE.match(text, begins):
            continue
        stop = _STOP.search(text, text.index("\n", begins) + 1)
        if stop is None:
            return
        read = stop.end() if isinstance(block, MetadataBlock) else read
        is_metadata = isinstance(block, MetadataBlock) and (block.prompts or block.values() or not block.body.strip())
        if is_metadata or isinstance(block, ErrorBlock):
            continue
        body = text[text.index("\n", begins) + 1 : stop.start()]
        first, last = text.count("\n", 0, begins) + 1, text.count("\n", 0, stop.start()) + 1
        try:
            if isinstance(yaml_core.compose(body.expandtabs(_PANDOC_TAB)), yaml.ScalarNode | yaml.SequenceNode):
                continue
            what, read = "leaves them out", stop.end()
        except MetadataError as error:
            what = f"stops: {error.message} (line {first + error.line})"
        message = f"Pandoc takes the lines from this rule to line {last} for metadata, and {what}"
        yield _warning(first, message, "put a blank line below the rule, or write *** for it")


def _metadata_problems(block: MetadataBlock, before: Block | None) -> Iterator[Finding]:
    body, first = block.body, block.body_line
    for name, line in metadata.duplicate_keys(body):
        yield Finding(first + line - 1, 1, f"'{name}' occurs a second time; the last one counts", "delete one of them")
    for name, line in metadata.boolean_assignments(body):
        message = f"'{name} = …' is read here, but not by other programs"
        yield _warning(first + line - 1, message, f"write '{name}: true'")
    if metadata.is_in_braces(body):
        yield _warning(first, metadata.IN_BRACES, metadata.NO_BRACES)
    as_text = _shown_by_pandoc(block, before)
    if as_text is not None:
        yield as_text
    elif not isinstance(block, HeaderBlock):
        yield from _keys_of_the_document(block)
    yield from _misspelt(block)
    yield from _prompt_problems(block, body, first)
    for value in logged_warnings(body):
        yield Finding(first + value.line - 1, value.column, value.text, "ask for the rest: +: go on", "warning")
    for value in metadata.run_when_knit(body):
        message = f"knitr or Quarto would run the code in this '{value.path[-1]}', even inside metadata"
        hint = "lmm scan --fix rewrites it so that it does not run"
        yield Finding(first + value.line - 1, value.column, message, hint)
    # A block that Pandoc shows as text is not refused, except if it contains both a list and a prompt.
    if block.prompts and (as_text is None or _is_list(block)):
        yield from _refused_by_pandoc(block, body, first)
    if isinstance(block, HeaderBlock):
        yield from _header_problems(block, body, first)


CONTROLS = {"type": ("exercise", "solution"), "skip": ("true", "false"), "frozen": ("true", "false")}
"""Keys that say who may read a text and what models may change, with the values that we know ourselves."""


def _misspelt(block: MetadataBlock) -> Iterator[Finding]:
    """Iterate over near misses of `CONTROLS` and their values; a course may have types of its own."""
    for scalar in metadata.scalars(block.body):
        key, value = metadata.bare_key(scalar.path[0]), scalar.text.strip().casefold()
        if len(scalar.path) > 1 or scalar.path[0].startswith("~"):
            continue
        for name, values in CONTROLS.items():
            known = value in values or (name != "type" and value in ("yes", "no", "on", "off"))
            intended = value if known else next((word for word in values if metadata.is_slip(value, word)), "")
            if not intended or not metadata.is_slip(key, name) or (key == name and (known or value == f"{intended}s")):
                continue
            written = scalar.text if key == name else scalar.path[0]
            hint = f"did you mean '{name}: {intended}'?"
            yield _warning(block.body_line + scalar.line - 1, f"'{written}' means nothing here", hint)


def _keys_of_the_document(block: MetadataBlock) -> Iterator[Finding]:
    for key in sorted(_OF_THE_DOCUMENT.intersection(block.values())):
        line = block.body_line + (metadata.key_line(block.body, key) or 1) - 1
        message = f"Pandoc takes this '{key}' for that of the whole document"
        yield _warning(line, message, f"give the key another name, such as '{key}-here'")


def _shown_by_pandoc(block: MetadataBlock, before: Block | None) -> Finding | None:
    """Return a warning if Pandoc reads `block` as text: we read more blocks as metadata than it does."""
    lines = block.content.split("\n")
    if "#" in lines[0]:
        line, hint = block.line, "delete the comment after its first ---"
    elif "#" in lines[-1]:
        line, hint = block.line + len(lines) - 1, "delete the comment after its last line"
    elif before is not None and not _is_finished(before):
        line, hint = block.line, "put a blank line before it"
    elif _is_list(block):
        line, hint = block.body_line, "write 'key: value' lines, without the '- '"
    else:
        return None
    return _warning(line, _AS_TEXT, hint)


def _is_finished(before: Block) -> bool:
    """Return whether Pandoc recognises metadata directly after this block."""
    if not isinstance(before, HeadingBlock | TextBlock) or before.trailing.count("\n") > 1:
        return True
    text = before.content.rstrip(" \t\r")
    last = spans(text)[-1:] if isinstance(before, TextBlock) else []
    if not last or last[0].end < len(text):
        return False
    if last[0].kind == "comment":  # of several lines
        return text.startswith("<!--") and "\n" in text
    return last[0].kind == "code_block" and last[0].target != "indented"


def _is_list(block: MetadataBlock) -> bool:
    return isinstance(yaml_core.compose(metadata.as_yaml(block.body)), yaml.SequenceNode)


def _empty_prompts(block: MetadataBlock) -> Iterator[Finding]:
    for prompt in block.prompts:
        if not prompt.text:
            line = block.body_line + prompt.line - 1
            yield _warning(line, f"'{prompt.spelling}:' asks nothing", "write the question after the colon")


def _prompt_problems(block: MetadataBlock, body: str, first: int) -> Iterator[Finding]:
    yield from _empty_prompts(block)
    spellings = set()
    for prompt in block.prompts:
        line = first + prompt.line - 1
        if yaml_core.runs_in_knitr(body[prompt.start : prompt.end]):
            message = "knitr or Quarto would run the code in this prompt, even inside metadata"
            yield _warning(line, message, "answer it before knitting: lmm messages")
        if isinstance(block, HeaderBlock) and prompt.spelling in spellings:
            message = f"R Markdown cannot read a header with two '{prompt.spelling}:' until they are answered"
            yield _warning(line, message, "answer them before knitting: lmm messages")
        spellings.add(prompt.spelling)


def _refused_by_pandoc(block: MetadataBlock, body: str, first: int) -> Iterator[Finding]:
    try:
        yaml_core.to_value(yaml_core.compose(body.expandtabs(_PANDOC_TAB)))  # keys must be text
    except MetadataError as error:
        refused = [p for p in block.prompts if p.line <= error.line] or block.prompts
        message = "Pandoc cannot read the document until this prompt is answered"
        hint = f"answer it, or write '{refused[-1].spelling}: |' and the prompt on an indented line below"
        yield Finding(first + error.line - 1, error.column, message, hint, "warning")


def _header_problems(block: HeaderBlock, body: str, first: int) -> Iterator[Finding]:
    line = first + (metadata.key_line(body, "model") or 1) - 1
    try:
        settings = load_settings(env={}, header=block.values())
        for tier in (getattr(settings, name) for name in ("major", "minor", "aux") if settings.is_set(name, "model")):
            check_chat(tier)
            for name in refused_settings(tier):
                yield _warning(line, f"{tier.model} does not take '{name}'", "remove it; else it is left out")
    except (ConfigError, ModelNotFound) as error:
        if not (
            isinstance(error, Untrusted) and error.message.startswith("Recorded/")
        ):  # whose paths depend on a folder
            yield Finding(line, 1, error.message, error.hint)
    for key in missing_keys([block]):
        try:
            block.with_key(key, "added")
        except MetadataError as error:
            yield _warning(block.line, f"'{key}' cannot be added to this header: {error.message}", error.hint)


def with_fixes(text: str, problems: Iterable[Finding]) -> tuple[str, int]:
    """Return a document with the lines corrected for which that is certain, and their number.

    >>> with_fixes("---\\nQuery: why\\n---\\n", [Finding(2, 1, "…", "…", fix="query: why")])
    ('---\\nquery: why\\n---\\n', 1)
    """
    lines = text.split("\n")
    fixes = {problem.line: problem.fix for problem in problems if problem.fix is not None}
    for line, fix in fixes.items():
        lines[line - 1] = fix + "\r" * lines[line - 1].endswith("\r")
    return "\n".join(lines), len(fixes)


# -- code that knitr would run ---------------------------------------------------------------------


def without_running_code(blocks: Sequence[Block]) -> tuple[list[Block], int]:
    """Rewrite replies and other values of models so that knitr runs no code in them; return the blocks and how many.

    The values stay the same.
    """
    fixed, count = list(blocks), 0
    for i, block in enumerate(blocks):
        if isinstance(block, MetadataBlock):
            with contextlib.suppress(MetadataError):  # impossible without changing a value
                body = metadata.without_running_code(block.body)
                if body != block.body:
                    fixed[i] = block.with_body(body)
                    count += len(metadata.run_when_knit(block.body)) - len(metadata.run_when_knit(body))
    return fixed, count
